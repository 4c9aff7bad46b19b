"""The parts of the plain requests: rooms, fillings, who leaves, who leads, levels of bytes, partition names."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bench.receivers_campaign import Case, faults
from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import InfeasibleError, KafkakitError, UsageError
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, LogDir, Partition, Topic, TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.selection import BrokerList
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.leaders import pass_leaders
from kafkakit.placement.openings import OpeningsTask, fill_openings, group_openings, group_partitions
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.check import check_cluster
from kafkakit.topicmappr.decide.check_rules import CheckRequest
from kafkakit.topicmappr.decide.drain import decide_drain
from kafkakit.topicmappr.decide.explain import find_partition
from kafkakit.topicmappr.decide.fix_racks import decide_fix_racks
from kafkakit.topicmappr.decide.place import NewTopic, as_levels, decide_place
from kafkakit.topicmappr.decide.plain_requests import DrainRequest, FixRacksRequest, PlaceRequest, ReplicationRequest
from kafkakit.topicmappr.decide.rebuild import decide_rebuild, decide_set_replication
from kafkakit.topicmappr.decide.requests import RebuildRequest
from kafkakit.topicmappr.decide.scope import TagConstraints, parse_broker_set, parse_topic_rules
from tests.clusters.shapes import make_snapshot

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def cluster(
    lists: Mapping[str, Sequence[tuple[int, ...]]],
    racks: Mapping[int, str | None] | None = None,
    *,
    dead: tuple[int, ...] = (),
    sizes: Mapping[str, Sequence[int | None]] | None = None,
    isr: Mapping[str, Sequence[tuple[int, ...]]] | None = None,
    configs: dict[str, str] | None = None,
) -> ClusterSnapshot:
    return make_snapshot(
        (
            Broker(id=b, rack=r, state=BrokerState.FENCED if b in dead else BrokerState.ALIVE)
            for b, r in (racks or RACKS).items()
        ),
        [
            Topic(
                name=name,
                configs=configs or {},
                partitions=tuple(
                    Partition(
                        partition=n,
                        replicas=row,
                        isr=isr[name][n] if isr else row,
                        size_bytes=sizes[name][n] if sizes else 10,
                    )
                    for n, row in enumerate(rows)
                ),
            )
            for name, rows in sorted(lists.items())
        ],
        sizes_taken=False,
    )


def drain(snapshot: ClusterSnapshot, *brokers: int, to: tuple[int, ...] = (), racks: int = 0) -> Plan:
    words = {"command": "topicmappr drain", "brokers": ",".join(map(str, brokers))}
    request = DrainRequest(
        leaving=BrokerList(ids=brokers),
        receiving=BrokerList(ids=to) if to else None,
        topics=(".*",),
        min_rack_ids=racks,
        words=words,
    )
    return decide_drain(snapshot, request).plan


def test_a_group_never_gives_a_partition_two_brokers_of_a_rack() -> None:
    grouping = Grouping.of(SpreadRule(), RACKS, [1, 2, 3, 4, 5, 6])
    groups, unfit = group_openings(dict.fromkeys(range(7), ((), 3)), grouping)
    # Rack a is nearly empty: evenness alone would give it two replicas of one partition.
    chosen, _ = fill_openings(OpeningsTask(groups, {1: 0, 2: 0, 3: 50, 4: 50, 5: 50, 6: 50}))
    assert not unfit
    assert all(sorted(RACKS[b] for b in row) == ["a", "b", "c"] for row in chosen.values())


def test_openings_that_do_not_fit_are_told_with_what_does() -> None:
    grouping = Grouping.of(SpreadRule(), RACKS, [1, 2, 3])
    groups, unfit = group_openings({0: ((), 2), 1: ((5,), 3), 2: ((), 3)}, grouping)
    assert [g.members for g in groups] == [[0], [1]]
    assert unfit == {2: 2}


def test_leaderships_pass_to_those_who_lead_little() -> None:
    assert pass_leaders([(1, 2), (1, 2), (1, 2)], {1: 5, 2: 1}) == [2, 2, 2]
    assert Counter(pass_leaders([(1, 2)] * 4, {})) == {1: 2, 2: 2}
    assert pass_leaders([(2, 1)], {}) == [2], "the earlier candidate wins where both are equal"
    assert pass_leaders([], {}) == []


def test_a_drained_leader_passes_its_leadership_to_a_copy_in_sync() -> None:
    snapshot = cluster({"t": [(1, 3, 5)]}, isr={"t": [(1, 5)]})
    (move,) = drain(snapshot, 1).moves
    assert move.after == (5, 3, 2), "5 is in sync, 3 keeps its place and 2 takes the free one"


def test_a_drained_leader_without_followers_hands_over_to_the_new_copy() -> None:
    (move,) = drain(cluster({"t": [(1,)]}), 1, to=(4,)).moves
    assert move.after == (4,)


def test_leaderships_of_a_drained_broker_are_spread() -> None:
    plan = drain(cluster({"t": [(1, 3, 5)] * 4 + [(3, 5, 2)] * 2}), 1)
    assert [m.after[0] for m in plan.moves].count(5) == 3, "3 leads two others already"


def test_a_drain_with_receivers_leaves_other_brokers_alone() -> None:
    plan = drain(cluster({"t": [(1, 3), (1, 5), (3, 5)]}), 1, to=(2,))
    assert [m.after for m in plan.moves] == [(3, 2), (5, 2)]
    assert plan.rules is not None
    assert plan.rules.receivers == (2,)


def test_a_drain_leaves_what_fits_nowhere_and_says_so() -> None:
    words = {"command": "topicmappr drain", "brokers": "1"}
    request = DrainRequest(leaving=BrokerList(ids=(1,)), receiving=BrokerList(ids=(4,)), topics=(".*",), words=words)
    change = decide_drain(cluster({"t": [(1, 3), (1, 5)]}), request)
    assert [m.key for m in change.plan.moves] == [TopicPartition("t", 1)]
    assert change.left_alone == 1
    assert "t-0" in change.reasons[0]
    assert "racks b" in change.reasons[0]


def test_a_drain_names_other_dead_brokers_and_keeps_them() -> None:
    plan = drain(cluster({"t": [(1, 3), (5, 4)]}, dead=(4, 1)), 1)
    (move,) = plan.moves
    assert move.after[0] == 3
    assert move.after[1] in {2, 5, 6}
    note = "broker 4 is not alive either and keeps 1 replica; name it as well to drain it"
    assert [found for found in plan.notes if "not alive either" in found] == [note]
    plan = drain(cluster({"t": [(1, 3), (5, 4)], "u": [(2, 4), (6, 2)]}, dead=(4, 6, 1)), 1)
    note = "brokers 4, 6 are not alive either and keep 3 replicas; name them as well to drain them"
    assert [found for found in plan.notes if "not alive either" in found] == [note]


def test_a_broker_with_cordoned_dirs_takes_nothing() -> None:
    snapshot = cluster({"t": [(1, 3)] * 4})
    shut = replace(snapshot.brokers[1], log_dirs=(LogDir(path="/d", cordoned=True), LogDir(path="/e", error="gone")))
    snapshot = replace(snapshot, brokers=(snapshot.brokers[0], shut, *snapshot.brokers[2:]))
    plan = drain(snapshot, 1)
    assert all(2 not in m.after for m in plan.moves)
    assert any("2 take no new copies" in note for note in plan.notes)
    with pytest.raises(UsageError, match="cordoned"):
        drain(snapshot, 1, to=(2,))


@pytest.mark.parametrize(
    ("brokers", "to", "words"),
    [
        ((9,), (), "9 not in this cluster"),
        ((1,), (1,), "be drained and receive"),
        ((1,), (6,), "6 is not alive"),
        ((1,), (9,), "9 is not in this cluster"),
        ((1, 2, 3, 4, 5), (), "no live broker"),
    ],
)
def test_contradictory_drains_are_refused(brokers: tuple[int, ...], to: tuple[int, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        drain(cluster({"t": [(1, 3)]}, dead=(6,)), *brokers, to=to)


def fix(snapshot: ClusterSnapshot, **options: object) -> Plan:
    words = {"command": "topicmappr fix-racks"}
    return decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), words=words, **options)).plan  # type: ignore[arg-type]


def test_the_copy_out_of_sync_leaves_a_crowded_rack_and_the_leader_stays() -> None:
    plan = fix(cluster({"t": [(2, 1, 3)]}))
    assert plan.moves[0].after[0] == 2
    stale = fix(cluster({"t": [(3, 2, 1)]}, isr={"t": [(3, 1)]}))
    assert set(stale.moves[0].after) & {1, 2} == {1}


def test_who_leaves_a_crowded_rack_is_chosen_for_even_counts() -> None:
    # 1 and 2 share rack a in both sets; 2 carries more, so it gives up both copies.
    plan = fix(cluster({"t": [(3, 1, 2), (3, 2, 1)], "u": [(2,), (2,), (2,)]}))
    assert all(1 in m.after and 2 not in m.after for m in plan.moves)


def test_even_spread_holds_with_more_replicas_than_racks() -> None:
    racks: dict[int, str | None] = {**RACKS, 7: "a", 8: "a"}
    plan = fix(cluster({"t": [(1, 2, 7, 8, 3)]}, racks), spread=True)
    (move,) = plan.moves
    count = Counter(racks[b] for b in move.after)
    assert sorted(count.values()) == [1, 2, 2]
    assert plan.certificate.objective == 2, "two of four copies in rack a are too many"


def test_minimize_bytes_counts_bytes() -> None:
    plan = fix(cluster({"t": [(1, 2), (3, 5)]}, sizes={"t": [700, 1]}), minimize=Minimize.BYTES)
    assert (plan.certificate.unit, plan.certificate.lower_bound) == ("bytes", 700)


def test_a_cluster_without_racks_has_no_rule_to_mend() -> None:
    with pytest.raises(UsageError, match="no live broker has a rack"):
        fix(cluster({"t": [(1, 2)]}, {1: None, 2: None}))


def test_two_rules_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="two different rules"):
        fix(cluster({"t": [(1, 2)]}), spread=True, min_rack_ids=2)


def replication(snapshot: ClusterSnapshot, factor: int) -> Plan:
    words = {"command": "topicmappr set-replication", "replication": str(factor)}
    return decide_set_replication(snapshot, ReplicationRequest(replication=factor, topics=("t",), words=words)).plan


def test_a_smaller_factor_keeps_the_leader_and_the_copies_in_sync() -> None:
    (move,) = replication(cluster({"t": [(1, 3, 5)]}, isr={"t": [(1, 5)]}), 2).moves
    assert move.after == (1, 5)


def test_a_factor_below_min_insync_replicas_is_warned_of() -> None:
    plan = replication(cluster({"t": [(1, 3, 5)]}, configs={"min.insync.replicas": "2"}), 1)
    assert plan.moves
    (warning,) = plan.warnings
    assert "is above 1 for t (2): Kafka 3.7 and later count only the replicas that there are" in warning
    same = replication(cluster({"t": [(1, 3, 5)]}, configs={"min.insync.replicas": "2"}), 2)
    assert same.warnings == ()


@pytest.mark.parametrize("factor", [0, -1, 40_000])
def test_an_impossible_factor_is_refused(factor: int) -> None:
    with pytest.raises(UsageError, match="is not between 1 and"):
        replication(cluster({"t": [(1, 3)]}), factor)


def place(snapshot: ClusterSnapshot, **options: object) -> NewTopic:
    return decide_place(snapshot, PlaceRequest(topic="new", **options))  # type: ignore[arg-type]


def test_a_new_topic_is_spread_first_and_then_levels_the_cluster() -> None:
    snapshot = cluster({"t": [(1, 3), (1, 3), (1, 5)]})
    placed = place(snapshot, partitions=3, replication=3)
    assert Counter(b for row in placed.lists for b in row) == {1: 1, 2: 2, 3: 1, 4: 2, 5: 1, 6: 2}
    assert len({row[0] for row in placed.lists}) == 3
    assert all(len({RACKS[b] for b in row}) == 3 for row in placed.lists)
    assert placed.argument == ",".join(":".join(map(str, row)) for row in placed.lists)


def test_empty_brokers_do_not_get_all_of_a_new_topic() -> None:
    snapshot = cluster({"t": [(1, 3, 5)] * 100})
    placed = place(snapshot, partitions=12, replication=3)
    assert Counter(b for row in placed.lists for b in row) == dict.fromkeys(RACKS, 6)
    assert Counter(row[0] for row in placed.lists) == dict.fromkeys(RACKS, 2)


def test_a_topic_of_few_replicas_is_spread_over_racks_before_what_brokers_carry() -> None:
    snapshot = cluster({"t": [(3, 5), (3, 5), (4, 6), (4, 6)]}, {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"})
    placed = place(snapshot, partitions=3, replication=1)
    assert sorted(RACKS[b] or "" for row in placed.lists for b in row) == ["a", "b", "c"]


def test_leaders_of_a_new_topic_are_even_and_then_even_out_those_of_the_others() -> None:
    snapshot = cluster({"t": [(1, 2)] * 4}, {1: None, 2: None})
    assert Counter(row[0] for row in place(snapshot, partitions=4, replication=2).lists) == {1: 2, 2: 2}
    assert Counter(row[0] for row in place(snapshot, partitions=5, replication=2).lists) == {1: 2, 2: 3}


def test_what_brokers_carry_may_be_huge_numbers() -> None:
    snapshot = cluster({"t": [(1,), (2,)]}, {1: None, 2: None, 3: None}, sizes={"t": [2**61, 2**40]})
    placed = place(snapshot, partitions=2, replication=1, partition_bytes=1)
    assert Counter(row[0] for row in placed.lists) == {2: 1, 3: 1}


def test_a_new_topic_levels_bytes_where_a_size_is_expected() -> None:
    snapshot = cluster({"t": [(1,), (2,), (2,)]}, {1: None, 2: None}, sizes={"t": [1000, 1, 1]})
    by_count = place(snapshot, partitions=3, replication=1)
    by_bytes = place(snapshot, partitions=3, replication=1, partition_bytes=100)
    assert Counter(row[0] for row in by_count.lists) == {1: 2, 2: 1}
    assert Counter(row[0] for row in by_bytes.lists) == {1: 1, 2: 2}


def test_unknown_sizes_are_guessed_and_said_or_refused() -> None:
    some = cluster({"t": [(1, 3), (1, 3)]}, sizes={"t": [100, None]})
    assert "1 partitions have no known size" in place(some, partitions=1, replication=1, partition_bytes=5).notes[0]
    none = cluster({"t": [(1, 3)]}, sizes={"t": [None]})
    with pytest.raises(UsageError, match="no size of any partition"):
        place(none, partitions=1, replication=1, partition_bytes=5)


def test_tiny_partitions_beside_huge_brokers_stay_within_exact_arithmetic() -> None:
    levels = as_levels({1: 2**62, 2: 0}, 1)
    assert levels[2] == 0
    assert 0 < levels[1] <= 10**12


def test_a_topic_like_another_takes_its_shape() -> None:
    placed = decide_place(
        cluster({"t": [(1, 3), (3, 5)], "u": [(1,)]}, sizes={"t": [100, 300], "u": [1]}),
        PlaceRequest(topic="new", like=("t",)),
    )
    assert (placed.shape.partitions, placed.shape.replication, placed.shape.partition_bytes) == (2, 2, 200)
    with pytest.raises(UsageError, match="the topics differ"):
        decide_place(cluster({"t": [(1, 3), (3, 5)], "u": [(1, 3)]}), PlaceRequest(topic="new", like=(".*",)))


@pytest.mark.parametrize(
    ("topic", "options", "words"),
    [
        ("t.x", {}, "exists already"),
        ("t_x", {}, "collides with t.x"),
        ("a b", {}, "not a Kafka topic name"),
        ("new", {"partitions": 0}, "--partitions: 0 is not between"),
        ("new", {"partitions": None}, "--partitions is missing"),
        ("new", {"replication": 0}, "--replication: 0 is not between"),
        ("new", {"partition_bytes": 0}, "at least 1 byte"),
        ("new", {"brokers": BrokerList(ids=(1, 9))}, "9 not alive"),
    ],
)
def test_bad_new_topics_are_refused(topic: str, options: dict[str, object], words: str) -> None:
    shape = {"partitions": 1, "replication": 1, **options}
    with pytest.raises(UsageError, match=words):
        decide_place(cluster({"t.x": [(1, 3)]}), PlaceRequest(topic=topic, **shape))  # type: ignore[arg-type]


def test_a_new_topic_that_fits_nowhere_says_what_to_add() -> None:
    with pytest.raises(InfeasibleError, match="needs 4 racks"):
        place(cluster({"t": [(1, 3)]}), partitions=1, replication=4)
    with pytest.raises(InfeasibleError, match="wants 7 replicas, the list has 6 live brokers"):
        place(cluster({"t": [(1, 3)]}), partitions=1, replication=7)


def test_partitions_are_found_by_both_spellings() -> None:
    plan = drain(cluster({"a-3": [(1, 3)], "b": [(1, 3), (1, 5), (3, 5)]}), 1)
    assert find_partition(plan, "b/1") == TopicPartition("b", 1)
    assert find_partition(plan, "b-2") == TopicPartition("b", 2)
    assert find_partition(plan, "a-3-0") == TopicPartition("a-3", 0)
    for text, words in (
        ("b/7", "0-2"),
        ("a-3", "a-3 is a topic; name a partition of it, such as a-3/0"),
        ("nope/x", "orders/3"),
        ("B/0", "topics are|did you mean"),
    ):
        with pytest.raises(UsageError) as caught:
            find_partition(plan, text)
        assert any(w in str(caught.value) for w in words.split("|"))


def test_a_drain_does_not_break_a_rule_that_the_set_kept() -> None:
    # Three racks are asked for: what stays spans two and repeats one, so a broker without a rack will not do.
    racks: dict[int, str | None] = {1: "b", 2: "a", 3: "a", 4: None, 5: "c", 6: "d"}
    snapshot = cluster({"t": [(1, 5, 2, 3)]}, racks)
    (move,) = drain(snapshot, 1, racks=3).moves
    assert set(move.after) == {6, 5, 2, 3}
    assert not drain(snapshot, 1, to=(4,), racks=3).moves


def test_even_spread_may_use_a_broker_without_a_rack_where_a_rack_is_too_small() -> None:
    racks: dict[int, str | None] = {1: "a", 2: None, 3: "a", 4: "a", 5: "b"}
    (move,) = fix(cluster({"t": [(1, 3, 4, 5)]}, racks), spread=True).moves
    assert move.adding == (2,)


def test_a_repeat_may_go_to_a_broker_without_a_rack_where_no_rack_would_repeat_then() -> None:
    racks: dict[int, str | None] = {1: "b", 2: "b", 3: "a", 6: None}
    plan = fix(cluster({"t": [(1, 2), (1, 2)]}, racks), min_rack_ids=2)
    assert sorted(b for m in plan.moves for b in m.adding) == [3, 6]


def grown(lists: Sequence[tuple[int, ...]], partitions: int, **more: Any) -> NewTopic:
    """More partitions for topic t, which has these, on six brokers in three racks."""
    snapshot = make_snapshot(
        (Broker(id=b, rack="abc"[b % 3]) for b in range(1, 7)),
        {"t": [Partition(partition=n, replicas=row) for n, row in enumerate(lists)]},
        sizes_taken=False,
    )
    return decide_place(snapshot, PlaceRequest(topic="t", partitions=partitions, **more))


def test_new_partitions_of_a_topic_even_it_out_with_those_that_it_has() -> None:
    present = [(1, 2), (2, 3), (3, 4)]
    placed = grown(present, 12)
    assert [n for n, _ in placed.numbered] == list(range(3, 12))
    assert [e.partition for e in placed.as_map().partitions] == list(range(3, 12))
    every = [*present, *placed.lists]
    assert set(Counter(b for row in every for b in row).values()) == {4}
    assert set(Counter(row[0] for row in every).values()) == {2}
    assert all(row[0] % 3 != row[1] % 3 for row in placed.lists)
    assert placed.argument.startswith("1:2,2:3,3:4,")
    assert placed.argument.count(",") == 11


def test_partitions_of_a_topic_with_unlike_lists_get_as_many_replicas_as_most() -> None:
    placed = grown([(1, 2), (2,)], 4)
    assert {len(row) for row in placed.lists} == {2}
    assert {entry.count(":") for entry in placed.argument.split(",")} == {1}


@pytest.mark.parametrize(
    ("partitions", "more", "says"),
    [
        (2, {}, "topic t exists already, with 2 partitions"),
        (5, {"replication": 3}, "--replication: topic t has 2 replicas a partition"),
    ],
)
def test_what_a_topic_cannot_get_is_refused(partitions: int, more: dict[str, int], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        grown([(1, 2), (2, 3)], partitions, **more)


def test_constraints_bind_the_new_partitions_of_a_topic() -> None:
    only = TagConstraints(affinity=parse_topic_rules("topics where name = t: brokers where id > 3", "--affinity"))
    placed = grown([(1, 2)], 4, constraints=only)
    assert {b for row in placed.lists for b in row} <= {4, 5, 6}


def drain_refusal(to_be_left_out: tuple[int, ...], minimum: int, lists: Sequence[tuple[int, ...]]) -> str:
    state = cluster({"t": lists}, {1: "a", 2: "b", 3: "c", 4: "a"})
    request = DrainRequest(
        topics=(".*",),
        words={},
        leaving=BrokerList(ids=(4,)),
        exclude_receivers=BrokerList(ids=to_be_left_out),
        min_rack_ids=minimum,
    )
    return " ".join(decide_drain(state, request).reasons)


@pytest.mark.parametrize("minimum", [0, 1, 2])
def test_a_drain_names_missing_brokers_where_racks_are_not_the_matter(minimum: int) -> None:
    told = drain_refusal((3,), minimum, [(1, 2, 4)])
    assert "all 2 receiving brokers hold a replica already; let another broker receive" in told
    assert "--min-rack-ids" not in told


def test_a_drain_does_not_propose_the_racks_that_were_given() -> None:
    told = drain_refusal((2, 3), 2, [(4, 1)])
    assert "--min-rack-ids 2" not in told
    assert "all 1 receiving brokers hold a replica already" in told


def test_repeats_are_proposed_where_they_would_help() -> None:
    state = cluster({"t": [(2, 4)]}, {1: "a", 2: "b", 3: "b", 4: "a"})
    for minimum, proposed in ((0, True), (2, True)):
        request = DrainRequest(
            topics=(".*",),
            words={},
            leaving=BrokerList(ids=(4,)),
            exclude_receivers=BrokerList(ids=(1,)),
            min_rack_ids=minimum,
        )
        assert ("--min-rack-ids 1" in " ".join(decide_drain(state, request).reasons)) is proposed
        again = replace(request, min_rack_ids=1)
        assert decide_drain(state, again).plan.moves


def test_brokers_without_a_rack_are_named_by_drain_and_place() -> None:
    racks = {1: "a", 2: "b", 3: None, 4: None, 5: "c"}
    state = cluster({"t": [(1, 2, 3), (1, 2, 5)]}, racks)
    drained = decide_drain(state, DrainRequest(topics=(".*",), words={}, leaving=BrokerList(ids=(1,))))
    placed = decide_place(state, PlaceRequest(topic="new", partitions=4, replication=3))
    for notes in (drained.plan.notes, placed.notes):
        assert any(note.startswith("brokers 3, 4 have no rack, others have one") for note in notes)
    without = cluster({"t": [(1, 2)]}, dict.fromkeys((1, 2, 3)))
    assert not any(
        "no rack" in note
        for note in decide_drain(
            without, DrainRequest(topics=(".*",), words={}, leaving=BrokerList(ids=(1,)))
        ).plan.notes
    )


def test_plans_beside_closed_brokers_pass_a_judge_that_tries_every_set() -> None:
    """The first clusters of `bench/receivers_campaign.py`, and one whose partition was once refused wrongly."""
    for seed in (*range(80), 11_596):
        assert not faults(Case(seed))[1], seed


def answer(case: Case, snapshot: ClusterSnapshot) -> object:
    """What a command answers: the plan's bytes, or all that its refusal says."""
    try:
        found = case.planned(snapshot)
    except KafkakitError as error:
        return error.message, error.hint, error.lines
    return found if isinstance(found, NewTopic) else (encode_plan(found.plan), found.plan.warnings)


