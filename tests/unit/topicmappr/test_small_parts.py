"""The small pure parts of planning: broker lists, topic patterns, the rack rule, dealing, words of the report."""

import pytest

from kafkakit.core.errors import InputError, OperationFailedError, UsageError
from kafkakit.core.model import PartitionAssignment, PartitionMap, TopicPartition
from kafkakit.core.placement_statistics import degree_of
from kafkakit.core.selection import parse_broker_list, parse_patterns, select_topics
from kafkakit.placement.group_rooms import Grouping, deal_pool, scatter
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.minimal import find_affinities
from kafkakit.placement.network import FlowInfeasibleError, FlowNetwork, solve_levels
from kafkakit.placement.problem import PlannedPartition, classify
from kafkakit.topicmappr.decide.assembly import map_files
from kafkakit.topicmappr.report.balance import ids, what_changed


def test_broker_list_takes_ids_special_values_and_spaces() -> None:
    parsed = parse_broker_list(" 1002, -1,1001,1002,-2 ")
    assert parsed.ids == (1002, 1001)
    assert parsed.duplicates == (1002,)
    assert parsed.existing
    assert parsed.everything
    assert parsed.resolve(frozenset({7}), frozenset({8})) == (7, 8, 1001, 1002)


def test_words_stand_for_brokers_in_use_and_all_brokers() -> None:
    assert parse_broker_list("1001, in-use") == parse_broker_list("1001,-1")
    assert parse_broker_list("All") == parse_broker_list("-2")


@pytest.mark.parametrize("text", ["", "1,,2", "1;2", "1.5", "in use", "٣", "-3", "1" * 11, "0x1", "2147483648"])
def test_broker_list_refuses_what_is_no_id(text: str) -> None:
    with pytest.raises(UsageError, match="is not a broker id"):
        parse_broker_list(text)


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        ("a.b", ("a.b",)),
        ("a.c", ("axc",)),
        ("orders", ("orders",)),
        ("order", ()),
        ("order.", ("orders",)),
        (r"v\d", ("v1",)),
        (" orders , v1 ,", ("orders", "v1")),
        (".*", ("a.b", "axc", "orders", "v1", "xa-bz")),
    ],
)
def test_topic_patterns(patterns: str, selected: tuple[str, ...]) -> None:
    existing = {"a.b", "axc", "xa-bz", "orders", "v1"}
    if not selected:
        with pytest.raises(UsageError, match="no topic matches"):
            select_topics(existing, parse_patterns(patterns))
        return
    assert select_topics(existing, parse_patterns(patterns)).selected == selected


def test_an_uneven_set_may_stay_and_no_rack_gets_more_than_its_share() -> None:
    rule = SpreadRule(spread_over=("a", "b"))
    assert not rule.crowds([*"aaa", None], [*"aaa", None])
    assert not rule.crowds([*"aaab"], [*"aabb"])
    assert rule.crowds([*"aaab"], [*"aaaa"])
    assert rule.crowds([*"aaax"], [*"bbba"])
    assert SpreadRule(spread_over=("a", "b", "c")).share(4) == 2


@pytest.mark.parametrize(
    ("minimum", "kept", "free", "rackless", "wanted", "units"),
    [
        (0, ["a"], {"a": 2, "b": 1, "c": 1}, 0, 3, 2),
        (0, ["a"], {"a": 2, "b": 1}, 0, 3, 1),
        (0, ["a"], {"a": 2}, 5, 3, 2),
        (2, ["a"], {"a": 2, "b": 1}, 0, 3, 2),
        (3, ["a"], {"a": 2, "b": 1}, 0, 3, 1),
        (2, [None], {"a": 2}, 0, 3, 1),
        (1, [], {"a": 3}, 0, 3, 3),
    ],
)
def test_room_beside_kept_replicas(
    minimum: int, kept: list[str | None], free: dict[str, int], rackless: int, wanted: int, units: int
) -> None:
    named = [*kept, *(rack for rack, n in free.items() for _ in range(n)), *[None] * rackless]
    groups = dict(enumerate(named))
    grouping = Grouping.of(SpreadRule(minimum), groups, range(len(kept), len(named)))
    assert grouping.room_beside(range(len(kept)), wanted, repairs=False).units == units


