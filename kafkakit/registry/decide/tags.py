"""Tags: their text, what may be set, their form in kafka-kit's znodes, their history, cleanup and migration.

* The history of one object's tags is a document beside them. A change is entered before it is made, with a digest of
  what it will leave, in a document that names the version of the record that it is made from: whether it was made
  shows in the record itself, so a program that ends in between loses neither. What the record holds and no entry
  announced was written by another program.
* Cleanup: as in kafka-kit, the tags of an object that is gone get the tag `tagMarkedForDeletionTime` with the time in
  Unix seconds, lose it when the object is there again, and go once it is older than the allowed staleness. Here the
  record goes with them, so that it is not marked again and again. Both programs may run on the same znodes.
* Migration copies all tags from one store to another: what is to be written, and whether both hold the same.
* Refusals of the service have kafka-kit's texts; `docs/registry.md` names the codes that differ.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from hashlib import blake2b, sha256

import msgspec
from msgspec.structs import replace

from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.model import BROKER_TAGS, TOPIC_TAGS
from kafkakit.core.options import not_typed, parsed_option
from kafkakit.core.quantities import format_percent, parse_percent
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.core.text import sanitize

Tags = Mapping[str, str]

MAX_KEY, MAX_VALUE, MAX_TAGS = 128, 1024, 1000
MAX_GIVEN = 1000
"""The most tags of one request."""
MAX_DOCUMENT_BYTES = 60_000
MARK = "tagMarkedForDeletionTime"
"""kafka-kit's cleanup sets it on tags of what is gone, with the time in Unix seconds."""


class ObjectKind(StrEnum):
    """What has tags; the values are the names of kafka-kit's znodes."""

    BROKER = BROKER_TAGS
    TOPIC = TOPIC_TAGS


RESERVED: Mapping[ObjectKind, frozenset[str]] = {
    ObjectKind.TOPIC: frozenset({"tags", "name", "partitions", "replication", "configs", "replicas"}),
    ObjectKind.BROKER: frozenset(
        {"tags", "id", "host", "port", "rack", "interbrokerprotocolversion", "logmessageformat"}
    ),
}


def parse_tags(given: Sequence[str]) -> dict[str, str]:
    """`key:value` texts as tags; later ones win. `RpcError` for what has another form, with kafka-kit's text."""
    if len(given) > MAX_GIVEN:
        raise invalid_request(f"{len(given)} tags are given: at most {MAX_GIVEN}")
    found: dict[str, str] = {}
    for text in given:
        key, colon, value = text.partition(":")
        if not colon or ":" in value or not key:
            raise invalid_request(f"invalid tag '[{sanitize(' '.join(given)[:200])}]': must be formatted as key:value")
        found[key] = value
    return found


def require_tag_texts(given: Sequence[str]) -> None:
    """Raise `UsageError` for the first word of a command line that is not `KEY:VALUE`."""
    bad = next((text for text in given if text.count(":") != 1 or text.startswith(":")), None)
    if bad is not None:
        hint = "write KEY:VALUE, such as team:pay; neither part can have a colon"
        raise UsageError(f"{sanitize(bad[:100])!r} is not a tag", hint=hint)


def tags_to_set(kind: ObjectKind, given: Sequence[str]) -> dict[str, str]:
    """The tags of a request that sets them; `RpcError` for none, for reserved keys and for what is over a limit."""
    if not given:
        raise fault("must provide a non-nil or non-empty tags")
    found = parse_tags(given)
    for key, value in found.items():
        check_tag(kind, key, value)
    return found


def keys_to_delete(given: Sequence[str]) -> frozenset[str]:
    """The keys of a request that deletes tags; of `key:value` the key counts, as in kafka-kit."""
    if not given:
        raise fault("must provide a non-nil or non-empty tags")
    if len(given) > MAX_GIVEN:
        raise invalid_request(f"{len(given)} tags are given: at most {MAX_GIVEN}")
    return frozenset(text.partition(":")[0] for text in given)


