"""Traffic and latency of brokers from a metrics service: the queries, and their answers as what a law is told."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.autothrottle.decide.observed import BrokerSeen, Load, Observed
from kafkakit.core.durations import epoch_ms
from kafkakit.core.metric_sample import Sample

_ID = re.compile(r"(?:^|[^0-9])([0-9]{1,10})$", re.ASCII)
_TRAFFIC = 'sum by (LABEL) (rate(kafka_server_brokertopicmetrics_{}_total{{topic=""SELECTOR}}[WINDOW]))'
_TIME = 'max by (LABEL) (kafka_network_requestmetrics_{}{{request="Produce",quantile="0.99"SELECTOR}})'

PERCENTILE_MS = 300_000
"""How long Kafka's percentiles remember: they are those of a sample that decays over about five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficQueries:
    """PromQL, each with one series a broker; the broker's id is the number at the end of its `label`'s value.

    The usual ones are for the names of Kafka's example rules of the JMX exporter. `selector` are matchers to add, and
    `type_label` is the label of the broker's instance type, empty for none.
    """

    label: str = "broker_id"
    type_label: str = ""
    selector: str = ""
    window_s: int = 120

    def texts(self) -> Mapping[str, str]:
        """The queries by what they measure."""
        received, sent = _TRAFFIC.format("bytesin"), _TRAFFIC.format("bytesout")
        copied, served = _TRAFFIC.format("replicationbytesin"), _TRAFFIC.format("replicationbytesout")
        found = {
            "into": f"{received} + {copied}",
            "out": f"{sent} + {served}",
            "moved_into": _TRAFFIC.format("reassignmentbytesin"),
            "moved_out": _TRAFFIC.format("reassignmentbytesout"),
            "produce_p99_ms": _TIME.format("totaltimems"),
            "queue_ms": _TIME.format("requestqueuetimems"),
        }
        selector = f",{self.selector}" if self.selector else ""
        labels = ", ".join(filter(None, (self.label, self.type_label)))
        return {
            name: text.replace("LABEL", labels).replace("SELECTOR", selector).replace("WINDOW", f"{self.window_s}s")
            for name, text in found.items()
        }


def measured_of(
    answers: Mapping[str, tuple[Sample, ...]],
    queries: TrafficQueries,
    at_ms: int,
    window_s: int,
    problems: tuple[str, ...] = (),
) -> Observed:
    """The answers by broker; series without a broker's id and values that are no numbers are left out.

    `measured_ms` is the oldest time among the samples of all traffic, -1 where there is none.
    """
    values: dict[int, dict[str, float]] = {}
    types: dict[int, str] = {}
    oldest: list[int] = []
    for name, samples in answers.items():
        for sample in samples:
            match = _ID.search(sample.labels.get(queries.label, ""))
            if match is None or not math.isfinite(sample.value) or sample.value < 0:
                continue
            broker = int(match[1])
            values.setdefault(broker, {})[name] = sample.value
            types[broker] = sample.labels.get(queries.type_label, "") or types.get(broker, "")
            if name in ("into", "out"):
                oldest.append(epoch_ms(sample.time))
    brokers = {
        broker: BrokerSeen(
            broker=broker,
            into=Load(total=found.get("into"), moved=found.get("moved_into")),
            out=Load(total=found.get("out"), moved=found.get("moved_out")),
            produce_p99_ms=found.get("produce_p99_ms"),
            queue_ms=found.get("queue_ms"),
            instance_type=types[broker],
        )
        for broker, found in sorted(values.items())
    }
    return Observed(
        at_ms=at_ms,
        measured_ms=min(oldest, default=-1),
        window_ms=window_s * 1000,
        health_window_ms=PERCENTILE_MS,
        brokers=brokers,
        problems=problems if oldest else (*problems, "the metrics service has no traffic of any broker"),
    )
