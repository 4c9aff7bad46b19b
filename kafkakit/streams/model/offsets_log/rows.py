"""The batches of a chunk of `__consumer_offsets`, and their records, as columns with one row for each.

Only the chains of lengths, of batches and of long runs of records, are walked in Python; numbers and varints are
gathered by arrays of positions. The readable twin of this is `kafkakit.streams.model.log_batches`, and the tests
compare the two.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkakit.core.columns import Columns
from kafkakit.streams.model.binary import (
    HEADER_BYTES,
    LEAST_LENGTH,
    MAGIC,
    MAGIC_AT,
    MIN_OLD_LENGTH,
    PREFIX_BYTES,
    VARLONG,
    batch_length,
    batch_positions,
    headers_at,
    read_varint,
    uvarints_at,
    varints_at,
)
from kafkakit.streams.model.log_batches import MAX_OFFSET, Batch, RecordFault, record_section

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Positions = NDArray[np.int64]


MAX_INFLATED = 16 << 20
"""A batch that inflates to more is not read: coordinators write batches of at most a megabyte, compressed or not."""

MIN_ABREAST = 200
"""From so many batches on, walking them abreast beats walking each in Python."""

PIECE_BYTES = 4 << 20
"""How much is turned into columns at once; 4 MiB of the smallest records that there can be take 150 MB."""


@dataclass(slots=True)
class Piece:
    """Some batches of a chunk with their records uncompressed: `first` to `last` (exclusive) of the heads.

    `start` and `end` bound each batch's records in `data`; batches that cannot be inflated have none.
    """

    data: bytes
    first: int
    last: int
    start: "Column"
    end: "Column"
    faults: dict[int, str]


@dataclass(frozen=True, slots=True)
class BatchHeaders(Columns):
    """The readable batches of a chunk, as columns; `stopped` and `skipped` say what was not readable."""

    position: "Column"
    size: "Column"
    base_offset: "Column"
    last_delta: "Column"
    attributes: "Column"
    max_ms: "Column"
    producer_id: "Column"
    producer_epoch: "Column"
    count: "Column"
    stopped: str
    skipped: int = 0
    first_reason: str = ""
    passed: int = 0
    """One past the highest offset that unreadable old-format batches tell; 0 for none."""

    def __len__(self) -> int:
        return len(self.position)


def pieces_of(buffer: bytes, heads: BatchHeaders) -> Iterator[Piece]:
    """The batches in pieces of about `PIECE_BYTES` at most, compressed ones inflated piece by piece."""
    import numpy as np

    total = len(heads)
    start = heads.position + HEADER_BYTES
    end = heads.position + heads.size
    if not (heads.attributes & 7).any():
        first = 0
        while first < total:
            limit = int(heads.position[first]) + PIECE_BYTES
            last = max(first + 1, int(np.searchsorted(end, limit, "right")))
            yield Piece(buffer, first, last, start[first:last], end[first:last], {})
            first = last
        return
    first = 0
    while first < total:
        yield (piece := _inflated_piece(buffer, heads, first))
        first = piece.last


def _inflated_piece(buffer: bytes, heads: BatchHeaders, first: int) -> Piece:
    import numpy as np

    parts: list[bytes] = []
    starts: list[int] = []
    ends: list[int] = []
    faults: dict[int, str] = {}
    size = 0
    last = first
    while last < len(heads) and size < PIECE_BYTES:
        section = record_section(buffer, batch_at(heads, last), MAX_INFLATED)
        if isinstance(section, RecordFault):
            faults[last - first] = section.reason
            part = b""
        else:
            part = section[0][section[1] : section[2]]
        parts.append(part)
        starts.append(size)
        size += len(part)
        ends.append(size)
        last += 1
    parts.append(bytes(8))
    return Piece(b"".join(parts), first, last, np.array(starts, np.int64), np.array(ends, np.int64), faults)


@dataclass(frozen=True, slots=True)
class Rows(Columns):
    """The records of a piece: their batch (as a number within the piece), offset, and where key and value lie.

    Where a key or value is null its start is -1.
    """

    batch: "Column"
    at: "Column"
    key_start: "Column"
    key_end: "Column"
    value_start: "Column"
    value_end: "Column"

    def __len__(self) -> int:
        return len(self.at)


def pair_of(data: bytes, rows: Rows, row: int) -> tuple[bytes | None, bytes | None]:
    """Key and value of one row, None for null."""
    key_at, value_at = int(rows.key_start[row]), int(rows.value_start[row])
    key = None if key_at < 0 else data[key_at : int(rows.key_end[row])]
    return key, None if value_at < 0 else data[value_at : int(rows.value_end[row])]


class Views:
    """Overlapping views of `data`, one number at every byte position; no copy is made.

    Reads past the end give whatever lies last: callers compare positions with the end of what they read.
    `data` needs at least 8 bytes.
    """

    def __init__(self, data: bytes) -> None:
        import numpy as np

        self.data = data
        self.u8: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self._wide: dict[int, NDArray[Any]] = {
            size: np.ndarray((len(data) - size + 1,), f">i{size}", data, strides=(1,)) for size in (2, 4, 8)
        }

    def number(self, at: "Positions", size: int) -> "NDArray[np.int64]":
        """The signed number of 2, 4 or 8 bytes at each position."""
        import numpy as np

        view = self._wide[size]
        return view[np.minimum(at, len(view) - 1)].astype(np.int64)

    def byte(self, at: "Positions") -> "NDArray[np.int64]":
        """The unsigned byte at each position."""
        import numpy as np

        return self.u8[np.minimum(at, len(self.u8) - 1)].astype(np.int64)


def read_rows(piece: Piece, heads: BatchHeaders, views: Views) -> tuple[Rows, list[str]]:
    """The records of a piece's batches, and the reasons of batches that could not be read to their end."""
    import numpy as np

    count = heads.count[piece.first : piece.last]
    batch, start, end, faults = _record_spans(piece, count, views)
    delta, at, bad = _deltas(views, start)
    last_delta = heads.last_delta[piece.first : piece.last][batch]
    key_start, key_end, at, bad = _field(views, at, end, bad)
    value_start, value_end, at, bad = _field(views, at, end, bad)
    over = bad | (at > end)
    bad = over | (delta < 0) | (delta > last_delta)
    rows = Rows(batch, heads.base_offset[piece.first + batch] + delta, key_start, key_end, value_start, value_end)
    if bad.any():
        first_bad = np.full(piece.last - piece.first, len(rows), np.int64)
        wrong = np.flatnonzero(bad)[::-1]
        first_bad[batch[wrong]] = wrong
        for b in np.flatnonzero(first_bad < len(rows)).tolist():
            is_over = over[first_bad[b]]
            faults[b] = "a record's fields run over its end" if is_over else "a record's offset lies outside its batch"
        rows = rows.taken(np.arange(len(rows)) < first_bad[batch])
    return rows, [faults[b] for b in sorted(faults)]


