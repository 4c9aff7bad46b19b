"""A stream on cluster `p` with clusters `q` and `r` beside it in memory, and processes that fail it over."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from kafkakit.core.cluster_facts import CommittedOffset, ItemError, LogSpan, TopicPlaces
from kafkakit.core.errors import LeaseLostError, TryLaterError
from kafkakit.core.lease import Holder
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.api import ClientKind, ClientRegistration
from kafkakit.streams.failover.act.letters import OldRecords, read_references
from kafkakit.streams.failover.act.observing import ClientWatch, OperationObserver
from kafkakit.streams.failover.act.operations import Planner
from kafkakit.streams.failover.act.run import Effects, FailoverParts, OperationJournals, OperationRun
from kafkakit.streams.failover.decide.history import RunEnd
from kafkakit.streams.failover.decide.operation import FailoverRequest, Step
from kafkakit.streams.model.commit import CommitIdentity, CommitState, RouteMark, topic_id_bytes
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.route import DLQ, Lane, Route, Segment, SegmentState
from kafkakit.streams.routes.api_act import RouteStore
from tests.clusters.streams_batches import Rec, batch, marker
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.data import FakeData
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.routes import CutStore

STREAM = "orders"
PARTITIONS = 2


@dataclass(kw_only=True)
class FakeClient:
    """A registration; a live one beats whenever the clock moves."""

    id: str
    kind: ClientKind
    group: str = ""
    epoch: int = 1
    delivery_timeout_ms: int = 30_000
    beat: int = 0
    is_live: bool = True
    follows: bool = True
    lanes: tuple[str, ...] = ()

    def registration(self) -> ClientRegistration:
        return ClientRegistration(
            id=self.id, kind=self.kind, group=self.group, epoch=self.epoch, beat=self.beat,
            delivery_timeout_ms=self.delivery_timeout_ms, holder=Holder(host="h", user="u", command="c", pid=1),
            lanes=self.lanes,
        )  # fmt: skip


class SceneLog(FakeLogReader):
    """The logs of a cluster's topics: those that the cluster has, and no others."""

    def __init__(self, admin: FakeCluster) -> None:
        super().__init__(admin.cluster_id)
        self._admin, self._known = admin, dict[str, str]()

    def spans(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSpan | ItemError]:
        self.follow()
        return super().spans(partitions)

    def places(self, topics: Collection[str] | None = None) -> Mapping[str, TopicPlaces]:
        self.follow()
        return {
            name: replace(place, topic_id=topic_id_bytes(self._admin.topics[name].topic_id))
            for name, place in super().places(topics).items()
        }

    def follow(self) -> None:
        for name in set(self._known) - set(self._admin.topics):
            self.delete_topic(name)
            del self._known[name]
        for name, topic in self._admin.topics.items():
            if self._known.get(name) != topic.topic_id:
                self._known[name] = topic.topic_id
                self.add_topic(name, len(topic.partitions))


class SceneGroups(FakeGroups):
    """Groups that may commit for the cluster's topics."""

    def __init__(self, admin: FakeCluster) -> None:
        super().__init__()
        self._admin = admin

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemError | None]:
        for name, topic in self._admin.topics.items():
            self.add_topic(name, len(topic.partitions))
        return super().commit(group, offsets)


class SceneData(FakeData):
    """Records of the cluster's topics."""

    def offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, range]:
        self.log.spans(partitions)  # follows what the cluster has
        return super().offsets(partitions, timeout_s)


class UuidCluster(FakeCluster):
    """Topic ids as Kafka has them."""

    def add_topic(self, name: str, *more: Any, **options: Any) -> None:
        super().add_topic(name, *more, **options)
        number = int(self.topics[name].topic_id.rpartition("-")[2])
        self.topics[name].topic_id = f"{self.cluster_id.encode().hex():0>8.8}-0000-0000-0000-{number:012d}"


@dataclass(kw_only=True)
class SceneCluster:
    """The ports of one cluster."""

    admin: FakeCluster
    log: SceneLog = field(init=False)
    groups: SceneGroups = field(init=False)
    data: SceneData = field(init=False)
    is_away: bool = False

    def __post_init__(self) -> None:
        self.log, self.groups = SceneLog(self.admin), SceneGroups(self.admin)
        self.data = SceneData(self.log)


