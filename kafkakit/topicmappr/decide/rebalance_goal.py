"""What a balance of bytes is made from and aims at, and the search for its goal.

It is made from the scope, the brokers, their disks, and the arrays with the goal on them. A goal is a balance of
windows, and how tight it must be. Excluded brokers get no copies, or give none; what is left of the goal for them is
worked out. Ceilings limit replicas and leaders on a broker, and leaders of one topic on a broker. What the search tried
on its way is kept for those who want to see it.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.errors import InfeasibleError, UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.core.quantities import count_of, format_bytes, format_percent
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import few_of
from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.layout import Disks, SlotLayout, lay_out, lists_of
from kafkakit.placement.by_size.lp_relaxation import (
    PPM,
    BalanceGoal,
    BalanceProblem,
    BandGoal,
    LoadLimits,
    LoadWindow,
    RangeGoal,
    demand_groups_of,
    fixed_window,
    shares,
)
from kafkakit.placement.by_size.proof import explain_infeasible, too_large
from kafkakit.placement.by_size.slots import CountLimits, SlotTable, counts_of
from kafkakit.placement.by_size.tightening import (
    SearchBudget,
    any_plan,
    at_deviation,
    least_fitting,
    loosen_shares,
    tightest,
    tightest_relaxed,
    with_fewer_copies,
)
from kafkakit.placement.group_rule import NONE_CLOSED, ClosedBrokers, SpreadRule, TagRules, racks_to_spread
from kafkakit.placement.leaders import NO_LEADER, LeaderLimits, leaders_within
from kafkakit.placement.openings import pool_of
from kafkakit.placement.problem import (
    BrokerChange,
    Minimize,
    PlannedPartition,
    classify,
    rackless_note,
    set_stranded_apart,
    stranded_warning,
)
from kafkakit.placement.watch import SearchWatch
from kafkakit.topicmappr.decide.assembly import leader_limits, refuse_crowded_leaders
from kafkakit.topicmappr.decide.request_fields import MAX_REPLICAS, MAX_TOPIC_LEADERS, MOST_BAND, Ceilings
from kafkakit.topicmappr.decide.requests import GIB, RebalanceRequest
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, pinned_indices, scope_of
from kafkakit.topicmappr.decide.storage import Sizes, storage_of

if TYPE_CHECKING:
    from kafkakit.core.columns import Ints


_AGAIN = 6  # tries, each farther off, to name a goal that a second run reaches
DEFAULT_THRESHOLD = 0.20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Brokers that give (None: every broker), sorted by free bytes and id, and how they were chosen in words.

    `mean` and `harmonic_mean` are of the free bytes before, over brokers with any.
    """

    brokers: tuple[int, ...] | None
    chosen_by: str
    mean: float
    harmonic_mean: float


def choose_sources(free: Mapping[int, int], new: Collection[int], request: RebalanceRequest) -> Sources:
    """Apply the thresholds to free bytes by broker; `new` brokers hold nothing of the selected topics yet."""
    positive = [f for _, f in sorted(free.items()) if f > 0]
    mean = sum(positive) / len(positive) if positive else 0.0
    harmonic = float(len(positive) / sum(Fraction(1, f) for f in positive)) if positive else 0.0
    gigabytes, fraction = _thresholds(request)
    if gigabytes is None and fraction is None:
        return Sources(brokers=None, chosen_by="", mean=mean, harmonic_mean=harmonic)
    if gigabytes:
        chosen = [b for b, f in free.items() if b not in new and f < gigabytes * GIB]
        words = f"(< {gigabytes:.2f}GB storage free)"
    elif fraction:
        chosen = [b for b, f in free.items() if harmonic and (harmonic - f) / harmonic > fraction]
        words = f"(>= {fraction * 100:.2f}% threshold below hmean)"
    else:
        chosen = [b for b in free if b not in new]
        words = ""
    return Sources(
        brokers=tuple(sorted(chosen, key=lambda b: (free[b], b))), chosen_by=words, mean=mean, harmonic_mean=harmonic
    )


