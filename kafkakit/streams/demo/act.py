"""The streams demo: its phases, one after the other, and the application that runs meanwhile.

The application is threads that write orders, consumers that handle them, and a book of what became of each. Both
clusters are removed at the end.
"""

import itertools
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from types import TracebackType

from kafkakit.core.quantities import epoch_ms
from kafkakit.ports.acting import Clock, Screen, pause, repeat_every
from kafkakit.ports.stores import ControlStore
from kafkakit.sandbox.api_act import DemoTools, removed_at_the_end
from kafkakit.streams.client.api_act import (
    BOMB_REASON,
    ConsumerOptions,
    Delivery,
    DependencyDownError,
    Producer,
    ProducerLimits,
    RetryRule,
    StreamClient,
    StreamConsumer,
    StreamRecord,
    WorkRules,
)
from kafkakit.streams.demo.decide import (
    GROUP,
    RULE,
    STREAM,
    DemoEvents,
    DemoPlan,
    DemoSummary,
    LaneCounts,
    PhaseFigures,
    move_route,
    percentile,
    phase_line,
    phase_text,
    summary_of,
)
from kafkakit.streams.model.provenance import read_provenance
from kafkakit.streams.model.route import DLQ, LIVE, SLOW, Route
from kafkakit.streams.routes.api_act import RouteStore

_LOOK_S = 0.25
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSession:
    """What the demo opens once its first cluster is up; with `in_place` the screen replaces what it showed."""

    open_client: Callable[[], StreamClient]
    open_control: Callable[[], ControlStore]
    open_screen: Callable[[], AbstractContextManager[Screen]]
    in_place: bool


def run_streams_demo(plan: DemoPlan, tools: DemoTools, session: DemoSession) -> DemoSummary:
    """Start two clusters, let everything go wrong in turn, and count the records; raises what a command raises."""
    began_s = tools.clock.monotonic()
    with removed_at_the_end((plan.home, plan.other), tools, "11. Take both clusters down"):
        tools.title("1. Two clusters of one broker, and a stream with lanes")
        for name in (plan.home, plan.other):
            tools.run(["sandbox", "up", "--brokers", "1", "--name", name])
        for words in plan.making():
            tools.run(words)
        with closing(session.open_control()) as store:
            change = _RouteChanges(RouteStore(store), tools)
            change(lambda route: replace(route, rules=(RULE,)), "a rule for the lane slow")
            with session.open_client() as client, StreamTraffic(client, tools.clock, plan.rate) as traffic:
                summary = _Phases(plan, tools, session, traffic, change).run()
    return replace(summary, seconds=tools.clock.monotonic() - began_s)


class _RouteChanges:
    def __init__(self, routes: RouteStore, tools: DemoTools) -> None:
        self._routes, self._tools = routes, tools

    def __call__(self, edit: Callable[[Route], Route], what: str) -> Route:
        at_ms = epoch_ms(self._tools.clock.now())
        return self._routes.change(STREAM, edit, by="kafkakit streams demo", what=what, at_ms=at_ms)


