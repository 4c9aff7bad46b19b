"""Series of moves on live clusters: measured, planned, and carried out side by side, at a pace.

One thread looks at one stream after the other; what waits holds up no other stream. Each operation is continued
wherever it stands. The begin of each move is written down before it is made, so that a process that is killed leaves
no begin that the pace does not count.

Journals are kept in the control store; the newest of a key counts. How much is written to a stream is measured by end
offsets over a window, and by what a record takes on disk.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeAlias

from kafkakit.core.cluster_facts import ItemError, LogSpan
from kafkakit.core.errors import ConflictError, KafkakitError, LeaseLostError, RefusedError, TryLaterError, UsageError
from kafkakit.core.journal_lines import line_data
from kafkakit.core.lease import DEFAULT_TTL_S
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms, format_duration
from kafkakit.execution.act.journal_files import LineJournal, StoreLines
from kafkakit.execution.act.leases import HeldClock, RenewableLease
from kafkakit.ports.acting import Clock, pause
from kafkakit.ports.data import ClusterClients
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.failover.api import EndKind, FailoverPlan, FailoverRequest, Level, RunEnd
from kafkakit.streams.failover.api_act import OperationPorts, StreamOperation, plan_operation
from kafkakit.streams.model.route import Route, Segment, partitions_of
from kafkakit.streams.moves.decide import (
    GRAMMAR,
    HOUR_MS,
    MOST_MOVES,
    ChosenMoves,
    LoadUnit,
    MeasureRule,
    MoveCluster,
    MoveEnd,
    MovePace,
    MoveSubject,
    PlannedMove,
    Series,
    SeriesEnd,
    SeriesKind,
    SeriesRecord,
    TopicReading,
    balance,
    evacuated_id,
    evacuation,
    fold,
    left_over,
    load_of,
)
from kafkakit.streams.routes.api_act import OpenCluster, RouteStore

POLL_S = 0.25
LONGEST_NAP_S = 5.0
AWAY_S = 300.0


@dataclass(kw_only=True)
class _Flight:
    """A move that is under way: its operation, and since when nothing has changed."""

    move: PlannedMove
    operation: StreamOperation
    mark: object = None
    since_s: float = 0.0


Journal: TypeAlias = LineJournal[MoveSubject, SeriesRecord | None]


class SeriesRun:
    """One process's work on one series; `ports` has the clock of this run, which keeps all of its leases."""

    def __init__(
        self,
        ports: Callable[[Clock], OperationPorts],
        clock: Clock,
        lease: RenewableLease,
        journal: Journal,
        routes: RouteStore,
    ) -> None:
        self._clock = HeldClock(clock, self, DEFAULT_TTL_S / 10)
        self._ports, self._lease, self._journal, self._routes = ports(self._clock), lease, journal, routes
        self._flights: dict[str, _Flight] = {}

    @property
    def record(self) -> SeriesRecord:
        """The series as its journal has it."""
        return record_of(self._journal)

    def run(self, pace: MovePace, wait_s: float) -> SeriesEnd:
        """Move every stream that is left; one for which nothing was possible for `wait_s` is left open, and listed.

        Raises `LeaseLostError` when another process takes the series, and what the control store raises.
        """
        queue = list(self.record.todo)
        said_s = -1.0
        try:
            while queue or self._flights:
                self.require_held()
                left_ms = self._admit(queue, pace)
                if left_ms and said_s < 0:
                    self._ports.reporter.say(f"the pace allows the next start in {format_duration(left_ms / 1000)}")
                said_s = 0.0 if left_ms else -1.0
                for flight in tuple(self._flights.values()):
                    self._advance(flight, wait_s)
                    self.keep(AWAY_S)
                if queue or self._flights:
                    idle = left_ms > 0 and not self._flights
                    pause(self._clock, min(left_ms / 1000, LONGEST_NAP_S) if idle else POLL_S)
        finally:
            with ExitStack() as closing:
                for flight in self._flights.values():
                    closing.callback(flight.operation.close)
        return SeriesEnd(record=self.record, left=tuple(left_over(self.record, read_routes(self._routes))))

    def require_held(self) -> None:
        """See `RenewableLease`: the lease of the series."""
        self._lease.require_held()

    def keep(self, retry_limit_s: float) -> None:
        """See `RenewableLease`: the leases of the series and of every stream that is under way."""
        self._lease.keep(retry_limit_s)
        for flight in tuple(self._flights.values()):
            flight.operation.keep(retry_limit_s)

    def _admit(self, queue: list[PlannedMove], pace: MovePace) -> int:
        """Begin or continue moves while there is a place; returns for how many ms the pace allows no begin."""
        while queue and len(self._flights) < pace.at_once:
            move = queue[0]
            found = self._routes.read(move.stream)
            if found is None:
                queue.pop(0)
                self._end(move.stream, MoveEnd(kind=EndKind.DONE, reason="deleted"))
                continue
            # What is open already has been counted: it only takes its place again.
            is_open = move.stream in self.record.open or found.route.operation is not None
            if not is_open:
                left_ms = pace.wait_ms(self.record.counted_ms, epoch_ms(self._clock.now()))
                if left_ms > 0:
                    return left_ms
            queue.pop(0)
            self._journal.intent(MoveSubject.CONTINUE if is_open else MoveSubject.BEGIN, {"stream": move.stream})
            self._begin(move)
            self.keep(AWAY_S)
        return 0

    def _begin(self, move: PlannedMove) -> None:
        series = self.record.series
        try:
            operation = StreamOperation(self._ports, series.request_of(move), series.approval)
        except KafkakitError as error:
            self._end(move.stream, failed_end(error))
            return
        if operation.refused is not None:
            operation.close()
            self._end(move.stream, refused_end(operation.refused))
            return
        self._flights[move.stream] = _Flight(move=move, operation=operation, since_s=self._clock.monotonic())

    def _advance(self, flight: _Flight, wait_s: float) -> None:
        """One look at a stream, and everything that can be done at once."""
        try:
            end = flight.operation.advance()
        except KafkakitError as error:
            self._close(flight, failed_end(error))
            return
        now_s, mark = self._clock.monotonic(), (end.step, end.reason, end.records, end.record)
        if mark != flight.mark:
            flight.mark, flight.since_s = mark, now_s
        if end.kind is not EndKind.WAITING or now_s - flight.since_s >= wait_s or end.reason == "stranded":
            self._close(flight, move_end(end))

    def _close(self, flight: _Flight, end: MoveEnd) -> None:
        flight.operation.close()
        del self._flights[flight.move.stream]
        self._end(flight.move.stream, end)

    def _end(self, stream: str, end: MoveEnd) -> None:
        self._journal.check(MoveSubject.END, {"stream": stream, "end": line_data(end)})
        done = sum(self.record.is_done(move.stream) for move in self.record.series.moves)
        words = f": {end.reason}" if end.reason else ""
        self._ports.reporter.say(f"{stream}: {end.kind}{words} ({done} of {len(self.record.series.moves)} done)")


