"""Offset commits of a piece as columns: the fields of OffsetCommitValue v0 to v4 for many records at once.

The readable twin is `kafkakit.streams.formats.offsets_log.values`: records without one of the usual shapes are left
to it, one by one.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.columns import Columns
from kafkakit.streams.formats.identity import NO_TOPIC_ID, TOPIC_ID_BYTES
from kafkakit.streams.formats.offsets_log.counts import FeedCounts
from kafkakit.streams.formats.offsets_log.facts import TOMBSTONE
from kafkakit.streams.formats.offsets_log.keys import Undecodable, offset_key
from kafkakit.streams.formats.offsets_log.records import Entry, decode_entry
from kafkakit.streams.formats.offsets_log.rows import Rows, pair_of
from kafkakit.streams.formats.offsets_log.values import NEWEST_VERSION, OffsetCommit
from kafkakit.streams.formats.offsets_log.views import Views

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
        claimed, after = views.uvarint(lengths_at[flexible])
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


@dataclass(frozen=True, slots=True)
class Held:
    """A commit or tombstone on its own: one that waits for its transaction's marker, or one of an unusual shape.

    `key` is that of key type 1; `visible_at` is the offset in the log from which readers see it: its own, or that
    of its transaction's marker.
    """

    key: bytes
    at: int
    visible_at: int
    offset: int
    committed_ms: int = -1
    leader_epoch: int = -1
    topic_id: bytes = NO_TOPIC_ID
    metadata: bytes = b""

    @classmethod
    def of(cls, key: bytes, at: int, commit: OffsetCommit) -> "Held":
        """A commit that the readable decoder read."""
        return cls(
            key, at, at, commit.offset, commit.committed_ms, commit.leader_epoch, commit.topic_id, commit.metadata
        )  # fmt: skip

    def seen_from(self, fate: int) -> "Held":
        """The commit visible from a marker's offset; from its own if `fate` is not an offset."""
        return replace(self, visible_at=fate) if fate >= 0 else self

    @property
    def size(self) -> int:
        """Bytes that it takes, roughly."""
        return 400 + len(self.key) + len(self.metadata)


def read_commits(views: Views, rows: Rows, tally: FeedCounts) -> tuple[Commits, list[tuple[int, Held]]]:
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
    unusual: list[tuple[int, Held]] = []
    for row in np.flatnonzero(live & ~usual).tolist():
        key, value = pair_of(views.data, rows, row)
        entry = decode_entry(key, value)
        if isinstance(entry, Undecodable):
            tally.cannot_decode(entry.reason)
        elif isinstance(entry, Entry) and entry.value is not None and key is not None:
            unusual.append((int(rows.batch[row]), Held.of(offset_key(key), int(rows.at[row]), entry.value)))
    if not all_live:
        dead = ~live
        commits.offset[dead] = TOMBSTONE
        commits.committed_ms[dead] = commits.leader_epoch[dead] = commits.topic_id_at[dead] = -1
        commits.metadata_start[dead] = commits.metadata_end[dead] = 0
    return commits.taken(usual | ~live), unusual


def single_row(views: Views, commits: Commits, row: int) -> Held:
    """One row of the columns as a value."""
    data = views.data
    id_at = int(commits.topic_id_at[row])
    at = int(commits.at[row])
    return Held(
        key=offset_key(data[int(commits.key_start[row]) : int(commits.key_end[row])]),
        at=at,
        visible_at=at,
        offset=int(commits.offset[row]),
        committed_ms=int(commits.committed_ms[row]),
        leader_epoch=int(commits.leader_epoch[row]),
        topic_id=NO_TOPIC_ID if id_at < 0 else data[id_at : id_at + TOPIC_ID_BYTES],
        metadata=data[int(commits.metadata_start[row]) : int(commits.metadata_end[row])],
    )
