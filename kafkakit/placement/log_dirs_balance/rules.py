"""How full log dirs may become, and how evenly they are to be filled."""

from dataclasses import dataclass
from fractions import Fraction

from kafkakit.placement.broker_disks import DirStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class DirRules:
    """The rules for the log dirs of every broker.

    `max_use` is the part of a disk that may be full, and `head_room` bytes stay free besides on every broker, by
    capacity on each dir. With `band` copies may
    change dirs inside a broker so that each dir ends within that part of its share of the broker's used bytes, by
    capacity; without it only new copies get a dir.
    """

    max_use: Fraction = Fraction(9, 10)
    head_room: int = 0
    band: Fraction | None = None

    def room(self, log_dir: DirStorage, broker_bytes: int) -> int:
        """How many bytes more the dir may hold than it does now; 0 for one that is closed or reports no sizes.

        `broker_bytes` is the capacity of all dirs of the broker.
        """
        if not measured(log_dir) or not log_dir.is_open:
            return 0
        total, usable = log_dir.total_bytes or 0, log_dir.usable_bytes or 0
        kept = -(-self.head_room * total // max(broker_bytes, 1))
        return max(0, usable - kept - (total - int(total * self.max_use)))


def measured(log_dir: DirStorage) -> bool:
    """True when the dir's disk is known; without that it is not known what fits."""
    return bool(log_dir.total_bytes) and log_dir.usable_bytes is not None
