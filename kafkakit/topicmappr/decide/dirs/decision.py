"""Which log dir every new copy goes to, and which copies change dirs inside their brokers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import DirMove, PlanDir
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.broker_disks import DirStorage
from kafkakit.placement.by_size.exact import LARGEST
from kafkakit.placement.by_size.lp_relaxation import PPM
from kafkakit.placement.log_dirs_balance import (
    BalancedDirs,
    BrokerDirState,
    Destinations,
    DirBalancer,
    DirRules,
    choose_destinations,
    dir_states_of,
)
from kafkakit.placement.problem import UNWATCHED, PlannedPartition, Watch
from kafkakit.topicmappr.decide.dirs.words import (
    broken_words,
    cordoned_words,
    early_words,
    first_few,
    homeless_words,
    nearest_words,
    unmeasured_note,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirPlan:
    """Log dirs for new copies by partition index and broker, moves inside brokers, and each dir before and after.

    `lower_bound` is the least bytes that any plan with the same replica lists moves inside brokers for the same bands.
    """

    dirs: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    dir_moves: tuple[DirMove, ...] = ()
    table: tuple[PlanDir, ...] = ()
    lower_bound: int = 0
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
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan_dirs(
    snapshot: ClusterSnapshot,
    partitions: Sequence[PlannedPartition],
    after: Sequence[tuple[int, ...]],
    log_dirs: Mapping[int, Sequence[DirStorage]],
    rules: DirRules,
    pinned: Collection[TopicPartition] = (),
    watch: Watch = UNWATCHED,
) -> DirPlan:
    """Decide dirs for the planned lists `after`; brokers with one log dir, or none known, need nothing.

    Nothing raises: what cannot be had is told in `warnings`, by broker, and the nearest is planned. When the
    `watch` stops, the remaining brokers get dirs for new copies and no moves inside. Cost: 1 ms a broker without a
    band, 20 ms and more a broker of 1,000 copies where copies change dirs.
    """
    states = dir_states_of(snapshot, partitions, after, log_dirs, rules, pinned)
    # A full search is for a handful of copies: as in the balance between brokers, the whole counts.
    search = sum((len(s.arrivals) + len(s.standing)) * len(s.dirs) for s in states) <= LARGEST
    dirs: dict[int, dict[int, str]] = {}
    moves: list[DirMove] = []
    table: list[PlanDir] = []
    notes: list[str] = []
    warnings: list[str] = []
    bound = 0
    for state in states:
        balanced = rules if not watch.stopped() else DirRules(max_use=rules.max_use, head_room=rules.head_room)
        found = _decide(state, partitions, balanced, watch, search=search)
        for partition, n in found.chosen.items():
            dirs.setdefault(partition, {})[state.broker] = state.dirs[n].path
        moves += [_dir_move(state, partitions, move) for move in found.moved]
        table += _rows(state, found.used)
        bound += found.bound
        notes += found.notes
        warnings += found.warnings
    return DirPlan(
        dirs=dirs,
        dir_moves=tuple(sorted(moves, key=lambda m: (m.topic, m.partition, m.broker))),
        table=tuple(table),
        lower_bound=bound,
        notes=(*_notes(states, moves, bound), *first_few(notes)),
        warnings=tuple(first_few(warnings)),
    )


def _decide(
    state: BrokerDirState, partitions: Sequence[PlannedPartition], rules: DirRules, watch: Watch, *, search: bool
) -> _Outcome:
    first = choose_destinations(state, watch, search=search)
    found = _Outcome(chosen=first.chosen, used=first.used)
    if rules.band is not None:
        found.warnings += broken_words(state)
        found.notes += cordoned_words(state)
        if sum(state.open) > 1:
            _level(state, first, rules, found, watch, search=search)
    if len(found.chosen) < len(state.arrivals) and any(state.open):
        found.warnings.append(homeless_words(state, first.left, partitions))
    if first.early and found.chosen:
        found.notes.append(early_words(state, found.chosen, partitions))
    return found


def _level(
    state: BrokerDirState, first: Destinations, rules: DirRules, found: _Outcome, watch: Watch, *, search: bool
) -> None:
    """Bring the dirs within the band if the destinations alone do not, or as near as can be."""
    band = int((rules.band or 0) * PPM)
    room = state.room
    if first.early:
        room = [r + gone for r, gone in zip(room, state.leaving, strict=True)]
    balancer = DirBalancer(state, room, watch)
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
            f"inside brokers: {counted(len(moves), 'copy', 'copies')} change log dirs, {format_bytes(moved)}, {least}"
        )
    return tuple(lines)
