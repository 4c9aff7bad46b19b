"""Throttle lists to the byte: how long a value may be, what fits into a list, and when entries are taken out."""

import pytest

from kafkakit.core.cluster_facts import ConfigOp, ResourceKind
from kafkakit.execution.decide.journal import ConfigKey
from kafkakit.execution.decide.plan_state import LIST_LIMIT
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    LEADER_LIST,
    empty_list_changes,
    entry_changes,
    list_capacity_for,
    pieces,
    removal_changes,
)
from tests.rigs.throttles import goal

KEY = ConfigKey(ResourceKind.TOPIC, "t", FOLLOWER_LIST)
# Each entry takes its length and one byte for the comma.
ENTRY = "1000:1001"
FULL = LIST_LIMIT // (len(ENTRY) + 1)


def entries(count: int, *, length: int = len(ENTRY)) -> list[str]:
    found = [f"{n:0{length - 2}}:1" for n in range(count)]
    assert {len(entry) for entry in found} <= {length}
    return found


@pytest.mark.parametrize("length", [3, 5, 8, 9, 10, 13, 24])
def test_a_piece_holds_as_many_entries_as_fit_and_not_one_more(length: int) -> None:
    fit = LIST_LIMIT // (length + 1)
    many = entries(min(10 ** (length - 2), 2 * fit + 1), length=length)
    found = pieces(many)
    assert ",".join(found).split(",") == many
    assert all(len(piece) + 1 <= LIST_LIMIT for piece in found)
    counts = [piece.count(",") + 1 for piece in found]
    assert counts == [fit] * (len(many) // fit) + ([len(many) % fit] if len(many) % fit else [])


def test_the_comma_counts_to_the_last_byte() -> None:
    rest = LIST_LIMIT - (FULL - 1) * (len(ENTRY) + 1) - 1  # what the last entry may take
    most, first = "9" * rest, entries(FULL - 1)
    assert [len(piece) + 1 for piece in pieces([*first, most])] == [LIST_LIMIT]
    assert [piece.count(",") + 1 for piece in pieces([*first, most + "9"])] == [FULL - 1, 1]
    alone = "9" * LIST_LIMIT  # the second piece is counted from nothing, like the first
    assert [piece.count(",") + 1 for piece in pieces([alone, *first, most])] == [1, FULL]
    assert [piece.count(",") + 1 for piece in pieces([alone, *first, most + "9"])] == [1, FULL - 1, 1]


def test_an_entry_longer_than_a_value_stands_alone_and_nothing_makes_nothing() -> None:
    long = "9" * (LIST_LIMIT + 5)
    assert pieces(["0:1", long, "0:2"]) == ["0:1", long, "0:2"]
    assert pieces([]) == []


def test_missing_entries_alone_are_appended_in_pieces() -> None:
    many = entries(FULL + 2)
    changes = entry_changes({KEY: many}, {"t": {FOLLOWER_LIST: f"{many[0]},other:9"}})
    assert [(c.op, (c.value or "").count(",") + 1) for c in changes] == [(ConfigOp.APPEND, FULL), (ConfigOp.APPEND, 1)]
    assert ",".join(c.value or "" for c in changes) == ",".join(many[1:])
    assert entry_changes({KEY: many}, {"t": {FOLLOWER_LIST: "*"}}) == []


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_a_goal_fits_up_to_the_last_byte_of_a_list(spare: int, fits: bool) -> None:
    """Two entries of 3 characters for the leaders, one for the follower; the leaders' list decides."""
    there = "9" * (LIST_LIMIT - 2 * len("0:1,") - 1 - spare)
    moved = goal("t", 0, (3, 2))
    capacity = list_capacity_for([moved], Rates(into=5, out=5), {"t": {LEADER_LIST: there}}, {})
    assert capacity.fits == ((moved,) if fits else ())
    assert list(capacity.blocked) == ([] if fits else [moved.key])


def test_goals_fill_a_list_one_after_another_and_the_rest_waits() -> None:
    rates = Rates(into=5)
    goals = [goal("t", n, (3, 2)) for n in range(3)]
    there = "9" * (LIST_LIMIT - 2 * len("0:3,") - 1)
    capacity = list_capacity_for(goals, rates, {"t": {FOLLOWER_LIST: there}}, {})
    assert (capacity.fits, dict(capacity.blocked)) == (tuple(goals[:2]), {}), (
        "the third waits until the others' entries go"
    )


def test_a_goal_waits_where_our_own_entries_fill_the_list_and_is_blocked_where_others_do() -> None:
    full, moved = {"t": {FOLLOWER_LIST: "9" * LIST_LIMIT}}, goal("t", 0, (3, 2))
    assert not list_capacity_for([moved], Rates(into=5), full, {KEY: ["1:3"]}).blocked
    assert list_capacity_for([moved], Rates(into=5), full, {KEY: []}).blocked


def test_entries_are_taken_out_where_one_is_seen_or_the_list_stands_empty() -> None:
    held = {KEY: ("0:1", "0:2")}
    for value in ("0:2,7:7", "0:1", ""):
        (change,) = removal_changes(held, {"t": {FOLLOWER_LIST: value}})
        assert (change.op, change.value, change.name, change.key) == (ConfigOp.SUBTRACT, "0:1,0:2", "t", FOLLOWER_LIST)
    for value in ("7:7", "0:3"):
        assert removal_changes(held, {"t": {FOLLOWER_LIST: value}}) == []
    assert removal_changes(held, {"t": {}}) == removal_changes(held, {}) == []


def test_a_list_is_deleted_only_where_it_stands_empty() -> None:
    keys = [KEY, KEY._replace(key=LEADER_LIST), KEY._replace(name="u")]
    changes = empty_list_changes(keys, {"t": {FOLLOWER_LIST: "", LEADER_LIST: "0:1"}})
    assert [(c.op, c.name, c.key, c.value) for c in changes] == [(ConfigOp.DELETE, "t", FOLLOWER_LIST, None)]