def _thresholds(request: RebalanceRequest) -> tuple[float | None, float | None]:
    """(GiB free, part below the harmonic mean); both None where a goal is given and no threshold is."""
    if request.scale:
        return (None, None) if request.goal.given else (0.0, 0.0)
    if request.storage_threshold is None and request.storage_threshold_gb is None:
        return (None, None) if request.goal.given else (0.0, DEFAULT_THRESHOLD)
    fraction = DEFAULT_THRESHOLD if request.storage_threshold is None else request.storage_threshold
    return request.storage_threshold_gb or 0.0, fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedGoal:
    """The balance, the deviation asked for (None: as tight as the budget buys) and the finest worth seeking."""

    balance: BalanceGoal
    requested: int | None
    finest: int
    budget: SearchBudget
    words: str
    prefers_few: bool = False

    def shown(self, max_deviation: int) -> str:
        """A deviation as the flag that would ask for it."""
        if isinstance(self.balance, BandGoal):
            # Rounded up to four digits of a percent, so that the flag's value is reachable too.
            return f"--band {max_deviation / PPM * 100:.4f}%"
        return f"--free-range {max_deviation}B ({format_bytes(max_deviation)})"

    def can_be_asked(self, max_deviation: int) -> bool:
        """False for a band that is wider than the flag takes."""
        return not isinstance(self.balance, BandGoal) or max_deviation <= MOST_BAND * PPM // 100

    def notes(self, found: Attempt, max_deviation: int) -> tuple[str, ...]:
        """What the operator should know of the goal that was reached."""
        if self.requested is None:
            return (f"reached: {self.shown(max_deviation)}",)
        if max_deviation > self.requested:
            return (f"{self.words} costs more than the budget allows; reached: {self.shown(max_deviation)}",)
        return ()


def aim_of(layout: SlotLayout, request: RebalanceRequest, sources: Sources, targets: Collection[int]) -> ResolvedGoal:
    """Turn the request's goal into windows on the loads of these targets."""
    goal = request.goal
    limits = layout.now.limits(layout.table, targets, {})
    budget = SearchBudget(moved_bytes=goal.max_moved_bytes, moves=goal.max_moves)
    if goal.band is not None:
        table = layout.table
        total = int(table.loads(table.home)[limits.even].sum())
        balance = layout.now.band(table, limits, total, within_racks=goal.within_racks)
        words = f"the band of {format_percent(goal.band)}{' within racks' if goal.within_racks else ''}"
        requested = int(goal.band * PPM)
        return ResolvedGoal(balance=balance, requested=requested, finest=0, budget=budget, words=words)
    if goal.free_range_bytes is not None:
        words = f"a range of free bytes of {format_bytes(goal.free_range_bytes)}"
        even = RangeGoal(limits)
        return ResolvedGoal(balance=even, requested=goal.free_range_bytes, finest=0, budget=budget, words=words)
    # kafka-kit's finest tolerance is one percent of the mean to either side.
    finest = 0 if goal.given else int(sources.mean * 0.02)
    if request.tolerance:
        limits = _tolerated_limits(layout, limits, sources, Fraction(str(request.tolerance)))
    return ResolvedGoal(
        balance=RangeGoal(limits),
        requested=None,
        finest=finest,
        budget=budget,
        words="the smallest range of free bytes",
        prefers_few=not goal.given,
    )


