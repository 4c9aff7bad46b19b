"""Where the traffic of brokers is measured, and what their networks can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.cli.metrics_options import MetricsAccess, MetricsSource
from kafkakit.cli.option_groups import option
from kafkakit.cli.tag_options import TagSource
from kafkakit.core.durations import parse_seconds
from kafkakit.core.errors import UsageError

if TYPE_CHECKING:
    from kafkakit.autothrottle.act.pacer import Measure
    from kafkakit.autothrottle.decide.capacities import Capacities
    from kafkakit.cli.session import ClusterSession

KEY_PREFIX = "AUTOTHROTTLE"
FRESH_MS = 45_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsChoice(MetricsAccess):
    """Where traffic is measured; without a service the brokers' log dirs alone tell what moves."""

    source: MetricsSource | None = option(
        None,
        "--source",
        help="Where traffic is measured; brokers unless options or keys of a service are given.",
    )
    prometheus_url: str | None = option(
        None, "--prometheus-url", metavar="URL", help="Prometheus, or what answers as it does."
    )
    broker_label: str = option(
        "broker_id",
        "--broker-label",
        "--broker-id-tag",
        envvar="AUTOTHROTTLE_BROKER_ID_TAG",
        metavar="NAME",
        help="Prometheus: the label whose value ends with a broker's id. Datadog: the tag of a host.",
    )
    instance_type_tag: str | None = option(
        None,
        envvar="AUTOTHROTTLE_INSTANCE_TYPE_TAG",
        metavar="NAME",
        help="The label, or the tag (there instance-type when not given), with the instance type.",
    )
    metrics_window: str = option(
        "1m",
        "--metrics-window",
        envvar="AUTOTHROTTLE_METRICS_WINDOW",
        metavar="DURATION",
        help="The time that traffic is averaged over; a bare number is seconds.",
    )
    net_tx_query: str | None = option(
        None,
        envvar="AUTOTHROTTLE_NET_TX_QUERY",
        metavar="QUERY",
        help="Datadog: bytes/s sent by host; kafka-kit's query when not given.",
    )
    net_rx_query: str | None = option(
        None,
        envvar="AUTOTHROTTLE_NET_RX_QUERY",
        metavar="QUERY",
        help="Datadog: bytes/s received by host.",
    )
    copies_tx_query: str | None = option(
        None, metavar="QUERY", help="Datadog: the part of it that copies of moves take."
    )
    copies_rx_query: str | None = option(None, metavar="QUERY", help="Datadog: the same of what is received.")
    produce_latency_query: str | None = option(
        None, metavar="QUERY", help="Datadog: milliseconds of produce requests by host."
    )

    @property
    def kind(self) -> MetricsSource:
        """The source, as given or as the other options and kafka-kit's variable of its key tell."""
        from kafkakit.config.read.environment import read_environment

        if self.source is not None:
            return self.source
        if self.prometheus_url is not None:
            return MetricsSource.PROMETHEUS
        is_datadog = self.api_key_file or self.net_tx_query or self.net_rx_query
        if is_datadog or read_environment().get(f"{KEY_PREFIX}_API_KEY"):
            return MetricsSource.DATADOG
        return MetricsSource.BROKERS

    @property
    def window_s(self) -> int:
        """The time that traffic is averaged over."""
        return max(1, round(parse_seconds(self.metrics_window, "--metrics-window")))

    @property
    def stale_ms(self) -> int:
        """The age up to which values count; Datadog has the last whole window, and nothing newer."""
        return FRESH_MS + (self.window_s * 1000 if self.kind is MetricsSource.DATADOG else 0)

    def measure(self, session: ClusterSession, *, with_type: bool) -> Measure | None:
        """What asks the service, None for the brokers; `with_type`: instance types are needed. Raises `UsageError`."""
        from kafkakit.autothrottle.act.measure import ASKED_ONCE, measure_hosts, measure_with
        from kafkakit.autothrottle.decide.datadog import HostQueriesAsked
        from kafkakit.autothrottle.decide.metrics import TrafficQueries

        warn, usual = session.cli.output.warn, HostQueriesAsked()
        match self.kind:
            case MetricsSource.BROKERS:
                return None
            case MetricsSource.DATADOG:
                asked = HostQueriesAsked(
                    net_tx=self.net_tx_query or usual.net_tx,
                    net_rx=self.net_rx_query or usual.net_rx,
                    copies_tx=self.copies_tx_query,
                    copies_rx=self.copies_rx_query,
                    produce_ms=self.produce_latency_query,
                    broker_tag=self.broker_label,
                    type_tag=self.instance_type_tag or usual.type_tag,
                    window_s=self.window_s,
                )
                # Twice the time that is needed, so that points that are too old are seen and named.
                service = self.open_datadog(2 * self.window_s, warn, KEY_PREFIX, ASKED_ONCE)
                return measure_hosts(service, session.clock, asked, with_type=with_type)
        queries = TrafficQueries(
            label=_label(self.broker_label, "--broker-label"),
            type_label=_label(self.instance_type_tag, "--instance-type-tag") if self.instance_type_tag else "",
            selector=self.prometheus_selector,
            window_s=self.window_s,
        )
        url = self.prometheus_url or "http://localhost:9090"
        return measure_with(self.open_prometheus(url, warn, warn, ASKED_ONCE), session.clock, queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityChoice:
    """What the networks of instance types and brokers can do."""

    tags: TagSource

    cap_map: str = option(
        "",
        envvar="AUTOTHROTTLE_CAP_MAP",
        metavar="JSON",
        help="""Capacities by instance type in MB/s, as kafka-kit takes them: '{"i3.large": 90}'.""",
    )
    capacity_file: Path | None = option(
        None, metavar="FILE", help="YAML or JSON with capacities: brokers, instance_types."
    )
    capacity_tag: str | None = option(
        None, metavar="KEY", help="The tag of brokers that holds their capacity, such as 1.25GB."
    )

    def read(self, session: ClusterSession, broker_capacity: list[str] | None) -> Capacities:
        """All that is stated, a broker's own option before the file, and that before tags, which are read once.

        Raises `InputError`, `UsageError`, and `TryLaterError` where the store of tags does not answer.
        """
        from kafkakit.autothrottle.decide.capacities import (
            LIMIT_BYTES,
            Capacities,
            read_broker_capacity,
            read_cap_map,
            read_capacity_file,
            tagged_capacities,
        )

        found = read_cap_map(self.cap_map) if self.cap_map else Capacities()
        if self.capacity_file is not None:
            data = session.read_input(self.capacity_file, LIMIT_BYTES)
            found = found.over(read_capacity_file(data, str(self.capacity_file)))
        if self.capacity_tag is not None:
            found = found.over(tagged_capacities(self.tags.read(session).brokers, self.capacity_tag))
        own = Capacities(of_broker=dict(read_broker_capacity(text) for text in broker_capacity or ()))
        return own.over(found)


def _label(text: str, flag: str) -> str:
    if not text.isascii() or not text.isidentifier():
        raise UsageError(f"{flag} {text!r:.60} is no name of a label")
    return text
