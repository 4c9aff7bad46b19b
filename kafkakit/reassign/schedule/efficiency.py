"""What share of a throttle copies really reach: brokers stay below it for reasons of their own."""

# Measured on 4.1 brokers, moves of 60 MB partitions under 2 to 8 MB/s: window in samples of 1 s, fetch backoff in ms.
MEASURED = {(11, 1000): 0.80, (3, 1000): 0.72, (3, 100): 0.98}
DEFAULT_WINDOW = 11
DEFAULT_BACKOFF_MS = 1000


def throttle_share(window_num: int | None = None, backoff_ms: int | None = None) -> float:
    """The share of a throttle that a move reaches, from 0.72 to 0.98.

    `window_num` is the brokers' `replication.quota.window.num`, `backoff_ms` their `replica.fetch.backoff.ms`; None
    means Kafka's default. A follower that is throttled sleeps the backoff, in which part of its share goes unused.
    Between measured settings the worst of those that are no better counts, so that an ETA is rather too late.
    """
    window = DEFAULT_WINDOW if window_num is None else window_num
    backoff = DEFAULT_BACKOFF_MS if backoff_ms is None else backoff_ms
    if backoff <= 100:
        return MEASURED[3, 100] if window <= 3 else MEASURED[11, 1000]
    return MEASURED[3, 1000] if window < DEFAULT_WINDOW else MEASURED[11, 1000]
