"""What an application holds: its streams' routes, the clusters behind them, and the producers and consumers on top."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from kafkakit.core.errors import RefusedError, TryLaterError, UsageError
from kafkakit.core.lease import Holder
from kafkakit.core.records import OutgoingRecord
from kafkakit.core.text import shell_command
from kafkakit.ports.acting import Clock
from kafkakit.ports.data import LogReader
from kafkakit.ports.stores import ControlStore
from kafkakit.ports.streams import (
    AssignedConsumer,
    GroupConsumer,
    MemberRule,
    StreamCluster,
    StreamProducer,
    TransactionalConsumer,
    TransactionRule,
)
from kafkakit.streams.client.assigned_member import AssignedMember, GroupShare, WorkerMeter, WorkerOptions, WorkSession
from kafkakit.streams.client.cluster_reader import Outbox, Transform
from kafkakit.streams.client.consumer import DeserializedHandlers, OpenMember, StreamConsumer
from kafkakit.streams.client.control_store import ClientRegistrar, RouteFollower, RouteRules
from kafkakit.streams.client.dead_letters import (
    BatchGuard,
    ConsumerHooks,
    ConsumerOptions,
    DeadLetterLane,
    LedgerPorts,
    RejectReferences,
    RejectSink,
    RetryLane,
    until_due,
    with_references,
)
from kafkakit.streams.client.decide.figures import ConsumerFigures, ProducerMetrics
from kafkakit.streams.client.decide.outgoing import (
    MissingTopicError,
    ProducerLimits,
    RecordRefusedError,
    check_place,
    check_topic,
    check_unmoved,
    transform_place,
)
from kafkakit.streams.client.producer import (
    AsyncProducer,
    DualPolicy,
    DualProducer,
    MakeContext,
    Producer,
    RecordHooks,
    RecordParts,
    SerializingProducer,
)
from kafkakit.streams.client.watch import AgentSender, TracedHandlers, WatchParts
from kafkakit.streams.client.workers import AsyncHandler, BatchHandler, Handler
from kafkakit.streams.model.route import DLQ, LIVE, RETRY, Route, Segment, lane_client_id

if TYPE_CHECKING:
    from kafkakit.streams.lanes.api_act import RejectLedger

IDENTIFY_S = 5.0
LEDGER_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientParts:
    """What the client is made of; the functions reach the cluster of a profile, `UsageError` for one that is not there.

    `open_member` makes a member of the group that it gets as second argument, `open_guarded` one that judges batches
    before it decodes them. Without `open_ledger` no reference to a rejected record is written. `holder` is this
    process, as it registers itself. `contexts` are for serializers, `open_transactional` for transforms. With
    `assigned` it is a worker of the Assigner.
    """

    store: ControlStore
    open_cluster: Callable[[str], StreamCluster]
    open_member: Callable[[str, str, MemberRule], GroupConsumer]
    open_guarded: Callable[[str, str, MemberRule], GroupConsumer]
    open_log: Callable[[str], LogReader]
    clock: Clock
    random_bytes: Callable[[int], bytes]
    holder: Holder
    watch: WatchParts = field(default_factory=WatchParts)
    open_ledger: Callable[[str], LedgerPorts] | None = None
    contexts: Callable[[], MakeContext] | None = None
    open_transactional: Callable[[str, str, MemberRule, TransactionRule], TransactionalConsumer] | None = None
    assigned: "AssignedParts | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedParts:
    """What a worker of the Assigner is made of: how it opens readers, its options, its CPU time and its memory."""

    open_assigned: Callable[[str, str], AssignedConsumer]
    options: WorkerOptions
    cpu_s: Callable[[], float]
    memory_bytes: Callable[[], int]


class StreamClient:
    """Producers and consumers of streams by name; thread-safe. Closing it closes what it gave out."""

    def __init__(self, parts: ClientParts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._followers_lock = threading.Lock()
        self._followers: dict[str, RouteFollower] = {}
        self._registrars: dict[str, ClientRegistrar] = {}
        self._clusters: dict[str, StreamCluster] = {}
        self._opening_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._producers: list[Producer | DualProducer] = []
        self._consumers: list[StreamConsumer] = []
        self._logs: dict[str, LogReader] = {}
        self._watch = AgentSender(parts.watch, parts.clock, self.metrics, self.figures)
        self._ledgers: list[LedgerPorts] = []
        self._is_closed = False
        self._session: WorkSession | None = None
        if parts.assigned is not None:
            made = parts.assigned
            meter = WorkerMeter(parts.clock, made.cpu_s, made.memory_bytes, self._handled)
            self._session = WorkSession(
                parts.store, parts.holder, parts.clock, parts.random_bytes, made.options, meter.read
            )

    def producer(
        self, stream: str, *, limits: ProducerLimits | None = None, hooks: RecordHooks | None = None
    ) -> Producer:
        """A producer; connects with the first record. `UsageError` for a stream that is not there, `TryLaterError`
        while the control store is away."""
        found = self._made(stream, limits, hooks)
        self._producers.append(found)
        return found

    def dual_producer(
        self,
        stream: str,
        secondary: str,
        policy: DualPolicy,
        *,
        limits: ProducerLimits | None = None,
        hooks: RecordHooks | None = None,
    ) -> DualProducer:
        """A producer for two streams at once; raises as `producer`."""
        if stream == secondary:
            raise UsageError(f"a dual write needs two streams, and both are {stream}")
        self.follower(secondary)  # before anything is opened that would have to be closed
        first, second = self._made(stream, limits, hooks), self._made(secondary, limits, hooks)
        try:
            found = DualProducer(first, second, policy, self._parts.clock)
        except BaseException:
            first.close(0)
            second.close(0)
            raise
        self._producers.append(found)
        return found

    def async_producer(
        self, stream: str, *, limits: ProducerLimits | None = None, hooks: RecordHooks | None = None
    ) -> AsyncProducer:
        """A producer for asyncio; raises as `producer`, and reads the route once without asyncio."""
        return AsyncProducer(self.producer(stream, limits=limits, hooks=hooks))

    def consumer(
        self,
        stream: str,
        group: str,
        *,
        handler: Handler | None = None,
        batch_handler: BatchHandler | None = None,
        async_handler: AsyncHandler | None = None,
        options: ConsumerOptions | None = None,
        hooks: ConsumerHooks | None = None,
    ) -> StreamConsumer:
        """A consumer, to be started; raises as `producer`.

        Unless hooks say otherwise, rejected records go to the lane `dlq` where the stream has one, and so does a note
        of each batch that is too large to be decoded. Without the lane, and where it cannot be written while a
        partition is full, a reference to the record goes to the reject ledger of its cluster.
        """
        return self._composed(stream, group, handler, batch_handler, async_handler, options, hooks, None)

    def transformer(
        self,
        source: str,
        group: str,
        target: str,
        *,
        transform: Transform,
        lane: str = LIVE,
        target_lane: str = LIVE,
        options: ConsumerOptions | None = None,
        hooks: ConsumerHooks | None = None,
        record_hooks: RecordHooks | None = None,
        limits: ProducerLimits | None = None,
    ) -> StreamConsumer:
        """A consumer that writes to another stream, each output once: in a transaction with the commit of its record.

        `transform` gets a record and what takes its outputs. Both lanes must be on one cluster, and the one that is
        read must have one segment: `InfeasibleError` else. It fails with that later when a route moves on, before it
        writes anything else. Raises as `consumer`.
        """
        options = _transform_options(options or ConsumerOptions(), lane, is_worker=self._session is not None)
        routes = self.follower(source), self.follower(target)
        began = transform_place(routes[0].current(), lane, routes[1].current(), target_lane)
        limits, connect = limits or ProducerLimits(), self._parts.open_transactional
        if connect is None:
            raise UsageError("this client makes no transactions")
        writer = self._made(target, limits, record_hooks)
        self._producers.append(writer)

        def place() -> str:
            now = transform_place(routes[0].current(), lane, routes[1].current(), target_lane)
            check_unmoved(began, now)
            return now.target.topic

        def make(value: object, key: object, parts: RecordParts) -> tuple[OutgoingRecord, int]:
            record, size = writer.outgoing(value, key, target_lane, parts)
            if record.partition is not None and record.partition >= began.target.partitions:
                raise RecordRefusedError(f"{began.target.topic} has {began.target.partitions} partitions")
            return record, size

        outbox = Outbox(place, lambda: routes[1].epoch, make)
        name = options.member.instance or self._parts.random_bytes(8).hex()
        rule = TransactionRule(
            transactional_id=f"kafkakit.{source}.{group}.{name}",
            client_id=lane_client_id(target, target_lane),
            limits=limits.of_connection,
        )

        def open_member(profile: str, name: str) -> GroupConsumer:
            found = self._cluster(began.target.cluster).identify(began.target.topic, IDENTIFY_S)
            check_place(target, target_lane, began.target, found)
            outbox.member = connect(profile, name, options.member, rule)
            return outbox.member

        transaction = Transaction(outbox, open_member, place)
        made = self._composed(source, group, outbox.handler(transform), None, None, options, hooks, transaction)
        self._registrars[target].add(outbox)
        return made

    def _composed(
        self,
        stream: str,
        group: str,
        handler: Handler | None,
        batch_handler: BatchHandler | None,
        async_handler: AsyncHandler | None,
        options: ConsumerOptions | None,
        hooks: ConsumerHooks | None,
        transaction: "Transaction | None",
    ) -> StreamConsumer:
        follower, hooks, options = self.follower(stream), hooks or ConsumerHooks(), options or ConsumerOptions()
        open_by_rule = self._parts.open_guarded if options.strict_guard else self._parts.open_member

        def as_member(profile: str, name: str) -> GroupConsumer:
            return open_by_rule(profile, name, options.member)

        open_member: OpenMember = as_member if transaction is None else transaction.open_member
        share = None
        if self._session is not None:
            if options.strict_guard:
                raise UsageError("strict_guard is for members of Kafka's groups", hint="connect without a worker")
            share = GroupShare(self._session, stream, group, options.lanes, lambda: follower.epoch)
            open_member = self._opening(follower, share, options)
        has_sink, lane = hooks.reject is not None, None
        if follower.current().lane(DLQ) is not None and (hooks.reject is None or hooks.guard is None):
            lane = self._letters(stream)
            guard = BatchGuard(lambda cluster: self._log(follower, cluster), lane, group, self._parts.clock)
            hooks = replace(hooks, reject=hooks.reject or lane, guard=hooks.guard or guard)
        if options.retry_after_s:
            last = _sink_after_retries(follower.current(), options, hooks)
            hooks = replace(hooks, reject=RetryLane(options.retry_after_s, lane or self._letters(stream), last))
        if self._parts.open_ledger is not None and not has_sink:
            hooks = with_references(hooks, RejectReferences(lambda cluster_id: self._ledger(follower, cluster_id)))
        if hooks.key_deserializer is not None or hooks.value_deserializer is not None:
            made = DeserializedHandlers(stream, hooks, options.work.mode, self._make_context())
            handler, batch_handler = made.single(handler), made.batch(batch_handler)
            async_handler = made.asynchronous(async_handler)
        hooks, spans = self._watch.consumer_hooks(stream, group, hooks), self._watch.open_spans()
        if options.retry_after_s:
            hooks = replace(hooks, checkpoint=until_due(group, self._parts.clock, hooks.checkpoint))
        if spans is not None:
            traced = TracedHandlers(spans, group)
            handler, batch_handler = traced.single(handler), traced.batch(batch_handler)
            async_handler = traced.asynchronous(async_handler)
        found = StreamConsumer(
            group=group,
            route=follower.current if transaction is None else transaction.checked(follower.current),
            open_member=lambda profile, name: self._member(follower, profile, name, open_member),
            clock=self._parts.clock,
            handler=handler,
            batch_handler=batch_handler,
            async_handler=async_handler,
            options=options,
            hooks=hooks,
            share=share,
            route_problem=lambda: follower.condition().problem,
            open_log=lambda cluster_id: self._parts.open_log(follower.current().clusters[cluster_id]),
            check_topics=lambda cluster_id, topics: self._check_topics(follower, cluster_id, topics),
            outbox=None if transaction is None else transaction.outbox,
        )
        self._consumers.append(found)
        self._registrars[stream].add(found)
        return found

    def _letters(self, stream: str) -> DeadLetterLane:
        """A producer for rejected records, which keep their headers."""
        letters = self._made(stream, None, None, is_watched=False)
        self._producers.append(letters)
        return DeadLetterLane(letters)

    def follower(self, stream: str) -> RouteFollower:
        """The newest route of a stream; one follower for all who ask. Raises as `producer`."""
        parts = self._parts
        with self._followers_lock:
            if self._is_closed:  # what is made now would not follow the route, nor be registered
                raise UsageError("the client is closed: no producer or consumer can be made of it")
            if stream not in self._followers:
                follower = RouteFollower(parts.store, stream, parts.clock)
                follower.start()
                self._registrars[stream] = ClientRegistrar(
                    parts.store, stream, parts.holder, parts.clock, parts.random_bytes, follower.refresh
                )
                self._followers[stream] = follower
            return self._followers[stream]

    def metrics(self) -> tuple[ProducerMetrics, ...]:
        """What each producer counted, in the order of making; a dual one is two."""
        pairs = ((p.primary, p.secondary) if isinstance(p, DualProducer) else (p,) for p in tuple(self._producers))
        return tuple(producer.metrics() for pair in pairs for producer in pair)

    def figures(self) -> tuple[ConsumerFigures, ...]:
        """What each consumer does now, in the order of making."""
        return tuple(consumer.figures() for consumer in tuple(self._consumers))

    def exposition(self) -> str:
        """Producers, consumers and pathways as Prometheus reads them; docs/streams-client.md has all names."""
        return self._watch.exposition()

    @property
    def page_address(self) -> str:
        """Where `/metrics` is shown, as HOST:PORT; empty unless `WatchOptions.listen` was given."""
        return self._watch.address

    def close(self, timeout_s: float = 30.0) -> None:
        """Close consumers, then producers within one time limit; the control store is let go of in the background.

        Raises at the end why a consumer failed, unless its own `run` or `close` raised that.
        """
        with ExitStack() as after:
            self._close(timeout_s, after)

    def _close(self, timeout_s: float, after: ExitStack) -> None:
        self._is_closed = True  # without the lock, which a thread holds while a store that hangs is read
        for consumer in self._consumers:
            after.callback(consumer.raise_once)
            with suppress(Exception):
                consumer.end()
        until_s = self._parts.clock.monotonic() + timeout_s
        for producer in self._producers:
            producer.close(max(0.0, until_s - self._parts.clock.monotonic()))
        if self._session is not None:
            self._session.close()
        for registrar in self._registrars.values():
            registrar.close()
        for follower in self._followers.values():
            follower.stop()
        self._watch.close()
        threading.Thread(target=self._let_go, name="kafkakit-close", daemon=True).start()

    def __enter__(self) -> "StreamClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # what ended the block is not replaced
            self._close(30.0, ExitStack())

    def _let_go(self) -> None:
        for registrar in self._registrars.values():
            registrar.join()
        for follower in self._followers.values():
            follower.join()
        self._parts.store.close()
        for log in self._logs.values():
            log.close()
        for ports in self._ledgers:
            ports.admin.close()

    def _made(
        self, stream: str, limits: ProducerLimits | None, hooks: RecordHooks | None, *, is_watched: bool = True
    ) -> Producer:
        limits, follower, hooks = limits or ProducerLimits(), self.follower(stream), hooks or RecordHooks()
        if hooks.choose_lane is None:
            hooks = replace(hooks, choose_lane=RouteRules(follower))
        if is_watched:
            hooks = self._watch.record_hooks(stream, hooks)
        make: Callable[..., Producer] = Producer
        if hooks.key_serializer is not None or hooks.value_serializer is not None:
            make = partial(SerializingProducer, make_context=self._make_context())
        found = make(
            follower,
            lambda lane, segment: self._opened(stream, lane, segment, limits),
            self._parts.clock,
            self._parts.random_bytes,
            limits,
            hooks,
        )
        try:
            self._registrars[stream].add(found)
        except BaseException:
            found.close(0)
            raise
        return found

    def _make_context(self) -> MakeContext:
        if self._parts.contexts is None:
            raise UsageError("this client makes no contexts for serializers")
        return self._parts.contexts()

    def _handled(self) -> int:
        return sum(each.total("handled") for each in self.figures())

    def _opening(self, follower: RouteFollower, share: GroupShare, options: ConsumerOptions) -> OpenMember:
        """Opens what reads by the Assigner's word, or a member of the group while there is no Assigner."""

        def opened(profile: str, group: str) -> GroupConsumer:
            made = self._parts.assigned
            ids = {name: cluster_id for cluster_id, name in follower.current().clusters.items()}
            if made is None or share.is_grouped or profile not in ids:
                return self._parts.open_member(profile, group, options.member)
            consumer = made.open_assigned(profile, group)
            return AssignedMember(consumer, share, ids[profile], self._parts.clock, options.commit)

        return opened

    def _member(self, follower: RouteFollower, profile: str, group: str, open_member: OpenMember) -> GroupConsumer:
        """A member on a cluster that was checked: an address alone does not tell which cluster answers."""
        route, missing, found = follower.current(), list[MissingTopicError](), 0
        for lane, segment in route.segments():
            if segment.cluster != profile:
                continue
            try:
                check_place(
                    route.stream, lane.name, segment, self._cluster(profile).identify(segment.topic, IDENTIFY_S)
                )
                found += 1
            except MissingTopicError as error:
                missing.append(error)
        if missing and not found:  # else the other topics can be read
            raise missing[0]
        return open_member(profile, group)

    def _check_topics(self, follower: RouteFollower, cluster_id: str, topics: Collection[str]) -> None:
        """`RefusedError` where one of these topics is not the one of the route now."""
        route = follower.current()
        segments = [each for each in route.segments() if each[1].cluster_id == cluster_id and each[1].topic in topics]
        if not segments:
            return
        found = self._cluster(route.clusters[cluster_id]).identify_all(topics, IDENTIFY_S)
        for lane, segment in segments:
            if found[segment.topic].cluster_id == cluster_id:
                check_topic(route.stream, lane.name, segment, found[segment.topic])

    def _log(self, follower: RouteFollower, cluster_id: str) -> LogReader:
        with self._lock:
            if cluster_id not in self._logs:
                self._logs[cluster_id] = self._parts.open_log(follower.current().clusters[cluster_id])
            return self._logs[cluster_id]

    def _ledger(self, follower: RouteFollower, cluster_id: str) -> "RejectLedger":
        from kafkakit.streams.lanes.api_act import RejectLedger  # what it comes with is needed only here

        if self._parts.open_ledger is None:
            raise UsageError("this client has no reject ledger")
        ports = self._parts.open_ledger(follower.current().clusters[cluster_id])
        try:
            found = ports.admin.cluster().cluster_id
            if found != cluster_id:
                raise RefusedError(f"records of cluster {cluster_id} cannot be noted on cluster {found}")
        except BaseException:
            ports.admin.close()
            raise
        self._ledgers.append(ports)
        return RejectLedger(ports, self._parts.clock, wait_s=LEDGER_S)

    def _opened(self, stream: str, lane: str, segment: Segment, limits: ProducerLimits) -> StreamProducer:
        """A producer for a segment whose cluster and topic were checked; it connects while they are."""
        cluster = self._cluster(segment.cluster)
        producer = cluster.producer(segment.topic, limits.of_connection, lane_client_id(stream, lane))
        try:
            check_place(stream, lane, segment, cluster.identify(segment.topic, IDENTIFY_S))
        except TryLaterError:
            with self._lock:
                if self._clusters.get(segment.cluster) is cluster:
                    del self._clusters[segment.cluster]  # the profile may have another address by now
            producer.close()
            raise
        except BaseException:
            producer.close()
            raise
        return producer

    def _cluster(self, profile: str) -> StreamCluster:
        with self._lock:
            opening = self._opening_locks[profile]
        with opening:  # one thread opens it, and other profiles do not wait for it
            with self._lock:
                found = self._clusters.get(profile)
            if found is None:
                found = self._parts.open_cluster(profile)
                with self._lock:
                    self._clusters[profile] = found
        return found


