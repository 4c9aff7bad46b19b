"""Calls of the registry to a server over HTTP."""

import ssl
import time
from collections.abc import Collection, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kafkakit.config.security import Secret
from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.http_body import read_body
from kafkakit.core.printable import printable
from kafkakit.core.rpc import HTTP_STATUS, RpcCode, RpcError
from kafkakit.registry.decide.access import is_loopback
from kafkakit.registry.decide.changes import changed_meanwhile
from kafkakit.registry.decide.entries import BrokerEntries, TopicEntries, decoded_reply
from kafkakit.registry.decide.history import etag_of
from kafkakit.registry.decide.requests import (
    RPC_BY_NAME,
    AnyRequest,
    BrokerRequest,
    Rpc,
    TopicRequest,
    given_fields,
)
from kafkakit.registry.decide.selection import Entries, tags_of
from kafkakit.registry.decide.tags import Kind, Tags, changed_keys
from kafkakit.registry.decide.v2.messages import (
    ChangeTagsReply,
    ChangeTagsRequest,
    HistoryRequest,
    ObjectChange,
    TranslateOffsetsRequest,
)
from kafkakit.registry.decide.v2.tag_changes import MAX_CHANGES

ATTEMPTS = 3
RETRY_S = 0.5
MOST_BYTES = 256 << 20
_LATER = frozenset({RpcCode.UNAVAILABLE, RpcCode.RESOURCE_EXHAUSTED, RpcCode.DEADLINE_EXCEEDED})
_NO_V2 = frozenset({RpcCode.NOT_FOUND, RpcCode.UNIMPLEMENTED})
_CODES = {status: code for code, status in reversed(list(HTTP_STATUS.items()))}
_WAITED = "wait time exceeded"  # kafka-kit's answer to too many requests, which has no code of its own


class _Refusal(msgspec.Struct, frozen=True):
    code: int = RpcCode.UNKNOWN
    message: str = ""


