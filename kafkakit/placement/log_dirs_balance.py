"""The log dirs of one broker as a small cluster for the byte balance: dirs are its brokers, without racks.

Arriving copies lie on a placeholder that must end empty, so what places them is a plan of the ordinary kind, and its
bound less what arrives is the least that has to change dirs inside the broker. If no dirs are levelled, each arriving
copy gets a dir: the largest first, to the dir that it fills least. Rules say how full dirs may become, how evenly they
are to be filled, and which copies may change dirs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.model import ClusterSnapshot, Partition, TopicPartition
from kafkakit.placement.broker_disks import DirStorage, DirTable, dir_table
from kafkakit.placement.by_size import exact as small
from kafkakit.placement.by_size.attempt import Attempt, attempt
from kafkakit.placement.by_size.lp_relaxation import (
    BalanceProblem,
    BandGoal,
    DemandGroups,
    LoadLimits,
    LoadWindow,
    demand_groups_of,
    fixed_window,
    shares,
)
from kafkakit.placement.by_size.slots import MOST_TESTS, SlotTable, make_table
from kafkakit.placement.by_size.tightening import least_fitting, tighten, tightest_relaxed
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.problem import PlannedPartition
from kafkakit.placement.watch import SearchWatch

if TYPE_CHECKING:
    from kafkakit.core.columns import Ints


Copy = tuple[int, int]
"""(bytes, partition index)"""
_TRIES = 6
_NEAR = 500  # a plan that costs so small a part above its bound is good enough
_WHOLE = 100
CLOSER = (95, 80, 50)
LARGE = (1, 2, 4)  # copies above such a part of a share stay in one of the tries


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancedDirs:
    """Where copies end when a broker's dirs are balanced.

    `chosen` is the dir of each arriving partition, `moved` holds (partition index, bytes, from, to), `bound` the
    least bytes that any plan moves. `reached` is the narrowest band, in millionths of a share, that was reached.
    """

    chosen: dict[int, int]
    moved: tuple[tuple[int, int, int, int], ...]
    used: list[int]
    bound: int
    reached: int


@dataclass(slots=True, kw_only=True)
class BrokerDirState:
    """The log dirs of one broker, by index in the order of their paths; bytes.

    `used` is what the known copies take now, `leaving` the part of it that the plan takes away, `room` how much
    more may come, `open` whether new copies may come at all. `arrivals` are (bytes, partition index) of copies that
    come to the broker, `standing` (bytes, partition index, dir) of copies that may change dirs, `unsized` counts
    arrivals of unknown size.
    """

    broker: int
    dirs: tuple[DirStorage, ...]
    used: list[int]
    room: list[int]
    open: list[bool]
    leaving: list[int]
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    standing: Sequence[tuple[int, int, int]] = ()
    unsized: int = 0

    @property
    def kept(self) -> list[int]:
        """What each dir holds once the leaving copies are gone."""
        return [u - gone for u, gone in zip(self.used, self.leaving, strict=True)]

    @property
    def capacity(self) -> list[int]:
        """The size of each dir's disk; 0 where it is not told."""
        return [d.total_bytes or 0 for d in self.dirs]


def pack(
    dir_state: BrokerDirState, arrivals: Sequence[Copy], room: Sequence[int], watch: SearchWatch, *, search: bool
) -> list[int] | None:
    """A dir for each arrival so that no dir gets more than its room, or None when none is found."""
    table = _table(dir_state, arrivals, ())
    limits = _limits(dir_state, room)
    window = fixed_window(table, demand_groups_of(table), limits.floor, limits.ceiling)
    if not window.possible:
        return None
    found = attempt(table, demand_groups_of(table), window)
    at = found.at if not found.outside else None
    if at is None and search and small.is_small(table):
        at = small.cheapest(table, limits, None, watch=watch).at
    return None if at is None else _places(dir_state, at)


