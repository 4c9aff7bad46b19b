"""`topicmappr drain` as a pure function: every replica leaves the named brokers, with the fewest copies.

The problem (which replicas leave, which stay, who may take the new copies) and placing are two steps, so that one
problem can be placed by counts or by bytes.

`topicmappr repair` replaces only replicas that are offline: whose broker is not alive, or whose log dir has failed. A
broker with a failed dir keeps what its other dirs hold, and may take copies in them; not one in place of what it has
lost, since Kafka makes no second copy of a replica on its own broker.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Certificate, PlacementRules, Proof, ProofKind, StorageFacts, certificate
from kafkakit.core.quantities import count_of
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import few_of
from kafkakit.placement.broker_disks import failed_copies
from kafkakit.placement.by_size.layout import Disks
from kafkakit.placement.group_rooms import Grouping, PartitionGroup
from kafkakit.placement.group_rule import NONE_CLOSED, ClosedBrokers, SpreadRule, racks_to_spread
from kafkakit.placement.log_dirs_balance import HomelessCopy
from kafkakit.placement.openings import (
    BrokerPool,
    OpeningsTask,
    fill_openings,
    group_openings,
    pool_of,
    replace_replicas,
)
from kafkakit.placement.problem import (
    PlaceBy,
    PlacementProblem,
    PlannedPartition,
    rackless_note,
    set_stranded_apart,
    stranded_warning,
    words_of_closed,
)
from kafkakit.placement.rebuild_task import RebuildTask, explain_shortage, with_openings
from kafkakit.placement.watch import UNWATCHED, SearchWatch, with_budget
from kafkakit.topicmappr.decide.assembly import CeilingTask, PlanDecision, PlannedChange, assemble, within_ceilings
from kafkakit.topicmappr.decide.budget import (
    BudgetSelection,
    PartitionChange,
    budget_argument,
    budget_notes,
    pinned_note,
    refuse_unsized,
    serve,
)
from kafkakit.topicmappr.decide.dirs import fit_dirs, with_destinations
from kafkakit.topicmappr.decide.plain_requests import DrainRequest, RepairRequest, ReplaceRequest
from kafkakit.topicmappr.decide.rebalance_goal import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.rebuild_bytes import place_task
from kafkakit.topicmappr.decide.request_fields import PlanBudget
from kafkakit.topicmappr.decide.scope import (
    Scope,
    TopicScope,
    pinned_indices,
    scope_of,
)
from kafkakit.topicmappr.decide.storage import Sizes, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledBrokers:
    """New brokers by partition index; `cramped` partitions find no room for all their copies, `reasons` why."""

    chosen: dict[int, tuple[int, ...]]
    cramped: tuple[int, ...]
    reasons: tuple[str, ...]
    sizes: Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainProblem:
    """`openings` maps a partition's index in the scope to the replicas that stay; the others must leave.

    `stranded` partitions hold a replica that must leave and have no live copy in sync to copy from. `pinned` ones
    stay where they are, `standing` are those of them that a leaving broker keeps. `leaving` brokers end empty (none
    where only some of their replicas leave); `title`, `origin` (what replicas leave) and `nothing` (that none has to)
    are in words, and so are the `notes`.
    """

    scope: Scope
    pool: BrokerPool
    grouping: Grouping
    leaving: frozenset[int]
    receivers: tuple[int, ...]
    openings: Mapping[int, tuple[int, ...]]
    stranded: tuple[PlannedPartition, ...]
    pinned: tuple[TopicPartition, ...] = ()
    standing: tuple[PlannedPartition, ...] = ()
    title: str
    origin: str
    nothing: str
    notes: tuple[str, ...] = ()


def fill_by_bytes(
    snapshot: ClusterSnapshot,
    facts: StorageFacts | None,
    drain: DrainProblem,
    unfit: Collection[int],
    watch: SearchWatch,
) -> FilledBrokers:
    """Choose receivers for all openings but those of `unfit` partitions, which no rack rule lets be filled.

    As many copies as fit, then the smallest range of free bytes. A partition that finds room for some of its
    copies only is left alone. Raises what `storage_of` raises where sizes or disks are unknown.
    """
    rows = [i for i in sorted(drain.openings) if i not in unfit]
    partitions = tuple(drain.scope.partitions[i] for i in rows)
    sizes = storage_of(snapshot, facts, brokers=drain.receivers, partitions=[p.key for p in partitions])
    disks = Disks(storage=sizes.brokers, log_dirs=sizes.log_dirs, max_use=Fraction(1), shut=sizes.cordoned)
    size = tuple(p.size_bytes or 0 for p in partitions)
    task = RebuildTask(
        problem=PlacementProblem(partitions, drain.receivers, drain.pool.racks, drain.grouping.rule),
        kept=tuple(drain.openings[i] for i in rows),
        rows=tuple(
            with_openings(p.current, drain.openings[i], p.wanted) for i, p in zip(rows, partitions, strict=True)
        ),
        size=size,
        reserve=size,
        free={b: sizes.brokers[b].free_bytes or 0 for b in drain.receivers},
        room={b: disks.room(b) for b in drain.receivers},
        receivers=frozenset(drain.receivers),
        forced=False,
    )
    lists, _, searched = place_task(task, watch)
    short = [k for k, (row, new) in enumerate(zip(task.rows, lists, strict=True)) if len(new) < len(row)]
    proven = searched is not None and searched.most_placed
    lacking = frozenset(short)
    return FilledBrokers(
        chosen={
            i: tuple(b for b in lists[k] if b not in drain.openings[i]) for k, i in enumerate(rows) if k not in lacking
        },
        cramped=tuple(rows[k] for k in short),
        reasons=explain_shortage(task, lists, short, Fraction(1), proven=proven) if short else (),
        sizes=sizes,
    )


def decide_drain(
    snapshot: ClusterSnapshot,
    request: DrainRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> PlannedChange:
    """Decide who takes the replicas of the leaving brokers.

    Counts over all topics come out as even as can be, or, when placed by storage, free bytes; `facts` say where
    sizes come from. A partition that finds no place is left as it is and named in `reasons`. What a budget has no
    room for waits (`serve` says which changes go first). Cost: one small flow, or that of `place_task`,
    again while copies find no log dir (`fit_dirs`).
    """
    watch = with_budget(watch)
    return fit_dirs(
        snapshot,
        lambda closed: place_leaving(snapshot, request, drain_problem(snapshot, request, closed), facts, watch),
        watch,
    )


def place_leaving(
    snapshot: ClusterSnapshot,
    request: ReplaceRequest,
    problem: DrainProblem,
    facts: StorageFacts | None,
    watch: SearchWatch,
    finish: Callable[[DrainProblem, PlanDecision], PlanDecision] = lambda _, decision: decision,
) -> tuple[PlannedChange, Sequence[HomelessCopy]]:
    """Find brokers for the replicas that leave; returns the copies that find no log dir there, for `fit_dirs`.

    `finish` may add to the decision.
    """
    partitions = problem.scope.partitions
    rooms, unfit = _group_by_room(problem)
    served = serve_drain(snapshot, problem, unfit, request.budget, facts)
    if served.later:
        problem = replace(
            problem, openings={i: o for i, o in problem.openings.items() if i in served.indices | {*unfit}}
        )
        rooms, unfit = _group_by_room(problem)
    loads = {b: problem.pool.replicas.get(b, 0) for b in problem.receivers}
    filled = None
    if request.placement is PlaceBy.STORAGE:
        filled = fill_by_bytes(snapshot, facts, problem, unfit, watch)
        chosen = filled.chosen
    else:
        chosen, _ = fill_openings(OpeningsTask(rooms, loads))
    lists = replace_replicas(partitions, problem.openings, chosen, problem.pool)
    lists = _within_ceilings(snapshot, request, problem, lists)
    unmoved = sorted(unfit)
    reasons = (*_reasons(problem, unmoved), *(filled.reasons if filled else ()))
    # That a dir is cordoned or has failed is why only some replicas leave.
    on_disks = filled.sizes.warnings if filled else ()
    decision = PlanDecision(
        replicas=lists,
        certificate=_certify(problem, chosen, served),
        targets=sorted(problem.pool.live - problem.leaving),
        tags=problem.grouping.rule.tags,
        rules=PlacementRules(
            min_rack_ids=request.min_rack_ids,
            spread_over=problem.grouping.rule.spread_over,
            receivers=problem.receivers,
            pinned=problem.pinned,
            later=served.later,
        ),
        storage={b: filled.sizes.brokers[b] for b in problem.receivers} if filled else {},
        storage_facts=filled.sizes.facts if filled else None,
        notes=(
            *budget_notes(request.budget, served),
            *_notes(problem),
            *(filled.sizes.notes if filled else ()),
            *(() if problem.leaving else on_disks),
        ),
        warnings=tuple(
            sorted((*reasons, *map(stranded_warning, problem.stranded), *(on_disks if problem.leaving else ())))
        ),
    )
    decision = finish(problem, with_destinations(snapshot, problem.scope, decision))
    selection = problem.scope.selection
    change = PlannedChange(
        title=problem.title,
        topics=selection.selected,
        topics_excluded=selection.excluded,
        plan=assemble(snapshot, request.words, problem.scope, decision),
        reasons=reasons,
        left_alone=len(unmoved) + (len(filled.cramped) if filled else 0),
        later=served.left,
    )
    return change, decision.homeless


def _within_ceilings(
    snapshot: ClusterSnapshot, request: ReplaceRequest, problem: DrainProblem, lists: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    rule = problem.grouping.rule
    spreads = rule.tags is not None and rule.tags.spreads
    task = CeilingTask(
        scope=problem.scope,
        lists=lists,
        targets=problem.pool.live - problem.leaving,
        staying={*problem.pinned, *(p.key for p in problem.stranded)},
        is_exact=request.placement is PlaceBy.COUNT and not spreads and not rule.closed.closes,
    )
    return within_ceilings(snapshot, task, request.ceilings)


def _group_by_room(problem: DrainProblem) -> tuple[list[PartitionGroup], dict[int, int]]:
    partitions = problem.scope.partitions
    openings = {i: (kept, len(partitions[i].current)) for i, kept in problem.openings.items()}
    return group_openings(openings, problem.grouping)


def _certify(problem: DrainProblem, moved: Collection[int], served: BudgetSelection) -> Certificate:
    copies = sum(len(problem.scope.partitions[i].current) - len(problem.openings[i]) for i in moved)
    if copies:
        words = budget_argument(
            f"{count_of(copies, 'replica')} must leave {problem.origin}; any plan has to copy each of them once",
            served,
        )
    elif served.later:
        words = f"the budget takes none of {count_of(served.left.partitions, 'partition')}: nothing is copied"
    else:
        others = " except of pinned partitions" if problem.standing else ""
        words = f"no replica{others} has to leave {problem.nothing}"
    return certificate("replicas", copies, copies, words, Proof(kind=ProofKind.COUNTING))


def _reasons(problem: DrainProblem, unmoved: Sequence[int]) -> tuple[str, ...]:
    """Why partitions find no place, one sentence for each kind of shortage."""
    racks = problem.pool.racks
    offered = problem.grouping.names
    add = "let a broker in another rack receive"
    if problem.grouping.rule.spreads:
        add = "let more brokers receive in the racks that hold the fewest, or do without --spread"
    tags = problem.grouping.rule.tags
    if tags is not None:
        add = "let more brokers receive, or ask for less"
    shut = words_of_closed(problem.pool.shut(problem.pool.live - problem.leaving))
    kinds: dict[tuple[tuple[str, ...], int], list[PlannedPartition]] = {}
    full = problem.grouping.rule.closed
    places = [problem.scope.partitions[i] for i in unmoved]
    needs = [full.explain(p.key, p.size_bytes, {*problem.receivers} - {*p.current}) for p in places]
    cramped = [words for words in needs if words]
    lines = [f"{words}; free space there, or let more brokers receive" for words in cramped]
    for i, p, words in zip(unmoved, places, needs, strict=True):
        if not words:
            kept = problem.openings[i]
            free = sum(b not in kept for b in problem.receivers)
            missing = max(0, len(p.current) - len(kept) - free)
            kinds.setdefault((tuple(sorted(racks.get(b) or "none" for b in kept)), missing), []).append(p)
    for (kept_racks, missing), found in sorted(kinds.items()):
        go = len(found[0].current) - len(kept_racks)
        if not problem.receivers:
            lines.append(
                f"{few_of(p.key for p in found)}: {go} replica(s) must leave {problem.origin}, and no other broker "
                f"takes copies; free space there, or let a broker receive{shut}"
            )
            continue
        if missing:
            held = len(problem.receivers) - go + missing
            some_of = "all" if held == len(problem.receivers) else f"{held} of"
            lines.append(
                f"{few_of(p.key for p in found)}: {go} replica(s) must leave, and {some_of} "
                f"{len(problem.receivers)} receiving brokers hold a replica already; "
                f"let {'another broker' if missing == 1 else f'{missing} other brokers'} receive{shut}"
            )
            continue
        by_tags = ""
        if tags is not None:
            by_tags = f" ({tags.words(found[0].key.topic, problem.receivers, len(found[0].current))})"
        lines.append(
            f"{few_of(p.key for p in found)}: {go} replica(s) must leave, "
            f"{f'those that stay use racks {few_of(kept_racks)}' if kept_racks else 'none stays'}, "
            f"and the {len(problem.receivers)} receiving brokers have racks {few_of(offered) if offered else 'none'}"
            f"{by_tags}; {add}{_repeats(problem, found)}{shut}"
        )
    return tuple(lines)


def _repeats(problem: DrainProblem, unmoved: list[PlannedPartition]) -> str:
    """Which number of racks all these partitions could span, where the rule asks for more."""
    rule, racks = problem.grouping.rule, problem.pool.racks
    if rule.tags is not None:
        return ""
    most = []
    staying = {problem.scope.partitions[i].key: kept for i, kept in problem.openings.items()}
    for p in unmoved:
        kept = staying[p.key]
        spanned = {racks.get(b) for b in kept} - {None}
        new = {racks.get(b) for b in problem.receivers} - spanned - {None}
        most.append(len(spanned) + min(len(new), len(p.current) - len(kept)))
    enough = rule.loosened(max(1, min(most)))
    return "" if enough is None else f", or allow repeats with --min-rack-ids {enough}"


def _notes(problem: DrainProblem) -> tuple[str, ...]:
    verb = "stays" if len(problem.standing) == 1 else "stay"
    where = sorted(problem.leaving.intersection(b for p in problem.standing for b in p.current))
    keys = [p.key for p in problem.standing]
    whole = f"on {few_of(where)}, which will not be empty" if where else "as they are"
    notes = [*pinned_note(keys, f"{verb} {whole}"), *problem.notes]
    notes += rackless_note(problem.receivers, problem.pool.racks)
    notes += problem.pool.closed_notes(problem.pool.live - problem.leaving)
    return tuple(notes)


def drain_problem(
    snapshot: ClusterSnapshot, request: DrainRequest, closed: ClosedBrokers = NONE_CLOSED
) -> DrainProblem:
    """Find what must leave; raises `UsageError` for unknown brokers and when no broker is left to receive."""
    pool = pool_of(snapshot).without(named_brokers(snapshot, RECEIVERS, request.exclude_receivers))
    leaving = frozenset(request.leaving.ids)
    unknown = sorted(b for b in leaving if not pool.named(b))
    if unknown:
        raise UsageError(
            f"--brokers: {few_of(unknown)} not in this cluster", hint=f"its brokers are {few_of(sorted(pool.racks))}"
        )
    receivers = receivers_of(pool, leaving, request.receiving)
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    pinned = tuple(scope.partitions[i].key for i in pinned_indices(scope.partitions, request.pinned, ()))
    held = frozenset(pinned)
    touched = tuple(p for p in scope.partitions if not leaving.isdisjoint(p.current))
    _, stranded = set_stranded_apart(tuple(p for p in touched if p.key not in held), pool.live)
    spread_over = racks_to_spread(pool.open - leaving, pool.racks) if request.spread else ()
    tags = request.constraints.on(snapshot, scope.selection.selected)
    rule = SpreadRule(request.min_rack_ids, spread_over, tags, closed)
    apart = held.union(p.key for p in stranded)
    dead = Counter(b for p in scope.partitions for b in p.current if b not in pool.live and b not in leaving)
    one, kept = len(dead) == 1, count_of(sum(dead.values()), "replica")
    also = (
        f"broker {next(iter(dead))} is not alive either and keeps {kept}; name it as well to drain it"
        if one
        else f"brokers {few_of(sorted(dead))} are not alive either and keep {kept}; name them as well to drain them"
    )
    keys = [p.key for p in scope.partitions]
    return DrainProblem(
        scope=scope,
        pool=pool,
        grouping=Grouping.of(rule, pool.racks, receivers, [key.topic for key in keys], keys),
        leaving=leaving,
        receivers=receivers,
        openings={
            i: tuple(b for b in p.current if b not in leaving)
            for i, p in enumerate(scope.partitions)
            if not leaving.isdisjoint(p.current) and p.key not in apart
        },
        stranded=stranded,
        pinned=pinned,
        standing=tuple(p for p in touched if p.key in held),
        title=f"Drain brokers {few_of(sorted(leaving))}",
        origin=f"{'broker' if len(leaving) == 1 else 'brokers'} {few_of(sorted(leaving))}",
        nothing="these brokers",
        notes=(also,) if dead else (),
    )


def receivers_of(pool: BrokerPool, leaving: frozenset[int], listed: BrokerList | None) -> tuple[int, ...]:
    """The brokers that may take replicas, all other open ones if none are listed; `UsageError` where none is left."""
    if listed is None:
        receivers = tuple(b for b in pool.receiving() if b not in leaving)
        if not receivers:
            raise UsageError("--brokers leaves no live broker that could take the replicas")
        return receivers
    for broker in listed.ids:
        if broker not in pool.live:
            known = "is not alive" if pool.named(broker) else "is not in this cluster"
            raise UsageError(f"--to: broker {broker} {known}")
        if broker in pool.excluded:
            raise UsageError(f"broker {broker} is named by both --to and {RECEIVERS}")
        pool.refuse_closed("--to", (broker,))
    return pool.receiving(listed.ids)


_WHOLE = 1 << 20


def serve_drain(
    snapshot: ClusterSnapshot,
    problem: DrainProblem,
    unfit: Collection[int],
    budget: PlanBudget,
    facts: StorageFacts | None,
) -> BudgetSelection:
    """Choose the openings that the budget takes; those of `unfit` partitions find no place and cost nothing.

    First come partitions with a replica on a dead leaving broker, those with the fewest live copies in sync before
    all; then the smallest, so that most partitions are freed for the bytes. Raises as `refuse_unsized`.
    """
    changes = [
        _change(problem, i, problem.scope.partitions[i], len(kept))
        for i, kept in problem.openings.items()
        if i not in unfit
    ]
    refuse_unsized(snapshot, budget, changes, facts)
    return serve(changes, budget)


def _change(problem: DrainProblem, index: int, p: PlannedPartition, kept: int) -> PartitionChange:
    live = problem.pool.live
    rank = _WHOLE
    if not problem.leaving or any(b in problem.leaving and b not in live for b in p.current):
        rank = sum(1 for b in p.current if b in live and (p.in_sync is None or b in p.in_sync))
    return PartitionChange(index=index, key=p.key, copies=len(p.current) - kept, size_bytes=p.size_bytes, rank=rank)


def decide_repair(
    snapshot: ClusterSnapshot,
    request: RepairRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> PlannedChange:
    """Decide who takes the replicas that are offline; every other replica stays where it is.

    Each partition ends with as many replicas as it lists. One without a live copy in sync is left, with a warning. See
    `decide_drain` for what comes out even, what a budget leaves, and the cost.
    """
    watch = with_budget(watch)
    return fit_dirs(
        snapshot,
        lambda closed: place_leaving(snapshot, request, repair_problem(snapshot, request, closed), facts, watch),
        watch,
    )


def repair_problem(
    snapshot: ClusterSnapshot, request: RepairRequest, closed: ClosedBrokers = NONE_CLOSED
) -> DrainProblem:
    """Find the replicas to replace; raises `UsageError` for unknown brokers and where none is left to receive."""
    pool = pool_of(snapshot).without(named_brokers(snapshot, RECEIVERS, request.exclude_receivers))
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    holding = frozenset(b for p in scope.partitions for b in p.current)
    named = named_brokers(snapshot, "--brokers", request.brokers, holding) if request.brokers else None
    offline = _offline_replicas(snapshot, scope, pool)
    wanted = offline if named is None else {i: gone & named for i, gone in offline.items() if gone & named}
    if wanted and not pool.open:
        raise UsageError("no live broker takes new replicas", hint="start brokers, or uncordon log dirs")
    pinned = frozenset(pinned_indices(scope.partitions, request.pinned, ()))
    due = {i: gone for i, gone in wanted.items() if i not in pinned}
    _, stranded = set_stranded_apart(tuple(scope.partitions[i] for i in due), pool.live)
    apart = {p.key for p in stranded}
    openings = {
        i: tuple(b for b in scope.partitions[i].current if b not in gone)
        for i, gone in due.items()
        if scope.partitions[i].key not in apart
    }
    keys = [p.key for p in scope.partitions]
    receivers = pool.receiving()
    rule = SpreadRule(
        request.min_rack_ids,
        racks_to_spread(receivers, pool.racks) if request.spread else (),
        request.constraints.on(snapshot, scope.selection.selected),
        replace(closed, failed={keys[i]: gone for i, gone in offline.items()}),
    )
    where = _where_text(scope.partitions, wanted, pool)
    return DrainProblem(
        scope=scope,
        pool=pool,
        grouping=Grouping.of(rule, pool.racks, receivers, [key.topic for key in keys], keys),
        leaving=frozenset(),
        receivers=receivers,
        openings=openings,
        stranded=stranded,
        pinned=tuple(keys[i] for i in sorted(pinned)),
        standing=tuple(scope.partitions[i] for i in sorted(pinned & wanted.keys())),
        title=f"Replace the offline replicas{f' of brokers {few_of(sorted(named))}' if named else ''}",
        origin=where,
        nothing="its broker, since none is offline",
    )


def _offline_replicas(snapshot: ClusterSnapshot, scope: Scope, pool: BrokerPool) -> dict[int, frozenset[int]]:
    """By partition the brokers whose replica is offline."""
    failed = failed_copies(snapshot)
    none: frozenset[int] = frozenset()
    found: dict[int, frozenset[int]] = {}
    for i, p in enumerate(scope.partitions):
        gone = frozenset(b for b in p.current if b not in pool.live) | failed.get(TopicPartition(*p.key), none)
        if gone:
            found[i] = gone.intersection(p.current)
    return found


def _where_text(
    partitions: tuple[PlannedPartition, ...], wanted: Mapping[int, frozenset[int]], pool: BrokerPool
) -> str:
    """Where the offline replicas were: dead brokers, and failed log dirs of live ones."""
    count = Counter(b for i, gone in wanted.items() for b in partitions[i].current if b in gone)
    dead, alive = (sorted(b for b in count if (b in pool.live) is is_live) for is_live in (False, True))
    parts = [
        *([f"{'dead broker' if len(dead) == 1 else 'dead brokers'} {few_of(dead)}"] if dead else []),
        *([f"failed log dirs of {'broker' if len(alive) == 1 else 'brokers'} {few_of(alive)}"] if alive else []),
    ]
    return " and ".join(parts) or "failed log dirs"
