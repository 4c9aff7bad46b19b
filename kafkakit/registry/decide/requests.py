"""kafka-kit's calls of the service: requests as values, the table of calls, replies, reads, and new topics.

HTTP requests are routed and their fields are read as grpc-gateway has it. So is the JSON of replies: camel case,
unset fields shown, maps sorted. Reads are answered from the inventory. For a new topic it is decided what a request
means, which brokers may hold it, and where its replicas go.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.core.text import sanitize
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.openings import group_openings, place_new_topic
from kafkakit.registry.decide.inventory import NO_TAGS, Inventory, RegisteredBroker, RegisteredTopic
from kafkakit.registry.decide.tags import (
    CallRole,
    ObjectKind,
    Tags,
    fault,
    invalid_request,
    merge_tags,
    parse_tags,
    tags_to_set,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRequest:
    """A broker by id, or brokers by tags; 0 is no id."""

    tag: tuple[str, ...] = ()
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmappedRequest:
    """`exclude`: topics whose replicas do not count."""

    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """A topic by name, or topics by tags."""

    tag: tuple[str, ...] = ()
    name: str = ""
    spanning: bool = False
    with_replicas: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRequest:
    """A request without fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """A new topic, its tags, and which brokers may hold it; `topic` is None where it is missing."""

    topic: Mapping[str, Any] | None = None
    target_broker_tags: tuple[str, ...] = ()
    target_broker_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TagBrokersRequest:
    """Tags for several brokers."""

    tags: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateRequest:
    """Which group's offsets, and the alias of the cluster that they come from."""

    remote_cluster_alias: str = ""
    group_id: str = ""


