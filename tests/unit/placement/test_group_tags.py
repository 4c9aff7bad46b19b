"""Constraints by tags on lists, on slots and in the integer program."""

import numpy as np
import pytest

from kafkakit.core.plan import TagConstraint
from kafkakit.placement.by_size.exact import cheapest
from kafkakit.placement.by_size.lp_relaxation import Limits
from kafkakit.placement.by_size.slots import SearchState, SlotTable, make_table
from kafkakit.placement.group_repairs import tag_repair
from kafkakit.placement.group_rooms import Grouping, TagSteps
from kafkakit.placement.group_rule import GroupRule, TagRules, binding_notes
from kafkakit.placement.openings import fill_openings, group_openings

FEEDS = TagConstraint(text="spread-by feed", values={1: "x", 2: "y", 3: "x", 4: "y"})
ONLY = TagConstraint(text="affinity", topics=("t",), only=(1, 2, 3))
NEVER = TagConstraint(text="anti", topics=("t",), never=(4,))


def table(rows: list[list[int]], *constraints: TagConstraint) -> SlotTable:
    tags = TagRules(constraints) if constraints else None
    rule = GroupRule(tags=tags)
    return make_table(rows, [1] * len(rows), {}, rule, receivers=(1, 2, 3, 4), topics=["t"] * len(rows))


def emptied(slots: SlotTable, broker: int) -> Limits:
    ceiling = np.array([0 if b == broker else 9 for b in slots.brokers])
    none = np.zeros(len(ceiling), dtype=np.int64)
    return Limits(floor=none, ceiling=ceiling, even=np.zeros(len(ceiling), dtype=bool), offset=none)


def test_the_integer_program_keeps_the_spread() -> None:
    free = table([[1, 2]])
    found = cheapest(free, emptied(free, 2), None)
    assert found.at is not None
    bound = table([[1, 2]], FEEDS)
    found = cheapest(bound, emptied(bound, 2), None)
    assert found.at is not None
    assert [bound.brokers[b] for b in found.at] == [1, 4]


def test_the_integer_program_keeps_affinities() -> None:
    for constraint in (ONLY, NEVER):
        slots = table([[1, 2]], FEEDS, constraint)
        assert cheapest(slots, emptied(slots, 2), None).at is None


def test_slots_go_where_constraints_let_them() -> None:
    slots = table([[1, 2]], FEEDS)
    state = SearchState(slots, [0] * 4, [9] * 4)
    index = {b: i for i, b in enumerate(slots.brokers)}
    assert [b for b in (3, 4) if state.fits(1, index[b])] == [4]
    assert [b for b in (3, 4) if state.fits(0, index[b])] == [3]
    crowded = SearchState(table([[1, 3]], FEEDS), [0] * 4, [9] * 4)
    crowded.move(1, index[4])
    assert crowded.fits(1, index[3])  # as it was before the plan


@pytest.mark.parametrize(
    ("old", "new", "faults"),
    [
        ((1, 2), (1, 4), []),
        ((1, 2), (1, 3), ["spread-by feed"]),
        ((1, 3), (1, 3), []),
        ((1, 3, 2), (1, 3, 4), []),
        ((1, 2, 4), (1, 3, 4), []),
        ((1,), (1, 2, 3), []),
        ((2,), (2, 4, 9), []),
        ((2,), (2, 4), ["spread-by feed"]),
    ],
)
def test_only_new_copies_break_a_spread(old: tuple[int, ...], new: tuple[int, ...], faults: list[str]) -> None:
    assert TagRules((FEEDS,)).faults("t", old, new) == faults


def test_topics_that_are_not_named_are_free() -> None:
    rules = TagRules((ONLY, NEVER))
    assert rules.faults("t", (1, 2), (1, 4)) == ["affinity", "anti"]
    assert rules.faults("other", (1, 2), (1, 4)) == []
    assert rules.open_to("other", (), 1, (3, 4)) == {3, 4}
    assert rules.open_to("t", (), 1, (3, 4)) == {3}


RACKS = {1: "a", 2: "a", 3: "b", 4: "c"}


def grouping(*constraints: TagConstraint) -> Grouping:
    return Grouping.of(GroupRule(tags=TagRules(constraints)), RACKS, (1, 2, 3, 4), ["t"])


def test_a_look_ahead_leaves_out_dead_ends() -> None:
    # Of rack a only 2 has feed y: with 1 there, no y would be left but 4 in rack c, and then none for the third.
    feeds = TagConstraint(text="spread-by feed", values={1: "x", 2: "y", 3: "x", 4: "x"})
    room = grouping(feeds)
    steps = TagSteps(room, TagRules((feeds,)))
    assert steps.next_copy(0, (), 3) == (3, frozenset({2, 3, 4}))
    rooms, unfit = group_openings({0: ((), 3)}, room)
    assert not unfit
    chosen, _ = fill_openings(rooms, dict.fromkeys((1, 2, 3, 4), 0))
    assert sorted(chosen[0]) == [2, 3, 4]


def test_what_finds_no_place_is_counted() -> None:
    _, unfit = group_openings({0: ((3,), 3)}, grouping(ONLY))
    assert unfit == {0: 1}
    feeds = TagConstraint(text="spread-by feed", values=dict.fromkeys((1, 2, 3, 4), "x") | {9: "y"})
    _, unfit = group_openings({0: ((), 3)}, grouping(feeds))
    assert unfit == {0: 2}


def test_repairs_drop_from_the_end() -> None:
    assert tag_repair(TagSteps(grouping(FEEDS), TagRules((FEEDS,))), 0, (1, 4, 3)) is None
    steps = TagSteps(grouping(NEVER), TagRules((NEVER,)))
    found = tag_repair(steps, 0, (4, 1))
    assert found is not None
    assert (found.kept, found.least) == ((1,), 1)  # 4 is closed
    found = tag_repair(steps, 0, (4, 1, 2))
    assert found is not None
    assert (found.kept, steps.next_copy(0, found.kept, 3)[0]) == ((1,), 1)  # 2 repeats rack a, and only b is left


def test_notes_count_the_copies_that_were_bound() -> None:
    rows = [("t", (1, 2), (1, 3)), ("u", (1, 2), (1, 4)), ("t", (1, 2), (2, 1))]
    assert binding_notes(TagRules((NEVER, FEEDS)), rows, (1, 2, 3, 4)) == (
        "anti: closed broker 4 to 1 new copy",
        "spread-by feed: closed broker 3 to 2 new copies",
    )
    assert binding_notes(TagRules((NEVER,)), rows[1:], (1, 2, 3, 4)) == ("anti: closed no broker to any new copy",)
