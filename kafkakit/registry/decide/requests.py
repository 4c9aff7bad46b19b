"""The requests of the service as values, and the table of its calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """The right that a call needs."""

    READ = "read"
    TAG = "tag"
    CREATE = "create"
    DELETE = "delete"


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
class Rpc:
    """One call: its messages, its role, and where it is over HTTP; `{name}` in a path is a field of the request."""

    name: str
    message: str
    request: type[AnyRequest]
    reply: str
    role: Role
    http_method: str
    http_path: str
    segments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.http_path.split("/")[1:]))

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.role is Role.READ


def _rpc(name: str, message: str, request: type[AnyRequest], reply: str, role: Role, http: str) -> Rpc:
    method, path = http.split(" ")
    return Rpc(name=name, message=message, request=request, reply=reply, role=role, http_method=method, http_path=path)


_BROKER, _TOPIC = ("BrokerRequest", BrokerRequest), ("TopicRequest", TopicRequest)
_BROKERS, _TOPICS, _TAGGED = "BrokerResponse", "TopicResponse", "TagResponse"

RPCS: tuple[Rpc, ...] = (
    _rpc("GetBrokers", *_BROKER, _BROKERS, Role.READ, "GET /v1/brokers"),
    _rpc("ListBrokers", *_BROKER, _BROKERS, Role.READ, "GET /v1/brokers/list"),
    _rpc("UnmappedBrokers", "UnmappedBrokersRequest", UnmappedRequest, _BROKERS, Role.READ, "GET /v1/brokers/unmapped"),
    _rpc("GetTopics", *_TOPIC, _TOPICS, Role.READ, "GET /v1/topics"),
    _rpc("ListTopics", *_TOPIC, _TOPICS, Role.READ, "GET /v1/topics/list"),
    _rpc("ReassigningTopics", "Empty", NoRequest, _TOPICS, Role.READ, "GET /v1/topics/reassigning"),
    _rpc("UnderReplicatedTopics", "Empty", NoRequest, _TOPICS, Role.READ, "GET /v1/topics/underreplicated"),
    _rpc("TopicMappings", *_TOPIC, _BROKERS, Role.READ, "GET /v1/mappings/topic/{name}"),
    _rpc("BrokerMappings", *_BROKER, _TOPICS, Role.READ, "GET /v1/mappings/broker/{id}"),
    _rpc(
        "TranslateOffsets",
        "TranslateOffsetRequest",
        TranslateRequest,
        "TranslateOffsetResponse",
        Role.READ,
        "GET /v1/translate-offsets/{remote_cluster_alias}/{group_id}",
    ),
    _rpc("CreateTopic", "CreateTopicRequest", CreateRequest, "Empty", Role.CREATE, "POST /v1/topics/create"),
    _rpc("DeleteTopic", *_TOPIC, "Empty", Role.DELETE, "DELETE /v1/topics/{name}"),
    _rpc("TagTopic", *_TOPIC, _TAGGED, Role.TAG, "PUT /v1/topics/tag/{name}"),
    _rpc("DeleteTopicTags", *_TOPIC, _TAGGED, Role.TAG, "DELETE /v1/topics/tag/{name}"),
    _rpc("TagBroker", *_BROKER, _TAGGED, Role.TAG, "PUT /v1/brokers/tag/{id}"),
    _rpc("TagBrokers", "TagBrokersRequest", TagBrokersRequest, "TagBrokersResponse", Role.TAG, "POST /v2/brokers/tag"),
    _rpc("DeleteBrokerTags", *_BROKER, _TAGGED, Role.TAG, "DELETE /v1/brokers/tag/{id}"),
)
"""Every call of kafka-kit's registry; further calls are added here."""
RPC_BY_NAME: Mapping[str, Rpc] = {rpc.name: rpc for rpc in RPCS}
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
