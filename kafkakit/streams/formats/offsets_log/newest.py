"""From the commits of a piece to columns: keys become numbers, and of each key the newest row is kept, or every one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkakit.streams.formats.identity import TOPIC_ID_BYTES
from kafkakit.streams.formats.offsets_log.commits import Commits, Held, topic_ids
from kafkakit.streams.formats.offsets_log.counts import FeedCounts
from kafkakit.streams.formats.offsets_log.facts import TOMBSTONE, CommitColumns
from kafkakit.streams.formats.offsets_log.key_table import KeysFull, KeyTable
from kafkakit.streams.formats.offsets_log.keys import Undecodable, decode_key, offset_key
from kafkakit.streams.formats.offsets_log.views import Views

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]


@dataclass(slots=True)
class Newest:
    """The visible events of a piece, being made into columns.

    `commits` are rows over the bytes of the piece, `visible_at` belongs to them; `held` are those that come as single
    values. `gone` collects tombstones of keys that the table does not hold. With `every` all rows are kept.
    """

    views: Views
    commits: Commits
    visible_at: "Column"
    held: list[Held]
    keys: KeyTable
    tally: FeedCounts
    every: bool = False
    gone: dict[bytes, int] = field(default_factory=dict)

    def columns(self, known_to: int, *, with_latest: bool) -> tuple[CommitColumns, dict[bytes, int]]:
        """The newest row of each key, ordered by offset in the log, without what became visible below `known_to`.

        With them, when asked for, the newest offset in the log of every key concerned.
        """
        import numpy as np

        at, order = self._in_order()
        key = self._numbers(at, order)
        rows = np.flatnonzero(key[order] >= 0) if self.every else _last_of_each(key[order], self.keys.capacity)
        chosen = order[rows]
        latest: dict[bytes, int] = {}
        if with_latest:
            latest = self.gone
            latest.update(zip(map(self.keys.bytes_of, key[chosen].tolist()), at[chosen].tolist(), strict=True))
        if known_to:
            visible = np.concatenate((self.visible_at, np.array([h.visible_at for h in self.held], np.int64)))
            chosen = chosen[visible[chosen] >= known_to]
        return self._take(key, at, chosen), latest

    def _in_order(self) -> "tuple[Column, Column]":
        import numpy as np

        at = self.commits.at
        if not self.held:
            return at, np.arange(len(at))
        at = np.concatenate((at, np.array([h.at for h in self.held], np.int64)))
        return at, np.argsort(at, kind="stable")

    def _key_bytes(self, row: int) -> bytes:
        own = len(self.commits)
        if row >= own:
            return self.held[row - own].key
        return self.views.data[int(self.commits.key_start[row]) : int(self.commits.key_end[row])]

    def _numbers(self, at: "Column", order: "Column") -> "Column":
        """The number of each row's key, -1 where it has none; new keys get theirs in log order."""
        import numpy as np

        own = self.keys.lookup(self.views.data, self.commits.key_start, self.commits.key_end)
        found = np.concatenate((own, np.full(len(self.held), -1, np.int64))) if self.held else own
        if len(found) and found.min() >= 0:
            return found
        offset: Callable[[int], int] = lambda row: (  # noqa: E731
            int(self.commits.offset[row]) if row < len(self.commits) else self.held[row - len(self.commits)].offset
        )
        for row in order[found[order] < 0].tolist():
            key = offset_key(self._key_bytes(row))
            number = self.keys.number_of(key)
            if number is None and offset(row) == TOMBSTONE and not self.every:
                decoded = decode_key(key)
                if isinstance(decoded, Undecodable):
                    self.tally.cannot_decode(decoded.reason)
                else:
                    self.gone[key] = int(at[row])
                continue
            found[row] = self._intern(key) if number is None else number
        return found

    def _intern(self, key: bytes) -> int:
        number = self.keys.intern(key)
        if isinstance(number, Undecodable):
            self.tally.cannot_decode(number.reason)
        elif isinstance(number, KeysFull):
            self.tally.keys_left_out += 1
        else:
            return number
        return -1

    def _take(self, key: "Column", at: "Column", chosen: "Column") -> CommitColumns:
        import numpy as np

        c, held, data = self.commits, self.held, self.views.data
        own = len(c)
        starts, ends = c.metadata_start, c.metadata_end
        if not held:
            return CommitColumns(
                key=key[chosen],
                offset=c.offset[chosen],
                committed_ms=c.committed_ms[chosen],
                leader_epoch=c.leader_epoch[chosen].astype(np.int32),
                at=at[chosen],
                topic_id=topic_ids(self.views, c.topic_id_at[chosen]),
                metadata=_slices(data, starts[chosen], ends[chosen]),
            )
        ids = np.frombuffer(b"".join(h.topic_id for h in held), np.uint8).reshape(len(held), TOPIC_ID_BYTES)
        return CommitColumns(
            key=key[chosen],
            offset=np.concatenate((c.offset, np.array([h.offset for h in held], np.int64)))[chosen],
            committed_ms=np.concatenate((c.committed_ms, np.array([h.committed_ms for h in held], np.int64)))[chosen],
            leader_epoch=np.concatenate((c.leader_epoch, np.array([h.leader_epoch for h in held], np.int64)))[
                chosen
            ].astype(np.int32),
            at=at[chosen],
            topic_id=np.concatenate((topic_ids(self.views, c.topic_id_at), ids))[chosen],
            metadata=[
                data[int(starts[row]) : int(ends[row])] if row < own else held[row - own].metadata
                for row in chosen.tolist()
            ],
        )


def _slices(data: bytes, start: "Column", end: "Column") -> list[bytes]:
    import numpy as np

    found = [b""] * len(start)
    full = np.flatnonzero(end > start)
    for row, a, b in zip(full.tolist(), start[full].tolist(), end[full].tolist(), strict=True):
        found[row] = data[a:b]
    return found


def _last_of_each(key: "Column", capacity: int) -> "Column":
    """The rows that are the last of their key, in order; rows without a key (-1) are left out."""
    import numpy as np

    rows = np.arange(len(key))
    last = np.empty(capacity + 1, np.int64)
    last[key] = rows
    return np.flatnonzero((key >= 0) & (last[key] == rows))


def joined(parts: list[CommitColumns], capacity: int, *, every: bool = False) -> CommitColumns:
    """The columns of several pieces as one: of each key the last row, or every one, ordered by offset in the log."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    if not parts:
        return CommitColumns.of([])
    key = np.concatenate([p.key for p in parts])
    at = np.concatenate([p.at for p in parts])
    chosen = np.arange(len(key)) if every else _last_of_each(key, capacity)
    chosen = chosen[np.argsort(at[chosen], kind="stable")]
    metadata = [m for p in parts for m in p.metadata]
    return CommitColumns(
        key=key[chosen],
        offset=np.concatenate([p.offset for p in parts])[chosen],
        committed_ms=np.concatenate([p.committed_ms for p in parts])[chosen],
        leader_epoch=np.concatenate([p.leader_epoch for p in parts])[chosen],
        at=at[chosen],
        topic_id=np.concatenate([p.topic_id for p in parts])[chosen],
        metadata=[metadata[row] for row in chosen.tolist()],
    )