def merge_tags(kind: ObjectKind, name: str, present: Tags, given: Tags) -> dict[str, str]:
    """The tags of an object after a request; `RpcError` if they would be too many.

    What is over a limit already, as kafka-kit has none, can be changed as long as it does not grow.
    """
    result = {**present, **given}
    most_bytes = max(MAX_DOCUMENT_BYTES, len(encode_tags(present)))
    if len(result) > max(MAX_TAGS, len(present)) or len(encode_tags(result)) > most_bytes:
        raise invalid_request(
            f"{kind} {name} would have {len(result)} tags: at most {MAX_TAGS} and {MAX_DOCUMENT_BYTES} bytes"
        )
    return result


def remove_tags(present: Tags, keys: Collection[str]) -> dict[str, str]:
    """The tags that are left."""
    return {key: value for key, value in present.items() if key not in keys}


def changed_keys(before: Tags, after: Tags) -> tuple[dict[str, str], frozenset[str]]:
    """What to set and which keys to delete, so that the tags `before` become those `after`."""
    return {k: v for k, v in after.items() if before.get(k) != v}, frozenset(before.keys() - after.keys())


def encode_tags(tags: Tags) -> bytes:
    """The znode of an object's tags, as Go's encoding/json writes it: sorted, compact, `<`, `>` and `&` escaped."""
    text = json.dumps(dict(sorted(tags.items())), separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "replace")


def is_broker_id(name: str) -> bool:
    """Whether a name is that of a broker: its id, without zeros before it."""
    return name.isascii() and name.isdigit() and len(name) < 11 and str(int(name)) == name


def check_tag(kind: ObjectKind, key: str, value: str) -> None:
    """`RpcError` for a tag that cannot be set: a reserved key, or a text that is too long or does not print."""
    if key in RESERVED[kind]:
        raise invalid_request(f"tag '{key}' is a reserved tag")
    if key == MARK:
        raise invalid_request(f"tag '{key}' is a reserved tag: only the cleanup sets it")
    if len(key) > MAX_KEY or not key.isprintable():
        raise invalid_request(
            f"tag '{sanitize(key[:40])}': a key must have at most {MAX_KEY} characters, all printable"
        )
    if len(value) > MAX_VALUE or not value.isprintable():
        raise invalid_request(f"the value of tag '{key}' must have at most {MAX_VALUE} characters, all printable")


MAX_ENTRIES = 100
MAX_AGE_S = 90 * 86400.0
MAX_BYTES = 60_000
MAX_KNOWN_BYTES = 16_384
"""Tags that are larger are kept as a digest alone, and their earlier values are then not known."""
MAX_SHOWN = 200
"""Values in entries are cut to so many characters where an entry would be too large."""
MAX_ENTRY_BYTES = 16_384
ANOTHER_PROGRAM = "another program"


class ChangedValue(msgspec.Struct, frozen=True, array_like=True):
    """One tag; None where it was not there, or is not known."""

    key: str
    old: str | None
    new: str | None


class StoredEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change; `after` is the digest of the tags that it leaves, while it is pending."""

    number: int
    at: float
    by: str
    changes: tuple[ChangedValue, ...]
    after: str = ""
    is_pending: bool = False


class HistoryDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """The entries, oldest first, and the tags that the last settled one left; `tags` is None where too large."""

    version: int | None = None
    digest: str = ""
    tags: dict[str, str] | None = None
    entries: tuple[StoredEntry, ...] = ()
    last_number: int = 0

    @property
    def made(self) -> tuple[StoredEntry, ...]:
        """The changes that are known to have been made."""
        return tuple(entry for entry in self.entries if not entry.is_pending)


def etag_of(tags: Tags | None) -> str:
    """A digest of an object's tags in their form in the store; none are as an empty record."""
    return blake2b(encode_tags(tags or {}), digest_size=8).hexdigest()


def read_history(data: bytes | None, source: str) -> HistoryDocument | None:
    """The document of a record; `InputError` where it holds something else."""
    if data is None:
        return None
    try:
        return decoded_json(data, HistoryDocument)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(source, f"holds no history of tags: {str(error)[:200]}") from None


