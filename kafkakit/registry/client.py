"""A client of a registry over HTTP, kafka-kit's own included, with values as results.

    from kafkakit.registry.client import connect

    with connect("https://registry:8080", token_file="token", ca_file="ca.pem") as registry:
        hot = [b.id for b in registry.brokers() if b.tags.get("tier") == "hot"]

Requests that the server refuses raise `RpcError` with its code; `TryLaterError` where it does not answer, or not now.
Not for several threads at once.
"""

import ssl
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kafkakit.config.security import Secret
from kafkakit.core.errors import InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.printable import printable
from kafkakit.core.rpc import HTTP_STATUS, RpcCode, RpcError
from kafkakit.registry.decide.access import is_loopback
from kafkakit.registry.decide.changes import changed_meanwhile
from kafkakit.registry.decide.entries import BrokerEntry, OffsetPair, TopicEntry
from kafkakit.registry.decide.history import etag_of
from kafkakit.registry.decide.requests import (
    RPC_BY_NAME,
    AnyRequest,
    BrokerRequest,
    CreateRequest,
    NoRequest,
    Rpc,
    TagBrokersRequest,
    TopicRequest,
    TranslateRequest,
    UnmappedRequest,
    given_fields,
)
from kafkakit.registry.decide.selection import Entries, tags_of
from kafkakit.registry.decide.tags import Kind, Tags, changed_keys
from kafkakit.registry.decide.v2.messages import (
    ChangeTagsReply,
    ChangeTagsRequest,
    HistoryEntry,
    HistoryPage,
    HistoryRequest,
    ObjectChange,
)

ATTEMPTS = 3
RETRY_S = 0.5
MOST_BYTES = 256 << 20
MOST_TOKEN_BYTES = 64 << 10
_LATER = frozenset({RpcCode.UNAVAILABLE, RpcCode.RESOURCE_EXHAUSTED, RpcCode.DEADLINE_EXCEEDED})
_CODES = {status: code for code, status in reversed(list(HTTP_STATUS.items()))}
_NO_V2 = frozenset({RpcCode.NOT_FOUND, RpcCode.UNIMPLEMENTED})
T = TypeVar("T")
_WAITED = "wait time exceeded"  # kafka-kit's answer to too many requests, which has no code of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class _Topics:
    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brokers:
    brokers: Mapping[int, BrokerEntry] = field(default_factory=dict)
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offsets:
    offsets: Mapping[str, OffsetPair] = field(default_factory=dict)


class _Refusal(msgspec.Struct, frozen=True):
    code: int = RpcCode.UNKNOWN
    message: str = ""


class RegistryCalls(Protocol):
    """What carries calls out: a server, or this process on the cluster itself."""

    def call(self, rpc: Rpc, request: AnyRequest) -> bytes:
        """The reply as JSON; raises `RpcError` and `TryLaterError`."""
        ...

    def change_tags(self, kind: Kind, name: str, before: Tags, after: Tags) -> None:
        """Replace the tags of an object that are still `before`; `ConflictError` where they are not."""
        ...

    def history_page(self, request: HistoryRequest) -> bytes:
        """A `HistoryPage` as JSON; `RpcError` where the server has no version 2."""
        ...


