"""Offset commits as columns: the fields of OffsetCommitValue v0 to v4 of many records at once, and numbers for keys.

The readable twin is `kafkakit.streams.model.offsets_log.entries`: records without one of the usual shapes are left to
it, one by one. Beside the columns stand facts about all that was no plain commit, and what feeds count: of one chunk,
or of all since the start.

A key is a number, so that everything about it can live in arrays. One table serves all partitions of one cluster's
`__consumer_offsets`, in one thread. A key of 40 bytes costs 180: its bytes object, a dict entry, a number, and its
place in a list and three arrays; 100,000 such keys take 18 MB. A table without keys is false, as any container is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from kafkakit.core.columns import Columns
from kafkakit.streams.model.binary import uvarints_at
from kafkakit.streams.model.commit import NO_TOPIC_ID, TOPIC_ID_BYTES
from kafkakit.streams.model.offsets_log.entries import (
    NEWEST_VERSION,
    CommittedValue,
    LogKey,
    OffsetsEntry,
    UndecodableEntry,
    decode_entry,
    decode_key,
    offset_key,
)
from kafkakit.streams.model.offsets_log.rows import Rows, Views, pair_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]


ONE_TOPIC_ID = (1, 0, TOPIC_ID_BYTES)
"""How the tagged fields of v4 begin when a topic id is all they hold: count, tag, size."""


@dataclass(frozen=True, slots=True)
class Commits(Columns):
    """Commits and tombstones, as columns over the bytes of a piece, in log order.

    `offset` is -1 for tombstones. `metadata_start`, `metadata_end` and `topic_id_at` (-1: none) are positions in the
    piece's bytes. `batch` is the batch within the piece.
    """

    batch: "Column"
    at: "Column"
    key_start: "Column"
    key_end: "Column"
    offset: "Column"
    committed_ms: "Column"
    leader_epoch: "Column"
    metadata_start: "Column"
    metadata_end: "Column"
    topic_id_at: "Column"

    def __len__(self) -> int:
        return len(self.at)


@dataclass(slots=True)
class ValueColumns:
    """The fields of many values; `usual` is False where a row has to be read by the readable decoder."""

    offset: "Column"
    committed_ms: "Column"
    leader_epoch: "Column"
    metadata_start: "Column"
    metadata_end: "Column"
    topic_id_at: "Column"
    usual: "NDArray[np.bool_]"


def read_values(views: Views, start: "Column", end: "Column") -> ValueColumns:
    """Values between `start` and `end`, none null. Rows that are not `usual` hold nothing of meaning."""
    import numpy as np

    version = views.number(start, 2)
    offset = views.number(start + 2, 8)
    leader_epoch = np.full(len(start), -1, np.int64)
    lengths_at = start + 10
    with_epoch = np.flatnonzero(version >= 3)
    leader_epoch[with_epoch] = views.number(start[with_epoch] + 10, 4)
    lengths_at[with_epoch] += 4
    size = views.number(lengths_at, 2)
    metadata_start = lengths_at + 2
    is_flexible = version >= 4
    flexible = np.flatnonzero(is_flexible)
    if flexible.size:
        claimed, after = uvarints_at(views.u8, lengths_at[flexible])
        size[flexible] = claimed - 1
        metadata_start[flexible] = after
    usual = (version >= 0) & (version <= NEWEST_VERSION) & (offset >= 0) & (size >= -1)
    metadata_end = metadata_start + np.maximum(size, 0)
    usual &= metadata_end <= end
    metadata_end = np.where(usual, metadata_end, start)
    committed_ms = views.number(metadata_end, 8)
    after_ms = metadata_end + 8
    usual &= after_ms + 8 * (version == 1) <= end
    topic_id_at = np.full(len(start), -1, np.int64)
    if flexible.size:
        tags_at = after_ms[flexible]
        tags = views.byte(tags_at)
        with_id = _is_one_topic_id(views, tags_at, tags) & (tags_at + 3 + TOPIC_ID_BYTES <= end[flexible])
        topic_id_at[flexible] = np.where(with_id, tags_at + 3, -1)
        usual[flexible] &= ((tags == 0) & (tags_at < end[flexible])) | with_id
    return ValueColumns(
        offset, committed_ms, leader_epoch, np.where(usual, metadata_start, start), metadata_end, topic_id_at, usual
    )  # fmt: skip


def _is_one_topic_id(views: Views, at: "Column", tags: "Column") -> "NDArray[np.bool_]":
    count, tag, size = ONE_TOPIC_ID
    found: NDArray[np.bool_] = tags == count
    if found.any():
        found &= (views.byte(at + 1) == tag) & (views.byte(at + 2) == size)
    return found


def topic_ids(views: Views, at: "Column") -> "NDArray[np.uint8]":
    """The 16 bytes at each position, zeros where it is -1: an array of as many rows."""
    import numpy as np

    ids = np.zeros((len(at), TOPIC_ID_BYTES), np.uint8)
    found = np.flatnonzero(at >= 0)
    if found.size:
        ids[found] = views.u8[at[found, None] + np.arange(TOPIC_ID_BYTES)]
    return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommit:
    """A commit or tombstone on its own: one that waits for its transaction's marker, or one of an unusual shape.

    `key` is that of key type 1; `visible_at` is the offset in the log from which readers see it: its own, or that
    of its transaction's marker.
    """

    key: bytes
    at: int
    visible_at: int
    value: CommittedValue

    def seen_from(self, fate: int) -> "PendingCommit":
        """The commit visible from a marker's offset; from its own if `fate` is not an offset."""
        return replace(self, visible_at=fate) if fate >= 0 else self

    @property
    def size(self) -> int:
        """Bytes that it takes, roughly."""
        return 400 + len(self.key) + len(self.value.metadata)


