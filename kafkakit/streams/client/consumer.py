"""The consumer of a stream: it reads all segments of its lanes, and follows the route."""

import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of
from kafkakit.core.records import headers_of
from kafkakit.ports.acting import Clock, repeat_every
from kafkakit.ports.data import LogReader
from kafkakit.ports.streams import GroupConsumer, ReadRecord
from kafkakit.streams.client.assigned_member import GroupShare
from kafkakit.streams.client.cluster_reader import ClusterReader, Outbox
from kafkakit.streams.client.dead_letters import ConsumerHooks, ConsumerOptions, DeadLetterWriter, Deserializer
from kafkakit.streams.client.decide.client_documents import ClientEntry, ClientKind
from kafkakit.streams.client.decide.failures import Answers, Dependencies, WorkCounts
from kafkakit.streams.client.decide.figures import ConsumerFigures, ConsumerState, PartitionFigures, add_counts
from kafkakit.streams.client.decide.reading import (
    LaneShares,
    ReadingPlan,
    ReplayRange,
    reading_plan,
    replaced_topics,
    replay_ranges,
    replay_times,
    replay_window,
)
from kafkakit.streams.client.decide.work_rules import Mode, deserialization_failure
from kafkakit.streams.client.producer import MakeContext
from kafkakit.streams.client.workers import (
    EXITS,
    AsyncHandler,
    BatchHandler,
    ConsumerLifecycle,
    Handler,
    OwnedPartition,
    SharedWork,
    StreamRecord,
    TaskWorkers,
    ThreadWorkers,
    WrongReturnError,
    failed_positions,
)
from kafkakit.streams.model.commit import ReplayWindow
from kafkakit.streams.model.route import Route

_FOLLOW_S = 0.1
_HEALTH_S = 1.0
_TIMES_S = 10.0
_TOPICS_S, _TOPICS_AGAIN_S = 60.0, 5.0
"""Topics are looked at each minute, and once more before a finding counts: a broker may not know the newest one yet."""
T = TypeVar("T")
OpenMember = Callable[[str, str], GroupConsumer]
"""Makes a member of a group: the profile of a cluster, and the group."""


