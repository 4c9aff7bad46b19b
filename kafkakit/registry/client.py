"""A client of a registry over HTTP, kafka-kit's own included, with values as results.

    from kafkakit.registry.client import connect

    with connect("https://registry:8080", token_file="token", ca_file="ca.pem") as registry:
        hot = [b.id for b in registry.brokers() if b.tags.get("tier") == "hot"]

Requests that the server refuses raise `RpcError` with its code; `TryLaterError` means that it does not answer, or not
now. Not for several threads at once. Changes of tags are applied one object after the other.
"""

import ssl
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Literal, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kafkakit.config.security import Secret
from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.rpc import HTTP_STATUS, RpcCode, RpcError, is_loopback, read_body
from kafkakit.core.text import sanitize
from kafkakit.ports.acting import ProgressBar, pause
from kafkakit.registry.decide.desired_tags import (
    BrokerEntries,
    BrokerEntry,
    ChangeOutcome,
    Entries,
    OffsetEntries,
    OffsetPair,
    TagChange,
    TopicEntries,
    TopicEntry,
    changed_meanwhile,
    decoded_reply,
    failed_outcome,
    tags_of,
)
from kafkakit.registry.decide.offsets import with_intervals
from kafkakit.registry.decide.requests import (
    RPC_BY_NAME,
    AnyRequest,
    BrokerRequest,
    CallRoute,
    CreateRequest,
    TopicRequest,
    TranslateRequest,
    UnmappedRequest,
    given_fields,
)
from kafkakit.registry.decide.tags import ObjectKind, Tags, changed_keys, etag_of
from kafkakit.registry.decide.v2_calls import (
    ChangeTagsReply,
    ChangeTagsRequest,
    HistoryEntry,
    HistoryPage,
    HistoryRequest,
    ObjectChange,
    TranslatedOffset,
    TranslatedOffsets,
    TranslateOffsetsRequest,
)
from kafkakit.registry.decide.v2_views import MAX_CHANGES
from kafkakit.streams.model.mirrormaker import OffsetSync

T = TypeVar("T")
MOST_TOKEN_BYTES = 64 << 10


class RegistryCalls(Protocol):
    """What carries calls out: a server, or this process on the cluster itself."""

    def call(self, rpc: CallRoute, request: AnyRequest) -> bytes:
        """The reply as JSON; raises `RpcError` and `TryLaterError`."""
        ...

    def change_tags(self, kind: ObjectKind, name: str, before: Tags, after: Tags) -> None:
        """Replace the tags of an object that are still `before`; `ConflictError` where they are not."""
        ...

    def tags_of_brokers(self, ids: Sequence[int]) -> dict[int, Tags]:
        """The tags of brokers that are known, live or not; a server without version 2 knows of none."""
        ...

    def history_page(self, request: HistoryRequest) -> bytes:
        """A `HistoryPage` as JSON; `RpcError` where the server has no version 2."""
        ...

    def offset_intervals(self, request: TranslateOffsetsRequest) -> bytes:
        """`TranslatedOffsets` as JSON; `RpcError` where the server has no version 2."""
        ...


