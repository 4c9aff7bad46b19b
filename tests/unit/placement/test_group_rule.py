"""The compiled rule of groups against every set there is.

Constraints by tags on lists, on slots and in the integer program.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from kafkakit.core.plan import TagConstraint
from kafkakit.placement.by_size.exact import cheapest
from kafkakit.placement.by_size.lp_relaxation import LoadLimits
from kafkakit.placement.by_size.slots import SearchState, SlotTable, make_table
from kafkakit.placement.group_numbers import NumberedGroups, group_numbers, numbered_rule
from kafkakit.placement.group_repairs import GroupRepair, GroupRepairs, NoRepair, tag_repair
from kafkakit.placement.group_rooms import Grouping, Room, TagSteps
from kafkakit.placement.group_rule import SpreadRule, TagRules, binding_notes
from kafkakit.placement.openings import OpeningsTask, fill_openings, group_openings, group_partitions
from kafkakit.placement.watch import UNWATCHED

SEEDS = range(120)


def drawn(rng: random.Random, *, spread: bool) -> tuple[Grouping, tuple[int, ...]]:
    """A grouping of up to seven brokers, some without a group, and a replica set on them."""
    names: Sequence[str | None] = rng.choice([["a", "b", "c"], ["a", "b", None], ["a", "a", "b", "c", "d"]])
    groups = {b: rng.choice(names) for b in range(rng.randint(3, 7))}
    takers = [b for b in groups if rng.random() < 0.8]
    named = tuple(sorted({g for b in takers if (g := groups[b])}))
    rule = SpreadRule(spread_over=named) if spread and named else SpreadRule(rng.randint(0, 3))
    return Grouping.of(rule, groups, takers), tuple(rng.sample(sorted(groups), rng.randint(1, min(4, len(groups)))))


def keeps(rule: SpreadRule, groups: Sequence[str | None]) -> bool:
    """The rule once more, from its definition."""
    used = Counter(g for g in groups if g)
    if rule.spread_over:
        counts = [used[g] for g in rule.spread_over]
        return max(counts) - min(counts) <= 1
    return max(used.values(), default=0) <= 1 or (0 < rule.min_groups <= len(used))


def sets_in(room: Room, grouping: Grouping) -> Iterator[tuple[int, ...]]:
    """Every way to take what the room offers."""
    open_to = sorted(b for offer in room.offers.values() for b in offer.brokers)
    for chosen in combinations(open_to, room.units):
        taken = Counter(grouping.groups_of(chosen))
        extra = 0
        for group, offer in room.offers.items():
            if taken[group] < offer.must or taken[group] > offer.must + offer.free + offer.again:
                break
            extra += max(0, taken[group] - offer.must - offer.free)
        else:
            if extra <= room.repeats:
                yield chosen


@pytest.mark.parametrize("spread", [False, True])
def test_whatever_a_room_offers_keeps_the_rule(spread: bool) -> None:
    looked = 0
    for seed in SEEDS:
        rng = random.Random(seed)
        grouping, kept = drawn(rng, spread=spread)
        if not keeps(grouping.rule, grouping.groups_of(kept)):
            continue
        wanted = len(kept) + rng.randint(0, 3)
        room = grouping.room_beside(kept, wanted)
        takers = [b for ids in grouping.receivers.values() for b in ids if b not in kept]
        valid = {
            n: any(keeps(grouping.rule, grouping.groups_of((*kept, *new))) for new in combinations(takers, n))
            for n in range(wanted - len(kept) + 1)
        }
        ways = list(sets_in(room, grouping))
        assert ways, f"seed {seed}: a room of {room.units} that nothing fills"
        for new in ways:
            assert keeps(grouping.rule, grouping.groups_of((*kept, *new))), f"seed {seed}: {kept} and {new}"
        if room.units < wanted - len(kept) and None not in grouping.receivers:
            assert not valid[wanted - len(kept)], f"seed {seed}"
        looked += bool(room.units)
    assert looked > 20


@pytest.mark.parametrize("spread", [False, True])
def test_a_repair_moves_as_few_copies_as_any(spread: bool) -> None:
    repaired = 0
    for seed in SEEDS:
        grouping, replicas = drawn(random.Random(seed), spread=spread)
        if spread and not grouping.rule.spreads:
            continue
        need = GroupRepairs(grouping).need_of(replicas)
        takers = sorted(b for ids in grouping.receivers.values() for b in ids)
        found = [
            moves
            for moves in range(len(replicas) + 1)
            for stay in combinations(replicas, len(replicas) - moves)
            for new in combinations([b for b in takers if b not in replicas], moves)
            if keeps(grouping.rule, grouping.groups_of((*stay, *new)))
        ]
        if isinstance(need, GroupRepair):
            assert need.moves == min(found), f"seed {seed}: {replicas}"
            assert need.room.units == need.moves
            repaired += 1
        elif need is None:
            assert min(found) == 0, f"seed {seed}: {replicas}"
        else:
            assert not found, f"seed {seed}: {replicas}"
    assert repaired > 10


def test_equal_needs_are_one_object_and_say_what_is_short() -> None:
    repairs = GroupRepairs(Grouping.of(SpreadRule(), {1: "a", 2: "a", 3: "a", 4: "b"}, [1, 2, 3, 4]))
    assert repairs.need_of((1, 2)) is repairs.need_of((2, 3))
    assert repairs.need_of((1, 4)) is None
    assert repairs.need_of((1, 2, 3)) == NoRepair(
        "3 replicas in 1 rack(s) need 2 more, and the live brokers have 1 unused"
    )


def test_a_new_copy_goes_to_unused_groups_before_a_broken_set_repeats_more() -> None:
    groups: dict[int, str | None] = {1: "a", 2: "a", 3: "a", 4: "b"}
    grouping = Grouping.of(SpreadRule(2), groups, [3, 4])
    assert list(sets_in(grouping.room_beside((1, 2), 3), grouping)) == [(4,)]
    assert grouping.room_beside((1, 2), 4).units == 2


def test_a_set_may_stay_as_broken_as_it_was() -> None:
    apart, two = SpreadRule(), SpreadRule(2)
    assert apart.permits(["a", "a", "b"], ["a", "a", "c"])
    assert not apart.permits(["a", "a", "a"], ["a", "a", "c"])
    assert not apart.permits(["a", "a"], ["a", "b"])
    assert two.permits(["a", "b", "b"], ["a", "b", "c"])
    assert two.permits(["b", "b"], ["a", "a"])
    even = SpreadRule(spread_over=("a", "b"))
    assert even.permits(["a", "a", "a", "b"], ["a", "a", "a", "a"])
    assert not even.permits(["a", "a", "a", "a"], ["a", "a", "a", "b"])
    assert even.permits(["a", "a"], ["a", "a", "b"]), "the copy to come may go to b"


def test_numbers_break_the_rule_where_names_do() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        grouping, _ = drawn(rng, spread=seed % 2 == 0)
        brokers = sorted(grouping.groups)
        sets = [rng.sample(brokers, rng.randint(1, len(brokers))) for _ in range(6)]
        numbers, count = group_numbers(brokers, grouping.groups)
        numbered = NumberedGroups.of(numbered_rule(grouping.rule, brokers, grouping.groups), count)
        of = dict(zip(brokers, numbers.tolist(), strict=True))
        broken = [not keeps(grouping.rule, grouping.groups_of(row)) for row in sets]
        assert [numbered.violates(of[b] for b in row) for row in sets] == broken
        assert [grouping.rule.violates(grouping.groups_of(row)) for row in sets] == broken
        part = np.array([n for n, row in enumerate(sets) for _ in row])
        group = np.array([of[b] for row in sets for b in row])
        assert numbered.broken(part, group, len(sets)).tolist() == [n for n, bad in enumerate(broken) if bad]


FEEDS = TagConstraint(text="spread-by feed", values={1: "x", 2: "y", 3: "x", 4: "y"})
ONLY = TagConstraint(text="affinity", topics=("t",), only=(1, 2, 3))
NEVER = TagConstraint(text="anti", topics=("t",), never=(4,))


def table(rows: list[list[int]], *constraints: TagConstraint) -> SlotTable:
    tags = TagRules(constraints) if constraints else None
    rule = SpreadRule(tags=tags)
    return make_table(rows, [1] * len(rows), {}, rule, receivers=(1, 2, 3, 4), topics=["t"] * len(rows))


def emptied(slots: SlotTable, broker: int) -> LoadLimits:
    ceiling = np.array([0 if b == broker else 9 for b in slots.brokers])
    none = np.zeros(len(ceiling), dtype=np.int64)
    return LoadLimits(floor=none, ceiling=ceiling, even=np.zeros(len(ceiling), dtype=bool), offset=none)


def test_the_integer_program_keeps_the_spread() -> None:
    free = table([[1, 2]])
    found = cheapest(free, emptied(free, 2), None, watch=UNWATCHED)
    assert found.at is not None
    bound = table([[1, 2]], FEEDS)
    found = cheapest(bound, emptied(bound, 2), None, watch=UNWATCHED)
    assert found.at is not None
    assert [bound.brokers[b] for b in found.at] == [1, 4]


def test_the_integer_program_keeps_affinities() -> None:
    for constraint in (ONLY, NEVER):
        slots = table([[1, 2]], FEEDS, constraint)
        assert cheapest(slots, emptied(slots, 2), None, watch=UNWATCHED).at is None


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
    return Grouping.of(SpreadRule(tags=TagRules(constraints)), RACKS, (1, 2, 3, 4), ["t"])


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("closing", [False, True])
def test_joined_rooms_fill_as_evenly_as_rooms_apart(spread: bool, closing: bool) -> None:
    joined_rooms = 0
    for seed in range(200):
        rng = random.Random(f"{spread}/{closing}/{seed}")
        room, _ = drawn(rng, spread=spread)
        wanted = rng.randint(2, 4)
        openings = {
            i: (tuple(rng.sample(sorted(room.groups), rng.randint(0, min(2, len(room.groups))))), wanted)
            for i in range(rng.randint(2, 12))
        }
        if closing:
            shut = frozenset(rng.sample(sorted(room.groups), 1))
            room = replace(room, topics=["t"] * 12, closed={i: shut for i in openings if rng.random() < 0.7})
        apart = [a for a in group_partitions(openings, room, repairs=False, separate_pairs=10**6) if a.room.units]
        joined = [a for a in group_partitions(openings, room, repairs=False, separate_pairs=-1) if a.room.units]
        joined_rooms += sum(len({frozenset(row) for row in a.keeps}) > 1 for a in joined)
        assert sorted(m for a in joined for m in a.members) == sorted(m for a in apart for m in a.members)
        held = {b: rng.choice([0, 0, 3, 9]) for b in room.groups}
        chosen, alone = (fill_openings(OpeningsTask(rooms, held))[0] for rooms in (joined, apart))
        for a in apart:
            legal = {frozenset(row) for row in sets_in(a.room, room)}
            for m in a.members:
                assert len(set(chosen[m])) == len(chosen[m]) == a.room.units
                assert frozenset(chosen[m]) in legal, seed
        ends = [Counter(held) + Counter(b for row in rows.values() for b in row) for rows in (chosen, alone)]
        assert sorted(ends[0].values()) == sorted(ends[1].values()), seed
    assert joined_rooms > 5, "there must be rooms that were joined"


def test_many_rooms_that_differ_by_what_is_kept_become_few() -> None:
    racks: dict[int, str | None] = {b: f"r{b % 4}" for b in range(60)}
    room = Grouping.of(SpreadRule(2), racks, racks)
    rng = random.Random(1)
    openings = {i: (tuple(rng.sample(range(60), 2)), 4) for i in range(3000)}
    rooms = group_partitions(openings, room, repairs=False)
    assert len(rooms) <= 10, "four racks have ten pairs"
    held = {b: 0 if b < 10 else 500 for b in racks}
    chosen, _ = fill_openings(OpeningsTask(rooms, held))
    assert all(len({*chosen[i], *kept}) == 4 for i, (kept, _) in openings.items())
    ends = Counter(held) + Counter(b for row in chosen.values() for b in row)
    assert max(ends.values()) - min(ends.values()) <= 1


def test_a_look_ahead_leaves_out_dead_ends() -> None:
    # Of rack a only 2 has feed y: with 1 there, no y would be left but 4 in rack c, and then none for the third.
    feeds = TagConstraint(text="spread-by feed", values={1: "x", 2: "y", 3: "x", 4: "x"})
    room = grouping(feeds)
    steps = TagSteps(room, TagRules((feeds,)))
    assert steps.next_copy(0, (), 3) == (3, frozenset({2, 3, 4}))
    rooms, unfit = group_openings({0: ((), 3)}, room)
    assert not unfit
    chosen, _ = fill_openings(OpeningsTask(rooms, dict.fromkeys((1, 2, 3, 4), 0)))
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
        "anti: kept 1 new copy off broker 4",
        "spread-by feed: kept 2 new copies off broker 3",
    )
    assert binding_notes(TagRules((NEVER,)), rows[1:], (1, 2, 3, 4)) == ("anti: kept no new copy off any broker",)
