"""What share of a throttle copies really reach, where the size of the batches that are moved is unknown."""

from kafkakit.simulator.cluster import efficiency_of

DEFAULT_WINDOW = 11
DEFAULT_BACKOFF_MS = 1000
SMALL_BATCH_BYTES = 16_000  # a producer's default; such logs reach 93 % at Kafka's defaults
LARGE_BATCH_BYTES = 900_000  # those that reached 80 %


def throttle_share(window_num: int | None = None, backoff_ms: int | None = None) -> float:
    """The share of a throttle that a move reaches, to two digits; by the formula that the simulator has.

    Halfway between small batches and large ones: a log may hold either, and so a forecast misses both by least.
    `window_num` is the brokers' `replication.quota.window.num`, `backoff_ms` their `replica.fetch.backoff.ms`; None
    means Kafka's default.
    """
    window = DEFAULT_WINDOW if window_num is None else max(1, window_num)
    backoff = DEFAULT_BACKOFF_MS if backoff_ms is None else backoff_ms
    shares = [efficiency_of(window, backoff, size) for size in (SMALL_BATCH_BYTES, LARGE_BATCH_BYTES)]
    return round(sum(shares) / len(shares), 2)
