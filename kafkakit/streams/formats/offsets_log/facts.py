"""What a feed of `__consumer_offsets` gives: columns of commits, and facts about all that was no plain commit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.streams.formats.identity import TOPIC_ID_BYTES
from kafkakit.streams.formats.offsets_log.counts import FeedCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
            CommitRow(int(k), int(o), int(ms), int(e), int(at), t.tobytes(), m)
            for k, o, ms, e, at, t, m in zip(
                self.key, self.offset, self.committed_ms, self.leader_epoch, self.at, self.topic_id, self.metadata,
                strict=True,
            )
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommitRow:
    """One row of `CommitColumns`."""

    key: int
    offset: int
    committed_ms: int
    leader_epoch: int
    at: int
    topic_id: bytes
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
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
    open_transactions: tuple[OpenTransaction, ...] = ()
    open_transaction_count: int = 0
    stopped: str = ""