class DirBalancer:
    """Balances the dirs of one broker; `room` says how much may come to each dir, `work` what one plan may take."""

    def __init__(
        self, dir_state: BrokerDirState, room: Sequence[int], watch: SearchWatch, *, work: int = MOST_TESTS
    ) -> None:
        import numpy as np

        self.dir_state, self.watch, self._work = dir_state, watch, work
        self.table = _table(dir_state, dir_state.arrivals, dir_state.standing)
        self.limits = _limits(dir_state, room)
        self.arriving = sum(size for size, _ in dir_state.arrivals)
        level = self.arriving + sum(k for k, takes in zip(dir_state.kept, dir_state.open, strict=True) if takes)
        self.share: Ints = shares(level, np.array([0, *dir_state.capacity]), self.limits.even)
        self.problem = BalanceProblem.of(self.table, BandGoal(self.limits, self.share))

    def measure(self, used: Sequence[int]) -> int:
        """The narrowest band, in millionths, that holds these used bytes."""
        import numpy as np

        return self.problem.balance.measure(np.array([0, *used], dtype=np.int64))

    def level(self, band: int, *, search: bool) -> BalancedDirs | None:
        """The fewest bytes found that bring every dir within the band (millionths); None where nothing does."""
        if least_fitting(self.problem, band) > band:
            return None
        return self._reach(self.problem.window(band), search=search)

    def nearest(self, band: int, loosest: int) -> BalancedDirs | None:
        """The narrowest band found between one that cannot be had and one that can (both in millionths)."""
        best: BalancedDirs | None = None

        def trial(aim: int) -> tuple[bool, int]:
            nonlocal best
            found = self.level(aim, search=False)
            best = best if found is None else found
            return found is not None, loosest if found is None else min(aim, found.reached)

        low = least_fitting(self.problem, max(band, tightest_relaxed(self.problem, loosest)))
        tighten(trial, low, low, loosest, self.watch, steps=(2,) * _TRIES, close=lambda _: 0)
        return best

    def _reach(self, window: LoadWindow, *, search: bool) -> BalancedDirs | None:
        if not window.possible:
            return None
        found = attempt(self.table, self.problem.demand, window, most_tests=self._work)
        if search and small.is_small(self.table) and (found.outside or found.cost > window.bound.value):
            fixed = LoadLimits(
                floor=window.floor, ceiling=window.ceiling, even=self.limits.even, offset=self.limits.offset
            )
            answer = small.cheapest(self.table, fixed, None, watch=self.watch)
            if answer.at is not None:
                bound = answer.cost if answer.proven else window.bound.value
                return self._level(answer.at, bound)
        if found.outside:
            return None
        if found.cost - window.bound.value > window.bound.value // _NEAR:
            found = self._cheaper(found, window)
        return self._level(found.at, window.bound.value)

    def _cheaper(self, found: Attempt, window: LoadWindow) -> Attempt:
        """The cheapest of this plan, if it is not near its bound, and others that start from other limits.

        In some, large copies stay where they are; in others, dirs are to end closer to their shares.
        """
        table, demand = self.table, self.problem.demand
        tries: list[tuple[SlotTable, DemandGroups, LoadWindow]] = []
        for part in CLOSER:
            edge = (window.ceiling - window.floor) * (_WHOLE - part) // (2 * _WHOLE)
            limits = fixed_window(table, demand, window.floor + edge, window.ceiling - edge)
            tries.append((table, demand, limits))
        for part in LARGE:
            stays = table.movable & (table.home > 0) & (table.slot_size * part > self.share[table.home])
            rest = replace(table, movable=table.movable & ~stays)
            groups = demand_groups_of(rest)
            tries.append((rest, groups, fixed_window(rest, groups, window.floor, window.ceiling)))
        for other, groups, limits in tries:
            if found.cost - window.bound.value <= window.bound.value // _NEAR:
                break
            if limits.possible:
                again = attempt(other, groups, limits, most_tests=self._work)
                found = again if not again.outside and again.cost < found.cost else found
        return found

    def _level(self, at: Ints, bound: int) -> BalancedDirs:
        dir_state, count = self.dir_state, len(self.dir_state.arrivals)
        places = _places(dir_state, at)
        used = self.table.loads(at).tolist()[1:]
        moved = tuple(
            (partition, size, source, n)
            for (size, partition, source), n in zip(dir_state.standing, places[count:], strict=True)
            if n != source
        )
        return BalancedDirs(
            chosen={p: n for (_, p), n in zip(dir_state.arrivals, places, strict=False)},
            moved=moved,
            used=used,
            bound=bound - self.arriving,
            reached=self.measure(used),
        )