def test_the_order_of_the_input_changes_no_plan_and_no_check() -> None:
    for seed in range(200):
        case, shuffled = Case(seed), random.Random(seed)
        snapshot, other = case.snapshot(), case.snapshot(shuffled)
        assert other.in_order() == snapshot
        assert answer(case, other) == answer(case, snapshot), seed
        request = CheckRequest(min_rack_ids=case.minimum, replication=case.wanted)
        assert check_cluster(other, request) == check_cluster(snapshot, request), seed


def test_a_forced_rebuild_gives_nothing_to_cordoned_and_excluded_brokers() -> None:
    state = cluster({"t": [(1, 3), (1, 3), (3, 1), (2, 4), (1, 4)]})
    shut = (LogDir(path="/d", total_bytes=100, usable_bytes=90, cordoned=True),)
    brokers = tuple(replace(b, log_dirs=shut) if b.id in (3, 5) else b for b in state.brokers)
    request = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        force_rebuild=True,
        exclude_receivers=BrokerList(ids=(6,)),
        words={"force-rebuild": "true"},
    )
    decided = decide_rebuild(replace(state, brokers=brokers), request)
    assert {b for m in decided.plan.moves for b in m.adding} <= {1, 2, 4}
    assert decided.plan.certificate.gap == 0
    assert "brokers 3, 5 take no new copies: all their log dirs are cordoned or broken" in decided.plan.notes


