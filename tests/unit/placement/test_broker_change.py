"""How a list of brokers differs from those that hold the replicas, in kafka-kit's words."""

import pytest

from kafkakit.placement.problem import classify, classify_unseen

RACKS = {1: "a", 2: "b", 3: "c", 4: None}


@pytest.mark.parametrize(
    ("listed", "warnings"),
    [
        ([1, 2, 3], []),
        ([1, 2, 4], ["1 provided broker(s) do(es) not have a rack.id defined"]),
        ([1, 9], ["1 provided brokers are not in the cluster"]),
        (
            [4, 8, 9],
            ["2 provided brokers are not in the cluster", "1 provided broker(s) do(es) not have a rack.id defined"],
        ),
    ],
)
def test_each_warning_stands_where_it_holds_and_nowhere_else(listed: list[int], warnings: list[str]) -> None:
    assert classify([1, 2], listed, RACKS).warnings() == warnings


def test_brokers_are_sorted_into_what_becomes_of_them() -> None:
    change = classify([1, 2, 7], [2, 3, 4, 9], RACKS)
    assert (change.targets, change.replace, change.new) == ((2, 3, 4), (1, 7), (3, 4))
    assert (change.missing, change.old_missing, change.previous_missing) == ((9,), (7,), (7,))
    assert change.rack_missing == (4,)
    assert change.count_change == 0
    assert change.messages() == [
        "Previous broker 7 missing",
        "Broker 1 marked for removal",
        "Broker 7 marked for removal",
        "Broker 9 is not in the cluster",
        "New broker 3",
        "New broker 4",
        "Broker 4 does not have a rack.id defined",
    ]
    assert change.summary() == "Replacing 2, added 2, missing 2, total count changed by 0"


@pytest.mark.parametrize(
    ("holding", "listed", "first"),
    [
        ([1, 2], [1, 2], None),
        ([1, 2], [1, 3], "Rebuild topic with 1 broker(s) marked for replacement"),
        (
            [1],
            [1, 2],
            "Expanding/rebalancing topic with 1 additional broker(s) (this is a no-op unless --force-rebuild is "
            "specified)",
        ),
        ([1, 2], [1], "Shrinking topic by 1 broker(s)"),
        ([1, 2, 3], [1], "Shrinking topic by 2 broker(s)"),
    ],
)
def test_what_a_change_amounts_to(holding: list[int], listed: list[int], first: str | None) -> None:
    change = classify(holding, listed, RACKS)
    plain = change.actions(force_rebuild=False, replication=0, optimize_leadership=False)
    assert plain == ([first] if first else [])
    requested = change.actions(force_rebuild=True, replication=2, optimize_leadership=True)
    assert requested[len(plain) :] == [
        "Force rebuilding map",
        "Setting replication factor to 2",
        "Optimizing leader/follower ratios",
    ]


def test_without_a_cluster_all_brokers_are_taken_as_live() -> None:
    change = classify_unseen([1, 2], [2, 9])
    assert (change.targets, change.replace, change.new, change.warnings()) == ((2, 9), (1,), (9,), [])