@dataclass(slots=True)
class FeedCounts:
    """What was found in a chunk, or in several.

    `by_type` counts records by the number of their key type, those that are opaque included. `undecodable` counts keys
    and values that cannot be read, `unreadable_batches` those whose records, all or the rest of them, cannot be;
    `first_reason` is about the first of either. `keys_left_out` counts commits dropped because the `KeyTable` is full
    or their key too long, `dropped_commits` transactional ones that were aborted, fenced off or beyond what may be
    held back.
    """

    batches: int = 0
    records: int = 0
    tombstones: int = 0
    by_type: dict[int, int] = field(default_factory=dict)
    opaque: int = 0
    undecodable: int = 0
    unreadable_batches: int = 0
    first_reason: str = ""
    keys_left_out: int = 0
    dropped_commits: int = 0

    def count_types(self, numbers: "NDArray[np.int64]") -> None:
        """Count records by their key types; nearly all are commits."""
        others = numbers[numbers != 1].tolist()
        if len(numbers) > len(others):
            self.by_type[1] = self.by_type.get(1, 0) + len(numbers) - len(others)
        for number in others:
            self.by_type[number] = self.by_type.get(number, 0) + 1

    def add(self, other: "FeedCounts") -> None:
        """Count another chunk's records in."""
        self.batches += other.batches
        self.records += other.records
        self.tombstones += other.tombstones
        for number, count in other.by_type.items():
            self.by_type[number] = self.by_type.get(number, 0) + count
        self.opaque += other.opaque
        self.undecodable += other.undecodable
        self.unreadable_batches += other.unreadable_batches
        self.first_reason = self.first_reason or other.first_reason
        self.keys_left_out += other.keys_left_out
        self.dropped_commits += other.dropped_commits

    def cannot_decode(self, reason: str) -> None:
        """Count a record that cannot be read."""
        self.undecodable += 1
        self.first_reason = self.first_reason or reason

    def cannot_read(self, reason: str) -> None:
        """Count a batch that cannot be read to its end."""
        self.unreadable_batches += 1
        self.first_reason = self.first_reason or reason


def read_commits(views: Views, rows: Rows, tally: FeedCounts) -> tuple[Commits, list[tuple[int, PendingCommit]]]:
    """Commits and tombstones as columns, and those of unusual shape singly with their batch."""
    import numpy as np

    live = rows.value_start >= 0
    all_live = bool(live.all())
    values = read_values(views, np.maximum(rows.value_start, 0), rows.value_end)
    usual = values.usual & live
    commits = Commits(
        rows.batch, rows.at, rows.key_start, rows.key_end, values.offset, values.committed_ms, values.leader_epoch,
        values.metadata_start, values.metadata_end, values.topic_id_at,
    )  # fmt: skip
    if usual.all():
        return commits, []
    unusual: list[tuple[int, PendingCommit]] = []
    for row in np.flatnonzero(live & ~usual).tolist():
        key, value = pair_of(views.data, rows, row)
        entry = decode_entry(key, value)
        if isinstance(entry, UndecodableEntry):
            tally.cannot_decode(entry.reason)
        elif isinstance(entry, OffsetsEntry) and entry.value is not None and key is not None:
            at = int(rows.at[row])
            pending = PendingCommit(key=offset_key(key), at=at, visible_at=at, value=entry.value)
            unusual.append((int(rows.batch[row]), pending))
    if not all_live:
        dead = ~live
        commits.offset[dead] = TOMBSTONE
        commits.committed_ms[dead] = commits.leader_epoch[dead] = commits.topic_id_at[dead] = -1
        commits.metadata_start[dead] = commits.metadata_end[dead] = 0
    return commits.taken(usual | ~live), unusual