class StreamTraffic:
    """Writers and consumers of the stream, while the context is open; counts are by record number, in memory.

    `database_up` is the dependency that the handler needs.
    """

    def __init__(self, client: StreamClient, clock: Clock, rate: int) -> None:
        self._client, self._clock, self._rate = client, clock, rate
        self.database_up = threading.Event()
        self.database_up.set()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._sent_s: dict[int, float] = {}
        self._written: dict[str, list[int]] = {}
        self._on_cluster: dict[str, int] = {}
        self._handled: dict[str, list[tuple[int, float]]] = {lane: [] for lane in LANES}
        self._rejected: list[int] = []
        self._noted: list[int] = []
        self._poison: set[int] = set()
        self._bombs: dict[tuple[str, int, int], int] = {}
        self._unacknowledged = self._deferred = 0
        self._begin: tuple[Mapping[str, tuple[int, int]], int, int] = ({}, 0, 0)
        self._title = ""
        self._known_problems: set[str] = set()
        self._stop = threading.Event()
        self._stack = ExitStack()
        self._consumers: list[StreamConsumer] = []
        self._writers: list[threading.Thread] = []
        self._producer: Producer = client.producer(STREAM)

    def __enter__(self) -> "StreamTraffic":
        with ExitStack() as stack:
            for _ in range(CONSUMERS):
                consumer = self._client.consumer(STREAM, GROUP, handler=self._handle, options=_OPTIONS)
                self._consumers.append(stack.enter_context(consumer))
            letters = ConsumerOptions(lanes=(DLQ,), concurrency=1, commit_every_s=0.5, close_s=5.0)
            stack.enter_context(
                self._client.consumer(STREAM, f"{GROUP}-rejected", handler=self._count_letter, options=letters)
            )
            for number in range(WRITERS):
                self._writers.append(threading.Thread(target=self._write, name=f"demo-writer-{number}", daemon=True))
                self._writers[-1].start()
            stack.callback(self.end_writing)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def begin(self, title: str) -> None:
        """Count for a new phase from now on."""
        self._known_problems = {problem for each in self._consumers for problem in each.figures().problems}
        with self._lock:
            counts = {lane: (len(self._written.get(lane, ())), len(self._handled[lane])) for lane in LANES}
            self._begin, self._title = (counts, self._letters, self._deferred), title

    def figures(self) -> PhaseFigures:
        """The phase until now."""
        now = [consumer.figures() for consumer in self._consumers]
        with self._lock:
            counts, letters, deferred = self._begin
            lanes = {}
            for lane in LANES:
                written, handled = counts[lane]
                since = [seconds * 1000 for _, seconds in self._handled[lane][handled:]]
                lanes[lane] = LaneCounts(
                    written=len(self._written.get(lane, ())) - written,
                    handled=len(since),
                    p99_ms=percentile(since, 0.99),
                )
            return PhaseFigures(
                title=self._title,
                lanes=lanes,
                rejected=self._letters - letters,
                deferred=self._deferred - deferred,
                waiting=len(self._open()),
                down=tuple(sorted({name for each in now for name in each.dependencies_down})),
                problems=tuple(sorted({problem for each in now for problem in each.problems} - self._known_problems)),
            )

    def send_poison(self) -> None:
        """Send an order that no handler can read."""
        self._poison.add(self._send(self._producer, b"not an order"))

    def send_bomb(self, limit_s: float) -> None:
        """Send 64 MiB of zeros in one batch of a few kB, as another application with other limits might."""
        with self._client.producer(STREAM, limits=_BOMB_LIMITS) as producer:
            self._send(producer, bytes(_BOMB_BYTES), is_bomb=True)
            producer.flush(limit_s)

    def send_burst(self, count: int) -> None:
        """Send many orders of the tenant `bulk` at once."""
        for _ in range(count):
            if self._stop.is_set():
                return
            self._send(self._producer, None, is_bulk=True)

    @property
    def epoch(self) -> int:
        """The oldest route that a consumer has."""
        return min(consumer.figures().epoch for consumer in self._consumers)

    def written_on(self, cluster_id: str) -> int:
        """Records that a cluster acknowledged."""
        with self._lock:
            return self._on_cluster.get(cluster_id, 0)

    def open_numbers(self) -> set[int]:
        """The records that were acknowledged and have no end yet."""
        with self._lock:
            return self._open()

    def end_writing(self) -> None:
        """Stop the writers and wait for the answers to what they sent."""
        self._stop.set()
        for writer in self._writers:
            writer.join()
        self._producer.flush(30.0)

    def is_drained(self) -> bool:
        """True when every acknowledged record has its end and all of it is committed."""
        return not self.open_numbers() and self._lag() == 0

    def events(self, other_cluster_id: str) -> DemoEvents:
        """All that was counted."""
        lag, epoch, on_other = self._lag(), self.epoch, self.written_on(other_cluster_id)
        with self._lock:
            return DemoEvents(
                acknowledged=[number for numbers in self._written.values() for number in numbers],
                handled=[number for lane in LANES for number, _ in self._handled[lane]],
                rejected=tuple(self._rejected),
                noted=tuple(self._noted),
                poison=frozenset(self._poison),
                unacknowledged=self._unacknowledged,
                deferred=self._deferred,
                lag=lag,
                on_other=on_other,
                epoch=epoch,
            )

    @property
    def _letters(self) -> int:
        return len(self._rejected) + len(self._noted)

    def _open(self) -> set[int]:
        ended = {number for lane in LANES for number, _ in self._handled[lane]}.union(self._rejected, self._noted)
        return {number for numbers in self._written.values() for number in numbers} - ended

    def _lag(self) -> int | None:
        partitions = [partition for each in self._consumers for partition in each.figures().partitions]
        lags = [partition.lag for partition in partitions if partition.lag is not None]
        return sum(lags) if partitions and len(lags) == len(partitions) else None

    def _write(self) -> None:
        began, sent = self._clock.monotonic(), 0
        while not self._stop.wait(_PAUSE_S):
            due = int((self._clock.monotonic() - began) * self._rate / WRITERS)
            while sent < due:
                sent += 1
                self._send(self._producer, None, is_bulk=sent % _BULK_EVERY == 0)

    def _send(self, producer: Producer, value: bytes | None, *, is_bulk: bool = False, is_bomb: bool = False) -> int:
        number = next(self._numbers)
        headers = [(_NUMBER, b"%d" % number), (_TENANT, b"bulk" if is_bulk else b"shop")]
        self._sent_s[number] = self._clock.monotonic()
        delivery = producer.send(
            b"%012d" % number + bytes(_VALUE_BYTES - 12) if value is None else value,
            b"customer-%d" % (number % _KEYS),
            headers=headers,
        )
        # The callback must not wait: its lock is held for moments only.
        delivery.add_done_callback(lambda done: self._note_written(number, done, is_bomb=is_bomb))
        return number

    def _note_written(self, number: int, delivery: Delivery, *, is_bomb: bool) -> None:
        with self._lock:
            if delivery.exception() is not None:
                self._unacknowledged += 1
                return
            written = delivery.result()
            self._written.setdefault(written.lane, []).append(number)
            self._on_cluster[written.cluster_id] = self._on_cluster.get(written.cluster_id, 0) + 1
            if is_bomb:
                self._bombs[written.topic, written.partition, written.offset] = number

    def _handle(self, record: StreamRecord) -> None:
        number = int(dict(record.headers)[_NUMBER] or b"")
        int((record.value or b"")[:12])  # ValueError for what is no order
        if not self.database_up.is_set():
            with self._lock:
                self._deferred += 1
            raise DependencyDownError("database")
        pause(self._clock, _WORK_S[record.lane])
        seconds = self._clock.monotonic() - self._sent_s[number]
        with self._lock:
            self._handled[record.lane].append((number, seconds))

    def _count_letter(self, record: StreamRecord) -> None:
        """A letter is a copy of a record with its headers, or the note of a batch that was passed over."""
        found = read_provenance(record.headers)
        if found is not None and found.failure.reason == BOMB_REASON:
            place = found.origin.topic, found.origin.partition, found.origin.offset
            with self._lock:
                self._noted.extend(number for at, number in self._bombs.items() if at == place)
            return
        number = int(dict(record.headers)[_NUMBER] or b"")
        with self._lock:
            self._rejected.append(number)


