"""What one call of a feed counts while it runs."""

from dataclasses import dataclass, field


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
    committed: int = 0
    aborted: int = 0
    dropped: int = 0

    def cannot_decode(self, reason: str) -> None:
        """Count a record that cannot be read."""
        self.undecodable += 1
        self.first_reason = self.first_reason or reason

    def cannot_read(self, reason: str) -> None:
        """Count a batch that cannot be read to its end."""
        self.unreadable_batches += 1
        self.first_reason = self.first_reason or reason
