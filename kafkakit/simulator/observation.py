"""What can be seen of a simulation at one moment: copies under way, brokers, disks."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySeen:
    """One copy of a partition that moves."""

    key: TopicPartition
    broker: int
    log_dir: str
    bytes: int
    in_isr: bool
    adding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSeen:
    """One broker; rates are bytes per second in the last tick.

    `moved_into` and `moved_out` are copying alone, `use_into` and `use_out` the share of the line that all traffic
    takes. `queue` stands for produce latency: how far the demand in the fuller direction is above the line
    (0: everything fits at once).
    """

    id: int
    alive: bool
    moved_into: float
    moved_out: float
    use_into: float
    use_out: float
    queue: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSeen:
    """One log dir; `used_bytes` includes deleted copies whose space is not free yet, `arriving_bytes` is what copies
    in it still have to fetch."""

    broker: int
    path: str
    used_bytes: int
    arriving_bytes: int
    total_bytes: int | None
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The cluster at `at_s`: copies of moving partitions, brokers by id, disks, and finish times of moves so far."""

    at_s: int
    copies: tuple[CopySeen, ...]
    brokers: tuple[BrokerSeen, ...]
    disks: tuple[DiskSeen, ...]
    finished: Mapping[TopicPartition, int]
    under_replicated: int
    under_min_isr: int
    offline: int