AnyRequest = (
    BrokerRequest | UnmappedRequest | TopicRequest | NoRequest | CreateRequest | TagBrokersRequest | TranslateRequest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of either version: its role, and where it is over HTTP (`GET /v1/topics/{name}`).

    `{name}` in a path is a field of the request.
    """

    name: str
    role: CallRole
    http: str
    http_method: str = field(init=False)
    http_path: str = field(init=False)
    segments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        method, path = self.http.split(" ")
        object.__setattr__(self, "http_method", method)
        object.__setattr__(self, "http_path", path)
        object.__setattr__(self, "segments", tuple(path.split("/")[1:]))

    def fields_in(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """The fields that stand in a decoded path; None for a path that is not this call's."""
        if len(segments) != len(self.segments):
            return None
        fields = {}
        for expected, given in zip(self.segments, segments, strict=True):
            if expected[0] == "{":
                if not given:
                    return None
                fields[expected[1:-1]] = given
            elif expected != given:
                return None
        return fields


C = TypeVar("C", bound=Call)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRoute(Call):
    """A call of kafka-kit's registry with the names of its messages."""

    message: str
    request: type[AnyRequest]
    reply: str

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.role is CallRole.READ


def _rpc(name: str, message: str, request: type[AnyRequest], reply: str, role: CallRole, http: str) -> CallRoute:
    return CallRoute(name=name, message=message, request=request, reply=reply, role=role, http=http)


_BROKER, _TOPIC = ("BrokerRequest", BrokerRequest), ("TopicRequest", TopicRequest)
_BROKERS, _TOPICS, _TAGGED = "BrokerResponse", "TopicResponse", "TagResponse"

RPCS: tuple[CallRoute, ...] = (
    _rpc("GetBrokers", *_BROKER, _BROKERS, CallRole.READ, "GET /v1/brokers"),
    _rpc("ListBrokers", *_BROKER, _BROKERS, CallRole.READ, "GET /v1/brokers/list"),
    _rpc(
        "UnmappedBrokers",
        "UnmappedBrokersRequest",
        UnmappedRequest,
        _BROKERS,
        CallRole.READ,
        "GET /v1/brokers/unmapped",
    ),
    _rpc("GetTopics", *_TOPIC, _TOPICS, CallRole.READ, "GET /v1/topics"),
    _rpc("ListTopics", *_TOPIC, _TOPICS, CallRole.READ, "GET /v1/topics/list"),
    _rpc("ReassigningTopics", "Empty", NoRequest, _TOPICS, CallRole.READ, "GET /v1/topics/reassigning"),
    _rpc("UnderReplicatedTopics", "Empty", NoRequest, _TOPICS, CallRole.READ, "GET /v1/topics/underreplicated"),
    _rpc("TopicMappings", *_TOPIC, _BROKERS, CallRole.READ, "GET /v1/mappings/topic/{name}"),
    _rpc("BrokerMappings", *_BROKER, _TOPICS, CallRole.READ, "GET /v1/mappings/broker/{id}"),
    _rpc(
        "TranslateOffsets",
        "TranslateOffsetRequest",
        TranslateRequest,
        "TranslateOffsetResponse",
        CallRole.READ,
        "GET /v1/translate-offsets/{remote_cluster_alias}/{group_id}",
    ),
    _rpc("CreateTopic", "CreateTopicRequest", CreateRequest, "Empty", CallRole.CREATE, "POST /v1/topics/create"),
    _rpc("DeleteTopic", *_TOPIC, "Empty", CallRole.DELETE, "DELETE /v1/topics/{name}"),
    _rpc("TagTopic", *_TOPIC, _TAGGED, CallRole.TAG, "PUT /v1/topics/tag/{name}"),
    _rpc("DeleteTopicTags", *_TOPIC, _TAGGED, CallRole.TAG, "DELETE /v1/topics/tag/{name}"),
    _rpc("TagBroker", *_BROKER, _TAGGED, CallRole.TAG, "PUT /v1/brokers/tag/{id}"),
    _rpc(
        "TagBrokers", "TagBrokersRequest", TagBrokersRequest, "TagBrokersResponse", CallRole.TAG, "POST /v2/brokers/tag"
    ),
    _rpc("DeleteBrokerTags", *_BROKER, _TAGGED, CallRole.TAG, "DELETE /v1/brokers/tag/{id}"),
)
"""Every call of kafka-kit's registry; further calls are added here."""
RPC_BY_NAME: Mapping[str, CallRoute] = {rpc.name: rpc for rpc in RPCS}
SERVICE = "registry.Registry"


def names_in(request: AnyRequest) -> tuple[str, tuple[str, ...]]:
    """What a request is about: `topic` or `broker` and their names, empty texts where it names nothing."""
    if isinstance(request, TopicRequest):
        return "topic", (request.name,) if request.name else ()
    if isinstance(request, CreateRequest):
        return "topic", (str(request.topic["name"]),) if request.topic else ()
    if isinstance(request, BrokerRequest):
        return "broker", (str(request.id),) if request.id else ()
    return ("broker", tuple(map(str, request.ids))) if isinstance(request, TagBrokersRequest) else ("", ())


def given_fields(request: AnyRequest) -> dict[str, Any]:
    """The fields of a request that are not at their default, for the audit log."""
    names = request.__dataclass_fields__
    return {name: value for name in names if (value := getattr(request, name)) not in ((), "", 0, None)}


Entry = Mapping[str, Any]
"""A broker or topic of a reply: its fields, named and ordered as declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersReply:
    """BrokerResponse."""

    brokers: Mapping[int, Entry] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsReply:
    """TopicResponse."""

    topics: Mapping[str, Entry] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagReply:
    """TagResponse."""

    message: str = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyReply:
    """Empty and TagBrokersResponse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReply:
    """TranslateOffsetResponse: upstream and local offset by `topic:partition`."""

    offsets: Mapping[str, tuple[int, int]] = field(default_factory=dict)


Reply = BrokersReply | TopicsReply | TagReply | EmptyReply | OffsetsReply

SUCCESS, EMPTY = TagReply(), EmptyReply()


def to_json(reply: Reply) -> bytes:
    """The reply as JSON; 64-bit numbers are texts there."""
    if isinstance(reply, OffsetsReply):
        offsets = {k: {"upstreamOffset": str(up), "localOffset": str(at)} for k, (up, at) in reply.offsets.items()}
        return msgspec.json.encode({"offsets": offsets})
    return msgspec.json.encode(reply)


def join_json(parts: Sequence[bytes]) -> bytes:
    """Several topic replies without names as one."""
    first, last = b'{"topics":{', b'},"names":[]}'
    return parts[0] if len(parts) == 1 else first + b",".join(p[len(first) : -len(last)] for p in parts) + last


def to_fields(reply: Reply) -> dict[str, Any]:
    """The reply as fields of its message."""
    if isinstance(reply, OffsetsReply):
        offsets = {k: {"upstream_offset": up, "local_offset": at} for k, (up, at) in reply.offsets.items()}
        return {"offsets": offsets}
    return {name: getattr(reply, name) for name in reply.__dataclass_fields__}


def error_json(code: int, message: str) -> bytes:
    """A refusal as grpc-gateway writes it."""
    return msgspec.json.encode({"code": code, "message": message, "details": []})


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


def broker_entry(facts: RegisteredBroker, inventory: Inventory) -> Entry:
    """A broker as messages show it."""
    return {
        "tags": inventory.tags[ObjectKind.BROKER].get(str(facts.id), NO_TAGS),
        "id": facts.id,
        "host": facts.host,
        "port": facts.port,
        "rack": facts.rack,
        "interbrokerprotocolversion": facts.protocol_version,
        "logmessageformat": facts.message_format,
    }


def topic_entry(facts: RegisteredTopic, inventory: Inventory, *, with_replicas: bool) -> Entry:
    """A topic as messages show it."""
    return {
        "tags": inventory.tags[ObjectKind.TOPIC].get(facts.name, NO_TAGS),
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
    found = inventory.select(ObjectKind.BROKER, wanted)
    return sorted(inventory.brokers if found is None else map(int, found))


def _unmapped_brokers(request: UnmappedRequest, inventory: Inventory) -> Reply:
    if len(request.exclude) > MAX_EXCLUDED:
        raise invalid_request(f"{len(request.exclude)} topics are excluded: at most {MAX_EXCLUDED}")
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
        found = inventory.select(ObjectKind.TOPIC, wanted)
        names = inventory.topic_names if found is None else sorted(found)
    if not request.spanning:
        return names
    alive = len(inventory.brokers)
    return [name for name in names if len(inventory.topics[name].brokers) >= alive]


def _reassigning_topics(request: NoRequest, inventory: Inventory) -> Reply:
    return _marked_topics(inventory, lambda facts: facts.is_reassigning)


def _under_replicated(request: NoRequest, inventory: Inventory) -> Reply:
    return _marked_topics(inventory, lambda facts: facts.is_under_replicated)


def _marked_topics(inventory: Inventory, has_mark: Callable[[RegisteredTopic], bool]) -> Reply:
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
    "ReassigningTopics": _reassigning_topics,
    "UnderReplicatedTopics": _under_replicated,
    "TopicMappings": _topic_mappings,
    "BrokerMappings": _broker_mappings,
}

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
        raise invalid_request(f"topic {sanitize(name[:80])!r} is {problem}")
    for what, number, most in (
        ("partitions", topic["partitions"], MAX_PARTITIONS),
        ("replication", topic["replication"], MAX_REPLICATION),
    ):
        if not 1 <= number <= most:
            raise invalid_request(f"topic {what} must be between 1 and {most}")
    configs = dict(sorted(topic["configs"].items()))
    if len(configs) > MAX_CONFIGS or any(len(value) > MAX_CONFIG_VALUE for value in configs.values()):
        raise invalid_request(f"at most {MAX_CONFIGS} configs of at most {MAX_CONFIG_VALUE} characters can be given")
    given = tuple(f"{key}:{value}" for key, value in sorted(topic["tags"].items()))
    return Creation(
        name=name,
        partitions=topic["partitions"],
        replication=topic["replication"],
        configs=configs,
        tags=merge_tags(ObjectKind.TOPIC, name, {}, tags_to_set(ObjectKind.TOPIC, given)) if given else {},
        broker_tags=parse_tags(request.target_broker_tags),
        broker_ids=tuple(sorted(set(request.target_broker_ids))),
    )


def candidates(creation: Creation, inventory: Inventory) -> tuple[int, ...]:
    """The brokers that may hold the topic; `RpcError` for an id that lacks the tags, and for too few brokers."""
    found = inventory.select(ObjectKind.BROKER, creation.broker_tags)
    chosen = sorted(inventory.brokers if found is None else map(int, found))
    if wrong := sorted(set(creation.broker_ids) - set(chosen)):
        raise fault("invalid broker id", detail=", ".join(map(str, wrong)))
    chosen = list(creation.broker_ids) or chosen
    if len(chosen) < creation.replication:
        raise fault("insufficient number of brokers", detail=f"{len(chosen)} for {creation.replication} replicas")
    return tuple(chosen)


def place(
    creation: Creation, brokers: Sequence[RegisteredBroker], topics: Iterable[RegisteredTopic]
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
    rule = SpreadRule(0 if is_targeted else min(creation.replication, max(1, spanned)))
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


def _counts(topics: Iterable[RegisteredTopic]) -> tuple[Counter[int], Counter[int]]:
    held: Counter[int] = Counter()
    led: Counter[int] = Counter()
    for facts in topics:
        for _, row in facts.replicas:
            held.update(row)
            led.update(row[:1])
    return held, led


MAX_QUERY = 65_536
MAX_FIELDS = 1000
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
MAX_UINT32 = 2**32 - 1


def calls_at(segments: tuple[str, ...], calls: Iterable[C]) -> Iterator[tuple[C, Mapping[str, str]]]:
    """The calls at a decoded path, each with the fields that stand in the path."""
    for call in calls:
        fields = call.fields_in(segments)
        if fields is not None:
            yield call, fields


def route(method: str, segments: tuple[str, ...]) -> tuple[CallRoute, Mapping[str, str]]:
    """The call of a method and decoded path, with the fields that stand in the path.

    `RpcError` 404 for an unknown path, 501 for a path that has other methods: a form that is posted to it, too.
    """
    found = list(calls_at(segments, RPCS))
    for rpc, fields in found:
        if rpc.http_method == method:
            return rpc, fields
    raise RpcError(RpcCode.UNIMPLEMENTED, "Method Not Allowed") if found else RpcError(RpcCode.NOT_FOUND, "Not Found")


def read_fields(rpc: CallRoute, in_path: Mapping[str, str], query: list[tuple[str, str]]) -> dict[str, Any]:
    """The fields of a request without a body; unknown parameters are ignored. `RpcError` for unreadable ones."""
    known = {_camel(name): name for name in rpc.request.__dataclass_fields__}
    known |= {name: name for name in rpc.request.__dataclass_fields__}
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for given, text in query:
        name = known.get(given)
        if name is None or name in in_path:
            continue
        kind = rpc.request.__dataclass_fields__[name].type
        if "tuple" in str(kind):
            found[name] = (*found.get(name, ()), _value(name, _ITEM[str(kind)], text))
            continue
        if name in seen:
            raise invalid_request(f'too many values for field "{name}"')
        seen.add(name)
        found[name] = _value(name, kind, text)
    for name, text in in_path.items():
        found[name] = _value(name, rpc.request.__dataclass_fields__[name].type, text)
    return found


def parse_timeout(text: str) -> float:
    """The seconds of a `Grpc-Timeout` header, such as `5S` or `300m`."""
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise invalid_request(f"invalid grpc-timeout: {sanitize(text[:40])}")
    return int(found[1]) * _UNITS_S[found[2]]


def _value(name: str, kind: Any, text: str) -> Any:
    if kind is int:
        if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > MAX_UINT32:
            raise invalid_request(
                f"type mismatch, parameter: {name}, error: {sanitize(text[:40])!r} is not an unsigned number"
            )
        return int(text)
    if kind is bool:
        if text not in (*_TRUE, *_FALSE):
            raise invalid_request(f'parsing field "{name}": {sanitize(text[:40])!r} is neither true nor false')
        return text in _TRUE
    return text


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_ITEM: Mapping[str, Any] = {str(tuple[str, ...]): str, str(tuple[int, ...]): int}
