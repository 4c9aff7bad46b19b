"""The replies of the service, and their JSON as grpc-gateway writes it: camel case, unset fields shown, maps sorted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

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
