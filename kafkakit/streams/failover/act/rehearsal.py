"""A rehearsal: a shadow of the stream is made, loaded and failed over as the stream would be, and removed.

The shadow is made like the stream, and removed without a trace, by whichever process comes next. The load is a producer
that writes every lane of the shadow stream, and a consumer that counts.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Protocol

from kafkakit.core.cluster_facts import AclResourceKind, LogSpan, ResourceKind
from kafkakit.core.errors import (
    ConflictError,
    KafkakitError,
    LeaseLostError,
    OperationFailedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.lease import LEASE_DOCUMENT
from kafkakit.core.quantities import epoch_ms
from kafkakit.execution.act.leases import GuardedAdmin
from kafkakit.ports.acting import Clock, pause, wait_until
from kafkakit.ports.data import ClusterClients
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.client.api_act import (
    BackPressureError,
    ConsumerOptions,
    Delivery,
    Producer,
    StreamClient,
    StreamRecord,
)
from kafkakit.streams.failover.act.closing import newest_certificate
from kafkakit.streams.failover.act.observing import check_certificate
from kafkakit.streams.failover.act.operations import Planner
from kafkakit.streams.failover.act.run import FailoverParts
from kafkakit.streams.failover.decide.history import (
    MOST_KEPT,
    REHEARSAL_DOCUMENT,
    EndKind,
    LoadFigures,
    Rehearsal,
    RehearsalOutcome,
    lanes_to_rehearse,
    measured_rate,
    rehearsals_folder,
)
from kafkakit.streams.failover.decide.operation import FailoverRequest, Step, lease_of
from kafkakit.streams.model.route import Lane, Route, Segment, partitions_of
from kafkakit.streams.routes.api_act import (
    LaneShape,
    OpenCluster,
    PlacementScope,
    RouteStore,
    create_topics,
    find_topics,
    own_settings,
    plan_on,
)

MEASURE_S = 5.0
FLOWS_S = 60.0
HANDLED_S = 60.0


class ShadowLoad(Protocol):
    """What writes and reads the shadow."""

    def figures(self) -> LoadFigures:
        """What was done until now."""
        ...

    def end_writing(self) -> None:
        """Send no more, and wait for the answers."""
        ...


OpenLoad = Callable[[Rehearsal, tuple[str, ...]], AbstractContextManager[ShadowLoad]]
"""The load of a rehearsal on these lanes, while the context is open."""


class RehearsalHistory:
    """The rehearsals of one stream in the control store; one document each, the newest `MOST_KEPT` are kept."""

    def __init__(self, store: ControlStore, stream: str) -> None:
        self._store, self._folder = store, rehearsals_folder(stream)

    def read(self) -> tuple[Rehearsal, ...]:
        """All that are kept, oldest first."""
        return tuple(
            REHEARSAL_DOCUMENT.stored(found.value, f"{self._folder}/{name}")
            for name, found in sorted(self._store.values(self._folder).items())
        )

    def write(self, rehearsal: Rehearsal) -> None:
        """Keep a rehearsal as it is now, in place of what was kept of it; the oldest ones are removed for it."""
        path = f"{self._folder}/{rehearsal.id}"
        found = self._store.get(path)
        self._store.cas(path, REHEARSAL_DOCUMENT.encode(rehearsal), None if found is None else found.version)
        kept = sorted(self._store.values(self._folder).items())
        for name, old in kept[: max(0, len(kept) - MOST_KEPT)]:
            self._store.delete(f"{self._folder}/{name}", old.version)


class ShadowStream:
    """Makes and removes the stream of a name; `guard` is called before each change of a cluster or of the store."""

    def __init__(
        self, name: str, store: ControlStore, clock: Clock, open_cluster: OpenCluster, guard: Callable[[], None]
    ) -> None:
        self._name, self._store, self._clock, self._open, self._guard = name, store, clock, open_cluster, guard

    def make(self, lanes: Sequence[Lane], by: str) -> Route:
        """A topic for each lane, with the partitions, replicas and settings of the one that is written, and a route."""
        made = []
        for number, lane in enumerate(lanes, 1):
            if lane.active is None:
                raise UsageError(f"lane {lane.name} has no active segment")
            segment = replace(self._topic(lane.name, lane.active), id=number)
            made.append(replace(lane, segments=(segment,), is_paused=False, quota_bytes_per_s=None))
        route = Route(stream=self._name, epoch=1, next_segment=len(made) + 1, lanes=tuple(made))
        self._guard()
        return RouteStore(self._store).create(
            route, by=by, what="shadow for a rehearsal", at_ms=epoch_ms(self._clock.now())
        )

    def remove(self, profiles: Collection[str]) -> tuple[str, ...]:
        """Delete topics, their ACLs, the group and all documents but the lease; returns what was there, in words.

        Topics are known by the shadow's name at the beginning of theirs, which no other stream may have.
        """
        found: list[str] = []
        for profile in sorted(set(profiles)):
            found += self._remove_from(profile)
        clients = f"streams/{self._name}/clients"
        wait_until(self._clock, CLIENTS_S, lambda: not self._store.children(clients))
        if self._forget(f"streams/{self._name}", keep=lease_of(self._name)):
            found.append("documents in the control store")
        return tuple(found)

    def _topic(self, lane: str, like: Segment) -> Segment:
        from kafkakit.execution.act.retrier import mark_cordoned

        cluster = self._open(like.cluster)
        configs = cluster.admin.dynamic_configs(ResourceKind.TOPIC, (like.topic,)).get(like.topic, {})
        copies = [len(state.replicas) for state in cluster.admin.partition_states((like.topic,)).values()]
        shape = LaneShape(lane=lane, partitions=like.partitions, configs=own_settings(configs))
        snapshot = cluster.admin.snapshot(now=self._clock.now(), sizes=False)
        # A store that does not answer needs no word here: the route is written to it next, and fails.
        snapshot = mark_cordoned(snapshot, lambda: self._store, lambda line: None, cluster.admin)
        scope = PlacementScope(replication=max(copies, default=0) or None)
        planned = plan_on(snapshot, cluster.log, self._name, 1, (shape,), scope)
        admin = GuardedAdmin(cluster.admin, self._guard)
        ((_, segment),) = create_topics(admin, self._clock, like.cluster, cluster.admin.cluster().cluster_id, planned)
        return segment

    def _remove_from(self, profile: str) -> list[str]:
        cluster = self._open(profile)
        admin, found = GuardedAdmin(cluster.admin, self._guard), []
        topics = self._topics(cluster)
        for topic, place in sorted(find_topics(cluster.admin, topics).items()):
            bindings = [each for each in admin.describe_acls(AclResourceKind.TOPIC, topic) or () if each.name == topic]
            if bindings:
                admin.delete_acls(bindings)
            error = admin.delete_topic_by_id(place.topic_id or "")
            if error is not None:
                raise OperationFailedError(f"topic {topic} of {profile} is not deleted: {error}")
            found.append(f"topic {topic} of {profile}")
        if topics and not wait_until(self._clock, GONE_S, lambda: not self._topics(cluster)):
            raise TryLaterError(f"topics of {self._name} on {profile} are not gone after {GONE_S:g} s")
        self._guard()
        if any(listed.group == self._name for listed in cluster.groups.groups()):
            if not wait_until(self._clock, LEAVE_S, lambda: cluster.groups.delete(self._name) is None):
                raise TryLaterError(f"group {self._name} of {profile} still has members")
            found.append(f"group {self._name} of {profile}")
        return found

    def _topics(self, cluster: ClusterClients) -> tuple[str, ...]:
        return tuple(name for name in cluster.admin.topic_operations() if name.startswith(f"{self._name}."))

    def _forget(self, path: str, keep: str) -> bool:
        """Remove a document and everything below it; whether there was anything."""
        had = False
        for name in self._store.children(path):
            had |= self._forget(f"{path}/{name}", keep)
        read = None if path == keep else self._store.get(path)
        if read is not None:
            self._guard()
            with suppress(ConflictError):
                self._store.delete(path, read.version)
        return had or read is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalParts:
    """What a rehearsal works with; `run` and `planner` are those of the shadow, whose lease they hold."""

    run: FailoverParts
    planner: Planner
    shadow: ShadowStream
    history: RehearsalHistory
    open_cluster: OpenCluster
    open_load: OpenLoad


def rate_of(route: Route, open_cluster: OpenCluster, run: FailoverParts) -> float:
    """What the stream's active segments take now, in records a second over `MEASURE_S`."""
    before, began_s = _ends(route, open_cluster), run.clock.monotonic()
    pause(run.clock, MEASURE_S)
    return measured_rate(before, _ends(route, open_cluster), max(0.001, run.clock.monotonic() - began_s))