def read_routes(routes: RouteStore) -> tuple[Route, ...]:
    """Every route; one that is deleted meanwhile is left out."""
    found = (routes.read(name) for name in routes.streams())
    return tuple(each.route for each in found if each is not None)


def move_end(end: RunEnd) -> MoveEnd:
    """The end of an operation as that of its move."""
    return MoveEnd(kind=end.kind, reason=end.reason, lines=end.lines[:5], operation=end.record.operation.id)


def refused_end(plan: FailoverPlan) -> MoveEnd:
    """A plan that is refused as the end of its move."""
    lines = tuple(f"{each.where}: {each.text}" for each in plan.verdicts if each.level is Level.REFUSED)
    return MoveEnd(kind=EndKind.REFUSED, reason=plan.refused[0].check, lines=lines[:5])


def failed_end(error: KafkakitError) -> MoveEnd:
    """An error of one stream as the end of its move; what can be tried again is waited for."""
    is_transient = isinstance(error, TryLaterError | ConflictError)
    reason = "lease" if isinstance(error, LeaseLostError) else "try-later" if is_transient else "refused"
    return MoveEnd(kind=EndKind.WAITING if is_transient else EndKind.REFUSED, reason=reason, lines=(error.message,))


@dataclass(frozen=True, slots=True)
class SeriesIntent:
    """What a command wants: the key of its series, the profiles that streams may go to, and what plans a new one."""

    key: str
    targets: tuple[str, ...]
    make: Callable[[], Series]


