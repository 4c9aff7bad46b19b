"""The history of one object's tags as a document beside them.

A change is entered before it is made, with a digest of what it will leave, in a document that names the version of the
record that it is made from: whether it was made shows in the record itself, so a program that ends in between loses
neither. What the record holds and no entry announced was written by another program.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import InputError
from kafkakit.registry.decide.tags import Tags, encode_tags

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


def settled(document: HistoryDocument | None, tags: Tags | None, version: int | None, now_s: float) -> HistoryDocument:
    """The document once it is clear what the record's tags are, at a version of it.

    Without a document the record is taken as it is. What was announced from an earlier version and does not show was
    not made, and never will be.
    """
    digest = etag_of(tags)
    if document is None:
        return _at(HistoryDocument(), tags, version, digest)
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
        found = _appended(found, now_s, ANOTHER_PROGRAM, document.tags, tags)
    return _at(found, tags, version, digest)


def announced(
    document: HistoryDocument, before: Tags | None, after: Tags | None, by: str, now_s: float
) -> HistoryDocument:
    """The document with a change that is about to be made from its version; None: no record."""
    made = _appended(document, now_s, by, before, after)
    entry = replace(made.entries[-1], is_pending=True, after=etag_of(after))
    return replace(made, entries=(*made.entries[:-1], entry))


def confirmed(document: HistoryDocument, number: int, tags: Tags | None, version: int | None) -> HistoryDocument:
    """The document once a change of ours is made; others that were to be made from the same version never will be."""
    entries = tuple(
        replace(entry, is_pending=False) if entry.number == number else entry
        for entry in document.entries
        if entry.number == number or not entry.is_pending
    )
    return _at(replace(document, entries=entries), tags, version, etag_of(tags))


def known_changes(document: HistoryDocument, tags: Tags | None, version: int | None) -> tuple[StoredEntry, ...]:
    """The changes that a document has and that were made, the last one too where only the record shows it."""
    numbers = {entry.number for entry in document.entries}
    return tuple(entry for entry in settled(document, tags, version, 0).made if entry.number in numbers)


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


def _at(document: HistoryDocument, tags: Tags | None, version: int | None, digest: str) -> HistoryDocument:
    known = dict(tags or {})
    is_small = len(encode_tags(known)) <= MAX_KNOWN_BYTES
    return replace(document, version=version, digest=digest, tags=known if is_small else None)


def _appended(document: HistoryDocument, now_s: float, by: str, old: Tags | None, new: Tags | None) -> HistoryDocument:
    changes = _cut(changed_values(old, new))
    entry = StoredEntry(number=document.last_number + 1, at=now_s, by=by, changes=changes)
    return replace(document, entries=(*document.entries, entry), last_number=entry.number)


def _cut(changes: Sequence[ChangedValue]) -> tuple[ChangedValue, ...]:
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
