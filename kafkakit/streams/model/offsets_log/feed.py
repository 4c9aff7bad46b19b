"""The feed of one partition of `__consumer_offsets`: raw bytes in, the newest commit of each key out, or every one.

Transactional commits are held back between their records and their markers, then let through or dropped. A monitor that
reads committed data only misses what is behind the first open transaction of a partition; this one reads everything and
holds back just the commits of that transaction.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kafkakit.streams.model.commit import TOPIC_ID_BYTES
from kafkakit.streams.model.offsets_log.commits import (
    TOMBSTONE,
    CommitColumns,
    Commits,
    FeedCounts,
    FeedFacts,
    KeysFull,
    KeyTable,
    PendingCommit,
    PendingTransaction,
    read_commits,
    single_row,
    topic_ids,
)
from kafkakit.streams.model.offsets_log.entries import (
    GROUP_TYPES,
    OFFSET_TYPES,
    LogKey,
    UndecodableEntry,
    decode_key,
    offset_key,
)
from kafkakit.streams.model.offsets_log.rows import (
    BatchHeaders,
    Piece,
    Rows,
    Views,
    pieces_of,
    read_batch_headers,
    read_rows,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]


TRANSACTIONAL, CONTROL = 16, 32


class OffsetsFeed:
    """Decodes one partition of `__consumer_offsets`, fetched raw and in order, uncommitted data included.

    With `every` all visible commits come out, not the newest of each key alone: for history. With `sample_ms`
    come, besides the newest of each key, the first and the last one of each such stretch of time, of its last
    `MOST_SAMPLES` ones, and tombstones: what a window of samples is made from, however the log was cut into
    chunks.

    `keys` is shared by the partitions of a cluster. Start at the beginning of the log (`next_offset` 0), or, after a
    restart, at the `resume_offset` of the feed before with its `next_offset` as `known_to`: what was visible below
    it is read again for the sake of open transactions, and not given out again.

    Records below `next_offset` are skipped, so a buffer may begin before it or come twice; holes that compaction
    left are nothing special. The chunk's bytes are worked on in pieces of 4 MiB, with some 100 bytes more for each
    record of a piece; between calls a feed holds the commits of open transactions, 64 MiB at most. About a microsecond
    a record; not for use by several threads at once.
    """

    def __init__(
        self,
        partition: int,
        keys: KeyTable,
        *,
        next_offset: int = 0,
        known_to: int = 0,
        every: bool = False,
        sample_ms: int = 0,
    ) -> None:
        self.partition = partition
        self._every, self._sample_ms = every, sample_ms
        self.keys = keys
        self.next_offset = next_offset
        self._known_to = known_to
        self._transactions = Transactions()

    @property
    def resume_offset(self) -> int:
        """Where another feed has to begin so that it knows the commits which this one holds back."""
        since = self._transactions.since_offset
        return self.next_offset if since is None else min(since, self.next_offset)

    def feed(self, buffer: bytes) -> tuple[CommitColumns, FeedFacts]:
        """Take the next raw bytes; never raises, whatever they are."""
        import numpy as np

        tally = FeedCounts()
        heads = read_batch_headers(buffer)
        for _ in range(heads.skipped):
            tally.cannot_read(heads.first_reason)
        after = heads.base_offset + heads.last_delta + 1
        floor = np.maximum.accumulate(np.concatenate(([self.next_offset], after)))
        wanted = after > floor[:-1]
        heads, floor_of = heads.taken(wanted), floor[:-1][wanted]
        tally.batches = len(heads)
        parts = [self._piece(piece, heads, floor_of, tally) for piece in pieces_of(buffer, heads)]
        self.next_offset = max(int(floor[-1]), heads.passed)
        return join_columns(parts, self.keys.capacity, every=self._every or self._sample_ms > 0), self._facts(
            tally, heads
        )

    def _facts(self, tally: FeedCounts, heads: BatchHeaders) -> FeedFacts:
        tally.by_type = dict(sorted(tally.by_type.items()))
        return FeedFacts(
            partition=self.partition,
            next_offset=self.next_offset,
            counts=tally,
            held_back=self._transactions.held,
            open_transactions=self._transactions.listed(),
            open_transaction_count=len(self._transactions),
            stopped=heads.stopped,
        )

    def _piece(self, piece: Piece, heads: BatchHeaders, floor: "Column", tally: FeedCounts) -> CommitColumns:
        views = Views(piece.data)
        rows, faults = read_rows(piece, heads, views)
        for reason in faults:
            tally.cannot_read(reason)
        is_control = (heads.attributes[piece.first : piece.last] & CONTROL) != 0
        markers: dict[int, bool] = {}
        if is_control.any():
            control = is_control[rows.batch]
            markers = _markers(views, rows.taken(control))
            rows = rows.taken(~control)
        fresh = rows.at >= floor[piece.first + rows.batch]
        if not fresh.all():
            rows = rows.taken(fresh)
        tally.records += len(rows)
        offsets = _sorted_out(views, rows, tally)
        commits, unusual = read_commits(views, offsets, tally)
        return self._visible(piece, heads, views, rows, commits, unusual, markers, tally)

    def _visible(
        self,
        piece: Piece,
        heads: BatchHeaders,
        views: Views,
        rows: Rows,
        commits: Commits,
        unusual: list[tuple[int, PendingCommit]],
        markers: dict[int, bool],
        tally: FeedCounts,
    ) -> CommitColumns:
        """The newest visible commits of a piece; those of open transactions are put aside."""
        import numpy as np

        visible_at = commits.at
        held = [row for _, row in unusual]
        if batches := _transactional(piece, heads, rows, markers):
            fate = np.full(piece.last - piece.first, OWN, np.int64)
            settled = self._transactions.settle(batches, fate)
            tally.dropped_commits += settled.dropped
            fates = fate[commits.batch]
            for row in np.flatnonzero(fates <= DROPPED).tolist():
                single = single_row(views, commits, row)
                self._put_aside(int(commits.batch[row]), single, int(fates[row]), tally)
            held = settled.released
            for batch, row_held in unusual:
                if fate[batch] <= DROPPED:
                    self._put_aside(batch, row_held, int(fate[batch]), tally)
                else:
                    held.append(row_held.seen_from(int(fate[batch])))
            shown = fates > DROPPED
            commits, fates = commits.taken(shown), fates[shown]
            visible_at = np.where(fates >= 0, fates, commits.at)
        newest = Newest(views, commits, visible_at, held, self.keys, tally, self._every, self._sample_ms)
        columns, latest = newest.columns(self._known_to, with_latest=len(self._transactions) > 0)
        if latest and not self._every:
            self._transactions.overtake(latest)
        return columns

    def _put_aside(self, batch: int, row: PendingCommit, fate: int, tally: FeedCounts) -> None:
        decoded = decode_key(row.key)
        if isinstance(decoded, UndecodableEntry):
            tally.cannot_decode(decoded.reason)
        elif fate != HELD or not self._transactions.hold(batch, row):
            tally.dropped_commits += 1


def _sorted_out(views: Views, rows: Rows, tally: FeedCounts) -> Rows:
    """Counts the records by type; gives those of offsets."""
    import numpy as np

    tally.tombstones += int(np.count_nonzero(rows.value_start < 0))
    kind = views.number(np.maximum(rows.key_start, 0), 2)
    has_type = (rows.key_start >= 0) & (rows.key_end - rows.key_start >= 2)
    is_offset = has_type & (kind >= 0) & (kind <= max(OFFSET_TYPES))
    if is_offset.all():
        tally.count_types(kind)
        return rows
    tally.count_types(kind[has_type])
    for row in np.flatnonzero(~has_type).tolist():
        tally.cannot_decode("no key" if rows.key_start[row] < 0 else "key type runs over the end")
    others = kind[has_type & ~is_offset]
    tally.opaque += int(np.count_nonzero(~np.isin(others, list(GROUP_TYPES))))
    return rows.taken(is_offset)


def _markers(views: Views, rows: Rows) -> dict[int, bool]:
    """What the control records say, by batch: True for COMMIT, False for ABORT; other kinds are left out."""
    good = (rows.key_start >= 0) & (rows.key_end - rows.key_start >= 4)
    kind = views.number(rows.key_start[good] + 2, 2).tolist()
    found = zip(rows.batch[good].tolist(), kind, strict=True)
    return {batch: number == 1 for batch, number in found if number in (0, 1)}


class TransactionBatch(NamedTuple):
    """A batch of a transaction; `commits` is None for data, else whether the marker commits."""

    batch: int
    offset: int
    max_ms: int
    producer_id: int
    producer_epoch: int
    commits: bool | None


def _transactional(piece: Piece, heads: BatchHeaders, rows: Rows, markers: dict[int, bool]) -> list[TransactionBatch]:
    """The transactional batches of a piece in order: those with records left, and markers."""
    import numpy as np

    has_rows = (heads.attributes[piece.first : piece.last] & TRANSACTIONAL) != 0
    if not markers and not has_rows.any():
        return []
    has_rows &= np.bincount(rows.batch, minlength=piece.last - piece.first) > 0
    has_rows[list(markers)] = True
    batches = np.flatnonzero(has_rows)
    at = piece.first + batches
    columns = (batches, heads.base_offset[at], heads.max_ms[at], heads.producer_id[at], heads.producer_epoch[at])
    return [
        TransactionBatch(batch, offset, ms, pid, epoch, markers.get(batch))
        for batch, offset, ms, pid, epoch in zip(*(c.tolist() for c in columns), strict=True)
    ]


@dataclass(slots=True)
class Newest:
    """The visible events of a piece, being made into columns.

    `commits` are rows over the bytes of the piece, `visible_at` belongs to them; `held` are those that come as single
    values. `gone` collects tombstones of keys that the table does not hold. With `every` all rows are kept.
    """

    views: Views
    commits: Commits
    visible_at: "Column"
    held: list[PendingCommit]
    keys: KeyTable
    tally: FeedCounts
    every: bool = False
    sample_ms: int = 0
    gone: dict[bytes, int] = field(default_factory=dict)

    def columns(self, known_to: int, *, with_latest: bool) -> tuple[CommitColumns, dict[bytes, int]]:
        """The newest row of each key, ordered by offset in the log, without what became visible below `known_to`.

        With them, when asked for, the newest offset in the log of every key concerned.
        """
        import numpy as np

        at, order = self._in_order()
        key = self._numbers(at, order)
        rows = np.flatnonzero(key[order] >= 0) if self.every else _last_of_each(key[order], self.keys.capacity)
        chosen = newest = order[rows]
        if self.sample_ms and not self.every:
            chosen = order[_sample_rows(key[order], *self._moments(order), self.sample_ms)]
        latest: dict[bytes, int] = {}
        if with_latest:
            latest = self.gone
            latest.update(zip(map(self.keys.bytes_of, key[newest].tolist()), at[newest].tolist(), strict=True))
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

    def _moments(self, order: "Column") -> "tuple[Column, NDArray[np.bool_]]":
        """When each row was committed, and which of them are tombstones."""
        import numpy as np

        made, offset = self.commits.committed_ms, self.commits.offset
        if self.held:
            made = np.concatenate((made, np.array([h.value.committed_ms for h in self.held], np.int64)))
            offset = np.concatenate((offset, np.array([h.value.offset for h in self.held], np.int64)))
        return made[order], offset[order] == TOMBSTONE

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
        own_rows = len(self.commits)
        offset: Callable[[int], int] = lambda row: (  # noqa: E731
            int(self.commits.offset[row]) if row < own_rows else self.held[row - own_rows].value.offset
        )
        for row in order[found[order] < 0].tolist():
            key = offset_key(self._key_bytes(row))
            number = self.keys.number_of(key)
            if number is None and offset(row) == TOMBSTONE and not self.every:
                decoded = decode_key(key)
                if isinstance(decoded, UndecodableEntry):
                    self.tally.cannot_decode(decoded.reason)
                else:
                    self.gone[key] = int(at[row])
                continue
            found[row] = self._intern(key) if number is None else number
        return found

    def _intern(self, key: bytes) -> int:
        number = self.keys.intern(key)
        if isinstance(number, UndecodableEntry):
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
        values = [h.value for h in held]
        ids = np.frombuffer(b"".join(v.topic_id for v in values), np.uint8).reshape(len(held), TOPIC_ID_BYTES)
        return CommitColumns(
            key=key[chosen],
            offset=np.concatenate((c.offset, np.array([v.offset for v in values], np.int64)))[chosen],
            committed_ms=np.concatenate((c.committed_ms, np.array([v.committed_ms for v in values], np.int64)))[chosen],
            leader_epoch=np.concatenate((c.leader_epoch, np.array([v.leader_epoch for v in values], np.int64)))[
                chosen
            ].astype(np.int32),
            at=at[chosen],
            topic_id=np.concatenate((topic_ids(self.views, c.topic_id_at), ids))[chosen],
            metadata=[
                data[int(starts[row]) : int(ends[row])] if row < own else held[row - own].value.metadata
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


MOST_SAMPLES = 10
LATEST_MS = 1 << 43
"""A time beyond it (of the year 2248) counts as it."""


def _sample_rows(key: "Column", made_ms: "Column", is_gone: "NDArray[np.bool_]", step_ms: int) -> "Column":
    """The rows, in order, of each key's first and last commit of a stretch of `step_ms`, of its last stretches only.

    Times that go back belong to the stretch before; after a tombstone a key begins again.
    """
    import numpy as np

    rows = np.flatnonzero(key >= 0)
    by_key = rows[np.argsort(key[rows], kind="stable")]
    differs = np.diff(key[by_key]) != 0
    if differs.all():
        return rows
    begins = np.concatenate(([True], differs | is_gone[by_key][:-1]))
    segment = np.cumsum(begins) - 1
    stretch = np.maximum.accumulate(np.clip(made_ms[by_key], 0, LATEST_MS - 1) // step_ms + segment * LATEST_MS)
    edges = np.concatenate(([True], np.diff(stretch) != 0, [True]))
    number = np.cumsum(edges[:-1])
    newest = number[np.flatnonzero(np.concatenate((begins[1:], [True])))]
    is_recent = number > newest[segment] - MOST_SAMPLES
    return np.sort(by_key[(edges[:-1] | edges[1:]) & is_recent])


def join_columns(parts: list[CommitColumns], capacity: int, *, every: bool = False) -> CommitColumns:
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


OWN = -1
"""The fate of a batch outside transactions: its commits are visible from their own offsets."""

DROPPED = -2
HELD = -3
MAX_HELD_BYTES = 64 << 20
MAX_LISTED = 20
"""How many open transactions are told, and how many groups of each."""

MAX_LOOKED_AT = 50
"""How many keys of a transaction are looked at for its groups: as a rule it has one."""


@dataclass(slots=True)
class HeldTransaction:
    """A transaction whose marker has not come; `batches` are those of the piece at hand."""

    epoch: int
    since_offset: int
    since_ms: int
    rows: dict[bytes, PendingCommit] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    left_out: int = 0


class Transactions:
    """The open transactions of one partition of `__consumer_offsets`, by producer id.

    The newest commit of a key counts by the offset of its record, not of its marker: as brokers do it, a pending
    commit that a later record of the same key overtakes stays without effect. Memory is bounded by `max_held_bytes`;
    commits beyond it are dropped and counted.
    """

    def __init__(self, *, max_held_bytes: int = MAX_HELD_BYTES) -> None:
        self._max_held_bytes = max_held_bytes
        self._bytes = 0
        self._open: dict[int, HeldTransaction] = {}
        self._holders: dict[int, HeldTransaction] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def held(self) -> int:
        """How many commits are held back."""
        return sum(len(t.rows) for t in self._open.values())

    @property
    def since_offset(self) -> int | None:
        """Where the oldest open transaction began."""
        return min((t.since_offset for t in self._open.values()), default=None)

    def settle(self, batches: Iterable[TransactionBatch], fate: "NDArray[np.int64]") -> "MarkerEffects":
        """Take a piece's transactional batches in order; writes each one's fate: `DROPPED`, `HELD`, or the offset of
        the marker that committed it. The answer holds what earlier pieces left and now is committed."""
        found = MarkerEffects()
        self._holders = {}
        for batch in batches:
            opened = self._open.get(batch.producer_id)
            if batch.commits is None:
                self._add(batch, opened, fate, found)
            elif opened is not None and batch.producer_epoch >= opened.epoch:
                self._end(batch, opened, fate, found)
        for opened in self._open.values():
            self._holders.update(dict.fromkeys(opened.batches, opened))
            opened.batches.clear()
        return found

    def _add(
        self, batch: TransactionBatch, opened: HeldTransaction | None, fate: "NDArray[np.int64]", found: "MarkerEffects"
    ) -> None:
        if opened is not None and batch.producer_epoch < opened.epoch:
            fate[batch.batch] = DROPPED
            return
        if opened is None or batch.producer_epoch > opened.epoch:
            if opened is not None:
                fate[opened.batches] = DROPPED
                found.dropped += self._forget(opened)
            opened = HeldTransaction(batch.producer_epoch, batch.offset, batch.max_ms)
            self._open[batch.producer_id] = opened
        opened.batches.append(batch.batch)
        fate[batch.batch] = HELD

    def _end(
        self, batch: TransactionBatch, opened: HeldTransaction, fate: "NDArray[np.int64]", found: "MarkerEffects"
    ) -> None:
        fate[opened.batches] = batch.offset if batch.commits else DROPPED
        rows = list(opened.rows.values())
        dropped = self._forget(opened)
        del self._open[batch.producer_id]
        if batch.commits:
            found.released += [row.seen_from(batch.offset) for row in rows]
        else:
            found.dropped += dropped

    def _forget(self, opened: HeldTransaction) -> int:
        count = len(opened.rows)
        self._bytes -= sum(row.size for row in opened.rows.values())
        opened.rows.clear()
        return count

    def hold(self, batch: int, row: PendingCommit) -> bool:
        """Keep a commit of a batch whose fate is `HELD`; False where the bound is reached and it is dropped.

        Rows may come in any order: of each key the one that stands later in the log is kept.
        """
        opened = self._holders[batch]
        earlier = opened.rows.pop(row.key, None)
        if earlier is not None and earlier.at > row.at:
            opened.rows[row.key] = earlier
            return True
        self._bytes += row.size - (earlier.size if earlier else 0)
        if self._bytes > self._max_held_bytes:
            self._bytes -= row.size
            opened.left_out += 1
            return False
        opened.rows[row.key] = row
        return True

    def overtake(self, newest: dict[bytes, int]) -> None:
        """Drop held commits whose keys have a newer record at the offsets given."""
        for opened in self._open.values():
            keys = opened.rows.keys() & newest.keys() if len(newest) else ()
            for key in keys:
                if opened.rows[key].at < newest[key]:
                    self._bytes -= opened.rows.pop(key).size

    def listed(self) -> tuple[PendingTransaction, ...]:
        """The oldest open transactions, bounded, each with some of its groups."""
        oldest = nsmallest(MAX_LISTED, self._open.items(), key=lambda item: (item[1].since_offset, item[0]))
        return tuple(
            PendingTransaction(
                producer_id=pid,
                producer_epoch=t.epoch,
                since_offset=t.since_offset,
                since_ms=t.since_ms,
                commits=len(t.rows),
                groups=_groups(t.rows),
            )
            for pid, t in oldest
        )


@dataclass(slots=True)
class MarkerEffects:
    """What a piece's markers did to what was held back before it."""

    released: list[PendingCommit] = field(default_factory=list)
    dropped: int = 0


def _groups(keys: Iterable[bytes]) -> tuple[str, ...]:
    found: set[str] = set()
    for key in islice(keys, MAX_LOOKED_AT):
        decoded = decode_key(key)
        if isinstance(decoded, LogKey):
            found.add(decoded.group)
    return tuple(sorted(found)[:MAX_LISTED])
