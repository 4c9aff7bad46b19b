"""Placement by bytes for `rebuild`, and who leads after a rebuild.

As many copies as fit come first, then the smallest range of free bytes, then the fewest bytes. Leaders: which replicas
may lead each list, and brokers that must lead no more.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.core.plan import Proof, ProofKind, StorageFacts
from kafkakit.core.quantities import format_bytes
from kafkakit.placement import leaders
from kafkakit.placement.by_size.layout import Disks
from kafkakit.placement.by_size.proof import argument_of, cancels, proof_of
from kafkakit.placement.minimal import movement_bound, standing_notes
from kafkakit.placement.problem import (
    BrokerChange,
    Minimize,
    OptimizeFor,
    Placement,
    PlacementProblem,
    PlannedPartition,
)
from kafkakit.placement.rebuild_search import ChosenSets, RebuildResult, choose_small, is_small, search
from kafkakit.placement.rebuild_task import RebuildTask, Row, explain_shortage, fill_row, make_task, placeable_copies
from kafkakit.placement.watch import SearchWatch
from kafkakit.topicmappr.decide.storage import (
    MOST_BYTES,
    RANGE_INCREASED,
    FreeChange,
    Sizes,
    explain_unplaced,
    storage_of,
)

STOPPED = "the search was ended early: a smaller range of free bytes may be possible"


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesPlacement:
    """A placement by bytes, why copies found no broker (if any), free bytes, and who could get copies."""

    placement: Placement
    shortages: tuple[str, ...]
    free: FreeChange
    receivers: tuple[int, ...]
    sizes: Sizes

    @property
    def storage(self) -> Mapping[int, BrokerStorage]:
        """What the disks of the brokers concerned hold and can hold."""
        return {b: self.sizes.brokers[b] for b in self.free.before}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may stop the plan: what is wrong with disks, and a wider range of free bytes."""
        return (*self.sizes.warnings, *((RANGE_INCREASED,) if self.free.range_increased else ()))


def place_stored(
    snapshot: ClusterSnapshot,
    facts: StorageFacts | None,
    problem: PlacementProblem,
    change: BrokerChange,
    watch: SearchWatch,
    *,
    optimize: OptimizeFor,
    factor: Fraction,
    forced: bool,
) -> BytesPlacement:
    """Place what must move (all replicas, when forced) by bytes; `facts` say where the sizes come from.

    A new copy reserves its size times `factor`, and no broker gets more than it has room for. Copies that find
    no room are left out and explained in `shortages`. Raises what `storage_of` raises for unknown sizes or disks.
    Cost: see `search` and, for small clusters, `exact`.
    """
    _refuse_unheard_of(snapshot, problem)
    sizes = storage_of(snapshot, facts, brokers=problem.targets, partitions=[p.key for p in problem.partitions])
    problem = replace(problem, minimize=Minimize.BYTES)
    disks = Disks(storage=sizes.brokers, log_dirs=sizes.log_dirs, max_use=Fraction(1), shut=sizes.cordoned)
    task = make_task(problem, disks, factor=factor, forced=forced)
    _refuse_beyond_exact(task, factor)
    lists, found, chosen = place_task(task, watch)
    unplaced = tuple(len(row) - len(new) for row, new in zip(task.rows, lists, strict=True))
    current = [p.current for p in problem.partitions]
    ordered = tuple(
        lead_evenly(current, lists, problem.targets, forced=forced)
        if optimize is OptimizeFor.DISTRIBUTION
        else [_leader_kept(old, new, forced) for old, new in zip(current, lists, strict=True)]
    )
    bound, argument, proof = _prove_bytes(task, found, chosen, lists, unplaced)
    return BytesPlacement(
        placement=Placement(
            replicas=ordered,
            unplaced=unplaced,
            bound=bound,
            argument=argument,
            notes=(
                *standing_notes(problem, ordered, task.kept),
                *_range_notes(task, found, chosen, lists, unplaced),
                *((STOPPED,) if watch.stopped() else ()),
            ),
            proof=proof,
        ),
        shortages=_shortages(task, lists, unplaced, change, factor, chosen),
        free=_free_change(task, ordered, sizes, change, factor),
        receivers=tuple(sorted(task.receivers)),
        sizes=sizes,
    )