@pytest.mark.parametrize("n", [1, 2, 3, 10, 97, 1000])
def test_scatter_is_a_permutation(n: int) -> None:
    assert sorted(scatter(n)) == list(range(n))


def test_deal_pool_mends_clashes() -> None:
    import numpy as np

    held: list[list[int]] = [[5], [6], []]
    row = deal_pool([0, 1, 2], np.array([5, 6]), np.array([2, 1]), held)
    assert sorted(row) == [5, 5, 6]
    assert row[0] == 6
    assert row[1] == 5


def test_levels_are_exact_far_from_the_first_guess() -> None:
    import numpy as np

    def build(network: FlowNetwork) -> int:
        brokers = network.nodes(3)
        source = network.nodes(1)
        network.supply(source, 1000)
        # Only 10 units fit on brokers 1 and 2, so broker 0 must take 980.
        network.arcs(source, brokers + np.arange(3), np.array([1000, 10, 10]), 0)
        return brokers

    _, loads = solve_levels(build, [0, 0, 0], 1000)
    assert loads.tolist() == [980, 10, 10]


def test_a_network_that_cannot_route_says_so() -> None:
    network = FlowNetwork()
    nodes = network.nodes(2)
    network.supply(nodes, 2)
    network.supply(nodes + 1, -2)
    network.arcs(nodes, nodes + 1, 1, 0)
    with pytest.raises(FlowInfeasibleError):
        network.solve()


def test_costs_beyond_exact_arithmetic_are_refused() -> None:
    network = FlowNetwork()
    nodes = network.nodes(2)
    network.arcs(nodes, nodes + 1, 1, 1 << 61)
    with pytest.raises(OverflowError):
        network.solve()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ((1, 2), (1, 2), "no-op"),
        ((1, 2), (2, 1), "preferred leader"),
        ((1, 2), (1, 3), "replaced broker"),
        ((1, 2), (1,), "decreased replication"),
        ((1, 2), (2,), "decreased replication, replaced broker"),
        ((1, 2), (2, 1, 3), "increased replication, preferred leader"),
        ((1, 2), (1, 3, 4), "increased replication, replaced broker"),
    ],
)
def test_words_of_a_change(old: tuple[int, ...], new: tuple[int, ...], words: str) -> None:
    assert what_changed(old, new) == words


def test_lists_and_degrees_print_as_kafka_kit_prints_them() -> None:
    assert ids([1001, 1002]) == "[1001 1002]"
    assert ids([]) == "[]"
    assert str(degree_of([[1, 2], [2, 3]])) == "1/2/1.33"
    assert str(degree_of([])) == "0/0/0.00"


def test_affinity_infers_the_rack_of_a_missing_broker() -> None:
    def part(n: int, *replicas: int) -> PlannedPartition:
        return PlannedPartition(TopicPartition("t", n), replicas, len(replicas))

    partitions = [part(0, 1, 2), part(1, 2, 3), part(2, 4, 3)]
    racks = {2: "b", 3: "c", 4: "a", 5: "a", 6: "b"}
    change = classify({1, 2, 3, 4}, {2, 3, 4, 5}, {b: r for b, r in racks.items() if b != 6})
    (pair,) = find_affinities(partitions, change, racks)
    assert str(pair) == "1 -> 5 (inferred)"


def test_affinity_names_the_locality_without_a_free_broker() -> None:
    partitions = [PlannedPartition(TopicPartition("t", 0), (1, 2), 2)]
    racks = {1: "a", 2: "b", 3: "c"}
    change = classify({1, 2}, {2, 3}, racks)
    with pytest.raises(OperationFailedError, match="Insufficient free brokers for locality a"):
        find_affinities(partitions, change, racks)


def test_map_files_refuse_names_that_are_paths() -> None:
    def one(topic: str) -> PartitionMap:
        return PartitionMap(partitions=(PartitionAssignment(topic=topic, partition=0, replicas=(1,)),))

    assert [name for name, _, _ in map_files(one("a.b"), "all")] == ["all.json", "a.b.json"]
    assert [name for name, _, _ in map_files(one("a.b"), "all", "-phase1")] == ["all-phase1.json", "a.b-phase1.json"]
    for topic in ("../x", "a/b", "", ".", "..", "a\n"):
        with pytest.raises(InputError):
            map_files(one(topic), "")
    with pytest.raises(UsageError):
        map_files(one("t"), "a/b")
