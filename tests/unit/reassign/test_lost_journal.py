"""Journals that were damaged, cut short or lost while a run was in flight: the next run ends it, throttles and all."""

from collections.abc import Callable, Iterator

import pytest

from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_RATE
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_journal
from tests.rigs.reassign import Bench, Killed

MB = 1_000_000
TARGETS = {("t", 0): (4, 2), ("t", 1): (4, 3), ("u", 0): (4, 1)}


def make_bench() -> Bench:
    """Others have a rate that the run replaces, and an entry in a list that it adds to."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"}, line_rate=20 * MB)
    cluster.add_topic("t", {0: (1, 2), 1: (2, 3), 2: (3, 1)}, size_bytes=40 * MB, configs={FOLLOWER_LIST: "2:9"})
    cluster.add_topic("u", {0: (3, 1)}, size_bytes=40 * MB)
    cluster.brokers[1].configs[LEADER_RATE] = "777"
    return Bench(cluster, make_plan(cluster, TARGETS))


def killed_in_flight() -> Bench:
    bench = make_bench()

    def kill(_: float) -> None:
        if bench.clock.elapsed > 3:
            bench.clock.on_sleep.remove(kill)
            raise Killed

    bench.clock.on_sleep.append(kill)
    with pytest.raises(Killed):
        bench.apply(rate=5 * MB)
    assert bench.cluster.reassignments()
    return bench


def flipped(data: bytes) -> Iterator[bytes]:
    """One bit of each line is another one."""
    starts = [0, *(n + 1 for n, byte in enumerate(data[:-1]) if byte == ord("\n"))]
    for start in starts:
        place = start + (data.find(b"\n", start) - start) * 3 // 4
        yield data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def cut_short(data: bytes) -> Iterator[bytes]:
    """Whole lines are gone at the end, or all of them."""
    lines = data.splitlines(keepends=True)
    yield from (b"".join(lines[:count]) for count in range(len(lines)))


@pytest.mark.parametrize("damage", [flipped, cut_short])
@pytest.mark.parametrize("verb", ["apply", "rollback", "abort"])
def test_whatever_became_of_the_journal_the_next_run_leaves_no_throttle(
    damage: Callable[[bytes], Iterator[bytes]], verb: str
) -> None:
    whole = killed_in_flight().file.data
    cases = list(damage(whole))
    assert len(cases) == whole.count(b"\n")
    for number, data in enumerate(cases):
        bench = killed_in_flight()
        lists, before = make_bench().lists(), make_bench().configs()
        bench.file.data = data
        known = bench.journal().state.baseline is not None
        outcome = bench.run().carry_out(verb)
        told = f"{verb} after damage {number}: {outcome.problems} {outcome.owed} {bench.reporter.warned}"
        assert outcome.ok, told
        assert not bench.cluster.reassignments(), told
        assert bench.lists() == (lists | TARGETS if verb == "apply" else lists), told
        now = bench.configs()
        if not known:  # what stood before the run is lost with the line that said it
            assert now["broker 1"].pop(LEADER_RATE, "777") == "777", told
            before["broker 1"].pop(LEADER_RATE)
        assert now == before, told
        verify_journal(bench.file.data)


def test_what_stood_before_the_run_is_never_taken_for_its_own() -> None:
    bench = make_bench()
    bench.cluster.topics["t"].configs[FOLLOWER_LIST] = "0:4,2:9"
    bench.cluster.brokers[4].configs[FOLLOWER_RATE] = "8880000"
    before = bench.configs()

    def kill(_: float) -> None:
        if bench.clock.elapsed > 3:
            bench.clock.on_sleep.remove(kill)
            raise Killed

    bench.clock.on_sleep.append(kill)
    with pytest.raises(Killed):
        bench.apply(rate=5 * MB)
    bench.file.data = b"".join(bench.file.data.splitlines(keepends=True)[:2])  # the start, with what it found
    assert bench.rollback().ok
    assert bench.configs() == before


def test_a_move_between_the_same_brokers_is_not_the_plans_where_no_run_was_begun() -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"}, line_rate=2 * MB)
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=40 * MB, configs={FOLLOWER_LIST: "0:4"})
    cluster.brokers[4].configs[FOLLOWER_RATE] = "1000000"
    bench = Bench(cluster, make_plan(cluster, {("t", 0): (4, 2)}))
    theirs = TopicPartition("t", 0)
    assert cluster.reassign({theirs: (1, 4, 2)}) == {theirs: None}
    with pytest.raises(RefusedError, match=r"other moves run on planned partitions: t-0 to \[1,4,2\]"):
        bench.apply(rate=5 * MB)
    assert [m.target for m in cluster.reassignments()] == [(1, 4, 2)]