class HttpCalls:
    """Calls to a server over HTTP; reads are sent up to three times, changes once.

    `has_certificate` says that `tls` has one of ours: a server that needs one may end a connection without a reason.
    """

    def __init__(
        self, server: str, token: Secret | None, tls: ssl.SSLContext, timeout_s: float, *, has_certificate: bool
    ) -> None:
        parts = urlsplit(server if "//" in server else f"//{server}", scheme="http")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise UsageError(f"{printable(server[:100])} is no address of a registry", hint="http://HOST:PORT")
        if token is not None and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise UsageError(f"the token would go to {parts.hostname} unencrypted", hint="use https://")
        self._name = f"registry {parts.scheme}://{parts.netloc}"
        self._base, self._timeout_s, self._has_v2 = parts.path.rstrip("/"), timeout_s, True
        self._headers = {} if token is None else {"Authorization": f"Bearer {token.reveal()}"}
        try:
            port = parts.port
        except ValueError:
            raise UsageError(f"{printable(server[:100])} names no port") from None
        if parts.scheme == "https":
            self._connection: HTTPConnection = HTTPSConnection(parts.hostname, port, timeout=timeout_s, context=tls)
        else:
            self._connection = HTTPConnection(parts.hostname, port, timeout=timeout_s)
        self._may_lack_certificate = parts.scheme == "https" and not has_certificate

    def call(self, rpc: Rpc, request: AnyRequest) -> bytes:
        """See `RegistryCalls`."""
        fields, path = given_fields(request), rpc.http_path
        for name in [name for name in request.__dataclass_fields__ if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", quote(str(fields.pop(name, "")), safe=""))
        if rpc.http_method == "POST":
            return self._send(rpc.http_method, path, msgspec.json.encode(fields), is_read=rpc.is_read)
        query = urlencode({n: _query_value(v) for n, v in fields.items()}, doseq=True)
        return self._send(rpc.http_method, f"{path}?{query}" if query else path, None, is_read=rpc.is_read)

    def change_tags(self, kind: Kind, name: str, before: Tags, after: Tags) -> None:
        """See `RegistryCalls`. On a server without version 2 the tags are read at once before they are changed."""
        put, removed = changed_keys(before, after)
        if not put and not removed:
            return
        change = ObjectChange(
            kind="topic" if kind is Kind.TOPIC else "broker",
            name=name,
            set=put,
            delete=tuple(sorted(removed)),
            etag=etag_of(before),
        )
        reply = self._change_v2(ChangeTagsRequest(changes=(change,))) if self._has_v2 else None
        if reply is None:
            self._change_v1(kind, name, before, put, removed)
            return
        (result,) = reply.results
        if result.code == RpcCode.ABORTED:
            raise changed_meanwhile(kind, name)
        if result.code:
            raise _raised(RpcError(RpcCode(result.code), printable(result.message[:500])), self._name)

    def _change_v2(self, request: ChangeTagsRequest) -> ChangeTagsReply | None:
        """The reply; None from a server that has no version 2."""
        try:
            data = self._send("POST", "/v2/tags", msgspec.json.encode(request), is_read=False)
        except RpcError as error:
            if error.code not in _NO_V2:
                raise
            self._has_v2 = False
            return None
        return decoded_reply(data, ChangeTagsReply)

    def _change_v1(self, kind: Kind, name: str, before: Tags, put: Tags, removed: Collection[str]) -> None:
        is_topic, noun = kind is Kind.TOPIC, kind.capitalize()

        def call(rpc: str, *tag: str) -> bytes:
            made = TopicRequest(name=name, tag=tag) if is_topic else BrokerRequest(id=int(name), tag=tag)
            return self.call(RPC_BY_NAME[rpc], made)

        data = call(f"Get{noun}s")
        entries: Entries = decoded_reply(data, TopicEntries).topics
        if not is_topic:
            entries = decoded_reply(data, BrokerEntries).brokers
        if tags_of(entries).get(name) != before:
            raise changed_meanwhile(kind, name)
        if put:
            call(f"Tag{noun}", *(f"{key}:{value}" for key, value in put.items()))
        if removed:
            call(f"Delete{noun}Tags", *sorted(removed))

    def tags_of_brokers(self, ids: Sequence[int]) -> dict[int, Tags]:
        """See `RegistryCalls`; dry runs of deletions of a key that no object can have show what is there."""
        found: dict[int, Tags] = {}
        for start in range(0, len(ids), MAX_CHANGES):
            names = map(str, ids[start : start + MAX_CHANGES])
            changes = tuple(ObjectChange(kind="broker", name=name, delete=("tags",)) for name in names)
            reply = self._change_v2(ChangeTagsRequest(changes=changes, dry_run=True)) if self._has_v2 else None
            for result in () if reply is None else reply.results:
                if result.code not in (0, RpcCode.NOT_FOUND):
                    raise _raised(RpcError(RpcCode(result.code), printable(result.message[:500])), self._name)
                if not result.code:
                    found[int(result.name)] = result.tags
        return found

    def history_page(self, request: HistoryRequest) -> bytes:
        """See `RegistryCalls`."""
        given = {name: value for name in request.__struct_fields__ if (value := getattr(request, name))}
        return self._send("GET", f"/v2/history?{urlencode(given)}", None, is_read=True)

    def offset_intervals(self, request: TranslateOffsetsRequest) -> bytes:
        """See `RegistryCalls`."""
        path = f"/v2/translate-offsets/{quote(request.alias, safe='')}/{quote(request.group, safe='')}"
        return self._send("GET", path, None, is_read=True)

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        self._connection.close()

    def _send(self, method: str, path: str, body: bytes | None, *, is_read: bool) -> bytes:
        problem, was_closed = "", False
        for attempt in range(ATTEMPTS if is_read else 1):
            if attempt:
                time.sleep(RETRY_S * 2 ** (attempt - 1))
            try:
                status, data = self._exchange(method, path, body)
            except (OSError, HTTPException) as error:
                self._connection.close()
                if isinstance(error, ssl.SSLError):
                    raise UsageError(f"{self._name}: TLS fails: {printable(str(error))[:200]}") from None
                problem = printable(str(error) or type(error).__name__)[:200]
                was_closed = isinstance(error, ConnectionError)
                continue
            if status == 200:
                return data
            refused = _raised(_refusal(status, data), self._name)
            if not is_read or isinstance(refused, RpcError):
                raise refused
            problem, was_closed = refused.message, False
        hint = None if is_read else "whether the change was made is not known: read before repeating it"
        if is_read and was_closed and self._may_lack_certificate:
            hint = "the server may need a certificate of its clients: --cert-file and --key-file"
        raise TryLaterError(f"{self._name} gives no answer: {problem}", hint=hint)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        end_s = time.monotonic() + self._timeout_s
        if method != "GET":
            self._connection.close()  # one that the server closed meanwhile would leave a change in doubt
        self._connection.request(method, self._base + path, body, self._headers)
        with self._connection.getresponse() as response:
            try:
                times = {"timeout_s": self._timeout_s, "end_s": end_s}
                return response.status, read_body(response, self._name, MOST_BYTES, **times, clock_s=time.monotonic)
            except InputError:
                self._connection.close()
                raise


def _raised(error: RpcError, server: str) -> KafkakitError:
    """What is raised for a refusal: one that may pass is not final."""
    is_passing = error.code in _LATER or error.message == _WAITED
    return TryLaterError(f"{server}: {error.message}") if is_passing else error


def _query_value(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _refusal(status: int, data: bytes) -> RpcError:
    """The answer as an error; `{"code": number, "message": text}` is what grpc-gateway writes."""
    try:
        found = decoded_json(data[: 1 << 16], _Refusal)
        code = RpcCode(found.code)
    except (ValueError, RecursionError):
        found, code = _Refusal(), _CODES.get(status, RpcCode.UNKNOWN)
    return RpcError(code, printable(found.message[:500]) or f"the registry answers with HTTP {status}")