def remove_leftovers(parts: RehearsalParts, more: tuple[str, ...]) -> tuple[str, ...]:
    """Remove what a rehearsal that was cut has left, on every cluster that one may have used; returns it in words."""
    cut = [each for each in parts.history.read() if each.outcome is None]
    found = parts.shadow.remove({*more, *(profile for each in cut for profile in each.profiles)})
    for each in cut:
        outcome = RehearsalOutcome(ended_ms=_now_ms(parts), result="failed", reason="cut")
        parts.history.write(replace(each, outcome=outcome))
    return found


def rehearse(parts: RehearsalParts, rehearsal: Rehearsal, route: Route, wait_s: float) -> Rehearsal:
    """Rehearse, whatever comes of it: the shadow is removed at the end, and the outcome is kept.

    Raises what kept the rehearsal from its end, after the removal; `LeaseLostError` leaves the removal to the process
    that has the lease.
    """
    parts.history.write(rehearsal)
    try:
        done = replace(rehearsal, outcome=_outcome(parts, rehearsal, route, wait_s))
    except LeaseLostError:
        raise
    except BaseException as error:
        parts.run.reporter.say("the rehearsal ends early; its stream is removed")
        parts.shadow.remove(rehearsal.profiles)
        why = str(error) or type(error).__name__
        failed = RehearsalOutcome(ended_ms=_now_ms(parts), result="failed", reason="error", lines=(why[:500],))
        parts.history.write(replace(rehearsal, outcome=failed))
        raise
    parts.shadow.remove(rehearsal.profiles)
    parts.history.write(done)
    return done