class StreamConsumer:
    """Handles the records of a stream, each at least once, with one kind of handler.

    `handler` and `batch_handler` run in threads (`run`, or `start` and `close`), `async_handler` in the event loop of
    the caller (`run_async`). A handler that returns has done its record; `RejectError`, `RetryLaterError`,
    `DependencyDownError` and every other error say what becomes of it. `route` gives the newest route that is known.
    With a `share` the Assigner says which partitions are read. `route_problem` is why no newer route would be seen now.
    `open_log` makes a reader of the logs of a cluster by its id, for `replay_from`. `check_topics` gets the id of a
    cluster and topics that are read there, and raises `RefusedError` for one that was created again. With an
    `outbox`, of which `handler` is, commits are made in transactions.

    It is running, stopped or failed. It fails by `SystemExit` or `KeyboardInterrupt` of a handler or hook, by a handler
    that returns what means nothing, by rights that are missing or a commit of a newer version, and by whatever else
    ends one of its threads. Then it stops by itself, and that error is raised by what waits for it or closes it.
    """

    def __init__(
        self,
        *,
        group: str,
        route: Callable[[], Route],
        open_member: OpenMember,
        clock: Clock,
        handler: Handler | None = None,
        batch_handler: BatchHandler | None = None,
        async_handler: AsyncHandler | None = None,
        options: ConsumerOptions | None = None,
        hooks: ConsumerHooks | None = None,
        share: GroupShare | None = None,
        route_problem: Callable[[], str] = lambda: "",
        open_log: Callable[[str], LogReader] | None = None,
        check_topics: Callable[[str, Collection[str]], object] | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        if sum(kind is not None for kind in (handler, batch_handler, async_handler)) != 1:
            raise UsageError("a consumer has one handler", hint="give handler, batch_handler or async_handler")
        if not group:
            raise UsageError("a consumer needs the name of its group")
        options, hooks = options or ConsumerOptions(), hooks or ConsumerHooks()
        self._group, self._route, self._open_member, self._clock = group, route, open_member, clock
        self._options, self._hooks, self._share, self._route_problem = options, hooks, share, route_problem
        self._open_log, self._check_topics, self._outbox = open_log, check_topics, outbox
        if outbox is not None:
            outbox.is_over = lambda: self._is_over and not any(reader.is_alive for reader in self._readers.values())
        self._stream = route().stream
        self._life = ConsumerLifecycle(f"the consumer of stream {self._stream} in group {group}")
        self._plan: ReadingPlan = reading_plan(route(), options.lanes)
        self._dependencies = Dependencies(options.work.retry)
        self._answers = Answers(options.work)
        shares = LaneShares(self._plan.weights, options.concurrency, strict=options.strict_live)
        self._shared = SharedWork(shares, clock)
        self._dead_letters: DeadLetterWriter | None = None
        if hooks.reject is not None:
            self._dead_letters = DeadLetterWriter(
                hooks.reject, self._shared, clock, group, lambda: self._plan.epoch, self._life, hooks.spare
            )
        self._threads: ThreadWorkers | None = None
        self._tasks: TaskWorkers | None = None
        count = options.concurrency
        if async_handler is not None:
            self._tasks = TaskWorkers(
                self._shared,
                clock,
                handler=async_handler,
                checkpoint=hooks.checkpoint,
                count=count,
                lifecycle=self._life,
                limit_s=options.handle_s,
            )
        else:
            self._threads = ThreadWorkers(
                self._shared,
                clock,
                handler=handler,
                batch_handler=batch_handler,
                checkpoint=hooks.checkpoint,
                count=count,
                lifecycle=self._life,
            )
        self._readers: dict[str, ClusterReader] = {}
        self._leaving: list[ClusterReader] = []
        self._epoch_read = 0
        self._ending = threading.Lock()
        self._is_over = False
        self._follower = self._life.thread("kafkakit-route", self._follow_route)

    @property
    def state(self) -> ConsumerState:
        """Whether it handles records; `figures().reason` is why it failed."""
        return self._life.state

    def start(self) -> None:
        """Begin to read and to handle, in threads; `close` ends it. Raises what keeps a thread from starting."""
        if self._threads is None:
            raise UsageError("an asynchronous handler runs in an event loop", hint="await run_async()")
        self._begin(self._threads)

    def run(self) -> None:
        """Read and handle until `stop` is called from another thread or a signal handler, then close.

        Raises why the consumer failed.
        """
        self.start()
        try:
            while not self._life.stopping.wait(0.2):
                pass
        except BaseException:  # Ctrl-C
            self.end()
            raise
        self.close()

    async def run_async(self) -> None:
        """Do what `run` does in the running event loop."""
        import asyncio

        if self._tasks is None:
            raise UsageError("a synchronous handler runs in threads", hint="call run(), or start() and close()")
        self._begin()
        handling = asyncio.ensure_future(self._tasks.run())
        try:
            while not self._life.stopping.is_set() and not handling.done():
                await asyncio.wait([handling], timeout=0.2)
            if handling.done() and not handling.cancelled() and (error := handling.exception()) is not None:
                self._life.fail(error)
        finally:
            try:
                await asyncio.to_thread(self.end)
            finally:
                handling.cancel()  # handlers that did not end in time
                await asyncio.gather(handling, return_exceptions=True)
        self._life.raise_error()

    def stop(self) -> None:
        """End soon, as `close` does; returns at once."""
        self._life.stopping.set()

    def close(self) -> None:
        """Finish what handlers have, commit and leave the groups; takes about twice `close_s` at most.

        Raises why the consumer failed.
        """
        self.end()
        self._life.raise_error()

    def end(self) -> None:
        """Do what `close` does, but leave it to `raise_once` to say why the consumer failed."""
        self._life.stopping.set()
        if self._follower.is_alive():
            self._follower.join()
        self._wind_down()

    def raise_once(self) -> None:
        """Raise why it failed, unless `start`, `run`, `run_async` or `close` did."""
        self._life.raise_once()

    def __enter__(self) -> "StreamConsumer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if kind is None:
            self._life.raise_error()

    def replay(self, partition: TopicPartition, start: int, end: int, *, request_id: int = 0) -> None:
        """Handle the offsets `start` to `end` (exclusive) of a partition of this member once more.

        Those that were not handled yet are handled once. Live records continue; the partition's own wait for the read.
        A request with an id that is not 0 is taken up once, also where the partition has gone to another member, as
        long as the window is in its commits.
        """
        window = replay_window(start, end, request_id)
        self._require_no_transform()
        for reader, owned in self._owned():
            if owned.partition == partition:
                reader.request(lambda client, owned=owned: self._reopen(client, owned, window))  # type: ignore[misc]

    def replay_from(
        self, start: datetime, end: datetime | None = None, *, request_id: int = 0
    ) -> tuple[ReplayRange, ...]:
        """Handle again what all partitions of this member have from a time on, up to another one or to now.

        Both are times with a zone. Each partition's offsets are asked of its broker: from the first record at `start`
        or later to before the first one at `end` or later, and what lies between, whatever its time. Returns them, and
        raises before anything is begun: `TryLaterError` for a cluster that does not answer. `request_id` is as for
        `replay`. Waits for brokers, so that it is not for an event loop.
        """
        start_ms, end_ms = replay_times(start, end)
        replay_window(0, 1, request_id)
        self._require_no_transform()
        owned_by = [(reader, owned) for reader, owned in self._owned() if not owned.is_gone]
        asked: list[ReplayRange] = []
        for cluster_id in sorted({owned.identity.cluster_id for _, owned in owned_by}):
            keys = [owned.partition for _, owned in owned_by if owned.identity.cluster_id == cluster_id]
            ranges = self._ranges_at(cluster_id, keys, start_ms, end_ms)
            asked += [ReplayRange(cluster_id, key, span.start, span.stop) for key, span in sorted(ranges.items())]
        windows = {(one.cluster_id, one.partition): replay_window(one.start, one.end, request_id) for one in asked}
        for reader, owned in owned_by:
            window = windows.get((owned.identity.cluster_id, owned.partition))
            if window is not None:
                reader.request(lambda client, owned=owned, window=window: self._reopen(client, owned, window))  # type: ignore[misc]
        return tuple(asked)

    def _require_no_transform(self) -> None:
        if self._outbox is not None:
            raise UsageError(
                "a transform writes for each record once, and a replay would have it do so again",
                hint="replay with a group of its own",
            )

    def rejections_are_durable(self, partition: TopicPartition, offsets: Collection[int]) -> None:
        """Rejected records of this member are durable elsewhere, so that its commits may pass them."""
        with self._shared.lock:
            for _, owned in self._owned():
                if owned.partition == partition and owned.work is not None:
                    for offset in offsets:
                        owned.work.rejection_is_durable(offset)

    def figures(self) -> ConsumerFigures:
        """What the consumer does now. Cost: the runs of done offsets of each partition."""
        with self._shared.lock:
            partitions = tuple(_figures(owned) for _, owned in self._owned())
            hanging = list(self._shared.hanging(self._options.hanging_s))
            parked = self._parked()
            readers = [*self._readers.values(), *self._leaving]
            left = dict[str, WorkCounts]()
            for lane, counts in [found for reader in readers for found in reader.left.items()]:
                add_counts(left.setdefault(lane, WorkCounts()), counts)
        letters, state, reason = self._dead_letters, self._life.state, self._life.reason
        problems = [f"the consumer failed: {reason}"] if state is ConsumerState.FAILED else []
        problems += [found for r in readers if r.is_alive or r not in self._leaving for found in r.problems]
        if route_problem := self._route_problem():
            problems.append(f"epoch {self._plan.epoch} of the route stays in use: {route_problem}")
        if self._share is not None and self._share.problem:
            problems.append(f"the document of this worker is not renewed: {self._share.problem}")
        if letters is not None and letters.last_error:
            problems.append(f"dead letters: {letters.last_error}")
        problems += hanging
        if parked:
            tries = self._options.work.retry.max_tries
            problems.append(f"{count_of(parked, 'record')} failed {tries} times or more; nothing was handled since")
        return ConsumerFigures(
            stream=self._stream,
            group=self._group,
            state=state,
            reason=reason,
            epoch=self._plan.epoch,
            partitions=partitions,
            left=left,
            filtered=sum(reader.filtered for reader in readers),
            unreadable=sum(reader.unreadable for reader in readers),
            commits=sum(reader.commits.written for reader in readers),
            commit_errors=sum(reader.commits.errors for reader in readers),
            reconnects=sum(reader.reconnects for reader in readers),
            dead_letters_written=letters.written if letters is not None else 0,
            dead_letters_failed=letters.failures if letters is not None else 0,
            dependencies_down=self._dependencies.names(),
            problems=tuple(problems),
        )

    def registration(self) -> ClientEntry | None:
        if not self._follower.is_alive():
            return None
        plan, readers = self._plan, dict(self._readers)
        read = (readers[key].epoch_read if key in readers else 0 for key in plan.sources)
        self._epoch_read = max(self._epoch_read, min(read, default=plan.epoch))
        lanes = tuple(sorted(self._options.lanes or ()))
        return ClientEntry(kind=ClientKind.CONSUMER, group=self._group, epoch=self._epoch_read, lanes=lanes)

    def _begin(self, workers: ThreadWorkers | None = None) -> None:
        """Start all threads, or none that stays: what is read by fewer than all would stand still in silence."""
        self._life.begin()
        try:
            if self._dead_letters is not None:
                self._dead_letters.start()
            if self._share is not None:
                self._share.begin()
            self._take_up(self._plan)
            self._follower.start()
            if (is_healthy := self._hooks.is_healthy) is not None:
                self._life.thread("kafkakit-health", lambda: self._ask_health(is_healthy)).start()
            if (check := self._check_topics) is not None:
                self._life.thread("kafkakit-topics", lambda: self._look_at_topics(check)).start()
            if workers is not None:
                workers.start()
        except BaseException as error:
            self._life.fail(error)
            self.end()
            self._life.raise_error()

    def _wind_down(self) -> None:
        """What stops a consumer, once: in the thread of the route, or in that of the caller if there is none."""
        with self._ending, ExitStack() as steps:
            if self._is_over:
                return
            self._is_over = True
            steps.callback(self._life.ended)
            if self._share is not None:
                steps.callback(self._share.leave)
            if self._dead_letters is not None:
                steps.callback(self._dead_letters.close)
            self._shared.stop(self._options.close_s)
            readers = [*self._readers.values(), *self._leaving]
            for reader in readers:
                reader.stop()
            deadline_s = self._clock.monotonic() + self._options.close_s + self._options.revoke_s
            for reader in readers:
                reader.join(max(0.0, deadline_s - self._clock.monotonic()))

    def _follow_route(self) -> None:
        """Take up routes of higher epochs until the consumer is to stop or has failed: then this thread ends it."""
        try:
            while not self._life.stopping.wait(_FOLLOW_S):
                route = self._route()
                if route.epoch > self._plan.epoch:
                    self._take_up(reading_plan(route, self._lanes_of(route)))
        except BaseException as error:
            self._life.fail(error)
        self._wind_down()

    def _ask_health(self, is_healthy: Callable[[], object]) -> None:
        """Note that all answers while records are out of tries and nothing is handled."""
        while not self._life.stopping.wait(_HEALTH_S):
            with self._shared.lock:
                count, parked = self._answers.count, self._parked()
            if not parked:
                continue
            try:
                answers = bool(is_healthy())
            except Exception:
                answers = False
            with self._shared.lock:
                if answers and count == self._answers.count:
                    self._answers.answered()
                    self._shared.announce()

    def _look_at_topics(self, check: Callable[[str, Collection[str]], object]) -> None:
        """Fail for a topic that was created again: reading notices only that a log is shorter than what was read."""
        found: RefusedError | None = None
        while not self._life.stopping.wait(_TOPICS_AGAIN_S if found else _TOPICS_S):
            before, found = found, None
            for cluster_id, sources in sorted(self._plan.sources.items()):
                try:
                    check(cluster_id, tuple(sources))
                except RefusedError as error:
                    found = found or error
                except Exception:  # the cluster does not answer, or not this user; reading tells of that
                    continue
            if found is not None and str(found) == str(before):
                self._life.fail(found)

    def _lanes_of(self, route: Route) -> Collection[str] | None:
        """The lanes that are read and still there."""
        wanted = self._options.lanes
        return None if wanted is None else [name for name in wanted if route.lane(name) is not None]

    def _take_up(self, plan: ReadingPlan) -> None:
        before, self._plan = self._plan, plan
        self._shared.update_lanes(plan.weights)
        for cluster_id, sources in plan.sources.items():
            reader = self._readers.get(cluster_id)
            if reader is None:
                reader = self._readers[cluster_id] = self._reader(cluster_id, plan.profiles[cluster_id])
                reader.follow(plan.epoch, sources)
                reader.start()
            reader.follow(plan.epoch, sources)
            if replaced := replaced_topics(before.sources.get(cluster_id, {}), sources):
                reader.request(partial(_begin_anew, replaced))
        for cluster_id in [known for known in self._readers if known not in plan.sources]:
            leaving = self._readers.pop(cluster_id)
            leaving.stop()
            self._leaving.append(leaving)  # for as long as the consumer, since its counts are the consumer's

    def _reader(self, cluster_id: str, profile: str) -> ClusterReader:
        return ClusterReader(
            stream=self._stream,
            group=self._group,
            cluster_id=cluster_id,
            open_member=lambda: self._open_member(profile, self._group),
            shared=self._shared,
            dependencies=self._dependencies,
            answers=self._answers,
            dead_letters=self._dead_letters,
            options=self._options,
            hooks=self._hooks,
            clock=self._clock,
            lifecycle=self._life,
            is_grouped=lambda: self._share is None or self._share.is_grouped,
            outbox=self._outbox,
        )

    def _owned(self) -> list[tuple[ClusterReader, OwnedPartition]]:
        readers: Mapping[str, ClusterReader] = dict(self._readers)
        ordered = [*(reader for _, reader in sorted(readers.items())), *self._leaving]
        return [(reader, owned) for reader in ordered for owned in list(reader.owned.values())]

    def _ranges_at(
        self, cluster_id: str, keys: Collection[TopicPartition], start_ms: int, end_ms: int | None
    ) -> Mapping[TopicPartition, range]:
        if self._open_log is None:
            raise UsageError("this consumer cannot ask for the offsets of a time")
        with closing(self._open_log(cluster_id)) as log:
            if (found := log.cluster_id()) != cluster_id:
                raise RefusedError(
                    f"cluster {found} answers in place of {cluster_id}", hint="check the profile's address"
                )
            starts = self._asked_of(keys, lambda some: log.offsets_at(dict.fromkeys(some, start_ms)))
            with_start = [key for key, offset in starts.items() if offset is not None]
            stops: Mapping[TopicPartition, int | None] = {}
            if end_ms is not None:
                stops = self._asked_of(with_start, lambda some: log.offsets_at(dict.fromkeys(some, end_ms)))
            spans = self._asked_of([key for key in with_start if stops.get(key) is None], log.spans)
        return replay_ranges(starts, stops, {key: span.end for key, span in spans.items()})

    def _asked_of(
        self,
        keys: Collection[TopicPartition],
        ask: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, T | ItemError]],
    ) -> dict[TopicPartition, T]:
        """What brokers answer for each partition; leaders that have moved are asked again for a while."""
        found, left = dict[TopicPartition, T](), list(keys)
        for _ in repeat_every(self._clock, _FOLLOW_S, _TIMES_S) if left else ():
            failed: dict[TopicPartition, ItemError] = {}
            for key, answer in ask(left).items():
                if isinstance(answer, ItemError):
                    failed[key] = answer
                else:
                    found[key] = answer
            for key, error in failed.items():
                words = f"the offsets of {key} cannot be asked for: {error}"
                if error.is_denied:
                    raise OperationFailedError(words, hint="it needs the right DESCRIBE on the topic")
                if not error.retriable:
                    raise TryLaterError(words)
            left = list(failed)
            if not left:
                break
        if left:
            raise TryLaterError(f"the offsets of {left[0]} cannot be asked for: {failed[left[0]]}")
        return found

    def _parked(self) -> int:
        return sum(owned.work.parked for _, owned in self._owned() if owned.work is not None)

    def _reopen(self, client: GroupConsumer, owned: OwnedPartition, window: ReplayWindow) -> None:
        with self._shared.lock:
            went_back = owned.work is not None and owned.work.open_again(window)
        if went_back and owned.work is not None and not owned.is_gone:
            client.seek(owned.partition, owned.work.position)