def _record_spans(piece: Piece, count: "Column", views: Views) -> "tuple[Column, Column, Column, dict[int, str]]":
    """Batch, start and end of every record whose length fits into its batch; and batches with one that does not.

    Many batches are walked abreast, a record of each at a time; the long ones that are left, one by one.
    """
    import numpy as np

    at = piece.start.copy()
    found = np.zeros(len(at), np.int64)
    steps: list[tuple[Column, Column, Column, Column]] = []
    active = np.flatnonzero((count > 0) & (at < piece.end))
    walked = 0
    while active.size >= MIN_ABREAST:
        size, start = uvarints_at(views.u8, at[active])
        after = start + (size >> 1)
        fits = (size & 1 == 0) & (after <= piece.end[active])
        if not fits.all():
            active, start, after = active[fits], start[fits], after[fits]
        steps.append((active, found[active], start, after))
        at[active] = after
        found[active] += 1
        walked += 1
        active = active[count[active] > walked]
    for batch in active.tolist():
        starts, ends = _chain(piece.data, int(at[batch]), int(piece.end[batch]), int(count[batch]) - walked)
        many = np.full(len(starts), batch)
        steps.append((many, walked + np.arange(len(starts)), np.array(starts, np.int64), np.array(ends, np.int64)))
        found[batch] += len(starts)
    faults = dict(piece.faults)
    for batch in np.flatnonzero(found < count).tolist():
        faults.setdefault(batch, "a record runs over its batch")
    if len(steps) == 1:
        return steps[0][0], steps[0][2], steps[0][3], faults
    place_of = np.cumsum(found) - found
    starts_of, ends_of = np.empty(int(found.sum()), np.int64), np.empty(int(found.sum()), np.int64)
    for many, index, start, after in steps:
        place = place_of[many] + index
        starts_of[place], ends_of[place] = start, after
    return np.repeat(np.arange(len(at)), found), starts_of, ends_of, faults


