"""The messages of version 2, as JSON and `registry_v2.proto` both have them; a field that is unset is left out."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

KindName = Literal["topic", "broker"]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown fields are refused: a misspelt one would be taken for none."""


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Fields stand in their order here."""


class ListRequest(_Request, frozen=True, kw_only=True):
    """A page of the objects that match a query; `page_size` 0 is 100, and more than 1000 are cut to that."""

    query: str = ""
    fields: tuple[str, ...] = ()
    page_size: int = 0
    page_token: str = ""


class GetTopicRequest(_Request, frozen=True, kw_only=True):
    """One topic."""

    name: str = ""
    fields: tuple[str, ...] = ()


class GetBrokerRequest(_Request, frozen=True, kw_only=True):
    """One broker that is alive."""

    id: int = 0
    fields: tuple[str, ...] = ()


class ObjectChange(_Request, frozen=True, kw_only=True):
    """What to set and delete on one object; with `etag` only where its tags are still those."""

    kind: KindName
    name: str
    set: Mapping[str, str] = {}
    delete: tuple[str, ...] = ()
    etag: str = ""


class ChangeTagsRequest(_Request, frozen=True, kw_only=True):
    """Changes of up to 1000 objects, each for itself; `dry_run` writes nothing."""

    changes: tuple[ObjectChange, ...] = ()
    dry_run: bool = False


class HistoryRequest(_Request, frozen=True, kw_only=True):
    """Changes of one object, newest first; without a name those of all, object by object. `since` is RFC 3339."""

    kind: KindName | Literal[""] = ""
    name: str = ""
    since: str = ""
    page_size: int = 0
    page_token: str = ""


class WatchRequest(_Request, frozen=True, kw_only=True):
    """Changes after an event, or from now on; of one kind, and of objects that match a query."""

    kind: KindName | Literal[""] = ""
    query: str = ""
    fields: tuple[str, ...] = ()
    after: str = ""


class ExplainRequest(_Request, frozen=True, kw_only=True):
    """Why a query has an object among its answers or not."""

    kind: KindName
    name: str
    query: str


class TranslateOffsetsRequest(_Request, frozen=True, kw_only=True):
    """The offsets of a group of the upstream cluster; `alias` is MirrorMaker 2's of that cluster, `source` if empty."""

    alias: str = ""
    group: str = ""


class NoFields(_Request, frozen=True, kw_only=True):
    """A request without fields."""


class PartitionReplicas(_Reply, frozen=True, kw_only=True):
    """The brokers of one partition, the preferred leader first."""

    partition: int
    brokers: tuple[int, ...]


class TopicView(_Reply, frozen=True, kw_only=True):
    """A topic; `replicas` are there only where `fields` names them."""

    name: str | UnsetType = UNSET
    partitions: int | UnsetType = UNSET
    replication: int | UnsetType = UNSET
    under_replicated: bool | UnsetType = UNSET
    reassigning: bool | UnsetType = UNSET
    internal: bool | UnsetType = UNSET
    configs: Mapping[str, str] | UnsetType = UNSET
    replicas: tuple[PartitionReplicas, ...] | UnsetType = UNSET
    tags: Mapping[str, str] | UnsetType = UNSET
    etag: str | UnsetType = UNSET


class BrokerView(_Reply, frozen=True, kw_only=True):
    """A broker that is alive."""

    id: int | UnsetType = UNSET
    host: str | UnsetType = UNSET
    port: int | UnsetType = UNSET
    rack: str | UnsetType = UNSET
    interbrokerprotocolversion: str | UnsetType = UNSET
    logmessageformat: str | UnsetType = UNSET
    tags: Mapping[str, str] | UnsetType = UNSET
    etag: str | UnsetType = UNSET


class TopicPage(_Reply, frozen=True, kw_only=True):
    """Topics by name; `total` of all pages. A watch after `event_id` of the first page misses nothing."""

    topics: tuple[TopicView, ...]
    next_page_token: str
    total: int
    event_id: str


class BrokerPage(_Reply, frozen=True, kw_only=True):
    """Brokers by id; else as `TopicPage`."""

    brokers: tuple[BrokerView, ...]
    next_page_token: str
    total: int
    event_id: str


class TagResult(_Reply, frozen=True, kw_only=True):
    """What became of one object: `code` is gRPC's, 0 for success; tags and etag are the present ones."""

    kind: str
    name: str
    code: int = 0
    message: str = ""
    changed: bool = False
    tags: Mapping[str, str] = {}
    etag: str = ""


class ChangeTagsReply(_Reply, frozen=True, kw_only=True):
    """A result for each change, in their order."""

    results: tuple[TagResult, ...]
    dry_run: bool = False


class ValueChange(_Reply, frozen=True, kw_only=True):
    """One tag before and after; unset where it was not there, or is not known."""

    key: str
    old: str | UnsetType = UNSET
    new: str | UnsetType = UNSET


class HistoryEntry(_Reply, frozen=True, kw_only=True):
    """One change of an object's tags."""

    kind: str
    name: str
    number: int
    at: str
    by: str
    changes: tuple[ValueChange, ...]


class HistoryPage(_Reply, frozen=True, kw_only=True):
    """Entries; a page may be short, and is the last only where `next_page_token` is empty."""

    entries: tuple[HistoryEntry, ...]
    next_page_token: str


class WatchEvent(_Reply, frozen=True, kw_only=True):
    """`start` and `heartbeat` give an event id, `put` an object, `delete` a name, and `end` why there is no more."""

    type: Literal["start", "put", "delete", "heartbeat", "end"]
    event_id: str
    kind: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    topic: TopicView | UnsetType = UNSET
    broker: BrokerView | UnsetType = UNSET
    message: str | UnsetType = UNSET


class ExplainReply(_Reply, frozen=True, kw_only=True):
    """Whether the object matches, and the parts of the query that decide it."""

    matches: bool
    reasons: tuple[str, ...]


class TranslatedOffset(_Reply, frozen=True, kw_only=True):
    """Where a group continues here, at `local_offset`, and until where its true place may lie.

    Its true place is in [local_offset, local_end_offset], so that at most `may_repeat` records are read twice; both are
    unset where no sync tells. `exact`: the two are equal. `assumes_no_own_records`: the end is known only if the copy
    has no records of its own, and no markers of transactions, which exactly-once support writes.
    """

    topic: str
    partition: int
    upstream_offset: int
    local_offset: int
    local_end_offset: int | UnsetType = UNSET
    exact: bool = False
    may_repeat: int | UnsetType = UNSET
    assumes_no_own_records: bool = False


class TranslatedOffsets(_Reply, frozen=True, kw_only=True):
    """The group's partitions, by topic and number."""

    offsets: tuple[TranslatedOffset, ...]


AnyV2Request = (
    ListRequest
    | GetTopicRequest
    | GetBrokerRequest
    | ChangeTagsRequest
    | HistoryRequest
    | WatchRequest
    | ExplainRequest
    | TranslateOffsetsRequest
    | NoFields
)
AnyV2Reply = (
    TopicPage
    | BrokerPage
    | TopicView
    | BrokerView
    | ChangeTagsReply
    | HistoryPage
    | WatchEvent
    | ExplainReply
    | TranslatedOffsets
)
