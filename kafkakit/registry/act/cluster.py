"""The cluster behind the registry: calls that change something, and the reader that gives what changed.

Calls are checked at once, and carried out in a thread if they may block. The reader reads the cluster and its tags
again and again, in a process of its own: decoding 100,000 partitions would hold up the answers of the service.
"""

import gc
import os
import signal
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock, Thread

from msgspec import msgpack

from kafkakit.core.columns import without_collector
from kafkakit.core.errors import KafkakitError, TryLaterError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan_rules import topic_problem
from kafkakit.ports.acting import Clock, pause
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.inventory import (
    VERSION_KEYS,
    Facts,
    Inventory,
    InventoryChange,
    RegisteredTopic,
    TagTable,
    broker_facts,
    change_between,
    topic_facts,
)
from kafkakit.registry.decide.requests import (
    EMPTY,
    SUCCESS,
    AnyRequest,
    BrokerRequest,
    CreateRequest,
    Creation,
    Reply,
    TagBrokersRequest,
    TopicRequest,
    candidates,
    place,
    read_creation,
    refusal,
)
from kafkakit.registry.decide.tags import ObjectKind, Tags, fault, invalid_request, keys_to_delete, tags_to_set

MAX_BROKERS = 1000
RETRY_S = 0.25
LOOKS_AFTER_S = (0.0, 0.25, 0.5)
LONGEST_RETRY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The reply to a change, and what it made of topics (None: deleted) and tags, for the inventory."""

    reply: Reply
    topics: tuple[tuple[str, RegisteredTopic | None], ...] = ()
    tags: tuple[tuple[ObjectKind, str, Tags], ...] = ()


Prepared = Callable[[float], ChangeResult]
"""Carries a call out until so many seconds of the monotonic clock; blocks, and may run beside others."""


MarkCordoned = Callable[[ClusterSnapshot], ClusterSnapshot]
"""Marks the brokers of a cluster that are cordoned: new topics leave them out."""


def mark_none(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster without marks."""
    return snapshot


