"""Calls of version 2 over both protocols, with one form of request and answer."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlencode

from kafkakit.core.rpc import RpcCode
from kafkakit.registry.decide.v2_calls import CALL_V2_BY_NAME, SERVICE_V2
from kafkakit.wiring import registry_codec
from tests.rigs.registry import Registry


@dataclass
class AnsweredV2:
    """The reply, or the message of a refusal, with the headers or trailing metadata."""

    code: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def http_v2(
    registry: Registry, name: str, fields: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> AnsweredV2:
    """One call over HTTP."""
    call = CALL_V2_BY_NAME[name]
    path, left, body = call.http_path, dict(fields), None
    for key in list(left):
        if f"{{{key}}}" in path:
            path = path.replace(f"{{{key}}}", quote(str(left.pop(key)), safe=""))
    if call.http_method == "POST":
        body = json.dumps(left).encode()
    elif left:
        path += "?" + urlencode({k: ",".join(v) if isinstance(v, list) else v for k, v in left.items()})
    connection = HTTPConnection(registry.addresses["HTTP"], timeout=120)
    try:
        connection.request(call.http_method, path, body, dict(headers or {}))
        response = connection.getresponse()
        found = json.loads(response.read())
        names = {key.lower(): value for key, value in response.getheaders()}
    finally:
        connection.close()
    return AnsweredV2(found["code"] if response.status != 200 else 0, found, names)


def grpc_v2(
    registry: Registry, name: str, fields: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> AnsweredV2:
    """One call with grpcio's client; the reply as its JSON has it, with unset fields."""
    import grpc
    from google.protobuf.json_format import MessageToDict

    codec, call = registry_codec("registry.v2"), CALL_V2_BY_NAME[name]
    metadata = tuple((key.lower(), value) for key, value in (headers or {}).items())
    with grpc.insecure_channel(registry.addresses["gRPC"]) as channel:
        stub = channel.unary_unary(f"/{SERVICE_V2}/{name}")
        try:
            body, state = stub.with_call(codec.encode(call.request.__name__, fields), timeout=120, metadata=metadata)
        except grpc.RpcError as error:
            trailing = dict(error.trailing_metadata() or ())
            return AnsweredV2(error.code().value[0], {"message": error.details()}, trailing)
    message = codec.message_class(call.reply.__name__).FromString(body)
    shown = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return AnsweredV2(int(RpcCode.OK), shown, dict(state.trailing_metadata()))


BOTH = {"http": http_v2, "grpc": grpc_v2}


def one(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """The request that changes one object."""
    return {"changes": [{"kind": kind, "name": name, **more}]}


class SseClient:
    """A watch over HTTP, read event by event."""

    def __init__(self, registry: Registry, headers: Mapping[str, str] | None = None, **fields: str) -> None:
        self._connection = HTTPConnection(registry.addresses["HTTP"], timeout=120)
        self._connection.request("GET", f"/v2/watch?{urlencode(fields)}", headers=dict(headers or {}))
        self.response = self._connection.getresponse()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        lines: dict[str, str] = {}
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if text:
                key, _, value = text.partition(": ")
                lines[key] = value
            elif "data" in lines:
                event = json.loads(lines["data"])
                assert lines["event"] == event["type"]
                assert lines.get("id", "") == event["event_id"]
                yield event
                lines = {}

    def close(self) -> None:
        """Go away."""
        self._connection.close()
