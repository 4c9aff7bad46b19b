"""Figures of the Assigner: placement, the moves after a death, reactions, and a simulated fleet.

Run: python bench/streams_assigner.py [--part placement|reaction|fleet] [--streams N] [--clusters N] [--workers N].
`placement` solves 10,000 partitions on 500 unlike workers, then again after each of some deaths. `reaction` runs an
Assigner and real sessions of workers over a control store in memory, and measures from the end of a worker, and of a
cluster, to the new grants and to the judgement. `fleet` measures ticks of the Assigner's decisions for a fleet of many
clusters and streams, without a store. Prints one JSON object.
"""

import argparse
import json
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

from machine import shape

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import TryLaterError
from kafkakit.core.lease import Holder
from kafkakit.streams.assigner.act.leader import AssignerLoop
from kafkakit.streams.assigner.decide.assignment import FleetShape, SimulatedFleet
from kafkakit.streams.assigner.decide.placing import place, pools_of, problem_of
from kafkakit.streams.client.assigned_member import GroupShare, WorkerOptions, WorkSession
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore
from tests.rigs.assigner import route
from tests.rigs.assigner_loop import FakeClients, Papers, assigner

LIMIT_S = 60.0


def placement() -> dict[str, object]:
    """10,000 partitions of 100 streams on 500 workers of three sizes in three zones, with rates of a wide range."""
    fleet = SimulatedFleet(FleetShape(clusters=4, streams=100, partitions=100, workers=500))
    pool = pools_of(fleet.workers)[0]
    found = problem_of(pool, fleet.routes, fleet.workers, frozenset(), {}, fleet.facts)
    problem = found.problem
    began_s = time.perf_counter()
    answer = place(problem)
    first_s = time.perf_counter() - began_s
    solved, resolved, parts = [], [], []
    for dead in range(0, 500, 10):
        capacity = problem.capacity.copy()
        capacity[dead] = 0
        began_s = time.perf_counter()
        built = problem_of(pool, fleet.routes, fleet.workers, frozenset(), {}, fleet.facts).problem
        again = place(replace(built, owner=answer.owner, capacity=capacity), may_balance=False)
        resolved.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        place(replace(problem, owner=answer.owner, capacity=capacity))
        solved.append(time.perf_counter() - began_s)
        share = int((answer.owner == dead).sum())
        moved = int((again.owner != answer.owner).sum())
        parts.append(moved / share if share else 0.0)
    return {
        "partitions": len(problem.load),
        "workers": len(problem.capacity),
        "first_solve_s": round(first_s, 3),
        "resolve_with_building_s": {"median": round(statistics.median(resolved), 3), "max": round(max(resolved), 3)},
        "resolve_with_balance_s": {"median": round(statistics.median(solved), 3), "max": round(max(solved), 3)},
        "deaths": len(parts),
        "moves_per_share": {"mean": round(statistics.mean(parts), 3), "max": round(max(parts), 3)},
    }


def until(check: Callable[[], object]) -> float:
    """Seconds until it holds."""
    began_s = time.perf_counter()
    while not check():
        if time.perf_counter() - began_s > LIMIT_S:
            raise AssertionError("it takes too long")
        time.sleep(0.002)
    return time.perf_counter() - began_s


class HangingCluster(FakeCluster):
    """A cluster that may hang, with its connections open, or refuse."""

    def __init__(self) -> None:
        super().__init__({1: None}, cluster_id="a-id")
        self.hangs, self.refuses = threading.Event(), False

    def cluster(self) -> object:  # type: ignore[override]
        if self.hangs.is_set():
            time.sleep(30)
        if self.refuses:
            raise TryLaterError("refused")
        return super().cluster()


