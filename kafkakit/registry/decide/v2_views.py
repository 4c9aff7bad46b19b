"""What version 2 answers: topics and brokers with the fields that are wanted, pages, watches, history, changes of
tags.

* Which objects match a query is kept until the inventory changes.
* A page's token names its last entry, so that objects that stay are neither lost nor repeated. Pages of history have
  the newest change first, of one object or of all.
* The latest changes have numbers. Each watch has its own place in them, so none has a queue; it shows objects as they
  are by now, and those that are gone or match no more.
* Changes of the tags of many objects are values: what is checked before, and what becomes of each.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from heapq import nsmallest
from typing import Any

import msgspec
from msgspec import UNSET

from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import KafkakitError, UsageError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.core.query import (
    ADDRESSED,
    BROKER_KEYS,
    NAMED,
    REPLICATION,
    TOPIC_KEYS,
    Makers,
    ObjectTable,
    explain,
    flag_column,
    names_matching,
    number_column,
    object_table,
    text_column,
    unknown_keys,
)
from kafkakit.core.query_text import Node, parse_query
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.core.text import sanitize
from kafkakit.registry.decide.inventory import NO_TAGS, ChangedObject, Inventory, RegisteredBroker, RegisteredTopic
from kafkakit.registry.decide.tags import (
    MAX_AGE_S,
    MAX_GIVEN,
    HistoryDocument,
    ObjectKind,
    StoredEntry,
    Tags,
    check_tag,
    code_of,
    etag_of,
    invalid_request,
    is_broker_id,
    merge_tags,
    remove_tags,
)
from kafkakit.registry.decide.v2_calls import (
    AnyV2Reply,
    AnyV2Request,
    BrokerPage,
    BrokerView,
    ChangeTagsReply,
    ChangeTagsRequest,
    ExplainReply,
    ExplainRequest,
    GetBrokerRequest,
    GetTopicRequest,
    HistoryEntry,
    HistoryPage,
    HistoryRequest,
    ListRequest,
    ObjectChange,
    PartitionReplicas,
    TagResult,
    TopicPage,
    TopicView,
    ValueChange,
    WatchEvent,
    WatchRequest,
)

MAX_FIELDS = 100
_MAPS = ("tags", "configs")
_VIEWS: Mapping[ObjectKind, type[TopicView | BrokerView]] = {ObjectKind.TOPIC: TopicView, ObjectKind.BROKER: BrokerView}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMask:
    """The fields that are wanted, and of maps the keys where not all are."""

    names: frozenset[str]
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def cut(self, name: str, value: Mapping[str, str]) -> Mapping[str, str]:
        """The wanted entries of a map."""
        keys = self.keys.get(name)
        return value if keys is None else {key: text for key, text in value.items() if key in keys}


def parse_mask(kind: ObjectKind, fields: Iterable[str]) -> FieldMask:
    """The mask of `fields`: names, and `tags.KEY` or `configs.NAME`; all but replicas without any. `RpcError`."""
    known, names, keys = _VIEWS[kind].__struct_fields__, set[str](), dict[str, set[str]]()
    for number, text in enumerate(fields):
        name, dot, key = text.partition(".")
        if number >= MAX_FIELDS or name not in known or (dot and name not in _MAPS):
            raise invalid_request(f"a {kind} has no field {sanitize(text[:60])!r}: the fields are {', '.join(known)}")
        if not dot:
            keys.pop(name, None)
        elif name not in names or name in keys:
            keys.setdefault(name, set()).add(key)
        names.add(name)
    wanted = frozenset(names) or frozenset(known) - {"replicas"}
    return FieldMask(names=wanted, keys={name: frozenset(of) for name, of in keys.items()})


def topic_view(facts: RegisteredTopic, inventory: Inventory, mask: FieldMask) -> TopicView:
    """The wanted fields of a topic."""
    return TopicView(**dict(_choose_fields(_topic_fields(facts, inventory, mask), mask)))


def broker_view(facts: RegisteredBroker, inventory: Inventory, mask: FieldMask) -> BrokerView:
    """The wanted fields of a broker."""
    tags = inventory.tags[ObjectKind.BROKER].get(str(facts.id), NO_TAGS)
    return BrokerView(
        **dict(
            _choose_fields(
                (
                    ("id", facts.id),
                    ("host", facts.host),
                    ("port", facts.port),
                    ("rack", facts.rack),
                    ("interbrokerprotocolversion", facts.protocol_version),
                    ("logmessageformat", facts.message_format),
                    ("tags", mask.cut("tags", tags)),
                    ("etag", etag_of(tags) if "etag" in mask.names else UNSET),
                ),
                mask,
            )
        )
    )


def view_of(kind: ObjectKind, name: str, inventory: Inventory, mask: FieldMask) -> TopicView | BrokerView | None:
    """An object by kind and name; None where it does not exist."""
    if kind is ObjectKind.TOPIC:
        topic = inventory.topics.get(name)
        return None if topic is None else topic_view(topic, inventory, mask)
    broker = inventory.brokers.get(int(name)) if name.isascii() and name.isdigit() else None
    return None if broker is None else broker_view(broker, inventory, mask)


def missing_object(kind: ObjectKind, name: str) -> RpcError:
    """The refusal for an object that does not exist."""
    return RpcError(RpcCode.NOT_FOUND, f"{kind} {sanitize(name[:80])} does not exist")


def _topic_fields(facts: RegisteredTopic, inventory: Inventory, mask: FieldMask) -> Iterator[tuple[str, Any]]:
    tags = inventory.tags[ObjectKind.TOPIC].get(facts.name, NO_TAGS)
    yield "name", facts.name
    yield "partitions", len(facts.replicas)
    yield "replication", facts.replication
    yield "under_replicated", facts.is_under_replicated
    yield "reassigning", facts.is_reassigning
    yield "internal", facts.name.startswith("__")
    yield "configs", mask.cut("configs", facts.configs)
    if "replicas" in mask.names:
        yield "replicas", tuple(PartitionReplicas(partition=number, brokers=row) for number, row in facts.replicas)
    yield "tags", mask.cut("tags", tags)
    if "etag" in mask.names:
        yield "etag", etag_of(tags)


def _choose_fields(fields: Iterable[tuple[str, Any]], mask: FieldMask) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in fields if name in mask.names)


MAX_EVENTS = 100_000


class EventLog:
    """Numbers of one run of the service: `run` tells its ids from those of another process."""

    def __init__(self, run: str, *, most: int = MAX_EVENTS) -> None:
        self._run, self._last = run, 0
        self._events: deque[tuple[ObjectKind, str]] = deque(maxlen=most)

    @property
    def last(self) -> int:
        """The number of the latest event; 0 before the first."""
        return self._last

    def add(self, touched: Sequence[ChangedObject]) -> None:
        """Take in what changed; the oldest events go."""
        self._events.extend((each.kind, each.name) for each in touched)
        self._last += len(touched)

    def id_of(self, number: int) -> str:
        """The id of an event, as clients see it."""
        return f"{self._run}-{number}"

    def number_of(self, event_id: str) -> int:
        """The number of an id; raises `LostPlaceError` for one of another process, or of the future."""
        run, _, number = event_id.rpartition("-")
        if run != self._run or not (number.isascii() and number.isdigit() and len(number) < 16):
            raise LostPlaceError("the event id is of another server or another run of it: list again")
        if int(number) > self._last:
            raise LostPlaceError("the event id is not from this server: list again")
        return int(number)

    def after(self, number: int, most: int) -> list[tuple[int, ObjectKind, str]]:
        """Up to `most` events after one, oldest first; `LostPlaceError` where some of them are gone."""
        first = self._last - len(self._events) + 1
        if number + 1 < first:
            raise LostPlaceError("too far behind, the changes since are not kept: list again")
        start = number + 1 - first
        end = min(len(self._events), start + most)
        return [(first + at, *self._events[at]) for at in range(start, end)]


class ReadsV2:
    """Answers from an inventory; a list names the latest event that is in it."""

    def __init__(self, inventory: Inventory, events: EventLog) -> None:
        self._inventory, self.events = inventory, events
        self.selection = QueryIndex(inventory)
        self._calls: Mapping[str, Callable[[Any], AnyV2Reply]] = {
            "ListTopics": lambda request: self._list(ObjectKind.TOPIC, request),
            "ListBrokers": lambda request: self._list(ObjectKind.BROKER, request),
            "GetTopic": self._get_topic,
            "GetBroker": self._get_broker,
            "Explain": self._explain,
        }

    def answers(self, name: str) -> bool:
        """Whether a call is one of these."""
        return name in self._calls

    def answer(self, name: str, request: AnyV2Request) -> AnyV2Reply:
        """The reply; `RpcError` for what has none."""
        return self._calls[name](request)

    def _list(self, kind: ObjectKind, request: ListRequest) -> TopicPage | BrokerPage:
        mask, size, question = parse_mask(kind, request.fields), page_size(request.page_size), (kind, request.query)
        last = read_token(question, request.page_token)
        names = self.selection.names(kind, request.query)
        shown = page_after(names, last, size, order_of(kind))
        views = [view for name in shown if (view := view_of(kind, name, self._inventory, mask)) is not None]
        is_end = not shown or shown[-1] == names[-1]
        token, total = "" if is_end else next_token(question, shown[-1]), len(names)
        event_id = self.events.id_of(self.events.last)
        if kind is ObjectKind.TOPIC:
            topics = tuple(view for view in views if isinstance(view, TopicView))
            return TopicPage(topics=topics, next_page_token=token, total=total, event_id=event_id)
        brokers = tuple(view for view in views if isinstance(view, BrokerView))
        return BrokerPage(brokers=brokers, next_page_token=token, total=total, event_id=event_id)

    def _get_topic(self, request: GetTopicRequest) -> AnyV2Reply:
        return self._get(ObjectKind.TOPIC, request.name, request.fields)

    def _get_broker(self, request: GetBrokerRequest) -> AnyV2Reply:
        return self._get(ObjectKind.BROKER, str(request.id), request.fields)

    def _get(self, kind: ObjectKind, name: str, fields: tuple[str, ...]) -> TopicView | BrokerView:
        found = view_of(kind, name, self._inventory, parse_mask(kind, fields))
        if found is None:
            raise missing_object(kind, name)
        return found

    def _explain(self, request: ExplainRequest) -> AnyV2Reply:
        matches, reasons = self.selection.explain(ObjectKind(request.kind), request.name, request.query)
        return ExplainReply(matches=matches, reasons=reasons)


MAX_KEPT_QUERIES = 100
_ELSEWHERE = TOPIC_KEYS | BROKER_KEYS
"""What queries on a whole cluster know, of which the service does not have everything."""
_OWN: Mapping[ObjectKind, Makers] = {
    ObjectKind.TOPIC: {
        **NAMED,
        "partitions": lambda topics: number_column([len(t.replicas) for t in topics]),
        **dict.fromkeys(REPLICATION, lambda topics: number_column([t.replication for t in topics])),
        "under_replicated": lambda topics: flag_column([t.is_under_replicated for t in topics]),
        "reassigning": lambda topics: flag_column([t.is_reassigning for t in topics]),
    },
    ObjectKind.BROKER: {
        **ADDRESSED,
        "interbrokerprotocolversion": lambda brokers: text_column([b.protocol_version or None for b in brokers]),
        "logmessageformat": lambda brokers: text_column([b.message_format or None for b in brokers]),
    },
}


class QueryIndex:
    """Answers queries on an inventory; the columns that they need are made once for each of its generations."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory, self._generation = inventory, -1
        self._tables: dict[ObjectKind, ObjectTable] = {}
        self._found: dict[tuple[ObjectKind, str], Sequence[str]] = {}

    def names(self, kind: ObjectKind, query: str) -> Sequence[str]:
        """The objects that match, topics by name and brokers by id; all without a query. `RpcError` for a bad one.

        O(objects) for each key of the query, once for each generation.
        """
        if not query:
            return self._inventory.topic_names if kind is ObjectKind.TOPIC else self._table(kind).names
        parsed, table = self._parsed(kind, query)
        found = self._found.get((kind, query))
        if found is None:
            found = names_matching(parsed, table)
            if len(self._found) < MAX_KEPT_QUERIES:
                self._found[kind, query] = found
        return found

    def among(self, kind: ObjectKind, names: Sequence[str], query: str) -> frozenset[str]:
        """Those of a few objects that exist and match; the query was checked before. O(names)."""
        existing = [name for name in names if self._inventory.has(kind, name)]
        if not query or not existing:
            return frozenset(existing)
        return frozenset(names_matching(parse_query(query), _table_of(kind, self._inventory, existing)))

    def explain(self, kind: ObjectKind, name: str, query: str) -> tuple[bool, tuple[str, ...]]:
        """Whether an object matches, and which parts of the query decide it; `RpcError` where it does not exist."""
        parsed, table = self._parsed(kind, query)
        if not self._inventory.has(kind, name):
            raise missing_object(kind, name)
        return explain(parsed, table, table.names.index(name))

    def _parsed(self, kind: ObjectKind, query: str) -> tuple[Node, ObjectTable]:
        table = self._table(kind)
        try:
            parsed = parse_query(query)
        except UsageError as error:
            raise invalid_request(error.message if error.hint is None else f"{error.message} ({error.hint})") from None
        for key, near in unknown_keys(parsed, table, _OWN[kind]):
            if near is not None or key in _ELSEWHERE:
                raise invalid_request(f"no {kind} here has {key}" + ("" if near is None else f": did you mean {near}?"))
        return parsed, table

    def _table(self, kind: ObjectKind) -> ObjectTable:
        if self._generation != self._inventory.generation:
            self._generation = self._inventory.generation
            self._tables.clear()
            self._found.clear()
        if kind not in self._tables:
            brokers = map(str, sorted(self._inventory.brokers))
            names = self._inventory.topic_names if kind is ObjectKind.TOPIC else tuple(brokers)
            self._tables[kind] = _table_of(kind, self._inventory, names)
        return self._tables[kind]


