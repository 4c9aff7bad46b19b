"""Local steps after a first plan: repair of brokers outside their limits, and free steps that spread counts and topics.

A step moves a slot, or lets two change places. Shedding brings a broker below its ceiling, filling brings one above its
floor, at the least extra cost; then copies are saved. Free steps come first: slots that move anyway go elsewhere or
change places. Only then steps are taken that copy more. Every step states what is still missing after it and what it
adds to the cost.

Steps that spread counts and topics, once a plan is found, add no move and take none away, so bytes and copies stay what
they are; loads stay inside the state's limits. All work is limited by counts of looks, never by the clock, so that
equal input gives equal plans.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkakit.placement.by_size.layout import lists_of
from kafkakit.placement.by_size.slots import (
    NEAR,
    Entry,
    Pools,
    SearchState,
    SlotTable,
    counts_of,
    entries_near,
    positions,
    sample_evenly,
)
from kafkakit.placement.leaders import NO_LEADER, LeaderLimits, leaders_within

if TYPE_CHECKING:
    from kafkakit.core.columns import Ints


Step = tuple[tuple[int, int], ...]
"""(slot, destination) moves that belong together."""
Priced = tuple[int, int, Step]
"""Load still missing afterwards, added cost, the step."""


def free_sheds(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    """Steps without cost: an arrival goes elsewhere, or changes places with a smaller one."""
    state = pools.state
    yield from _sent_away(pools, broker, pools.arrived(broker), excess, is_free=True)
    for dest in [b for b in _roomy_receivers(pools, broker, 1) if state.arrived[b]]:
        room = state.ceiling[dest] - state.load[dest]
        yield from _exchanges(pools, broker, dest, excess, room, sign=-1)


def priced_sheds(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    """Steps that cost: a larger slot leaves in place of one that left, one more leaves, two change places."""
    state = pools.state
    gone = [(size, slot) for size, slot in pools.moved if state.home(slot) == broker]
    yield from _replacements(pools, gone, excess, broker)
    yield from _sent_away(pools, broker, pools.unmoved_slots(broker), excess, is_free=False)
    yield from _swaps(pools, broker, excess)


def free_fills(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Steps without cost: a slot that moves anyway comes here, or changes places with one that came."""
    state = pools.state
    for size, slot in entries_near(pools.moved, lack):
        source = state.moved[slot]
        if source == broker or not state.can_take(broker, size) or not state.can_give(source, size):
            continue
        if state.fits(slot, broker):
            yield (max(0, lack - size), 0, ((slot, broker),))
    room = state.ceiling[broker] - state.load[broker]
    for source in _sparing_brokers(pools, broker):
        spare = min(state.load[source] - state.floor[source], room)
        yield from _exchanges(pools, broker, source, lack, spare, sign=1)