class Writes:
    """Changes of tags and topics. Whether what they name exists is asked of the cluster: the inventory may be old."""

    def __init__(
        self, admin: ClusterAdmin, tags: TagStore, clock: Clock, inventory: Inventory, mark: MarkCordoned = mark_none
    ) -> None:
        self._admin, self._tags, self._clock, self._inventory, self._mark = admin, tags, clock, inventory, mark
        self._admin_lock = Lock()
        self._calls: Mapping[str, Callable[..., Prepared]] = {
            "CreateTopic": Writes._create_topic,
            "DeleteTopic": Writes._delete_topic,
            "TagTopic": Writes._tag_topic,
            "DeleteTopicTags": Writes._delete_topic_tags,
            "TagBroker": Writes._tag_broker,
            "TagBrokers": Writes._tag_brokers,
            "DeleteBrokerTags": Writes._delete_broker_tags,
        }

    def prepare(self, name: str, request: AnyRequest, by: str = "kafkakit") -> Prepared:
        """Check a call against the inventory, in its thread; `RpcError` where it is refused at once."""
        acting = copy(self)
        acting._tags = self._tags.acting_for(by)
        return self._calls[name](acting, request)

    def topics_there(self, names: Collection[str]) -> frozenset[str]:
        """Those of the topics that the cluster has now. One request, and more for one that the inventory has.

        Such a topic may have been made just now, and not every broker knows it yet.
        """
        found = frozenset[str]()
        for pause_s in LOOKS_AFTER_S if names else ():
            pause(time, pause_s)
            with self._admin_lock:
                found |= {key.topic for key in self._admin.partition_states(names)}
            if not any(name in self._inventory.topics for name in set(names) - found):
                break
        return found

    def brokers_there(self) -> frozenset[int]:
        """The brokers that live now. One request."""
        with self._admin_lock:
            return frozenset(broker.id for broker in self._admin.cluster().brokers if broker.is_alive)

    def _create_topic(self, request: CreateRequest) -> Prepared:
        creation = read_creation(request)
        topics = tuple(self._inventory.topics.values())

        def create(end_s: float) -> ChangeResult:
            with self._admin_lock:
                now = self._brokers_now(creation)
                brokers = tuple(now.brokers[broker] for broker in candidates(creation, now))
                error = self._admin.create_topic(creation.name, place(creation, brokers, topics), creation.configs)
                if error is not None:
                    raise refusal(error)
                facts = read_topic(self._admin, self._clock, creation.name)
            made = ((creation.name, facts),) if facts else ()
            if not creation.tags:
                return ChangeResult(reply=EMPTY, topics=made)
            tags = self._tag_new(creation.name, creation.tags, end_s)
            return ChangeResult(reply=EMPTY, topics=made, tags=((ObjectKind.TOPIC, creation.name, tags),))

        return create

    def _brokers_now(self, creation: Creation) -> Inventory:
        """An inventory with the brokers that may hold the topic, and their tags, as they are now.

        `RpcError` if there is such a topic already, and for a cordoned broker that is named.
        """
        snapshot = self._mark(self._admin.snapshot(now=self._clock.now(), topics=[creation.name], sizes=False))
        # Without the right to describe it a name is listed as well, but without partitions.
        if any(found.partitions for found in snapshot.topics):
            raise fault("topic already exists")
        alive = [broker.id for broker in snapshot.brokers if broker.is_alive]
        if named := sorted(set(creation.broker_ids).intersection(snapshot.cordoned)):
            raise fault("invalid broker id", detail=f"cordoned: {', '.join(map(str, named))}")
        brokers = broker_facts(snapshot, self._admin.broker_settings(alive, VERSION_KEYS))
        brokers = tuple(facts for facts in brokers if facts.id not in snapshot.cordoned)
        tags: TagTable = {ObjectKind.BROKER: self._tags.all(ObjectKind.BROKER, [])}
        found = Inventory()
        found.apply(InventoryChange(began_at=self._clock.now(), brokers=brokers, tags=tags))
        return found

    def _tag_new(self, name: str, tags: Tags, end_s: float) -> Tags:
        wait_s = RETRY_S
        while True:
            try:
                return self._tags.put(ObjectKind.TOPIC, name, tags)
            except TryLaterError:
                if time.monotonic() + wait_s > end_s:
                    raise fault("tagging topic timed out", detail="the topic exists") from None
            pause(time, wait_s)
            wait_s = min(LONGEST_RETRY_S, 2 * wait_s)

    def _delete_topic(self, request: TopicRequest) -> Prepared:
        name, _ = self._topic(request)

        def delete(end_s: float) -> ChangeResult:
            with self._admin_lock:
                error = self._admin.delete_topic(name)
            if error is not None:
                raise refusal(error)
            return ChangeResult(reply=EMPTY, topics=((name, None),))

        return delete

    def _tag_topic(self, request: TopicRequest) -> Prepared:
        given = tags_to_set(ObjectKind.TOPIC, request.tag)
        name, require = self._topic(request)

        def tag(end_s: float) -> ChangeResult:
            require()
            return _tagging_result(ObjectKind.TOPIC, name, self._tags.put(ObjectKind.TOPIC, name, given))

        return tag

    def _delete_topic_tags(self, request: TopicRequest) -> Prepared:
        keys = keys_to_delete(request.tag)
        name, require = self._topic(request)

        def remove(end_s: float) -> ChangeResult:
            require()
            return _tagging_result(ObjectKind.TOPIC, name, self._tags.remove(ObjectKind.TOPIC, name, keys))

        return remove

    def _tag_broker(self, request: BrokerRequest) -> Prepared:
        given, name = tags_to_set(ObjectKind.BROKER, request.tag), _broker(request)
        return lambda end_s: _tagging_result(ObjectKind.BROKER, name, self._tags.put(ObjectKind.BROKER, name, given))

    def _tag_brokers(self, request: TagBrokersRequest) -> Prepared:
        given = tags_to_set(ObjectKind.BROKER, request.tags)
        if not request.ids or 0 in request.ids:
            raise fault("broker Ids field must be specified")
        ids = sorted(set(request.ids))
        if len(ids) > MAX_BROKERS:
            raise invalid_request(f"{len(ids)} brokers are given: at most {MAX_BROKERS}")

        def tag(end_s: float) -> ChangeResult:
            done: list[tuple[ObjectKind, str, Tags]] = []
            for name in map(str, ids):
                if time.monotonic() > end_s:
                    raise fault("deadline exceeded", detail=f"{len(done)} of {len(ids)} brokers are tagged")
                done.append((ObjectKind.BROKER, name, self._tags.put(ObjectKind.BROKER, name, given)))
            return ChangeResult(reply=EMPTY, tags=tuple(done))

        return tag

    def _delete_broker_tags(self, request: BrokerRequest) -> Prepared:
        keys, name = keys_to_delete(request.tag), _broker(request)

        def remove(end_s: float) -> ChangeResult:
            if self._tags.get(ObjectKind.BROKER, name) is None and request.id not in self.brokers_there():
                raise fault("broker does not exist")
            return _tagging_result(ObjectKind.BROKER, name, self._tags.remove(ObjectKind.BROKER, name, keys))

        return remove

    def _topic(self, request: TopicRequest) -> tuple[str, Callable[[], None]]:
        """The topic's name, and what raises `RpcError` unless the cluster has it."""
        name = request.name
        if not name:
            raise fault("topic Name field must be specified")
        if topic_problem(name):
            raise fault("topic does not exist")

        def require() -> None:
            if name not in self.topics_there([name]):
                raise fault("topic does not exist")

        return name, require


