"""What operators set for a law of rates, and for the metrics that it looks at.

Commands load this module before they know whether they will need a law, so it needs little.
"""

from dataclasses import dataclass

from kafkakit.core.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomLimits:
    """How much of what is free copies take, which changes are written, and how often metrics may fail."""

    max_tx_percent: float = option(
        90.0,
        "--max-tx-rate",
        envvar="AUTOTHROTTLE_MAX_TX_RATE",
        min=0.1,
        max=99.9,
        help="headroom: percent of what is free to send.",
    )
    max_rx_percent: float = option(
        90.0,
        "--max-rx-rate",
        envvar="AUTOTHROTTLE_MAX_RX_RATE",
        min=0.1,
        max=99.9,
        help="headroom: percent of what is free to receive.",
    )
    change_percent: float = option(
        10.0,
        "--change-threshold",
        envvar="AUTOTHROTTLE_CHANGE_THRESHOLD",
        min=0,
        max=100,
        help="headroom: percent of change worth a write.",
    )
    failure_threshold: int = option(
        1,
        "--failure-threshold",
        envvar="AUTOTHROTTLE_FAILURE_THRESHOLD",
        min=0,
        max=1000,
        help="headroom: looks without metrics to pass over.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficOfHosts:
    """Queries of Datadog, each with one series a host; without those for traffic kafka-kit's are asked."""

    net_tx: str | None = option(
        None,
        "--net-tx-query",
        envvar="AUTOTHROTTLE_NET_TX_QUERY",
        metavar="QUERY",
        help="Datadog: bytes/s sent by host; kafka-kit's query when not given.",
    )
    net_rx: str | None = option(
        None,
        "--net-rx-query",
        envvar="AUTOTHROTTLE_NET_RX_QUERY",
        metavar="QUERY",
        help="Datadog: bytes/s received by host.",
    )
    copies_tx: str | None = option(
        None,
        "--copies-tx-query",
        metavar="QUERY",
        help="Datadog: the part of it that copies of moves take.",
    )
    copies_rx: str | None = option(
        None, "--copies-rx-query", metavar="QUERY", help="Datadog: the same of what is received."
    )
    produce_ms: str | None = option(
        None, "--produce-latency-query", metavar="QUERY", help="Datadog: milliseconds of produce requests by host."
    )