def place_task(task: RebuildTask, watch: SearchWatch) -> tuple[tuple[Row, ...], RebuildResult, ChosenSets | None]:
    """Lists with a broker for as many copies as possible, what the search found, and what a full search proved."""
    found = search(task, watch)
    if not is_small(task) or watch.stopped():
        return found.lists, found, None
    watch.phase("searching every placement")
    chosen = choose_small(task, found.lists, found.range_bound or 0, watch)
    racks = task.problem.racks
    lists = tuple(fill_row(row, sorted(s), racks) for row, s in zip(task.rows, chosen.sets, strict=True))
    return lists, found, chosen


def _refuse_beyond_exact(task: RebuildTask, factor: Fraction) -> None:
    """What new copies reserve must fit 64 bits in sum, with room to spare."""
    total = sum(reserve * len(row) for reserve, row in zip(task.reserve, task.rows, strict=True))
    if total > MOST_BYTES:
        raise UsageError(
            f"--partition-size-factor: {float(factor):g} makes copies of {format_bytes(total)} together, and no more "
            f"than {format_bytes(MOST_BYTES)} can be handled"
        )


def _refuse_unheard_of(snapshot: ClusterSnapshot, problem: PlacementProblem) -> None:
    """A map may name partitions that the cluster does not have, and those have no size."""
    known = {TopicPartition(topic, p.partition) for topic, p in snapshot.partitions()}
    unheard = [str(p.key) for p in problem.partitions if p.key not in known]
    if unheard:
        more = f" and {len(unheard) - 3} more" if len(unheard) > 3 else ""
        raise UsageError(
            f"placement by storage needs sizes, and there is no {', '.join(unheard[:3])}{more} in the cluster",
            hint="leave them out of --map-string, or use --placement count",
        )


def _leader_kept(old: Row, new: Row, forced: bool) -> Row:
    """The list with its leader still first, should a broker have closed up before it."""
    if forced or not old or not new or new[0] == old[0] or old[0] not in new:
        return new
    return (old[0], *(b for b in new if b != old[0]))


def _shortages(
    task: RebuildTask,
    lists: Sequence[Row],
    unplaced: Sequence[int],
    change: BrokerChange,
    factor: Fraction,
    chosen: ChosenSets | None,
) -> tuple[str, ...]:
    """First what racks and broker counts alone forbid, then what has no room."""
    if not any(unplaced):
        return ()
    problem = task.problem
    able = placeable_copies(task)
    bare = tuple(len(task.rows[i]) - able[i] if missing else 0 for i, missing in enumerate(unplaced))
    live = {b: problem.rack_of(b) for b in problem.targets}
    lines = explain_unplaced(problem, bare, live)
    cramped = [i for i, missing in enumerate(unplaced) if missing > bare[i]]
    if cramped:
        proven = chosen is not None and chosen.most_placed
        lines += explain_shortage(task, lists, cramped, factor, proven=proven)
    return lines


def _fills_all(task: RebuildTask, lists: Sequence[Row]) -> bool:
    """True where every copy that racks and constraints let have a broker has one."""
    return all(len(new) == n for new, n in zip(lists, placeable_copies(task), strict=True))


def _prove_bytes(
    task: RebuildTask, found: RebuildResult, chosen: ChosenSets | None, lists: Sequence[Row], unplaced: Sequence[int]
) -> tuple[int, str, Proof]:
    """The least bytes any plan with these copies and this range must copy: bound, argument, proof."""
    problem, arrays = task.problem, found.arrays
    bound, argument = movement_bound(problem, unplaced)
    cost = _cost(task, lists)
    if task.forced and cost > bound:
        argument = (
            f"{argument.removesuffix(': nothing has to be copied')}; copies that even out free bytes are beside it"
        )
    counting = bound, argument, Proof(kind=ProofKind.COUNTING, load="bytes")
    untrimmed = all(len(p.current) <= p.wanted for p in problem.partitions)
    if not task.forced or cost == bound or not untrimmed or (any(unplaced) and not _fills_all(task, lists)):
        return counting
    if chosen is not None and chosen.least_bytes:
        words = f"a range of free bytes of {format_bytes(task.range_after(lists))} needs {format_bytes(cost)} "
        return cost, words + "(exhaustive search)", Proof(kind=ProofKind.SEARCH, load="bytes")
    if arrays is None or not task.plain or not arrays.whole or any(unplaced):
        return counting
    window = arrays.problem.window(task.range_after(lists))
    proof = proof_of(arrays.table, arrays.problem.demand, window)
    if not cancels(proof):
        return counting
    # Where openings lie is no broker: nothing can be there in the end, so those limits prove nothing.
    proof = replace(proof, limits=tuple(limit for limit in proof.limits if limit.broker >= 0))
    return window.bound.value, argument_of(arrays.table, window), proof


