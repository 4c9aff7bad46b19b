"""Calls to services over gRPC and over HTTP, and their answers, as values.

Which addresses a service listens on, and which requests come from pages of other servers in a browser, is decided here
for all services, and what they answer to probes. Bodies of HTTP answers are read within limits of size and time,
whichever client reads them. An event for people is a value that services of metrics keep.
"""

import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from kafkakit.core.errors import ExitCode, InputError, KafkakitError, UsageError
from kafkakit.core.text import sanitize


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
    """An answer that is a refusal; `retry_after_s` where asking again later may succeed.

    Exits with 2 if the request is wrong or names what does not exist, else with 1. kafka-kit's own code for a missing
    broker is a failed precondition, so its text decides too.
    """

    def __init__(self, code: RpcCode, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code, self.retry_after_s = code, retry_after_s
        if code in (RpcCode.NOT_FOUND, RpcCode.INVALID_ARGUMENT) or message.endswith("does not exist"):
            self.exit_code = ExitCode.USAGE


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
    remote_port: int = 0
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


def parse_listen(text: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`, `[V6]:PORT` or `:PORT` (loopback); `UsageError` for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"{text[:60]!r} is not an address to listen on", hint="write HOST:PORT, such as 127.0.0.1:9105"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(address: str) -> bool:
    """Whether an address is of this host."""
    return address in ("localhost", "::1") or _LOOPBACK.fullmatch(address.removeprefix("::ffff:")) is not None


_LOOPBACK = re.compile(r"127(\.[0-9]{1,3}){1,3}")
_ADDRESS = re.compile(r"[0-9.]+|\[[0-9a-fA-F:.]+\]")


def unknown_name(headers: Mapping[str, str], names: Collection[str] | None) -> str:
    """The host name of a request that is not of this server, printable; empty if it is.

    A page of another server can make its own name lead to this address (DNS rebinding): a browser takes it for a page
    of ours then. Addresses, `localhost` and `names`, in lower case, are known; None: any name.
    """
    name = re.sub(r":[0-9]*$", "", headers.get("host", "").lower()).removesuffix(".")
    is_known = not name or name == "localhost" or _ADDRESS.fullmatch(name) or names is None or name in names
    return "" if is_known else sanitize(name[:80])


def is_from_another_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser sent the request for a page of another server, by `Origin` and `Sec-Fetch-Site`."""
    host = headers.get("host", "").lower()
    origin = headers.get("origin", f"http://{host}").lower()
    return origin.partition("://")[2] != host or headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


Query = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPage:
    """One answer of a service over HTTP; with `parts` the body comes in parts, without an end that is known."""

    body: bytes
    media: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    parts: AsyncIterator[bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request; of a key that is given twice `query` has the first value, as in Go.

    `uri` is path and query as they came, and `remote` the client's address with its port. `authorization` and `accept`
    are the headers' texts, `is_local` whether it came over the loopback interface. `headers` are in lower case.
    """

    method: str
    path: str
    query: Query
    remote: str
    is_local: bool
    authorization: str = ""
    accept: str = ""
    uri: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Pages = Mapping[str, Callable[[Query], HttpPage]]


def plain_page(status: int, text: str) -> HttpPage:
    """An answer of one line."""
    return HttpPage(body=f"{text}\n".encode(), media="text/plain; charset=utf-8", status=status)


def answer_pages(pages: Pages) -> Callable[[HttpRequest], HttpPage]:
    """Answers GET and HEAD for the paths given, 404 with their names for others."""

    def answer(request: HttpRequest) -> HttpPage:
        if request.method not in ("GET", "HEAD"):
            return plain_page(501, "only GET and HEAD are answered")
        page = pages.get(request.path)
        return plain_page(404, "there is " + " ".join(sorted(pages))) if page is None else page(request.query)

    return answer


ALIVE_S = 300.0
"""A service that has not got round to its work for this long is stuck, as systemd's watchdog has it."""


class ServiceProbes:
    """What a service answers Kubernetes' probes, from what it tells its service manager; for any thread.

    `/startupz` is 200 once it works, `/livez` while it gets round to its work, `/readyz` while `is_ready`. Kafka
    decides about the last alone. The answers hold no facts, since they need no token.
    """

    def __init__(
        self, tell: Callable[..., bool], monotonic: Callable[[], float], is_ready: Callable[[], bool] = lambda: True
    ) -> None:
        self._tell, self._monotonic, self._is_ready = tell, monotonic, is_ready
        self._worked_s: float | None = None

    def notify(self, *lines: str) -> bool:
        """Tell the service manager; `READY=1` and `WATCHDOG=1` are what the probes answer by."""
        if "READY=1" in lines or "WATCHDOG=1" in lines:
            self._worked_s = self._monotonic()
        return self._tell(*lines)

    def page(self, path: str) -> HttpPage | None:
        """The answer to a probe, at once; None for any other path."""
        worked_s = self._worked_s
        match path:
            case "/startupz":
                is_well = worked_s is not None
            case "/livez":
                is_well = worked_s is None or self._monotonic() - worked_s <= ALIVE_S
            case "/readyz":
                is_well = worked_s is not None and self._is_ready()
            case _:
                return None
        return plain_page(200, "ok") if is_well else plain_page(503, "no")


CHUNK_BYTES = 1 << 16


class UnreadBody(Protocol):
    """An answer whose head is read, such as `http.client.HTTPResponse`."""

    @property
    def length(self) -> int | None:
        """The announced bytes that did not come yet; None where none were announced."""
        ...

    def read1(self, n: int = ..., /) -> bytes:
        """Up to `n` bytes as soon as there are some; empty at the end."""
        ...


def read_body(
    answer: UnreadBody, source: str, most_bytes: int, *, timeout_s: float, end_s: float, clock_s: Callable[[], float]
) -> bytes:
    """The whole body; `timeout_s` ends at `end_s` of the clock, which is looked at after each chunk.

    Raises `InputError` naming `source` above `most_bytes`, `TimeoutError` after the end, and `ConnectionError` when
    fewer bytes come than were announced.
    """
    parts: list[bytes] = []
    total = 0
    while part := answer.read1(CHUNK_BYTES):
        total += len(part)
        if total > most_bytes:
            raise InputError(source, f"answers with more than {most_bytes:,} bytes")
        if clock_s() > end_s:
            raise TimeoutError(f"the answer took longer than {timeout_s:g} s")
        parts.append(part)
    if answer.length:
        raise ConnectionError("the answer ends early")
    return b"".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event without its tags."""

    title: str
    text: str