def encode_history(document: HistoryDocument, now_s: float) -> bytes:
    """The document within its limits, as bytes."""
    return msgspec.json.encode(within_limits(document, now_s))


def within_limits(document: HistoryDocument, now_s: float) -> HistoryDocument:
    """Of each object's changes the oldest go, by number, age and size."""
    entries = tuple(e for e in document.entries if e.is_pending or e.at >= now_s - MAX_AGE_S)[-MAX_ENTRIES:]
    while True:
        found = replace(document, entries=entries)
        if len(msgspec.json.encode(found)) <= MAX_BYTES or not entries:
            return found
        entries = entries[1:]


def settle_document(
    document: HistoryDocument | None, tags: Tags | None, version: int | None, now_s: float
) -> HistoryDocument:
    """The document once it is clear what the record's tags are, at a version of it.

    Without a document the record is taken as it is. What was announced from an earlier version and does not show was
    not made, and never will be.
    """
    digest = etag_of(tags)
    if document is None:
        return _at_version(HistoryDocument(), tags, version, digest)
    if version == document.version and digest == document.digest:
        return document
    ours = next((e for e in document.entries if e.is_pending and e.after == digest), None)
    kept = tuple(
        replace(entry, is_pending=False) if entry is ours else entry
        for entry in document.entries
        if entry is ours or not entry.is_pending
    )
    found = replace(document, entries=kept)
    if ours is None and digest != document.digest:
        found = _append_entry(found, now_s, ANOTHER_PROGRAM, document.tags, tags)
    return _at_version(found, tags, version, digest)


def announce_change(
    document: HistoryDocument, before: Tags | None, after: Tags | None, by: str, now_s: float
) -> HistoryDocument:
    """The document with a change that is about to be made from its version; None: no record."""
    made = _append_entry(document, now_s, by, before, after)
    entry = replace(made.entries[-1], is_pending=True, after=etag_of(after))
    return replace(made, entries=(*made.entries[:-1], entry))


def confirm_change(document: HistoryDocument, number: int, tags: Tags | None, version: int | None) -> HistoryDocument:
    """The document once a change of ours is made; others that were to be made from the same version never will be."""
    entries = tuple(
        replace(entry, is_pending=False) if entry.number == number else entry
        for entry in document.entries
        if entry.number == number or not entry.is_pending
    )
    return _at_version(replace(document, entries=entries), tags, version, etag_of(tags))


def known_changes(document: HistoryDocument, tags: Tags | None, version: int | None) -> tuple[StoredEntry, ...]:
    """The changes that a document has and that were made, the last one too where only the record shows it."""
    numbers = {entry.number for entry in document.entries}
    return tuple(entry for entry in settle_document(document, tags, version, 0).made if entry.number in numbers)


def with_changes(document: HistoryDocument, copied: Sequence[StoredEntry]) -> HistoryDocument:
    """The document with changes from another store among its own, by time; what it has already comes once."""
    present = {(entry.at, entry.by, entry.changes) for entry in document.entries}
    new = [entry for entry in copied if (entry.at, entry.by, entry.changes) not in present]
    # Its own keep their numbers: one that is pending is confirmed by its number.
    numbered = [replace(entry, number=n, after="") for n, entry in enumerate(new, document.last_number + 1)]
    entries = tuple(sorted((*document.entries, *numbered), key=lambda entry: entry.at))
    return replace(document, entries=entries, last_number=document.last_number + len(new)) if new else document


def changed_values(old: Tags | None, new: Tags | None) -> tuple[ChangedValue, ...]:
    """The tags that differ, by key; all new ones where the old are not known."""
    before, after = old or {}, new or {}
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return tuple(ChangedValue(key, before.get(key), after.get(key)) for key in keys)


def _at_version(document: HistoryDocument, tags: Tags | None, version: int | None, digest: str) -> HistoryDocument:
    known = dict(tags or {})
    is_small = len(encode_tags(known)) <= MAX_KNOWN_BYTES
    return replace(document, version=version, digest=digest, tags=known if is_small else None)


