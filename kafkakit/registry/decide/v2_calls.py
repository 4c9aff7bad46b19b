"""Version 2's calls and messages: one table for both protocols and the OpenAPI document.

Messages are as JSON and `registry_v2.proto` both have them; a field that is unset is left out. Events of a watch are
sent as server-sent events, whose format is that of the HTML standard.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from kafkakit.core.documents import decoded_json
from kafkakit.core.text import sanitize
from kafkakit.registry.decide.requests import Call, calls_at
from kafkakit.registry.decide.tags import CallRole, invalid_request

KindName = Literal["topic", "broker"]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown fields are refused: a misspelt one would be taken for none."""


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Fields stand in their order here."""


class ListRequest(_Request, frozen=True, kw_only=True):
    """A page of the objects that match a query; `page_size` 0 is 100, and more than 1000 are cut to that."""

    query: str = ""
    fields: tuple[str, ...] = ()
    page_size: int = 0
    page_token: str = ""


class GetTopicRequest(_Request, frozen=True, kw_only=True):
    """One topic."""

    name: str = ""
    fields: tuple[str, ...] = ()


class GetBrokerRequest(_Request, frozen=True, kw_only=True):
    """One broker that is alive."""

    id: int = 0
    fields: tuple[str, ...] = ()


class ObjectChange(_Request, frozen=True, kw_only=True):
    """What to set and delete on one object; with `etag` only where its tags are still those."""

    kind: KindName
    name: str
    set: Mapping[str, str] = {}
    delete: tuple[str, ...] = ()
    etag: str = ""


class ChangeTagsRequest(_Request, frozen=True, kw_only=True):
    """Changes of up to 1000 objects, each for itself; `dry_run` writes nothing."""

    changes: tuple[ObjectChange, ...] = ()
    dry_run: bool = False


class HistoryRequest(_Request, frozen=True, kw_only=True):
    """Changes of one object, newest first; without a name those of all, object by object. `since` is RFC 3339."""

    kind: KindName | Literal[""] = ""
    name: str = ""
    since: str = ""
    page_size: int = 0
    page_token: str = ""


class WatchRequest(_Request, frozen=True, kw_only=True):
    """Changes after an event, or from now on; of one kind, and of objects that match a query."""

    kind: KindName | Literal[""] = ""
    query: str = ""
    fields: tuple[str, ...] = ()
    after: str = ""


class ExplainRequest(_Request, frozen=True, kw_only=True):
    """Why a query has an object among its answers or not."""

    kind: KindName
    name: str
    query: str


class TranslateOffsetsRequest(_Request, frozen=True, kw_only=True):
    """The offsets of a group of the upstream cluster; `alias` is MirrorMaker 2's of that cluster, `source` if empty."""

    alias: str = ""
    group: str = ""


class NoFields(_Request, frozen=True, kw_only=True):
    """A request without fields."""


class PartitionReplicas(_Reply, frozen=True, kw_only=True):
    """The brokers of one partition, the preferred leader first."""

    partition: int
    brokers: tuple[int, ...]


class TopicView(_Reply, frozen=True, kw_only=True):
    """A topic; `replicas` are there only where `fields` names them."""

    name: str | UnsetType = UNSET
    partitions: int | UnsetType = UNSET
    replication: int | UnsetType = UNSET
    under_replicated: bool | UnsetType = UNSET
    reassigning: bool | UnsetType = UNSET
    internal: bool | UnsetType = UNSET
    configs: Mapping[str, str] | UnsetType = UNSET
    replicas: tuple[PartitionReplicas, ...] | UnsetType = UNSET
    tags: Mapping[str, str] | UnsetType = UNSET
    etag: str | UnsetType = UNSET


class BrokerView(_Reply, frozen=True, kw_only=True):
    """A broker that is alive."""

    id: int | UnsetType = UNSET
    host: str | UnsetType = UNSET
    port: int | UnsetType = UNSET
    rack: str | UnsetType = UNSET
    interbrokerprotocolversion: str | UnsetType = UNSET
    logmessageformat: str | UnsetType = UNSET
    tags: Mapping[str, str] | UnsetType = UNSET
    etag: str | UnsetType = UNSET


class TopicPage(_Reply, frozen=True, kw_only=True):
    """Topics by name; `total` of all pages. A watch after `event_id` of the first page misses nothing."""

    topics: tuple[TopicView, ...]
    next_page_token: str
    total: int
    event_id: str


class BrokerPage(_Reply, frozen=True, kw_only=True):
    """Brokers by id; else as `TopicPage`."""

    brokers: tuple[BrokerView, ...]
    next_page_token: str
    total: int
    event_id: str


class TagResult(_Reply, frozen=True, kw_only=True):
    """What became of one object: `code` is gRPC's, 0 for success; tags and etag are the present ones."""

    kind: str
    name: str
    code: int = 0
    message: str = ""
    changed: bool = False
    tags: Mapping[str, str] = {}
    etag: str = ""