class RegistryClient:
    """The calls of a registry as methods; each is one request."""

    def __init__(self, calls: RegistryCalls) -> None:
        self._calls = calls

    def topics(self, tags: Sequence[str] = (), *, name: str = "", with_replicas: bool = False) -> dict[str, TopicEntry]:
        """Topics by name: those with all the `key:value` tags, or the one of a name where it exists."""
        request = TopicRequest(tag=tuple(tags), name=name, with_replicas=with_replicas)
        return dict(sorted(self._read("GetTopics", request, _Topics).topics.items()))

    def topic_names(self) -> tuple[str, ...]:
        """The names of all topics, sorted."""
        return tuple(sorted(self._read("ListTopics", TopicRequest(), _Topics).names))

    def brokers(self, tags: Sequence[str] = ()) -> dict[int, BrokerEntry]:
        """The live brokers by id, those with all the tags."""
        return dict(sorted(self._read("GetBrokers", BrokerRequest(tag=tuple(tags)), _Brokers).brokers.items()))

    def reassigning_topics(self) -> tuple[str, ...]:
        """The topics of which partitions move."""
        return tuple(sorted(self._read("ReassigningTopics", NoRequest(), _Topics).names))

    def under_replicated_topics(self) -> tuple[str, ...]:
        """The topics with fewer copies in sync than they should have."""
        return tuple(sorted(self._read("UnderReplicatedTopics", NoRequest(), _Topics).names))

    def brokers_of_topic(self, name: str) -> tuple[int, ...]:
        """The ids of the brokers with a replica of the topic."""
        return tuple(sorted(self._read("TopicMappings", TopicRequest(name=name), _Brokers).ids))

    def topics_of_broker(self, broker: int) -> tuple[str, ...]:
        """The topics with a replica on the broker."""
        return tuple(sorted(self._read("BrokerMappings", BrokerRequest(id=broker), _Topics).names))

    def unmapped_brokers(self, exclude: Sequence[str] = ()) -> tuple[int, ...]:
        """The live brokers without a replica of any topic but the excluded ones."""
        return tuple(sorted(self._read("UnmappedBrokers", UnmappedRequest(exclude=tuple(exclude)), _Brokers).ids))

    def translate_offsets(self, group: str, alias: str = "source") -> dict[str, OffsetPair]:
        """MirrorMaker 2's offsets of a group, by `topic:partition`."""
        request = TranslateRequest(remote_cluster_alias=alias, group_id=group)
        return dict(sorted(self._read("TranslateOffsets", request, _Offsets).offsets.items()))

    def create_topic(self, request: CreateRequest) -> None:
        """Create a topic, with its tags, on brokers with the tags or ids that are given."""
        self._call("CreateTopic", request)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._call("DeleteTopic", TopicRequest(name=name))

    def tag(self, kind: Kind, name: str, tags: Tags) -> None:
        """Set tags beside those that are there."""
        given = tuple(f"{key}:{value}" for key, value in tags.items())
        if kind is Kind.TOPIC:
            self._call("TagTopic", TopicRequest(name=name, tag=given))
        else:
            self._call("TagBroker", BrokerRequest(id=int(name), tag=given))

    def tag_brokers(self, ids: Iterable[int], tags: Tags) -> None:
        """Set tags of several brokers."""
        given = tuple(f"{key}:{value}" for key, value in tags.items())
        self._call("TagBrokers", TagBrokersRequest(ids=tuple(ids), tags=given))

    def untag(self, kind: Kind, name: str, keys: Iterable[str]) -> None:
        """Delete tags by key."""
        if kind is Kind.TOPIC:
            self._call("DeleteTopicTags", TopicRequest(name=name, tag=tuple(keys)))
        else:
            self._call("DeleteBrokerTags", BrokerRequest(id=int(name), tag=tuple(keys)))

    def change_tags(self, kind: Kind, name: str, before: Tags, after: Tags) -> None:
        """Replace tags that are still `before`; `ConflictError` where another process changed them meanwhile."""
        self._calls.change_tags(kind, name, before, after)

    def history(
        self, kind: Kind | None = None, name: str = "", *, since: str = "", most: int = 1000
    ) -> list[HistoryEntry]:
        """Up to `most` changes of tags, the newest first, of one object where it is named; `since` is RFC 3339.

        One request for each 1,000 of them. `RpcError` where the server has no history, as kafka-kit's has none.
        """
        found: list[HistoryEntry] = []
        page = HistoryPage(entries=(), next_page_token="")
        of: Literal["", "topic", "broker"] = "" if kind is None else "topic" if kind is Kind.TOPIC else "broker"
        while not found or (page.next_page_token and len(found) < most):
            token, size = page.next_page_token, min(1000, most - len(found))
            request = HistoryRequest(kind=of, name=name, since=since, page_size=size, page_token=token)
            page = _decoded(self._calls.history_page(request), HistoryPage)
            found += page.entries
            if not page.entries:
                break
        return found

    def _read(self, name: str, request: AnyRequest, shape: type[Any]) -> Any:
        return _decoded(self._call(name, request), shape)

    def _call(self, name: str, request: AnyRequest) -> bytes:
        return self._calls.call(RPC_BY_NAME[name], request)