def _outcome(parts: RehearsalParts, rehearsal: Rehearsal, route: Route, wait_s: float) -> RehearsalOutcome:
    run, clock = parts.run, parts.run.clock
    lanes = lanes_to_rehearse(route)
    parts.shadow.make(lanes, run.operator)
    run.reporter.say(f"stream {rehearsal.shadow} is made like {rehearsal.stream}; writing {rehearsal.per_s:g} a second")
    with parts.open_load(rehearsal, tuple(lane.name for lane in lanes)) as load:
        if not wait_until(clock, FLOWS_S, lambda: load.figures().handled > 0, 0.1):
            raise OperationFailedError(f"no record of the load was handled in {FLOWS_S:g} s")
        pause(clock, rehearsal.load_s)
        plan = parts.planner.plan(FailoverRequest(stream=rehearsal.shadow, to=rehearsal.to))
        if plan.refused:
            lines = tuple(f"{verdict.where}: {verdict.text}" for verdict in plan.refused)
            return RehearsalOutcome(
                ended_ms=_now_ms(parts), result=EndKind.REFUSED, reason=plan.refused[0].check, lines=lines
            )
        end = parts.planner.begin(plan).run(Step.RETIRED, wait_s)
        pause(clock, rehearsal.load_s)
        load.end_writing()
        wait_until(clock, HANDLED_S, lambda: load.figures().open == 0, 0.1)
        figures = load.figures()
    began_ms = end.record.operation.started_ms
    reached = [(step, at_ms - began_ms) for step, at_ms in end.record.reached_ms.items()]
    return RehearsalOutcome(
        ended_ms=_now_ms(parts),
        result=end.kind,
        reason=end.reason,
        lines=end.lines,
        steps_ms=dict(sorted(reached, key=lambda each: (each[1], list(Step).index(each[0])))),
        basis=end.record.basis,
        budget=plan.budget.most,
        load=figures,
        is_verified=end.kind is EndKind.DONE and _is_verified(parts),
    )


def _is_verified(parts: RehearsalParts) -> bool:
    try:
        certificate, _ = newest_certificate(parts.run.journals)
        check = check_certificate(certificate, parts.open_cluster, certificate.sha256)
    except (KafkakitError, ConflictError):
        return False
    return not (check.late or check.short or check.unread or check.gone)


def _ends(route: Route, open_cluster: OpenCluster) -> int:
    found = 0
    for lane in lanes_to_rehearse(route):
        if lane.active is None:
            continue
        spans = open_cluster(lane.active.cluster).log.spans(partitions_of(lane.active)).values()
        found += sum(span.end for span in spans if isinstance(span, LogSpan))
    return found


