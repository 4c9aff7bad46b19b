"""A series of moves of streams: which streams go where, at which pace, how each move ended, and what is left of it.

Streams are moved off one cluster, or so that clusters are used alike: the largest use of a stated capacity is made as
small as it can be, then the least load is moved. This is solved exactly with CP-SAT where streams times clusters are
few, with its bound; else the heaviest stream goes to the emptiest cluster first (Graham's LPT), and single moves
improve on that, against the bound that every plan has. The load of a topic comes from two readings of its ends.

Live state decides what comes next: a line of the journal only remembers what was planned, and what the pace counts.
Left when a process ends are moves that are not done, and topics that a cluster still carries.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from kafkakit.core.errors import UsageError
from kafkakit.core.journal_lines import Grammar, read_data
from kafkakit.core.journal_lines import Line as JournalLine
from kafkakit.core.options import duration_option, not_typed, option
from kafkakit.core.quantities import epoch_ms, parse_rate
from kafkakit.streams.failover.api import EndKind, FailoverRequest
from kafkakit.streams.model.route import Route

HOUR_MS = 3_600_000
MOST_MOVES = 100_000


class SeriesKind(StrEnum):
    """Why streams are moved."""

    EVACUATE = "evacuate"
    BALANCE = "balance"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """One stream, its lanes (none: all), the profile that it goes to, and its load in the unit of the plan."""

    stream: str
    to: str
    lanes: tuple[str, ...] = ()
    load: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShare:
    """A cluster of a plan: its stated capacity, and the load before and after, in the unit of the plan."""

    profile: str
    capacity: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadFigures:
    """How good a plan is: the largest use of a capacity in millionths, what no plan is below, and whether that is known
    to be reached. `unit` is what loads are measured in."""

    unit: str
    largest_ppm: int
    bound_ppm: int
    is_proven: bool
    clusters: tuple[ClusterShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Moves of streams that were planned together, to clusters of the profiles `targets`.

    `subject` is the profile of the cluster that is emptied, and `cluster_id` its id; both are empty in a balance.

    `template` is the request of each move but for its stream, lanes and target. `earlier_ms` are begins of the series
    before within its last hour, which count for the pace.
    """

    kind: SeriesKind
    subject: str
    cluster_id: str
    targets: tuple[str, ...]
    moves: tuple[PlannedMove, ...]
    template: FailoverRequest
    operator: str
    started_ms: int
    approval: str = ""
    figures: SpreadFigures | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)
    earlier_ms: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """What there is one series of at a time."""
        return series_key(self.kind, self.cluster_id)

    @property
    def sha256(self) -> str:
        """What an approval is about: the moves and their limits, not when they were planned."""
        essence = replace(self, operator="", started_ms=0, approval="", figures=None, skipped={}, earlier_ms=())
        plain = replace(essence, moves=tuple(replace(move, load=0) for move in self.moves))
        return sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()

    def request_of(self, move: PlannedMove) -> FailoverRequest:
        """The request of one move."""
        return replace(self.template, stream=move.stream, to=move.to, lanes=move.lanes)


