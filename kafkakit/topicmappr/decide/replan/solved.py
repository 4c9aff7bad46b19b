"""What a replanning found, and the steps that its two ways share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkakit.core.certificate import BrokerLimit, Certificate, Proof
from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.layout import LoadsNow
from kafkakit.placement.by_size.lp_relaxation import BalanceGoal, BalanceProblem, DemandGroups, Limits, Window
from kafkakit.placement.by_size.proof import proof_of
from kafkakit.placement.by_size.slots import SlotTable
from kafkakit.placement.by_size.tightening import at_deviation
from kafkakit.topicmappr.decide.replan.limits import PlanLimits
from kafkakit.topicmappr.decide.replan.places import Places
from kafkakit.topicmappr.decide.replan.situation import ReplannedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """Lists in the order of the rows; `holds` says that the plan as it stood keeps the goal.

    `reasons` tell why partitions find no place, `left_alone` counts these. `leads_to` says in words where the plan as
    it stood would have led.
    """

    lists: tuple[tuple[int, ...], ...]
    holds: bool
    certificate: Certificate
    reasons: tuple[str, ...] = ()
    left_alone: int = 0
    notes: tuple[str, ...] = ()
    leads_to: str = ""


@dataclass(frozen=True, slots=True)
class ReplanProblem:
    """What all tables of a replanning share: the load of one copy by row, loads besides the scope, the balance."""

    places: Places
    weights: Sequence[int]
    now: LoadsNow
    balance: BalanceGoal
    limits: PlanLimits | None = None

    def table(self, lists: Sequence[tuple[int, ...]]) -> SlotTable:
        """The arrays of these lists."""
        table = self.places.table(lists, self.weights, self.now)
        return table if self.limits is None else self.limits.on(table, lists)

    def repaired(self, table: SlotTable, max_deviation: int) -> Attempt | None:
        """Bring a table inside its window: by copies still to be made if they are enough, else by any; or None."""
        for candidate in (replace(table, movable=table.movable & self.places.pending(table)), table):
            if not candidate.movable.any():
                continue
            found = at_deviation(BalanceProblem.of(candidate, self.balance), max_deviation)
            if found.succeeded:
                return found
        return None

    def proven(self, max_deviation: int, copied: int) -> tuple[SlotTable, Window, Proof] | None:
        """The live lists, the window that bounds what reaching the deviation copies, and its proof.

        None where nothing is proven, or more than a plan really copies.
        """
        live = self.table([row.start if row.under_way else row.live for row in self.places.rows])
        problem = BalanceProblem.of(live, self.balance)
        window = problem.window(max_deviation)
        if not window.possible or window.bound.value > copied:
            return None
        proof = _proof_at_rest(live, problem.demand, window, self.balance.limits)
        return None if proof is None else (live, window, proof)


def copies_under_way(rows: Sequence[ReplannedPartition], unit: str) -> int:
    """What the plan's moves that run now copy, in bytes or replicas: they continue whatever is planned."""
    return sum(
        len(set(row.start) - set(row.live)) * ((row.size or 0) if unit == "bytes" else 1)
        for row in rows
        if row.under_way and not row.foreign
    )


def _proof_at_rest(table: SlotTable, demand: DemandGroups, window: Window, limits: Limits) -> Proof | None:
    """The proof of a window for a plan that need not lie where the window is cheapest; None where it proves nothing.

    A side that has no price and is a hard limit says nothing of the window's place, so it is left out or is the hard
    limit itself.
    """
    proof = proof_of(table, demand, window)
    if sum(limit.price for limit in proof.limits if proof.slides and limit.slides):
        return None
    if not proof.slides:
        return proof
    hard = zip(limits.floor.tolist(), limits.ceiling.tolist(), limits.even.tolist(), strict=True)
    return replace(proof, limits=tuple(_loosened(x, *h) for x, h in zip(proof.limits, hard, strict=True)))


def _loosened(limit: BrokerLimit, floor: int, ceiling: int, even: bool) -> BrokerLimit:
    if not even:
        return limit
    if not limit.slides:
        return replace(limit, floor=floor) if limit.price > 0 else replace(limit, ceiling=ceiling)
    low = None if limit.price >= 0 and limit.floor is not None and limit.floor <= floor else limit.floor
    high = None if limit.price <= 0 and limit.ceiling is not None and limit.ceiling >= ceiling else limit.ceiling
    return replace(limit, floor=low, ceiling=high)
