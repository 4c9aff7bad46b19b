"""What share of a throttle copies really reach, where nobody knows how large the batches are that are moved."""

from kafkakit.simulator.cluster import efficiency_of

DEFAULT_WINDOW = 11
DEFAULT_BACKOFF_MS = 1000
USUAL_BATCH_BYTES = 900_000  # gives the 80 % that moves at Kafka's defaults reached; 16 kB ones reach 93 %


def throttle_share(window_num: int | None = None, backoff_ms: int | None = None) -> float:
    """The share of a throttle that a move reaches, to two digits; by the formula that the simulator has.

    `window_num` is the brokers' `replication.quota.window.num`, `backoff_ms` their `replica.fetch.backoff.ms`; None
    means Kafka's default.
    """
    window = DEFAULT_WINDOW if window_num is None else max(1, window_num)
    backoff = DEFAULT_BACKOFF_MS if backoff_ms is None else backoff_ms
    return round(efficiency_of(window, backoff, USUAL_BATCH_BYTES), 2)
