"""A stream, its clusters, and what else happens to them, as one state that can be kept, taken up again and compared."""

import json
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from kafkakit.core.cluster_facts import ItemError, OpenTransaction, ProducerState
from kafkakit.core.journal_lines import read_lines
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.api import ClientKind
from kafkakit.streams.failover.decide.operation import GRAMMAR, FenceChoice, OperationRecord, fold
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState
from kafkakit.streams.routes.api_act import RouteStore
from tests.clusters.streams_batches import Rec, batch, marker
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.rigs.failover import PARTITIONS, STREAM, FakeClient, SceneCluster, UuidCluster

ROUTE_PATH = f"streams/{STREAM}/route"
OLD = f"{STREAM}.live.1"
PRODUCER = (77, 0)
Spot: TypeAlias = tuple[str, int, int]
"""Topic id, partition and offset of a record."""
_TIMES = frozenset({"time", "prev", "at_ms", "sealed_at_ms", "sha256", "started_ms", "basis", "window_s", "by"})
_NO_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_JOURNAL, _CERTIFICATE = "/journal/", "/certificate/"
EXCUSES = frozenset({"rewind", "early_write", "recreate", "trim", "stranger", "begin_transaction", "other:abort"})
"""What an operator has to judge: an end that is right after one of these may be wrong without."""


class ModelStore(FakeControlStore):
    """The store in memory, which can be kept since nothing waits in it. `newest` is what its last write replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: tuple[str, tuple[int, bytes] | None] | None = None

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        newest = path, self._documents.get(path)
        version = super()._replace(path, value, expected)
        self.newest = newest
        return version

    def forget_newest(self) -> None:
        """The newest write is lost, as with a leader that had told no follower."""
        if self.newest is not None:
            path, before = self.newest
            self._documents.pop(path)
            if before is not None:
                self._documents[path] = before
            self.newest = None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_changed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__init__()
        vars(self).update(state)

    def documents(self) -> dict[str, tuple[int, bytes]]:
        return self._documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What stands at the beginning, what is asked for, and which events may come between any two calls."""

    name: str
    is_registered: bool = True
    is_slow: bool = False
    backlog: int = 0
    has_authorizer: bool = False
    is_away: bool = False
    is_compacted: bool = False
    fence: FenceChoice = FenceChoice.AUTO
    quiet_s: float | None = 3.0
    wait_s: float = 20.0
    is_emergency: bool = False
    events: tuple[str, ...] = ()
    faults: tuple[str, ...] = ("crash", "lost", "refused", "other:route", "other:drain", "other:run", "other:abort")


