"""What feeds count: of one chunk, or of all since the start."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(slots=True)
class FeedCounts:
    """What was found in a chunk, or in several.

    `by_type` counts records by the number of their key type, those that are opaque included. `undecodable` counts keys
    and values that cannot be read, `unreadable_batches` those whose records, all or the rest of them, cannot be;
    `first_reason` is about the first of either. `keys_left_out` counts commits dropped because the `KeyTable` is full
    or their key too long, `dropped_commits` transactional ones that were aborted, fenced off or beyond what may be
    held back.
    """

    batches: int = 0
    records: int = 0
    tombstones: int = 0
    by_type: dict[int, int] = field(default_factory=dict)
    opaque: int = 0
    undecodable: int = 0
    unreadable_batches: int = 0
    first_reason: str = ""
    keys_left_out: int = 0
    dropped_commits: int = 0

    def count_types(self, numbers: "NDArray[np.int64]") -> None:
        """Count records by their key types; nearly all are commits."""
        others = numbers[numbers != 1].tolist()
        if len(numbers) > len(others):
            self.by_type[1] = self.by_type.get(1, 0) + len(numbers) - len(others)
        for number in others:
            self.by_type[number] = self.by_type.get(number, 0) + 1

    def add(self, other: "FeedCounts") -> None:
        """Count another chunk's records in."""
        self.batches += other.batches
        self.records += other.records
        self.tombstones += other.tombstones
        for number, count in other.by_type.items():
            self.by_type[number] = self.by_type.get(number, 0) + count
        self.opaque += other.opaque
        self.undecodable += other.undecodable
        self.unreadable_batches += other.unreadable_batches
        self.first_reason = self.first_reason or other.first_reason
        self.keys_left_out += other.keys_left_out
        self.dropped_commits += other.dropped_commits

    def cannot_decode(self, reason: str) -> None:
        """Count a record that cannot be read."""
        self.undecodable += 1
        self.first_reason = self.first_reason or reason

    def cannot_read(self, reason: str) -> None:
        """Count a batch that cannot be read to its end."""
        self.unreadable_batches += 1
        self.first_reason = self.first_reason or reason
