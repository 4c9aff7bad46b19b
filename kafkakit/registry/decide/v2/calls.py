"""The table of version 2's calls: one line for both protocols and the OpenAPI document; and how requests are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import msgspec

from kafkakit.core.documents import decoded_json
from kafkakit.core.printable import printable
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.http_routes import MAX_FIELDS, fields_in_path
from kafkakit.registry.decide.requests import Role
from kafkakit.registry.decide.v2.messages import (
    AnyV2Reply,
    AnyV2Request,
    BrokerPage,
    BrokerView,
    ChangeTagsReply,
    ChangeTagsRequest,
    ExplainReply,
    ExplainRequest,
    GetBrokerRequest,
    GetTopicRequest,
    HistoryPage,
    HistoryRequest,
    ListRequest,
    TopicPage,
    TopicView,
    TranslatedOffsets,
    TranslateOffsetsRequest,
    WatchEvent,
    WatchRequest,
)

SERVICE_V2 = "registry.v2.Registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallV2:
    """One call: its messages, named as in `registry_v2.proto`, its role, and where it is over HTTP."""

    name: str
    request: type[AnyV2Request]
    reply: type[AnyV2Reply]
    role: Role
    http_method: str
    http_path: str
    summary: str
    is_stream: bool = False
    segments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.http_path.split("/")[1:]))


def _call(
    name: str, http: str, messages: tuple[type[AnyV2Request], type[AnyV2Reply]], summary: str, **more: Any
) -> CallV2:
    method, path = http.split(" ")
    role = Role.READ if method == "GET" else Role.TAG
    request, reply = messages
    return CallV2(
        name=name,
        request=request,
        reply=reply,
        role=role,
        http_method=method,
        http_path=path,
        summary=summary,
        **more,
    )


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
    for call in CALLS_V2:
        if call.http_method == method and len(call.segments) == len(segments):
            found = fields_in_path(call.segments, segments)
            if found is not None:
                return call, found
    return None


def methods_of(segments: tuple[str, ...]) -> tuple[str, ...]:
    """The methods that a path has in version 2."""
    methods = ("GET", "POST")
    return tuple(method for method in methods if route_v2(method, segments) is not None)


def read_query(call: CallV2, in_path: Mapping[str, str], query: Sequence[tuple[str, str]]) -> AnyV2Request:
    """The request of a path and query; lists are repeated or have commas. `RpcError` for what cannot be meant."""
    if len(query) > MAX_FIELDS:
        raise invalid(f"the query has {len(query)} parameters: at most {MAX_FIELDS}")
    kinds = get_type_hints(call.request)
    found: dict[str, Any] = dict(in_path)
    for name, text in query:
        if kinds.get(name) == tuple[str, ...]:
            found[name] = (*found.get(name, ()), *(part for part in text.split(",") if part))
        elif name in found:
            raise invalid(f"{printable(name[:40])} is given twice")
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
        raise invalid(f"the body is not a {call.request.__name__}: {_text(error)}") from None


def _convert(call: CallV2, fields: Mapping[str, Any], *, strict: bool) -> AnyV2Request:
    try:
        return msgspec.convert(fields, type=call.request, strict=strict)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise invalid(f"not a {call.request.__name__}: {_text(error)}") from None


def _text(error: Exception) -> str:
    return printable(" ".join(str(error).split())[:200])