def _tagging_result(kind: ObjectKind, name: str, tags: Tags) -> ChangeResult:
    return ChangeResult(reply=SUCCESS, tags=((kind, name, tags),))


def _broker(request: BrokerRequest) -> str:
    if not request.id:
        raise fault("broker Id field must be specified")
    return str(request.id)


OpenReader = Callable[[], "InventoryReader"]


class InventoryReader:
    """One reading after the other; a failed one is a change that says so, and the next begins where the last ended."""

    def __init__(self, admin: ClusterAdmin, tags: TagStore, clock: Clock) -> None:
        self._admin, self._tags, self._clock = admin, tags, clock
        self._last: Facts | None = None

    @without_collector()
    def read(self) -> InventoryChange:
        """Brokers, topics, configurations and tags, in a few requests for each 500 topics."""
        try:
            facts = self.facts()
        except KafkakitError as error:
            return InventoryChange(failure=error.message)
        change = change_between(self._last, facts)
        self._last = facts
        return change

    def facts(self) -> Facts:
        """One reading as a whole; raises what the cluster or the store of tags raises."""
        began_s, began_at = self._clock.monotonic(), self._clock.now()
        snapshot = self._admin.snapshot(now=began_at, sizes=False)
        brokers = [broker.id for broker in snapshot.brokers if broker.is_alive]
        reassigning = {move.topic for move in snapshot.reassignments}
        unreadable: list[str] = []
        topics = (topic_facts(topic, is_reassigning=topic.name in reassigning) for topic in snapshot.topics)
        return Facts(
            cluster_id=snapshot.cluster_id,
            began_s=began_s,
            began_at=began_at,
            brokers=broker_facts(snapshot, self._admin.broker_settings(brokers, VERSION_KEYS)),
            topics={facts.name: facts for facts in topics},
            tags={kind: self._tags.all(kind, unreadable) for kind in ObjectKind},
            unreadable=tuple(unreadable),
        )


def read_topic(admin: ClusterAdmin, clock: Clock, name: str) -> RegisteredTopic | None:
    """One topic as it is now; None where it does not exist. A few requests."""
    snapshot = admin.snapshot(now=clock.now(), topics=[name], sizes=False)
    is_reassigning = any(move.topic == name for move in snapshot.reassignments)
    return next((topic_facts(topic, is_reassigning=is_reassigning) for topic in snapshot.topics), None)


_DECODER = msgpack.Decoder(InventoryChange)
NICENESS = 10
"""Answers go before readings where there are fewer cores than work."""


class ReaderProcess:
    """A child process that sends a change each `every_s`; to be made before this process has threads of its own.

    `receive` is called with each change, `ended` once when no more will come although it was not stopped: the child is
    gone, or what it sent cannot be read; both from a thread. The child ends with its parent, since the pipe between
    them does.
    """

    def __init__(self, open_reader: OpenReader, every_s: float) -> None:
        ours, theirs = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _run_child(theirs, open_reader, every_s)
        theirs.close()
        self._pipe, self._is_stopped = ours, False

    def start(self, receive: Callable[[InventoryChange], None], ended: Callable[[], None]) -> None:
        """Hand on what the child sends from now on."""
        Thread(target=self._follow, args=(receive, ended), name="reader", daemon=True).start()

    def stop(self) -> None:
        """End the child; harmless when it has ended."""
        self._is_stopped = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._pipe.close()

    def _follow(self, receive: Callable[[InventoryChange], None], ended: Callable[[], None]) -> None:
        try:
            while True:
                receive(_DECODER.decode(self._pipe.recv_bytes()))
        except (EOFError, OSError):
            pass
        except Exception:
            if not self._is_stopped:  # a loop that was closed refuses what comes after
                traceback.print_exc()
        finally:
            if not self._is_stopped:
                ended()


def _run_child(pipe: Connection, open_reader: OpenReader, every_s: float) -> None:
    """Read and send until the pipe breaks; leaves the process without the parent's exit handlers."""
    code = 1
    try:
        # They go to the whole group: the parent ends in order, and ends us.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        follow(pipe, open_reader, every_s)
        code = 0
    except Exception:
        traceback.print_exc()  # the parent can only tell that it is gone
    finally:
        os._exit(code)


def follow(pipe: Connection, open_reader: OpenReader, every_s: float) -> None:
    """Send a change each `every_s` until the other end is closed."""
    reader: InventoryReader | None = None
    niceness = NICENESS
    is_open = True
    while is_open:
        try:
            reader = reader or open_reader()
            change = reader.read()
        except KafkakitError as error:
            change = InventoryChange(failure=error.message)
        is_open = False
        with suppress(EOFError, OSError):  # of the pipe, and of nothing else
            pipe.send_bytes(msgpack.encode(change))
            del change
            os.nice(niceness)  # from the second reading on: the first is waited for
            niceness = 0
            gc.collect()
            if pipe.poll(every_s):
                pipe.recv_bytes()
            is_open = True
