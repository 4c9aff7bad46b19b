"""Moves of another process may take the places that ours wait for: they are waited for, and named."""

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.schedule.work import Limits
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.rigs.reassign import Bench

THEIRS = TopicPartition("theirs", 0)
ONE = Limits(into_each=1, out_each=1)


def bench() -> Bench:
    """A foreign move to broker 3 stands still; ours wants to go there, too."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"}, line_rate=10e6)
    cluster.add_topic("ours", {0: (1,)}, size_bytes=50_000_000)
    cluster.add_topic("theirs", {0: (4,)}, size_bytes=50_000_000)
    cluster.topics["theirs"].configs["follower.replication.throttled.replicas"] = "0:3"
    cluster.brokers[3].configs["follower.replication.throttled.rate"] = "0"
    made = Bench(cluster, make_plan(cluster, {("ours", 0): (3,)}))
    cluster.reassign({THEIRS: (3,)})
    return made


def test_a_foreign_move_without_end_is_named_as_what_keeps_the_place() -> None:
    made = bench()
    outcome = made.apply(limits=ONE, stall_timeout_s=60.0)
    assert not outcome.ok
    assert "1 step cannot start: moves that are not ours (theirs-0) take their places: ours-0" in outcome.problems
    assert "moves that are not ours keep the brokers busy: theirs-0" in made.reporter.warned
    assert made.cluster.reassignments()[0].target == (3,)


def test_ours_go_once_the_foreign_move_has_ended() -> None:
    made = bench()
    made.clock.on_sleep.append(lambda _: made.cluster.brokers[3].configs.clear() if made.clock.elapsed > 30 else None)
    outcome = made.apply(limits=ONE, stall_timeout_s=60.0)
    assert outcome.ok, outcome.problems
    assert made.lists() == {("ours", 0): (3,), ("theirs", 0): (3,)}