def single_row(views: Views, commits: Commits, row: int) -> PendingCommit:
    """One row of the columns as a value."""
    data = views.data
    id_at = int(commits.topic_id_at[row])
    at = int(commits.at[row])
    return PendingCommit(
        key=offset_key(data[int(commits.key_start[row]) : int(commits.key_end[row])]),
        at=at,
        visible_at=at,
        value=CommittedValue(
            offset=int(commits.offset[row]),
            committed_ms=int(commits.committed_ms[row]),
            leader_epoch=int(commits.leader_epoch[row]),
            topic_id=NO_TOPIC_ID if id_at < 0 else data[id_at : id_at + TOPIC_ID_BYTES],
            metadata=data[int(commits.metadata_start[row]) : int(commits.metadata_end[row])],
        ),
    )


TOMBSTONE = -1
"""The offset of a key whose commit was deleted or expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitColumns:
    """The newest event of each key in a chunk, as columns of one length, ordered by `at`; no key comes twice, but of a
    feed of every event.

    `key` is a number of the feed's `KeyTable`; `offset` is the committed one or `TOMBSTONE`; `committed_ms` is the
    coordinator's clock at the commit (-1 for tombstones); `leader_epoch` is -1 where there is none; `at` is the
    record's offset in `__consumer_offsets`; `topic_id` has 16 bytes a row, zeros where the record has none;
    `metadata` is as stored, a NUL included. A tombstone may come for a key whose commit was in the same chunk.
    """

    key: "NDArray[np.int64]"
    offset: "NDArray[np.int64]"
    committed_ms: "NDArray[np.int64]"
    leader_epoch: "NDArray[np.int32]"
    at: "NDArray[np.int64]"
    topic_id: "NDArray[np.uint8]"
    metadata: list[bytes]

    def __len__(self) -> int:
        return len(self.metadata)

    @classmethod
    def of(cls, rows: "list[CommitRow]") -> "CommitColumns":
        """Columns of single rows; of none, empty ones."""
        import numpy as np

        ids = np.frombuffer(b"".join(r.topic_id for r in rows), np.uint8)
        return cls(
            key=np.array([r.key for r in rows], np.int64),
            offset=np.array([r.offset for r in rows], np.int64),
            committed_ms=np.array([r.committed_ms for r in rows], np.int64),
            leader_epoch=np.array([r.leader_epoch for r in rows], np.int32),
            at=np.array([r.at for r in rows], np.int64),
            topic_id=ids.reshape(len(rows), TOPIC_ID_BYTES),
            metadata=[r.metadata for r in rows],
        )

    def rows(self) -> "list[CommitRow]":
        """The columns as single rows, for tests and small chunks."""
        return [
            CommitRow(
                key=int(k), offset=int(o), committed_ms=int(ms), leader_epoch=int(e), at=int(at),
                topic_id=t.tobytes(), metadata=m,
            )
            for k, o, ms, e, at, t, m in zip(
                self.key, self.offset, self.committed_ms, self.leader_epoch, self.at, self.topic_id, self.metadata,
                strict=True,
            )
        ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow(CommittedValue):
    """One row of `CommitColumns`."""

    key: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTransaction:
    """A transaction without its marker yet: the commits in it are held back until it ends.

    `since_offset` is where in the partition it began, `since_ms` the highest time of its first batch, `groups` some
    of the groups concerned, sorted.
    """

    producer_id: int
    producer_epoch: int
    since_offset: int
    since_ms: int
    commits: int
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFacts:
    """What one call of a feed found; `counts` are of this chunk alone, open transactions as they stand after it.

    `next_offset` is where to fetch on. `stopped` says why the chunk ended with bytes that are no batch: after it,
    fetching on from `next_offset` brings the same bytes again.
    """

    partition: int
    next_offset: int
    counts: FeedCounts
    held_back: int = 0
    open_transactions: tuple[PendingTransaction, ...] = ()
    open_transaction_count: int = 0
    stopped: str = ""


MAX_KEYS = 1_000_000
MAX_KEY_BYTES = 1_024
"""Longer keys are left out: topics have at most 249 characters, and no sane group id has hundreds."""


class CommitKey(NamedTuple):
    """Whose offset it is: a group's, for one partition of a topic."""

    group: str
    topic: str
    partition: int


class KeysFull(NamedTuple):
    """A key was left out because the table holds as many as it may, or because the key is too long."""

    reason: str


