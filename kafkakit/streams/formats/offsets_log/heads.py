"""The batches of a chunk as columns, one row for each; only the chain of their lengths is walked in Python."""

from dataclasses import dataclass, replace
from struct import Struct
from typing import TYPE_CHECKING

from kafkakit.core.columns import Columns
from kafkakit.streams.formats.log_batches import HEADER_BYTES, MAGIC, MAX_OFFSET, MIN_OLD_LENGTH, PREFIX_BYTES, Batch
from kafkakit.streams.formats.offsets_log.views import Views

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Heads(Columns):
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


def read_heads(buffer: bytes) -> Heads:
    """The batch headers of a raw read; the cut tail is left out."""
    import numpy as np

    position = np.array(_positions(buffer), np.int64)
    views = Views(buffer if len(buffer) >= HEADER_BYTES else buffer + bytes(HEADER_BYTES))
    length = views.number(position + 8, 4)
    magic = views.byte(position + 16)
    short = length < np.where(magic == MAGIC, HEADER_BYTES - PREFIX_BYTES, MIN_OLD_LENGTH)
    ends = np.flatnonzero(short | (position + PREFIX_BYTES + length > len(buffer)))
    stopped = ""
    if ends.size:
        first = ends[0]
        stopped = f"a batch length of {int(length[first])}" if short[first] else ""
        position, length, magic = position[:first], length[:first], magic[:first]
    heads = Heads(
        position, length + PREFIX_BYTES, views.number(position, 8), views.number(position + 23, 4),
        views.number(position + 21, 2), views.number(position + 35, 8), views.number(position + 43, 8),
        views.number(position + 51, 2), views.number(position + 57, 4), stopped,
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


def _positions(buffer: bytes) -> list[int]:
    """Where batches begin if all lengths are right. Lengths are taken as unsigned here, so that the walk ends."""
    length_at = Struct(">I").unpack_from
    found: list[int] = []
    add = found.append
    at, last = 0, len(buffer) - PREFIX_BYTES - MIN_OLD_LENGTH
    while at <= last:
        add(at)
        at += PREFIX_BYTES + length_at(buffer, at + 8)[0]
    return found


def batch_at(heads: Heads, index: int) -> Batch:
    """One batch of the heads as a value."""
    return Batch(
        int(heads.position[index]), int(heads.size[index]), int(heads.base_offset[index]),
        int(heads.attributes[index]), int(heads.last_delta[index]), 0, int(heads.max_ms[index]),
        int(heads.producer_id[index]), int(heads.producer_epoch[index]), int(heads.count[index]),
    )  # fmt: skip
