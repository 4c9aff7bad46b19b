"""Ceilings of a balance: replicas and leaders of a broker, and leaders of one topic on a broker."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.errors import InfeasibleError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.quantities import counted
from kafkakit.placement.by_size.attempt import counts_of
from kafkakit.placement.by_size.layout import lists_of
from kafkakit.placement.by_size.lp_relaxation import Window, demand_groups_of, fixed_window
from kafkakit.placement.by_size.slots import CountLimits, SlotTable
from kafkakit.placement.by_size.tightening import why_not
from kafkakit.placement.leaders import NO_LEADER, LeaderLimits, leaders_within
from kafkakit.placement.openings import pool_of
from kafkakit.placement.problem import PlannedPartition
from kafkakit.topicmappr.decide.rebalance.exclusions import Exclusions
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest
from kafkakit.topicmappr.decide.rebalance.soft_goals import topic_numbers
from kafkakit.topicmappr.decide.scope import Scope

if TYPE_CHECKING:
    from kafkakit.placement.problem import Ints
    from kafkakit.topicmappr.decide.rebalance.inputs import BalanceInputs

MAX_REPLICAS, MAX_LEADERS, MAX_TOPIC_LEADERS = "--max-replicas", "--max-leaders", "--max-topic-leaders"


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideScope:
    """What brokers hold and lead of topics that the request leaves out, by broker id."""

    replicas: Mapping[int, int]
    leaders: Mapping[int, int]


def beside_scope(snapshot: ClusterSnapshot, scope: Scope, request: RebalanceRequest) -> BesideScope:
    """Count what the topics of the scope leave, where a ceiling asks for it. O(replicas)."""
    if request.max_replicas is None and request.max_leaders is None:
        return BesideScope(replicas={}, leaders={})
    pool = pool_of(snapshot)
    replicas, leaders = Counter(pool.replicas), Counter(pool.leaders)
    replicas.subtract(b for p in scope.partitions for b in p.current)
    leaders.subtract(p.current[0] for p in scope.partitions if p.current)
    return BesideScope(replicas=replicas, leaders=leaders)


def with_count_limits(
    table: SlotTable, request: RebalanceRequest, targets: Sequence[int], out: Exclusions, beside: BesideScope
) -> SlotTable:
    """The table with every target's count of replicas limited: to the band and below the ceiling of the request."""
    band, most = request.goal.count_band, request.max_replicas
    if band is None and most is None:
        return table
    counts = counts_of(table, table.home)
    floor, ceiling = [0] * len(counts), list(counts)
    even = [i for i, b in enumerate(table.brokers) if b in targets]
    low, high = (
        (0, len(table.home)) if band is None else _around(Fraction(sum(counts[i] for i in even), len(even)), band)
    )
    for i in even:
        broker = table.brokers[i]
        floor[i] = min(low, counts[i]) if broker in out.receivers else low
        ceiling[i] = max(high, counts[i]) if broker in out.givers else high
        if most is not None:
            ceiling[i] = min(ceiling[i], most - beside.replicas.get(broker, 0))
    return replace(table, counts=CountLimits(floor=tuple(floor), ceiling=tuple(ceiling)))


def counts_anew(inputs: BalanceInputs, request: RebalanceRequest, table: SlotTable) -> SlotTable:
    """The table, which has more brokers than the inputs, with the request's limits on counts over all of them."""
    targets = (*inputs.change.targets, *table.brokers[len(inputs.layout.table.brokers) :])
    return with_count_limits(table, request, targets, inputs.out, inputs.beside)


def with_leader_limits(
    table: SlotTable,
    request: RebalanceRequest,
    targets: Sequence[int],
    beside: BesideScope,
    partitions: Sequence[PlannedPartition],
    staying: Collection[PlannedPartition],
) -> SlotTable:
    """The table with ceilings on leaders; the partitions `staying` keep theirs."""
    import numpy as np

    most = request.max_leaders
    if most is None and request.max_topic_leaders is None:
        return table
    apart, place = {p.key for p in staying}, {b: i for i, b in enumerate(table.brokers)}
    fixed = [p.key in apart or not p.current for p in partitions]
    topic = topic_numbers(partitions)
    led = Counter(
        (number, place[p.current[0]])
        for p, stays, number in zip(partitions, fixed, topic.tolist(), strict=True)
        if stays and p.current
    )
    alone = Counter[int]()
    for (_, i), n in led.items():
        alone[i] += n
    limits = LeaderLimits(
        most=np.array(
            [
                0 if b not in targets else len(fixed) if most is None else most - beside.leaders.get(b, 0) - alone[i]
                for i, b in enumerate(table.brokers)
            ],
            dtype=np.int64,
        ),
        topic=topic,
        fixed=np.array(fixed, dtype=bool),
        of_topic=request.max_topic_leaders,
        led=led,
    )
    return replace(table, leaders=limits)


def in_words(request: RebalanceRequest) -> str:
    """The limits beside bytes that a plan may have failed to keep, as options; empty without any."""
    given = (
        (MAX_REPLICAS, request.max_replicas),
        (MAX_LEADERS, request.max_leaders),
        (MAX_TOPIC_LEADERS, request.max_topic_leaders),
    )
    return " and ".join(f"{flag} {most}" for flag, most in given if most is not None)