class KeyTable:
    """Key bytes (those of key type 1) to numbers from 0 and back; released numbers are given out again.

    `group_index` and `topic_index` hold, for every number below `capacity`, the place of its name in `groups` and
    `topics`, and `partition` its partition; of released numbers they hold -1. The arrays are replaced as they grow.
    """

    def __init__(self, *, max_keys: int = MAX_KEYS, max_key_bytes: int = MAX_KEY_BYTES) -> None:
        import numpy as np

        self.max_keys = max_keys
        self.max_key_bytes = max_key_bytes
        self.groups = Names()
        self.topics = Names()
        self._numbers: dict[bytes, int] = {}
        self._keys: list[bytes | None] = []
        self._free: list[int] = []
        self.group_index: NDArray[np.int32] = np.full(64, -1, np.int32)
        self.topic_index: NDArray[np.int32] = np.full(64, -1, np.int32)
        self.partition: NDArray[np.int32] = np.full(64, -1, np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def capacity(self) -> int:
        """One past the highest number given out so far: the length that arrays by key need."""
        return len(self._keys)

    def number_of(self, key: bytes) -> int | None:
        """The number of a key, None for one that the table does not hold."""
        return self._numbers.get(key)

    def bytes_of(self, number: int) -> bytes:
        """The key of a number in use."""
        key = self._keys[number]
        if key is None:
            raise KeyError(number)
        return key

    def key_of(self, number: int) -> CommitKey:
        """The group, topic and partition of a number in use."""
        self.bytes_of(number)
        group = self.groups[int(self.group_index[number])]
        return CommitKey(group, self.topics[int(self.topic_index[number])], int(self.partition[number]))

    def intern(self, key: bytes) -> int | UndecodableEntry | KeysFull:
        """The number of a key, a new one where the table does not hold it; the value says why it cannot."""
        number = self._numbers.get(key)
        if number is not None:
            return number
        if len(key) > self.max_key_bytes:
            return KeysFull(f"a key of {len(key)} bytes")
        decoded = decode_key(key)
        if isinstance(decoded, UndecodableEntry):
            return decoded
        if not isinstance(decoded, LogKey):
            return UndecodableEntry("a key of something else than an offset")
        if len(self._numbers) >= self.max_keys:
            return KeysFull(f"{self.max_keys} keys are held")
        return self._add(key, decoded)

    def _add(self, key: bytes, decoded: LogKey) -> int:
        if self._free:
            number = self._free.pop()
            self._keys[number] = key
        else:
            number = len(self._keys)
            self._keys.append(key)
            if number >= len(self.partition):
                self._grow()
        self._numbers[key] = number
        self.group_index[number] = self.groups.hold(decoded.group)
        self.topic_index[number] = self.topics.hold(decoded.topic)
        self.partition[number] = decoded.partition
        return number

    def _grow(self) -> None:
        import numpy as np

        more = np.full(len(self.partition), -1, np.int32)
        self.group_index = np.concatenate((self.group_index, more))
        self.topic_index = np.concatenate((self.topic_index, more))
        self.partition = np.concatenate((self.partition, more))

    def release(self, numbers: Iterable[int]) -> None:
        """Forget keys, say after their tombstones; their numbers will name other keys. Unknown ones are let be."""
        for number in numbers:
            key = self._keys[number] if 0 <= number < len(self._keys) else None
            if key is None:
                continue
            del self._numbers[key]
            self._keys[number] = None
            self.groups.let_go(int(self.group_index[number]))
            self.topics.let_go(int(self.topic_index[number]))
            self.group_index[number] = self.topic_index[number] = self.partition[number] = -1
            self._free.append(number)

    def lookup(self, data: bytes, starts: "NDArray[np.int64]", ends: "NDArray[np.int64]") -> "NDArray[np.int64]":
        """The numbers of many keys that lie in `data`, -1 for those not held. Cost: about 150 ns each."""
        import numpy as np

        get = self._numbers.get
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.fromiter([get(data[a:b], -1) for a, b in spans], np.int64, len(starts))


class Names:
    """Strings held once, with numbers that are reused when no row holds a string any longer."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._holders: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    @property
    def capacity(self) -> int:
        """One past the highest number given out so far."""
        return len(self._names)

    def hold(self, name: str) -> int:
        """The number of a string, held once more."""
        number = self._numbers.get(name)
        if number is not None:
            self._holders[number] += 1
            return number
        if self._free:
            number = self._free.pop()
            self._names[number] = name
            self._holders[number] = 1
        else:
            number = len(self._names)
            self._names.append(name)
            self._holders.append(1)
        self._numbers[name] = number
        return number

    def let_go(self, number: int) -> None:
        """Undo one `hold`; the last one frees the string."""
        self._holders[number] -= 1
        if not self._holders[number]:
            del self._numbers[self._names[number]]
            self._names[number] = ""
            self._free.append(number)
