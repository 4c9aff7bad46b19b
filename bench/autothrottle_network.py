"""Produce latency and the time of a move on a network that is full: no throttle, autothrottle, and fixed throttles.

Run, as root and with Debian's iproute2 and prometheus (make parts): PYTHONPATH=. python bench/autothrottle_network.py
[--size 500MB] [--rates 6 8 9 10 12 16] [--reserve 40%] [--log FILE]; TMPDIR=/dev/shm keeps the disk out of it. Prints
one JSON object.

In a network namespace of its own, `tc tbf` lets the loopback carry 25 MB/s. Four brokers: three send their partitions
to the fourth, and clients write 2.5 MB/s to one of the three, which is copied to another. Everything passes the same
loopback, so each byte of clients counts twice: `--capacity` is what both leave, 25 - 2 x 2.5 = 20 MB/s, as no broker's
own traffic tells that. The objective of `--p99` is 100 ms: what brokers measure of requests hardly tells of a full
network. On this one queue, latencies rise long before it is full, hence a reserve of 40 %. Other work on the machine
shows in every p99: let it be idle. Followers fetch in pieces that are as small as the network is slow
(`SMALL_FETCHES`).

The move begins without any throttle, as other tools begin it, and the pacer, which runs already, finds it within 5 s.
Whatever the throttle, brokers let the bytes of a whole quota window through when it begins; so latencies are given of
the whole move, and without its first 20 s (`settled`), which count for the goal. Times are whole. The best fixed
throttle, which is set before the move begins, is the one with the shortest move among those whose p99 is at most 1.2
times that without a move. Throttles are per broker: only that of the receiver binds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

from machine import shape

from kafkakit.core.quantities import parse_size
from kafkakit.sandbox import lifecycle
from kafkakit.sandbox.decide.spec import ClientSecurity, MetadataMode, build_spec
from kafkakit.wiring import this_machine
from tests.integration.conftest import Home, SandboxCluster, SilentReporter
from tests.rigs.capped_network import (
    SteadyClients,
    await_copies,
    begin_copies,
    cap_loopback,
    prepare,
    remove_copies,
    run_inside,
    throttle_copies,
)
from tests.rigs.prometheus import broker_metrics, prometheus_server

MB = 1_000_000
NETWORK, WRITTEN = 25 * MB, 5 * MB // 2
CAPACITY = NETWORK - 2 * WRITTEN
QUEUE_MS = 50
OBJECTIVE = "100ms"
WARM_S, QUIET_S, SETTLE_S, REST_S = 60, 40, 20, 10
WORST = 1.2
SLOWEST = 1.3


class Phases:
    """What clients saw in each part of the bench."""

    def __init__(self, clients: SteadyClients) -> None:
        self.clients = clients
        self.found: dict[str, dict[str, float]] = {}

    def time(self, name: str, work: Callable[[], object]) -> dict[str, float]:
        began = time.monotonic()
        work()
        ended = time.monotonic()
        seen = {
            f"{part}p{share}_ms": self.clients.percentile_ms(share / 100, begin, ended)
            for part, begin in (("", began), ("settled_", min(ended - 1, began + SETTLE_S)))
            for share in (50, 99)
        }
        self.found[name] = {"seconds": round(ended - began, 1), **seen, "load_1m": round(os.getloadavg()[0], 1)}
        print(f"{name}: {self.found[name]}", file=sys.stderr)
        return self.found[name]


@contextmanager
def a_cluster() -> Iterator[SandboxCluster]:
    folder = Path(tempfile.mkdtemp(prefix="kafkakit-bench-"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkakit"
    home, machine = Home(folder=folder, cache=cache), this_machine(cache)
    spec = build_spec(
        name="bench", brokers=4, racks=1, log_dirs=(1,), kafka=None, mode=MetadataMode.KRAFT, secure=ClientSecurity.NONE
    )
    store = home.store("bench")
    try:
        state, _ = lifecycle.start_sandbox(machine, store, spec, SilentReporter())
        yield SandboxCluster(machine=machine, store=store, home=home, state=state)
    finally:
        lifecycle.stop_sandbox(machine, store)


def broker_p99_ms(exporter: str) -> float:
    """The slowest broker's own p99 of produce requests."""
    with urlopen(f"http://{exporter}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return max(float(line.split()[-1]) for line in lines if "requestmetrics_totaltimems{" in line)


def bench(size: int, rates: list[int], reserve: str, log: str) -> dict[str, object]:
    with ExitStack() as stack:
        cluster = stack.enter_context(a_cluster())
        admin = stack.enter_context(closing(cluster.open_admin()))
        prepare(cluster, admin, size)
        cap_loopback(NETWORK, queue_ms=QUEUE_MS)
        exporter = stack.enter_context(broker_metrics(cluster.state))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(prometheus_server(folder, exporter))
        clients = stack.enter_context(SteadyClients(cluster.bootstrap_servers, WRITTEN).running())
        phases = Phases(clients)

        def move() -> None:
            begin_copies(admin)
            await_copies(admin)

        def rest() -> None:
            throttle_copies(admin, None)
            remove_copies(admin)
            time.sleep(REST_S)

        phases.time("warming up", lambda: time.sleep(WARM_S))
        quiet = phases.time("no move", lambda: time.sleep(QUIET_S))
        before = broker_p99_ms(exporter)
        words = [sys.executable, "-m", "kafkakit", "--profile", cluster.name, "autothrottle", "run", "--law", "slo",
                 "--capacity", f"{CAPACITY}B", "--p99", OBJECTIVE, "--reserve", reserve, "--prometheus-url", server.url,
                 "--metrics-window", "10s", "--interval", "4s", "--sample", "1s", "--listen", "none"]  # fmt: skip
        with open(log, "w") as lines, subprocess.Popen(words, env=cluster.env, stdout=lines, stderr=lines) as pacer:
            time.sleep(8)  # it leads
            paced = phases.time("autothrottle", move)
            time.sleep(15)  # it removes its throttles
            pacer.terminate()
        after = broker_p99_ms(exporter)
        rest()
        for rate in rates:
            throttle_copies(admin, rate * MB)
            time.sleep(1)
            phases.time(f"fixed {rate} MB/s", move)
            rest()
        phases.time("no throttle", move)
    fixed = {name: f for name, f in phases.found.items() if name.startswith("fixed")}
    good = {name: f for name, f in fixed.items() if f["settled_p99_ms"] <= WORST * quiet["p99_ms"]}
    best = min(good, key=lambda name: good[name]["seconds"], default=None)
    return {
        "bench": "autothrottle_network",
        "bytes": size,
        "reserve": reserve,
        "phases": phases.found,
        "p99_at_brokers_ms": {"no move": before, "autothrottle": after},
        "best_fixed": best,
        "p99_over_no_move": round(paced["settled_p99_ms"] / quiet["p99_ms"], 2),
        "time_over_best_fixed": None if best is None else round(paced["seconds"] / good[best]["seconds"], 2),
        "asked": {"p99_over_no_move": WORST, "time_over_best_fixed": SLOWEST},
        "not_acknowledged": clients.failed + clients.sent - len(clients.latencies),
        "machine": shape(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="500MB")
    parser.add_argument("--rates", type=int, nargs="+", default=[6, 8, 9, 10, 12, 16])
    parser.add_argument("--reserve", default="40%")
    parser.add_argument("--log", default=os.devnull, help="what the pacer prints")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        raise SystemExit(run_inside([*sys.argv, "--inside"]).returncode)
    print(json.dumps(bench(parse_size(options.size), options.rates, options.reserve, options.log), indent=2))


if __name__ == "__main__":
    main()
