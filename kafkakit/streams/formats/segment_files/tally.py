"""Counts over the batches of a segment, chunk by chunk."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkakit.streams.formats.segment_files.batch_walk import HEADER_BYTES, BatchChunk, Ints
from kafkakit.streams.formats.segment_files.expansion import CODECS

TINY_BYTES = 1024
LEAST_RECORD_BYTES = 7
"""The shortest record: its length, attributes, two deltas, two lengths and the number of headers, a byte each."""
_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 8, 16, 32, 64


@dataclass(slots=True)
class OpenTransactions:
    """The transactions that have begun and not ended, by producer id: the time of their first batch, -1 for none.

    One is handed from segment to segment of a partition, oldest first.
    """

    since_ms: dict[int, int] = field(default_factory=dict)

    def take(self, producers: Ints, is_control: NDArray[np.bool_], times: Ints) -> None:
        """The transactional batches of a chunk, in order."""
        order = np.argsort(producers, kind="stable")
        pids, control = producers[order], is_control[order]
        first = np.flatnonzero(np.r_[True, pids[1:] != pids[:-1]])
        place = np.arange(len(pids))
        markers = np.maximum.reduceat(np.where(control, place, -1), first)
        sizes = np.diff(np.r_[first, len(pids)])
        is_later = ~control & (place > np.repeat(markers, sizes))
        begins = np.minimum.reduceat(np.where(is_later, place, len(pids)), first)
        for pid, marker, begin in zip(pids[first].tolist(), markers.tolist(), begins.tolist(), strict=True):
            if marker >= 0:
                self.since_ms.pop(pid, None)
            if begin < len(pids):
                self.since_ms.setdefault(pid, int(times[order[begin]]))

    @property
    def oldest_ms(self) -> int | None:
        """The earliest time that is known; None where no transaction is open."""
        return min((t for t in self.since_ms.values() if t >= 0), default=None)


@dataclass(slots=True)
class BatchTally:
    """The columns of table `segments` that come from batches alone; see `kafkakit.core.fleet_tables`.

    `epochs` are the entries of the partition's leader epoch checkpoint. `smallest_ratio_bound` is the greatest of what
    compressed batches expand by at least: their records, 7 bytes each, over their bytes.
    """

    aborted: NDArray[np.void]
    epochs: tuple[tuple[int, int], ...] = ()
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_batch_max_ms: int | None = None
    min_ms: int | None = None
    max_ms: int | None = None
    missing_times: int = 0
    append_time_batches: int = 0
    codecs: Ints = field(default_factory=lambda: np.zeros(8, np.int64))
    single_record_batches: int = 0
    tiny_batches: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    aborted_records: int = 0
    offset_gaps: int = 0
    missing_records: int = 0
    overlaps: int = 0
    epoch_regressions: int = 0
    epoch_faults: int = 0
    first_epoch: int | None = None
    last_epoch: int | None = None
    smallest_ratio_bound: float | None = None
    producers: set[int] = field(default_factory=set)

    def take(self, chunk: BatchChunk, ends: Ints, transactions: OpenTransactions) -> None:
        """Count a chunk, of which `ends` are the last offsets; vectorised, about 0.2 us a batch."""
        bases, counts, attributes = chunk.field("base_offset"), chunk.field("count"), chunk.field("attributes")
        sizes, pids = chunk.sizes, chunk.field("producer")
        control = (attributes & _CONTROL) != 0
        transactional = (attributes & _TRANSACTIONAL) != 0
        if self.first_offset is None:
            self.first_offset = int(bases[0])
            self.first_batch_max_ms = _time(int(chunk.headers["max_ms"][0]))
        self.batches += len(bases)
        self.records += int(counts.sum())
        self._take_offsets(bases, ends)
        self.missing_records += int((ends - bases + 1 - counts).sum())
        self._take_times(chunk, attributes, counts)
        self._take_epochs(chunk.field("leader_epoch"), bases)
        codecs = attributes & 7
        self.codecs += np.bincount(codecs, minlength=8)
        self.single_record_batches += int(((counts == 1) & ~control).sum())
        self.tiny_batches += int(((sizes < TINY_BYTES) & ~control).sum())
        self.control_batches += int(control.sum())
        self.transactional_batches += int(transactional.sum())
        packed = codecs > 0
        if packed.any():
            ratio = float((counts[packed] * LEAST_RECORD_BYTES / np.maximum(sizes[packed] - HEADER_BYTES, 1)).max())
            self.smallest_ratio_bound = max(ratio, self.smallest_ratio_bound or 0.0)
        self.producers.update(np.unique(pids[pids >= 0]).tolist())
        if transactional.any():
            rows = np.flatnonzero(transactional)
            transactions.take(pids[rows], control[rows], chunk.field("max_ms")[rows])
            self._take_aborted(bases, np.where(control | ~transactional, -2, pids), counts)

    def columns(self) -> dict[str, object]:
        """The columns by name."""
        names = (n for n in self.__slots__ if n not in ("aborted", "epochs", "codecs", "producers"))
        found: dict[str, object] = {name: getattr(self, name) for name in names}
        found |= {f"{codec}_batches": int(self.codecs[i]) for i, codec in enumerate(CODECS)}
        return found | {"producers": len(self.producers)}

    def _take_offsets(self, bases: Ints, ends: Ints) -> None:
        before = np.r_[int(bases[0]) - 1 if self.last_offset is None else self.last_offset, ends[:-1]]
        highest = np.maximum.accumulate(before)
        self.offset_gaps += int((bases > highest + 1).sum())
        self.overlaps += int((bases <= highest).sum())
        self.last_offset = int(max(highest[-1], ends[-1]))

    def _take_times(self, chunk: BatchChunk, attributes: Ints, counts: Ints) -> None:
        highest, append_time = chunk.field("max_ms"), (attributes & _APPEND_TIME) != 0
        lowest = np.where(append_time | ((attributes & _DELETE_HORIZON) != 0), highest, chunk.field("base_ms"))
        self.missing_times += int(((highest < 0) & (counts > 0)).sum())
        self.append_time_batches += int(append_time.sum())
        lowest = np.minimum(lowest, highest)[lowest >= 0]
        lowest = lowest[lowest >= 0]
        if lowest.size:
            self.min_ms = min(int(lowest.min()), self.min_ms if self.min_ms is not None else 1 << 62)
        greatest = _time(int(highest.max()))
        if greatest is not None:
            self.max_ms = max(greatest, self.max_ms or 0)

    def _take_epochs(self, epochs: Ints, bases: Ints) -> None:
        before = np.maximum.accumulate(np.r_[-1 if self.last_epoch is None else self.last_epoch, epochs])
        self.epoch_regressions += int((epochs < before[:-1]).sum())
        self.first_epoch = int(epochs[0]) if self.first_epoch is None else self.first_epoch
        self.last_epoch = int(before[-1])
        if self.epochs:
            known, starts = np.array(self.epochs, np.int64).T
            at = np.searchsorted(starts, bases, "right") - 1
            self.epoch_faults += int(((at >= 0) & (epochs >= 0) & (known[at] != epochs)).sum())

    def _take_aborted(self, bases: Ints, pids: Ints, counts: Ints) -> None:
        for entry in self.aborted:
            low, high = np.searchsorted(bases, [int(entry["first"]), int(entry["last"]) + 1])
            if low < high:
                own = pids[low:high] == int(entry["producer"])
                self.aborted_records += int(counts[low:high][own].sum())


def _time(value: int) -> int | None:
    return value if value >= 0 else None
