"""Where partitions are led and under which topic id, remembered between requests and corrected by errors."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafkakit.adapters.kafka.errors import INVALID_TOPIC, TOPIC_DENIED, UNKNOWN_TOPIC, refused
from kafkakit.adapters.kafka.session import KafkaSession
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.log_reads import TopicPlaces
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import NO_TOPIC_ID

NAMES_PER_REQUEST = 500
STALE = frozenset({3, 5, 6, 9, 56, 74, 75, 78, 100, 103})
"""Kafka's errors for a leader or a topic that is another one now (Errors.java)."""
UNKNOWN = ItemError(name="UnknownTopicOrPartitionError", retriable=True)
HIDDEN = ItemError(name="TopicAuthorizationFailedError", message="grant DESCRIBE on the topic to this user")
LEADERLESS = ItemError(name="LeaderNotAvailableError", retriable=True)
RECREATED = ItemError(name="UnknownTopicIdError", message="the topic was deleted and created again", retriable=True)


class Routes:
    """The leaders of the partitions that were requested.

    Topics that are not remembered are looked up with one request before they are used. Of a topic whose id
    changed every partition that was in use answers once with `RECREATED`, so that no caller reads on without
    noticing.
    """

    def __init__(self, session: KafkaSession) -> None:
        self._session = session
        self._known: dict[str, TopicPlaces] = {}
        self._ids: dict[str, bytes] = {}
        self._hidden: set[str] = set()
        self._used: set[TopicPartition] = set()
        self._recreated: set[TopicPartition] = set()

    def look_up(self, topics: Collection[str] | None) -> dict[str, TopicPlaces]:
        """Request topics (None: all), remember and return them, sorted; absent: those that do not exist or are hidden.

        Raises `OperationFailedError` when all that there is of them is hidden.
        """
        found = self._ask(topics)
        if self._hidden and not found and topics is not None:
            raise refused(f"describe topic {min(self._hidden)}", "DESCRIBE on the topic")
        return found

    def _ask(self, topics: Collection[str] | None) -> dict[str, TopicPlaces]:
        from kafka.protocol.metadata import MetadataRequest

        batches: list[list[str] | None] = [None]
        if topics is not None:
            names = sorted(set(topics))
            batches = [names[i : i + NAMES_PER_REQUEST] for i in range(0, len(names), NAMES_PER_REQUEST)]
        found: dict[str, TopicPlaces] = {}
        hidden: set[str] = set()
        for batch in batches:
            wanted = None if batch is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in batch]
            request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            for topic in self._session.request("describe topics", request).topics:
                if topic.error_code == TOPIC_DENIED:
                    hidden.add(topic.name)
                elif topic.error_code not in (UNKNOWN_TOPIC, INVALID_TOPIC):
                    found[topic.name] = _places(topic)
        for name in self._known.keys() if topics is None else set(topics):
            if name not in found:
                self._known.pop(name, None)
        self._hidden = hidden
        for name, places in found.items():
            self._remember(name, places)
        return dict(sorted(found.items()))

    def leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | ItemError]:
        """The leader of each partition, or why there is none; requests topics that are not remembered."""
        missing = {key.topic for key in partitions} - self._known.keys()
        if missing:
            self._ask(missing)
        found = {key: self._leader(key) for key in sorted(set(partitions))}
        self.forget({key.topic for key, leader in found.items() if isinstance(leader, ItemError)})
        return found

    def ids(self, topics: Iterable[str]) -> Mapping[str, bytes]:
        """The ids of topics as they were last seen."""
        return {name: self._ids[name] for name in topics if name in self._ids}

    def recreated(self, partition: TopicPartition) -> bool:
        """Whether the partition's topic is another one than it was when it was last read, until `accept`."""
        self._used.add(partition)
        return partition in self._recreated

    def accept(self, partition: TopicPartition) -> None:
        """Read the new topic: its error was returned once."""
        self._recreated.discard(partition)

    def forget(self, topics: Iterable[str]) -> None:
        """Request these topics again before the next use."""
        for name in topics:
            self._known.pop(name, None)

    def _leader(self, key: TopicPartition) -> int | ItemError:
        places = self._known.get(key.topic)
        if places is None or key.partition not in places.leaders:
            return HIDDEN if key.topic in self._hidden else UNKNOWN
        leader = places.leaders[key.partition]
        return LEADERLESS if leader is None else leader

    def _remember(self, name: str, places: TopicPlaces) -> None:
        before = self._ids.get(name)
        if before is not None and before != places.topic_id:
            self._recreated |= {key for key in self._used if key.topic == name}
        self._known[name] = places
        self._ids[name] = places.topic_id


def _places(topic: Any) -> TopicPlaces:
    topic_id = getattr(topic, "topic_id", None)
    leaders = {p.partition_index: p.leader_id if p.leader_id >= 0 else None for p in topic.partitions}
    return TopicPlaces(
        topic_id=NO_TOPIC_ID if topic_id is None else topic_id.bytes, leaders=dict(sorted(leaders.items()))
    )