def _cost(task: RebuildTask, lists: Sequence[Row]) -> int:
    rows = zip(task.problem.partitions, task.size, lists, strict=True)
    return sum(size * sum(1 for b in new if b not in p.current) for p, size, new in rows if new != p.current)


def _range_notes(
    task: RebuildTask, found: RebuildResult, chosen: ChosenSets | None, lists: Sequence[Row], unplaced: Sequence[int]
) -> tuple[str, ...]:
    reached = task.range_after(lists)
    words = f"free bytes of the listed brokers end {format_bytes(reached)} apart"
    if not task.problem.partitions or (any(unplaced) and not _fills_all(task, lists)):
        return ()
    if chosen is not None and chosen.least_range:
        return (f"{words}, the least that any placement reaches",)
    if found.range_bound is None or found.range_bound <= 1:
        return (words,)
    return (f"{words}; no placement can do better than {format_bytes(found.range_bound)}",)


def _free_change(
    task: RebuildTask, lists: Sequence[Row], sizes: Sizes, change: BrokerChange, factor: Fraction
) -> FreeChange:
    """Free bytes of the brokers that the request touches, as far as their disks are known."""
    partitions = task.problem.partitions
    holding = {b for p in partitions for b in p.current}
    # A list without any new broker stays as it is.
    leaving = [bool(row) for row in lists]
    touched = sorted(holding | set(task.problem.targets))
    before = {b: f for b in touched if b in sizes.brokers and (f := sizes.brokers[b].free_bytes) is not None}
    after: Mapping[int, int] = task.free_after(lists)
    back = {b: 0 for b in before if b not in after}
    for p, size, leaves in zip(partitions, task.size, leaving, strict=True):
        for b in p.current if leaves else ():
            if b in back:
                back[b] += size
    return FreeChange(
        before=before,
        after={b: after[b] if b in after else f + back[b] for b, f in before.items()},
        holding=holding,
        replaced={*change.replace, *change.previous_missing},
        factor=float(factor),
    )


ReplicaRow = tuple[int, ...]
Lists = Sequence[ReplicaRow]


def even_leaders(
    partitions: Sequence[PlannedPartition],
    lists: Lists,
    targets: Sequence[int],
    evacuated: Mapping[str, Collection[int]],
) -> list[ReplicaRow]:
    """Put the leaders that make the counts most even in front; `evacuated` maps topics to brokers that must not lead.

    kafka-kit sorts each list by ratios of leaders to followers; this is exact, so never less even.
    """
    away = [evacuated.get(p.key.topic, ()) for p in partitions]
    may_lead = [tuple(b for b in row if b not in gone) for row, gone in zip(lists, away, strict=True)]
    return leaders.even_leaders([p.current for p in partitions], lists, targets, may_lead)


def lead_evenly(current: Lists, lists: Lists, targets: Sequence[int], *, forced: bool) -> list[ReplicaRow]:
    """Lists with leaders chosen where the leader left, or, when forced, for all; the others count as they are.

    O(replicas).
    """
    rows = zip(current, lists, strict=True)
    may_lead = [old[:1] if not forced and {*old[:1]}.intersection(new) else new for old, new in rows]
    return leaders.even_leaders(current, lists, targets, may_lead)


def evacuate(
    partitions: Sequence[PlannedPartition], lists: Lists, evacuated: Mapping[str, Collection[int]]
) -> list[ReplicaRow]:
    """Swap each leader that must lead no more with the first replica that may.

    Raises `OperationFailedError` where a list has no other replica.
    """
    return [
        _swap_brokers(p, row, evacuated[p.key.topic]) if p.key.topic in evacuated else row
        for p, row in zip(partitions, lists, strict=True)
    ]


def _swap_brokers(partition: PlannedPartition, row: ReplicaRow, away: Collection[int]) -> ReplicaRow:
    if not row or row[0] not in away:
        return row
    for k, broker in enumerate(row):
        if broker not in away:
            return (broker, *row[1:k], row[0], *row[k + 1 :])
    key = partition.key
    raise OperationFailedError(
        "trying to evict all replicas at once",
        hint=f"{key.topic} p{key.partition} would be on {', '.join(map(str, row))} only, and none of these may lead",
    )