class HttpCalls:
    """Calls to a server over HTTP; reads are sent up to three times, changes once."""

    def __init__(self, server: str, token: Secret | None, tls: ssl.SSLContext | None, timeout_s: float) -> None:
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
            self._connection: HTTPConnection = HTTPSConnection(
                parts.hostname, port, timeout=timeout_s, context=tls or ssl.create_default_context()
            )
        else:
            self._connection = HTTPConnection(parts.hostname, port, timeout=timeout_s)

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
        body = msgspec.json.encode(ChangeTagsRequest(changes=(change,)))
        if not self._has_v2:
            self._change_v1(kind, name, before, put, removed)
            return
        try:
            (result,) = _decoded(self._send("POST", "/v2/tags", body, is_read=False), ChangeTagsReply).results
        except RpcError as error:
            if error.code not in _NO_V2:
                raise
            self._has_v2 = False
            self._change_v1(kind, name, before, put, removed)
            return
        if result.code == RpcCode.ABORTED:
            raise changed_meanwhile(kind, name)
        if result.code:
            raise _raised(RpcError(RpcCode(result.code), printable(result.message[:500])), self._name)

    def _change_v1(self, kind: Kind, name: str, before: Tags, put: Tags, removed: Collection[str]) -> None:
        client = RegistryClient(self)
        entries: Entries = client.topics(name=name) if kind is Kind.TOPIC else client.brokers()
        if tags_of(entries).get(name) != before:
            raise changed_meanwhile(kind, name)
        if put:
            client.tag(kind, name, put)
        if removed:
            client.untag(kind, name, sorted(removed))

    def history_page(self, request: HistoryRequest) -> bytes:
        """See `RegistryCalls`."""
        given = {name: value for name in request.__struct_fields__ if (value := getattr(request, name))}
        return self._send("GET", f"/v2/history?{urlencode(given)}", None, is_read=True)

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        self._connection.close()

    def _send(self, method: str, path: str, body: bytes | None, *, is_read: bool) -> bytes:
        problem = ""
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
                continue
            if status == 200:
                return data
            refused = _raised(_refusal(status, data), self._name)
            if not is_read or isinstance(refused, RpcError):
                raise refused
            problem = refused.message
        hint = None if is_read else "whether the change was made is not known: read before repeating it"
        raise TryLaterError(f"{self._name} gives no answer: {problem}", hint=hint)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        end_s = time.monotonic() + self._timeout_s
        if method != "GET":
            self._connection.close()  # one that the server closed meanwhile would leave a change in doubt
        self._connection.request(method, self._base + path, body, self._headers)
        with self._connection.getresponse() as response:
            return response.status, self._read(response, end_s)

    def _read(self, response: HTTPResponse, end_s: float) -> bytes:
        parts: list[bytes] = []
        total = 0
        while part := response.read1(1 << 16):
            total += len(part)
            if total > MOST_BYTES:
                self._connection.close()
                raise InputError(self._name, f"answers with more than {MOST_BYTES:,} bytes")
            if time.monotonic() > end_s:
                raise TimeoutError(f"the answer took longer than {self._timeout_s:g} s")
            parts.append(part)
        return b"".join(parts)


@contextmanager
def connect(
    server: str,
    *,
    token_file: str | Path | None = None,
    ca_file: str | Path | None = None,
    cert_file: str | Path | None = None,
    key_file: str | Path | None = None,
    timeout_s: float = 30.0,
) -> Iterator[RegistryClient]:
    """A client of the registry at `http://HOST:PORT` or `https://HOST:PORT`, until the block ends.

    `token_file` holds the bearer token, `ca_file` the authorities of the server's certificate (those of the system
    without it), `cert_file` and `key_file` are ours. Connects with the first call. Raises `UsageError` for files that
    cannot be used, and for a token that would leave this host unencrypted.
    """
    token = None if token_file is None else _read_token(Path(token_file))
    try:
        tls = ssl.create_default_context(cafile=ca_file)
        if cert_file is not None:
            tls.load_cert_chain(cert_file, key_file, lambda: "")
    except (OSError, ValueError) as error:
        what = ca_file if cert_file is None else f"{cert_file}, {key_file}"
        raise InputError(str(what), f"cannot be used for TLS: {getattr(error, 'strerror', None) or error}") from None
    calls = HttpCalls(server, token, tls, timeout_s)
    try:
        yield RegistryClient(calls)
    finally:
        calls.close()


def _read_token(path: Path) -> Secret:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_TOKEN_BYTES + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise InputError(str(path), f"the token cannot be read: {reason}") from None
    if not text or len(text) > MOST_TOKEN_BYTES or not text.isascii() or not text.isprintable():
        raise InputError(str(path), "holds no token")
    return Secret(text)


def _decoded(data: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=shape, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("the registry", f"gives an answer that is none of its own: {str(error)[:200]}") from None


def _raised(error: RpcError, server: str) -> KafkakitError:
    """What is raised for a refusal: one that may pass is not final."""
    is_passing = error.code in _LATER or error.message == _WAITED
    return TryLaterError(f"{server}: {error.message}") if is_passing else error


def _query_value(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _refusal(status: int, data: bytes) -> RpcError:
    """The answer as an error; `{"code": number, "message": text}` is what grpc-gateway writes."""
    try:
        found = msgspec.json.decode(data[: 1 << 16], type=_Refusal)
        code = RpcCode(found.code)
    except (ValueError, RecursionError):
        found, code = _Refusal(), _CODES.get(status, RpcCode.UNKNOWN)
    return RpcError(code, printable(found.message[:500]) or f"the registry answers with HTTP {status}")
