"""A compacted Kafka partition as a store with compare-and-set: what its records mean, whatever was compacted away.

**Records.** A *change* is written under a key of its own: path, *parent* (the version that its writer expects, or
-1 for a path that never was) and the new value, empty for a deletion. The offset that it gets is its *version*. A
*confirmation* is written later under the same key: the same change with its version spelled out, for a change that
won. A *tombstone* of that key ends both.

**Meaning.** The first change of each parent wins: from -1 on, the next version of a path is the lowest offset among
the changes whose parent is the present version (and lower than the offset). This chain depends on the set of
changes alone and not on who reads them; a record that is appended later has a higher offset, so what has won stays
won. The partition's leader puts all changes in one order, a writer knows the outcome once it has read up to its own
change, and that is the compare-and-set: its change is the head of the chain exactly there, or never.

**Compaction** drops a record only when a later one has its key. Losers have keys of their own, so they never hide
a winner. A confirmation holds everything that its change held, so nothing is lost with the change. Confirmed
versions are in the chain for certain, so the chain may be followed from the highest confirmed one, and what is
below it is not needed. Hence the rule for tombstones: a key may be ended only by a process that has *read* the
confirmation of a higher version of its path. That confirmation is earlier in the log than the tombstone, so
a reader that misses the ended record (it is compacted away only with the tombstone written) finds the confirmation, or,
where that was ended in turn, a higher one. By induction every reader that has read up to some offset follows the
same chain to the same head, compacted or not. A crash between these steps leaves records that are not needed, no more.

**Reading takes time**, and compaction may work meanwhile: the topic's `min.compaction.lag.ms` is far longer than any
reading may take, so only records written before the reading began can hide others from it.
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.versioned import Versioned

RECORD_KIND = "control-change"
KEY_PREFIX = b"change/"
NEVER = -1

_Offset = Annotated[int, Meta(ge=0, le=2**62)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    path: Annotated[str, Meta(max_length=1000)]
    parent: Annotated[int, Meta(ge=NEVER, le=2**62)]
    version: _Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one path: `version` is its offset, `parent` the version that it replaces if it wins."""

    key: bytes
    path: str
    parent: int
    version: int
    value: bytes


def encode_change(path: str, parent: int, value: bytes) -> bytes:
    """The record of a change that is to be decided; an empty value deletes."""
    return encode_document(RECORD_KIND, _Header(path=path, parent=parent)) + value


def encode_confirmation(change: Change) -> bytes:
    """The record that a change has won, to be written under the change's key."""
    header = _Header(path=change.path, parent=change.parent, version=change.version)
    return encode_document(RECORD_KIND, header) + change.value


class LogView:
    """What the records of the partition's log mean, read in order from its beginning up to some offset.

    Memory is that of the documents and of the changes that are not ended yet.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._changes: dict[str, dict[int, Change]] = {}
        self._by_key: dict[bytes, Change] = {}
        self._confirmed: dict[str, int] = {}

    def add(self, offset: int, key: bytes, value: bytes) -> None:
        """Take in one record, empty for a tombstone; foreign keys are passed over.

        Raises `InputError` for one of ours that cannot be read, such as one of a newer kafkakit.
        """
        if not key.startswith(KEY_PREFIX):
            return
        earlier = self._by_key.pop(key, None)
        if earlier is not None:
            del self._changes[earlier.path][earlier.version]
        if not value:
            return
        head, _, body = value.partition(b"\n")
        header = decode_document(head, RECORD_KIND, _Header, f"{self._source}, offset {offset}")
        version = offset if header.version is None else header.version
        change = Change(key=key, path=header.path, parent=header.parent, version=version, value=body)
        self._by_key[key] = change
        self._changes.setdefault(change.path, {})[version] = change
        if header.version is not None:
            self._confirmed[change.path] = max(version, self._confirmed.get(change.path, NEVER))

    def head(self, path: str) -> int:
        """The present version of a path, of a deletion too; -1 for one that never was."""
        first: dict[int, int] = {}
        for change in self._changes.get(path, {}).values():
            if change.version > change.parent:
                first[change.parent] = min(change.version, first.get(change.parent, change.version))
        version = self._confirmed.get(path, NEVER)
        while version in first:
            version = first[version]
        return version

    def document(self, path: str) -> Versioned | None:
        """What the path holds."""
        version = self.head(path)
        change = self._changes.get(path, {}).get(version)
        return Versioned(value=change.value, version=version) if change is not None and change.value else None

    def change(self, path: str, version: int) -> Change:
        """A change that is in the view."""
        return self._changes[path][version]

    def paths(self) -> tuple[str, ...]:
        """All paths that hold something, sorted."""
        return tuple(sorted(path for path in self._changes if self.document(path) is not None))

    def ended(self, path: str) -> tuple[bytes, ...]:
        """Keys that are not needed any more: those of changes below the highest confirmed version, oldest first."""
        confirmed = self._confirmed.get(path, NEVER)
        changes = self._changes.get(path, {})
        return tuple(changes[version].key for version in sorted(changes) if version < confirmed)
