"""Which call an HTTP request is, and its fields, as grpc-gateway has it."""

import re
from collections.abc import Mapping
from typing import Any

from kafkakit.core.printable import printable
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.requests import RPCS, Rpc

MAX_QUERY = 65_536
MAX_FIELDS = 1000
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
MAX_UINT32 = 2**32 - 1


def route(method: str, segments: tuple[str, ...]) -> tuple[Rpc, Mapping[str, str]]:
    """The call of a method and decoded path, with the fields that stand in the path.

    `RpcError` 404 for an unknown path, 501 for a path that has other methods: a form that is posted to it, too.
    """
    is_known = False
    for rpc in _BY_LENGTH.get(len(segments), ()):
        fields = fields_in_path(rpc.segments, segments)
        if fields is not None:
            if rpc.http_method == method:
                return rpc, fields
            is_known = True
    if is_known:
        raise RpcError(RpcCode.UNIMPLEMENTED, "Method Not Allowed")
    raise RpcError(RpcCode.NOT_FOUND, "Not Found")


def read_fields(rpc: Rpc, in_path: Mapping[str, str], query: list[tuple[str, str]]) -> dict[str, Any]:
    """The fields of a request without a body; unknown parameters are ignored. `RpcError` for unreadable ones."""
    if len(query) > MAX_FIELDS:
        raise invalid(f"the query has {len(query)} parameters: at most {MAX_FIELDS}")
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
            raise invalid(f'too many values for field "{name}"')
        seen.add(name)
        found[name] = _value(name, kind, text)
    for name, text in in_path.items():
        found[name] = _value(name, rpc.request.__dataclass_fields__[name].type, text)
    return found


def parse_timeout(text: str) -> float:
    """The seconds of a `Grpc-Timeout` header, such as `5S` or `300m`."""
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise invalid(f"invalid grpc-timeout: {printable(text[:40])}")
    return int(found[1]) * _UNITS_S[found[2]]


def fields_in_path(pattern: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    """The fields of a path that has a pattern; None for another path. Both have as many segments."""
    fields = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected[0] == "{":
            if not given:
                return None
            fields[expected[1:-1]] = given
        elif expected != given:
            return None
    return fields


def _value(name: str, kind: Any, text: str) -> Any:
    if kind is int:
        if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > MAX_UINT32:
            raise invalid(f"type mismatch, parameter: {name}, error: {printable(text[:40])!r} is no unsigned number")
        return int(text)
    if kind is bool:
        if text not in (*_TRUE, *_FALSE):
            raise invalid(f'parsing field "{name}": {printable(text[:40])!r} is neither true nor false')
        return text in _TRUE
    return text


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_ITEM: Mapping[str, Any] = {str(tuple[str, ...]): str, str(tuple[int, ...]): int}
_BY_LENGTH: Mapping[int, tuple[Rpc, ...]] = {
    length: tuple(rpc for rpc in RPCS if len(rpc.segments) == length) for length in {len(r.segments) for r in RPCS}
}
