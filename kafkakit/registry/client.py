"""A client of a registry over HTTP, kafka-kit's own included, with values as results.

    from kafkakit.registry.client import connect

    with connect("https://registry:8080", token_file="token", ca_file="ca.pem") as registry:
        hot = [b.id for b in registry.brokers() if b.tags.get("tier") == "hot"]

Requests that the server refuses raise `RpcError` with its code; `TryLaterError` where it does not answer, or not now.
Not for several threads at once.
"""

import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from kafkakit.config.security import Secret
from kafkakit.core.errors import InputError
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.act.http_calls import HttpCalls
from kafkakit.registry.decide.entries import (
    BrokerEntries,
    BrokerEntry,
    OffsetEntries,
    OffsetPair,
    TopicEntries,
    TopicEntry,
    decoded_reply,
)
from kafkakit.registry.decide.offset_intervals import with_intervals
from kafkakit.registry.decide.requests import (
    RPC_BY_NAME,
    AnyRequest,
    BrokerRequest,
    CreateRequest,
    Rpc,
    TopicRequest,
    TranslateRequest,
    UnmappedRequest,
)
from kafkakit.registry.decide.tags import Kind, Tags
from kafkakit.registry.decide.v2.messages import (
    HistoryEntry,
    HistoryPage,
    HistoryRequest,
    TranslatedOffset,
    TranslatedOffsets,
    TranslateOffsetsRequest,
)
from kafkakit.streams.model.mirrormaker import OffsetSync

T = TypeVar("T")
MOST_TOKEN_BYTES = 64 << 10


class RegistryCalls(Protocol):
    """What carries calls out: a server, or this process on the cluster itself."""

    def call(self, rpc: Rpc, request: AnyRequest) -> bytes:
        """The reply as JSON; raises `RpcError` and `TryLaterError`."""
        ...

    def change_tags(self, kind: Kind, name: str, before: Tags, after: Tags) -> None:
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

    def tag(self, kind: Kind, name: str, tags: Tags) -> None:
        """Set tags beside those that are there."""
        given = tuple(f"{key}:{value}" for key, value in tags.items())
        if kind is Kind.TOPIC:
            self._call("TagTopic", TopicRequest(name=name, tag=given))
        else:
            self._call("TagBroker", BrokerRequest(id=int(name), tag=given))

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
        reason = getattr(error, "strerror", None) or "is no text"
        raise InputError(str(path), f"the token cannot be read: {reason}") from None
    if not text or len(text) > MOST_TOKEN_BYTES or not text.isascii() or not text.isprintable():
        raise InputError(str(path), "holds no token")
    return Secret(text)
