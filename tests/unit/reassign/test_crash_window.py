"""A run of more than 30 steps, cut before and after each of its effects, then resumed, aborted or rolled back.

It swaps two nearly full brokers over a spare, gives partitions one new copy at a time, and runs under throttles,
with rates and list entries of another process around. What must hold at every moment is watched at every moment.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.progress import RoundState
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.work import StepKind
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.reassign import Harness, Killed

MB = 1_000_000
LIMITS = ScheduleLimits(into_each=2, out_each=3, cluster=8, one_replica_at_a_time=True)
FULL = 100 * MB
SWAP = {("x", 0): (2,), ("x", 1): (2,), ("y", 0): (1,), ("y", 1): (1,)}
WIDE = {("t", n): (5, 6) for n in range(12)}
REST = {("u", 0): (4, 3), ("u", 1): (3,), ("u", 2): (3, 4, 5)}
TARGETS = SWAP | WIDE | REST
Lists = dict[tuple[str, int], tuple[int, ...]]


def make_cluster() -> FakeCluster:
    cluster = FakeCluster({b: f"r{b % 3}" for b in range(1, 7)}, dirs_per_broker=2, line_rate=40 * MB)
    for broker in (1, 2):
        cluster.brokers[broker].dirs = dict.fromkeys(cluster.brokers[broker].dirs, FULL)
    for name, broker in (("x", 1), ("y", 2)):
        cluster.add_topic(name, {0: (broker,), 1: (broker,)}, size_bytes=80 * MB)
        for number, path in enumerate(sorted(cluster.brokers[broker].dirs)):
            cluster.topics[name].partitions[number].dirs[broker] = path
    cluster.add_topic("t", dict.fromkeys(range(12), (3, 4)), size_bytes=20 * MB, configs={FOLLOWER_LIST: "0:5,3:9"})
    cluster.add_topic("u", {0: (3, 4), 1: (3, 4), 2: (3, 4)}, size_bytes=5 * MB, configs={LEADER_LIST: "2:3"})
    cluster.brokers[3].configs[LEADER_RATE] = "777777"
    cluster.brokers[6].configs[FOLLOWER_RATE] = "8880000"
    cluster.brokers[2].configs["log.cleaner.threads"] = "2"
    return cluster


def make_bench() -> Harness:
    cluster = make_cluster()
    return Harness(cluster, make_plan(cluster, TARGETS))


class Guard:
    """Looks at the cluster whenever time passes or something is about to change."""

    def __init__(self, bench: Harness) -> None:
        self.bench = bench
        self.before = bench.lists()
        self.configs = bench.configs()
        self.looks = 0

    def watch(self) -> None:
        self.bench.clock.on_sleep.append(lambda _: self.look())
        self.bench.cluster.before_call.append(lambda *_: self.look())

    def look(self) -> None:
        self.looks += 1
        cluster = self.bench.cluster
        used: dict[tuple[int, str], int] = {}
        for key, partition in cluster.replication.partitions():
            least = min(len(self.before[key]), len(TARGETS.get((key.topic, key.partition), self.before[key])))
            full = [b for b in partition.replicas if partition.copied.get(b, 0) >= partition.size]
            assert len(full) >= least, f"{key} has {full}, at least {least} copies are due"
            assert set(partition.isr) >= set(full[:1])
            for broker, path in partition.dirs.items():
                used[broker, path] = used.get((broker, path), 0) + partition.copied.get(broker, 0)
        for (broker, path), count in used.items():
            assert count <= LIMITS.limit_of(cluster.brokers[broker].dirs[path]), f"{broker}:{path} holds {count}"
        self.check_foreign()

    def check_foreign(self) -> None:
        """What others set is there, word for word."""
        topics = self.bench.cluster.topics
        assert {"0:5", "3:9"} <= set(topics["t"].configs[FOLLOWER_LIST].split(","))
        assert "2:3" in topics["u"].configs[LEADER_LIST].split(",")
        assert self.bench.cluster.brokers[2].configs["log.cleaner.threads"] == "2"

    def check_journal(self) -> None:
        """What the journal says is what the cluster shows, or what was about to be done to it."""
        bench = self.bench
        if not bench.file.data.count(b"\n"):
            assert bench.lists() == self.before
            assert bench.configs() == self.configs
            return
        verify_journal(bench.file.data, torn_ok=True, settled=False)
        state = bench.journal().state
        for move in bench.cluster.reassignments():
            assert move.target in state.trail[TopicPartition(move.topic, move.partition)]
        moving = {(m.topic, m.partition) for m in bench.cluster.reassignments()}
        for place, now in bench.lists().items():
            known = (self.before[place], TARGETS.get(place), *state.trail.get(TopicPartition(*place), ()))
            assert place in moving or now in known or state.cancelled
        for name, now_set in bench.configs().items():
            kind, _, owner = name.partition(" ")
            earlier = self.configs[name]
            for key, value in now_set.items():
                if value == earlier.get(key):
                    continue
                held = [
                    k for k in (*state.rates, *state.entries) if (k.kind.value, k.name, k.key) == (kind, owner, key)
                ]
                assert held, f"{name} {key} = {value} is nowhere in the journal"
                if held[0].kind is ResourceKind.TOPIC:
                    ours = set(value.split(",")) - set(earlier.get(key, "").split(","))
                    assert ours <= set(state.entries[held[0]])
                else:
                    assert value in state.rates[held[0]].ours


def apply(bench: Harness) -> Any:
    return bench.apply(rate=20 * MB, limits=LIMITS)


def resume(bench: Harness) -> Any:
    # An operator who finds nothing begun begins.
    return bench.run(limits=LIMITS).resume() if bench.journal().state.runs else apply(bench)


def undo(bench: Harness) -> Any:
    return bench.rollback(limits=LIMITS)


def stop(bench: Harness) -> Any:
    return bench.run(limits=LIMITS).abort()


def cut(bench: Harness, run: Callable[[Harness], Any], number: int, *, after: bool) -> None:
    """`kill -9` at the effect with that number, before or right after it is made."""
    seen = iter(range(100_000))

    def hook(name: str, _: Any) -> None:
        if next(seen) == number:
            if not after:
                raise Killed
            bench.cluster.fail_next(name, Killed(), after_effect=True)

    bench.cluster.before_call.append(hook)
    with pytest.raises(Killed):
        run(bench)
    bench.cluster.before_call.remove(hook)
    bench.cluster._failures.clear()


def effects_of(run: Callable[[Harness], Any], prepare: Callable[[Harness], Any] = lambda _: None) -> int:
    bench = make_bench()
    prepare(bench)
    before = len(bench.cluster.calls)
    assert run(bench).ok
    return len(bench.cluster.calls) - before


def check_end(bench: Harness, guard: Guard, lists: Lists) -> None:
    assert bench.lists() == lists
    assert bench.configs() == guard.configs
    assert not bench.cluster.reassignments()
    assert all(p.leader == p.replicas[0] for t in bench.cluster.topics.values() for p in t.partitions.values())
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def check_aborted(bench: Harness, guard: Guard) -> None:
    """A valid cluster: nothing moves, each list is one that we know, in its order, and no throttle is left."""
    assert not bench.cluster.reassignments()
    assert bench.configs() == guard.configs
    trail = bench.journal().state.trail
    for key, now in bench.lists().items():
        assert now in (guard.before[key], TARGETS.get(key), *trail.get(TopicPartition(*key), ()))
    if bench.file.data:
        verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_the_undisturbed_run_has_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    boards: list[RoundState] = []
    bench = make_bench()
    guard = Guard(bench)
    guard.watch()
    run = bench.run(rate=20 * MB, limits=LIMITS)
    carry = run._window.carry

    def spy(round_state: RoundState, *rest: Any) -> RoundState:
        boards.append(round_state)
        return carry(round_state, *rest)

    monkeypatch.setattr(run._window, "carry", spy)
    assert run.apply().ok
    (round_state,) = boards
    kinds = {s.kind for s in round_state.schedule.steps}
    assert len(round_state.schedule.steps) >= 30
    assert {StepKind.PART, StepKind.DETOUR} <= kinds
    assert guard.looks > 50
    check_end(bench, guard, guard.before | TARGETS)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("finish", [resume, stop, undo])
def test_apply_cut_at_each_effect_ends_well(finish: Callable[[Harness], Any], after: bool) -> None:
    for number in range(effects_of(apply)):
        bench = make_bench()
        guard = Guard(bench)
        guard.watch()
        cut(bench, apply, number, after=after)
        guard.check_journal()
        outcome = finish(bench)
        assert outcome.ok, f"effect {number}: {outcome.problems} {outcome.owed}"
        guard.look()
        if finish is stop:
            check_aborted(bench, guard)
        else:
            check_end(bench, guard, guard.before if finish is undo else guard.before | TARGETS)