@dataclass(kw_only=True)
class World:
    """The state. `acked` are records that a producer was told are written, `handled` those that a group has read.

    `lost` were deleted by retention, `draining_since` has the epochs since which segments are not written any more, and
    `holder` has the stream's lease. `away` are clusters, or `store`, that do not answer, each with how many more ticks;
    those that are `hung` take their time to fail.
    """

    scenario: Scenario
    store: ModelStore = field(default_factory=ModelStore)
    clock: FakeClock = field(default_factory=FakeClock)
    clusters: dict[str, SceneCluster] = field(default_factory=dict)
    clients: list[FakeClient] = field(default_factory=list)
    acked: set[Spot] = field(default_factory=set)
    handled: dict[str, set[Spot]] = field(default_factory=dict)
    lost: set[Spot] = field(default_factory=set)
    away: dict[str, int] = field(default_factory=dict)
    hung: set[str] = field(default_factory=set)
    draining_since: dict[int, int] = field(default_factory=dict)
    required: tuple[str, ...] = ("audit", "billing")
    writes_left: int = 3
    known: dict[str, int] = field(default_factory=dict)
    holder: str = ""
    lives: int = 0
    happened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in "pq":
            admin = UuidCluster({1: None}, cluster_id=f"{name}-id", dir_bytes=10**9)
            self.clusters[name] = SceneCluster(admin=admin)
        old = self.clusters["p"].admin
        old.add_topic(OLD, dict.fromkeys(range(PARTITIONS), (1,)))
        if self.scenario.is_compacted:
            old.topics[OLD].configs["cleanup.policy"] = "compact"
        if self.scenario.has_authorizer:
            old.acls = set()
        segment = Segment(
            id=1, cluster="p", cluster_id="p-id", topic=OLD, topic_id=old.topics[OLD].topic_id,
            partitions=PARTITIONS, state=SegmentState.ACTIVE,
        )  # fmt: skip
        route = Route(stream=STREAM, epoch=1, next_segment=2, lanes=(Lane(name="live", segments=(segment,)),))
        RouteStore(self.store).create(route, by="me", what="create", at_ms=1)
        self.known = {"producer": 1, "billing": 1, "audit": 1}
        if self.scenario.is_registered:
            self.clients = [
                FakeClient(id="client-1", kind=ClientKind.PRODUCER),
                FakeClient(id="client-2", kind=ClientKind.CONSUMER, group="billing"),
            ]
        self.handled = {group: set() for group in self.required}
        for number in (0, 0, 1, *(0,) * self.scenario.backlog):
            self.append("p", OLD, number)
        for group in self.required:
            for number in range(PARTITIONS):
                self.clusters["p"].groups.seed(group, TopicPartition(OLD, number), 0)
            self.read(group, most=None if group == "billing" or not self.scenario.is_slow else 0)
        if self.scenario.is_away:
            self.away["p"] = 4
        self.store.newest = None

    # -- what is seen -------------------------------------------------------------------------------

    def route(self) -> dict[str, Any]:
        """The route document as it is in the store."""
        found: dict[str, Any] = json.loads(self.store.documents()[ROUTE_PATH][1])
        return found

    def segments(self) -> list[dict[str, Any]]:
        return [segment for lane in self.route()["lanes"] for segment in lane["segments"]]

    def topic_id(self, cluster: str, topic: str) -> str:
        found = self.clusters[cluster].admin.topics.get(topic)
        return "" if found is None else found.topic_id

    def is_denied(self, cluster: str, topic: str) -> bool:
        """Whether brokers refuse a record: by an ACL, or by a size limit."""
        admin = self.clusters[cluster].admin
        acls = admin.acls or ()
        denied = any(each.name == topic and each.permission == "deny" for each in acls)
        return denied or admin.topics[topic].configs.get("max.message.bytes") == "1"

    # -- what happens -------------------------------------------------------------------------------

    def append(self, cluster: str, topic: str, partition: int = 0) -> bool:
        """One record by any producer; False where it is refused."""
        if not self.topic_id(cluster, topic) or cluster in self.away or self.is_denied(cluster, topic):
            return False
        log = self.clusters[cluster].log
        log.follow()
        end = log.append(TopicPartition(topic, partition), batch(0, [Rec(None, b"r")]))
        self.acked.add((self.topic_id(cluster, topic), partition, end - 1))
        return True

    def read(self, group: str, most: int | None = None) -> None:
        """A group reads the segments of the route up to their stable ends, `most` offsets of each, and commits.

        Without an offset a stream client begins at the start, a plain one at the end, as many are configured.
        """
        is_stream = any(client.group == group for client in self.clients)
        for segment in self.segments():
            name, topic = segment["cluster"], segment["topic"]
            if name in self.away or self.topic_id(name, topic) != segment["topic_id"]:
                continue
            if segment["state"] == "opened" and not is_stream:
                continue  # plain clients are pointed at a topic when it is written
            cluster = self.clusters[name]
            cluster.log.follow()
            for number in range(segment["partitions"]):
                key = TopicPartition(topic, number)
                log, commit = cluster.log.log(key), cluster.groups.committed(group, [key]).get(key)
                first = log.start if is_stream else log.stable
                if commit is not None and not isinstance(commit, ItemError):
                    first = max(log.start, commit.offset)
                last = log.stable if most is None else min(log.stable, first + most)
                self.handled[group] |= {(segment["topic_id"], number, offset) for offset in range(first, last)}
                if commit is None or last > first:
                    cluster.groups.seed(group, key, last)

    def sleep(self, seconds: float) -> None:
        """A process sleeps, and the others go on."""
        self.clock.sleep(seconds)
        self.tick()

    def tick(self) -> None:
        """What goes on by itself: producers and consumers learn of the route, write and read."""
        epoch = self.route()["epoch"]
        for name in list(self.away):
            self.away[name] -= 1
            if self.away[name] <= 0:
                del self.away[name]
        self.hung &= set(self.away)
        if self.writes_left and self.write_as_known():
            self.writes_left -= 1
        if "store" in self.away:
            epoch = 0  # clients keep what they have
        self.known["producer"] = max(epoch, self.known["producer"])
        for client in self.clients:
            client.beat += client.is_live
            if client.is_live and client.follows:
                client.epoch = max(epoch, client.epoch)
        for group in self.required:
            self.read(group, most=1 if group == "audit" and self.scenario.is_slow else None)

    def write_as_known(self) -> bool:
        """A record to where the newest route that the producer has seen sends it."""
        for segment in reversed(self.segments()):
            is_old = self.known["producer"] < self.route()["epoch"] and segment["state"] in ("draining", "stranded")
            if is_old or segment["state"] == "active":
                target = segment
                if is_old:
                    break
        return self.append(target["cluster"], target["topic"])

    # -- keeping and comparing ----------------------------------------------------------------------

    def kept(self) -> bytes:
        return pickle.dumps(self, protocol=5)

    def key(self) -> int:
        """A number for everything that what comes next depends on, but for times."""
        clusters = []
        for name, cluster in sorted(self.clusters.items()):
            cluster.log.follow()
            topics = [(t.name, t.topic_id, sorted(t.configs.items())) for _, t in sorted(cluster.admin.topics.items())]
            logs = [(k, log.start, log.stable, log.end) for k, log in sorted(cluster.log._logs.items())]
            groups = [
                (group, held.state, sorted((k, c.offset) for k, c in held.offsets.items()), len(held.members))
                for group, held in sorted(cluster.groups._groups.items())
            ]
            admin = cluster.admin
            clusters.append((name, topics, logs, groups, sorted(admin.acls or ()), len(admin.transactions)))
        documents = [
            (path, _shape(path, value)) for path, (_, value) in sorted(self.store.documents().items()) if value
        ]
        certificates = [value for path, (_, value) in self.store.documents().items() if value and _CERTIFICATE in path]
        counts = [
            any(record.certificate.encode() in value for value in certificates)
            for path, (_, value) in sorted(self.store.documents().items())
            if value and _JOURNAL in path and (record := _record(value)).certificate
        ]
        clients = [(each.id, each.epoch, each.is_live, each.follows) for each in self.clients]
        records = [frozenset(self.acked), frozenset(self.lost), *(frozenset(self.handled[g]) for g in self.required)]
        excuses = sorted(EXCUSES & set(self.happened))
        outages = (sorted(self.away.items()), sorted(self.hung), self.store.newest is not None)
        more = (clients, outages, self.writes_left, sorted(self.known.items()), self.required, excuses, counts)
        return hash((repr((clusters, documents, more)), *records))


