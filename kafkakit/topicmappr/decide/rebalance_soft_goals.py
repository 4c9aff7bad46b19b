"""What a balance of bytes is free to choose once its bytes and copies are settled: the soft goals, in their order.

First bytes copied, then copies; the plan that was found has settled both, and nothing here changes them. Then, each
without making the one before it worse: even counts of replicas over the brokers that receive, even leaders (by the
order of lists whose leader leaves anyway, or of all lists where the request asks for it), and each topic spread over
the brokers. Leader bytes in would come after leaders; no source tells their rates yet, so they are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.placement import leaders
from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.layout import lists_of
from kafkakit.placement.by_size.local_steps import (
    FreeMoves,
    Leaders,
    Topics,
    level_counts,
    looks_for,
    spread_topics,
    without_leader,
)
from kafkakit.placement.by_size.lp_relaxation import BalanceGoal, BandGoal
from kafkakit.placement.by_size.slots import SearchState, SlotTable, counts_of, positions
from kafkakit.placement.leaders import leaders_within
from kafkakit.placement.problem import PlannedPartition

if TYPE_CHECKING:
    from kafkakit.core.columns import Ints


Row = tuple[int, ...]


def even_leaders(
    partitions: Sequence[PlannedPartition],
    lists: Sequence[Row],
    targets: Sequence[int],
    stranded: Collection[PlannedPartition],
) -> list[Row]:
    """The lists with leaders spread evenly; partitions without a live copy in sync stay as they are."""
    apart = {p.key for p in stranded}
    may_lead = [() if p.key in apart else row for p, row in zip(partitions, lists, strict=True)]
    return leaders.even_leaders([p.current for p in partitions], lists, targets, may_lead)


def even_vacant_leaders(
    partitions: Sequence[PlannedPartition], lists: Sequence[Row], targets: Sequence[int]
) -> list[Row]:
    """The lists with leaders as even as those can make them whose leader leaves anyway; no other leader changes.

    `lists` have each new copy in the place of the one it replaces; of equally even orders the one nearest to that.
    """
    may_lead = [row if row and p.current[0] not in row else () for p, row in zip(partitions, lists, strict=True)]
    led = leaders_of([row for row, vacant in zip(lists, may_lead, strict=True) if not vacant], targets)
    return leaders.even_leaders(lists, lists, targets, may_lead, list(led.values()))


def leaders_of(lists: Sequence[Row], targets: Sequence[int]) -> dict[int, int]:
    """How many lists each target leads, by id in order."""
    led = Counter(row[0] for row in lists if row)
    return {b: led[b] for b in sorted(targets)}


_HIGHEST = 1 << 62
Lists = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evenness:
    """How even a placement is: each pair is the fewest and the most of one broker, `counts` of those that receive.

    `measure` is what is made least, from the left: sums of squares of counts and of leaders, and the pairs of
    replicas of one topic that share a broker.
    """

    measure: tuple[int, int, int]
    counts: tuple[int, int]
    leaders: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftenedPlan:
    """A plan with its free choices made: where slots go, replica lists, and how even it was and is."""

    found: Attempt
    lists: list[tuple[int, ...]]
    before: Evenness
    after: Evenness
    complete: bool = True

    @property
    def notes(self) -> tuple[str, ...]:
        """What the operator should know of it; nothing where nothing was gained."""
        if self.before.measure == self.after.measure:
            return ()
        parts = [
            f"{name} {_range(was)} -> {_range(now)}" if was != now else f"{name} {_range(now)} as before, more alike"
            for name, place, was, now in (
                ("replicas per receiving broker", 0, self.before.counts, self.after.counts),
                ("leaders per broker", 1, self.before.leaders, self.after.leaders),
            )
            if self.before.measure[place] != self.after.measure[place]
        ]
        pairs = (self.before.measure[2], self.after.measure[2])
        if pairs[0] != pairs[1]:
            parts.append(f"pairs of replicas of one topic on one broker {pairs[0]} -> {pairs[1]}")
        ended = "" if self.complete else "; the search for more ended at its limit of work"
        return (f"without more bytes or copies, spread more evenly ({'; '.join(parts)}){ended}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeChoices:
    """What free choices are made within: the arrays, the goal's balance, and whose leaders may change.

    `every_leader` evens the leaders of all lists but the `stranded`, else those of lists whose leader leaves.
    """

    table: SlotTable
    balance: BalanceGoal
    partitions: Sequence[PlannedPartition]
    targets: Sequence[int]
    stranded: Collection[PlannedPartition]
    every_leader: bool

    def made(self, found: Attempt) -> SoftenedPlan:
        """The plan with its free choices made. 1.5 s for 94,000 moves of 600,000 replicas.

        What the plan reached (its range or band) gets no wider, no broker leaves its limits, no rule is broken.
        """
        table, targets, topic = self.table, self.targets, topic_numbers(self.partitions)
        if table.leaders is not None:
            return self._within_ceilings(found)
        before = evenness_of(table, found.at, lists_of(table, found.at), targets, topic)
        free = FreeMoves(state_of(table, self.balance, found), counts_of(table, found.at))
        level_counts(free)
        plain = lists_of(table, positions(free.state))
        lists = self._led(plain)
        left, free.looks = free.looks, looks_for(found.moves)
        if free.state.moved:
            leading = _leading_slots(free.state, plain, lists)
            led = leaders_of(lists, targets)
            leaders = Leaders([led.get(b, 0) for b in table.brokers], list(leading.values()))
            spread_topics(free, Topics(free, topic, positions(free.state)), leaders)
            lists = _put_in_front(lists_of(table, positions(free.state)), lists, leading, table)
        at = positions(free.state)
        return SoftenedPlan(
            found=replace(found, at=at),
            lists=lists,
            before=before,
            after=evenness_of(table, at, lists, targets, topic),
            complete=min(left, free.looks) > 0,
        )

    def left_open(self, found: Attempt) -> SoftenedPlan:
        """The plan as it was found; only leaders that were asked for are evened."""
        plain = lists_of(self.table, found.at)
        lists = self._led(plain) if self.every_leader or self.table.leaders is not None else plain
        evenness = evenness_of(self.table, found.at, lists, self.targets, topic_numbers(self.partitions))
        return SoftenedPlan(found=found, lists=lists, before=evenness, after=evenness)

    def _within_ceilings(self, found: Attempt) -> SoftenedPlan:
        """The plan with even counts, where all partitions find a leader then; else as it was found."""
        free = FreeMoves(state_of(self.table, self.balance, found), counts_of(self.table, found.at))
        level_counts(free)
        levelled = positions(free.state)
        if without_leader(self.table, levelled):
            return self.left_open(found)
        return replace(self.left_open(replace(found, at=levelled)), before=self.left_open(found).after)

    def _led(self, lists: Lists) -> list[tuple[int, ...]]:
        table = self.table
        if table.leaders is not None:
            now = [p.current for p in self.partitions]
            chosen = leaders_within(lists, now, table.brokers, table.leaders, even=self.every_leader)
            ids = [table.brokers[i] for i in chosen.tolist()]
            return [(b, *(c for c in row if c != b)) if row else row for b, row in zip(ids, lists, strict=True)]
        if self.every_leader:
            return even_leaders(self.partitions, lists, self.targets, self.stranded)
        return even_vacant_leaders(self.partitions, lists, self.targets)


def state_of(table: SlotTable, balance: BalanceGoal, found: Attempt) -> SearchState:
    """The plan on a state whose limits are what it reached: no wider than the goal, the range or band, or the loads."""
    import numpy as np

    loads, limits = table.loads(found.at), balance.limits
    reached = balance.measure(loads)
    if isinstance(balance, BandGoal):
        low, high = balance.bounds(reached)
    else:
        low, high = limits.at(int((loads - limits.offset)[limits.even].min(initial=_HIGHEST)), reached)
    state = SearchState(
        table,
        np.minimum(loads, np.maximum(low, found.window.floor)).tolist(),
        np.maximum(loads, np.minimum(high, found.window.ceiling)).tolist(),
    )
    for slot in np.nonzero(found.at != table.home)[0].tolist():
        state.move(slot, int(found.at[slot]))
    return state


def topic_numbers(partitions: Sequence[PlannedPartition]) -> Ints:
    """A number per partition that partitions of one topic share."""
    import numpy as np

    known: dict[str, int] = {}
    return np.array([known.setdefault(p.key.topic, len(known)) for p in partitions], dtype=np.int64)


def evenness_of(table: SlotTable, at: Ints, lists: Lists, targets: Sequence[int], topic: Ints) -> Evenness:
    """Measure a placement. O(replicas log replicas)."""
    import numpy as np

    counts = [n for n, takes in zip(counts_of(table, at), table.receiver.tolist(), strict=True) if takes]
    led = list(leaders_of(lists, targets).values())
    _, together = np.unique(topic[table.part] * len(table.brokers) + at, return_counts=True)
    return Evenness(
        measure=(_squares(counts), _squares(led), int((together * (together - 1) // 2).sum())),
        counts=(min(counts, default=0), max(counts, default=0)),
        leaders=(min(led, default=0), max(led, default=0)),
    )


def _squares(numbers: Sequence[int]) -> int:
    return sum(n * n for n in numbers)


def _leading_slots(state: SearchState, plain: Lists, lists: Lists) -> dict[int, int]:
    """By changed partition, the slot whose broker comes first in its list; `plain` lists slots in order."""
    first = state.table.first.tolist()
    return {p: first[p] + plain[p].index(lists[p][0]) for p in sorted({state.part(s) for s in state.moved})}


def _put_in_front(plain: Lists, chosen: Lists, leading: Mapping[int, int], table: SlotTable) -> list[tuple[int, ...]]:
    """The changed lists again, each with the broker of its leading slot in front; the others as chosen."""
    lists = list(chosen)
    for part, slot in leading.items():
        row = plain[part]
        leader = row[slot - int(table.first[part])]
        lists[part] = (leader, *(b for b in row if b != leader))
    return lists


def _range(ends: tuple[int, int]) -> str:
    return f"{ends[0]} to {ends[1]}"