def reaction(rounds: int = 8, count: int = 20) -> dict[str, object]:
    """Workers of default options; one is cut off from the store as SIGKILL on another host would."""
    deaths: list[float] = []
    outages: dict[str, list[float]] = {"refuses": [], "hangs": []}
    with ExitStack() as closing:
        store, clock, cluster = FakeControlStore(), SystemClock(), HangingCluster()
        papers = Papers(store)
        papers.put_route(route(200))
        loop: AssignerLoop = assigner(store, clock, open_cluster=lambda _: nullcontext(FakeClients(admin=cluster)))
        ended = threading.Event()
        thread = threading.Thread(target=lambda: [loop.tick() or time.sleep(0.2) for _ in iter(ended.is_set, True)])
        sessions = []
        for number in range(count):
            holder = Holder(host=f"h{number}", user="u", command="worker", pid=1)
            session = WorkSession(store, holder, clock, lambda n, i=number: i.to_bytes(n, "big"), WorkerOptions())
            GroupShare(session, "orders", "g", None, lambda: 1).begin()
            sessions.append(session)
            closing.callback(session.close)
        thread.start()
        closing.callback(loop.close)
        closing.callback(thread.join)
        closing.callback(ended.set)

        def granted(alive: int) -> bool:
            found = [session.grant for session in sessions[:alive] if session.grant is not None]
            return sum(len(t.partitions) for grant in found for t in grant.topics) == 200

        until(lambda: granted(count))
        for number in range(rounds):
            time.sleep(0.37)
            victim = sessions[count - 1 - number]
            victim._store = _NoStore()  # type: ignore[assignment]
            deaths.append(until(lambda n=number: granted(count - 1 - n)))
        for kind, found in outages.items():
            for _ in range(rounds // 2):
                until(lambda: not loop._health["a-id"].watches or _holds_not(loop))
                time.sleep(0.53)
                cluster.refuses = kind == "refuses"
                if kind == "hangs":
                    cluster.hangs.set()
                found.append(until(lambda: not _holds_not(loop)))
                cluster.refuses = False
                cluster.hangs.clear()
    return {
        "workers": count,
        "worker_dead_to_granted_s": _spread(deaths),
        "cluster_refuses_to_unreachable_s": _spread(outages["refuses"]),
        "cluster_hangs_to_unreachable_s": _spread(outages["hangs"]),
    }


def _holds_not(loop: AssignerLoop) -> bool:
    from kafkakit.streams.assigner.health import HealthReason

    found = loop._health["a-id"].watches.get(HealthReason.UNREACHABLE)
    return found is None or not found.holds


class _NoStore:
    def __getattr__(self, name: str) -> object:
        raise TryLaterError("cut off")


def _spread(found: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(found), 2), "max": round(max(found), 2)}


def fleet(clusters: int, streams: int, workers: int) -> dict[str, object]:
    """Ticks of the decisions: nothing changes, a worker dies, a cluster dies."""
    began_s = time.process_time()
    pools = max(1, workers // 4)
    found = SimulatedFleet(
        FleetShape(clusters=clusters, streams=streams, partitions=4, workers=workers, pools=pools, zones=3)
    )
    made_s, base = time.process_time() - began_s, _memory()

    def timed(call: Callable[[], object]) -> float:
        """CPU time: other work on the machine does not count, and all of it is one thread's."""
        began_s = time.process_time()
        call()
        return round(time.process_time() - began_s, 3)

    first_s = timed(found.step)
    found.step()
    idle = [timed(found.step) for _ in range(5)]
    deaths = []
    for _ in range(5):
        slot = next(iter(found.workers))
        del found.workers[slot]
        deaths.append(timed(lambda slot=slot: (found.assignment.drop(slot), found.step())))
        found.step()
    cluster_s = timed(lambda: found.fail_over(0))
    return {
        "clusters": clusters,
        "streams": streams,
        "partitions": 4 * streams,
        "workers": workers,
        "pools": pools,
        "made_s": round(made_s, 1),
        "first_tick_cpu_s": first_s,
        "idle_tick_cpu_s": statistics.median(idle),
        "tick_after_a_death_cpu_s": statistics.median(deaths),
        "cluster_dead_settled_cpu_s": cluster_s,
        "memory_mib": {"routes_and_workers": base, "with_grants": _memory()},
    }


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("placement", "reaction", "fleet"))
    parser.add_argument("--clusters", type=int, default=1_000)
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2_000)
    given = parser.parse_args()
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "placement": placement,
        "reaction": reaction,
        "fleet": lambda: fleet(given.clusters, given.streams, given.workers),
    }
    chosen = {name: work for name, work in parts.items() if given.part in (None, name)}
    print(json.dumps({"machine": shape(), **{name: work() for name, work in chosen.items()}}, indent=1))


if __name__ == "__main__":
    main()