def _tolerated_limits(layout: SlotLayout, limits: LoadLimits, sources: Sources, tolerance: Fraction) -> LoadLimits:
    """kafka-kit's limits: sources end with at most mean x (1 + tolerance) free, others with mean x (1 - it) or more."""
    import numpy as np

    loads = layout.table.loads(layout.table.home)
    level = loads + np.array([layout.now.free[b] for b in layout.table.brokers], dtype=np.int64)
    mean = Fraction(sources.mean)
    most, least = math.floor(mean * (1 + tolerance)), math.ceil(mean * (1 - tolerance))
    gives = np.array([sources.brokers is not None and b in sources.brokers for b in layout.table.brokers])
    floor = np.where(gives, np.minimum(loads, level - most), limits.floor)
    ceiling = np.where(gives, limits.ceiling, np.minimum(limits.ceiling, np.maximum(loads, level - least)))
    return LoadLimits(floor=floor, ceiling=ceiling, even=limits.even, offset=limits.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The plan found and the deviation that it was made for; without a plan, the nearest deviation that may be.

    `is_nearest_planned` says that a plan for the nearest was found. `missed` is the attempt at the goal itself where
    the plan is a best effort, `unlimited` a plan that reaches the goal where no plan within the budget does,
    `least_bytes` the plan of the fewest bytes, in place of which one with fewer copies may have been found.
    """

    max_deviation: int
    found: Attempt
    is_nearest_planned: bool = True
    missed: Attempt | None = None
    unlimited: Attempt | None = None
    least_bytes: Attempt | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """How many copies were spared for some bytes more, where that was done."""
        least, found = self.least_bytes, self.found
        if least is None or least is found:
            return ()
        instead = f"{found.moves} of {format_bytes(found.cost)} instead of {least.moves} of {format_bytes(least.cost)}"
        return (f"within 0.5% of the least bytes the plan with the fewest copies: {instead}",)


def reach_aim(
    problem: BalanceProblem, aim: ResolvedGoal, request: RebalanceRequest, watch: SearchWatch
) -> SearchResult:
    """Find the plan: at the deviation asked for, or as tight as the budget buys, or as near as can be on request.

    When the deviation asked for cannot be reached at any price, the answer is an attempt that is outside or
    whose window is not possible, with the nearest deviation that can be.
    """
    by_moves = request.minimize is Minimize.MOVES
    if aim.requested is None:
        return _within_budget(problem, aim, watch, None, finest=aim.finest, by_moves=by_moves)
    watch.phase(f"a plan for {aim.words}")
    found = at_deviation(problem, aim.requested, by_moves=by_moves, watch=watch)
    watch.tried(aim.requested, found)
    if aim.budget.allows(found) if found.succeeded else watch.stopped():
        return SearchResult(max_deviation=aim.requested, found=found)
    if found.succeeded:
        return _within_budget(problem, aim, watch, found, finest=aim.requested, by_moves=by_moves)
    if request.goal.best_effort:
        return _best_effort(problem, aim, found, watch, by_moves=by_moves)
    nearest = least_fitting(problem, tightest_relaxed(problem, problem.today()))
    if not found.window.possible and nearest > aim.requested:
        return SearchResult(max_deviation=nearest, found=found, is_nearest_planned=False)
    planned = _nearest_planned(problem, aim.requested, watch, by_moves=by_moves)
    return SearchResult(
        max_deviation=nearest if planned is None else planned, found=found, is_nearest_planned=planned is not None
    )


def _within_budget(
    problem: BalanceProblem,
    aim: ResolvedGoal,
    watch: SearchWatch,
    unlimited: Attempt | None,
    *,
    finest: int,
    by_moves: bool,
) -> SearchResult:
    nearest, found = tightest(problem, aim.budget, watch, finest=finest, by_moves=by_moves)
    if not aim.prefers_few or by_moves or watch.stopped():
        return SearchResult(max_deviation=nearest, found=found, unlimited=unlimited)
    nearest, fewer = with_fewer_copies(problem, nearest, found, aim.budget)
    return SearchResult(max_deviation=nearest, found=fewer, unlimited=unlimited, least_bytes=found)


def _best_effort(
    problem: BalanceProblem, aim: ResolvedGoal, missed: Attempt, watch: SearchWatch, *, by_moves: bool
) -> SearchResult:
    """As near as was found: with the shares that can be reached, at the deviation asked for or the nearest to it."""
    if aim.requested is None:
        raise ValueError("no deviation was asked for")
    watch.phase("as near as can be")
    loose = loosen_shares(problem, aim.requested)
    found = missed if loose is problem else at_deviation(loose, aim.requested, by_moves=by_moves, watch=watch)
    if not found.succeeded or not aim.budget.allows(found):
        _, found = tightest(loose, aim.budget, watch, finest=aim.requested, by_moves=by_moves)
    return SearchResult(max_deviation=problem.measure(found.at), found=found, missed=missed)


def _nearest_planned(problem: BalanceProblem, requested: int, watch: SearchWatch, *, by_moves: bool) -> int | None:
    """The nearest deviation at which the request finds a plan when it is made again with it; None: none was found.

    A plan that was made for a looser goal can end closer than one made for where it ended, so it is tried as the
    request would, with what work is left; the request will have more.
    """
    nearest, _ = tightest(problem, SearchBudget(), watch, finest=requested, is_cheapest=False)
    loosest = problem.today()
    for step in range(_AGAIN):
        if watch.stopped():
            return None
        if any_plan(problem, nearest, SearchBudget(), watch, by_moves=by_moves).succeeded:
            return nearest
        nearest = min(max(loosest, nearest), nearest + max(1, (nearest << 2 * step) >> _AGAIN))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """Ids of brokers that take no copies (`receivers`), and of those that lose none (`givers`)."""

    receivers: frozenset[int] = frozenset()
    givers: frozenset[int] = frozenset()

    @property
    def words(self) -> tuple[str, ...]:
        """The options that are in force, with their brokers."""
        given = ((RECEIVERS, self.receivers), (GIVERS, self.givers))
        return tuple(f"{flag} {','.join(map(str, sorted(ids)))}" for flag, ids in given if ids)

    def giving(self, sources: Sequence[int] | None, holding: Iterable[int]) -> tuple[int, ...] | None:
        """The brokers that may lose copies, sorted; None: all. `sources` are those that a threshold chose."""
        if not self.givers:
            return None if sources is None else tuple(sorted(sources))
        return tuple(sorted(frozenset(holding if sources is None else sources) - self.givers))

    def left_out(self, load: Mapping[int, int], capacity: Mapping[int, int], targets: Sequence[int]) -> frozenset[int]:
        """The targets whose load cannot come closer to their share, as far as this is known before any plan.

        Those that neither take nor give, those below their share that take nothing, and those above it that give
        nothing. The share is that of the others: the goal is theirs alone. Raises `UsageError` where no broker is left.
        """
        out = self.receivers & self.givers & frozenset(targets)
        if not self.words:
            return out
        while left := [b for b in targets if b not in out]:
            known = all(capacity[b] > 0 for b in left)
            parts = shares(sum(load[b] for b in left), [capacity[b] if known else 1 for b in left], [True] * len(left))
            share = dict(zip(left, parts.tolist(), strict=True))
            more = {
                b
                for b in left
                if (b in self.receivers and load[b] < share[b]) or (b in self.givers and load[b] > share[b])
            }
            if not more:
                return out
            out |= more
        raise UsageError(f"no broker is left to balance with {' and '.join(self.words)}", hint="exclude fewer brokers")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideScopeLoad:
    """What brokers hold and lead of topics that the request leaves out, by broker id."""

    replicas: Mapping[int, int]
    leaders: Mapping[int, int]


def layout_of(
    scope: Scope,
    sizes: Sizes,
    racks: dict[int, str | None],
    request: RebalanceRequest,
    sources: Sources,
    change: BrokerChange,
    stranded: Sequence[PlannedPartition],
    tags: TagRules | None,
    closed: ClosedBrokers,
    out: Exclusions,
    beside: OutsideScopeLoad,
) -> SlotLayout:
    """Lay out the selected partitions, with the request's rules on who gives, who takes and what stays. O(replicas)."""
    disks = Disks(
        storage=sizes.brokers,
        log_dirs=sizes.log_dirs,
        max_use=request.max_disk_use,
        head_room=request.head_room_bytes,
        shut=sizes.cordoned,
    )
    takers = [b for b in change.targets if disks.receives(b)]
    layout = lay_out(
        scope.partitions,
        sizes.partition_bytes,
        racks,
        SpreadRule(request.min_rack_ids, racks_to_spread(takers, racks) if request.spread else (), tags, closed),
        disks,
        by_free=request.goal.band is None,
        receivers=[
            b
            for b in change.targets
            if b not in out.receivers and (sources.brokers is None or b not in sources.brokers)
        ],
        targets=change.targets,
        givers=out.giving(sources.brokers, (b for p in scope.partitions for b in p.current)),
        pinned=pinned_indices(scope.partitions, request.pinned, stranded),
        smallest=request.smallest_bytes,
        locality_scoped=request.locality_scoped,
        most_broken=request.max_rack_violations,
    )
    table = with_count_limits(layout.table, request, change.targets, out, beside)
    table = with_leader_limits(table, request.ceilings, change.targets, beside, scope.partitions, stranded)
    return replace(layout, table=table)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceInputs:
    """The request on the cluster; `holding` brokers hold the scope, `stranded` partitions have no copy to copy from."""

    scope: Scope
    racks: Mapping[int, str | None]
    holding: frozenset[int]
    change: BrokerChange
    stranded: tuple[PlannedPartition, ...]
    sizes: Sizes
    sources: Sources
    out: Exclusions
    beside: OutsideScopeLoad
    layout: SlotLayout
    aim: ResolvedGoal
    left_out: frozenset[int]

    @property
    def notes(self) -> tuple[str, ...]:
        """Of brokers that the goal leaves out, and of brokers without a rack that may take copies."""
        bare = rackless_note([b for b in self.change.targets if b not in self.out.receivers], self.racks)
        if not self.left_out:
            return bare
        left = few_of(sorted(self.left_out))
        return (*bare, f"left out of the goal, since they cannot come nearer to it: brokers {left}")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of sizes and of stranded partitions."""
        return tuple(sorted((*self.sizes.warnings, *map(stranded_warning, self.stranded))))


def balance_inputs(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    facts: StorageFacts | None,
    check: Callable[[BrokerChange], None],
    closed: ClosedBrokers = NONE_CLOSED,
) -> BalanceInputs:
    """Read scope, disks and rules; `check` refuses brokers that the request cannot do with. O(replicas).

    Raises `UsageError` and `TryLaterError` for requests that cannot be planned.
    """
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    racks = {b.id: b.group for b in snapshot.brokers}
    live = {b.id: b.group for b in snapshot.brokers if b.is_alive}
    holding = frozenset(b for p in scope.partitions for b in p.current)
    change = classify(holding, request.brokers.resolve(holding, frozenset(live), snapshot.leaving), live)
    check(change)
    movable, stranded = set_stranded_apart(scope.partitions, frozenset(live))
    sizes = storage_of(snapshot, facts, brokers=change.targets, partitions=[p.key for p in movable])
    free = {b: sizes.brokers[b].free_bytes or 0 for b in change.targets}
    sources = choose_sources(free, change.new, request)
    tags = request.constraints.on(snapshot, scope.selection.selected)
    out, beside = exclusions_of(snapshot, request, holding), load_outside_scope(snapshot, scope, request)
    layout = layout_of(scope, sizes, racks, request, sources, change, stranded, tags, closed, out, beside)
    # A range of free bytes is over loads alone, whatever the disks.
    capacity = layout.now.capacity if request.goal.band is not None else dict.fromkeys(layout.now.capacity, 0)
    left_out = out.left_out(layout.now.load, capacity, change.targets)
    return BalanceInputs(
        scope=scope,
        racks=racks,
        holding=holding,
        change=change,
        stranded=stranded,
        sizes=sizes,
        sources=sources,
        out=out,
        beside=beside,
        layout=layout,
        aim=aim_of(layout, request, sources, frozenset(change.targets) - left_out),
        left_out=left_out,
    )


_NAMED = 3


def describe_too_large(inputs: BalanceInputs, window: LoadWindow) -> str:
    """The partitions that are larger than their limit on enough brokers, in words; empty where none is."""
    table = inputs.layout.table
    if window.slides.any():
        return ""
    parts = too_large(table, window.ceiling)
    if not parts:
        return ""
    named = [f"{inputs.scope.partitions[p].key} ({format_bytes(int(table.size[p]))})" for p in parts[:_NAMED]]
    more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    are = "is" if len(parts) == 1 else "are"
    return f"{', '.join(named)}{more} {are} larger than what enough brokers may hold"


RECEIVERS, GIVERS = "--exclude-receivers", "--exclude-givers"


def exclusions_of(snapshot: ClusterSnapshot, request: RebalanceRequest, holding: frozenset[int]) -> Exclusions:
    """Read both lists on the cluster; raises `UsageError` for brokers that it does not know."""
    return Exclusions(
        receivers=named_brokers(snapshot, RECEIVERS, request.exclude_receivers, holding),
        givers=named_brokers(snapshot, GIVERS, request.exclude_givers, holding),
    )


def named_brokers(
    snapshot: ClusterSnapshot, flag: str, listed: BrokerList | None, holding: frozenset[int] = frozenset()
) -> frozenset[int]:
    """The brokers that an option lists (None: none); raises `UsageError` for those that the cluster does not know."""
    live, known = frozenset(b.id for b in snapshot.brokers if b.is_alive), {b.id for b in snapshot.brokers}
    ids = frozenset(listed.resolve(holding, live)) if listed else frozenset()
    if wrong := sorted(ids - known - holding):
        raise UsageError(
            f"{flag}: {few_of(wrong)} not in this cluster", hint=f"the brokers are {few_of(sorted(known))}"
        )
    return ids


def load_outside_scope(snapshot: ClusterSnapshot, scope: Scope, request: RebalanceRequest) -> OutsideScopeLoad:
    """Count what the topics of the scope leave, where a ceiling asks for it. O(replicas)."""
    if request.ceilings.max_replicas is None and request.ceilings.max_leaders is None:
        return OutsideScopeLoad(replicas={}, leaders={})
    pool = pool_of(snapshot)
    replicas, leaders = Counter(pool.replicas), Counter(pool.leaders)
    replicas.subtract(b for p in scope.partitions for b in p.current)
    leaders.subtract(p.current[0] for p in scope.partitions if p.current)
    return OutsideScopeLoad(replicas=replicas, leaders=leaders)


def with_count_limits(
    table: SlotTable, request: RebalanceRequest, targets: Sequence[int], out: Exclusions, beside: OutsideScopeLoad
) -> SlotTable:
    """The table with every target's count of replicas limited: to the band and below the ceiling of the request."""
    band, most = request.goal.count_band, request.ceilings.max_replicas
    if band is None and most is None:
        return table
    counts = counts_of(table, table.home)
    floor, ceiling = [0] * len(counts), list(counts)
    even = [i for i, b in enumerate(table.brokers) if b in targets]
    low, high = (
        (0, len(table.home)) if band is None else _range_around(Fraction(sum(counts[i] for i in even), len(even)), band)
    )
    for i in even:
        broker = table.brokers[i]
        floor[i] = min(low, counts[i]) if broker in out.receivers else low
        ceiling[i] = max(high, counts[i]) if broker in out.givers else high
        if most is not None:
            ceiling[i] = min(ceiling[i], most - beside.replicas.get(broker, 0))
    return replace(table, counts=CountLimits(floor=tuple(floor), ceiling=tuple(ceiling)))


def with_recomputed_counts(inputs: BalanceInputs, request: RebalanceRequest, table: SlotTable) -> SlotTable:
    """The table, which has more brokers than the inputs, with the request's limits on counts over all of them."""
    targets = (*inputs.change.targets, *table.brokers[len(inputs.layout.table.brokers) :])
    return with_count_limits(table, request, targets, inputs.out, inputs.beside)


def with_leader_limits(
    table: SlotTable,
    ceilings: Ceilings,
    targets: Sequence[int],
    beside: OutsideScopeLoad,
    partitions: Sequence[PlannedPartition],
    staying: Collection[PlannedPartition],
) -> SlotTable:
    """The table with ceilings on leaders; the partitions `staying` keep theirs."""
    if not ceilings.on_leaders:
        return table
    apart = {p.key for p in staying}
    kept = [p.current if p.key in apart or not p.current else None for p in partitions]
    return replace(table, leaders=leader_limits(ceilings, partitions, kept, table.brokers, targets, beside.leaders))


def _range_around(share: Fraction, band: Fraction) -> tuple[int, int]:
    """The whole numbers within a part of the share; the two around it where the band is narrower than one replica."""
    width = min(band, Fraction(1))
    floor, ceiling = math.ceil(share * (1 - width)), math.floor(share * (1 + width))
    return min(floor, math.floor(share)), max(ceiling, math.ceil(share))


def refuse_impossible(inputs: BalanceInputs, request: RebalanceRequest) -> None:
    """Raise `InfeasibleError`, with the least that may be, where no placement keeps the ceiling of replicas.

    Proven by the LP relaxation in which every replica weighs 1: it knows racks, tags, and who gives and takes.
    """
    _refuse_leaders(inputs, request)
    most, table, beside = request.ceilings.max_replicas, inputs.layout.table, inputs.beside
    if most is None:
        return
    found = _ReplicasAlone(table, inputs.change.targets, beside)
    window = found.window(most)
    if not window.possible:
        reason = explain_infeasible(found.table, found.demand, window, inputs.racks, lambda n: count_of(n, "replica"))
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
    refuse_crowded_leaders(limits, request.ceilings.max_leaders, table.brokers, inputs.change.targets)
    if limits.of_topic is not None:
        _refuse_topics(inputs, limits, limits.of_topic)
    held = [not table.movable[a:b].any() for a, b in itertools.pairwise(table.first.tolist())]
    rows = [row if stays else () for row, stays in zip(lists_of(table, table.home), held, strict=True)]
    found = leaders_within(rows, rows, table.brokers, limits)
    if lacking := sum(1 for row, b in zip(rows, found.tolist(), strict=True) if row and b == NO_LEADER):
        raise InfeasibleError(
            f"{request.ceilings.leader_words} cannot be kept: no leader for {count_of(lacking, 'immovable partition')}",
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
                f"{MAX_TOPIC_LEADERS} {most} cannot be kept: topic {topic} has {count_of(size, 'partition')}, and "
                f"{count_of(len(able), 'broker')} may lead {room}",
                hint=f"the least that may be: {MAX_TOPIC_LEADERS} {most - (room - size) // max(1, len(able))}",
            )


class _ReplicasAlone:
    """The problem with replicas as its only load."""

    def __init__(self, table: SlotTable, targets: Sequence[int], beside: OutsideScopeLoad) -> None:
        import numpy as np

        self.table = replace(
            table,
            size=np.ones(len(table.size), dtype=np.int64),
            fixed=np.array([beside.replicas.get(b, 0) for b in table.brokers], dtype=np.int64),
        )
        self.demand = demand_groups_of(self.table)
        self._held: Ints = self.table.loads(self.table.home)
        self._limited = np.array([b in targets for b in table.brokers], dtype=bool)

    def window(self, most: int) -> LoadWindow:
        """At most so many replicas on each target, all topics counted."""
        import numpy as np

        ceiling = np.where(self._limited, most, self._held)
        return fixed_window(self.table, self.demand, np.zeros_like(ceiling), ceiling)
