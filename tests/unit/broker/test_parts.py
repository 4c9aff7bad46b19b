"""The pure parts: what brokers hold, whether they may be stopped, and the words around it."""

from datetime import UTC, datetime

import pytest

from kafkakit.broker.decide.operation import OperationGoal, Safety, holdings_of, judge_safety
from kafkakit.broker.decide.plans import OperationCommands, decide_operation
from kafkakit.broker.report import BrokerOutcome, outcome_data, outcome_rows, outcome_sections
from kafkakit.core.errors import InfeasibleError
from kafkakit.core.model import BrokerState, ClusterSnapshot, TopicPartition
from kafkakit.core.selection import BrokerList
from kafkakit.execution.decide.runs import Direction
from kafkakit.report.report import text_of
from tests.fakes.admin import FakeCluster
from tests.rigs.broker import make_cluster

AT = datetime(2026, 1, 1, tzinfo=UTC)


def seen(cluster: FakeCluster) -> ClusterSnapshot:
    return cluster.snapshot(now=AT)


def test_a_move_of_others_is_no_copy_that_the_new_broker_has() -> None:
    cluster = make_cluster(line_rate=1.0)
    cluster.reassign({TopicPartition("t", 0): (4, 2, 3)})
    with pytest.raises(Exception, match="t-0 are being reassigned"):
        decide_operation(seen(cluster), OperationGoal(brokers=(1,), onto=4, words={}))
    cluster = make_cluster()
    cluster.add_topic("both", {0: (1, 4)})
    with pytest.raises(InfeasibleError, match="has a copy of both-0 already"):
        decide_operation(seen(cluster), OperationGoal(brokers=(1,), onto=4, words={}))


def test_a_leadership_that_nobody_in_sync_could_take_waits_for_the_copies() -> None:
    cluster = make_cluster()
    cluster.topics["t"].partitions[0].isr = [1]
    decided = decide_operation(seen(cluster), OperationGoal(brokers=(1,), words={}))
    assert decided is not None
    assert decided.leaders is not None
    assert [m.key for m in decided.leaders.moves] == [TopicPartition("t", 3)]
    assert TopicPartition("t", 0) in {m.key for m in decided.copies.moves}


def test_a_drain_leaves_out_a_broker_that_takes_no_copies() -> None:
    """Rack a has 1 and 4, so copies of what 1 holds beside b and c can go to 4 alone."""
    out = OperationGoal(brokers=(1,), exclude_receivers=BrokerList(ids=(4,)), words={})
    for goal, taking in ((OperationGoal(brokers=(1,), words={}), True), (out, False)):
        decided = decide_operation(seen(make_cluster()), goal)
        assert decided is not None
        assert (4 in {b for m in decided.whole.plan.moves for b in m.adding}) == taking


def test_topics_elsewhere_are_not_looked_at() -> None:
    decided = decide_operation(seen(make_cluster()), OperationGoal(brokers=(1,), words={}))
    assert decided is not None
    assert {e.topic for e in decided.copies.scope} == {"t", "one"}


def test_holdings_tell_what_is_held_led_late_and_due() -> None:
    cluster = make_cluster()
    parts = cluster.topics["t"].partitions
    parts[0].leader = 2
    parts[1].leader = 1
    parts[2].isr = [3, 2]
    found = holdings_of(seen(cluster), (1, 8))
    key = [TopicPartition("t", n) for n in range(4)]
    assert found.held == (TopicPartition("one", 0), *key)
    assert found.led == (TopicPartition("one", 0), key[1], key[3])
    assert (found.lagging, found.due, found.passing) == ((key[2],), (key[0],), (key[1],))
    assert found.absent == (8,)
    assert [(b.broker, b.state, b.replicas, b.leaders, b.out_of_sync) for b in found.brokers] == [
        (1, BrokerState.ALIVE, 5, 3, 1),
        (8, BrokerState.MISSING, 0, 0, 0),
    ]


def safety_of(cluster: FakeCluster, settings: dict[int, dict[str, str]], *brokers: int) -> Safety:
    snapshot = seen(cluster)
    return judge_safety(snapshot, brokers, holdings_of(snapshot, brokers), settings, "h:1,h:2", "AGAIN")