def test_a_refusal_names_the_brokers_that_are_closed() -> None:
    state = cluster({"t": [(1, 3)]}, {1: "a", 3: "b", 5: "c"})
    shut = (LogDir(path="/d", error="gone"),)
    state = replace(state, brokers=tuple(replace(b, log_dirs=shut) if b.id == 5 else b for b in state.brokers))
    request = ReplicationRequest(replication=3, topics=(".*",), exclude_receivers=BrokerList(ids=(3,)), words={})
    change = decide_set_replication(state, request)
    assert change.reasons == (
        "topic t wants 3 replicas, the list has 2 live brokers; start more brokers; no copies may go to broker 3 "
        "(excluded), broker 5 (all log dirs cordoned or broken)",
    )
    assert (change.left_alone, change.plan.moves) == (1, ())
    assert change.plan.warnings == ("t p0: No additional brokers that meet Constraints, left as it is",)


@pytest.mark.parametrize("state", [BrokerState.MISSING, BrokerState.FENCED])
def test_rules_and_broker_sets_see_brokers_that_are_gone(state: BrokerState) -> None:
    """Their copies are where an affinity lets them be, and where an anti-affinity does not."""
    snapshot = cluster({"t": [(1, 3, 6)]}, {1: "a", 2: "a", 3: "b", 5: "c", 6: None})
    gone = tuple(replace(b, state=state) if b.id == 6 else b for b in snapshot.brokers)
    snapshot = replace(snapshot, brokers=gone)

    def copies(flag: str, brokers: str) -> tuple[int, int]:
        if flag == "--broker-set":
            asked = TagConstraints(sets=(parse_broker_set(f"t: {brokers}"),))
        else:
            rules = parse_topic_rules(f"topics where name = t: brokers where {brokers}", flag)
            asked = TagConstraints(affinity=rules)
        change = decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), constraints=asked, words={}))
        check = check_cluster(snapshot, CheckRequest(constraints=asked))
        return change.plan.certificate.objective, sum(f.rule in ("constraint", "broker-set") for f in check.findings)

    assert copies("--affinity", "id in (1, 3, 5, 6)") == (0, 0)
    assert copies("--affinity", "not id = 2") == (0, 0)
    assert copies("--anti-affinity", "id = 6") == (1, 1)
    for every in ("all", "-2", "in-use", "where not id = 2", "1,3,5,6"):
        assert copies("--broker-set", every) == (0, 0)
    assert copies("--broker-set", "1,2,3,5") == (1, 1)


def test_room_is_looked_at_for_each_set_where_a_rack_may_hold_two() -> None:
    """Sets in equal racks, of which one holds all brokers that take copies, do not share its want of room."""
    racks = {6: "a", 4: "c", 12: "c", 18: "d"}
    grouping = Grouping.of(SpreadRule(2), racks, (6, 12))
    found, unfit = group_openings({0: ((12, 6, 18), 4), 1: ((18, 6, 4), 4)}, grouping)
    assert ([a.members for a in found], unfit) == ([[1]], {0: 0})
    assert [
        a.room.units for a in group_partitions({0: ((12, 6, 18), 4), 1: ((18, 6, 4), 4)}, grouping, repairs=False)
    ] == [0, 1]