def _around(share: Fraction, band: Fraction) -> tuple[int, int]:
    """The whole numbers within a part of the share; the two around it where the band is narrower than one replica."""
    width = min(band, Fraction(1))
    floor, ceiling = math.ceil(share * (1 - width)), math.floor(share * (1 + width))
    return min(floor, math.floor(share)), max(ceiling, math.ceil(share))


def refuse_impossible(inputs: BalanceInputs, request: RebalanceRequest) -> None:
    """Raise `InfeasibleError`, with the least that may be, where no placement keeps the ceiling of replicas.

    Proven by the LP relaxation in which every replica weighs 1: it knows racks, tags, and who gives and takes.
    """
    _refuse_leaders(inputs, request)
    most, table, beside = request.max_replicas, inputs.layout.table, inputs.beside
    if most is None:
        return
    found = _ReplicasAlone(table, inputs.change.targets, beside)
    window = found.window(most)
    if not window.possible:
        reason = why_not(found.table, found.demand, window, inputs.racks, lambda n: counted(n, "replica"))
        held = max(counts_of(table, table.home)) + max(beside.replicas.values(), default=0)
        looser = range(most + 1, max(most + 1, held))
        least = most + 1 + bisect_left(looser, True, key=lambda n: found.window(n).possible)
        raise InfeasibleError(
            f"{MAX_REPLICAS} {most} cannot be kept: {reason}", hint=f"the least that may be: {MAX_REPLICAS} {least}"
        )


def _refuse_leaders(inputs: BalanceInputs, request: RebalanceRequest) -> None:
    """Raise `InfeasibleError` where brokers are too few for all leaders, or where those that stay have too many."""
    table, limits = inputs.layout.table, inputs.layout.table.leaders
    if limits is None:
        return
    most, choosing = request.max_leaders, int((~limits.fixed).sum())
    over = [b for b, n in zip(table.brokers, limits.most.tolist(), strict=True) if n < 0 and b in inputs.change.targets]
    if most is not None and over:
        raise InfeasibleError(
            f"{MAX_LEADERS} {most} cannot be kept: brokers {some(over)} lead more partitions that keep their leader",
            hint="name more topics in --topics, or allow more",
        )
    if most is not None and (room := int(limits.most[limits.most > 0].sum())) < choosing:
        raise InfeasibleError(
            f"{MAX_LEADERS} {most} cannot be kept: {counted(choosing, 'partition')} need a leader, and "
            f"{counted(len(inputs.change.targets), 'broker')} may lead {room}",
            hint=f"the least that may be: {MAX_LEADERS} {most - (room - choosing) // len(inputs.change.targets)}",
        )
    if limits.of_topic is not None:
        _refuse_topics(inputs, limits, limits.of_topic)
    held = [not table.movable[a:b].any() for a, b in itertools.pairwise(table.first.tolist())]
    rows = [row if stays else () for row, stays in zip(lists_of(table, table.home), held, strict=True)]
    found = leaders_within(rows, rows, table.brokers, limits)
    if lacking := sum(1 for row, b in zip(rows, found.tolist(), strict=True) if row and b == NO_LEADER):
        raise InfeasibleError(
            f"{in_words(request)} cannot be kept: of the partitions that may not move, {lacking} find no leader",
            hint="allow more, or let more partitions move",
        )


def _refuse_topics(inputs: BalanceInputs, limits: LeaderLimits, most: int) -> None:
    """Raise `InfeasibleError` for a topic with more partitions than the brokers open to it may lead."""
    import numpy as np

    table, targets = inputs.layout.table, inputs.change.targets
    chooses = np.nonzero(~limits.fixed)[0]
    numbers, first, sizes = np.unique(limits.topic[chooses], return_index=True, return_counts=True)
    homes: dict[int, set[int]] = {}
    for number, b in np.unique(np.stack([limits.topic[table.part], table.home]), axis=1).T.tolist():
        homes.setdefault(number, set()).add(b)
    for number, part, size in zip(numbers.tolist(), chooses[first].tolist(), sizes.tolist(), strict=True):
        able = [
            i
            for i, b in enumerate(table.brokers)
            if b in targets
            and (i in homes[number] or (table.receiver[i] and (table.tags is None or table.tags.may_hold(part, i))))
        ]
        room = sum(limits.topic_most(number, i) for i in able)
        if room < size:
            topic = inputs.scope.partitions[part].key.topic
            raise InfeasibleError(
                f"{MAX_TOPIC_LEADERS} {most} cannot be kept: topic {topic} has {counted(size, 'partition')}, and "
                f"{counted(len(able), 'broker')} may lead {room}",
                hint=f"the least that may be: {MAX_TOPIC_LEADERS} {most - (room - size) // max(1, len(able))}",
            )


class _ReplicasAlone:
    """The problem with replicas as its only load."""

    def __init__(self, table: SlotTable, targets: Sequence[int], beside: BesideScope) -> None:
        import numpy as np

        self.table = replace(
            table,
            size=np.ones(len(table.size), dtype=np.int64),
            fixed=np.array([beside.replicas.get(b, 0) for b in table.brokers], dtype=np.int64),
        )
        self.demand = demand_groups_of(self.table)
        self._held: Ints = self.table.loads(self.table.home)
        self._limited = np.array([b in targets for b in table.brokers], dtype=bool)

    def window(self, most: int) -> Window:
        """At most so many replicas on each target, all topics counted."""
        import numpy as np

        ceiling = np.where(self._limited, most, self._held)
        return fixed_window(self.table, self.demand, np.zeros_like(ceiling), ceiling)
