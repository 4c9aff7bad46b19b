"""The brokers, topics and tags that reads are answered from, with an index of their attributes.

It is changed in place, by the one thread that also reads it. What a client wrote through this process is there at
once, and a reading of the cluster that began before the write does not undo it. What the service knows of a cluster
has the form in which one process hands it to another.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from kafkakit.core.model import ClusterSnapshot, Topic
from kafkakit.registry.decide.tags import ObjectKind, Tags, is_broker_id

NO_TAGS: Tags = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedObject:
    """An object that changed, or came or went; `old_tags` where a reading found other tags than were known."""

    kind: ObjectKind
    name: str
    old_tags: Tags | None = None


Follower = Callable[[Sequence[ChangedObject]], None]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class OwnWrites(Generic[K, V]):
    """Objects that this process wrote, until a reading begins after the write, with what readings say of them.

    A reading is the difference from the one before: what it says of such an object is kept until it counts, because
    the next reading does not repeat it.
    """

    def __init__(self) -> None:
        self._at_s: dict[K, float] = {}
        self._read: dict[K, V | None] = {}

    def note(self, key: K, now_s: float) -> None:
        """A write of ours ended."""
        self._at_s[key] = now_s

    def expect(self, key: K, read: V | None) -> None:
        """What readings said of an object before it was written, where readings are never from the past."""
        self._read.setdefault(key, read)

    def news(self, found: Mapping[K, V | None], began_s: float) -> dict[K, V | None]:
        """What counts of a reading, and of earlier ones: all but objects that were written since it began."""
        self._at_s = {key: at_s for key, at_s in self._at_s.items() if at_s >= began_s}
        self._read |= {key: value for key, value in found.items() if key in self._at_s}
        settled = {key: self._read.pop(key) for key in tuple(self._read) if key not in self._at_s}
        return settled | {key: value for key, value in found.items() if key not in self._at_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBroker:
    """A live broker; the versions are empty where the release has no such setting."""

    id: int
    host: str = ""
    port: int = 0
    rack: str = ""
    protocol_version: str = ""
    message_format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTopic:
    """A topic: replica lists by partition, and the configuration that is set on itself."""

    name: str
    replicas: tuple[tuple[int, tuple[int, ...]], ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    is_under_replicated: bool = False
    is_reassigning: bool = False

    @property
    def replication(self) -> int:
        """The longest replica list."""
        return max((len(row) for _, row in self.replicas), default=0)

    @property
    def brokers(self) -> frozenset[int]:
        """The brokers that hold a replica."""
        return frozenset(broker for _, row in self.replicas for broker in row)


VERSION_KEYS = ("inter.broker.protocol.version", "log.message.format.version")
TagTable = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Tags by kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryChange:
    """What a reading found since the one before; `failure` says why there is nothing new."""

    cluster_id: str = ""
    began_s: float = 0.0
    began_at: datetime | None = None
    brokers: tuple[RegisteredBroker, ...] | None = None
    topics: tuple[RegisteredTopic, ...] = ()
    gone: tuple[str, ...] = ()
    tags: TagTable = field(default_factory=dict)
    tags_gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    failure: str = ""


class Inventory:
    """Answers in dictionary look-ups; `generation` grows with every change, `began_at` is None before the first."""

    def __init__(self) -> None:
        self.generation = 0
        self.cluster_id = ""
        self.began_at: datetime | None = None
        self.began_s = 0.0
        self.failure = ""
        self.brokers: dict[int, RegisteredBroker] = {}
        self.topics: dict[str, RegisteredTopic] = {}
        self.tags: dict[ObjectKind, dict[str, Tags]] = {ObjectKind.BROKER: {}, ObjectKind.TOPIC: {}}
        self._index: dict[ObjectKind, dict[str, dict[str, set[str]]]] = {kind: {} for kind in ObjectKind}
        self._by_broker: defaultdict[int, set[str]] = defaultdict(set)
        self._topics_written = OwnWrites[str, RegisteredTopic]()
        self._tags_written = OwnWrites[tuple[ObjectKind, str], Tags]()
        self._names: list[str] | None = None
        self._touched: list[ChangedObject] = []
        self.followers: list[Follower] = []
        """Called after each change but the first, with what it touched."""

    @property
    def topic_names(self) -> list[str]:
        """The names of all topics, sorted; not to be changed."""
        if self._names is None:
            self._names = sorted(self.topics)
        return self._names

    def topics_on(self, broker: int) -> list[str]:
        """The topics with a replica on a broker, sorted."""
        return sorted(self._by_broker.get(broker, ()))

    def holds_none_but(self, broker: int, topics: frozenset[str]) -> bool:
        """Whether every topic on a broker is one of these."""
        return topics.issuperset(self._by_broker.get(broker, ()))

    def attributes(self, kind: ObjectKind, name: str) -> dict[str, str]:
        """Kafka-kit's default tags of an object, under those that are set; only the latter where it does not exist."""
        default = (
            _topic_attributes(self.topics.get(name)) if kind is ObjectKind.TOPIC else self._broker_attributes(name)
        )
        return {**default, **self.tags[kind].get(name, NO_TAGS)}

    def has(self, kind: ObjectKind, name: str) -> bool:
        """Whether an object exists."""
        if kind is ObjectKind.TOPIC:
            return name in self.topics
        return is_broker_id(name) and int(name) in self.brokers

    def knows(self, kind: ObjectKind, name: str) -> bool:
        """Whether an object exists, has a record of tags, or is a broker that is down and holds replicas."""
        if self.has(kind, name) or name in self.tags[kind]:
            return True
        return kind is ObjectKind.BROKER and is_broker_id(name) and bool(self._by_broker.get(int(name)))

    def select(self, kind: ObjectKind, wanted: Tags) -> set[str] | None:
        """The existing objects with all these attributes; None for all objects. An empty value: those without one."""
        found: set[str] | None = None
        for key, value in wanted.items():
            values = self._index[kind].get(key, {})
            if value:
                holding = values.get(value, set())
                found = set(holding) if found is None else found & holding
            else:
                existing = found if found is not None else self._existing(kind)
                found = existing - {name for text, names in values.items() if text for name in names}
        return found

    def apply(self, change: InventoryChange) -> None:
        """Take in what a reading found; O(what changed)."""
        self.failure = change.failure
        if change.began_at is None:
            return
        is_first = self.began_at is None
        self.cluster_id, self.began_at, self.began_s = change.cluster_id, change.began_at, change.began_s
        if change.brokers is not None:
            self._put_brokers(change.brokers)
        topics: dict[str, RegisteredTopic | None] = {facts.name: facts for facts in change.topics}
        for name, facts in self._topics_written.news(topics | dict.fromkeys(change.gone), change.began_s).items():
            if facts is None:
                self._drop_topic(name)
            elif facts != self.topics.get(name):
                self._put_topic(facts)
        tags: dict[tuple[ObjectKind, str], Tags | None] = {}
        for kind in ObjectKind:
            tags |= {(kind, name): own for name, own in change.tags.get(kind, {}).items()}
            tags |= {(kind, name): None for name in change.tags_gone.get(kind, ())}
        for (kind, name), own in self._tags_written.news(tags, change.began_s).items():
            self._put_tags(kind, name, own, is_ours=False)
        if self._touched or topics or tags or change.gone or change.brokers is not None:
            self._end_change(is_first=is_first)

    def note_topic(self, name: str, facts: RegisteredTopic | None, now_s: float) -> None:
        """What a write of ours made of a topic; None: it is deleted."""
        self._topics_written.note(name, now_s)
        if facts is None:
            self._drop_topic(name)
        else:
            self._put_topic(facts)
        self._end_change()

    def note_tags(self, kind: ObjectKind, name: str, tags: Tags | None, now_s: float) -> None:
        """The tags of an object after a write of ours; None: it has no record of tags any more."""
        self._tags_written.note((kind, name), now_s)
        self._tags_written.expect((kind, name), self.tags[kind].get(name))
        self._put_tags(kind, name, tags)
        self._end_change()

    def _end_change(self, *, is_first: bool = False) -> None:
        self.generation += 1
        touched, self._touched = self._touched, []
        for follow in self.followers if touched and not is_first else ():
            follow(touched)

    def _put_topic(self, facts: RegisteredTopic) -> None:
        if facts.name in self.topics:
            self._drop_topic(facts.name)
        else:
            self._touched.append(ChangedObject(kind=ObjectKind.TOPIC, name=facts.name))
        self.topics[facts.name] = facts
        for broker in facts.brokers:
            self._by_broker[broker].add(facts.name)
        self._enter(ObjectKind.TOPIC, facts.name)
        self._names = None

    def _drop_topic(self, name: str) -> None:
        if name not in self.topics:
            return
        self._leave(ObjectKind.TOPIC, name)
        for broker in self.topics.pop(name).brokers:
            self._by_broker[broker].discard(name)
        self._names = None
        self._touched.append(ChangedObject(kind=ObjectKind.TOPIC, name=name))

    def _put_brokers(self, brokers: Iterable[RegisteredBroker]) -> None:
        earlier = self.brokers
        for broker in earlier:
            self._leave(ObjectKind.BROKER, str(broker))
        self.brokers = {broker.id: broker for broker in brokers}
        for broker in sorted(earlier.keys() | self.brokers.keys()):
            if earlier.get(broker) != self.brokers.get(broker):
                self._touched.append(ChangedObject(kind=ObjectKind.BROKER, name=str(broker)))
        for broker in self.brokers:
            self._enter(ObjectKind.BROKER, str(broker))

    def _put_tags(self, kind: ObjectKind, name: str, tags: Tags | None, *, is_ours: bool = True) -> None:
        old = self.tags[kind].get(name)
        if old == tags:
            return
        self._touched.append(ChangedObject(kind=kind, name=name, old_tags=None if is_ours else old or NO_TAGS))
        exists = self.has(kind, name)
        if exists:
            self._leave(kind, name)
        if tags is None:
            self.tags[kind].pop(name, None)
        else:
            self.tags[kind][name] = tags
        if exists:
            self._enter(kind, name)

    def _enter(self, kind: ObjectKind, name: str) -> None:
        index = self._index[kind]
        for key, value in self.attributes(kind, name).items():
            index.setdefault(key, {}).setdefault(value, set()).add(name)

    def _leave(self, kind: ObjectKind, name: str) -> None:
        index = self._index[kind]
        for key, value in self.attributes(kind, name).items():
            names = index[key][value]
            names.discard(name)
            if not names:
                del index[key][value]

    def _existing(self, kind: ObjectKind) -> set[str]:
        return set(self.topics) if kind is ObjectKind.TOPIC else {str(broker) for broker in self.brokers}

    def _broker_attributes(self, name: str) -> Mapping[str, str]:
        facts = self.brokers.get(int(name)) if name.isdecimal() else None
        return {} if facts is None else dict(_broker_attributes(facts))