class SkewedClock(FakeClock):
    """The clock of a host that shows another time; it goes as fast as the scene's."""

    def __init__(self, inner: FakeClock, skew_s: float) -> None:
        super().__init__(inner.start + timedelta(seconds=skew_s))
        self._inner = inner

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self._inner.elapsed)

    def monotonic(self) -> float:
        return self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class AwayCluster:
    """Raises where a client would connect."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, port: str) -> Any:
        raise TryLaterError(f"cluster {self._name} does not answer")


class AlreadyDoneError(Exception):
    """The operation of this request is over."""

    def __init__(self, end: RunEnd) -> None:
        super().__init__(end)
        self.end = end


class RecordingReporter:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    warn = say

    def progress(self, label: str) -> Any:
        raise NotImplementedError(label)


class FailoverScene:
    """Stream `orders` with lanes on cluster `p`; producers and consumers follow the route as the clock moves.

    `readers` are groups that read every segment of the route up to its end at each tick.
    """

    def __init__(self, lanes: tuple[str, ...] = ("live",)) -> None:
        self.store, self.clock, self.reporter = CutStore(), FakeClock(), RecordingReporter()
        self.clusters = {
            name: SceneCluster(admin=UuidCluster({1: None}, cluster_id=f"{name}-id", dir_bytes=10**9)) for name in "pqr"
        }
        self.clients: list[FakeClient] = []
        self.readers: list[str] = []
        self.rejects: int | None = 0
        self.is_lease_lost = False
        self.skew_s = 0.0
        self.looks: list[str] = []
        self._ids = count(1)
        self.clock.on_sleep.append(lambda _: self.tick())
        self.routes = RouteStore(self.store)
        made = []
        for number, lane in enumerate(lanes, 1):
            self.p.admin.add_topic(f"{STREAM}.{lane}.1", dict.fromkeys(range(PARTITIONS), (1,)))
            made.append(Lane(name=lane, segments=(self._segment(number, f"{STREAM}.{lane}.1"),)))
        route = Route(stream=STREAM, epoch=1, next_segment=len(lanes) + 1, lanes=tuple(made))
        self.routes.create(route, by="me", what="create", at_ms=1)
        self.p.log.follow()

    @property
    def p(self) -> SceneCluster:
        return self.clusters["p"]

    @property
    def q(self) -> SceneCluster:
        return self.clusters["q"]

    @property
    def route(self) -> Route:
        return self.routes.existing(STREAM).route

    def _segment(self, number: int, topic: str) -> Segment:
        return Segment(
            id=number, cluster="p", cluster_id="p-id", topic=topic, topic_id=self.p.admin.topics[topic].topic_id,
            partitions=PARTITIONS, state=SegmentState.ACTIVE,
        )  # fmt: skip

    # -- what happens in the world ------------------------------------------------------------------

    def tick(self) -> None:
        """Live clients beat and follow the route; readers read."""
        route = self.route
        for client in self.clients:
            client.beat += client.is_live
            if client.is_live and client.follows:
                client.epoch = route.epoch
        for group in self.readers:
            self.read_all(group)

    def write(self, topic: str, records: int = 1, *, partition: int = 0, cluster: str = "p") -> None:
        """Append records, as a producer that nothing keeps away."""
        log = self.clusters[cluster].log
        log.follow()
        log.append(TopicPartition(topic, partition), batch(0, [Rec(None, b"%d" % n) for n in range(records)]))

    def write_transaction(self, topic: str, records: int, *, commits: bool | None, partition: int = 0) -> None:
        """Append records of a transaction and its marker; None leaves it open."""
        producer, key = (77, 0), TopicPartition(topic, partition)
        data = batch(0, [Rec(None, b"t")] * records, transactional=True, producer=producer)
        self.p.log.append(key, data, *(() if commits is None else (marker(0, producer, commits=commits),)))

    def end_of(self, topic: str, partition: int = 0, cluster: str = "p") -> int:
        return self.clusters[cluster].log.log(TopicPartition(topic, partition)).end

    def read_all(self, group: str) -> None:
        """A group commits the ends of every segment that it may read and that can be reached."""
        for segment in [each for lane in self.route.lanes for each in lane.readable if lane.name != DLQ]:
            cluster = self.clusters[segment.cluster]
            if cluster.is_away:
                continue
            cluster.log.follow()
            for number in range(segment.partitions):
                self.commit(group, segment, number, cluster.log.log(TopicPartition(segment.topic, number)).end)

    def commit(self, group: str, segment: Segment, partition: int, offset: int, *, epoch: int | None = None) -> None:
        """A commit as a member makes it; with an epoch as a stream client writes it."""
        text = ""
        if epoch is not None:
            state = CommitState(base=offset, route=RouteMark(epoch=epoch, segment=segment.id))
            identity = CommitIdentity(
                cluster_id=segment.cluster_id, topic_id=bytes.fromhex(segment.topic_id.replace("-", "")),
                partition=partition, group=group,
            )  # fmt: skip
            text = encode_commit(state, identity, limit_chars=4095).text
        self.clusters[segment.cluster].groups.seed(group, TopicPartition(segment.topic, partition), offset, text)

    def producer(self, **more: Any) -> FakeClient:
        self.clients.append(FakeClient(id=f"client-{next(self._ids)}", kind=ClientKind.PRODUCER, **more))
        return self.clients[-1]

    def consumer(self, group: str, **more: Any) -> FakeClient:
        self.clients.append(FakeClient(id=f"client-{next(self._ids)}", kind=ClientKind.CONSUMER, group=group, **more))
        return self.clients[-1]

    # -- processes ----------------------------------------------------------------------------------

    def open_cluster(self, profile: str) -> Any:
        self.looks.append(profile)
        return AwayCluster(profile) if self.clusters[profile].is_away else self.clusters[profile]

    def parts(self) -> FailoverParts:
        """A process with empty memory, on a host whose clock is wrong by `skew_s`."""
        clock = SkewedClock(self.clock, self.skew_s)
        clients = ClientWatch(lambda: [client.registration() for client in self.clients], clock)
        return FailoverParts(
            routes=RouteStore(self.store),
            journals=OperationJournals(self.store, clock, STREAM),
            observer=OperationObserver(self.open_cluster, clients, clock, self.references),
            effects=Effects(self.open_cluster, clock, self.require_held, self.reporter),
            records=OldRecords(self.open_cluster, clock, self.require_held, lambda _: 1.0),
            clock=clock,
            reporter=self.reporter,
            require_held=self.require_held,
            operator="tester",
            version="1",
        )

    def references(self, segments: Sequence[Segment]) -> dict[int, list[tuple[int, int]]]:
        """So many references lead to the first records of each topic; without a number those of the ledgers do."""
        if self.rejects is None:
            return read_references(self.open_cluster, self.clock, lambda _: 1.0, segments)
        return {each.id: [(0, number) for number in range(self.rejects)] for each in segments}

    def require_held(self) -> None:
        if self.is_lease_lost:
            raise LeaseLostError("the lease was taken over")

    def planner(self, parts: FailoverParts | None = None) -> Planner:
        return Planner(parts or self.parts(), self.open_cluster, lambda: f"{next(self._ids):08x}")

    def request(self, **more: Any) -> FailoverRequest:
        return FailoverRequest(**{"stream": STREAM, "to": "q", **more})

    def begin(self, **more: Any) -> OperationRun:
        """Plan and begin, or continue what is open: what `run` does."""
        planner, request = self.planner(), self.request(**more)
        run = planner.resume(request, self.route)
        done = None if run else planner.finished(request, self.route)
        if done is not None:
            raise AlreadyDoneError(done)
        if run is None:
            plan = planner.plan(request)
            assert not plan.refused, plan.refused
            run = planner.begin(plan)
        return run

    def run(self, until: Step = Step.RETIRED, wait_s: float = 600, **more: Any) -> RunEnd:
        try:
            return self.begin(**more).run(until, wait_s)
        except AlreadyDoneError as done:
            return done.end

    def resume(self, until: Step = Step.RETIRED, wait_s: float = 600) -> RunEnd:
        """A new process continues the open operation."""
        run = self.planner().open_run(self.route)
        assert run is not None
        return run.run(until, wait_s)
