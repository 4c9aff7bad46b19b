"""The replies to reads, from the inventory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kafkakit.registry.decide.facts import BrokerFacts, TopicFacts
from kafkakit.registry.decide.faults import fault, invalid
from kafkakit.registry.decide.inventory import NO_TAGS, Inventory
from kafkakit.registry.decide.replies import BrokersReply, Entry, Reply, TopicsReply
from kafkakit.registry.decide.requests import AnyRequest, BrokerRequest, NoRequest, TopicRequest, UnmappedRequest
from kafkakit.registry.decide.tags import Kind, parse_tags

MAX_EXCLUDED = 10_000
TOPICS_OF_A_PART = 250


def answer_read(name: str, request: AnyRequest, inventory: Inventory) -> Iterator[Reply]:
    """The reply to a read in parts, of which there is one but for GetTopics; `RpcError` for what has none.

    O(its size) beyond the look-ups. The inventory may change between two parts: what is gone by then is left out.
    """
    if isinstance(request, TopicRequest) and name == "GetTopics":
        names = list(_topics(request, inventory))
        for start in range(0, max(1, len(names)), TOPICS_OF_A_PART):
            yield _get_topics(names[start : start + TOPICS_OF_A_PART], request, inventory)
    else:
        yield READS[name](request, inventory)


def broker_entry(facts: BrokerFacts, inventory: Inventory) -> Entry:
    """A broker as messages show it."""
    return {
        "tags": inventory.tags[Kind.BROKER].get(str(facts.id), NO_TAGS),
        "id": facts.id,
        "host": facts.host,
        "port": facts.port,
        "rack": facts.rack,
        "interbrokerprotocolversion": facts.protocol_version,
        "logmessageformat": facts.message_format,
    }


def topic_entry(facts: TopicFacts, inventory: Inventory, *, with_replicas: bool) -> Entry:
    """A topic as messages show it."""
    return {
        "tags": inventory.tags[Kind.TOPIC].get(facts.name, NO_TAGS),
        "name": facts.name,
        "partitions": len(facts.replicas),
        "replication": facts.replication,
        "configs": facts.configs,
        "replicas": {number: {"ids": row} for number, row in facts.replicas} if with_replicas else {},
    }


def _get_brokers(request: BrokerRequest, inventory: Inventory) -> Reply:
    chosen = _brokers(request, inventory)
    return BrokersReply(brokers={b: broker_entry(inventory.brokers[b], inventory) for b in chosen})


def _list_brokers(request: BrokerRequest, inventory: Inventory) -> Reply:
    return BrokersReply(ids=_brokers(request, inventory))


def _brokers(request: BrokerRequest, inventory: Inventory) -> list[int]:
    wanted = parse_tags(request.tag)
    if request.id:
        return [request.id] if request.id in inventory.brokers else []
    found = inventory.select(Kind.BROKER, wanted)
    return sorted(inventory.brokers if found is None else map(int, found))


def _unmapped_brokers(request: UnmappedRequest, inventory: Inventory) -> Reply:
    if len(request.exclude) > MAX_EXCLUDED:
        raise invalid(f"{len(request.exclude)} topics are excluded: at most {MAX_EXCLUDED}")
    excluded = frozenset(request.exclude)
    ids = [b for b in sorted(inventory.brokers) if inventory.holds_none_but(b, excluded)]
    return BrokersReply(ids=ids)


def _get_topics(names: Sequence[str], request: TopicRequest, inventory: Inventory) -> Reply:
    shown = (inventory.topics[name] for name in names if name in inventory.topics)
    entries = {facts.name: topic_entry(facts, inventory, with_replicas=request.with_replicas) for facts in shown}
    return TopicsReply(topics=entries)


def _list_topics(request: TopicRequest, inventory: Inventory) -> Reply:
    return TopicsReply(names=list(_topics(request, inventory)))


def _topics(request: TopicRequest, inventory: Inventory) -> Iterable[str]:
    wanted = parse_tags(request.tag)
    names: Iterable[str]
    if request.name:
        names = [request.name] if request.name in inventory.topics else []
    else:
        found = inventory.select(Kind.TOPIC, wanted)
        names = inventory.topic_names if found is None else sorted(found)
    if not request.spanning:
        return names
    alive = len(inventory.brokers)
    return [name for name in names if len(inventory.topics[name].brokers) >= alive]


def _reassigning(request: NoRequest, inventory: Inventory) -> Reply:
    return _marked(inventory, lambda facts: facts.is_reassigning)


def _under_replicated(request: NoRequest, inventory: Inventory) -> Reply:
    return _marked(inventory, lambda facts: facts.is_under_replicated)


def _marked(inventory: Inventory, has_mark: Callable[[TopicFacts], bool]) -> Reply:
    return TopicsReply(names=[name for name in inventory.topic_names if has_mark(inventory.topics[name])])


def _topic_mappings(request: TopicRequest, inventory: Inventory) -> Reply:
    if not request.name:
        raise fault("topic Name field must be specified")
    facts = inventory.topics.get(request.name)
    if facts is None:
        raise fault("topic does not exist")
    return BrokersReply(ids=sorted(facts.brokers))


def _broker_mappings(request: BrokerRequest, inventory: Inventory) -> Reply:
    if not request.id:
        raise fault("broker Id field must be specified")
    if request.id not in inventory.brokers:
        raise fault("broker does not exist")
    return TopicsReply(names=inventory.topics_on(request.id))


READS: Mapping[str, Callable[..., Reply]] = {
    "GetBrokers": _get_brokers,
    "ListBrokers": _list_brokers,
    "UnmappedBrokers": _unmapped_brokers,
    "ListTopics": _list_topics,
    "ReassigningTopics": _reassigning,
    "UnderReplicatedTopics": _under_replicated,
    "TopicMappings": _topic_mappings,
    "BrokerMappings": _broker_mappings,
}
