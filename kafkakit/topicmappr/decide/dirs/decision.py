"""Which log dir every new copy goes to, and which copies change dirs inside their brokers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import DirMove, PlanDir
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.broker_disks import DirStorage
from kafkakit.placement.bytes.balance_goal import PPM
from kafkakit.placement.bytes.exact import LARGEST
from kafkakit.placement.log_dirs_balance.broker_dir_state import Shelf, shelves_of
from kafkakit.placement.log_dirs_balance.destinations import Destinations, choose_destinations
from kafkakit.placement.log_dirs_balance.dir_balance import Level, Leveller
from kafkakit.placement.log_dirs_balance.rules import DirRules
from kafkakit.placement.problem import PlannedPartition
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
    stopped: Callable[[], bool] = lambda: False,
) -> DirPlan:
    """Decide dirs for the planned lists `after`; brokers with one log dir, or none known, need nothing.

    Nothing raises: what cannot be had is told in `warnings`, by broker, and the nearest is planned. When
    `stopped` says so, the remaining brokers get dirs for new copies and no moves inside. Cost: 1 ms a broker without a
    band, 20 ms and more a broker of 1,000 copies where copies change dirs.
    """
    shelves = shelves_of(snapshot, partitions, after, log_dirs, rules, pinned)
    # A full search is for a handful of copies: as in the balance between brokers, the whole counts.
    search = sum((len(s.arrivals) + len(s.standing)) * len(s.dirs) for s in shelves) <= LARGEST
    dirs: dict[int, dict[int, str]] = {}
    moves: list[DirMove] = []
    table: list[PlanDir] = []
    notes: list[str] = []
    warnings: list[str] = []
    bound = 0
    for shelf in shelves:
        levelled = rules if not stopped() else DirRules(max_use=rules.max_use, head_room=rules.head_room)
        found = _decide(shelf, partitions, levelled, search=search)
        for partition, n in found.chosen.items():
            dirs.setdefault(partition, {})[shelf.broker] = shelf.dirs[n].path
        moves += [_dir_move(shelf, partitions, move) for move in found.moved]
        table += _rows(shelf, found.used)
        bound += found.bound
        notes += found.notes
        warnings += found.warnings
    return DirPlan(
        dirs=dirs,
        dir_moves=tuple(sorted(moves, key=lambda m: (m.topic, m.partition, m.broker))),
        table=tuple(table),
        lower_bound=bound,
        notes=(*_notes(shelves, moves, bound), *first_few(notes)),
        warnings=tuple(first_few(warnings)),
    )


def _decide(shelf: Shelf, partitions: Sequence[PlannedPartition], rules: DirRules, *, search: bool) -> _Outcome:
    first = choose_destinations(shelf, search=search)
    found = _Outcome(chosen=first.chosen, used=first.used)
    if rules.band is not None:
        found.warnings += broken_words(shelf)
        found.notes += cordoned_words(shelf)
        if sum(shelf.open) > 1:
            _level(shelf, first, rules, found, search=search)
    if len(found.chosen) < len(shelf.arrivals) and any(shelf.open):
        found.warnings.append(homeless_words(shelf, first.left, partitions))
    if first.early and found.chosen:
        found.notes.append(early_words(shelf, found.chosen, partitions))
    return found


def _level(shelf: Shelf, first: Destinations, rules: DirRules, found: _Outcome, *, search: bool) -> None:
    """Bring the dirs within the band if the destinations alone do not, or as near as can be."""
    band = int((rules.band or 0) * PPM)
    room = shelf.room
    if first.early:
        room = [r + gone for r, gone in zip(room, shelf.leaving, strict=True)]
    leveller = Leveller(shelf, room)
    loosest = leveller.measure(first.used)
    if loosest <= band and not first.left:
        return
    best = leveller.level(band, search=search)
    if best is None and first.left:
        return
    if best is None:
        best = leveller.nearest(band, loosest)
        if best is None or best.reached >= loosest:
            best = Level(chosen=first.chosen, moved=(), used=first.used, bound=0, reached=loosest)
        found.warnings.append(nearest_words(shelf, leveller, best, band))
    found.chosen, found.used = best.chosen, best.used
    found.moved, found.bound = best.moved, best.bound


def _dir_move(shelf: Shelf, partitions: Sequence[PlannedPartition], move: tuple[int, int, int, int]) -> DirMove:
    partition, size, source, target = move
    key = partitions[partition].key
    return DirMove(
        topic=key.topic,
        partition=key.partition,
        broker=shelf.broker,
        source_dir=shelf.dirs[source].path,
        target_dir=shelf.dirs[target].path,
        size_bytes=size,
    )


def _rows(shelf: Shelf, used: Sequence[int]) -> list[PlanDir]:
    return [
        PlanDir(
            broker=shelf.broker,
            path=d.path,
            capacity_bytes=d.total_bytes,
            used_before_bytes=before,
            used_after_bytes=after,
            is_open=is_open,
        )
        for d, before, after, is_open in zip(shelf.dirs, shelf.used, used, shelf.open, strict=True)
    ]


def _notes(shelves: Sequence[Shelf], moves: Sequence[DirMove], bound: int) -> tuple[str, ...]:
    lines = unmeasured_note(shelves)
    if moves:
        moved = sum(m.size_bytes or 0 for m in moves)
        least = "which is the least" if moved == bound else f"at least {format_bytes(bound)} have to"
        lines.append(
            f"inside brokers: {counted(len(moves), 'copy', 'copies')} change log dirs, {format_bytes(moved)}, {least}"
        )
    return tuple(lines)