class _Phases:
    def __init__(
        self, plan: DemoPlan, tools: DemoTools, session: DemoSession, traffic: StreamTraffic, change: _RouteChanges
    ) -> None:
        self._plan, self._tools, self._session, self._traffic, self._change = plan, tools, session, traffic, change
        self._done: list[PhaseFigures] = []
        self._epoch, self._other_id = 0, ""

    def run(self) -> DemoSummary:
        traffic, run = self._traffic, self._tools.run

        def is_rejected() -> bool:
            return traffic.figures().rejected >= 1

        self._phase("2. Producers write, consumers handle")
        self._phase("3. A poison pill", traffic.send_poison, is_rejected)
        self._phase("4. A batch of 64 MiB in a few kB", self._bomb, is_rejected)
        run(self._plan.rejected())
        self._phase("5. The database is down", traffic.database_up.clear, lambda: traffic.figures().deferred > 0)
        waiting = traffic.open_numbers()
        self._phase("6. The database is back", traffic.database_up.set, lambda: not waiting & traffic.open_numbers())
        self._phase("7. A burst on the lane slow", lambda: traffic.send_burst(self._plan.burst))
        self._tools.title("8. Topics on the second cluster, which consumers read and producers do not write yet")
        for words in self._plan.opening():
            run(words)
        self._phase("9. The route changes to them, under load", self._move, self._is_moved)
        self._phase("10. No more writes; the rest is handled", traffic.end_writing, traffic.is_drained, at_least_s=0)
        return summary_of(traffic.events(self._other_id), self._done)

    def _bomb(self) -> None:
        self._traffic.send_bomb(_LIMIT_S)

    def _move(self) -> None:
        what = f"move to {self._plan.other}"
        route = self._change(lambda route: move_route(route, self._plan.other), what)
        self._epoch = route.epoch
        self._other_id = next(key for key, profile in route.clusters.items() if profile == self._plan.other)

    def _is_moved(self) -> bool:
        """A phase's records are on the other cluster, and each consumer has the new route."""
        wanted = self._plan.rate * self._plan.phase_s / 2
        return self._traffic.written_on(self._other_id) >= wanted and self._traffic.epoch >= self._epoch

    def _phase(
        self,
        title: str,
        begin: Callable[[], object] | None = None,
        until: Callable[[], bool] = lambda: True,
        *,
        at_least_s: float | None = None,
    ) -> None:
        """Do something, then wait for the time of a phase and until the condition holds, within a limit."""
        clock, traffic = self._tools.clock, self._traffic
        self._tools.title(title)
        traffic.begin(title)
        with self._session.open_screen() as screen:
            began_s = clock.monotonic()
            if begin is not None:
                begin()
            end_s = began_s + (self._plan.phase_s if at_least_s is None else at_least_s)
            for _ in repeat_every(clock, _LOOK_S, end_s + _LIMIT_S - clock.monotonic()):
                if clock.monotonic() >= end_s and until():
                    break
                if self._session.in_place:
                    screen.show(phase_text(traffic.figures()), "")
        self._done.append(traffic.figures())
        self._tools.reporter.say(phase_line(self._done[-1]))


LANES = (LIVE, SLOW)
WRITERS, CONSUMERS = 2, 2
_NUMBER, _TENANT = "demo-number", "tenant"
_VALUE_BYTES, _BOMB_BYTES = 200, 64 << 20
_KEYS, _BULK_EVERY = 100, 8
_PAUSE_S = 0.05
_WORK_S = {LIVE: 0.0, SLOW: 0.005}
_RULES = WorkRules(retry=RetryRule(first_ms=200, max_ms=1_000, max_tries=3))
_OPTIONS = ConsumerOptions(concurrency=8, work=_RULES, commit_every_s=0.5, revoke_s=2.0, close_s=5.0)
_BOMB_LIMITS = ProducerLimits(batch_bytes=_BOMB_BYTES + (1 << 20), lane_bytes=2 * _BOMB_BYTES)