_shapes: dict[bytes, str] = {}
_records: dict[bytes, OperationRecord] = {}


def _shape(path: str, value: bytes) -> str:
    """A document without the times and hashes in it; of a journal what it means."""
    found = _shapes.get(value)
    if found is None:
        if _JOURNAL in path:
            found = shape_of_record(_record(value))
        else:
            found = repr([_without_times(json.loads(line)) for line in value.splitlines() if line])
        _shapes[value] = found
    return found


def _record(value: bytes) -> OperationRecord:
    found = _records.get(value)
    if found is None:
        state = read_lines(value, "journal", None, fold, GRAMMAR)[1]
        assert state is not None
        found = _records[value] = state
    return found


def shape_of_record(record: OperationRecord) -> str:
    """What a journal means, without times."""
    operation = replace(record.operation, started_ms=0)
    same = replace(record, operation=operation, at=_NO_TIME, reached_ms={}, certificate="", basis="", window_s=0.0)
    return repr((same, sorted(record.reached_ms), bool(record.certificate)))


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in _TIMES}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


# -- events: what may come between any two calls --------------------------------------------------------


def late(world: World) -> None:
    """A producer that knows nothing of routes writes to the old topic."""
    world.append("p", OLD)


def begin_transaction(world: World) -> None:
    """A transactional producer writes to the old topic, and has not committed."""
    admin = world.clusters["p"].admin
    if "p" in world.away or admin.transactions or not world.topic_id("p", OLD) or world.is_denied("p", OLD):
        return
    key = TopicPartition(OLD, 0)
    end = world.clusters["p"].log.append(key, batch(0, [Rec(None, b"t")], transactional=True, producer=PRODUCER))
    admin.transactions.append(
        OpenTransaction(
            transactional_id="tx",
            producer_id=PRODUCER[0],
            producer_epoch=0,
            state="Ongoing",
            timeout_ms=60_000,
            started_ms=1,
            partitions=frozenset({key}),
        )
    )
    state = ProducerState(
        producer_id=PRODUCER[0], producer_epoch=0, last_sequence=0, last_ms=1, transaction_start=end - 1
    )
    admin.producers[key] = (state,)


def end_transaction(world: World) -> None:
    """It commits: brokers refuse its marker while the size limit is there, and are stuck with it."""
    admin = world.clusters["p"].admin
    if "p" in world.away or not admin.transactions or not world.topic_id("p", OLD):
        return
    if admin.topics[OLD].configs.get("max.message.bytes") == "1":
        return
    key = TopicPartition(OLD, 0)
    begun = world.clusters["p"].log.log(key).stable
    end = world.clusters["p"].log.append(key, marker(0, PRODUCER, commits=True))
    world.acked |= {(world.topic_id("p", OLD), 0, offset) for offset in range(begun, end - 1)}
    admin.transactions.clear()
    admin.producers.pop(key, None)