@dataclass(frozen=True, slots=True)
class Transaction:
    """What makes a consumer a transform: its outbox, how it opens members, and the check of its routes."""

    outbox: Outbox
    open_member: OpenMember
    place: Callable[[], str]

    def checked(self, current: Callable[[], Route]) -> Callable[[], Route]:
        """The route, unless it has moved on: then an error, which ends the consumer."""

        def route() -> Route:
            with suppress(TryLaterError):  # a lane is paused
                self.place()
            return current()

        return route


def _transform_options(options: ConsumerOptions, lane: str, *, is_worker: bool) -> ConsumerOptions:
    """The options with the lane that is read; `UsageError` for those that a transaction cannot hold."""
    for is_given, name, why in (
        (
            is_worker,
            "worker",
            "brokers fence members of Kafka's groups, and the Assigner's commits are none of a member",
        ),
        (options.strict_guard, "strict_guard", "it reads beside the group"),
        (bool(options.retry_after_s), "retry_after_s", "the lane retry is written outside of the transaction"),
        (options.lanes is not None, "lanes", "a transform reads one lane; name it in lane"),
    ):
        if is_given:
            raise UsageError(f"a transform has no {name}: {why}", hint=f"leave {name} out")
    return replace(options, lanes=(lane,))


def _sink_after_retries(route: Route, options: ConsumerOptions, hooks: ConsumerHooks) -> RejectSink:
    """What takes records that fail in the lane `retry` too; `UsageError` if that lane, or such a sink, is missing."""
    if route.lane(RETRY) is None:
        add = shell_command("streams lane add", route.stream, RETRY)
        raise UsageError(f"retry_after_s: stream {route.stream} has no lane {RETRY}", hint=str(add))
    if options.lanes is not None and RETRY not in options.lanes:
        raise UsageError(f"retry_after_s: this consumer does not read the lane {RETRY}", hint="name it in lanes")
    if hooks.reject is None:
        words = f"retry_after_s: stream {route.stream} has no lane {DLQ} for what fails in the lane {RETRY}"
        raise UsageError(words)
    return hooks.reject
