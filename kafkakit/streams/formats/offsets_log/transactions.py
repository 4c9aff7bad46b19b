"""Transactional commits between their records and their markers: held back, then let through or dropped.

A monitor that reads committed data only misses what is behind the first open transaction of a partition; this one reads
everything and holds back just the commits of that transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kafkakit.streams.formats.offsets_log.commits import Held
from kafkakit.streams.formats.offsets_log.facts import OpenTransaction
from kafkakit.streams.formats.offsets_log.keys import LogKey, decode_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OWN = -1
"""The fate of a batch outside transactions: its commits are visible from their own offsets."""

DROPPED = -2
HELD = -3
MAX_HELD_BYTES = 64 << 20
MAX_LISTED = 20
"""How many open transactions are told, and how many groups of each."""

MAX_LOOKED_AT = 50
"""How many keys of a transaction are looked at for its groups: as a rule it has one."""


class TransactionBatch(NamedTuple):
    """A batch of a transaction; `commits` is None for data, else whether the marker commits."""

    batch: int
    offset: int
    max_ms: int
    producer_id: int
    producer_epoch: int
    commits: bool | None


@dataclass(slots=True)
class Opened:
    """A transaction whose marker has not come; `batches` are those of the piece at hand."""

    epoch: int
    since_offset: int
    since_ms: int
    rows: dict[bytes, Held] = field(default_factory=dict)
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
        self._open: dict[int, Opened] = {}
        self._holders: dict[int, Opened] = {}

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

    def settle(self, batches: Iterable[TransactionBatch], fate: "NDArray[np.int64]") -> "Settled":
        """Take a piece's transactional batches in order; writes each one's fate: `DROPPED`, `HELD`, or the offset of
        the marker that committed it. The answer holds what earlier pieces left and now is committed."""
        found = Settled()
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

    def _add(self, batch: TransactionBatch, opened: Opened | None, fate: "NDArray[np.int64]", found: "Settled") -> None:
        if opened is not None and batch.producer_epoch < opened.epoch:
            fate[batch.batch] = DROPPED
            return
        if opened is None or batch.producer_epoch > opened.epoch:
            if opened is not None:
                fate[opened.batches] = DROPPED
                found.dropped += self._forget(opened)
            opened = Opened(batch.producer_epoch, batch.offset, batch.max_ms)
            self._open[batch.producer_id] = opened
        opened.batches.append(batch.batch)
        fate[batch.batch] = HELD

    def _end(self, batch: TransactionBatch, opened: Opened, fate: "NDArray[np.int64]", found: "Settled") -> None:
        fate[opened.batches] = batch.offset if batch.commits else DROPPED
        rows = list(opened.rows.values())
        dropped = self._forget(opened)
        del self._open[batch.producer_id]
        if batch.commits:
            found.released += [row.seen_from(batch.offset) for row in rows]
        else:
            found.dropped += dropped

    def _forget(self, opened: Opened) -> int:
        count = len(opened.rows)
        self._bytes -= sum(row.size for row in opened.rows.values())
        opened.rows.clear()
        return count

    def hold(self, batch: int, row: Held) -> bool:
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

    def listed(self) -> tuple[OpenTransaction, ...]:
        """The oldest open transactions, bounded, each with some of its groups."""
        oldest = nsmallest(MAX_LISTED, self._open.items(), key=lambda item: (item[1].since_offset, item[0]))
        return tuple(
            OpenTransaction(
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
class Settled:
    """What a piece's markers did to what was held back before it."""

    released: list[Held] = field(default_factory=list)
    dropped: int = 0


def _groups(keys: Iterable[bytes]) -> tuple[str, ...]:
    found: set[str] = set()
    for key in islice(keys, MAX_LOOKED_AT):
        decoded = decode_key(key)
        if isinstance(decoded, LogKey):
            found.add(decoded.group)
    return tuple(sorted(found)[:MAX_LISTED])
