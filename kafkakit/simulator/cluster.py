"""What a simulated cluster is made of: brokers with lines and disks, partitions, and how quotas and time behave."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.core.model import TopicPartition

MB = 1_000_000
DAY_S = 86_400
FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SimDisk:
    """One log dir: what it holds at the start (all partitions, known or not), in bytes; `total_bytes` None: no limit.

    `growth_bytes_per_s` is what partitions that are not simulated add to it.
    """

    path: str = ""
    total_bytes: int | None = None
    used_bytes: int = 0
    growth_bytes_per_s: float = 0.0
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimBroker:
    """One broker: bytes per second of its line each way, and what clients and other partitions take of that."""

    id: int
    disks: tuple[SimDisk, ...] = (SimDisk(),)
    line_into: float = 125e6
    line_out: float = 125e6
    background_into: float = 0.0
    background_out: float = 0.0
    alive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SimPartition:
    """One partition with its full copies; the first living one of `replicas` leads unless `leader` names another.

    `isr` None: all. `ingest_bytes_per_s` is what producers write, before the day's curve; retention deletes nothing.
    `dirs` is the place of each copy, by broker; a copy without a dir is in its broker's first.
    """

    key: TopicPartition
    replicas: tuple[int, ...]
    size_bytes: int
    ingest_bytes_per_s: float = 0.0
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    min_isr: int = 1
    dirs: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaModel:
    """How brokers keep a replication quota; figures are of real brokers (4.1), see `efficiency_of`.

    The average runs over `window_num` samples of a second. `efficiency` is the share of the setting that is reached in
    the long run; the default is what was seen with large batches. Bytes come in lumps of up to `lump_bytes` a
    partition and `response_bytes` an answer (`replica.fetch.max.bytes`, `replica.fetch.response.max.bytes`).
    """

    window_num: int = 11
    efficiency: float = 0.8
    lump_bytes: int = MB
    response_bytes: int = 10 * MB


@dataclass(frozen=True, slots=True, kw_only=True)
class SimCluster:
    """A cluster at the start of a simulation.

    `day_curve` multiplies every ingest and growth: its entries share a day evenly, and time 0 is the day's start.
    A dead broker leaves the ISR after `session_timeout_s`; a deleted copy frees its space after `deletion_delay_s`;
    the controller ends `finishes_per_s` moves a second. With `wildcard` the throttle lists are `*`: then the bytes of
    in-sync followers are counted too, and recovering ones are limited. `disk_bytes_per_s` is how fast a broker copies
    between its own dirs.
    """

    brokers: tuple[SimBroker, ...]
    partitions: tuple[SimPartition, ...]
    quota: QuotaModel = QuotaModel()
    day_curve: tuple[float, ...] = (1.0,)
    session_timeout_s: int = 9
    deletion_delay_s: int = 60
    finishes_per_s: int = 100
    wildcard: bool = False
    disk_bytes_per_s: float = 200e6


@dataclass(frozen=True, slots=True, kw_only=True)
class SimMove:
    """A request: bring the partition to `target`; `dirs` names log dirs for new copies, by broker."""

    key: TopicPartition
    target: tuple[int, ...]
    dirs: Mapping[int, str] = field(default_factory=dict)


def lump_of(batch_bytes: int) -> int:
    """Bytes of whole batches that a follower gets of a partition in one fetch of `replica.fetch.max.bytes` (1 MiB)."""
    return max(1, FETCH_BYTES // batch_bytes) * batch_bytes


def efficiency_of(window_num: int, backoff_ms: int, batch_bytes: int) -> float:
    """The share of a throttle that copies reach, by broker settings and the size of the batches that are moved.

    Two losses, both measured on brokers of 4.1. A throttled follower sleeps `replica.fetch.backoff.ms` at the edge of
    each of `replication.quota.window.num` samples. And an answer is cut at 1 MiB wherever that falls: the quota counts
    the piece of a batch at its end, the follower throws it away and fetches it again. So batches of 16 kB reach 93 %
    at the defaults (11, 1000), batches of 900 kB 80 %, batches of 600 kB 53 %.
    """
    waited = 0.8 * min(1.0, backoff_ms / 1000) / window_num
    return (1 - waited) * min(1.0, lump_of(batch_bytes) / FETCH_BYTES)