def series_key(kind: SeriesKind, cluster_id: str = "") -> str:
    """What there is one series of at a time: the emptying of a cluster, or a balance."""
    return f"{kind}-{cluster_id}" if cluster_id else str(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEnd:
    """How a move ended in one process; one that is `waiting` is open and is taken up again by the next one."""

    kind: EndKind
    reason: str = ""
    lines: tuple[str, ...] = ()
    operation: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePace:
    """At most `at_once` streams between the begin of their operation and its end, and `per_hour` begins in any hour."""

    at_once: int = option(
        4, "--at-once", min=1, max=1000, metavar="N", help="Maximum number of streams that move at a time."
    )
    per_hour: int | None = option(
        None, "--per-hour", min=1, metavar="N", help="Maximum number of streams started within any hour."
    )

    def wait_ms(self, begins_ms: Sequence[int], now_ms: int) -> int:
        """How long the next begin has to wait; 0: not at all. Begins that lie ahead of this clock count, too."""
        recent = sorted(at_ms for at_ms in begins_ms if at_ms > now_ms - HOUR_MS)
        if self.per_hour is None or len(recent) < self.per_hour:
            return 0
        return recent[-self.per_hour] + HOUR_MS - now_ms


def most_in_an_hour(begins_ms: Sequence[int]) -> int:
    """The largest number of begins within any hour."""
    ordered, most, first = sorted(begins_ms), 0, 0
    for number, at_ms in enumerate(ordered):
        while ordered[first] <= at_ms - HOUR_MS:
            first += 1
        most = max(most, number - first + 1)
    return most


Loads = Mapping[tuple[str, str], int]
"""The load of each topic that is written, by cluster id and topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCluster:
    """A cluster that takes part: the profile that reaches it, its id, and what it can carry."""

    profile: str
    cluster_id: str
    capacity: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenMoves:
    """What was chosen, why streams stay although they might go, and how good it is (None: there was no choice)."""

    moves: tuple[PlannedMove, ...]
    skipped: Mapping[str, str]
    figures: SpreadFigures | None = None


def evacuated_id(routes: Sequence[Route], profile: str, live_id: str | None) -> str:
    """The id of the cluster that is emptied: what it says itself, or the routes where it is away.

    Raises `UsageError` where both differ, and where no route has the profile.
    """
    known = sorted({s.cluster_id for route in routes for _, s in route.segments() if s.cluster == profile})
    if live_id is not None:
        if known and known != [live_id]:
            raise UsageError(f"profile {profile} reaches cluster {live_id}, routes name {', '.join(known)}")
        return live_id
    if len(known) != 1:
        raise UsageError(f"routes name {len(known)} clusters by profile {profile}, and it does not answer")
    return known[0]


def evacuation(
    routes: Sequence[Route], cluster_id: str, targets: Sequence[MoveCluster], loads: Loads, unit: str
) -> ChosenMoves:
    """A move for every stream that is written on the cluster, spread by load over targets that count as alike."""
    if not targets or any(place.cluster_id == cluster_id for place in targets):
        raise UsageError("streams must go to other clusters than the one that is emptied", hint="--to PROFILE")
    leaving = [(route, lanes_on(route, cluster_id)) for route in routes]
    leaving = [(route, lanes) for route, lanes in leaving if lanes]
    items = tuple(SpreadItem(load=_load(route, loads, lanes)) for route, lanes in leaving)
    fixed = _fixed_loads(routes, targets, loads, moving=())
    alike = sum(fixed) + sum(item.load for item in items) or 1
    places = [replace(place, capacity=alike) for place in targets]
    at, figures = _spread_items(items, places, fixed, 0, unit)
    moves = tuple(
        PlannedMove(
            stream=route.stream, to=targets[cluster].profile, lanes=_requested_lanes(route, lanes), load=item.load
        )
        for (route, lanes), item, cluster in zip(leaving, items, at, strict=True)
    )
    return ChosenMoves(moves=moves, skipped={}, figures=figures if len(targets) > 1 else None)


def balance(
    routes: Sequence[Route], places: Sequence[MoveCluster], loads: Loads, unit: str, within_ppm: int
) -> ChosenMoves:
    """Moves of whole streams between clusters so that the fullest one is used as little as possible.

    A stream stays where an operation is open, or its lanes are on several clusters: its load counts where it is.
    """
    number = {place.cluster_id: index for index, place in enumerate(places)}
    moving, skipped = [], dict[str, str]()
    for route in routes:
        homes = {lane.active.cluster_id for lane in route.lanes if lane.active}
        if not homes & number.keys():
            continue
        if route.operation is not None:
            skipped[route.stream] = f"operation {route.operation.id} is open"
        elif len(homes) > 1:
            skipped[route.stream] = "its lanes are on several clusters"
        else:
            moving.append((route, number[homes.pop()]))
    items = tuple(SpreadItem(load=_load(route, loads), home=home) for route, home in moving)
    fixed = _fixed_loads(routes, places, loads, moving=[route.stream for route, _ in moving])
    at, figures = _spread_items(items, places, fixed, within_ppm, unit)
    moves = tuple(
        PlannedMove(stream=route.stream, to=places[cluster].profile, load=item.load)
        for (route, home), item, cluster in zip(moving, items, at, strict=True)
        if cluster != home
    )
    # The heaviest first: most is won early.
    return ChosenMoves(moves=tuple(sorted(moves, key=lambda m: (-m.load, m.stream))), skipped=skipped, figures=figures)


def lanes_on(route: Route, cluster_id: str) -> tuple[str, ...]:
    """The lanes of a stream that are written on a cluster."""
    return tuple(lane.name for lane in route.lanes if lane.active and lane.active.cluster_id == cluster_id)


def _requested_lanes(route: Route, lanes: tuple[str, ...]) -> tuple[str, ...]:
    """The lanes of a request: none where all that are written move."""
    return () if len(lanes) == sum(lane.active is not None for lane in route.lanes) else lanes


def _load(route: Route, loads: Loads, lanes: Sequence[str] | None = None) -> int:
    chosen = (lane.active for lane in route.lanes if lane.active and (lanes is None or lane.name in lanes))
    return sum(loads.get((segment.cluster_id, segment.topic), 0) for segment in chosen)


def _fixed_loads(
    routes: Sequence[Route], places: Sequence[MoveCluster], loads: Loads, moving: Sequence[str]
) -> list[int]:
    """What the clusters carry that stays there."""
    fixed, gone = dict.fromkeys((place.cluster_id for place in places), 0), set(moving)
    for route in routes:
        for lane in route.lanes if route.stream not in gone else ():
            if lane.active is not None and lane.active.cluster_id in fixed:
                segment = lane.active
                fixed[segment.cluster_id] += loads.get((segment.cluster_id, segment.topic), 0)
    return [fixed[place.cluster_id] for place in places]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadItem:
    """A stream with its load; `home` is the cluster where it is and may stay, None where it has to leave."""

    load: int
    home: int | None = None


def _spread_items(
    items: tuple[SpreadItem, ...], places: Sequence[MoveCluster], fixed: Sequence[int], within_ppm: int, unit: str
) -> tuple[tuple[int, ...], SpreadFigures]:
    problem = SpreadProblem(items=items, capacities=tuple(place.capacity for place in places), fixed=tuple(fixed))
    answer = spread_streams(problem, within_ppm)
    before = list(fixed)
    for item in items:
        if item.home is not None:
            before[item.home] += item.load
    shares = zip(places, before, loads_of(problem, answer.at), strict=True)
    return answer.at, SpreadFigures(
        unit=unit,
        largest_ppm=answer.largest_ppm,
        bound_ppm=answer.bound_ppm,
        is_proven=answer.is_proven,
        clusters=tuple(
            ClusterShare(profile=place.profile, capacity=place.capacity, before=first, after=last)
            for place, first, last in shares
        ),
    )


PPM = 1_000_000
LARGEST = 20_000
"""Choices (streams x clusters) up to which the plan is solved exactly."""
LARGEST_PPM = 1 << 50
"""A use that sums of 64 bits have room for."""
WORK = 8.0
"""CP-SAT's deterministic time for each of the two goals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadProblem:
    """What is spread: `capacities` of the clusters and what they carry that does not move, in the unit of loads."""

    items: tuple[SpreadItem, ...]
    capacities: tuple[int, ...]
    fixed: tuple[int, ...]

    def use_ppm(self, cluster: int, load: int) -> int:
        """A load as millionths of a cluster's capacity, rounded up."""
        return -(-load * PPM // self.capacities[cluster])

    def bound_ppm(self) -> int:
        """What no plan is below: all capacities evenly used, the largest stream alone, and what does not move."""
        total = sum(self.fixed) + sum(item.load for item in self.items)
        even = -(-total * PPM // sum(self.capacities))
        clusters = range(len(self.capacities))
        alone = (min(self.use_ppm(c, self.fixed[c] + item.load) for c in clusters) for item in self.items)
        return max(even, max(alone, default=0), *(self.use_ppm(c, self.fixed[c]) for c in clusters))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadAnswer:
    """The cluster of each stream, the largest use, what no plan is below, and whether that is proven to be reached."""

    at: tuple[int, ...]
    largest_ppm: int
    bound_ppm: int
    is_proven: bool


def spread_streams(problem: SpreadProblem, within_ppm: int = 0) -> SpreadAnswer:
    """Choose a cluster for each stream; with the least load moved where the largest use may be `within_ppm` higher.

    The same answer for the same problem on every machine. Bytes of memory: about 1 kB a choice.
    """
    bound = problem.bound_ppm()
    limit = bound * (PPM + within_ppm) // PPM
    at = _improve_choice(problem, _first_choice(problem), limit)
    is_small = len(problem.items) * len(problem.capacities) <= LARGEST and _largest_rounded(problem, at) < LARGEST_PPM
    if problem.items and is_small:
        at, bound = _solve_spread(problem, at, bound, within_ppm)
    largest = _largest_use(problem, at)
    is_proven = largest <= bound * (PPM + within_ppm) // PPM + _slack(problem)
    return SpreadAnswer(at=tuple(at), largest_ppm=largest, bound_ppm=bound, is_proven=is_proven)


def loads_of(problem: SpreadProblem, at: Sequence[int]) -> list[int]:
    """The load of each cluster."""
    loads = list(problem.fixed)
    for item, cluster in zip(problem.items, at, strict=True):
        loads[cluster] += item.load
    return loads


def _largest_use(problem: SpreadProblem, at: Sequence[int]) -> int:
    return max((problem.use_ppm(c, load) for c, load in enumerate(loads_of(problem, at))), default=0)


def _first_choice(problem: SpreadProblem) -> list[int]:
    """Streams that may stay stay; the others go, the heaviest first, to where the use is then smallest."""
    at = [-1 if item.home is None else item.home for item in problem.items]
    loads = list(problem.fixed)
    for item, cluster in zip(problem.items, at, strict=True):
        if cluster >= 0:
            loads[cluster] += item.load
    leaving = [number for number, cluster in enumerate(at) if cluster < 0]
    for number in sorted(leaving, key=lambda each: (-problem.items[each].load, each)):
        load = problem.items[number].load
        best = min(range(len(loads)), key=lambda c: (problem.use_ppm(c, loads[c] + load), c))
        at[number] = best
        loads[best] += load
    return at


def _improve_choice(problem: SpreadProblem, at: list[int], limit_ppm: int) -> list[int]:
    """Single moves off the fullest cluster, each the one that lowers the larger of both uses most, down to a limit."""
    loads = loads_of(problem, at)
    clusters = range(len(loads))
    placed = sorted((item.load, number, at[number]) for number, item in enumerate(problem.items) if item.load > 0)
    there = [[(load, number) for load, number, c in placed if c == cluster] for cluster in clusters]
    for _ in range(2 * len(at)):
        hot = max(clusters, key=lambda c: (problem.use_ppm(c, loads[c]), -c), default=0)
        now = problem.use_ppm(hot, loads[hot]) if loads else 0
        if now <= limit_ppm:
            break
        found = _best_move(problem, loads, hot, there[hot])
        if found is None or found[0] >= now:
            break
        _, number, cluster = found
        load = problem.items[number].load
        there[hot].remove((load, number))
        insort(there[cluster], (load, number))
        loads[hot] -= load
        loads[cluster] += load
        at[number] = cluster
    return at


def _best_move(
    problem: SpreadProblem, loads: Sequence[int], hot: int, streams: Sequence[tuple[int, int]]
) -> tuple[int, int, int] | None:
    """The smallest larger use after a move of one of `streams`, (load, number) in order; its number and its cluster.

    With the load moved, the use that is left falls and the use elsewhere rises: the best are where both meet.
    """
    others = [c for c in range(len(loads)) if c != hot]
    if not streams or not others:
        return None

    def left(stream: tuple[int, int]) -> int:
        return problem.use_ppm(hot, loads[hot] - stream[0])

    def reached(stream: tuple[int, int]) -> int:
        return min(problem.use_ppm(c, loads[c] + stream[0]) for c in others)

    meet = bisect_left(streams, True, key=lambda each: reached(each) >= left(each))
    best = min([reached(each) for each in streams[meet : meet + 1]] + [left(each) for each in streams[:meet][-1:]])
    first = bisect_left(streams, True, hi=meet, key=lambda each: left(each) <= best)
    end = bisect_left(streams, True, lo=meet, key=lambda each: reached(each) > best)
    number, load = min((number, load) for load, number in streams[first:end])
    return best, number, next(c for c in others if problem.use_ppm(c, loads[c] + load) <= best)


def _solve_spread(problem: SpreadProblem, hint: list[int], bound: int, within_ppm: int) -> tuple[list[int], int]:
    """The smallest largest use, then the least load moved at it; returns the choice and the bound that was proven."""
    from ortools.sat.python import cp_model

    program: Any = cp_model.CpModel()
    clusters = range(len(problem.capacities))
    chosen = [[program.new_bool_var(f"{n}-{c}") for c in clusters] for n in range(len(problem.items))]
    largest = program.new_int_var(bound, max(bound, _largest_rounded(problem, hint)), "largest")
    for row, cluster in zip(chosen, hint, strict=True):
        program.add_exactly_one(row)
        for c in clusters:
            program.add_hint(row[c], c == cluster)
    for c in clusters:
        uses = [problem.use_ppm(c, item.load) * row[c] for item, row in zip(problem.items, chosen, strict=True)]
        program.add(sum(uses) + problem.use_ppm(c, problem.fixed[c]) <= largest)
    program.minimize(largest)
    at, proven = _search(cp_model, program, chosen, hint)
    bound = max(bound, proven - _slack(problem))
    homes = [(n, item.home, item.load) for n, item in enumerate(problem.items) if item.home is not None]
    if not homes:
        return at, bound
    program.add(largest <= max(_largest_rounded(problem, at), bound * (PPM + within_ppm) // PPM))
    # One more each, so that a stream without load stays where it is.
    program.minimize(sum((load + 1) * (1 - chosen[n][home]) for n, home, load in homes))
    return _search(cp_model, program, chosen, at)[0], bound


def _slack(problem: SpreadProblem) -> int:
    """What rounding up for each stream may have added to the use of a cluster."""
    return len(problem.items) + 1


def _largest_rounded(problem: SpreadProblem, at: Sequence[int]) -> int:
    """The largest use as the program counts it: each load rounded up for itself."""
    uses = [problem.use_ppm(c, load) for c, load in enumerate(problem.fixed)]
    for item, cluster in zip(problem.items, at, strict=True):
        uses[cluster] += problem.use_ppm(cluster, item.load)
    return max(uses, default=0)


def _search(cp_model: Any, program: Any, chosen: list[list[Any]], known: list[int]) -> tuple[list[int], int]:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = WORK
    solver.parameters.catch_sigint_signal = False  # else Ctrl-C ends this search alone, and the command goes on
    status = solver.solve(program)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return known, 0
    at = [next(c for c, var in enumerate(row) if solver.value(var)) for row in chosen]
    return at, int(solver.best_objective_bound)


class LoadUnit(StrEnum):
    """What loads and capacities are measured in, each a second; bytes are those of one copy."""

    BYTES = "bytes"
    RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRule:
    """In which unit and over which window loads are measured, and how far above the bound a plan may be."""

    unit: LoadUnit = option(LoadUnit.BYTES, "--by", help="What is measured: bytes of one copy, or records.")
    window_s: float = duration_option("10s", "--window", help="How long to measure the write load.")
    within_ppm: int = not_typed(0)


def read_capacities(texts: Sequence[str], unit: LoadUnit) -> list[tuple[str, int]]:
    """Profiles with their capacities, from PROFILE=RATE; `UsageError` for another text, or a profile named twice."""
    found: dict[str, int] = {}
    for text in texts:
        profile, equals, amount = text.partition("=")
        is_number = amount.isascii() and amount.isdigit() and int(amount[:15]) > 0
        if not profile or not equals:
            raise UsageError(f"--capacity: {text!r:.60} is not PROFILE=RATE", hint="east=50MB/s, west=100MB/s")
        if profile in found:
            raise UsageError(f"--capacity names profile {profile:.60} twice")
        if unit is LoadUnit.RECORDS and not is_number:
            raise UsageError(f"--capacity: {text!r:.60} is not a number of records a second", hint="east=20000")
        found[profile] = int(amount[:15]) if unit is LoadUnit.RECORDS else parse_rate(amount)
    if len(found) < 2:
        raise UsageError("balance needs two clusters or more", hint="--capacity PROFILE=RATE for each")
    return list(found.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """Sums over partitions: first offsets, the ends of two readings so many `seconds` apart, and one copy's size."""

    before: int
    after: int
    seconds: float
    starts: int
    size_bytes: int


def load_of(reading: TopicReading, unit: LoadUnit) -> int:
    """Records or bytes a second, rounded up; a record counts as many bytes as the log holds for one on average.

    A topic that was cut or made again between the readings counts as without load.
    """
    grown = max(0, reading.after - reading.before)
    if grown == 0 or reading.seconds <= 0:
        return 0
    rate = grown / reading.seconds
    if unit is LoadUnit.BYTES:
        rate *= reading.size_bytes / max(1, reading.after - reading.starts)
    return -int(-rate // 1)


class MoveSubject(StrEnum):
    """What a line is about; an intent stands before a begin or a continuation."""

    PLAN = "plan"
    AMEND = "amend"
    BEGIN = "begin"
    CONTINUE = "continue"
    END = "end"


Line: TypeAlias = JournalLine[MoveSubject]
GRAMMAR = Grammar(
    header={"kind": "stream-moves", "schema": 1},
    words=MoveSubject,
    damaged_hint="the journal was changed; --replan plans anew, operations that are open continue",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRecord:
    """A journal folded up. `open` are streams whose move has begun and not ended; `most_open` of them at once."""

    series: Series
    begins_ms: tuple[int, ...] = ()
    open: frozenset[str] = frozenset()
    most_open: int = 0
    ends: Mapping[str, MoveEnd] = field(default_factory=dict)

    @property
    def todo(self) -> tuple[PlannedMove, ...]:
        """Moves that are not done, those that have begun first: they hold places already."""
        left = [move for move in self.series.moves if not self.is_done(move.stream)]
        return tuple(sorted(left, key=lambda move: move.stream not in self.open))

    def is_done(self, stream: str) -> bool:
        """Whether the move of a stream came to its end."""
        end = self.ends.get(stream)
        return end is not None and end.kind is EndKind.DONE

    @property
    def counted_ms(self) -> tuple[int, ...]:
        """The begins that the pace counts."""
        return (*self.series.earlier_ms, *self.begins_ms)


def fold(record: SeriesRecord | None, line: Line) -> SeriesRecord:
    """Take one more line into account."""
    if (record is None) != (line.what is MoveSubject.PLAN):
        raise ValueError("a journal begins with its plan, and has one")
    if record is None:
        return SeriesRecord(series=read_data(line.data, Series))
    if line.what is MoveSubject.AMEND:
        return replace(record, series=replace(record.series, template=read_data(line.data, FailoverRequest)))
    stream = str(line.data["stream"])
    if line.what is MoveSubject.END:
        end = replace(read_data(line.data["end"], MoveEnd), at_ms=epoch_ms(line.time))
        return replace(record, open=record.open - {stream}, ends={**record.ends, stream: end})
    opened = record.open | {stream}
    begins = (*record.begins_ms, epoch_ms(line.time)) if line.what is MoveSubject.BEGIN else record.begins_ms
    return replace(record, begins_ms=begins, open=opened, most_open=max(record.most_open, len(opened)))


NOT_BEGUN = "not begun"
NOT_PLANNED = "not part of the plan: the same command plans it once the rest is done, or with --replan"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOver:
    """A stream that is not where it should be: its topics on the cluster that is emptied, and why."""

    stream: str
    topics: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesEnd:
    """A series as a process leaves it."""

    record: SeriesRecord
    left: tuple[LeftOver, ...]

    @property
    def kind(self) -> EndKind:
        """The worst of what is left: a late writer, a refusal, something to wait for."""
        kinds = {end.kind for end in self.record.ends.values()}
        for kind in (EndKind.LATE, EndKind.REFUSED):
            if kind in kinds:
                return kind
        return EndKind.WAITING if self.left else EndKind.DONE


def left_over(record: SeriesRecord, routes: Sequence[Route]) -> Iterator[LeftOver]:
    """By stream: moves that are not done, and for an evacuation every topic of a route on the cluster."""
    series = record.series
    planned = {move.stream for move in series.moves}
    for route in sorted(routes, key=lambda each: each.stream):
        found = (s for _, s in (*route.segments(), *route.left()))
        topics = tuple(s.topic for s in found if series.cluster_id and s.cluster_id == series.cluster_id)
        is_open = route.stream in planned and not record.is_done(route.stream)
        if not topics and not is_open:
            continue
        end = record.ends.get(route.stream)
        if is_open:
            why = NOT_BEGUN if end is None else "; ".join((end.reason, *end.lines[:2]))
        elif route.operation is not None:
            why = f"operation {route.operation.id} is open"
        else:
            why = NOT_PLANNED
        yield LeftOver(stream=route.stream, topics=topics, why=why)
