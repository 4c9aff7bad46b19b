"""Restarts of brokers against an oracle that is written from the text of the rule, and plans against all plans."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from random import Random
from typing import Any

import pytest

from kafkakit.broker.decide.restarts import (
    RestartAnswer,
    RestartFacts,
    RestartObstacle,
    ScriptKind,
    ScriptRequest,
    explain_trouble,
    judge_restart,
    plan_restarts,
    restart_table,
)
from kafkakit.core.cluster_facts import Quorum, Voter
from kafkakit.core.errors import ExitCode, UsageError
from kafkakit.core.model import (
    Broker,
    BrokerState,
    ClusterSnapshot,
    LogDir,
    Partition,
    Reassignment,
    Topic,
)

Copies = tuple[tuple[int, ...], tuple[int, ...], int]
"""Replicas, those in sync, and the minimum of a partition."""


def forbids(copies: Copies, down: frozenset[int]) -> bool:
    """The oracle, line by line of the rule."""
    replicas, isr, minimum = copies
    if not any(replica in down for replica in replicas):
        return False
    if len(replicas) <= minimum:
        return False
    if len(isr) < minimum:
        return True
    remaining = [replica for replica in isr if replica not in down]
    return len(remaining) < len(isr) and len(remaining) < minimum


def random_copies(random: Random, brokers: int, partitions: int) -> list[Copies]:
    found = []
    for _ in range(partitions):
        replicas = tuple(random.sample(range(1, brokers + 1), random.randint(1, min(4, brokers))))
        isr = tuple(b for b in replicas if random.random() < 0.9)
        found.append((replicas, isr, random.randint(1, 3)))
    return found


def facts_of(brokers: int, partitions: Sequence[Copies], racks: int = 0, **changes: Any) -> RestartFacts:
    """A cluster with a topic for each partition; each minimum is the topic's own, or the brokers' where it is 2."""
    topics = tuple(
        Topic(
            name=f"t{n:02d}",
            partitions=(Partition(partition=0, replicas=replicas, isr=isr, leader=next(iter(isr), None)),),
            configs={} if minimum == 2 else {"min.insync.replicas": str(minimum)},
        )
        for n, (replicas, isr, minimum) in enumerate(partitions)
    )
    snapshot = ClusterSnapshot(
        cluster_id="c1",
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        source="made",
        brokers=tuple(
            Broker(id=b, rack=f"r{b % racks}" if racks else None, log_dirs=(LogDir(path="/d"),))
            for b in range(1, brokers + 1)
        ),
        topics=topics,
        kafka_version="4.1.0",
        min_isr={1: 2, 2: 1},
    )
    return changed(RestartFacts(snapshot=snapshot, table=restart_table(snapshot)), **changes)


def changed(facts: RestartFacts, **changes: Any) -> RestartFacts:
    """Facts with other fields of the snapshot, or of themselves."""
    own = {name: changes.pop(name) for name in ("quorum", "controller") if name in changes}
    snapshot = replace(facts.snapshot, **changes)
    return replace(facts, snapshot=snapshot, table=restart_table(snapshot), **own)


def test_answers_equal_the_oracle_on_2000_clusters() -> None:
    random = Random(41)
    answers = dict.fromkeys(RestartAnswer, 0)
    for _ in range(2000):
        brokers = random.choice((2, 3, 4, 5, 5, 6))
        partitions = random_copies(random, brokers, random.randint(1, 6))
        facts = facts_of(brokers, partitions)
        for size in (1, 2, 3):
            for down in map(frozenset, combinations(range(1, brokers + 1), size)):
                verdict = judge_restart(facts, down)
                named = {int(p.topic[1:]) for p in verdict.partitions}
                expected = {n for n, copies in enumerate(partitions) if forbids(copies, down)}
                assert named == expected, (partitions, down)
                assert verdict.answer is (RestartAnswer.NO if expected else RestartAnswer.YES)
                answers[verdict.answer] += 1
    assert answers[RestartAnswer.YES] > 1000
    assert answers[RestartAnswer.NO] > 1000


def fewest_rounds(brokers: list[int], partitions: Sequence[Copies], at_once: int) -> int:
    """By trying every allowed round on every set of brokers that is left."""
    sizes = range(1, min(at_once, len(brokers)) + 1)
    allowed = [
        frozenset(down)
        for size in sizes
        for down in combinations(brokers, size)
        if not any(forbids(copies, frozenset(down)) for copies in partitions)
    ]
    reached, rounds = {frozenset[int]()}, 0
    while frozenset(brokers) not in reached:
        reached = {done | down for done in reached for down in allowed if down.isdisjoint(done)}
        rounds += 1
    return rounds


def test_plans_are_allowed_complete_and_at_their_bound() -> None:
    random, at_bound = Random(7), 0
    for _ in range(300):
        brokers, at_once = random.randint(3, 8), random.randint(1, 4)
        partitions = [
            (replicas, isr if random.random() < 0.15 else replicas, random.randint(1, 2))
            for replicas, isr, _ in random_copies(random, brokers, random.randint(3, 24))
        ]
        facts = facts_of(brokers, partitions, racks=3)
        plan = plan_restarts(facts, range(1, brokers + 1), at_once)
        planned = [b for each in plan.rounds for b in each.brokers]
        blocked = [b.broker for b in plan.blocked]
        assert sorted(planned + blocked) == list(range(1, brokers + 1))
        for each in plan.rounds:
            assert len(each.brokers) <= at_once
            assert not any(forbids(copies, frozenset(each.brokers)) for copies in partitions), (partitions, plan)
        for broker in range(1, brokers + 1):
            alone = any(forbids(copies, frozenset({broker})) for copies in partitions)
            assert (broker in blocked) is alone, (partitions, plan)
        least = fewest_rounds(planned, partitions, at_once)
        assert plan.bound <= least <= len(plan.rounds) <= plan.bound + 1, (partitions, plan)
        at_bound += len(plan.rounds) == plan.bound
    assert at_bound >= 0.95 * 300


def test_rack_by_rack_where_it_takes_no_more_rounds_and_the_controller_last() -> None:
    partitions: Sequence[Copies] = [((a, b, c), (a, b, c), 2) for a in (3, 6, 9) for b in (1, 4, 7) for c in (2, 5, 8)]
    quorum = Quorum(leader=1, voters=tuple(Voter(id=v, behind_ms=0) for v in (1, 2, 3)))
    facts = facts_of(9, partitions, racks=3, quorum=quorum, controller=1)
    plan = plan_restarts(facts, range(1, 10), 3)
    assert [(r.brokers, r.rack) for r in plan.rounds] == [((3, 6, 9), "r0"), ((2, 5, 8), "r2"), ((1, 4, 7), "r1")]
    assert (plan.bound, plan.by_rack, plan.code) == (3, True, ExitCode.DONE)
    assert [r.has_controller for r in plan.rounds] == [False, False, True]
    assert plan == plan_restarts(facts, range(9, 0, -1), 3)
    alone = [((b,), (b,), 1) for b in range(1, 10)]
    assert len(plan_restarts(facts_of(9, alone, racks=4), range(1, 10), 9).rounds) == 1
    assert not plan_restarts(facts_of(9, alone, racks=4), range(1, 10), 9).by_rack


def test_worst_first_and_what_is_allowed_is_counted() -> None:
    partitions: Sequence[Copies] = [
        ((1, 2, 3), (1, 2), 2),
        ((1, 2, 3), (1,), 2),
        ((1, 2, 3), (1,), 1),
        ((1, 2), (1, 2), 2),
        ((1,), (1,), 1),
        ((4,), (4,), 1),
    ]
    verdict = judge_restart(facts_of(4, partitions), (1,))
    assert [(p.topic, p.obstacle, p.left) for p in verdict.partitions] == [
        ("t01", RestartObstacle.NONE_LEFT, 0),
        ("t02", RestartObstacle.NONE_LEFT, 0),
        ("t00", RestartObstacle.TOO_FEW_LEFT, 1),
    ]
    assert (verdict.checked, verdict.stalled, verdict.leaderless) == (5, 2, 1)
    assert verdict.reason == "3 partitions would have too few replicas in sync: t01/0, t02/0, t00/0"


def test_what_is_not_known_is_never_a_yes() -> None:
    facts = facts_of(3, [((1, 2, 3), (1, 2, 3), 2)])
    assert judge_restart(facts, (1,)).answer is RestartAnswer.YES
    no_default = changed(facts, min_isr={})
    verdict = judge_restart(no_default, (1,))
    assert verdict.answer is RestartAnswer.UNKNOWN
    assert verdict.answer.code is ExitCode.TRY_LATER
    assert verdict.unknown == ("1 partition with an ISR or min.insync.replicas that is not known: t00/0",)
    (topic,) = facts.snapshot.topics
    no_isr = changed(facts, topics=(replace(topic, partitions=(replace(topic.partitions[0], isr=None),)),))
    assert judge_restart(no_isr, (1,)).answer is RestartAnswer.UNKNOWN
    plan = plan_restarts(no_isr, (1, 2, 3), 1)
    assert (plan.rounds, plan.code) == ((), ExitCode.TRY_LATER)
    with pytest.raises(UsageError, match="broker 9 is not in the cluster"):
        facts.require_known((1, 9))


def test_moves_to_and_from_a_broker_forbid_it_and_copies_to_come_do_not_count() -> None:
    facts = facts_of(5, [((1, 2, 3), (1, 2, 3), 2)])
    (topic,) = facts.snapshot.topics
    moved = replace(topic.partitions[0], replicas=(1, 2, 4, 3), adding=(4,), removing=(3,))
    move = Reassignment(topic="t00", partition=0, replicas=(1, 2, 4, 3), adding=(4,), removing=(3,))
    moving = changed(facts, topics=(replace(topic, partitions=(moved,)),), reassignments=(move,))
    for broker, answer in {1: "no", 2: "yes", 3: "no", 4: "no", 5: "yes"}.items():
        verdict = judge_restart(moving, (broker,))
        assert (verdict.answer.value, bool(verdict.moves)) == (answer, answer == "no"), broker
    plan = plan_restarts(moving, range(1, 6), 5)
    assert [b.broker for b in plan.blocked] == [1, 3, 4]
    grown = replace(topic.partitions[0], replicas=(1, 2, 4), isr=(1,), adding=(4,))
    growing = changed(facts, topics=(replace(topic, partitions=(grown,)),))
    assert judge_restart(growing, (2,)).answer is RestartAnswer.YES  # two replicas and a minimum of 2


def test_offline_dirs_forbid_it_unless_they_are_allowed_and_unread_ones_are_said() -> None:
    facts = facts_of(3, [((1, 2, 3), (1, 2, 3), 2)])
    one, two, three = facts.snapshot.brokers
    broken = replace(one, log_dirs=(LogDir(path="/d", error="KafkaStorageError"),))
    facts = changed(facts, brokers=(broken, replace(two, log_dirs=(), log_dirs_error="no answer"), three))
    verdict = judge_restart(facts, (1,))
    assert (verdict.answer, verdict.partitions) == (RestartAnswer.NO, ())
    assert verdict.obstacles == ("broker 1 has an offline log dir and may not come back with its copies: /d",)
    assert judge_restart(facts, (1,), allow_offline_dirs=True).answer is RestartAnswer.YES
    assert "log dirs of broker 2 are not known: no answer" in judge_restart(facts, (2,)).notes
    assert [b.broker for b in plan_restarts(facts, (1, 2, 3), 1).blocked] == [1]
    assert not plan_restarts(facts, (1, 2, 3), 1, allow_offline_dirs=True).blocked


def quorum_of(*behind_ms: int | None) -> Quorum:
    return Quorum(leader=1, voters=tuple(Voter(id=n, behind_ms=ms) for n, ms in enumerate(behind_ms, 1)))


@pytest.mark.parametrize(
    ("quorum", "down", "answer"),
    [
        (quorum_of(0, 0, 0), (1,), "yes"),
        (quorum_of(0, 0, 0), (1, 2), "no"),
        (quorum_of(0, 0, 0), (1, 6), "yes"),
        (quorum_of(0, 0, 60_000), (1,), "no"),
        (quorum_of(0, 0, 60_000), (3,), "yes"),
        (quorum_of(0, 0, None), (2,), "no"),
        (quorum_of(0, 0, 0, 0, 0), (1, 2), "yes"),
        (quorum_of(0, 0, 0, 0, 0), (1, 2, 3), "no"),
        (quorum_of(0), (1,), "yes"),
        (quorum_of(0), (1, 6), "no"),
        (quorum_of(0, 0), (1, 2), "no"),
    ],
)
def test_a_majority_of_controllers_stays(quorum: Quorum, down: tuple[int, ...], answer: str) -> None:
    facts = facts_of(6, [], quorum=quorum)
    assert judge_restart(facts, down).answer.value == answer


def test_plans_keep_a_majority_and_name_brokers_that_are_down() -> None:
    five = plan_restarts(facts_of(6, [], quorum=quorum_of(0, 0, 0, 0, 0), controller=1), range(1, 7), 6)
    assert (len(five.rounds), five.bound) == (3, 3)
    three = plan_restarts(facts_of(6, [], quorum=quorum_of(0, 0, 0), controller=1), range(1, 7), 6)
    assert (len(three.rounds), three.bound, 1 in three.rounds[-1].brokers) == (3, 3, True)
    single = plan_restarts(facts_of(6, [], quorum=quorum_of(0), controller=1), range(1, 7), 6)
    assert [r.brokers for r in single.rounds] == [(2, 3, 4, 5, 6), (1,)]
    facts = facts_of(3, [((1, 2, 3), (1, 2), 1)], quorum=quorum_of(0, 0, 0))
    dead = changed(
        facts, brokers=(*facts.snapshot.brokers[:2], replace(facts.snapshot.brokers[2], state=BrokerState.FENCED))
    )
    plan = plan_restarts(dead, (1, 2, 3), 1)
    assert [(b.broker, b.reason) for b in plan.blocked][-1] == (3, "it is down: start it first")
    assert [b.broker for b in plan.blocked] == [1, 2, 3]  # each of the two is needed for a majority
    assert plan.code is ExitCode.FAILED


def test_pods_are_read_from_host_names_and_compared_with_them() -> None:
    facts = facts_of(3, [])
    hosts = ("kafka-0.kafka.data.svc", "kafka-1.kafka.data.svc", "10.0.0.3")
    named = changed(
        facts, brokers=tuple(replace(b, host=h) for b, h in zip(facts.snapshot.brokers, hosts, strict=True))
    )
    asked = ScriptRequest(kind=ScriptKind.ON_DELETE, statefulset="kafka")
    assert asked.pods_of(named, (1, 3)) == {1: "kafka-0", 3: "kafka-2"}
    assert replace(asked, first_id=0).pods_of(facts, (1, 3)) == {1: "kafka-1", 3: "kafka-3"}
    with pytest.raises(UsageError, match="broker 1 runs in pod kafka-0, not kafka-1"):
        replace(asked, first_id=0).pods_of(named, (3,))
    with pytest.raises(UsageError, match="give --first-id ID, the broker in pod other-0"):
        replace(asked, statefulset="other").pods_of(named, (1,))
    twice = changed(facts, brokers=tuple(replace(b, host="kafka-1") for b in facts.snapshot.brokers))
    with pytest.raises(UsageError, match="give --first-id"):
        asked.pods_of(twice, (1,))


def test_a_broker_that_starts_waits_for_others_and_for_partitions_elsewhere() -> None:
    partitions: Sequence[Copies] = [((1, 2, 3), (2,), 2), ((2, 3, 4), (2, 3, 4), 2), ((4,), (), 1)]
    facts = facts_of(4, partitions)
    assert explain_trouble(facts, (1,)) == ""
    assert explain_trouble(facts, (4,)) == "1 partition elsewhere with fewer in sync than min.insync.replicas: t00/0"
    assert explain_trouble(facts, (9,)) == explain_trouble(facts, (4,))
    one, *others = facts.snapshot.brokers
    without = changed(facts, brokers=(replace(one, state=BrokerState.FENCED), *others))
    assert explain_trouble(without, (1,)) == ""
    assert explain_trouble(without, (1, 2)) == ""
    assert explain_trouble(without, (2,)) == "broker 1 is not up"