def _begin_anew(replaced: Collection[str], client: GroupConsumer) -> None:
    """For the thread of a reader: without a commit it goes on as another member, which reads the new topics."""
    del client
    raise TryLaterError(f"{', '.join(sorted(replaced))}: the route has another topic of this name now")


class DeserializedRead:
    """A record with its key and value deserialized; implements `ReadRecord` but for their types."""

    __slots__ = ("_key", "_read", "_value")

    def __init__(self, read: ReadRecord, key: Any, value: Any) -> None:
        self._read, self._key, self._value = read, key, value

    def offset(self) -> int:
        return self._read.offset()

    def key(self) -> Any:
        """What the deserializer made of it."""
        return self._key

    def value(self) -> Any:
        """What the deserializer made of it."""
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return self._read.timestamp()

    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        return headers_of(self._read)

    def __len__(self) -> int:
        return len(self._read)


class DeserializedHandlers:
    """Puts deserializers before the handlers of a stream; where there is no handler, there is none after it.

    What a deserializer raises is a failure of its record alone, as `deserialization_failure` says. A batch goes to its
    handler without such records and, in `mode`, without the later ones of their key.
    """

    def __init__(self, stream: str, hooks: ConsumerHooks, mode: Mode, make_context: MakeContext) -> None:
        self._stream, self._mode, self._make_context = stream, mode, make_context
        self._of_key, self._of_value = hooks.key_deserializer, hooks.value_deserializer

    def single(self, handler: Handler | None) -> Handler | None:
        """A handler of records."""

        def deserialized(record: StreamRecord) -> object:
            return handler(self._record(record))  # type: ignore[misc]

        return handler and deserialized

    def asynchronous(self, handler: AsyncHandler | None) -> AsyncHandler | None:
        """An asynchronous handler; its deserializers run in the event loop."""

        def deserialized(record: StreamRecord) -> Awaitable[object]:
            return handler(self._record(record))  # type: ignore[misc]

        return handler and deserialized

    def batch(self, handler: BatchHandler | None) -> BatchHandler | None:
        """A handler of batches."""

        def deserialized(records: Sequence[StreamRecord]) -> Mapping[int, BaseException] | None:
            good, failed = self._batch(records)
            if not failed:
                return handler(list(good.values()))  # type: ignore[misc]
            positions = list(good)
            try:
                returned = handler(list(good.values())) if good else None  # type: ignore[misc]
            except (*EXITS, WrongReturnError):
                raise
            except BaseException as error:
                return failed | dict.fromkeys(positions, error)
            errors = failed_positions(returned, len(positions))
            return failed | {positions[at]: error for at, error in errors.items()}

        return handler and deserialized

    def _batch(self, records: Sequence[StreamRecord]) -> tuple[dict[int, StreamRecord], dict[int, BaseException]]:
        """What the handler gets, and the errors, by position; neither has those that must wait for one that failed."""
        good: dict[int, StreamRecord] = {}
        failed: dict[int, BaseException] = {}
        behind: set[object] = set()
        for position, record in enumerate(records):
            order = self._order_of(record) if failed else None
            if order is not None and order in behind:
                continue
            try:
                good[position] = self._record(record)
            except EXITS:
                raise
            except BaseException as error:
                failed[position] = error
                behind.add(self._order_of(record))
        return good, failed

    def _order_of(self, record: StreamRecord) -> object:
        return record.key if self._mode is Mode.KEY else self._mode if self._mode is Mode.PARTITION else None

    def _record(self, record: StreamRecord) -> StreamRecord:
        read, origin, tries = record
        headers = list(headers_of(read))
        key, value = read.key(), read.value()
        if self._of_key is not None:
            key = self._part("key", self._of_key, key, headers)
        if self._of_value is not None:
            value = self._part("value", self._of_value, value, headers)
        return StreamRecord((DeserializedRead(read, key, value), origin, tries))

    def _part(
        self, part: str, deserialize: Deserializer, content: bytes | None, headers: list[tuple[str, bytes | None]]
    ) -> Any:
        try:
            return deserialize(content, self._make_context(self._stream, part, headers))
        except EXITS:
            raise
        except BaseException as error:
            found = deserialization_failure(error, part)
            if found is error:
                raise
            raise found from error


def _figures(owned: OwnedPartition) -> PartitionFigures:
    work, counts = owned.work, owned.work.counts if owned.work is not None else None
    end = owned.end
    return PartitionFigures(
        cluster_id=owned.identity.cluster_id,
        partition=owned.partition,
        lane=owned.origin.source.lane,
        base=work.base if work is not None else 0,
        lag=max(0, end - work.base) if work is not None and end is not None else None,
        buffered=work.buffered_records if work is not None else 0,
        in_flight=work.in_flight if work is not None else 0,
        waiting=work.pending_failures if work is not None else 0,
        undurable=work.undurable if work is not None else 0,
        commit_fill=work.commit_fill if work is not None else 0.0,
        duplicates=work.done_beyond(owned.written) if work is not None and owned.written is not None else 0,
        handled=counts.handled if counts is not None else 0,
        failures=counts.failures if counts is not None else 0,
        retries=counts.retries if counts is not None else 0,
        rejected=counts.rejected if counts is not None else 0,
        deferred=counts.deferred if counts is not None else 0,
        gone=counts.gone if counts is not None else 0,
        replayed=counts.replayed if counts is not None else 0,
        is_paused=owned.is_paused,
    )
