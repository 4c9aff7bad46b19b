"""Tags of brokers and topics in a control store, laid out as kafka-kit's znodes: `<root>/{broker,topic}/<name>`.

Beside them are their history, `<root>/history/{broker,topic}/<name>`, and replies, kept for an hour by the key of
their request: `<root>/replies/<digest of caller and key>`. Whichever server gets a request again, also after a
restart, gives the first reply to it.
"""

import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, TryLaterError
from kafkakit.core.lease import VersionedValue
from kafkakit.core.model import decode_tags
from kafkakit.ports.stores import ControlStore
from kafkakit.registry.decide.tags import (
    HistoryDocument,
    ObjectKind,
    StoredEntry,
    Tags,
    announce_change,
    confirm_change,
    encode_history,
    encode_tags,
    fault,
    invalid_request,
    known_changes,
    merge_tags,
    read_history,
    remove_tags,
    settle_document,
    with_changes,
    within_limits,
)
from kafkakit.registry.decide.v2_calls import ChangeTagsReply, ChangeTagsRequest
from kafkakit.registry.decide.v2_views import is_final

MAX_TRIES = 10
Lock = Callable[[], AbstractContextManager[None]]


class TagStore:
    """Every write names the version it was made from, so that no tag of another process is lost.

    `lock` is held around each write, for programs that write without naming a version. Raises `TryLaterError` where
    the store does not answer, or where others changed the same object ten times meanwhile. Each change is entered in
    the history, as one of `by`.
    """

    def __init__(
        self,
        store: ControlStore,
        root: str,
        lock: Lock = nullcontext,
        *,
        by: str = "kafkakit",
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._root, self._lock, self._by = store, root.strip("/"), lock, by
        self.history = TagHistory(store, root, now_s)
        self.replies = KeptReplies(store, root, now_s)
        # Threads of one process would only make one another try again.
        self._one_at_a_time = threading.Lock()

    def acting_for(self, by: str) -> "TagStore":
        """The store for the changes of one caller."""
        acting = copy(self)
        acting._by = by
        return acting

    def all(self, kind: ObjectKind, unreadable: list[str]) -> dict[str, Tags]:
        """The tags of every object of a kind, by name; records that hold no tags are named in `unreadable`."""
        found: dict[str, Tags] = {}
        for name, record in self._store.values(f"{self._root}/{kind}").items():
            try:
                found[name] = decode_tags(record.value, self._path(kind, name))
            except InputError as error:
                unreadable.append(error.source)
        return found

    def get(self, kind: ObjectKind, name: str) -> Tags | None:
        """The tags of an object; None where it has no record, which differs from a record without tags."""
        found = self._store.get(self._path(kind, name))
        return None if found is None else decode_tags(found.value, self._path(kind, name))

    def put(self, kind: ObjectKind, name: str, given: Tags) -> Tags:
        """Set tags beside those that are there; gives all."""
        return self._change(kind, name, lambda present: merge_tags(kind, name, present or {}, given))

    def remove(self, kind: ObjectKind, name: str, keys: frozenset[str]) -> Tags:
        """Delete tags by key; gives what is left. `RpcError` where the object never had any."""

        def change(present: Tags | None) -> Tags:
            if present is None:
                raise fault("requested Kafka object does not exist")
            return remove_tags(present, keys)

        return self._change(kind, name, change)

    def change(self, kind: ObjectKind, name: str, change: Callable[[Tags], Mapping[str, str]]) -> Tags:
        """Replace the tags, of which no record is none, by what `change` makes of them; lets through what it raises."""
        return self._change(kind, name, lambda present: change(present or {}))

    def drop(self, kind: ObjectKind, name: str, is_due: Callable[[Tags], bool]) -> bool:
        """Delete the record itself where it is due; False where it is gone, or not due any more."""
        with self._one_at_a_time, self._lock():
            for _ in range(MAX_TRIES):
                entering = self.history.read(kind, name)
                found = self._store.get(self._path(kind, name))
                present = None if found is None else decode_tags(found.value, self._path(kind, name))
                if found is None or present is None or not is_due(present):
                    return False
                try:
                    entering.announce(present, found.version, None, self._by)
                    self._store.delete(self._path(kind, name), found.version)
                except ConflictError:
                    continue
                entering.confirm(None, None)
                return True
        raise _busy_error(kind, name)

    def _change(self, kind: ObjectKind, name: str, change: Callable[[Tags | None], Mapping[str, str]]) -> Tags:
        path = self._path(kind, name)
        with self._one_at_a_time, self._lock():
            for _ in range(MAX_TRIES):
                # The history is read first: what is entered there meanwhile makes our entry a conflict.
                entering = self.history.read(kind, name)
                found: VersionedValue | None = self._store.get(path)
                present = None if found is None else decode_tags(found.value, path)
                wanted = dict(sorted(change(present).items()))
                if wanted == present or (present is None and not wanted):
                    return wanted
                try:
                    version = None if found is None else found.version
                    entering.announce(present, version, wanted, self._by)
                    version = self._store.cas(path, encode_tags(wanted), version)
                except ConflictError:
                    continue
                entering.confirm(wanted, version)
                return wanted
        raise _busy_error(kind, name)

    def _path(self, kind: ObjectKind, name: str) -> str:
        return f"{self._root}/{kind}/{name}"


def _busy_error(kind: ObjectKind, name: str) -> TryLaterError:
    return TryLaterError(f"the tags of {kind} {name} were changed by other processes {MAX_TRIES} times meanwhile")


MAX_HISTORY_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """How many histories lost what is too old, and the paths of those that cannot be read, which stay as they are."""

    changed: int
    unreadable: tuple[str, ...]


class TagHistory:
    """Reads and writes one document for each object that was ever changed; `now_s` is in Unix seconds.

    Raises `TryLaterError` where the store does not answer.
    """

    def __init__(self, store: ControlStore, root: str, now_s: Callable[[], float]) -> None:
        self._store, self._root, self.now_s = store, root.strip("/"), now_s

    def read(self, kind: ObjectKind, name: str) -> "PendingTagChange":
        """What a change begins with: it must come before the tags are read."""
        path = self._path(kind, name)
        found = self._store.get(path)
        document = read_history(None if found is None else found.value, path)
        return PendingTagChange(self, path, document, None if found is None else found.version)

    def of(self, kind: ObjectKind, name: str) -> HistoryDocument:
        """The document of an object as it is with its present tags; nothing is written."""
        document, tags, version = self._with_tags(kind, name)
        return settle_document(document.document, tags, version, self.now_s())

    def all(self) -> Iterator[tuple[ObjectKind, str, HistoryDocument]]:
        """Every document, by kind and name."""
        for kind in ObjectKind:
            folder = f"{self._root}/history/{kind}"
            for name, record in self._store.values(folder).items():
                document = read_history(record.value, f"{folder}/{name}")
                if document is not None:
                    yield kind, name, document

    def notice(self, kind: ObjectKind, name: str, old: Tags) -> bool:
        """Enter a change by another program, where there was one; `old` are the tags known before. Tells whether."""
        for _ in range(MAX_HISTORY_TRIES):
            entering, tags, version = self._with_tags(kind, name)
            document = entering.document or settle_document(None, old, -1, 0)
            now = settle_document(document, tags, version, self.now_s())
            if now.entries == document.entries:
                return False
            with suppress(ConflictError):
                entering.write(now)
                return True
        return False

    def made(self) -> Iterator[tuple[ObjectKind, str, tuple[StoredEntry, ...]]]:
        """The changes of every object, by kind and name, without those that no program entered yet."""
        for kind, name, document in self.all():
            _, tags, version = self._with_tags(kind, name)
            yield kind, name, known_changes(document, tags, version)

    def adopt(self, kind: ObjectKind, name: str, copied: Sequence[StoredEntry], *, dry_run: bool) -> bool:
        """Enter changes from another store, within the limits; tells whether any were missing, or would be entered."""
        for _ in range(MAX_HISTORY_TRIES):
            entering, tags, version = self._with_tags(kind, name)
            document = settle_document(entering.document, tags, version, self.now_s())
            now = with_changes(document, copied)
            if within_limits(now, self.now_s()).entries == within_limits(document, self.now_s()).entries:
                return False
            if dry_run:
                return True
            with suppress(ConflictError):
                entering.write(now)
                return True
        raise TryLaterError(f"the tags of {kind} {name} are being changed by another process")

    def compact(self) -> "Compaction":
        """Drop what is too old in every document, and documents of which nothing is left."""
        count, unreadable = 0, list[str]()
        for kind in ObjectKind:
            folder = f"{self._root}/history/{kind}"
            for name, record in self._store.values(folder).items():
                try:
                    count += self._compact_one(f"{folder}/{name}", record.value)
                except InputError:
                    unreadable.append(f"{folder}/{name}")
        return Compaction(changed=count, unreadable=tuple(unreadable))

    def _compact_one(self, path: str, value: bytes) -> bool:
        document = read_history(value, path)
        if document is None:
            return False
        data = encode_history(document, self.now_s())
        if read_history(data, path) == document:
            return False
        found = self._store.get(path)
        with suppress(ConflictError):
            if found is not None and read_history(found.value, path) == document:
                self._replace(path, data, found.version)
                return True
        return False

    def put(self, path: str, document: HistoryDocument, expected: int | None) -> int:
        """Write a document within its limits; `ConflictError` where another process wrote it."""
        return self._store.cas(path, encode_history(document, self.now_s()), expected)

    def get(self, path: str) -> tuple[HistoryDocument | None, int | None]:
        """A document and its version."""
        found = self._store.get(path)
        return (None, None) if found is None else (read_history(found.value, path), found.version)

    def _replace(self, path: str, data: bytes, version: int) -> None:
        left = read_history(data, path)
        if left is not None and left.entries:
            self._store.cas(path, data, version)
        else:
            self._store.delete(path, version)

    def _with_tags(self, kind: ObjectKind, name: str) -> "tuple[PendingTagChange, Tags | None, int | None]":
        entering = self.read(kind, name)
        path = f"{self._root}/{kind}/{name}"
        found = self._store.get(path)
        return (entering, None, None) if found is None else (entering, decode_tags(found.value, path), found.version)

    def _path(self, kind: ObjectKind, name: str) -> str:
        return f"{self._root}/history/{kind}/{name}"


class PendingTagChange:
    """One change that is being entered."""

    def __init__(self, history: TagHistory, path: str, document: HistoryDocument | None, version: int | None) -> None:
        self._history, self._path, self.document, self._version = history, path, document, version
        self._number = 0

    def announce(self, present: Tags | None, version: int | None, after: Tags | None, by: str) -> None:
        """Enter it before it is made; `ConflictError` where the history changed since it was read."""
        now_s = self._history.now_s()
        document = settle_document(self.document, present, version, now_s)
        document = announce_change(document, present, after, by, now_s)
        self._number = document.last_number
        self.write(document)

    def confirm(self, tags: Tags | None, version: int | None) -> None:
        """Enter that it was made; where that fails, it shows in the tags later."""
        with suppress(KafkakitError):
            for _ in range(MAX_HISTORY_TRIES):
                with suppress(ConflictError):
                    if self.document is not None:
                        self.write(confirm_change(self.document, self._number, tags, version))
                    return
                self.document, self._version = self._history.get(self._path)
                entries = self.document.entries if self.document is not None else ()
                if not any(entry.is_pending and entry.number == self._number for entry in entries):
                    return

    def write(self, document: HistoryDocument) -> None:
        """Write a document over the one that was read; `ConflictError` where that is gone."""
        self._version = self._history.put(self._path, document, self._version)
        self.document = document


KEPT_S = 3600.0
GRACE_S = 10.0
"""So long after its deadline a request that is not finished is taken for one whose server has ended."""
MAX_KEPT, MAX_BYTES, MAX_KEY, MAX_REPLY_TRIES = 1000, 60_000, 255, 10
MOST_REPLY_BYTES = 64 << 20
PRUNE_AFTER = 100
"""Requests between two looks for what is too old or too much: one reading of all that is kept."""


class _KeptRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request until a time in Unix seconds; `reply` is compressed JSON, None while it is carried out."""

    request: str
    until_s: float
    reply: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to carry a request out, and the place for its reply."""

    path: str
    version: int
    request: str


class KeptReplies:
    """For several threads. Raises `TryLaterError` where the store does not answer."""

    def __init__(self, store: ControlStore, root: str, now_s: Callable[[], float]) -> None:
        self._store, self._folder, self._now_s = store, f"{root.strip('/')}/replies", now_s
        self._until_prune = 0

    def claim(
        self, caller: str, key: str, request: ChangeTagsRequest, limit_s: float
    ) -> ChangeTagsReply | Claim | None:
        """The reply to the first request with this key, the right to be it, or None while it is carried out.

        It has `limit_s` for that. `RpcError` where the key came with another request.
        """
        if len(key) > MAX_KEY or not key.isprintable():
            raise invalid_request(f"Idempotency-Key must have at most {MAX_KEY} characters, all printable")
        self._prune()
        digest = blake2b(msgspec.json.encode(request), digest_size=16).hexdigest()
        place = blake2b(f"{caller}\0{key}".encode("utf-8", "replace"), digest_size=16).hexdigest()
        path = f"{self._folder}/{place}"
        for _ in range(MAX_REPLY_TRIES):
            found = self._store.get(path)
            kept = None if found is None else _decode_request(found.value)
            if kept is not None and kept.until_s > self._now_s():
                if kept.request != digest:
                    raise invalid_request("the Idempotency-Key came with another request before")
                return None if kept.reply is None else _reply(kept.reply, path)
            mine = _KeptRequest(request=digest, until_s=self._now_s() + limit_s + GRACE_S)
            with suppress(ConflictError):
                version = self._store.cas(path, msgspec.json.encode(mine), None if found is None else found.version)
                return Claim(path=path, version=version, request=digest)
        raise TryLaterError("other processes took up the same Idempotency-Key again and again")

    def settle(self, claim: Claim, reply: ChangeTagsReply | None) -> None:
        """Keep the reply; one that could be another the next time, is too large, or None, gives the claim back."""
        data = b"" if reply is None or not is_final(reply) else zlib.compress(msgspec.json.encode(reply))
        kept = _KeptRequest(request=claim.request, until_s=self._now_s() + KEPT_S, reply=data)
        encoded = msgspec.json.encode(kept)
        with suppress(KafkakitError):  # what was changed stays changed
            if data and len(encoded) <= MAX_BYTES:
                self._store.cas(claim.path, encoded, claim.version)
            else:
                self._store.delete(claim.path, claim.version)

    def _prune(self) -> None:
        self._until_prune -= 1
        if self._until_prune >= 0:
            return
        self._until_prune = PRUNE_AFTER
        found = {
            name: (record, _decode_request(record.value)) for name, record in self._store.values(self._folder).items()
        }
        by_age = sorted(found, key=lambda name: found[name][1].until_s, reverse=True)
        for number, name in enumerate(by_age):
            record, kept = found[name]
            if number >= MAX_KEPT or kept.until_s <= self._now_s():
                with suppress(ConflictError):
                    self._store.delete(f"{self._folder}/{name}", record.version)


def _decode_request(data: bytes) -> _KeptRequest:
    try:
        return decoded_json(data, _KeptRequest)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _KeptRequest(request="", until_s=0)  # no record of ours: the next one replaces it


def _reply(data: bytes, path: str) -> ChangeTagsReply:
    try:
        return decoded_json(zlib.decompressobj().decompress(data, MOST_REPLY_BYTES), ChangeTagsReply)
    except (zlib.error, msgspec.DecodeError, ValueError):
        raise InputError(path, "holds no reply") from None
