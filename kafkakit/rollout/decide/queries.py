"""What is asked of metrics services about the health of a cluster, and their answers as a look."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafkakit.core.durations import epoch_ms
from kafkakit.core.metric_sample import Sample
from kafkakit.rollout.decide.health import EVENTS, HealthLook, Signal

_RATE = "sum(rate({}{{SELECTOR}}[WINDOW]))"
_OF_ALL = 'sum(rate({}{{topic=""ALSO}}[WINDOW]))'
_MANAGER, _TOPICS = "kafka_server_replicamanager_", "kafka_server_brokertopicmetrics_"
PROMETHEUS: Mapping[Signal, str] = {
    Signal.SHRINKS: _RATE.format(f"{_MANAGER}isrshrinks_total"),
    Signal.EXPANDS: _RATE.format(f"{_MANAGER}isrexpands_total"),
    Signal.LEADER_CHANGES: _RATE.format("kafka_controller_controllerstats_leaderelectionrateandtimems_count"),
    Signal.CLIENT_ERRORS: f"{_OF_ALL.format(f'{_TOPICS}failedproducerequests_total')} + "
    f"{_OF_ALL.format(f'{_TOPICS}failedfetchrequests_total')}",
    Signal.REQUEST_MS: 'max(kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"ALSO})',
}
"""PromQL for the names of Kafka's example rules of the JMX exporter; of events their rate a second."""
DATADOG: Mapping[Signal, str] = {
    Signal.SHRINKS: "sum:kafka.replication.isr_shrinks.rate{SELECTOR}",
    Signal.EXPANDS: "sum:kafka.replication.isr_expands.rate{SELECTOR}",
    Signal.LEADER_CHANGES: "sum:kafka.replication.leader_elections.rate{SELECTOR}",
    Signal.CLIENT_ERRORS: "sum:kafka.request.produce.failed.rate{SELECTOR} + "
    "sum:kafka.request.fetch.failed.rate{SELECTOR}",
    Signal.REQUEST_MS: "max:kafka.request.produce.time.99percentile{SELECTOR}",
}
"""Metrics of Datadog's integration for Kafka brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthQueries:
    """Queries by signal, each with one series; events are rates a second, counted over the time between looks."""

    texts: Mapping[Signal, str]
    every_s: float
    stale_s: float
    """A sample that is older counts as missing."""


def prometheus_queries(selector: str, every_s: float) -> HealthQueries:
    """Those of a Prometheus server; `selector` are matchers, such as `namespace="kafka"`."""
    # A rate needs two scrapes, which are often 30 s or a minute apart.
    window_s = max(60, math.ceil(2 * every_s))
    also = f",{selector}" if selector else ""
    texts = {
        s: text.replace("SELECTOR", selector).replace("ALSO", also).replace("WINDOW", f"{window_s}s")
        for s, text in PROMETHEUS.items()
    }
    return HealthQueries(texts=texts, every_s=every_s, stale_s=window_s + every_s)


def datadog_queries(tags: str, every_s: float) -> HealthQueries:
    """Those of Datadog; `tags` choose the cluster, such as `kafka_cluster:prod`."""
    rollup = max(20, math.ceil(every_s))
    texts = {
        s: " + ".join(f"{part}.rollup(avg, {rollup})" for part in text.replace("SELECTOR", tags or "*").split(" + "))
        for s, text in DATADOG.items()
    }
    return HealthQueries(texts=texts, every_s=every_s, stale_s=3 * rollup + every_s)


def look_of(
    answers: Mapping[Signal, tuple[Sample, ...]], queries: HealthQueries, at: datetime, problems: tuple[str, ...] = ()
) -> HealthLook:
    """The answers as one look; series without a number and samples that are too old are left out and named."""
    values: dict[Signal, float] = {}
    said = list(problems)
    for signal, samples in answers.items():
        numbers = [s for s in samples if math.isfinite(s.value)]
        fresh = [s for s in numbers if at - s.time <= timedelta(seconds=queries.stale_s)]
        if not fresh:
            said.append(f"{signal.value}: {'the newest sample is too old' if numbers else 'no series'}")
            continue
        total = sum(s.value for s in fresh)
        values[signal] = total * queries.every_s if signal in EVENTS else max(s.value for s in fresh)
    return HealthLook(at_ms=epoch_ms(at), values=values, problem="; ".join(said))
