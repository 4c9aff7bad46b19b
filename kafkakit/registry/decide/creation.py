"""A new topic: what a request means, which brokers may hold it, and where its replicas go."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.core.printable import printable
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.openings.fill import group_openings
from kafkakit.placement.openings.new_topic import place_new_topic
from kafkakit.registry.decide.facts import BrokerFacts, TopicFacts
from kafkakit.registry.decide.faults import fault, invalid
from kafkakit.registry.decide.inventory import Inventory
from kafkakit.registry.decide.requests import CreateRequest
from kafkakit.registry.decide.tags import Kind, Tags, merged, parse_tags, tags_to_set

MAX_PARTITIONS = 10_000
MAX_REPLICATION = 100
MAX_CONFIGS = 200
MAX_CONFIG_VALUE = 32_767
_CODES = {
    "TopicAlreadyExistsError": RpcCode.ALREADY_EXISTS,
    "UnknownTopicOrPartitionError": RpcCode.NOT_FOUND,
    "InvalidTopicError": RpcCode.INVALID_ARGUMENT,
    "InvalidConfigurationError": RpcCode.INVALID_ARGUMENT,
    "InvalidPartitionsError": RpcCode.INVALID_ARGUMENT,
    "InvalidReplicationFactorError": RpcCode.INVALID_ARGUMENT,
    "PolicyViolationError": RpcCode.FAILED_PRECONDITION,
    "TopicDeletionDisabledError": RpcCode.FAILED_PRECONDITION,
    "TopicAuthorizationFailedError": RpcCode.PERMISSION_DENIED,
    "ClusterAuthorizationFailedError": RpcCode.PERMISSION_DENIED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A sound request for a new topic; without targets any live broker may hold it."""

    name: str
    partitions: int
    replication: int
    configs: Mapping[str, str]
    tags: Tags
    broker_tags: Tags
    broker_ids: tuple[int, ...]


def read_creation(request: CreateRequest) -> Creation:
    """Check all that can be checked before anything is done, tags too; `RpcError` otherwise."""
    topic = request.topic
    if topic is None:
        raise fault("topic field missing in request body")
    name = topic["name"]
    if not name:
        raise fault("topic Name field must be specified")
    if problem := topic_problem(name):
        raise invalid(f"topic {printable(name[:80])!r} is {problem}")
    for what, number, most in (
        ("partitions", topic["partitions"], MAX_PARTITIONS),
        ("replication", topic["replication"], MAX_REPLICATION),
    ):
        if not 1 <= number <= most:
            raise invalid(f"topic {what} must be between 1 and {most}")
    configs = dict(sorted(topic["configs"].items()))
    if len(configs) > MAX_CONFIGS or any(len(value) > MAX_CONFIG_VALUE for value in configs.values()):
        raise invalid(f"at most {MAX_CONFIGS} configs of at most {MAX_CONFIG_VALUE} characters can be given")
    given = tuple(f"{key}:{value}" for key, value in sorted(topic["tags"].items()))
    return Creation(
        name=name,
        partitions=topic["partitions"],
        replication=topic["replication"],
        configs=configs,
        tags=merged(Kind.TOPIC, name, {}, tags_to_set(Kind.TOPIC, given)) if given else {},
        broker_tags=parse_tags(request.target_broker_tags),
        broker_ids=tuple(sorted(set(request.target_broker_ids))),
    )


def candidates(creation: Creation, inventory: Inventory) -> tuple[int, ...]:
    """The brokers that may hold the topic; `RpcError` for an id that lacks the tags, and for too few brokers."""
    found = inventory.select(Kind.BROKER, creation.broker_tags)
    chosen = sorted(inventory.brokers if found is None else map(int, found))
    if wrong := sorted(set(creation.broker_ids) - set(chosen)):
        raise fault("invalid broker id", detail=", ".join(map(str, wrong)))
    chosen = list(creation.broker_ids) or chosen
    if len(chosen) < creation.replication:
        raise fault("insufficient number of brokers", detail=f"{len(chosen)} for {creation.replication} replicas")
    return tuple(chosen)


def place(
    creation: Creation, brokers: Sequence[BrokerFacts], topics: Iterable[TopicFacts]
) -> dict[int, tuple[int, ...]]:
    """A replica list for each partition, the leader first: spread evenly, then levelling the brokers, racks distinct.

    Where no targets are given racks are repeated when there are too few, as Kafka does; with targets that is refused
    with `RpcError`, as in kafka-kit. O(replicas of the cluster).
    """
    racks = {broker.id: broker.rack or None for broker in brokers}
    is_targeted = bool(creation.broker_tags or creation.broker_ids)
    # Brokers without a rack are one each, as in planning.
    names = {rack for rack in racks.values() if rack}
    spanned = len(names) + sum(rack is None for rack in racks.values())
    rule = GroupRule(0 if is_targeted else min(creation.replication, max(1, spanned)))
    openings: dict[int, tuple[tuple[int, ...], int]] = dict.fromkeys(
        range(creation.partitions), ((), creation.replication)
    )
    rooms, unfit = group_openings(openings, Grouping.of(rule, racks, racks))
    if unfit:
        raise fault("insufficient number of brokers", detail=f"{len(names)} racks for {creation.replication} replicas")
    held, led = _counts(topics)
    return dict(enumerate(place_new_topic(rooms, racks, {broker: held[broker] for broker in racks}, led)))


def refusal(error: ItemError) -> RpcError:
    """What Kafka refused, as an answer."""
    if error.name == "TopicAlreadyExistsError":
        return fault("topic already exists")
    if error.name == "UnknownTopicOrPartitionError":
        return fault("topic does not exist")
    code = RpcCode.UNAVAILABLE if error.retriable else _CODES.get(error.name, RpcCode.INTERNAL)
    return RpcError(code, f"Kafka refused: {error}")


def _counts(topics: Iterable[TopicFacts]) -> tuple[Counter[int], Counter[int]]:
    held: Counter[int] = Counter()
    led: Counter[int] = Counter()
    for facts in topics:
        for _, row in facts.replicas:
            held.update(row)
            led.update(row[:1])
    return held, led