class SeriesPlanner:
    """Plans series; writes nothing. `template` is what each move asks for but its stream, lanes and target."""

    def __init__(self, ports: OperationPorts, template: FailoverRequest, rule: MeasureRule) -> None:
        self._ports, self._template, self._rule = ports, template, rule
        self._routes: tuple[Route, ...] | None = None

    @property
    def routes(self) -> tuple[Route, ...]:
        """Every route, read once."""
        if self._routes is None:
            self._routes = read_routes(RouteStore(self._ports.store))
        return self._routes

    def evacuated(self, profile: str) -> str:
        """The id of the cluster that is to be emptied; in an emergency by the routes alone."""
        live = None if self._template.is_emergency else self._id_of(profile)
        return evacuated_id(self.routes, profile, live)

    def evacuation(self, profile: str, targets: Sequence[str]) -> Series:
        """A move for every stream that is written on a cluster; loads are measured where there are several targets.

        In an emergency, where the old cluster is not looked at, partitions count in place of what is written.
        """
        cluster_id = self.evacuated(profile)
        places = [MoveCluster(profile=name, cluster_id=self._id_of(name)) for name in dict.fromkeys(targets)]
        profiles = {cluster_id: profile, **{place.cluster_id: place.profile for place in places}}
        loads, unit = {}, f"{self._rule.unit}/s"
        if len(places) > 1 and self._template.is_emergency:
            segments = (lane.active for route in self.routes for lane in route.lanes if lane.active)
            loads, unit = {(each.cluster_id, each.topic): each.partitions for each in segments}, "partitions"
        elif len(places) > 1:
            loads = self._measure(profiles)
        chosen = evacuation(self.routes, cluster_id, places, loads, unit)
        return self._series(SeriesKind.EVACUATE, profile, cluster_id, places, chosen)

    def balance(self, capacities: Sequence[tuple[str, int]]) -> Series:
        """Moves that spread streams over clusters (profile, capacity in the rule's unit) by what is written."""
        places = [
            MoveCluster(profile=name, cluster_id=self._id_of(name), capacity=number) for name, number in capacities
        ]
        if len({place.cluster_id for place in places}) < len(places):
            raise UsageError("two profiles reach the same cluster")
        loads = self._measure({place.cluster_id: place.profile for place in places})
        chosen = balance(self.routes, places, loads, f"{self._rule.unit}/s", self._rule.within_ppm)
        return self._series(SeriesKind.BALANCE, "", "", places, chosen)

    def series_for(
        self, newest: Journal | None, intent: SeriesIntent, *, is_replanned: bool
    ) -> tuple[Journal | None, Series]:
        """The series that is under way with its journal, else a new one.

        A new one keeps to the pace of the one before, and continues those of its moves whose operations are open.
        """
        if newest is None:
            return None, intent.make()
        before = record_of(newest)
        if before.todo and not is_replanned:
            return newest, before.series
        series, busy = intent.make(), {route.stream for route in self.routes if route.operation is not None}
        kept = tuple(move for move in before.todo if move.stream in busy)
        names = {move.stream for move in kept}
        moves = (*kept, *(move for move in series.moves if move.stream not in names))
        earlier = tuple(at for at in before.counted_ms if at > series.started_ms - HOUR_MS)
        return None, replace(series, moves=moves, earlier_ms=earlier)

    def amend(self, journal: Journal, intent: SeriesIntent) -> None:
        """Continue a series with other limits; `RefusedError` where it was planned for other targets."""
        series = record_of(journal).series
        differences = []
        if set(series.targets) != set(intent.targets):
            differences.append(f"it was planned for {', '.join(series.targets)}")
        if series.template.is_emergency and not self._template.is_emergency:
            differences.append("it was begun with --emergency")
        if differences:
            words = "; ".join(differences)
            raise RefusedError(f"{series.kind} is under way, and {words}", hint="--replan makes a new plan")
        if self._template != series.template:
            journal.check(MoveSubject.AMEND, line_data(self._template))

    def unmoved(self, series: Series) -> SeriesEnd:
        """The end of a series without moves."""
        record = SeriesRecord(series=series)
        return SeriesEnd(record=record, left=tuple(left_over(record, self.routes)))

    def judged(self, series: Series, journal: Journal | None) -> dict[str, FailoverPlan | MoveEnd]:
        """The plan of each move that is left as its operation would be planned now, or why there is none."""
        found: dict[str, FailoverPlan | MoveEnd] = {}
        for move in series.moves if journal is None else record_of(journal).todo:
            try:
                plan = plan_operation(self._ports, series.request_of(move))
            except KafkakitError as error:
                found[move.stream] = failed_end(error)
            else:
                found[move.stream] = refused_end(plan) if plan.refused else plan
        return found

    def _series(
        self, kind: SeriesKind, subject: str, cluster_id: str, places: Sequence[MoveCluster], chosen: ChosenMoves
    ) -> Series:
        if len(chosen.moves) > MOST_MOVES:
            raise RefusedError(f"{len(chosen.moves):,} streams would move, at most {MOST_MOVES:,} are in one plan")
        return Series(
            kind=kind,
            subject=subject,
            cluster_id=cluster_id,
            targets=tuple(place.profile for place in places),
            moves=chosen.moves,
            template=self._template,
            operator=self._ports.operator,
            started_ms=epoch_ms(self._ports.clock.now()),
            figures=chosen.figures,
            skipped=chosen.skipped,
        )

    def _measure(self, profiles: dict[str, str]) -> dict[tuple[str, str], int]:
        self._ports.reporter.say(f"measuring what is written, for {self._rule.window_s:g} s")
        return measure(
            self._ports.open_cluster, self._ports.clock, self.routes, profiles, self._rule.window_s, self._rule.unit
        )

    def _id_of(self, profile: str) -> str:
        return self._ports.open_cluster(profile).admin.cluster().cluster_id


