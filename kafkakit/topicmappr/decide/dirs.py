"""Which log dir every new copy goes to, and `topicmappr rebalance-dirs`, which levels dirs with the fewest bytes.

A planner of brokers adds log dirs to its decision about replica lists before it makes its plan: a dir for each new
copy, and copies that change dirs inside their brokers. `rebalance-dirs` is a pure function and only does the latter.
Messages say what does not fit, what cannot be balanced, and why.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kafkakit.core.errors import InfeasibleError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.placement_statistics import APPLIED_USE
from kafkakit.core.plan import Certificate, DirMove, PlacementRules, PlanDir, StorageFacts, certificate
from kafkakit.core.quantities import count_of, format_bytes, format_percent
from kafkakit.core.text import few_of
from kafkakit.placement.broker_disks import DirStorage, broker_disks
from kafkakit.placement.by_size.exact import LARGEST
from kafkakit.placement.by_size.lp_relaxation import PPM
from kafkakit.placement.by_size.slots import MOST_TESTS
from kafkakit.placement.group_rule import ClosedBrokers
from kafkakit.placement.log_dirs_balance import (
    TWO,
    BalancedDirs,
    BrokerDirState,
    Destinations,
    DirBalancer,
    DirRules,
    HomelessCopy,
    choose_destinations,
    dir_states_of,
    homeless_copies,
    is_measured,
)
from kafkakit.placement.problem import PlannedPartition, set_stranded_apart
from kafkakit.placement.watch import UNWATCHED, SearchWatch, with_budget
from kafkakit.topicmappr.decide.assembly import PlanDecision, PlannedChange, assemble
from kafkakit.topicmappr.decide.plain_requests import RebalanceDirsRequest
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, pinned_indices, scope_of
from kafkakit.topicmappr.decide.storage import Sizes, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DirPlan:
    """Log dirs for new copies by partition index and broker, moves inside brokers, and each dir before and after.

    `lower_bound` is the least bytes that any plan with the same replica lists moves inside brokers for the same bands.
    """

    dirs: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    dir_moves: tuple[DirMove, ...] = ()
    table: tuple[PlanDir, ...] = ()
    lower_bound: int = 0
    homeless: tuple[HomelessCopy, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def moved_bytes(self) -> int:
        """The bytes that change dirs inside brokers."""
        return sum(m.size_bytes or 0 for m in self.dir_moves)


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """What was decided for one broker."""

    chosen: dict[int, int]
    used: list[int]
    moved: Sequence[tuple[int, int, int, int]] = ()
    bound: int = 0
    homeless: list[HomelessCopy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


_WORK_OF_ALL = 20_000_000
"""Tests of copies for one plan of each broker, all brokers together."""
_LEAST_WORK = 20_000


def plan_dirs(
    snapshot: ClusterSnapshot,
    partitions: Sequence[PlannedPartition],
    after: Sequence[tuple[int, ...]],
    log_dirs: Mapping[int, Sequence[DirStorage]],
    rules: DirRules,
    pinned: Collection[TopicPartition] = (),
    watch: SearchWatch = UNWATCHED,
    *,
    lone_dirs: bool = False,
) -> DirPlan:
    """Decide dirs for the planned lists `after`; brokers with one log dir, or none known, need nothing.

    With `lone_dirs` new copies must also fit in the dir of a broker that has one.

    Nothing raises: what cannot be had is told in `warnings`, by broker, and the nearest is planned. When the
    `watch` stops, the remaining brokers get dirs for new copies and no moves inside. Cost: 1 ms a broker without a
    band, 20 ms and more a broker of 1,000 copies where copies change dirs.
    """
    watch = with_budget(watch)
    states = dir_states_of(snapshot, partitions, after, log_dirs, rules, pinned, least=1 if lone_dirs else TWO)
    # A full search is for a handful of copies: as in the balance between brokers, the whole counts.
    search = sum((len(s.arrivals) + len(s.standing)) * len(s.dirs) for s in states) <= LARGEST
    work = min(MOST_TESTS, max(_LEAST_WORK, _WORK_OF_ALL // max(1, len(states))))
    dirs: dict[int, dict[int, str]] = {}
    moves: list[DirMove] = []
    table: list[PlanDir] = []
    notes: list[str] = []
    warnings: list[str] = []
    homeless: list[HomelessCopy] = []
    bound = 0
    for state in states:
        balanced = rules if not watch.stopped() else DirRules(max_use=rules.max_use, head_room=rules.head_room)
        found = _decide(state, partitions, balanced, watch, search=search, work=work)
        homeless += found.homeless
        warnings += found.warnings
        if len(state.dirs) < TWO:
            continue
        for partition, n in found.chosen.items():
            dirs.setdefault(partition, {})[state.broker] = state.dirs[n].path
        moves += [_dir_move(state, partitions, move) for move in found.moved]
        table += _rows(state, found.used)
        bound += found.bound
        notes += found.notes
    return DirPlan(
        dirs=dirs,
        dir_moves=tuple(sorted(moves, key=lambda m: (m.topic, m.partition, m.broker))),
        table=tuple(table),
        lower_bound=bound,
        homeless=tuple(homeless),
        notes=(*_notes([s for s in states if len(s.dirs) >= TWO], moves, bound), *first_few(notes)),
        warnings=tuple(first_few(warnings)),
    )


def _decide(
    state: BrokerDirState,
    partitions: Sequence[PlannedPartition],
    rules: DirRules,
    watch: SearchWatch,
    *,
    search: bool,
    work: int,
) -> _Outcome:
    first = choose_destinations(state, watch, search=search)
    found = _Outcome(chosen=first.chosen, used=first.used)
    if rules.band is not None:
        found.warnings += broken_words(state)
        found.notes += cordoned_words(state)
        if sum(state.open) > 1:
            _level(state, first, rules, found, watch, search=search, work=work)
    if len(found.chosen) < len(state.arrivals):
        found.homeless = homeless_copies(state, first.left, partitions)
        if any(state.open):
            found.warnings.append(homeless_words(state, first.left, partitions))
    if first.early and found.chosen:
        found.notes.append(early_words(state, found.chosen, partitions))
    return found


def _level(
    state: BrokerDirState,
    first: Destinations,
    rules: DirRules,
    found: _Outcome,
    watch: SearchWatch,
    *,
    search: bool,
    work: int,
) -> None:
    """Bring the dirs within the band if the destinations alone do not, or as near as can be."""
    band = int((rules.band or 0) * PPM)
    room = state.room
    if first.early:
        room = [r + gone for r, gone in zip(room, state.leaving, strict=True)]
    balancer = DirBalancer(state, room, watch, work=work)
    loosest = balancer.measure(first.used)
    if loosest <= band and not first.left:
        return
    best = balancer.level(band, search=search)
    if best is None and first.left:
        return
    if best is None:
        best = balancer.nearest(band, loosest)
        if best is None or best.reached >= loosest:
            best = BalancedDirs(chosen=first.chosen, moved=(), used=first.used, bound=0, reached=loosest)
        found.warnings.append(nearest_words(state, balancer, best, band))
    found.chosen, found.used = best.chosen, best.used
    found.moved, found.bound = best.moved, best.bound


def _dir_move(
    state: BrokerDirState, partitions: Sequence[PlannedPartition], move: tuple[int, int, int, int]
) -> DirMove:
    partition, size, source, target = move
    key = partitions[partition].key
    return DirMove(
        topic=key.topic,
        partition=key.partition,
        broker=state.broker,
        source_dir=state.dirs[source].path,
        target_dir=state.dirs[target].path,
        size_bytes=size,
    )


def _rows(state: BrokerDirState, used: Sequence[int]) -> list[PlanDir]:
    return [
        PlanDir(
            broker=state.broker,
            path=d.path,
            capacity_bytes=d.total_bytes,
            used_before_bytes=before,
            used_after_bytes=after,
            is_open=is_open,
        )
        for d, before, after, is_open in zip(state.dirs, state.used, used, state.open, strict=True)
    ]


def _notes(states: Sequence[BrokerDirState], moves: Sequence[DirMove], bound: int) -> tuple[str, ...]:
    lines = unmeasured_note(states)
    if moves:
        moved = sum(m.size_bytes or 0 for m in moves)
        least = "which is the least" if moved == bound else f"at least {format_bytes(bound)} have to"
        lines.append(
            f"inside brokers: {count_of(len(moves), 'copy', 'copies')} change log dirs, {format_bytes(moved)}, {least}"
        )
    return tuple(lines)


APPLIED = DirRules(max_use=APPLIED_USE)
"""For planners without a ceiling of their own: new copies must fit in a dir as `reassign apply` fills it."""


def with_dirs(
    snapshot: ClusterSnapshot,
    scope: Scope,
    decision: PlanDecision,
    log_dirs: Mapping[int, Sequence[DirStorage]],
    rules: DirRules,
    watch: SearchWatch = UNWATCHED,
    *,
    lone_dirs: bool = False,
) -> PlanDecision:
    """The decision with a log dir for each new copy on its targets, and, with a band, moves inside them.

    Nothing changes where no target tells of two log dirs. Pinned partitions keep their dirs. A `watch` that stops ends
    the moves inside brokers where they are. Cost: see `plan_dirs`.
    """
    if rules.band is not None:
        watch.phase("log dirs")
    found = plan_dirs(
        snapshot,
        scope.partitions,
        decision.replicas,
        {b: log_dirs[b] for b in decision.targets if b in log_dirs},
        rules,
        pinned=decision.rules.pinned if decision.rules else (),
        watch=watch,
        lone_dirs=lone_dirs,
    )
    return replace(
        decision,
        homeless=found.homeless,
        dirs=found.dirs,
        dir_moves=found.dir_moves,
        dir_table=found.table,
        notes=(*decision.notes, *found.notes),
        warnings=tuple(sorted((*decision.warnings, *found.warnings))),
    )


def with_destinations(snapshot: ClusterSnapshot, scope: Scope, decision: PlanDecision) -> PlanDecision:
    """For planners that place by counts: a dir for each new copy where dirs are known.

    Copies that fit in no dir are in `homeless`; see `fit_dirs`, which sends them elsewhere.
    """
    if not any(b.log_dirs for b in snapshot.brokers):
        return decision
    disks = broker_disks(snapshot)
    placed = with_dirs(snapshot, scope, replace(decision, warnings=()), disks.log_dirs, APPLIED, lone_dirs=True)
    alike = disks.notes_on(frozenset(b for chosen in placed.dirs.values() for b in chosen))
    return replace(placed, notes=(*placed.notes, *alike, *placed.warnings), warnings=decision.warnings)


def homeless_of(
    snapshot: ClusterSnapshot, partitions: Sequence[PlannedPartition], after: Sequence[tuple[int, ...]]
) -> tuple[HomelessCopy, ...]:
    """The new copies of these lists that no log dir of their broker has space for; none where sizes are not known."""
    if all(p.size_bytes is None for p in partitions):
        return ()
    return plan_dirs(snapshot, partitions, after, broker_disks(snapshot).log_dirs, APPLIED, lone_dirs=True).homeless


Decided = TypeVar("Decided")
_PAIRS = 12  # rounds in which single brokers are closed to a copy that does not fit there
_FEW = 12  # copies without a dir up to which that is tried
_ROUNDS = 64


def fit_dirs(
    snapshot: ClusterSnapshot,
    decide: Callable[[ClosedBrokers], tuple[Decided, Sequence[HomelessCopy]]],
    watch: SearchWatch = UNWATCHED,
) -> Decided:
    """What `decide` plans if no new copy goes to a broker none of whose log dirs has space for it.

    It is asked again, with the brokers closed to the copies that found no dir, until all have one: of copies that
    are rivals for a dir, the one that has been sent away least often goes. Where that is not enough, or copies are
    many, a full broker takes only the copies that have a dir there. One round where everything fits. Raises what
    `decide` raises, with what did not fit.
    """
    closed = _ClosedDirs(snapshot)
    for turn in range(_ROUNDS):
        rule = closed.rule()
        try:
            found, homeless = decide(rule)
        except InfeasibleError as error:
            full = [rule.explain(key, closed.sizes[key]) for key in sorted(closed.space)]
            error.reasons = (*error.reasons, *first_few(full))
            raise
        if not homeless or watch.stopped() or not closed.take(homeless, pairs=turn < _PAIRS):
            break
    return found


def _largest_rooms(snapshot: ClusterSnapshot) -> dict[int, int]:
    """By broker the most that one of its log dirs takes now; brokers that do not tell are left out."""
    rooms: dict[int, int] = {}
    for b, dirs in broker_disks(snapshot).log_dirs.items():
        whole = sum(d.total_bytes or 0 for d in dirs if d.error is None)
        found = [APPLIED.room(d, whole) for d in dirs if d.is_open and is_measured(d)]
        if found and len(found) == sum(1 for d in dirs if d.is_open):
            rooms[b] = max(found)
    return rooms


@dataclass(slots=True)
class _ClosedDirs:
    """What was closed so far, with the sizes of the copies."""

    snapshot: ClusterSnapshot
    space: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    full: dict[int, frozenset[TopicPartition]] = field(default_factory=dict)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    proven: bool = True
    rooms: dict[int, int] = field(default_factory=dict)

    def rule(self) -> ClosedBrokers:
        """As it is now."""
        space = {key: dict(brokers) for key, brokers in self.space.items()}
        return ClosedBrokers(space, self.proven, full=dict(self.full))

    def take(self, homeless: Sequence[HomelessCopy], *, pairs: bool) -> bool:
        """Close brokers to these copies, or to their rivals; False where nothing more is closed."""
        before = sum(map(len, self.space.values())), dict(self.full)
        self.rooms = self.rooms or _largest_rooms(self.snapshot)
        single = pairs and sum(1 for copy in homeless if copy.rivals) <= _FEW
        for copy in homeless:
            self.proven = self.proven and copy.is_certain
            if not single and not copy.is_certain:
                self.full[copy.broker] = copy.beside & self.full.get(copy.broker, copy.beside)
            leaving = min((copy.key, *(copy.rivals if single else ())), key=lambda key: len(self.space.get(key, ())))
            self.sizes[leaving] = copy.rivals.get(leaving, copy.size)
            space = self.space.setdefault(leaving, {})
            space[copy.broker] = copy.space
            if not copy.rivals:  # too large for all dirs there, so others with no more space need no try
                more = {b: room for b, room in self.rooms.items() if room < copy.size and b not in space}
                self.proven = self.proven and not more
                space.update(more)
        return before != (sum(map(len, self.space.values())), self.full)


def decide_rebalance_dirs(
    snapshot: ClusterSnapshot,
    request: RebalanceDirsRequest,
    facts: StorageFacts | None = None,
) -> PlannedChange:
    """Decide which copies change dirs so that each dir ends within the band of its share, broker by broker.

    A band that cannot be had on a broker is told in the plan's warnings and the nearest is planned. Raises
    `UsageError` for brokers that are not there and `TryLaterError` for disks that are not known.
    """
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    live = frozenset(b.id for b in snapshot.brokers if b.is_alive)
    targets = _targets(request, scope, live)
    _, stranded = set_stranded_apart(scope.partitions, live)
    pinned = pinned_indices(scope.partitions, request.pinned, stranded)
    keys = tuple(scope.partitions[i].key for i in pinned)
    sizes = storage_of(snapshot, facts, brokers=targets, partitions=())
    lists = [p.current for p in scope.partitions]
    found = plan_dirs(
        snapshot,
        scope.partitions,
        lists,
        {b: sizes.log_dirs[b] for b in targets if b in sizes.log_dirs},
        request.rules,
        pinned=keys,
    )
    decision = PlanDecision(
        replicas=lists,
        certificate=_certify(found),
        targets=targets,
        rules=PlacementRules(pinned=keys),
        storage={b: sizes.brokers[b] for b in targets},
        storage_facts=sizes.facts,
        dir_moves=found.dir_moves,
        dir_table=found.table,
        notes=(*sizes.notes, *found.notes, *_no_dirs_note(sizes, targets)),
        warnings=found.warnings,
    )
    band = format_percent(request.rules.band or 0)
    return PlannedChange(
        title=f"Level the log dirs of {count_of(len(targets), 'broker')} to within {band} of each dir's share",
        topics=scope.selection.selected,
        topics_excluded=scope.selection.excluded,
        plan=assemble(snapshot, request.words, scope, decision),
    )


def _targets(request: RebalanceDirsRequest, scope: Scope, live: frozenset[int]) -> tuple[int, ...]:
    holding = frozenset(b for p in scope.partitions for b in p.current)
    named = request.brokers.resolve(holding, live)
    wrong = sorted(set(request.brokers.ids) - live)
    if wrong:
        raise UsageError(
            f"broker {few_of(wrong)} is not a live broker of this cluster", hint=f"live: {few_of(sorted(live))}"
        )
    targets = sorted(set(named) & live)
    if not targets:
        raise UsageError("no live broker holds these topics", hint="check --brokers and --topics")
    return tuple(targets)


def _certify(found: DirPlan) -> Certificate:
    """The sum of what each broker must move inside at least, set beside what the plan moves."""
    if not found.dir_moves:
        return certificate("bytes", 0, 0, "no copy has to change its log dir")
    brokers = len({m.broker for m in found.dir_moves})
    words = (
        f"on {count_of(brokers, 'broker')} log dirs hold more than their band allows, or less: any plan has to move "
        f"{format_bytes(found.lower_bound)} to other dirs"
    )
    return certificate("bytes", found.moved_bytes, found.lower_bound, words)


def _no_dirs_note(sizes: Sizes, targets: Collection[int]) -> tuple[str, ...]:
    if any(len(sizes.log_dirs.get(b, ())) >= TWO for b in targets):
        return ()
    return ("none of these brokers has two log dirs, so there is nothing to level",)


SHOWN = 3
SHOWN_LINES = 10


def first_few(lines: Sequence[str]) -> list[str]:
    """The first ten lines and how many more there are, as a large cluster may have one for every broker."""
    more = len(lines) - SHOWN_LINES
    return [*lines[:SHOWN_LINES], *([f"{more} more of this kind on log dirs"] if more > 0 else [])]


def homeless_words(
    state: BrokerDirState, left: Sequence[tuple[int, int]], partitions: Sequence[PlannedPartition]
) -> str:
    """Copies for which no dir has space."""
    first = ", ".join(f"{partitions[p].key} ({format_bytes(size)})" for size, p in left[:SHOWN])
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    largest = max((r for r, takes in zip(state.room, state.open, strict=True) if takes), default=0)
    return (
        f"broker {state.broker}: no log dir has space for {first}{more} (the most is {format_bytes(largest)}); "
        "no dir is named for them, the broker will choose one"
    )


def early_words(state: BrokerDirState, chosen: Mapping[int, int], partitions: Sequence[PlannedPartition]) -> str:
    """Copies that fit only after others have left."""
    coming = [0] * len(state.dirs)
    for n, size in ((chosen[p], size) for size, p in state.arrivals if p in chosen):
        coming[n] += size
    tight = [n for n, load in enumerate(coming) if load > state.room[n]]
    names = ", ".join(
        f"{state.dirs[n].path} gets {format_bytes(coming[n])} and has space for {format_bytes(state.room[n])} now"
        for n in tight[:SHOWN]
    )
    return f"broker {state.broker}: new copies fit only once others have left: {names}; apply in small batches"


def broken_words(state: BrokerDirState) -> list[str]:
    """Dirs that a balance inside the broker cannot touch."""
    return [
        f"broker {state.broker}: log dir {d.path} is offline, nothing can be moved out of it"
        for d in state.dirs
        if d.error is not None
    ]


def cordoned_words(state: BrokerDirState) -> list[str]:
    """Dirs that a balance inside the broker leaves as they are."""
    return [
        f"broker {state.broker}: log dir {d.path} is cordoned, it is left out of the balance"
        for d in state.dirs
        if d.cordoned and d.error is None
    ]


def nearest_words(state: BrokerDirState, balancer: DirBalancer, best: BalancedDirs, band: int) -> str:
    """A band that cannot be had: how near the plan comes, which dir is furthest off, and why."""
    share = balancer.share.tolist()[1:]
    even = [n for n, takes in enumerate(state.open) if takes]
    off = max(even, key=lambda n: (abs(best.used[n] - share[n]) * PPM // max(share[n], 1), -n))
    path, used, side = state.dirs[off].path, best.used[off], "above" if best.used[off] > share[off] else "below"
    return (
        f"broker {state.broker}: its log dirs cannot be brought within {_percent(band)} of their shares, the nearest "
        f"found is {_percent(best.reached)}: {path} ends with {format_bytes(used)}, {side} its share of "
        f"{format_bytes(share[off])}; {_reason(state, balancer, share, band)}"
    )


def _reason(state: BrokerDirState, balancer: DirBalancer, share: Sequence[int], band: int) -> str:
    """A dir that cannot keep its limits whatever is planned, or that copies do not divide finely enough."""
    fixed, ceiling = balancer.table.fixed.tolist()[1:], balancer.limits.ceiling.tolist()[1:]
    for n, d in enumerate(state.dirs):
        margin = share[n] * band // PPM
        if state.open[n] and fixed[n] > share[n] + margin:
            return f"{format_bytes(fixed[n])} in {d.path} may not be moved"
        if state.open[n] and ceiling[n] < share[n] - margin:
            return f"{d.path} may hold no more than {format_bytes(ceiling[n])} of these files"
    largest = max((size for size, *_ in (*state.arrivals, *state.standing)), default=0)
    return f"copies cannot be split, and the largest that may move has {format_bytes(largest)}"


def _percent(millionths: int) -> str:
    return f"{millionths / PPM * 100:.4g}%"


def unmeasured_note(states: Sequence[BrokerDirState]) -> list[str]:
    """One line on brokers that do not tell the size of their dirs."""
    silent = [s.broker for s in states if any(d.is_open for d in s.dirs) and not any(s.open)]
    lines = []
    if silent:
        more = f" and {len(silent) - SHOWN} more" if len(silent) > SHOWN else ""
        lines.append(
            f"broker {', '.join(map(str, silent[:SHOWN]))}{more}: the size of log dirs is not known, so none is named "
            "for new copies"
        )
    unsized = sum(s.unsized for s in states)
    if unsized:
        lines.append(f"no log dir is named for {count_of(unsized, 'new copy', 'new copies')} of unknown size")
    return lines