def _topic_attributes(facts: RegisteredTopic | None) -> Mapping[str, str]:
    if facts is None:
        return {}
    return {"name": facts.name, "partitions": str(len(facts.replicas)), "replication": str(facts.replication)}


def _broker_attributes(facts: RegisteredBroker) -> Iterator[tuple[str, str]]:
    yield "id", str(facts.id)
    yield "host", facts.host
    yield "port", str(facts.port)
    yield "rack", facts.rack
    yield "logmessageformat", facts.message_format
    yield "interbrokerprotocolversion", facts.protocol_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One reading of a cluster and its tags; `began_s` is on the monotonic clock of the host.

    `unreadable` are the paths of records that hold no tags.
    """

    cluster_id: str
    began_s: float
    began_at: datetime
    brokers: tuple[RegisteredBroker, ...]
    topics: Mapping[str, RegisteredTopic]
    tags: TagTable
    unreadable: tuple[str, ...] = ()


def topic_facts(topic: Topic, *, is_reassigning: bool) -> RegisteredTopic:
    """A topic of a snapshot; O(replicas)."""
    return RegisteredTopic(
        name=topic.name,
        replicas=tuple((p.partition, p.replicas) for p in topic.partitions),
        configs=topic.configs,
        is_under_replicated=any(p.isr is not None and len(p.isr) < len(p.replicas) for p in topic.partitions),
        is_reassigning=is_reassigning,
    )


def broker_facts(snapshot: ClusterSnapshot, settings: Mapping[int, Mapping[str, str]]) -> tuple[RegisteredBroker, ...]:
    """The live brokers of a snapshot, by id."""
    return tuple(
        RegisteredBroker(
            id=broker.id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack or "",
            protocol_version=settings.get(broker.id, {}).get(VERSION_KEYS[0], ""),
            message_format=settings.get(broker.id, {}).get(VERSION_KEYS[1], ""),
        )
        for broker in snapshot.brokers
        if broker.is_alive
    )


def change_between(earlier: Facts | None, now: Facts) -> InventoryChange:
    """What of a reading differs from the one before; everything where there is none. O(topics)."""
    topics = earlier.topics if earlier else {}
    tags = earlier.tags if earlier else {}
    return InventoryChange(
        cluster_id=now.cluster_id,
        began_s=now.began_s,
        began_at=now.began_at,
        brokers=None if earlier and earlier.brokers == now.brokers else now.brokers,
        topics=tuple(facts for name, facts in now.topics.items() if topics.get(name) != facts),
        gone=tuple(sorted(topics.keys() - now.topics.keys())),
        tags={
            kind: {name: own for name, own in table.items() if tags.get(kind, {}).get(name) != own}
            for kind, table in now.tags.items()
        },
        unreadable=now.unreadable,
        tags_gone={kind: tuple(sorted(tags.get(kind, {}).keys() - table.keys())) for kind, table in now.tags.items()},
    )
