"""What a law of rates is told: traffic and health of brokers, and which brokers copy from which, at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Bytes per second through a broker's network in one direction; None where the source does not say.

    `total` is all traffic, `moved` the part of it that copies of moves take, and `capacity` what the network can do.
    `copied` is the same as `moved` between the last two looks at the log dirs, which see a move sooner than averages.
    """

    total: float | None = None
    moved: float | None = None
    copied: float | None = None
    capacity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSeen:
    """One broker; `produce_p99_ms` and `queue_ms` are its request latency and queue time where the source has them.

    `instance_type` is the kind of machine it runs on, empty where unknown.
    """

    broker: int
    into: Load = field(default_factory=Load)
    out: Load = field(default_factory=Load)
    produce_p99_ms: float | None = None
    queue_ms: float | None = None
    is_alive: bool = True
    instance_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Copies of moves from one broker (the leader) to another: bytes that are missing, and those written meanwhile."""

    source: int
    destination: int
    partitions: int
    left_bytes: int
    ingest_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One look at `at_ms`. The metrics are averages over `window_ms` that end at `measured_ms`, -1 for none.

    Latencies tell of `health_window_ms`, where that is longer.
    `under_replicated` and `under_min_isr` count partitions that do not move, None where unknown. `problems` say in
    words what could not be read.
    """

    at_ms: int
    measured_ms: int = -1
    window_ms: int = 0
    health_window_ms: int = 0
    brokers: Mapping[int, BrokerSeen] = field(default_factory=dict)
    flows: tuple[Flow, ...] = ()
    under_replicated: int | None = None
    under_min_isr: int | None = None
    problems: tuple[str, ...] = ()