class RegistryClient:
    """The calls of a registry as methods; each is one request."""

    def __init__(self, calls: RegistryCalls) -> None:
        self._calls = calls

    def topics(self, tags: Sequence[str] = (), *, name: str = "", with_replicas: bool = False) -> dict[str, TopicEntry]:
        """Topics by name: those with all the `key:value` tags, or the one of a name where it exists."""
        request = TopicRequest(tag=tuple(tags), name=name, with_replicas=with_replicas)
        return dict(sorted(self._read("GetTopics", request, TopicEntries).topics.items()))

    def topic_names(self) -> tuple[str, ...]:
        """The names of all topics, sorted."""
        return tuple(sorted(self._read("ListTopics", TopicRequest(), TopicEntries).names))

    def brokers(self, tags: Sequence[str] = ()) -> dict[int, BrokerEntry]:
        """The live brokers by id, those with all the tags."""
        return dict(sorted(self._read("GetBrokers", BrokerRequest(tag=tuple(tags)), BrokerEntries).brokers.items()))

    def down_brokers(self, ids: Iterable[int]) -> dict[int, BrokerEntry]:
        """Those of `ids` that are known by their tags or replicas, with nothing but their tags: for brokers not live.

        One request for each 1,000 of them, which needs the right to change tags.
        """
        wanted = sorted(ids)
        found = self._calls.tags_of_brokers(wanted) if wanted else {}
        return {broker: BrokerEntry(id=broker, tags=tags) for broker, tags in sorted(found.items())}

    def brokers_of_topic(self, name: str) -> tuple[int, ...]:
        """The ids of the brokers with a replica of the topic."""
        return tuple(sorted(self._read("TopicMappings", TopicRequest(name=name), BrokerEntries).ids))

    def topics_of_broker(self, broker: int) -> tuple[str, ...]:
        """The topics with a replica on the broker."""
        return tuple(sorted(self._read("BrokerMappings", BrokerRequest(id=broker), TopicEntries).names))

    def unmapped_brokers(self, exclude: Sequence[str] = ()) -> tuple[int, ...]:
        """The live brokers without a replica of any topic but the excluded ones."""
        return tuple(sorted(self._read("UnmappedBrokers", UnmappedRequest(exclude=tuple(exclude)), BrokerEntries).ids))

    def translate_offsets(self, group: str, alias: str = "source") -> dict[str, OffsetPair]:
        """MirrorMaker 2's offsets of a group, by `topic:partition`."""
        request = TranslateRequest(remote_cluster_alias=alias, group_id=group)
        return dict(sorted(self._read("TranslateOffsets", request, OffsetEntries).offsets.items()))

    def offset_intervals(
        self, group: str, alias: str = "source", syncs: Iterable[OffsetSync] | None = None
    ) -> tuple[TranslatedOffset, ...]:
        """MirrorMaker 2's offsets of a group with the interval of the true offset, as far as offset syncs tell.

        `syncs` are those of the upstream cluster; without them the registry's own cluster is looked at. A server
        without version 2, such as kafka-kit's, knows none: then every end is unset.
        """
        if syncs is None:
            request = TranslateOffsetsRequest(alias=alias, group=group)
            try:
                return decoded_reply(self._calls.offset_intervals(request), TranslatedOffsets).offsets
            except RpcError as error:
                if error.code not in (RpcCode.NOT_FOUND, RpcCode.UNIMPLEMENTED):
                    raise
        pairs = self.translate_offsets(group, alias).items()
        offsets = {name: (p.upstreamOffset, p.localOffset) for name, p in pairs}
        return with_intervals(offsets, syncs or (), alias).offsets

    def create_topic(self, request: CreateRequest) -> None:
        """Create a topic, with its tags, on brokers with the tags or ids that are given."""
        self._call("CreateTopic", request)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, with its tags."""
        self._call("DeleteTopic", TopicRequest(name=name))

    def tag(self, kind: ObjectKind, name: str, tags: Tags) -> None:
        """Set tags beside those that are there."""
        given = tuple(f"{key}:{value}" for key, value in tags.items())
        if kind is ObjectKind.TOPIC:
            self._call("TagTopic", TopicRequest(name=name, tag=given))
        else:
            self._call("TagBroker", BrokerRequest(id=int(name), tag=given))

    def change_tags(self, kind: ObjectKind, name: str, before: Tags, after: Tags) -> None:
        """Replace tags that are still `before`; `ConflictError` where another process changed them meanwhile."""
        self._calls.change_tags(kind, name, before, after)

    def history(
        self, kind: ObjectKind | None = None, name: str = "", *, since: str = "", most: int = 1000
    ) -> list[HistoryEntry]:
        """Up to `most` changes of tags, the newest first, of one object where it is named; `since` is RFC 3339.

        One request for each 1,000 of them. `RpcError` where the server has no history, as kafka-kit's has none.
        """
        found: list[HistoryEntry] = []
        page = HistoryPage(entries=(), next_page_token="")
        of: Literal["", "topic", "broker"] = "" if kind is None else "topic" if kind is ObjectKind.TOPIC else "broker"
        while not found or (page.next_page_token and len(found) < most):
            token, size = page.next_page_token, min(1000, most - len(found))
            request = HistoryRequest(kind=of, name=name, since=since, page_size=size, page_token=token)
            page = decoded_reply(self._calls.history_page(request), HistoryPage)
            found += page.entries
            if not page.entries:
                break
        return found

    def _read(self, name: str, request: AnyRequest, shape: type[T]) -> T:
        return decoded_reply(self._call(name, request), shape)

    def _call(self, name: str, request: AnyRequest) -> bytes:
        return self._calls.call(RPC_BY_NAME[name], request)


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
    calls = HttpCalls(server, token, tls, timeout_s, has_certificate=cert_file is not None)
    try:
        yield RegistryClient(calls)
    finally:
        calls.close()


def _read_token(path: Path) -> Secret:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_TOKEN_BYTES + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise InputError(str(path), f"the token cannot be read: {reason}") from None
    if not text or len(text) > MOST_TOKEN_BYTES or not text.isascii() or not text.isprintable():
        raise InputError(str(path), "holds no token")
    return Secret(text)


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
            raise UsageError(f"{sanitize(server[:100])} is not a registry URL", hint="http://HOST:PORT")
        if token is not None and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise UsageError(f"the token would go to {parts.hostname} unencrypted", hint="use https://")
        self._name = f"registry {parts.scheme}://{parts.netloc}"
        self._base, self._timeout_s, self._has_v2 = parts.path.rstrip("/"), timeout_s, True
        self._headers = {} if token is None else {"Authorization": f"Bearer {token.reveal()}"}
        try:
            port = parts.port
        except ValueError:
            raise UsageError(f"{sanitize(server[:100])} names no port") from None
        if parts.scheme == "https":
            self._connection: HTTPConnection = HTTPSConnection(parts.hostname, port, timeout=timeout_s, context=tls)
        else:
            self._connection = HTTPConnection(parts.hostname, port, timeout=timeout_s)
        self._may_lack_certificate = parts.scheme == "https" and not has_certificate

    def call(self, rpc: CallRoute, request: AnyRequest) -> bytes:
        fields, path = given_fields(request), rpc.http_path
        for name in [name for name in request.__dataclass_fields__ if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", quote(str(fields.pop(name, "")), safe=""))
        if rpc.http_method == "POST":
            return self._send(rpc.http_method, path, msgspec.json.encode(fields), is_read=rpc.is_read)
        query = urlencode({n: _query_value(v) for n, v in fields.items()}, doseq=True)
        return self._send(rpc.http_method, f"{path}?{query}" if query else path, None, is_read=rpc.is_read)

    def change_tags(self, kind: ObjectKind, name: str, before: Tags, after: Tags) -> None:
        """See `RegistryCalls`. On a server without version 2 the tags are read at once before they are changed."""
        put, removed = changed_keys(before, after)
        if not put and not removed:
            return
        change = ObjectChange(
            kind="topic" if kind is ObjectKind.TOPIC else "broker",
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
            raise _error_of(RpcError(RpcCode(result.code), sanitize(result.message[:500])), self._name)

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

    def _change_v1(self, kind: ObjectKind, name: str, before: Tags, put: Tags, removed: Collection[str]) -> None:
        is_topic, noun = kind is ObjectKind.TOPIC, kind.capitalize()

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
                    raise _error_of(RpcError(RpcCode(result.code), sanitize(result.message[:500])), self._name)
                if not result.code:
                    found[int(result.name)] = result.tags
        return found

    def history_page(self, request: HistoryRequest) -> bytes:
        given = {name: value for name in request.__struct_fields__ if (value := getattr(request, name))}
        return self._send("GET", f"/v2/history?{urlencode(given)}", None, is_read=True)

    def offset_intervals(self, request: TranslateOffsetsRequest) -> bytes:
        path = f"/v2/translate-offsets/{quote(request.alias, safe='')}/{quote(request.group, safe='')}"
        return self._send("GET", path, None, is_read=True)

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        self._connection.close()

    def _send(self, method: str, path: str, body: bytes | None, *, is_read: bool) -> bytes:
        problem, was_closed = "", False
        for attempt in range(ATTEMPTS if is_read else 1):
            if attempt:
                pause(time, RETRY_S * 2 ** (attempt - 1))
            try:
                status, data = self._exchange(method, path, body)
            except (OSError, HTTPException) as error:
                self._connection.close()
                if isinstance(error, ssl.SSLError):
                    raise UsageError(f"{self._name}: TLS fails: {sanitize(str(error))[:200]}") from None
                problem = sanitize(str(error) or type(error).__name__)[:200]
                was_closed = isinstance(error, ConnectionError)
                continue
            if status == 200:
                return data
            refused = _error_of(_refusal(status, data), self._name)
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


def _error_of(error: RpcError, server: str) -> KafkakitError:
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
    return RpcError(code, sanitize(found.message[:500]) or f"the registry answers with HTTP {status}")


def apply_changes(client: RegistryClient, changes: Sequence[TagChange], bar: ProgressBar) -> tuple[ChangeOutcome, ...]:
    """Make each change unless the object's tags changed meanwhile; where the store does not answer the rest is left."""
    outcomes: list[ChangeOutcome] = []
    for number, change in enumerate(changes, 1):
        try:
            client.change_tags(change.kind, change.name, change.before, change.after)
        except ConflictError as error:
            outcomes.append(failed_outcome(change, "conflict", error))
        except TryLaterError as error:
            left = (ChangeOutcome(change=rest, state="left") for rest in changes[number:])
            return (*outcomes, failed_outcome(change, "unknown", error), *left)
        except KafkakitError as error:
            outcomes.append(failed_outcome(change, "failed", error))
        else:
            outcomes.append(ChangeOutcome(change=change, state="done"))
        bar.update(number, len(changes))
    return tuple(outcomes)