def away(world: World) -> None:
    """The old cluster does not answer for a while."""
    world.away["p"] = 3


def hang(world: World) -> None:
    """The old cluster hangs: every call waits before it fails."""
    away(world)
    world.hung.add("p")


def store_away(world: World) -> None:
    """The control store does not answer for a while."""
    world.away["store"] = 2


def store_forgets(world: World) -> None:
    """The control store loses its newest write."""
    world.store.forget_newest()


def target_away(world: World) -> None:
    """The new cluster does not answer for a while."""
    world.away["q"] = 3


def stranger(world: World) -> None:
    """A group that no one knows of commits for the old topic."""
    if world.topic_id("p", OLD):
        world.clusters["p"].groups.seed("stranger", TopicPartition(OLD, 0), 0)


def rewind(world: World) -> None:
    """A group is set back on the old topic."""
    if world.topic_id("p", OLD):
        world.clusters["p"].groups.seed("billing", TopicPartition(OLD, 0), 0)
        world.handled["billing"] -= {spot for spot in world.handled["billing"] if spot[0] == world.topic_id("p", OLD)}


def trim(world: World) -> None:
    """Retention deletes the first record of a log."""
    if world.topic_id("p", OLD):
        log = world.clusters["p"].log
        log.follow()
        if log.log(TopicPartition(OLD, 0)).end > 1:
            world.lost.add((world.topic_id("p", OLD), 0, 0))
            log.trim(TopicPartition(OLD, 0), 1)


def recreate(world: World) -> None:
    """The old topic is deleted and made again under its name."""
    if world.topic_id("p", OLD):
        del world.clusters["p"].admin.topics[OLD]
        world.clusters["p"].admin.add_topic(OLD, dict.fromkeys(range(PARTITIONS), (1,)))
        world.clusters["p"].log.follow()


def own_offset(world: World) -> None:
    """A group commits an offset of its own for the new topic."""
    for topic in sorted(world.clusters["q"].admin.topics):
        world.clusters["q"].groups.seed("audit", TopicPartition(topic, 0), 0)


def early_write(world: World) -> None:
    """A record comes into the new topic before its time."""
    for topic in sorted(world.clusters["q"].admin.topics):
        if not any(each["topic"] == topic for each in world.segments()):
            world.append("q", topic)
            world.acked -= {spot for spot in world.acked if spot[0] == world.topic_id("q", topic)}


def newcomer(world: World) -> None:
    """A producer registers and does not follow the route until its process ends."""
    if world.scenario.is_registered and len(world.clients) < 3:
        epoch = world.route()["epoch"]
        world.clients.append(FakeClient(id="client-3", kind=ClientKind.PRODUCER, epoch=epoch, delivery_timeout_ms=4000))
        world.clients[-1].follows = False
        world.clients[-1].is_live = False


def lose_lease(world: World) -> None:
    """Another process takes the lease, and has done nothing yet."""
    world.holder = "another"


EVENTS = {
    "late": (late, ("log:p",)),
    "begin_transaction": (begin_transaction, ("log:p", "tx:p")),
    "end_transaction": (end_transaction, ("log:p", "tx:p", "config:p")),
    "away": (away, ("log:p", "groups:p", "meta:p", "acl:p")),
    "hang": (hang, ("log:p", "groups:p", "meta:p")),
    "store_away": (store_away, ("store",)),
    "store_forgets": (store_forgets, ("store",)),
    "target_away": (target_away, ("log:q", "groups:q", "meta:q")),
    "stranger": (stranger, ("groups:p",)),
    "rewind": (rewind, ("groups:p",)),
    "trim": (trim, ("log:p",)),
    "recreate": (recreate, ("meta:p", "log:p")),
    "own_offset": (own_offset, ("groups:q",)),
    "early_write": (early_write, ("log:q", "meta:q")),
    "newcomer": (newcomer, ("clients",)),
    "lose_lease": (lose_lease, ("lease",)),
}
"""Each event with what it concerns: it makes a difference only before calls that concern the same."""


def happen(world: World, name: str) -> None:
    """Let an event happen."""
    world.happened.append(name)
    EVENTS[name][0](world)


def resources(events: Iterable[str], touched: frozenset[str]) -> list[str]:
    """The events that make a difference before a call that concerns this."""
    return [name for name in events if not touched.isdisjoint(EVENTS[name][1])]
