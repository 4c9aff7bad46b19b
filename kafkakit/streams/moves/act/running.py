"""Carrying a series out: operations of several streams side by side, at a pace, each continued wherever it stands.

One thread looks at one stream after the other; what waits holds up no other stream. The begin of each move is written
down before it is made, so that a process that is killed leaves no begin that the pace does not count.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kafkakit.core.durations import epoch_ms, format_duration
from kafkakit.core.errors import ConflictError, KafkakitError, LeaseLostError, TryLaterError
from kafkakit.core.journal_lines import line_data
from kafkakit.core.lease import DEFAULT_TTL_S
from kafkakit.execution.act.lease_guard import Held, HeldClock
from kafkakit.ports.clock import Clock
from kafkakit.streams.failover.api import EndKind, FailoverPlan, Level, RunEnd
from kafkakit.streams.failover.api_act import OperationPorts, StreamOperation
from kafkakit.streams.model.route import Route
from kafkakit.streams.moves.act.journals import Journal, record_of
from kafkakit.streams.moves.decide.journal import SeriesRecord, Word
from kafkakit.streams.moves.decide.leftover import SeriesEnd, left_over
from kafkakit.streams.moves.decide.series import MoveEnd, Pace, PlannedMove
from kafkakit.streams.routes.api_act import RouteStore

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


class SeriesRun:
    """One process's work on one series; `ports` has the clock of this run, which keeps all of its leases."""

    def __init__(
        self, ports: Callable[[Clock], OperationPorts], clock: Clock, lease: Held, journal: Journal, routes: RouteStore
    ) -> None:
        self._clock = HeldClock(clock, self, DEFAULT_TTL_S / 10)
        self._ports, self._lease, self._journal, self._routes = ports(self._clock), lease, journal, routes
        self._flights: dict[str, _Flight] = {}

    @property
    def record(self) -> SeriesRecord:
        """The series as its journal has it."""
        return record_of(self._journal)

    def run(self, pace: Pace, wait_s: float) -> SeriesEnd:
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
                    self._ports.reporter.say(f"the pace allows the next begin in {format_duration(left_ms / 1000)}")
                said_s = 0.0 if left_ms else -1.0
                for flight in tuple(self._flights.values()):
                    self._advance(flight, wait_s)
                    self.keep(AWAY_S)
                if queue or self._flights:
                    idle = left_ms > 0 and not self._flights
                    self._clock.sleep(min(left_ms / 1000, LONGEST_NAP_S) if idle else POLL_S)
        finally:
            for flight in self._flights.values():
                flight.operation.close()
        return SeriesEnd(record=self.record, left=tuple(left_over(self.record, read_routes(self._routes))))

    def require_held(self) -> None:
        """See `Held`: the lease of the series."""
        self._lease.require_held()

    def keep(self, retry_limit_s: float) -> None:
        """See `Held`: the leases of the series and of every stream that is under way."""
        self._lease.keep(retry_limit_s)
        for flight in tuple(self._flights.values()):
            flight.operation.keep(retry_limit_s)

    def _admit(self, queue: list[PlannedMove], pace: Pace) -> int:
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
            self._journal.intent(Word.CONTINUE if is_open else Word.BEGIN, {"stream": move.stream})
            self._begin(move)
            self.keep(AWAY_S)
        return 0

    def _begin(self, move: PlannedMove) -> None:
        series = self.record.series
        try:
            operation = StreamOperation(self._ports, series.request_of(move), series.approval)
        except KafkakitError as error:
            self._end(move.stream, failed(error))
            return
        if operation.refused is not None:
            operation.close()
            self._end(move.stream, refused(operation.refused))
            return
        self._flights[move.stream] = _Flight(move=move, operation=operation, since_s=self._clock.monotonic())

    def _advance(self, flight: _Flight, wait_s: float) -> None:
        """One look at a stream, and everything that can be done at once."""
        try:
            end = flight.operation.advance()
        except KafkakitError as error:
            self._close(flight, failed(error))
            return
        now_s, mark = self._clock.monotonic(), (end.step, end.reason, end.records, end.record)
        if mark != flight.mark:
            flight.mark, flight.since_s = mark, now_s
        if end.kind is not EndKind.WAITING or now_s - flight.since_s >= wait_s or end.reason == "stranded":
            self._close(flight, ended(end))

    def _close(self, flight: _Flight, end: MoveEnd) -> None:
        flight.operation.close()
        del self._flights[flight.move.stream]
        self._end(flight.move.stream, end)

    def _end(self, stream: str, end: MoveEnd) -> None:
        self._journal.check(Word.END, {"stream": stream, "end": line_data(end)})
        done = sum(self.record.is_done(move.stream) for move in self.record.series.moves)
        words = f": {end.reason}" if end.reason else ""
        self._ports.reporter.say(f"{stream}: {end.kind}{words} ({done} of {len(self.record.series.moves)} done)")


def read_routes(routes: RouteStore) -> tuple[Route, ...]:
    """Every route; one that is deleted meanwhile is left out."""
    found = (routes.read(name) for name in routes.streams())
    return tuple(each.route for each in found if each is not None)


def ended(end: RunEnd) -> MoveEnd:
    """The end of an operation as that of its move."""
    return MoveEnd(kind=end.kind, reason=end.reason, lines=end.lines[:5], operation=end.record.operation.id)


def refused(plan: FailoverPlan) -> MoveEnd:
    """A plan that is refused as the end of its move."""
    lines = tuple(f"{each.where}: {each.text}" for each in plan.verdicts if each.level is Level.REFUSED)
    return MoveEnd(kind=EndKind.REFUSED, reason=plan.refused[0].check, lines=lines[:5])


def failed(error: KafkakitError) -> MoveEnd:
    """An error of one stream as the end of its move; what can be tried again is waited for."""
    is_transient = isinstance(error, TryLaterError | ConflictError)
    reason = "lease" if isinstance(error, LeaseLostError) else "try-later" if is_transient else "refused"
    return MoveEnd(kind=EndKind.WAITING if is_transient else EndKind.REFUSED, reason=reason, lines=(error.message,))
