"""The calls that change something: checked at once, and carried out in a thread where they may block."""

import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from threading import Lock

from kafkakit.core.errors import TryLaterError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.registry.act.cluster_reader import read_topic
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.creation import candidates, place, read_creation, refusal
from kafkakit.registry.decide.facts import TopicFacts
from kafkakit.registry.decide.faults import fault, invalid
from kafkakit.registry.decide.inventory import Inventory
from kafkakit.registry.decide.replies import EMPTY, SUCCESS, Reply
from kafkakit.registry.decide.requests import (
    AnyRequest,
    BrokerRequest,
    CreateRequest,
    TagBrokersRequest,
    TopicRequest,
)
from kafkakit.registry.decide.tags import Kind, Tags, keys_to_delete, tags_to_set

MAX_BROKERS = 1000
RETRY_S = 0.25
LONGEST_RETRY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The reply to a change, and what it made of topics (None: deleted) and tags, for the inventory."""

    reply: Reply
    topics: tuple[tuple[str, TopicFacts | None], ...] = ()
    tags: tuple[tuple[Kind, str, Tags], ...] = ()


Prepared = Callable[[float], Written]
"""Carries a call out until so many seconds of the monotonic clock; blocks, and may run beside others."""


class Writes:
    """Changes of tags and topics. What the inventory lacks is looked up in the cluster."""

    def __init__(self, admin: ClusterAdmin, tags: TagStore, clock: Clock, inventory: Inventory) -> None:
        self._admin, self._tags, self._clock, self._inventory = admin, tags, clock, inventory
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

    def finds_topic(self, name: str) -> bool:
        """Whether the cluster has a topic, which may be newer than the inventory. A few requests."""
        with self._admin_lock:
            return read_topic(self._admin, self._clock, name) is not None

    def _create_topic(self, request: CreateRequest) -> Prepared:
        creation, inventory = read_creation(request), self._inventory
        if creation.name in inventory.topics:
            raise fault("topic already exists")
        brokers = tuple(inventory.brokers[broker] for broker in candidates(creation, inventory))
        topics = tuple(inventory.topics.values())

        def create(end_s: float) -> Written:
            lists = place(creation, brokers, topics)
            with self._admin_lock:
                error = self._admin.create_topic(creation.name, lists, creation.configs)
                if error is not None:
                    raise refusal(error)
                facts = read_topic(self._admin, self._clock, creation.name)
            made = ((creation.name, facts),) if facts else ()
            if not creation.tags:
                return Written(reply=EMPTY, topics=made)
            tags = self._tag_new(creation.name, creation.tags, end_s)
            return Written(reply=EMPTY, topics=made, tags=((Kind.TOPIC, creation.name, tags),))

        return create

    def _tag_new(self, name: str, tags: Tags, end_s: float) -> Tags:
        wait_s = RETRY_S
        while True:
            try:
                return self._tags.put(Kind.TOPIC, name, tags)
            except TryLaterError:
                if time.monotonic() + wait_s > end_s:
                    raise fault("tagging topic timed out", detail="the topic exists") from None
            time.sleep(wait_s)
            wait_s = min(LONGEST_RETRY_S, 2 * wait_s)

    def _delete_topic(self, request: TopicRequest) -> Prepared:
        name, require = self._topic(request)

        def delete(end_s: float) -> Written:
            require()
            with self._admin_lock:
                error = self._admin.delete_topic(name)
            if error is not None:
                raise refusal(error)
            return Written(reply=EMPTY, topics=((name, None),))

        return delete

    def _tag_topic(self, request: TopicRequest) -> Prepared:
        given = tags_to_set(Kind.TOPIC, request.tag)
        name, require = self._topic(request)

        def tag(end_s: float) -> Written:
            require()
            return _tagged(Kind.TOPIC, name, self._tags.put(Kind.TOPIC, name, given))

        return tag

    def _delete_topic_tags(self, request: TopicRequest) -> Prepared:
        keys = keys_to_delete(request.tag)
        name, require = self._topic(request)

        def remove(end_s: float) -> Written:
            require()
            return _tagged(Kind.TOPIC, name, self._tags.remove(Kind.TOPIC, name, keys))

        return remove

    def _tag_broker(self, request: BrokerRequest) -> Prepared:
        given, name = tags_to_set(Kind.BROKER, request.tag), _broker(request)
        return lambda end_s: _tagged(Kind.BROKER, name, self._tags.put(Kind.BROKER, name, given))

    def _tag_brokers(self, request: TagBrokersRequest) -> Prepared:
        given = tags_to_set(Kind.BROKER, request.tags)
        if not request.ids or 0 in request.ids:
            raise fault("broker Ids field must be specified")
        ids = sorted(set(request.ids))
        if len(ids) > MAX_BROKERS:
            raise invalid(f"{len(ids)} brokers are given: at most {MAX_BROKERS}")

        def tag(end_s: float) -> Written:
            done: list[tuple[Kind, str, Tags]] = []
            for name in map(str, ids):
                if time.monotonic() > end_s:
                    raise fault("deadline exceeded", detail=f"{len(done)} of {len(ids)} brokers are tagged")
                done.append((Kind.BROKER, name, self._tags.put(Kind.BROKER, name, given)))
            return Written(reply=EMPTY, tags=tuple(done))

        return tag

    def _delete_broker_tags(self, request: BrokerRequest) -> Prepared:
        keys, name = keys_to_delete(request.tag), _broker(request)
        is_live = request.id in self._inventory.brokers

        def remove(end_s: float) -> Written:
            if not is_live and self._tags.get(Kind.BROKER, name) is None:
                raise fault("broker does not exist")
            return _tagged(Kind.BROKER, name, self._tags.remove(Kind.BROKER, name, keys))

        return remove

    def _topic(self, request: TopicRequest) -> tuple[str, Callable[[], None]]:
        """The topic's name, and what raises `RpcError` unless it exists: it may be newer than the inventory."""
        name = request.name
        if not name:
            raise fault("topic Name field must be specified")
        if topic_problem(name):
            raise fault("topic does not exist")
        is_known = name in self._inventory.topics

        def require() -> None:
            if not is_known and not self.finds_topic(name):
                raise fault("topic does not exist")

        return name, require


def _tagged(kind: Kind, name: str, tags: Tags) -> Written:
    return Written(reply=SUCCESS, tags=((kind, name, tags),))


def _broker(request: BrokerRequest) -> str:
    if not request.id:
        raise fault("broker Id field must be specified")
    return str(request.id)