def _now_ms(parts: RehearsalParts) -> int:
    return epoch_ms(parts.run.clock.now())


GONE_S = 30.0
LEAVE_S = 60.0
"""Longer than a group keeps a member that was killed."""
CLIENTS_S = 3.0
"""A client that closes takes its registration away in the background."""


def forget_lease(store: ControlStore, stream: str) -> None:
    """Remove the lease of a stream that is gone, unless a process holds it."""
    path = lease_of(stream)
    read = store.get(path)
    if read is not None and LEASE_DOCUMENT.decode(read.value, path).holder is None:
        with suppress(ConflictError):
            store.delete(path, read.version)


PAUSE_S = 0.01
SEND_WAIT_S = 5.0
END_S = 30.0
_KEYS = 100


class RehearsalLoad:
    """Writes and reads while the context is open; the number of a record is in its value. Closes the client."""

    def __init__(self, client: StreamClient, clock: Clock, rehearsal: Rehearsal, lanes: tuple[str, ...]) -> None:
        self._client, self._clock, self._rehearsal, self._lanes = client, clock, rehearsal, lanes
        self._lock = threading.Lock()
        self._open: set[int] = set()
        self._handled: Counter[int] = Counter()
        self._last_s: dict[str, float] = {}
        self._acknowledged = self._failed = self._pause_ms = 0
        self._sent, self._wrote_s = 0, 0.0
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write, name="rehearsal-writer", daemon=True)

    def __enter__(self) -> "RehearsalLoad":
        try:
            options = ConsumerOptions(lanes=self._lanes, commit_every_s=0.5)
            shadow = self._rehearsal.shadow
            self._client.consumer(shadow, shadow, handler=self._handle, options=options).start()
            self._producer: Producer = self._client.producer(shadow)
            self._writer.start()
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end_writing()
        finally:
            self._client.close()

    def end_writing(self) -> None:
        """Send no more, and wait for the answers; calling it twice is harmless. Raises what ended the writing."""
        self._stop.set()
        self._writer.join(END_S)
        self._producer.flush(END_S)
        if (error := self._error) is not None:
            self._error = None
            raise error

    def figures(self) -> LoadFigures:
        """What was done until now."""
        with self._lock:
            return LoadFigures(
                acknowledged=self._acknowledged,
                failed=self._failed,
                handled=len(self._handled),
                handled_again=self._handled.total() - len(self._handled),
                open=len(self._open),
                longest_pause_ms=self._pause_ms,
                per_s=round(self._acknowledged / self._wrote_s, 3) if self._wrote_s else 0.0,
            )

    def _write(self) -> None:
        try:
            self._write_until_stopped()
        except Exception as error:  # a load that has ended would count as one without failures
            self._error = error

    def _write_until_stopped(self) -> None:
        began_s, padding = self._clock.monotonic(), bytes(max(0, self._rehearsal.record_bytes - 20))
        while not self._stop.wait(PAUSE_S):
            while not self._stop.is_set() and self._sent < self._wrote_s * self._rehearsal.per_s:
                number, lane = self._sent, self._lanes[self._sent % len(self._lanes)]
                value, key = b"%020d" % number + padding, b"%d" % (number % _KEYS)
                self._sent += 1
                try:
                    delivery = self._producer.send(value, key, lane=lane, wait_s=SEND_WAIT_S)
                except BackPressureError:  # a long pause has filled the lane: the record is not written
                    with self._lock:
                        self._failed += 1
                    continue
                delivery.add_done_callback(partial(self._note, number, lane))
            self._wrote_s = self._clock.monotonic() - began_s

    def _note(self, number: int, lane: str, delivery: Delivery) -> None:
        """The callback must not wait: its lock is held for moments only."""
        now_s = self._clock.monotonic()
        with self._lock:
            if delivery.exception() is not None:
                self._failed += 1
                return
            self._acknowledged += 1
            self._pause_ms = max(self._pause_ms, round((now_s - self._last_s.get(lane, now_s)) * 1000))
            self._last_s[lane] = now_s
            if number not in self._handled:
                self._open.add(number)

    def _handle(self, record: StreamRecord) -> None:
        number = int((record.value or b"")[:20])
        with self._lock:
            self._handled[number] += 1
            self._open.discard(number)