def priced_fills(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Steps that cost: a larger slot in place of an arrival, another slot of a giver, one more slot, a swap."""
    yield from _compensated_exchanges(pools, broker, lack)
    yield from _replacements(pools, pools.arrived(broker), lack, None)
    yield from _redirections(pools, broker, lack)
    yield from _additions(pools, broker, lack)


def _sent_away(pools: Pools, broker: int, entries: Sequence[Entry], excess: int, *, is_free: bool) -> Iterator[Priced]:
    """One of the entries goes to the roomiest broker that may take it."""
    for size, slot in entries_near(entries, excess):
        for dest in _roomy_receivers(pools, broker, size):
            if pools.state.fits(slot, dest):
                yield (max(0, excess - size), 0 if is_free else size, ((slot, dest),))
                break


def _exchanges(pools: Pools, broker: int, other: int, missing: int, limit: int, *, sign: int) -> Iterator[Priced]:
    """An arrival of the broker and one of another change places; `sign` is 1 to gain load and -1 to lose it.

    The smallest gain that is enough, else the largest below the limit.
    """
    theirs = pools.arrived(other)
    for size, slot in sample_evenly(pools.arrived(broker)):
        at = bisect_left(theirs, (size + sign * min(missing, limit), -1))
        for partner, back in theirs[at : at + 1] + theirs[max(0, at - 1) : at]:
            gain = sign * (partner - size)
            if 0 < gain <= limit and _can_swap(pools, slot, back, broker, other):
                yield (max(0, missing - gain), 0, ((slot, other), (back, broker)))


def _replacements(pools: Pools, moved: Sequence[Entry], missing: int, shedding: int | None) -> Iterator[Priced]:
    """A moved slot goes home, and a larger slot of that home goes where it was.

    Only a shedding home may end below its floor: filling comes after, and plans come out closer than without.
    """
    state = pools.state
    for small, back in sample_evenly(moved):
        home, dest = state.home(back), state.broker(back)
        for size, slot in entries_near(pools.unmoved_slots(home), small + missing, 8):
            gain = size - small
            if gain <= 0 or not state.can_take(dest, gain) or not (home == shedding or state.can_give(home, gain)):
                continue
            if state.fits(slot, dest) and state.fits(back, home):
                yield (max(0, missing - gain), gain, ((back, home), (slot, dest)))
                break


def _swaps(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    """A slot of this broker and a smaller one of another change places: for brokers without room on their own."""
    state = pools.state
    if not state.table.receiver[broker]:
        return
    for dest in pools.receivers[: NEAR * 4]:
        room = state.ceiling[dest] - state.load[dest]
        theirs = pools.unmoved_slots(dest) if dest in pools.giving else []
        if dest == broker or room <= 0 or not theirs:
            continue
        for size, slot in pools.unmoved_slots(broker)[-NEAR:]:
            at = bisect_left(theirs, (size - min(excess, room), -1))
            for small, other in theirs[at : at + 2]:
                gain = size - small
                if 0 < gain <= room and _can_swap(pools, slot, other, broker, dest):
                    yield (max(0, excess - gain), size + small, ((slot, dest), (other, broker)))
                    break


def _can_swap(pools: Pools, slot: int, other: int, broker: int, dest: int) -> bool:
    state = pools.state
    return state.fits(slot, dest) and state.fits(other, broker)


def _roomy_receivers(pools: Pools, broker: int, size: int) -> list[int]:
    """Receivers that can take so much, the roomiest first."""
    state = pools.state
    found = [b for b in pools.receivers if b != broker and state.can_take(b, size)]
    return sorted(found, key=lambda b: (state.load[b] - state.ceiling[b], b))[:NEAR]


def _sparing_brokers(pools: Pools, broker: int) -> list[int]:
    """Other brokers with arrivals and load above their floors, those that can spare most first."""
    return _above_floor(pools, broker, (b for b, slots in enumerate(pools.state.arrived) if slots))


def _above_floor(pools: Pools, broker: int, among: Iterable[int]) -> list[int]:
    state = pools.state
    found = [(state.floor[b] - state.load[b], b) for b in among if b != broker and state.load[b] > state.floor[b]]
    return [b for _, b in sorted(found)[:NEAR]]


def _compensated_exchanges(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Two exchanges at one home: a broker with slack gets a smaller slot of it, this one as much larger a slot."""
    state = pools.state
    slack: dict[int, list[int]] = {}
    for dest in _sparing_brokers(pools, broker):
        for _, slot in sample_evenly(pools.arrived(dest)):
            slack.setdefault(state.home(slot), []).append(slot)
    found = 0
    for own, mine in sample_evenly(pools.arrived(broker)):
        home = state.home(mine)
        entries = pools.unmoved_slots(home)
        for theirs in slack.get(home, ())[:_PAIRS]:
            dest, size = state.moved[theirs], state.size(theirs)
            less = min(lack, state.load[dest] - state.floor[dest])
            smaller = _first_legal(pools, entries, size - less, dest)
            if smaller is None or smaller[0] >= size:
                continue
            down = size - smaller[0]
            bigger = _first_legal(pools, entries, own + down, broker)
            if bigger is None:
                continue
            gain = bigger[0] - own
            if not state.can_take(broker, gain) or not state.can_give(home, gain - down):
                continue
            parts = {state.part(s) for s in (mine, theirs, smaller[1], bigger[1])}
            if len(parts) == _APART and state.fits(mine, home) and state.fits(theirs, home):
                step = ((mine, home), (theirs, home), (smaller[1], dest), (bigger[1], broker))
                yield (max(0, lack - gain), gain - down, step)
                found += 1
        if found >= _ENOUGH:
            break


_PAIRS = 6  # exchanges tried against one slot
_ENOUGH = 12  # good steps to choose from
_APART = 4  # all four slots must be of different partitions


def _first_legal(pools: Pools, entries: Sequence[Entry], size: int, dest: int) -> Entry | None:
    """The smallest slot of at least this size that may go to `dest`, among the next few."""
    at = bisect_left(entries, (size, -1))
    return next((entry for entry in entries[at : at + NEAR] if pools.state.fits(entry[1], dest)), None)


def _redirections(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """A slot that went elsewhere goes home, and another of that home, about as large, comes here instead."""
    state = pools.state
    sparing = [(state.load[b] - state.floor[b], pools.arrived_from(b)) for b in _sparing_brokers(pools, broker)]
    found = 0
    for home in sorted({home for _, entries in sparing for home in entries}):
        if found >= _ENOUGH:
            break
        going = sorted(e for spare, entries in sparing for e in entries.get(home, ()) if e[0] <= spare)
        if not going:
            continue
        for size, slot in entries_near(pools.unmoved_slots(home), lack):
            if not state.can_take(broker, size) or not state.fits(slot, broker):
                continue
            room = state.ceiling[home] - state.load[home]
            at = bisect_left(going, (size + room + 1, -1)) - 1
            if at >= 0 and state.fits(going[at][1], home):
                back, other = going[at]
                if state.can_give(home, size - back):
                    yield (max(0, lack - size), max(0, size - back), ((other, home), (slot, broker)))
                    found += 1
                    break


def _additions(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """One more slot of a giver comes here."""
    state = pools.state
    for home in _above_floor(pools, broker, pools.givers):
        for size, slot in entries_near(pools.unmoved_slots(home), lack, 16):
            if state.can_take(broker, size) and state.can_give(home, size) and state.fits(slot, broker):
                yield (max(0, lack - size), size, ((slot, broker),))
                break


Options = Callable[[Pools, int, int], Iterator[Priced]]
_STEPS = 64  # steps spent on one broker in one round
_ROUNDS = 4


def repair(pools: Pools) -> None:
    """Bring every broker inside its limits, as far as single steps can."""
    state = pools.state
    for _ in range(_ROUNDS):
        before = state.outside()
        if not before:
            return
        brokers = range(len(state.load))
        for broker in sorted(brokers, key=lambda b: (state.ceiling[b] - state.load[b], b)):
            _repeat(pools, broker, lambda b: state.load[b] - state.ceiling[b], (free_sheds, priced_sheds))
        for broker in sorted(brokers, key=lambda b: (state.load[b] - state.floor[b], b)):
            _repeat(pools, broker, lambda b: state.floor[b] - state.load[b], (free_fills, priced_fills))
        if state.outside() >= before:
            return


_MORE = 8  # slots that may leave one broker, or come to it, to settle it


def settle(pools: Pools) -> None:
    """Bring brokers inside their limits with few copies more, whatever bytes they take.

    The smallest slot that is enough leaves a broker above its ceiling or comes to one below its floor, else the largest
    that may. Exchanges that cost no copy are left to the repair, which looks at many more.
    """
    state = pools.state
    brokers = range(len(state.load))
    for broker in sorted(brokers, key=lambda b: (state.ceiling[b] - state.load[b], b)):
        for _ in range(_MORE):
            excess = state.load[broker] - state.ceiling[broker]
            leaving = _sent_away(pools, broker, pools.unmoved_slots(broker), excess, is_free=False)
            step = next((s for _, size, s in leaving if state.can_give(broker, size)), None) if excess > 0 else None
            if step is None:
                break
            pools.take(step)
    for broker in sorted(brokers, key=lambda b: (state.load[b] - state.floor[b], b)):
        for _ in range(_MORE):
            lack = state.floor[broker] - state.load[broker]
            step = next((s for _, _, s in _additions(pools, broker, lack)), None) if lack > 0 else None
            if step is None:
                break
            pools.take(step)


def _repeat(pools: Pools, broker: int, missing: Callable[[int], int], kinds: tuple[Options, Options]) -> None:
    for _ in range(_STEPS):
        lack = missing(broker)
        step = (
            _best_step(pools, broker, lack, kinds) if lack > 0 and pools.state.tested < pools.state.most_tests else None
        )
        if step is None:
            return
        pools.take(step)


def _best_step(pools: Pools, broker: int, lack: int, kinds: tuple[Options, Options]) -> Step | None:
    """A step that helps, free ones first; what it leaves missing is counted as load that must be copied later."""
    for options in kinds:
        best: tuple[int, Priced] | None = None
        for option in options(pools, broker, lack):
            worth = (option[0] + option[1], option)
            if option[0] < lack and (best is None or worth < best):
                best = worth
                if not worth[0]:  # nothing missing and nothing spent: there is no better step
                    break
            if pools.state.tested >= pools.state.most_tests:
                break
        if best is not None:
            return best[1][2]
    return None


def save(pools: Pools) -> None:
    """Take moves back, or make them smaller, wherever the limits allow; largest first. O(moved x log)."""
    state = pools.state
    for size, slot in sorted(pools.moved, reverse=True):
        if slot not in state.moved:
            continue
        home, dest = state.home(slot), state.moved[slot]
        slack = min(state.ceiling[home] - state.load[home], state.load[dest] - state.floor[dest])
        if slack <= 0:
            continue
        if slack >= size:
            if state.fits(slot, home):
                pools.take(((slot, home),))
            continue
        entries = pools.unmoved_slots(home)
        at = bisect_left(entries, (size - slack, -1))
        for small, other in entries[at : at + 4]:
            if small < size and state.fits(other, dest) and state.fits(slot, home):
                pools.take(((slot, home), (other, dest)))
                break


MOST_LOOKS = 150_000
"""Looks at most for one goal, 0.3 s: one for each place weighed, some more for each that is tried."""
_FEWEST_LOOKS = 8_000
_LOOKS_PER_MOVE = 16
_TRIED = 8  # looks that asking the rules about a place is worth
_SLOTS = 6  # slots of one broker that are tried for one place
_PLACES = 16  # brokers that are tried for one slot


def looks_for(moves: int) -> int:
    """How many looks one goal is worth in a plan with so many moves."""
    return min(MOST_LOOKS, _FEWEST_LOOKS + _LOOKS_PER_MOVE * moves)


class FreeMoves:
    """The moved slots by broker and size, and what is counted while they change places."""

    def __init__(self, state: SearchState, counts: Sequence[int]) -> None:
        self.state = state
        self.counts = list(counts)
        self.looks = looks_for(len(state.moved))
        self.steps = 0
        self.receivers: list[int] = [b for b, takes in enumerate(state.table.receiver.tolist()) if takes]
        self.pool: list[int] = state.table.pool.tolist()
        self.arrived: list[list[Entry]] = [sorted((state.size(s), s) for s in row) for row in state.arrived]

    def may_go(self, slot: int, dest: int) -> bool:
        """True when the rules let the slot go there, and it would be a move as much as before."""
        state = self.state
        self.looks -= _TRIED
        if dest == state.home(slot) or any(dest == state.home(s) for s in state.siblings(slot)):
            return False  # a copy that is there already would not move
        return state.fits(slot, dest)

    def move(self, slot: int, dest: int) -> None:
        """Send a moved slot elsewhere."""
        entry, source = (self.state.size(slot), slot), self.state.broker(slot)
        entries = self.arrived[source]
        del entries[bisect_left(entries, entry)]
        insort(self.arrived[dest], entry)
        self.counts[source] -= 1
        self.counts[dest] += 1
        self.state.move(slot, dest)

    def take(self, step: Step) -> None:
        """Make the moves of one step."""
        for slot, dest in step:
            self.move(slot, dest)
        self.steps += 1

    def shift(self, source: int, dest: int) -> tuple[int, int]:
        """The least and the most load that may go from one broker to the other in all."""
        state = self.state
        least = max(state.load[source] - state.ceiling[source], state.floor[dest] - state.load[dest])
        return least, min(state.load[source] - state.floor[source], state.ceiling[dest] - state.load[dest])


def level_counts(free: FreeMoves) -> None:
    """Even the receivers' counts: one slot goes to a broker with fewer, or two in exchange for one as large."""
    for _ in range(_ROUNDS):
        before = free.steps
        order = sorted(free.receivers, key=lambda b: (free.counts[b], b))
        for source in (b for b in reversed(order) if free.arrived[b]):
            for dest in order:
                if free.counts[source] - free.counts[dest] < 2 or free.looks <= 0:
                    break
                _hand_over(free, source, dest)
        if free.steps == before or free.looks <= 0:
            return


def _hand_over(free: FreeMoves, source: int, dest: int) -> bool:
    """One slot fewer on the source and one more on the destination, if limits and rules let that be."""
    free.looks -= 1
    limits = free.state.table.counts
    if limits is not None and (
        free.counts[source] <= limits.floor[source] or free.counts[dest] >= limits.ceiling[dest]
    ):
        return False
    least, most = free.shift(source, dest)
    entries = free.arrived[source]
    first = bisect_left(entries, (least, -1))
    for size, slot in entries[first : first + _SLOTS]:
        if size > most:
            break
        if free.may_go(slot, dest):
            free.take(((slot, dest),))
            return True
    return _two_for_one(free, source, dest, least, most)


def _two_for_one(free: FreeMoves, source: int, dest: int, least: int, most: int) -> bool:
    mine = free.arrived[source]
    for small, slot in list(mine[:_SLOTS]):
        for large, back in list(free.arrived[dest][-_SLOTS:]):
            free.looks -= 1
            wanted = large - small
            for _, other in _entries_between(mine, wanted + least, wanted + most, wanted):
                if free.state.part(other) in (free.state.part(slot), free.state.part(back)) or other == slot:
                    continue
                if free.state.part(slot) == free.state.part(back):
                    break
                if free.may_go(slot, dest) and free.may_go(other, dest) and free.may_go(back, source):
                    free.take(((slot, dest), (other, dest), (back, source)))
                    return True
                break
    return False


def _entries_between(entries: Sequence[Entry], least: int, most: int, wanted: int) -> Iterator[Entry]:
    """A few entries of sizes between two, nearest the wanted one."""
    low, high = bisect_left(entries, (least, -1)), bisect_right(entries, (most + 1, -1))
    at = min(max(low, bisect_left(entries, (wanted, -1)) - _SLOTS // 2), max(low, high - _SLOTS))
    yield from entries[at : min(high, at + _SLOTS)]


class Topics:
    """How many slots of each topic every broker holds; `topic` numbers the topic of each partition."""

    def __init__(self, free: FreeMoves, topic: Ints, at: Ints) -> None:
        import numpy as np

        table = free.state.table
        self._numbers: list[int] = topic.tolist()
        self._part = free.state.part
        of_slot = topic[table.part]
        order = np.argsort(of_slot, kind="stable")
        self._at = at[order]
        self._starts = np.searchsorted(of_slot[order], np.arange(int(topic.max(initial=-1)) + 2))
        self._rows: dict[int, list[int]] = {}
        self._brokers = len(table.brokers)

    def topic(self, slot: int) -> int:
        """The number of a slot's topic."""
        return self._numbers[self._part(slot)]

    def row(self, topic: int) -> list[int]:
        """The topic's slots by broker. Counted when it is first asked for: nothing of the topic moved until then."""
        import numpy as np

        found = self._rows.get(topic)
        if found is None:
            held = self._at[self._starts[topic] : self._starts[topic + 1]]
            found = self._rows[topic] = np.bincount(held, minlength=self._brokers).tolist()
        return found

    def move(self, slot: int, source: int, dest: int) -> None:
        """Count a slot on another broker."""
        row = self.row(self.topic(slot))
        row[source] -= 1
        row[dest] += 1


class Leaders:
    """The leaders of each broker, and the slots of changed partitions that lead."""

    def __init__(self, counts: Sequence[int], leading: Sequence[int]) -> None:
        self.counts = list(counts)
        self._leading = frozenset(leading)

    def keep(self, slot: int, dest: int, other: int | None, source: int) -> bool:
        """True when leaders stay as even if the slot and the other (if any) change places."""
        there, back = slot in self._leading, other in self._leading
        return there == back or (
            self.counts[dest] < self.counts[source] if there else self.counts[source] < self.counts[dest]
        )

    def move(self, slot: int, source: int, dest: int) -> None:
        """Count a slot on another broker."""
        if slot in self._leading:
            self.counts[source] -= 1
            self.counts[dest] += 1


def spread_topics(free: FreeMoves, topics: Topics, leaders: Leaders) -> None:
    """Take slots off brokers with many of their topic: elsewhere alone, or in exchange for one nearly as large.

    Counts and leaders get no less even.
    """
    state = free.state
    for _ in range(_ROUNDS):
        before = free.steps
        crowded = [(topics.row(topics.topic(s))[b], s) for s, b in state.moved.items()]
        for _, slot in sorted((-many, s) for many, s in crowded if many > 1):
            if free.looks <= 0:
                return
            _relieve(free, topics, leaders, slot)
        if free.steps == before:
            return


def _relieve(free: FreeMoves, topics: Topics, leaders: Leaders, slot: int) -> None:
    """Send one slot where its topic has at least two fewer."""
    state = free.state
    source, row = state.broker(slot), topics.row(topics.topic(slot))
    taken, racks = state.legal(slot)
    allowed, pool, most = set(racks), free.pool, row[source] - 1
    free.looks -= _TRIED
    places = [b for b in free.receivers if row[b] < most and pool[b] in allowed and b not in taken]
    # From another place each time, so that not all slots crowd onto the first brokers.
    start = slot % len(places) if places else 0
    for dest in [*places[start:], *places[:start]][:_PLACES]:
        free.looks -= 1
        step = _exchange(free, topics, leaders, slot, dest)
        if step:
            for moved, to in step:
                topics.move(moved, state.broker(moved), to)
                leaders.move(moved, state.broker(moved), to)
            free.take(step)
            return


def _exchange(free: FreeMoves, topics: Topics, leaders: Leaders, slot: int, dest: int) -> Step:
    """What sends the slot there, alone or for a slot of another topic, and spreads topics; or nothing."""
    state = free.state
    source, size, mine = state.broker(slot), state.size(slot), topics.row(topics.topic(slot))
    least, most = free.shift(source, dest)
    alone = state.table.counts is None and free.counts[dest] < free.counts[source] and least <= size <= most
    allowed: bool | None = None
    if alone and leaders.keep(slot, dest, None, source):
        allowed = free.may_go(slot, dest)
        if allowed:
            return ((slot, dest),)
    gain = mine[source] - mine[dest] - 1
    for _, other in _entries_between(free.arrived[dest], size - most, size - least, size):
        free.looks -= 1
        theirs = topics.row(topics.topic(other))
        better = theirs is not mine and gain + theirs[dest] - theirs[source] - 1 > 0
        if not better or not leaders.keep(slot, dest, other, source):
            continue
        allowed = free.may_go(slot, dest) if allowed is None else allowed
        if not allowed:
            break
        if free.may_go(other, source):
            return ((slot, dest), (other, source))
    return ()


_ROUNDS = 4


def leaders_at(table: SlotTable, at: Ints) -> Ints:
    """Who leads each partition within the ceilings with slots on the brokers `at`; `NO_LEADER` where no broker can."""
    if table.leaders is None:
        raise ValueError("the table limits no leaders")
    return leaders_within(lists_of(table, at), lists_of(table, table.home), table.brokers, table.leaders)


def without_leader(table: SlotTable, at: Ints) -> int:
    """How many partitions find no leader within the ceilings; 0 where there are none."""
    return 0 if table.leaders is None else int((leaders_at(table, at) == NO_LEADER).sum())


def repair_leaders(pools: Pools) -> int:
    """Bring a replica of each partition that finds no leader to a broker that may lead it; returns how many are left.

    Limits and rules are kept. A flow in each of a few rounds.
    """
    table = pools.state.table
    if table.leaders is None:
        return 0
    left = len(table.size)
    for _ in range(_ROUNDS):
        found = leaders_at(table, positions(pools.state)).tolist()
        lacking = [p for p, b in enumerate(found) if b == NO_LEADER]
        if not lacking or len(lacking) >= left:
            return len(lacking)
        left = len(lacking)
        _bring_leaders(pools, table.leaders, found, lacking)
    return without_leader(table, positions(pools.state))


def _bring_leaders(pools: Pools, limits: LeaderLimits, found: list[int], lacking: list[int]) -> None:
    state, table = pools.state, pools.state.table
    topic: list[int] = limits.topic.tolist()
    spare: list[int] = limits.most.tolist()
    led: dict[tuple[int, int], int] = {}
    fixed = limits.fixed.tolist()
    for part, b in enumerate(found):
        if b != NO_LEADER and not fixed[part]:
            spare[b] -= 1
            led[topic[part], b] = led.get((topic[part], b), 0) + 1
    counts = counts_of(table, positions(state))
    for part in lacking:
        for dest in sorted(pools.receivers, key=lambda b: (-spare[b], state.load[b] - state.ceiling[b], b)):
            key = topic[part], dest
            full = limits.of_topic is not None and led.get(key, 0) >= limits.topic_most(*key)
            if spare[dest] <= 0:
                break
            if not full and (slot := _slot_for(pools, part, dest, counts)) is not None:
                counts[state.broker(slot)] -= 1
                counts[dest] += 1
                pools.take(((slot, dest),))
                spare[dest] -= 1
                led[key] = led.get(key, 0) + 1
                break


def _slot_for(pools: Pools, part: int, dest: int, counts: list[int]) -> int | None:
    """A replica of the partition that may go there within all limits."""
    state, table = pools.state, pools.state.table
    for slot in range(int(table.first[part]), int(table.first[part + 1])):
        source, size = state.broker(slot), state.size(slot)
        if not table.movable[slot] or source == dest or not state.fits(slot, dest):
            continue
        if not state.can_take(dest, size) or not state.can_give(source, size):
            continue
        limits = table.counts
        if limits is None or (counts[dest] < limits.ceiling[dest] and counts[source] > limits.floor[source]):
            return slot
    return None