def _table_of(kind: ObjectKind, inventory: Inventory, names: Sequence[str]) -> ObjectTable:
    tags = inventory.tags[kind]
    if kind is ObjectKind.BROKER:
        brokers = [inventory.brokers[int(name)] for name in names]
        return object_table(names, brokers, _OWN[kind], lambda b: tags.get(str(b.id), NO_TAGS))
    topics = [inventory.topics[name] for name in names]
    return object_table(names, topics, _OWN[kind], lambda t: tags.get(t.name, NO_TAGS), lambda t: t.configs)


DEFAULT_SIZE, MAX_SIZE = 100, 1000
_MAX_TOKEN = 1024
Place = tuple[int, str]


class _Token(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    of: str
    last: str


def page_size(given: int) -> int:
    """The entries of a page: 100 for 0, at most 1000."""
    if given < 0:
        raise invalid_request("page_size is negative")
    return min(given or DEFAULT_SIZE, MAX_SIZE)


def page_after(names: Sequence[str], last: str | None, size: int, order: Callable[[str], Place]) -> Sequence[str]:
    """The names after one that need not be there any more; they are sorted by `order`. O(log names)."""
    try:
        start = 0 if last is None else bisect_right(names, order(last), key=order)
    except ValueError:
        raise invalid_request("page_token is not from this service") from None
    return names[start : start + size]


def order_of(kind: ObjectKind) -> Callable[[str], Place]:
    """How the names of a kind are sorted: topics by name, brokers by id."""
    return (lambda name: (0, name)) if kind is ObjectKind.TOPIC else (lambda name: (int(name), ""))


def next_token(question: Sequence[str], last: str) -> str:
    """The token of the page after `last`; `question` is what must be the same for it."""
    return urlsafe_b64encode(msgspec.json.encode(_Token(_digest(question), last))).decode().rstrip("=")


def read_token(question: Sequence[str], token: str) -> str | None:
    """The last entry of the page before, None for the first page; `RpcError` for a token of another question."""
    if not token:
        return None
    try:
        padded = token + "=" * (-len(token) % 4)
        found = decoded_json(urlsafe_b64decode(padded.encode("ascii")), _Token)
    except (ValueError, RecursionError):
        raise invalid_request("page_token is not from this service") from None
    if len(token) > _MAX_TOKEN or found.of != _digest(question):
        raise invalid_request("page_token belongs to another request: ask with the same query")
    return found.last


def _digest(question: Sequence[str]) -> str:
    return blake2b(msgspec.json.encode(list(question)), digest_size=6).hexdigest()


class LostPlaceError(Exception):
    """The events after a place are not known any more; the text is for the client."""


class WatchedSelection:
    """The choice of one client; `RpcError` where it cannot be meant.

    Whether an object matched before is not known: the first time that it does not, a `delete` is shown.
    """

    def __init__(self, request: WatchRequest, inventory: Inventory, selection: QueryIndex) -> None:
        if not request.kind and (request.query or request.fields):
            raise invalid_request("query and fields are for one kind: also give kind")
        self._kinds = frozenset({ObjectKind(request.kind)} if request.kind else ObjectKind)
        self._masks = {kind: parse_mask(kind, request.fields) for kind in self._kinds}
        if request.query:
            selection.names(ObjectKind(request.kind), request.query)
        self._query, self._inventory, self._selection = request.query, inventory, selection
        self._without: set[tuple[ObjectKind, str]] = set()

    def shown(
        self, events: Sequence[tuple[int, ObjectKind, str]], id_of: Callable[[int], str]
    ) -> tuple[WatchEvent, ...]:
        """The events to show, the last one of each object alone; O(events)."""
        latest = {(kind, name): number for number, kind, name in events if kind in self._kinds}
        matching = {
            kind: self._selection.among(kind, [name for of, name in latest if of is kind], self._query)
            for kind in self._kinds
        }
        found = sorted((number, kind, name) for (kind, name), number in latest.items())
        return tuple(
            event
            for number, kind, name in found
            for event in self._event(id_of(number), kind, name, is_there=name in matching[kind])
        )

    def _event(self, event_id: str, kind: ObjectKind, name: str, *, is_there: bool) -> Iterator[WatchEvent]:
        view = view_of(kind, name, self._inventory, self._masks[kind]) if is_there else None
        if view is not None:
            self._without.discard((kind, name))
            yield WatchEvent(
                type="put",
                event_id=event_id,
                kind=kind,
                name=name,
                topic=view if isinstance(view, TopicView) else UNSET,
                broker=view if isinstance(view, BrokerView) else UNSET,
            )
        elif (kind, name) not in self._without:
            self._without.add((kind, name))
            yield WatchEvent(type="delete", event_id=event_id, kind=kind, name=name)


HistoryPlace = tuple[float, str, str, int]
Objects = Iterable[tuple[ObjectKind, str, HistoryDocument]]
_PLACE: Any = tuple[float, str, str, int]


def check_history(request: HistoryRequest) -> None:
    """`RpcError` for a request that cannot be meant."""
    if bool(request.name) != bool(request.kind):
        raise invalid_request("kind and name belong together: an object, or none for all")
    _since_time(request)
    page_size(request.page_size)
    _last_place(request)


def history_page(
    request: HistoryRequest, objects: Objects, is_made: Callable[[ObjectKind, str, StoredEntry], bool], now_s: float
) -> HistoryPage:
    """One page. `is_made` tells of a change whose outcome is not entered yet whether it shows in the tags."""
    size, last, since = page_size(request.page_size), _last_place(request), max(_since_time(request), now_s - MAX_AGE_S)
    found = (
        (_place(kind, name, entry), entry)
        for kind, name, document in objects
        for entry in document.entries
        if entry.at >= since and (not entry.is_pending or is_made(kind, name, entry))
    )
    later = nsmallest(
        size + 1, ((place, entry) for place, entry in found if last is None or place > last), key=lambda each: each[0]
    )
    shown = later[:size]
    token = ""
    if len(later) > size:
        token = next_token(_question(request), msgspec.json.encode(shown[-1][0]).decode())
    return HistoryPage(entries=tuple(_show_entry(place, entry) for place, entry in shown), next_page_token=token)


def shows_in(inventory: Inventory) -> Callable[[ObjectKind, str, StoredEntry], bool]:
    """What tells from the last known tags whether a change was made."""
    return lambda kind, name, entry: entry.after == etag_of(inventory.tags[kind].get(name, NO_TAGS))


def _place(kind: ObjectKind, name: str, entry: StoredEntry) -> HistoryPlace:
    return -entry.at, str(kind), name, -entry.number


def _question(request: HistoryRequest) -> tuple[str, ...]:
    return "history", request.kind, request.name, request.since


def _last_place(request: HistoryRequest) -> HistoryPlace | None:
    text = read_token(_question(request), request.page_token)
    try:
        return None if text is None else decoded_json(text.encode(), _PLACE)
    except (msgspec.DecodeError, ValueError):
        raise invalid_request("page_token is not from this service") from None


def _since_time(request: HistoryRequest) -> float:
    if not request.since:
        return 0.0
    try:
        found = datetime.fromisoformat(request.since)
        if found.tzinfo is not None:
            return found.timestamp()
    except (ValueError, OverflowError):
        pass
    raise invalid_request(f"since: {sanitize(request.since[:40])!r} is not a time such as 2026-01-31T12:00:00Z")


def _show_entry(place: HistoryPlace, entry: StoredEntry) -> HistoryEntry:
    _, kind, name, _ = place
    at = datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    changes = tuple(
        ValueChange(
            key=each.key, old=UNSET if each.old is None else each.old, new=UNSET if each.new is None else each.new
        )
        for each in entry.changes
    )
    return HistoryEntry(kind=kind, name=name, number=entry.number, at=at, by=entry.by, changes=changes)


MAX_CHANGES = 1000
_NOT_FINAL = frozenset({RpcCode.UNAVAILABLE, RpcCode.DEADLINE_EXCEEDED, RpcCode.INTERNAL})


class EtagConflictError(RpcError):
    """Tags that are not those that the caller has seen; `tags` are the present ones."""

    def __init__(self, change: ObjectChange, tags: Tags) -> None:
        super().__init__(RpcCode.ABORTED, f"the tags of {change.kind} {change.name} were changed: read them again")
        self.tags = tags


def check_request(request: ChangeTagsRequest, if_match: str | None) -> ChangeTagsRequest:
    """The request with the etag of the header, which is for a single change; `RpcError` for what cannot be meant."""
    changes = request.changes
    if not 0 < len(changes) <= MAX_CHANGES:
        raise invalid_request(f"{len(changes)} changes are given: 1 to {MAX_CHANGES} are taken at once")
    if len({(change.kind, change.name) for change in changes}) < len(changes):
        raise invalid_request("an object is named twice")
    if if_match is None or if_match == "*":
        return request
    if len(changes) != 1 or changes[0].etag:
        raise invalid_request("If-Match is for a request with one change that has no etag of its own")
    etag = if_match.removeprefix('"').removesuffix('"')
    only = changes[0]
    found = ObjectChange(kind=only.kind, name=only.name, set=only.set, delete=only.delete, etag=etag)
    return ChangeTagsRequest(changes=(found,), dry_run=request.dry_run)


def check_change(change: ObjectChange) -> None:
    """`RpcError` for a change of one object that would never be made."""
    kind = ObjectKind(change.kind)
    if topic_problem(change.name) if kind is ObjectKind.TOPIC else not is_broker_id(change.name):
        raise RpcError(RpcCode.NOT_FOUND, f"{kind} {sanitize(change.name[:80])} does not exist")
    if not change.set and not change.delete:
        raise invalid_request("nothing is to be set or deleted")
    if len(change.set) + len(change.delete) > MAX_GIVEN:
        raise invalid_request(f"{len(change.set) + len(change.delete)} tags are given: at most {MAX_GIVEN}")
    for key, value in change.set.items():
        check_tag(kind, key, value)
        if not key or ":" in key or ":" in value:
            raise invalid_request(
                f"tag '{sanitize(key[:40])}': neither key nor value may have a colon, the key not be empty"
            )
    both = change.set.keys() & set(change.delete)
    if both:
        raise invalid_request(f"tag '{sanitize(min(both)[:40])}' is to be set and deleted")


def tags_after(change: ObjectChange, present: Tags) -> Mapping[str, str]:
    """The tags that a change leaves; `RpcError` where they are not those of its etag, or would be too many."""
    if change.etag and change.etag != etag_of(present):
        raise EtagConflictError(change, present)
    return merge_tags(ObjectKind(change.kind), change.name, remove_tags(present, change.delete), change.set)


def changed_result(change: ObjectChange, before: Tags, after: Tags) -> TagResult:
    """The result of a change that was made, or would be."""
    is_changed = dict(before) != dict(after)
    return TagResult(kind=change.kind, name=change.name, changed=is_changed, tags=after, etag=etag_of(after))


def refused_result(change: ObjectChange, error: KafkakitError) -> TagResult:
    """The result of a change that was not made, or of which it is not known."""
    if isinstance(error, EtagConflictError):
        tags, etag = error.tags, etag_of(error.tags)
    else:
        tags, etag = {}, ""
    return TagResult(
        kind=change.kind,
        name=sanitize(change.name[:249]),
        code=int(code_of(error)),
        message=error.message,
        tags=tags,
        etag=etag,
    )


def is_final(reply: ChangeTagsReply) -> bool:
    """Whether repeating the request would give the same: no change waits for a store that did not answer."""
    return not any(result.code in _NOT_FINAL for result in reply.results)


def results_of(
    request: ChangeTagsRequest, work: Callable[[ObjectChange], TagResult], is_late: Callable[[], bool]
) -> ChangeTagsReply:
    """Each change for itself; those that the deadline leaves no time for are not begun."""
    found = list[TagResult]()
    for change in request.changes:
        try:
            if is_late():
                raise RpcError(RpcCode.DEADLINE_EXCEEDED, "not begun before the deadline")
            check_change(change)
            found.append(work(change))
        except KafkakitError as error:
            found.append(refused_result(change, error))
    return ChangeTagsReply(results=tuple(found), dry_run=request.dry_run)
