"""Requests that kafka-python 3.0 lacks: UnregisterBroker (KIP-631) and DescribeShareGroupOffsets (KIP-932, KIP-1226).

Its message classes take their schema from a file of kafka-python that their name picks; ours takes that one's place.
Schemas: Kafka 4.4, clients/src/main/resources/common/message.
"""

import types
from typing import Any

from kafka.protocol.api_message import ApiMessage

Field = dict[str, Any]


def _field(name: str, kind: str, *, since: int = 0, fields: tuple[Field, ...] = (), **more: Any) -> Field:
    return {"name": name, "type": kind, "versions": f"{since}+", **more} | ({"fields": list(fields)} if fields else {})


def _text(name: str) -> Field:
    return _field(name, "string", nullableVersions="0+")


def _message(kind: str, name: str, key: int, versions: str, *fields: Field) -> Any:
    """The class of a request or a response; kafka-python finds responses by the request's number."""
    schema = {
        "apiKey": key, "type": kind, "name": f"{name}{kind.capitalize()}", "validVersions": versions,
        "flexibleVersions": "0+", "fields": list(fields),
    }  # fmt: skip
    body = {"json_patch": classmethod(lambda _cls, _json: schema)}
    return types.new_class(f"EndTxn{kind.capitalize()}", (ApiMessage,), {}, lambda names: names.update(body))


UnregisterBroker = _message("request", "UnregisterBroker", 64, "0", _field("BrokerId", "int32"))
_UNREGISTERED = _message(
    "response",
    "UnregisterBroker",
    64,
    "0",
    _field("ThrottleTimeMs", "int32"),
    _field("ErrorCode", "int16"),
    _text("ErrorMessage"),
)

_TOPIC = (_field("TopicName", "string"), _field("Partitions", "[]int32"))
DescribeShareGroupOffsets = _message(
    "request",
    "DescribeShareGroupOffsets",
    90,
    "0-1",
    _field(
        "Groups",
        "[]ShareGroupAsked",
        fields=(
            _field("GroupId", "string"),
            _field("Topics", "[]ShareTopicAsked", nullableVersions="0+", fields=_TOPIC),
        ),
    ),
)
_ERROR = (_field("ErrorCode", "int16"), _text("ErrorMessage"))
_PLACE = (
    _field("PartitionIndex", "int32"),
    _field("StartOffset", "int64"),
    _field("LeaderEpoch", "int32"),
    _field("Lag", "int64", since=1, ignorable=True, default=-1),
    *_ERROR,
)
_SHARE_OFFSETS = _message(
    "response",
    "DescribeShareGroupOffsets",
    90,
    "0-1",
    _field("ThrottleTimeMs", "int32"),
    _field(
        "Groups",
        "[]ShareGroupFound",
        fields=(
            _field("GroupId", "string"),
            _field(
                "Topics",
                "[]ShareTopicFound",
                fields=(
                    _field("TopicName", "string"),
                    _field("TopicId", "uuid"),
                    _field("Partitions", "[]SharePartitionFound", fields=_PLACE),
                ),
            ),
            *_ERROR,
        ),
    ),
)
"""Held here: kafka-python keeps weak references to responses."""
