"""What one call of a feed counts while it runs."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(slots=True)
class Tally:
    """Counts of one call of a feed while it runs."""

    batches: int = 0
    records: int = 0
    tombstones: int = 0
    by_type: dict[int, int] = field(default_factory=dict)
    opaque: int = 0
    undecodable: int = 0
    unreadable_batches: int = 0
    first_reason: str = ""
    keys_left_out: int = 0
    dropped: int = 0

    def count_types(self, numbers: "NDArray[np.int64]") -> None:
        """Count records by their key types; nearly all are commits."""
        others = numbers[numbers != 1].tolist()
        if len(numbers) > len(others):
            self.by_type[1] = self.by_type.get(1, 0) + len(numbers) - len(others)
        for number in others:
            self.by_type[number] = self.by_type.get(number, 0) + 1

    def cannot_decode(self, reason: str) -> None:
        """Count a record that cannot be read."""
        self.undecodable += 1
        self.first_reason = self.first_reason or reason

    def cannot_read(self, reason: str) -> None:
        """Count a batch that cannot be read to its end."""
        self.unreadable_batches += 1
        self.first_reason = self.first_reason or reason