def _table(dir_state: BrokerDirState, arrivals: Sequence[Copy], standing: Sequence[tuple[int, int, int]]) -> SlotTable:
    """Dirs as brokers 1 and up; broker 0 is the placeholder that holds the arrivals."""
    fixed = dict(enumerate((0, *dir_state.kept)))
    for size, _, source in standing:
        fixed[source + 1] -= size
    return make_table(
        [[0] for _ in arrivals] + [[source + 1] for *_, source in standing],
        [size for size, *_ in (*arrivals, *standing)],
        {},
        SpreadRule(1),  # dirs have no racks; a rule that never binds keeps the LP relaxation to one pool
        receivers=[n + 1 for n, takes in enumerate(dir_state.open) if takes],
        fixed=fixed,
    )


def _places(dir_state: BrokerDirState, at: Ints) -> list[int]:
    """Dirs by index; copies without a byte may be left on the placeholder, and any open dir does for them."""
    spare = dir_state.open.index(True)
    return [n - 1 if n else spare for n in at.tolist()]


def _limits(dir_state: BrokerDirState, room: Sequence[int]) -> LoadLimits:
    import numpy as np

    kept = dir_state.kept
    ceiling = [k + (r if takes else 0) for k, r, takes in zip(kept, room, dir_state.open, strict=True)]
    return LoadLimits(
        floor=np.zeros(len(kept) + 1, dtype=np.int64),
        ceiling=np.array([0, *ceiling], dtype=np.int64),
        even=np.array([False, *dir_state.open]),
        offset=np.zeros(len(kept) + 1, dtype=np.int64),
    )


TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DirRules:
    """The rules for the log dirs of every broker.

    `max_use` is the part of a disk that may be full, and `head_room` bytes stay free besides on every broker, by
    capacity on each dir. With `band` copies may
    change dirs inside a broker so that each dir ends within that part of its share of the broker's used bytes, by
    capacity; without it only new copies get a dir.
    """

    max_use: Fraction = Fraction(9, 10)
    head_room: int = 0
    band: Fraction | None = None

    def room(self, log_dir: DirStorage, broker_bytes: int) -> int:
        """How many bytes more the dir may hold than it does now; 0 for one that is closed or reports no sizes.

        `broker_bytes` is the capacity of all dirs of the broker.
        """
        if not is_measured(log_dir) or not log_dir.is_open:
            return 0
        total, usable = log_dir.total_bytes or 0, log_dir.usable_bytes or 0
        kept = -(-self.head_room * total // max(broker_bytes, 1))
        return max(0, usable - kept - (total - int(total * self.max_use)))


def dir_states_of(
    snapshot: ClusterSnapshot,
    partitions: Sequence[PlannedPartition],
    after: Sequence[tuple[int, ...]],
    log_dirs: Mapping[int, Sequence[DirStorage]],
    rules: DirRules,
    pinned: Collection[TopicPartition] = (),
    *,
    least: int = TWO,
) -> tuple[BrokerDirState, ...]:
    """The brokers with two or more log dirs (or so many at `least`), by id, with what a plan brings and takes away.

    `after` are the planned lists in the order of `partitions`. Copies that may change dirs are looked up only when
    the rules have a band: O(replicas) then, else O(moved replicas).
    """
    dir_states = {b: _state(b, dirs, rules) for b, dirs in sorted(log_dirs.items()) if len(dirs) >= least}
    if not dir_states:
        return ()
    moved = [i for i, (p, new) in enumerate(zip(partitions, after, strict=True)) if new != p.current]
    facts = _facts(snapshot, {partitions[i].key.topic for i in moved})
    for i in moved:
        _add_move(dir_states, partitions[i], i, after[i], facts.get(partitions[i].key))
    if rules.band is not None:
        _add_standing(dir_states, snapshot, partitions, after, log_dirs, frozenset(pinned))
    return tuple(dir_states.values())


def _state(broker: int, dirs: Sequence[DirStorage], rules: DirRules) -> BrokerDirState:
    ordered = tuple(sorted(dirs, key=lambda d: d.path))
    whole = sum(d.total_bytes or 0 for d in ordered if d.error is None)
    return BrokerDirState(
        broker=broker,
        dirs=ordered,
        used=[d.replica_bytes for d in ordered],
        room=[rules.room(d, whole) for d in ordered],
        open=[d.is_open and is_measured(d) for d in ordered],
        leaving=[0] * len(ordered),
    )


def _facts(snapshot: ClusterSnapshot, topics: Collection[str]) -> dict[TopicPartition, Partition]:
    return {TopicPartition(t.name, p.partition): p for t in snapshot.topics if t.name in topics for p in t.partitions}


def _add_move(
    dir_states: Mapping[int, BrokerDirState],
    p: PlannedPartition,
    index: int,
    new: tuple[int, ...],
    fact: Partition | None,
) -> None:
    for b in new:
        if b not in p.current and (dir_state := dir_states.get(b)) is not None:
            if p.size_bytes is None and any(d.is_open for d in dir_state.dirs):
                dir_state.unsized += 1
            else:
                # A copy that is being made takes only the rest: the disk counts what has come.
                come = fact.replica_bytes.get(b, 0) if fact is not None and b in fact.adding else 0
                dir_state.arrivals.append((max(0, (p.size_bytes or 0) - come), index))
    for b in p.current:
        dir_state = dir_states.get(b)
        path = fact.replica_dirs.get(b) if fact is not None else None
        if b not in new and dir_state is not None and path is not None and fact is not None:
            for n, d in enumerate(dir_state.dirs):
                if d.path == path:
                    dir_state.leaving[n] += fact.replica_bytes.get(b, 0 if fact.replica_bytes else fact.size_bytes or 0)


def _add_standing(
    dir_states: Mapping[int, BrokerDirState],
    snapshot: ClusterSnapshot,
    partitions: Sequence[PlannedPartition],
    after: Sequence[tuple[int, ...]],
    log_dirs: Mapping[int, Sequence[DirStorage]],
    pinned: Collection[TopicPartition],
) -> None:
    """Give each dir_state the copies of known size that stay on its broker and are not pinned."""
    import numpy as np

    table = dir_table(snapshot, [p.key for p in partitions], {b: tuple(dirs) for b, dirs in log_dirs.items()})
    lengths = np.fromiter((len(p.current) for p in partitions), dtype=np.int64, count=len(partitions))
    first = np.concatenate([[0], np.cumsum(lengths)])
    stays = (table.slot_dir >= 0) & (table.slot_bytes >= 0)
    for i, (p, new) in enumerate(zip(partitions, after, strict=True)):
        if p.key in pinned:
            stays[first[i] : first[i + 1]] = False
        elif new != p.current:
            for place, b in enumerate(p.current):
                stays[first[i] + place] &= b in new
    slots = np.nonzero(stays)[0]
    slots = slots[np.argsort(table.slot_dir[slots], kind="stable")]
    part = np.repeat(np.arange(len(partitions)), lengths)[slots]
    _hand_out(dir_states, table, slots, part)


def _hand_out(dir_states: Mapping[int, BrokerDirState], table: DirTable, slots: Ints, part: Ints) -> None:
    """Split slots, sorted by dir, over the dir_states of their brokers."""
    import numpy as np

    where, size = table.slot_dir[slots], table.slot_bytes[slots]
    for broker, dir_state in dir_states.items():
        own = table.of_broker(broker)
        begin, end = (int(np.searchsorted(where, edge)) for edge in (own.start, own.stop))
        rows = zip(
            size[begin:end].tolist(), part[begin:end].tolist(), (where[begin:end] - own.start).tolist(), strict=True
        )
        dir_state.standing = [row for row in rows if dir_state.open[row[2]]]


_SCALE = 40  # bits after the point of a dir's fullness: finer than a byte of a terabyte


@dataclass(frozen=True, slots=True, kw_only=True)
class HomelessCopy:
    """A new copy that a plan sends to a broker none of whose log dirs has space for it.

    `space` is the most that one of them takes. `is_certain` says that it would not fit beside any plan; else one of the
    `rivals`, new copies of at least its size on the same broker (with their bytes), could make way for it, where there
    are some. `beside` are the new copies that have a dir there.
    """

    key: TopicPartition
    size: int
    broker: int
    space: int
    is_certain: bool
    rivals: Mapping[TopicPartition, int]
    beside: frozenset[TopicPartition]


def homeless_copies(
    dir_state: BrokerDirState, left: Sequence[Copy], partitions: Sequence[PlannedPartition]
) -> list[HomelessCopy]:
    """The copies `left` without a dir, the largest first; none where the size of no open dir is known."""
    able = [n for n, takes in enumerate(dir_state.open) if takes]
    if not able and any(d.is_open for d in dir_state.dirs):
        return []
    space = max((dir_state.room[n] for n in able), default=0)
    at_most = max((dir_state.room[n] + dir_state.used[n] for n in able), default=-1)
    apart = {p for _, p in left}
    beside = {partitions[q].key: n for n, q in dir_state.arrivals if q not in apart}
    # What fits in no dir even alone has no rivals.
    lone = max((dir_state.room[n] + dir_state.leaving[n] for n in able), default=-1)
    return [
        HomelessCopy(
            key=partitions[p].key,
            size=size,
            broker=dir_state.broker,
            space=space,
            is_certain=size > at_most,
            rivals={key: n for key, n in beside.items() if n >= size} if size <= lone else {},
            beside=frozenset(beside),
        )
        for size, p in left
    ]


@dataclass(slots=True, kw_only=True)
class Destinations:
    """The dir of each arriving partition and what the dirs hold in the end; `left` found no dir below its ceiling.

    `early` says that the copies fit only once others have left.
    """

    chosen: dict[int, int]
    used: list[int]
    left: list[tuple[int, int]] = field(default_factory=list)
    early: bool = False


def choose_destinations(dir_state: BrokerDirState, watch: SearchWatch, *, search: bool) -> Destinations:
    """Give every arrival a dir, all below the ceilings where that is possible.

    First with the room there is now; then, as data leave the broker too, with the room there will be. `search`
    allows to look through all placements of a few copies when simple ways leave some without a dir.
    """
    arrivals = sorted(dir_state.arrivals, key=lambda a: (-a[0], a[1]))
    now = _spread_arrivals(dir_state, arrivals, dir_state.room)
    if not now.left or not any(dir_state.open):
        return now
    later = [room + gone for room, gone in zip(dir_state.room, dir_state.leaving, strict=True)]
    options = [now]
    for room, early in ((dir_state.room, False), (later, True)):
        if early and room == dir_state.room:
            break
        found = _spread_arrivals(dir_state, arrivals, room)
        if found.left:
            found = _pack_arrivals(dir_state, arrivals, room, found, watch, search=search)
        found.early = early
        if not found.left:
            return found
        options.append(found)
    return min(options, key=lambda d: sum(size for size, _ in d.left))


def _spread_arrivals(
    dir_state: BrokerDirState, arrivals: Sequence[tuple[int, int]], room: Sequence[int]
) -> Destinations:
    """Each in turn to the open dir with room whose use, by capacity, is least with it."""
    used, left = dir_state.kept, list(room)
    dirs = [n for n, takes in enumerate(dir_state.open) if takes]
    capacity = dir_state.capacity
    chosen: dict[int, int] = {}
    homeless: list[tuple[int, int]] = []
    for size, partition in arrivals:
        best, least = -1, 0
        for n in dirs:
            if left[n] >= size:
                use = ((used[n] + size) << _SCALE) // capacity[n]
                if best < 0 or use < least:
                    best, least = n, use
        if best < 0:
            homeless.append((size, partition))
            continue
        chosen[partition] = best
        used[best] += size
        left[best] -= size
    return Destinations(chosen=chosen, used=used, left=homeless)


def _pack_arrivals(
    dir_state: BrokerDirState,
    arrivals: Sequence[tuple[int, int]],
    room: Sequence[int],
    first: Destinations,
    watch: SearchWatch,
    *,
    search: bool,
) -> Destinations:
    """Try harder to fit all; gives `first` back when that fails too."""
    if sum(size for size, _ in arrivals) > sum(r for r, takes in zip(room, dir_state.open, strict=True) if takes):
        return first
    places = pack(dir_state, arrivals, room, watch, search=search)
    if places is None:
        return first
    used = dir_state.kept
    for (size, _), n in zip(arrivals, places, strict=True):
        used[n] += size
    return Destinations(chosen={p: n for (_, p), n in zip(arrivals, places, strict=True)}, used=used)


def is_measured(log_dir: DirStorage) -> bool:
    """True when the dir's disk is known; without that it is not known what fits."""
    return bool(log_dir.total_bytes) and log_dir.usable_bytes is not None