class ChangeTagsReply(_Reply, frozen=True, kw_only=True):
    """A result for each change, in their order."""

    results: tuple[TagResult, ...]
    dry_run: bool = False


class ValueChange(_Reply, frozen=True, kw_only=True):
    """One tag before and after; unset where it was not there, or is not known."""

    key: str
    old: str | UnsetType = UNSET
    new: str | UnsetType = UNSET


class HistoryEntry(_Reply, frozen=True, kw_only=True):
    """One change of an object's tags."""

    kind: str
    name: str
    number: int
    at: str
    by: str
    changes: tuple[ValueChange, ...]


class HistoryPage(_Reply, frozen=True, kw_only=True):
    """Entries; a page may be short, and is the last only where `next_page_token` is empty."""

    entries: tuple[HistoryEntry, ...]
    next_page_token: str


class WatchEvent(_Reply, frozen=True, kw_only=True):
    """`start` and `heartbeat` give an event id, `put` an object, `delete` a name, and `end` why there is no more."""

    type: Literal["start", "put", "delete", "heartbeat", "end"]
    event_id: str
    kind: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    topic: TopicView | UnsetType = UNSET
    broker: BrokerView | UnsetType = UNSET
    message: str | UnsetType = UNSET


class ExplainReply(_Reply, frozen=True, kw_only=True):
    """Whether the object matches, and the parts of the query that decide it."""

    matches: bool
    reasons: tuple[str, ...]


class TranslatedOffset(_Reply, frozen=True, kw_only=True):
    """Where a group continues here, at `local_offset`, and until where its true place may lie.

    Its true place is in [local_offset, local_end_offset], so that at most `may_repeat` records are read twice; both are
    unset where no sync tells. `exact`: the two are equal. `assumes_no_own_records`: the end is known only if the copy
    has no records of its own, and no markers of transactions, which exactly-once support writes.
    """

    topic: str
    partition: int
    upstream_offset: int
    local_offset: int
    local_end_offset: int | UnsetType = UNSET
    exact: bool = False
    may_repeat: int | UnsetType = UNSET
    assumes_no_own_records: bool = False


class TranslatedOffsets(_Reply, frozen=True, kw_only=True):
    """The group's partitions, by topic and number."""

    offsets: tuple[TranslatedOffset, ...]


AnyV2Request = (
    ListRequest
    | GetTopicRequest
    | GetBrokerRequest
    | ChangeTagsRequest
    | HistoryRequest
    | WatchRequest
    | ExplainRequest
    | TranslateOffsetsRequest
    | NoFields
)
AnyV2Reply = (
    TopicPage
    | BrokerPage
    | TopicView
    | BrokerView
    | ChangeTagsReply
    | HistoryPage
    | WatchEvent
    | ExplainReply
    | TranslatedOffsets
)

SERVICE_V2 = "registry.v2.Registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallV2(Call):
    """A call of version 2 with its messages, which are named as in `registry_v2.proto`."""

    request: type[AnyV2Request]
    reply: type[AnyV2Reply]
    summary: str
    is_stream: bool = False


def _call(
    name: str, http: str, messages: tuple[type[AnyV2Request], type[AnyV2Reply]], summary: str, **more: Any
) -> CallV2:
    role = CallRole.READ if http.startswith("GET ") else CallRole.TAG
    request, reply = messages
    return CallV2(name=name, request=request, reply=reply, role=role, http=http, summary=summary, **more)


CALLS_V2: tuple[CallV2, ...] = (
    _call("ListTopics", "GET /v2/topics", (ListRequest, TopicPage), "Topics that match a query, a page at a time"),
    _call("GetTopic", "GET /v2/topics/{name}", (GetTopicRequest, TopicView), "One topic"),
    _call("ListBrokers", "GET /v2/brokers", (ListRequest, BrokerPage), "Brokers that match a query, a page at a time"),
    _call("GetBroker", "GET /v2/brokers/{id}", (GetBrokerRequest, BrokerView), "One broker"),
    _call("ChangeTags", "POST /v2/tags", (ChangeTagsRequest, ChangeTagsReply), "Set and delete tags of many objects"),
    _call("ListHistory", "GET /v2/history", (HistoryRequest, HistoryPage), "Who changed which tags, and when"),
    _call("Watch", "GET /v2/watch", (WatchRequest, WatchEvent), "Changes as they come", is_stream=True),
    _call("Explain", "GET /v2/explain", (ExplainRequest, ExplainReply), "Why a query has an object or not"),
    _call(
        "TranslateOffsets",
        "GET /v2/translate-offsets/{alias}/{group}",
        (TranslateOffsetsRequest, TranslatedOffsets),
        "Where a group of MirrorMaker 2's upstream cluster continues here, and how sure that is",
    ),
)
CALL_V2_BY_NAME: Mapping[str, CallV2] = {call.name: call for call in CALLS_V2}


def route_v2(method: str, segments: tuple[str, ...]) -> tuple[CallV2, Mapping[str, str]] | None:
    """The call of a method and decoded path, with the fields of the path; None where there is none."""
    return next((found for found in calls_at(segments, CALLS_V2) if found[0].http_method == method), None)


