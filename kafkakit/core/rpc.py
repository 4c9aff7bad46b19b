"""Calls to a service over gRPC and over HTTP, and their answers, as values."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kafkakit.core.errors import KafkakitError


class RpcCode(IntEnum):
    """The codes of gRPC, by the numbers that go over the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


HTTP_STATUS: Mapping[RpcCode, int] = {
    RpcCode.OK: 200, RpcCode.CANCELLED: 499, RpcCode.UNKNOWN: 500, RpcCode.INVALID_ARGUMENT: 400,
    RpcCode.DEADLINE_EXCEEDED: 504, RpcCode.NOT_FOUND: 404, RpcCode.ALREADY_EXISTS: 409,
    RpcCode.PERMISSION_DENIED: 403, RpcCode.RESOURCE_EXHAUSTED: 429, RpcCode.FAILED_PRECONDITION: 400,
    RpcCode.ABORTED: 409, RpcCode.UNIMPLEMENTED: 501, RpcCode.INTERNAL: 500, RpcCode.UNAVAILABLE: 503,
    RpcCode.UNAUTHENTICATED: 401,
}  # fmt: skip
"""The status of each code as grpc-gateway has it."""


class RpcError(KafkakitError):
    """An answer that is a refusal; `retry_after_s` where asking again later may succeed."""

    def __init__(self, code: RpcCode, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code, self.retry_after_s = code, retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcCall:
    """One call over gRPC, or one request over HTTP.

    `method` is the method's name for gRPC and GET, POST, ... for HTTP; `path` is not decoded; header names are in
    lower case. `deadline_s` is what a gRPC client gives, in seconds from now.
    """

    method: str
    body: bytes
    remote: str
    path: str = ""
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcAnswer:
    """An answer; `headers` go as headers over HTTP and as trailing metadata over gRPC."""

    body: bytes
    code: RpcCode = RpcCode.OK
    message: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcStream:
    """An answer in parts without an end that is known: messages of gRPC, or the body over HTTP.

    Where `parts` raises `RpcError`, that is the state at the end over gRPC; over HTTP the body just ends.
    """

    parts: AsyncIterator[bytes]
    headers: tuple[tuple[str, str], ...] = ()
