"""Traffic of brokers from Datadog: kafka-kit's queries by host, and tags that tell which host is which broker."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafkakit.autothrottle.decide.metrics import TrafficQueries, measured_of
from kafkakit.autothrottle.decide.observed import Observed
from kafkakit.core.durations import epoch_ms
from kafkakit.core.lists_in_words import some
from kafkakit.core.metric_sample import Sample

NET_TX = "avg:system.net.bytes_sent{service:kafka} by {host}"
NET_RX = "avg:system.net.bytes_rcvd{service:kafka} by {host}"
_TOLD = TrafficQueries(label="broker", type_label="type")
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostQueriesAsked:
    """Datadog's queries, each with one series a host; those that are not given are not asked.

    `copies_tx` and `copies_rx` are what copies of moves take of the traffic in bytes/s, `produce_ms` the latency of
    produce requests. Points are averages over `window_s`.
    """

    net_tx: str = NET_TX
    net_rx: str = NET_RX
    copies_tx: str | None = None
    copies_rx: str | None = None
    produce_ms: str | None = None
    broker_tag: str = "broker_id"
    type_tag: str = "instance-type"
    window_s: int = 120

    def texts(self) -> Mapping[str, str]:
        """The queries by what they measure, with kafka-kit's rollup where they have none of their own."""
        asked = {
            "out": self.net_tx,
            "into": self.net_rx,
            "moved_out": self.copies_tx,
            "moved_into": self.copies_rx,
            "produce_p99_ms": self.produce_ms,
        }
        rollup = f".rollup(avg, {self.window_s})"
        return {name: text if ".rollup(" in text else text + rollup for name, text in asked.items() if text}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTags:
    """Which broker runs on a host, None where no tag tells, and the host's instance type, empty where unknown."""

    broker: int | None = None
    instance_type: str = ""

    def is_complete(self, *, with_type: bool) -> bool:
        """True when there is nothing to look up again."""
        return self.broker is not None and bool(self.instance_type or not with_type)


def read_tags(tags: Collection[str], asked: HostQueriesAsked) -> HostTags:
    """The tags of one host; a value ends at its second colon, as in kafka-kit."""
    found = {words[0]: words[1] for words in (tag.strip().split(":") for tag in tags) if len(words) > 1}
    number = found.get(asked.broker_tag, "")
    is_id = bool(_NUMBER.fullmatch(number)) and int(number) < 2**31
    return HostTags(broker=int(number) if is_id else None, instance_type=found.get(asked.type_tag, ""))


def hosts_of(answers: Mapping[str, Collection[Sample]]) -> tuple[str, ...]:
    """The hosts that the answers name, sorted."""
    return tuple(sorted({s.labels["host"] for samples in answers.values() for s in samples if s.labels.get("host")}))


def measured_by_host(
    answers: Mapping[str, Collection[Sample]], tags: Mapping[str, HostTags], asked: HostQueriesAsked, at: datetime
) -> Observed:
    """The answers by broker; what cannot be used is among `problems`, by host, and left out.

    A point's time is the begin of what it averages over. One that ended more than `window_s` ago is too old. Hosts
    without `tags` are left out silently: what asked for their tags names them.
    """
    window = timedelta(seconds=asked.window_s)
    kept: dict[str, dict[int, tuple[str, Sample]]] = defaultdict(dict)
    faults: dict[str, set[str]] = defaultdict(set)
    for name, samples in answers.items():
        for sample in samples:
            host = sample.labels.get("host", "")
            found, end = tags.get(host), min(sample.time + window, at)
            fault = "" if found is None else _fault(found, sample, name, is_old=at - end > window)
            if not host:
                faults[f"{name}: the series has no host, the query must end in: by {{host}}"].add("*")
            elif fault:
                faults[fault].add(host)
            if not host or found is None or found.broker is None or fault:
                continue
            labels = {"broker": str(found.broker), "type": found.instance_type}
            other = kept[name].get(found.broker)
            if other is not None:
                faults[f"two hosts are broker {found.broker}, the later one counts"] |= {host, other[0]}
            if other is None or (other[1].time, other[0]) < (end, host):
                kept[name][found.broker] = host, Sample(labels, sample.value, end)
    told = {name: tuple(s for _, s in by_broker.values()) for name, by_broker in kept.items()}
    problems = tuple(f"{fault}: host {some(sorted(hosts))}" for fault, hosts in sorted(faults.items()))
    return measured_of(told, _TOLD, epoch_ms(at), asked.window_s, problems)


def _fault(tags: HostTags, sample: Sample, name: str, *, is_old: bool) -> str:
    if tags.broker is None:
        return "no tag tells the broker's id"
    if math.isnan(sample.value):
        return f"{name}: no points"
    if not math.isfinite(sample.value) or sample.value < 0:
        return f"{name}: a value that makes no sense"
    return f"{name}: the last point is too old" if is_old else ""