def methods_of(segments: tuple[str, ...]) -> tuple[str, ...]:
    """The methods that a path has in version 2."""
    return tuple(sorted({call.http_method for call, _ in calls_at(segments, CALLS_V2)}))


def read_query(call: CallV2, in_path: Mapping[str, str], query: Sequence[tuple[str, str]]) -> AnyV2Request:
    """The request of a path and query; lists are repeated or have commas. `RpcError` for what cannot be meant."""
    kinds = get_type_hints(call.request)
    found: dict[str, Any] = dict(in_path)
    for name, text in query:
        if kinds.get(name) == tuple[str, ...]:
            found[name] = (*found.get(name, ()), *(part for part in text.split(",") if part))
        elif name in found:
            raise invalid_request(f"{sanitize(name[:40])} is given twice")
        else:
            found[name] = text
    return _convert(call, found, strict=False)


def read_message(call: CallV2, fields: Mapping[str, Any]) -> AnyV2Request:
    """The request of a message of gRPC; `RpcError` for what cannot be meant."""
    return _convert(call, fields, strict=True)


def read_body(call: CallV2, body: bytes) -> AnyV2Request:
    """The request of a JSON body; `RpcError` for what cannot be meant."""
    try:
        return decoded_json(body or b"{}", call.request)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise invalid_request(f"the body is not a {call.request.__name__}: {_text(error)}") from None


def _convert(call: CallV2, fields: Mapping[str, Any], *, strict: bool) -> AnyV2Request:
    try:
        return msgspec.convert(fields, type=call.request, strict=strict)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise invalid_request(f"not a {call.request.__name__}: {_text(error)}") from None


def _text(error: Exception) -> str:
    return sanitize(" ".join(str(error).split())[:200])


_REF = "#/components/schemas/{name}"
_ERROR = {
    "type": "object",
    "properties": {
        "code": {"type": "integer", "description": "The code of gRPC."},
        "message": {"type": "string"},
        "details": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["code", "message"],
}
_HEADERS = {
    "If-Match": "The etag that the tags of the single change must still have; 409 otherwise.",
    "Idempotency-Key": "The same key and request within an hour gives the same reply.",
}


def openapi_document() -> dict[str, Any]:
    """OpenAPI 3.1, whose schemas are JSON Schema."""
    types = {kind for call in CALLS_V2 for kind in (call.request, call.reply)}
    _, schemas = msgspec.json.schema_components(sorted(types, key=lambda kind: kind.__name__), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS_V2:
        paths.setdefault(call.http_path, {})[call.http_method.lower()] = _operation(call, schemas)
    paths["/healthz"] = {
        "get": {
            "operationId": "Health",
            "summary": "Whether reads are answered",
            "security": [],
            "responses": {"200": {"description": "They are."}, "503": {"description": "They are not."}},
        }
    }
    queries = {call.request.__name__ for call in CALLS_V2 if call.http_method == "GET"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "kafkakit registry", "version": "2", "description": "Topics, brokers and their tags."},
        "security": [{"bearer": []}, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {**{name: of for name, of in schemas.items() if name not in queries}, "Error": _ERROR},
        },
    }


def _operation(call: CallV2, schemas: Mapping[str, Any]) -> dict[str, Any]:
    content = "text/event-stream" if call.is_stream else "application/json"
    found: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.summary,
        "description": _doc(call.request),
        "responses": {
            "200": {"description": _doc(call.reply), "content": {content: {"schema": _ref(call.reply.__name__)}}},
            "default": {
                "description": "A refusal.",
                "content": {"application/json": {"schema": _ref("Error")}},
            },
        },
    }
    if call.http_method == "GET":
        parameters = list(_parameters(call, schemas[call.request.__name__]))
    else:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(call.request.__name__)}},
        }
        parameters = [
            {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
            for name, text in _HEADERS.items()
            if call.role is not CallRole.READ
        ]
    return {**found, "parameters": parameters} if parameters else found


def _parameters(call: CallV2, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, of in schema["properties"].items():
        is_in_path = f"{{{name}}}" in call.http_path
        yield {
            "name": name,
            "in": "path" if is_in_path else "query",
            "required": is_in_path or name in schema.get("required", ()),
            "schema": {key: value for key, value in of.items() if key != "default"},
            **({"style": "form", "explode": False} if of.get("type") == "array" else {}),
        }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}


def _doc(message: type[AnyV2Request] | type[Any]) -> str:
    return " ".join((message.__doc__ or "").split())


RETRY_MS = 2000


def to_sse(event: WatchEvent) -> bytes:
    """One event: its id is what a browser sends back as Last-Event-ID, its data the event as JSON in one line."""
    lines = [f"event: {event.type}".encode(), b"data: " + msgspec.json.encode(event)]
    if event.event_id:
        lines.insert(0, f"id: {event.event_id}".encode())
    if event.type == "start":
        lines.insert(0, f"retry: {RETRY_MS}".encode())
    return b"\n".join((*lines, b"", b""))
