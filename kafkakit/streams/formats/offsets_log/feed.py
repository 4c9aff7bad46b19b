"""The feed of one partition of `__consumer_offsets`: raw bytes in, the newest commit of each key out."""

from typing import TYPE_CHECKING

from kafkakit.streams.formats.offsets_log.commits import Commits, Held, read_commits, single_row
from kafkakit.streams.formats.offsets_log.counts import FeedCounts
from kafkakit.streams.formats.offsets_log.facts import CommitColumns, FeedFacts
from kafkakit.streams.formats.offsets_log.heads import Heads, read_heads
from kafkakit.streams.formats.offsets_log.key_table import KeyTable
from kafkakit.streams.formats.offsets_log.keys import GROUP_TYPES, OFFSET_TYPES, Undecodable, decode_key
from kafkakit.streams.formats.offsets_log.newest import Newest, joined
from kafkakit.streams.formats.offsets_log.rows import Piece, Rows, pieces_of, read_rows
from kafkakit.streams.formats.offsets_log.transactions import DROPPED, HELD, OWN, TransactionBatch, Transactions
from kafkakit.streams.formats.offsets_log.views import Views

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

TRANSACTIONAL, CONTROL = 16, 32


class OffsetsFeed:
    """Decodes one partition of `__consumer_offsets`, fetched raw and in order, uncommitted data included.

    With `every` all visible commits come out, not the newest of each key alone: for history.

    `keys` is shared by the partitions of a cluster. Start at the beginning of the log (`next_offset` 0), or, after a
    restart, at the `resume_offset` of the feed before with its `next_offset` as `known_to`: what was visible below
    it is read again for the sake of open transactions, and not given out again.

    Records below `next_offset` are skipped, so a buffer may begin before it or come twice; holes that compaction
    left are nothing special. The chunk's bytes are worked on in pieces of 4 MiB, with some 100 bytes more for each
    record of a piece; between calls a feed holds the commits of open transactions, 64 MiB at most. About a microsecond
    a record; not for use by several threads at once.
    """

    def __init__(
        self, partition: int, keys: KeyTable, *, next_offset: int = 0, known_to: int = 0, every: bool = False
    ) -> None:
        self.partition = partition
        self._every = every
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
        heads = read_heads(buffer)
        for _ in range(heads.skipped):
            tally.cannot_read(heads.first_reason)
        after = heads.base_offset + heads.last_delta + 1
        floor = np.maximum.accumulate(np.concatenate(([self.next_offset], after)))
        wanted = after > floor[:-1]
        heads, floor_of = heads.taken(wanted), floor[:-1][wanted]
        tally.batches = len(heads)
        parts = [self._piece(piece, heads, floor_of, tally) for piece in pieces_of(buffer, heads)]
        self.next_offset = max(int(floor[-1]), heads.passed)
        return joined(parts, self.keys.capacity, every=self._every), self._facts(tally, heads)

    def _facts(self, tally: FeedCounts, heads: Heads) -> FeedFacts:
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

    def _piece(self, piece: Piece, heads: Heads, floor: "Column", tally: FeedCounts) -> CommitColumns:
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
        heads: Heads,
        views: Views,
        rows: Rows,
        commits: Commits,
        unusual: list[tuple[int, Held]],
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
        newest = Newest(views, commits, visible_at, held, self.keys, tally, self._every)
        columns, latest = newest.columns(self._known_to, with_latest=len(self._transactions) > 0)
        if latest and not self._every:
            self._transactions.overtake(latest)
        return columns

    def _put_aside(self, batch: int, row: Held, fate: int, tally: FeedCounts) -> None:
        decoded = decode_key(row.key)
        if isinstance(decoded, Undecodable):
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


def _transactional(piece: Piece, heads: Heads, rows: Rows, markers: dict[int, bool]) -> list[TransactionBatch]:
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