def _chain(data: bytes, at: int, end: int, count: int) -> tuple[list[int], list[int]]:
    """Starts and ends of up to `count` records of one batch, up to the first that does not fit."""
    starts: list[int] = []
    ends: list[int] = []
    add_start, add_end = starts.append, ends.append
    for _ in range(count):
        if at >= end:
            break
        size = data[at]
        if size < 0x80:
            at += 1
        elif at + 1 < end and (byte := data[at + 1]) < 0x80:
            size += (byte - 1) << 7
            at += 2
        else:
            value, at = read_varint(data, at, end)
            size = value * 2 if value >= 0 else 1
        start = at
        at += size >> 1
        if size & 1 or start < 0 or at > end:
            break
        add_start(start)
        add_end(at)
    return starts, ends


def _deltas(views: Views, start: "Column") -> "tuple[Column, Column, NDArray[np.bool_]]":
    import numpy as np

    _, at = uvarints_at(views.u8, start + 1, VARLONG)
    delta, at = varints_at(views.u8, at)
    return delta, at, np.zeros(len(start), np.bool_)


def _field(
    views: Views, at: "Column", end: "Column", bad: "NDArray[np.bool_]"
) -> "tuple[Column, Column, Column, NDArray[np.bool_]]":
    """Start (-1: null) and end of a length-prefixed field, where it ends, and which rows are broken by now."""
    import numpy as np

    size, start = varints_at(views.u8, at)
    bad = bad | (start > end) | (start + size > end)
    after = np.where(bad, start, start + np.maximum(size, 0))
    null = bad | (size < 0)
    return np.where(null, -1, start), np.where(null, -1, after), after, bad


def read_batch_headers(buffer: bytes) -> BatchHeaders:
    """The batch headers of a raw read; the cut tail is left out."""
    import numpy as np

    position, at = batch_positions(buffer, 0, least_length=MIN_OLD_LENGTH)
    stopped = ""
    if at + PREFIX_BYTES + MIN_OLD_LENGTH <= len(buffer):
        length = batch_length(buffer, at)
        least = LEAST_LENGTH if buffer[at + MAGIC_AT] == MAGIC else MIN_OLD_LENGTH
        stopped = f"a batch length of {length}" if length < least else ""
    if position.size and position[-1] + HEADER_BYTES > len(buffer):
        buffer += bytes(HEADER_BYTES)
    headers = headers_at(buffer, position)
    magic, lengths = headers["magic"], headers["length"]
    short = np.flatnonzero((magic == MAGIC) & (lengths < LEAST_LENGTH))
    if short.size:
        first = short[0]
        stopped = f"a batch length of {lengths[first]}"
        position, headers, magic = position[:first], headers[:first], magic[:first]

    def field(name: str) -> "Column":
        found: Column = headers[name].astype(np.int64)
        return found

    heads = BatchHeaders(
        position, field("length") + PREFIX_BYTES, field("base_offset"), field("last_delta"), field("attributes"),
        field("max_ms"), field("producer"), field("producer_epoch"), field("count"), stopped,
    )  # fmt: skip
    base = heads.base_offset
    good = (magic == MAGIC) & (base >= 0) & (base <= MAX_OFFSET) & (heads.last_delta >= 0) & (heads.count >= 0)
    if not good.all():
        bad = np.flatnonzero(~good)
        kind = int(magic[bad[0]])
        old = base[(magic < MAGIC) & (base >= 0) & (base <= MAX_OFFSET)]
        heads = replace(
            heads.taken(good),
            skipped=len(bad),
            first_reason=f"message format {kind}" if kind != MAGIC else "impossible offsets in a batch header",
            passed=int(old.max()) + 1 if old.size else 0,
        )
    return heads


def batch_at(heads: BatchHeaders, index: int) -> Batch:
    """One batch of the heads as a value."""
    return Batch(
        int(heads.position[index]), int(heads.size[index]), int(heads.base_offset[index]),
        int(heads.attributes[index]), int(heads.last_delta[index]), 0, int(heads.max_ms[index]),
        int(heads.producer_id[index]), int(heads.producer_epoch[index]), int(heads.count[index]),
    )  # fmt: skip