def test_a_broker_with_replicas_or_a_vote_is_not_safe_to_stop() -> None:
    kraft = {1: {"process.roles": "broker,controller"}, 2: {"process.roles": "broker"}}
    full = safety_of(make_cluster(), kraft, 1)
    assert [p.split(":")[0] for p in full.problems] == [
        "5 replicas are still on broker 1",
        "3 leaderships are still on broker 1",
        "broker 1 is also a controller",
    ]
    assert "bin/kafka-metadata-quorum.sh --bootstrap-server h:1,h:2 describe --status" in full.steps
    empty = safety_of(make_cluster(), {4: {"process.roles": "broker"}}, 4)
    assert empty.problems == ()
    assert empty.cautions == ()
    assert empty.steps == (
        "Stop the process of broker 4 (127.0.0.1) and keep it from starting again.",
        "Then take it off the cluster's list; this does so once it is stopped:",
        "AGAIN",
        "Or Kafka's own tool:",
        "bin/kafka-cluster.sh unregister --bootstrap-server h:1,h:2 --id 4",
    )


def test_a_dead_broker_asks_for_a_look_at_the_quorum_and_zookeeper_needs_no_unregistering() -> None:
    cluster = make_cluster()
    cluster.kill(4)
    dead = safety_of(cluster, {2: {"process.roles": "broker"}}, 4)
    assert dead.steps[:2] == (
        "Its role is unknown (is it down?): make sure that CurrentVoters does not name it:",
        "bin/kafka-metadata-quorum.sh --bootstrap-server h:1,h:2 describe --status",
    )
    assert not any(step.startswith("Stop") for step in dead.steps)
    silent = safety_of(make_cluster(), {4: {}}, 4)
    assert silent.steps[1] == dead.steps[1], "a live broker that tells no role is not taken for a mere broker"
    old = safety_of(make_cluster(), {4: {"zookeeper.connect": "z:1", "process.roles": ""}}, 4)
    assert old.steps == ("Stop the process of broker 4 (127.0.0.1) and keep it from starting again.",)


def test_what_the_cluster_loses_is_a_caution() -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("wide", {0: (1, 2, 3)})
    settings = {1: {"default.replication.factor": "3", "offsets.topic.replication.factor": "x"}}
    found = safety_of(cluster, settings, 3)
    assert found.cautions == (
        "default.replication.factor is 3, and 2 live brokers stay: such topics cannot be created",
        "more replicas than the 2 live brokers that stay: topic wide",
        "no broker stays in rack c",
    )


def test_hints_of_a_run_name_the_operation() -> None:
    words = OperationCommands(program="kafkakit", plan="p.json", operation="kafkakit broker drain 1 --yes", undo="UNDO")
    assert words.run(Direction.APPLY) == "kafkakit broker drain 1 --yes"
    assert words.run(Direction.APPLY, "--throttle", "none") == "kafkakit broker drain 1 --yes --throttle none"
    assert words.line("verify") == "kafkakit broker drain 1 --yes"
    assert words.run(Direction.ROLLBACK) == "UNDO"
    assert words.run(Direction.ROLLBACK, "--allow-drift") == "UNDO --allow-drift"
    assert words.run(Direction.ABORT) == "kafkakit reassign abort p.json --yes"
    assert words.line("continue") == "kafkakit reassign continue p.json"


def test_the_result_has_the_same_facts_in_every_form() -> None:
    brokers = holdings_of(seen(make_cluster()), (1,)).brokers
    outcome = BrokerOutcome(
        command="decommission",
        verdict="incomplete",
        brokers=brokers,
        problems=("p",),
        cautions=("c",),
        steps=("s",),
        record="/r.json",
        moves_sent=1,
        copied_bytes=2,
        leaders_passed=3,
        next_commands=("again",),
        undo="back",
    )
    text = text_of(outcome_sections(outcome)).splitlines()
    assert text == [
        "incomplete: decommission broker 1",
        "broker 1: alive, 5 replicas, 3 leaderships",
        "1 request sent, 2 B copied in 0s",
        "3 leaderships passed on by election",
        "problem: p",
        "caution: c",
        "record: /r.json",
        "left to do by hand:",
        "s",
        "to move everything back:",
        "back",
        "next:",
        "again",
    ]
    data = outcome_data(outcome)
    assert (data["problems"], data["undo_command"], data["next_commands"]) == (["p"], "back", ["again"])
    assert outcome_rows(outcome) == ((1, "alive", "a", 5, 3, 0),)