Spans = Mapping[TopicPartition, LogSpan | ItemError]


def measure(
    open_cluster: OpenCluster, clock: Clock, routes: Sequence[Route], profiles: Mapping[str, str], window_s: float,
    unit: LoadUnit,
) -> dict[tuple[str, str], int]:  # fmt: skip
    """The load of every topic that is written on these clusters (profile by cluster id), by cluster id and topic.

    Raises `TryLaterError` where ends or sizes are not known. Cost: two requests to each leader, one to each broker.
    """
    segments = [lane.active for route in routes for lane in route.lanes if lane.active is not None]
    by_cluster = {c: [s for s in segments if s.cluster_id == c] for c in profiles}
    keys = {c: [key for segment in found for key in partitions_of(segment)] for c, found in by_cluster.items()}
    clusters = {c: open_cluster(profile) for c, profile in profiles.items() if keys[c]}
    first = {c: (clock.monotonic(), cluster.log.spans(keys[c])) for c, cluster in clusters.items()}
    sizes = {c: _sizes(cluster, keys[c]) if unit is LoadUnit.BYTES else {} for c, cluster in clusters.items()}
    pause(clock, window_s)
    found = {}
    for c, cluster in clusters.items():
        at_s, before = first[c]
        now_s, after = clock.monotonic(), cluster.log.spans(keys[c])
        for segment in by_cluster[c]:
            reading = TopicReading(
                before=_ends(segment, before), after=_ends(segment, after), seconds=now_s - at_s,
                starts=sum(_span(key, after).start for key in partitions_of(segment)),
                size_bytes=_size(segment, sizes[c]) if unit is LoadUnit.BYTES else 0,
            )  # fmt: skip
            found[c, segment.topic] = load_of(reading, unit)
    return found


def _ends(segment: Segment, spans: Spans) -> int:
    return sum(_span(key, spans).end for key in partitions_of(segment))


def _span(key: TopicPartition, spans: Spans) -> LogSpan:
    span = spans.get(key)
    if not isinstance(span, LogSpan):
        raise TryLaterError(f"the end of {key} is not known: {span or 'no answer'}")
    return span


def _sizes(cluster: ClusterClients, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The largest copy of each partition."""
    brokers = [broker.id for broker in cluster.admin.cluster().brokers if broker.is_alive]
    sizes: dict[TopicPartition, int] = {}
    for answer in cluster.admin.log_dirs(brokers, keys).values():
        for key, copy in answer.replicas.items():
            sizes[key] = max(copy.size_bytes, sizes.get(key, 0))
    return sizes


def _size(segment: Segment, sizes: Mapping[TopicPartition, int]) -> int:
    absent = [key for key in partitions_of(segment) if key not in sizes]
    if absent:
        raise TryLaterError(f"the size of {absent[0]} is not known", hint="--by records needs no sizes")
    return sum(sizes[key] for key in partitions_of(segment))


def series_lease(key: str) -> str:
    """Where the lease of a series is kept."""
    return f"moves/{key}/lease"


class SeriesJournals:
    """The series of one key. Reading one costs a request for each 60 kB."""

    def __init__(self, store: ControlStore, clock: Clock, key: str) -> None:
        self._store, self._clock, self._root = store, clock, f"moves/{key}"

    def newest(self) -> Journal | None:
        """The newest series whose plan was written down whole; `InputError` for a damaged one."""
        for number in reversed(self._numbers()):
            journal = self._open(number)
            if journal.state is not None:
                return journal
        return None

    def begin(self, series: Series) -> Journal:
        """The journal of a new series, with its plan."""
        journal = self._open(max(self._numbers(), default=0) + 1)
        journal.check(MoveSubject.PLAN, line_data(series))
        return journal

    def _numbers(self) -> list[int]:
        return sorted(int(name) for name in self._store.children(self._root) if name.isascii() and name.isdigit())

    def _open(self, number: int) -> Journal:
        lines = StoreLines(self._store, f"{self._root}/{number:06d}")
        return LineJournal(lines, self._clock, GRAMMAR, fold, None)


def record_of(journal: Journal) -> SeriesRecord:
    """What a journal that has begun says."""
    if journal.state is None:
        raise ValueError("the journal has not begun")
    return journal.state
