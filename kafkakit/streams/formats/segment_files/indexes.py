"""The offset, time and transaction indexes of a segment, and whether their entries fit its batches."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkakit.streams.formats.segment_files.batch_walk import BatchChunk, Ints

OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("time", ">i8"), ("offset", ">i4")])
TXN_ENTRY = np.dtype(
    [("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)  # fmt: skip


@dataclass(slots=True)
class IndexCheck:
    """The entries of one index, by column, and how many of them are faulty so far.

    `take` compares those that fall into a chunk of batches; `finish` counts what no chunk had.
    """

    entries: int
    faults: int
    _keys: Ints
    _values: Ints
    _at: int = 0

    def _falling_into(self, end: int) -> tuple[Ints, Ints]:
        start, self._at = self._at, int(np.searchsorted(self._keys, end))
        return self._keys[start : self._at], self._values[start : self._at]

    def finish(self) -> None:
        """Count the entries behind the last batch."""
        self.faults += len(self._keys) - self._at
        self._at = len(self._keys)


class OffsetIndexCheck(IndexCheck):
    """An `.index`: positions, and the last offset of what was appended there, which may be several batches."""

    def take(self, chunk: BatchChunk, ends: Ints) -> None:
        """Compare with batches, of which `ends` are the last offsets."""
        positions, offsets = self._falling_into(int(chunk.positions[-1]) + 1)
        at = np.searchsorted(chunk.positions, positions)
        self.faults += int(((chunk.positions[at] != positions) | (offsets < ends[at])).sum())


class TimeIndexCheck(IndexCheck):
    """A `.timeindex`: offsets, and the highest time up to there, which a batch with that offset has."""

    def take(self, chunk: BatchChunk, ends: Ints) -> None:
        """Compare with batches, of which `ends` are the last offsets."""
        offsets, times = self._falling_into(int(ends.max()) + 1)
        at = np.minimum(np.searchsorted(ends, offsets), len(ends) - 1)
        self.faults += int((chunk.field("max_ms")[at] < times).sum())


def offset_index(data: bytes, base_offset: int) -> OffsetIndexCheck:
    """The entries of an `.index` up to its padding; those that do not ascend count as faults."""
    rows, faults = _entries(data, OFFSET_ENTRY)
    keys, values, bad = _ascending(rows["position"].astype(np.int64), rows["offset"].astype(np.int64) + base_offset)
    return OffsetIndexCheck(len(rows), faults + bad, keys, values)


def time_index(data: bytes, base_offset: int) -> TimeIndexCheck:
    """The entries of a `.timeindex` up to its padding; those that do not ascend count as faults."""
    rows, faults = _entries(data, TIME_ENTRY)
    keys, values, bad = _ascending(rows["offset"].astype(np.int64) + base_offset, rows["time"].astype(np.int64))
    return TimeIndexCheck(len(rows), faults + bad, keys, values)


def aborted_transactions(data: bytes) -> tuple[NDArray[np.void], int]:
    """The entries of a `.txnindex`, and how many are faulty: of an unknown version, or cut."""
    whole = len(data) // TXN_ENTRY.itemsize
    rows: NDArray[np.void] = np.frombuffer(data, TXN_ENTRY, whole)
    good = (rows["version"] == 0) & (rows["first"] <= rows["last"])
    return rows[good], int((~good).sum()) + (len(data) != whole * TXN_ENTRY.itemsize)


def _entries(data: bytes, entry: np.dtype[np.void]) -> tuple[NDArray[np.void], int]:
    """The entries before the padding of zeros, and a fault where it has none and ends inside an entry."""
    whole = len(data) // entry.itemsize
    rows: NDArray[np.void] = np.frombuffer(data, entry, whole)
    other = "position" if entry is OFFSET_ENTRY else "time"
    is_end = rows["offset"] == 0
    is_end[:1] &= rows[other][:1] == 0
    ends = np.flatnonzero(is_end)
    if ends.size:
        return rows[: ends[0]], 0
    return rows, int(len(data) != whole * entry.itemsize)


def _ascending(keys: Ints, values: Ints) -> tuple[Ints, Ints, int]:
    """The entries without those that are not above all before them, and how many these are."""
    if len(keys) < 2:
        return keys, values, 0
    good = np.ones(len(keys), bool)
    for column in (keys, values):
        good[1:] &= column[1:] > np.maximum.accumulate(column)[:-1]
    return keys[good], values[good], int((~good).sum())