def _append_entry(
    document: HistoryDocument, now_s: float, by: str, old: Tags | None, new: Tags | None
) -> HistoryDocument:
    changes = _cut_changes(changed_values(old, new))
    entry = StoredEntry(number=document.last_number + 1, at=now_s, by=by, changes=changes)
    return replace(document, entries=(*document.entries, entry), last_number=entry.number)


def _cut_changes(changes: Sequence[ChangedValue]) -> tuple[ChangedValue, ...]:
    """The changes, with shorter values, and then fewer of them, where they would take too much space."""
    if len(msgspec.json.encode(changes)) <= MAX_ENTRY_BYTES:
        return tuple(changes)
    kept, size = list[ChangedValue](), 0
    for each in changes:
        cut = ChangedValue(each.key, each.old and each.old[:MAX_SHOWN], each.new and each.new[:MAX_SHOWN])
        size += len(msgspec.json.encode(cut)) + 1
        if size > MAX_ENTRY_BYTES:
            break
        kept.append(cut)
    return tuple(kept)


FEW = 3
"""So many objects may be gone at once whatever their share is."""
FUTURE_S = 3600.0
"""A mark further ahead of our clock is taken for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRules:
    """When marked tags go, and which share of a kind's tagged objects may be gone at most; `force`: any."""

    staleness_s: float = parsed_option(
        60,
        "--tag-allowed-staleness",
        typed=int,
        parse=lambda minutes: 60.0 * minutes,
        envvar="REGISTRY_TAG_ALLOWED_STALENESS",
        min=1,
        max=525_600,
        metavar="MINUTES",
        help="Delete an object's tags this long after it was marked as gone.",
    )
    max_share: Fraction = parsed_option(
        "25%",
        "--cleanup-max-share",
        parse=partial(parse_percent, flag="--cleanup-max-share"),
        metavar="PERCENT",
        help="Do nothing if more of the tagged topics or brokers are gone than this; 3 may always be gone.",
    )
    force: bool = not_typed(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What to do with the records of one kind, by name; `refused` says why nothing is done."""

    kind: ObjectKind
    tagged: int
    marks: tuple[str, ...] = ()
    unmarks: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    refused: str = ""


def plan_cleanup(
    kind: ObjectKind, table: Mapping[str, Tags], existing: Collection[str], now_s: float, rules: CleanupRules
) -> CleanupPlan:
    """What to do with the tags in `table`; `existing` is all that the cluster has of the kind. O(objects).

    Names of brokers that are no ids are left alone, as in kafka-kit.
    """
    names = sorted(name for name in table if kind is ObjectKind.TOPIC or (name.isascii() and name.isdigit()))
    gone = [name for name in names if name not in existing]
    unmarks = tuple(name for name in names if name in existing and MARK in table[name])
    if names and not existing and not rules.force:
        return CleanupPlan(kind=kind, tagged=len(names), refused=f"the cluster lists no {kind}s at all")
    most = max(FEW, int(rules.max_share * len(names)))
    if len(gone) > most and not rules.force:
        share = format_percent(Fraction(len(gone), len(names)))
        reason = f"{len(gone)} of {len(names)} tagged {kind}s are gone ({share}), more than {most}"
        return CleanupPlan(kind=kind, tagged=len(names), unmarks=unmarks, refused=reason)
    drops = tuple(name for name in gone if is_due(table[name], now_s, rules.staleness_s))
    marks = tuple(name for name in gone if name not in drops and needs_mark(table[name], now_s))
    waiting = tuple(name for name in gone if name not in {*drops, *marks})
    return CleanupPlan(kind=kind, tagged=len(names), marks=marks, unmarks=unmarks, drops=drops, waiting=waiting)


def is_due(tags: Tags, now_s: float, staleness_s: float) -> bool:
    """Whether the record of an object that is gone goes now: marked for long enough, or empty."""
    marked_s = _marked_s(tags, now_s)
    return not tags or (marked_s is not None and now_s - marked_s > staleness_s)


def needs_mark(tags: Tags, now_s: float) -> bool:
    """Whether there is no mark yet, or one that is no time of the past."""
    return _marked_s(tags, now_s) is None


def with_mark(tags: Tags, now_s: float) -> dict[str, str]:
    """The tags with a mark of now."""
    return {**tags, MARK: str(int(now_s))}


def _marked_s(tags: Tags, now_s: float) -> float | None:
    text = tags.get(MARK, "")
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) > now_s + FUTURE_S:
        return None
    return float(text)


TagTables = Mapping[ObjectKind, Mapping[str, Tags]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreContent:
    """How many objects of each kind have tags in a store, and the SHA-256 of all of them in hex."""

    brokers: int
    topics: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What to write, by kind and name; `others` are objects that only the target has, or with other tags."""

    writes: tuple[tuple[ObjectKind, str, Tags], ...]
    same: int
    others: tuple[str, ...]


def content_of(tables: TagTables) -> StoreContent:
    """What a store holds; records without tags do not count. O(tags)."""
    digest = sha256()
    counts = dict.fromkeys(ObjectKind, 0)
    for kind in ObjectKind:
        for name, tags in sorted(tables[kind].items()):
            if tags:
                counts[kind] += 1
                line = b"\0".join((str(kind).encode(), name.encode(), encode_tags(tags)))
                digest.update(b"%d:%s" % (len(line), line))
    return StoreContent(brokers=counts[ObjectKind.BROKER], topics=counts[ObjectKind.TOPIC], digest=digest.hexdigest())


def plan_migration(source: TagTables, target: TagTables) -> MigrationPlan:
    """What the target lacks: where it has an object already, the source's tags go over the target's."""
    writes: list[tuple[ObjectKind, str, Tags]] = []
    others: list[str] = []
    same = 0
    for kind in ObjectKind:
        for name in sorted({*source[kind], *target[kind]}):
            ours, theirs = source[kind].get(name) or {}, target[kind].get(name) or {}
            if theirs and theirs != ours:
                others.append(f"{kind} {name}")
            if ours and theirs == ours:
                same += 1
            elif ours and {**theirs, **ours} != theirs:
                writes.append((kind, name, ours))
    return MigrationPlan(writes=tuple(writes), same=same, others=tuple(others))


_INVALID, _MISSING, _FAILED = RpcCode.INVALID_ARGUMENT, RpcCode.NOT_FOUND, RpcCode.FAILED_PRECONDITION

_CODES = {
    "error fetching brokers": RpcCode.INTERNAL,
    "error fetching topics": RpcCode.INTERNAL,
    "broker does not exist": _FAILED,
    "broker Id field must be specified": _INVALID,
    "broker Ids field must be specified": _INVALID,
    "topic does not exist": _MISSING,
    "topic Name field must be specified": _INVALID,
    "topic field missing in request body": _INVALID,
    "topic already exists": RpcCode.ALREADY_EXISTS,
    "insufficient number of brokers": _FAILED,
    "invalid broker id": _FAILED,
    "tagging topic timed out": RpcCode.DEADLINE_EXCEEDED,
    "GroupId field must be specified": _INVALID,
    "must provide a non-nil or non-empty tags": _INVALID,
    "requested Kafka object does not exist": _MISSING,
    "wait time exceeded": RpcCode.RESOURCE_EXHAUSTED,
    "deadline exceeded": RpcCode.DEADLINE_EXCEEDED,
}


def fault(text: str, *, detail: str = "") -> RpcError:
    """The refusal with one of kafka-kit's texts, and what is known beyond it."""
    return RpcError(_CODES[text], f"{text}: {detail}" if detail else text)


def invalid_request(text: str) -> RpcError:
    """A request that cannot be meant."""
    return RpcError(_INVALID, text)


def code_of(error: KafkakitError) -> RpcCode:
    """The code of a refusal, and of an error of the cluster or the store."""
    if isinstance(error, RpcError):
        return error.code
    return RpcCode.UNAVAILABLE if isinstance(error, TryLaterError | ConflictError) else RpcCode.INTERNAL


class CallRole(StrEnum):
    """The right that a call needs."""

    READ = "read"
    TAG = "tag"
    CREATE = "create"
    DELETE = "delete"
