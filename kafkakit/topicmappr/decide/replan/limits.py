"""A plan's limits on what brokers hold and lead, on the cluster of today; the constraints are those of `rebalance`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.errors import InfeasibleError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.quantities import format_percent
from kafkakit.core.topic_selection import TopicSelection
from kafkakit.placement.by_size.attempt import counts_of
from kafkakit.placement.by_size.slots import SlotTable, make_table
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.leaders import NO_LEADER, leaders_within
from kafkakit.placement.problem import PlannedPartition
from kafkakit.topicmappr.decide.rebalance.ceilings import (
    BesideScope,
    beside_scope,
    in_words,
    with_count_limits,
    with_leader_limits,
)
from kafkakit.topicmappr.decide.rebalance.exclusions import Exclusions
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest
from kafkakit.topicmappr.decide.replan.places import Places
from kafkakit.topicmappr.decide.scope import Scope

Lists = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The limits that `request` names; `beside` are the topics that the plan does not look at.

    Rows in `staying` keep their leader: those that cannot move, and those without a replica on a target.
    """

    places: Places
    request: RebalanceRequest
    beside: BesideScope
    out: Exclusions
    staying: frozenset[int]

    def on(self, table: SlotTable, lists: Lists) -> SlotTable:
        """The table of these lists with the limits."""
        partitions = [PlannedPartition(r.key, new, len(new)) for r, new in zip(self.places.rows, lists, strict=True)]
        targets = self.places.targets
        table = with_count_limits(table, self.request, targets, self.out, self.beside)
        still = [partitions[i] for i in self.staying]
        return with_leader_limits(table, self.request, targets, self.beside, partitions, still)

    def kept(self, lists: Lists) -> bool:
        """True when these lists keep the limits, each led by its first."""
        places = self.places
        plain = make_table(lists, [1] * len(lists), {}, GroupRule(), receivers=(*places.targets, *places.receivers))
        table = self.on(plain, lists)
        if table.counts is not None and table.counts.outside(counts_of(table, table.home)):
            return False
        limits, at = table.leaders, {b: i for i, b in enumerate(table.brokers)}
        if limits is None:
            return True
        firsts = [
            (topic, at[row[0]])
            for row, topic, fixed in zip(lists, limits.topic.tolist(), limits.fixed.tolist(), strict=True)
            if not fixed and row[0] in places.targets
        ]
        led = Counter(i for _, i in firsts)
        of_topic = Counter(firsts).items() if limits.of_topic is not None else ()
        return all(n <= limits.most[i] for i, n in led.items()) and all(n <= limits.topic_most(*k) for k, n in of_topic)

    def led(self, table: SlotTable, lists: Lists) -> list[tuple[int, ...]]:
        """The lists with leaders inside the limits of the table, as few of the planned ones changed as can be."""
        if table.leaders is None:
            return list(lists)
        found = leaders_within(lists, [row.start for row in self.places.rows], table.brokers, table.leaders).tolist()
        return [
            row if i == NO_LEADER or not row else (table.brokers[i], *(b for b in row if b != table.brokers[i]))
            for i, row in zip(found, lists, strict=True)
        ]

    @property
    def words(self) -> str:
        """The limits, as options."""
        band = self.request.goal.count_band
        counts = [] if band is None else [f"--count-band {format_percent(band)}"]
        return " and ".join(filter(None, (*counts, in_words(self.request))))

    def require(self, lists: Lists) -> None:
        """Raise `InfeasibleError` where the lists do not keep the limits."""
        if not self.kept(lists):
            raise InfeasibleError(
                f"no way to keep {self.words} was found from the plan's present state; it is not proven impossible",
                hint="make a new plan with the same options",
            )


def limits_of(request: RebalanceRequest | None, snapshot: ClusterSnapshot, places: Places) -> PlanLimits | None:
    """The limits on today's brokers; None for a plan without any."""
    if request is None:
        return None
    targets, rows = frozenset(places.targets), places.rows
    now = tuple(PlannedPartition(row.key, row.partition.replicas, len(row.partition.replicas)) for row in rows)
    givers = targets if places.rules.givers is None else frozenset(places.rules.givers)
    return PlanLimits(
        places,
        request,
        beside_scope(snapshot, Scope(now, {}, TopicSelection((), ())), request),
        Exclusions(receivers=targets.difference(places.receivers), givers=targets - givers),
        frozenset(
            i for i, row in enumerate(rows) if row.under_way or i in places.stranded or targets.isdisjoint(row.start)
        ),
    )
