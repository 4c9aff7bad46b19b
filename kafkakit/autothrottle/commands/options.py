"""The options of the pacer, and the pacer that they describe.

They say which law decides the rates, where the traffic of brokers is measured and what their networks can do, how the
service runs (its ticks, its HTTP API and its end), and what it tells meanwhile (lines on stderr, events to Datadog).
kafka-kit's flags that have another name here, or no meaning, are taken but hidden from help.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.autothrottle.decide.requests import HeadroomLimits, TrafficOfHosts
from kafkakit.cli.command_classes import print_version
from kafkakit.cli.common_options import MetricsAccess, MetricsSource, TagSource
from kafkakit.core.errors import UsageError
from kafkakit.core.options import option
from kafkakit.core.quantities import parse_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import ExitStack

    from kafkakit.autothrottle.act.pacer import Measure, OverrideStore, Pacer
    from kafkakit.autothrottle.act.service import EventSender, PacerService
    from kafkakit.autothrottle.decide.law import Capacities, Law
    from kafkakit.autothrottle.decide.pacer import Tick
    from kafkakit.autothrottle.decide.simulate import StatedRates
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.core.rpc import ServiceProbes
    from kafkakit.execution.act.leases import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class OverridePlace:
    """Where overrides are kept, and kafka-kit's variable of the cluster."""

    kafka_addr: str | None = option(None, hidden=True, envvar="AUTOTHROTTLE_BOOTSTRAP_SERVERS")
    zk_config_prefix: str = option(
        "",
        "--zk-config-prefix",
        envvar="AUTOTHROTTLE_ZK_CONFIG_PREFIX",
        metavar="PREFIX",
        help="Keep overrides only in kafka-kit's znodes below /PREFIX; needs a ZooKeeper. Without it, those below "
        "/autothrottle are read beside the control store if --zk-addr is given.",
    )
    zk_addr: str | None = option(
        None,
        envvar="AUTOTHROTTLE_ZK_ADDR",
        metavar="HOST:PORT,...",
        help="ZooKeeper, when it is not the profile's zookeeper.addr.",
    )

    def apply(self, cli: CliContext) -> None:
        """Take the ZooKeeper for this invocation; raises `UsageError` for one beside a default profile."""
        cli.refuse_default_profile_beside_zookeeper()
        if self.zk_addr is not None:
            cli.set_key("zookeeper.addr", self.zk_addr)

    def of_kafka_kit(self, cli: CliContext) -> OverridePlace:
        """The place for a command line of kafka-kit: the profile's ZooKeeper counts as named."""
        if self.zk_addr is None and cli.settings.zookeeper_addr:
            return replace(self, zk_addr=cli.settings.zookeeper_addr)
        return self

    def open(self, session: ClusterSession) -> OverrideStore:
        """The store; beside a ZooKeeper that is named, kafka-kit's usual znodes are read as well.

        Raises `UsageError` for a prefix without a ZooKeeper.
        """
        from kafkakit.autothrottle.act.pacer import ControlOverrides, ZnodeOverrides
        from kafkakit.autothrottle.act.service import BothOverrides

        if self.zk_config_prefix:
            return ZnodeOverrides(session.znodes, self.zk_config_prefix)
        control = ControlOverrides(session.control, session.cluster_id)
        if self.zk_addr is None:
            return control
        return BothOverrides(ZnodeOverrides(session.znodes, KAFKA_KIT_PREFIX), control)


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
    queries: TrafficOfHosts = TrafficOfHosts()

    @property
    def kind(self) -> MetricsSource:
        """The source, as given or as the other options and kafka-kit's variable of its key tell."""
        from kafkakit.config.read.environment import read_environment

        if self.source is not None:
            return self.source
        if self.prometheus_url is not None:
            return MetricsSource.PROMETHEUS
        is_datadog = self.api_key_file or self.queries.net_tx or self.queries.net_rx
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
        from kafkakit.autothrottle.act.pacer import ASKED_ONCE, measure_hosts, measure_with
        from kafkakit.autothrottle.decide.measurements import HostQueriesAsked, TrafficQueries

        warn, usual = session.cli.output.warn, HostQueriesAsked()
        match self.kind:
            case MetricsSource.BROKERS:
                return None
            case MetricsSource.DATADOG:
                asked = HostQueriesAsked(
                    queries=self.queries,
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
        from kafkakit.autothrottle.decide.law import (
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


def no_keeping(value: bool) -> None:
    """Refuse kafka-kit's flag that keeps throttles: here they are the pacer's own, and go with its moves."""
    if value:
        raise UsageError(
            "--skip-auto-delete-throttles is not supported: throttles of the moves go with them",
            hint="those that others set are never removed; leave the flag out",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaKitFlags:
    """kafka-kit's connections; its mode and clean-up mean nothing, as Kafka's requests and a journal do both."""

    zk_prefix: str = option(
        "",
        envvar="AUTOTHROTTLE_ZK_PREFIX",
        metavar="PREFIX",
        help="Kafka before 2.4: the path of Kafka in ZooKeeper, where its moves stand.",
    )
    kafka_api_request_timeout: int | None = option(
        None, hidden=True, envvar="AUTOTHROTTLE_KAFKA_API_REQUEST_TIMEOUT", min=1, max=3600
    )
    kafka_native_mode: bool = option(False, "--kafka-native-mode", hidden=True, envvar="AUTOTHROTTLE_KAFKA_NATIVE_MODE")
    cleanup_after: int = option(60, hidden=True, envvar="AUTOTHROTTLE_CLEANUP_AFTER")
    skip_auto_delete_throttles: bool = option(
        False,
        "--skip-auto-delete-throttles",
        hidden=True,
        envvar="AUTOTHROTTLE_SKIP_AUTO_DELETE_THROTTLES",
        callback=no_keeping,
    )
    version: bool = option(
        False, "--version", hidden=True, is_eager=True, envvar="AUTOTHROTTLE_VERSION", callback=print_version
    )

    def apply(self, cli: CliContext) -> None:
        """Take the connection for this invocation; to be called before the settings are in use."""
        if self.zk_prefix:
            cli.set_key("zookeeper.prefix", self.zk_prefix)
        if self.kafka_api_request_timeout is not None:
            cli.set_key("request_timeout", f"{self.kafka_api_request_timeout}s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficChoice:
    """What is known of brokers beside their moves, and kafka-kit's flags of its connection."""

    metrics: MetricsChoice
    capacities: CapacityChoice
    kafka_kit: KafkaKitFlags


class LawName(StrEnum):
    """How rates are decided: to keep clients' objectives, by kafka-kit's formula, or one rate for all."""

    SLO = "slo"
    HEADROOM = "headroom"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LawChoice:
    """How rates are decided; the usual numbers are those of the laws."""

    law: LawName | None = option(
        None,
        "--law",
        help="The rate policy; if not given: fixed with --rate, headroom (kafka-kit's) with flags that only "
        "kafka-kit's command lines have, such as --max-tx-rate or --cap-map, else slo.",
    )
    rate: str | None = option(None, "--rate", metavar="RATE", help="fixed: the rate for each broker.")
    min_rate: str | None = option(
        None,
        "--min-rate",
        envvar="AUTOTHROTTLE_MIN_RATE",
        metavar="RATE",
        help="No rate below this (slo 1MB, headroom 10MB); a bare number is MB.",
    )
    capacity: str | None = option(None, "--capacity", metavar="RATE", help="A broker's network in each direction.")
    broker_capacity: list[str] | None = option(
        None, "--broker-capacity", metavar="ID:RATE", help="Capacity of one broker. Repeatable."
    )
    client_rate: str | None = option(
        None, "--client-rate", metavar="RATE", help="slo: what clients may take, without metrics."
    )
    reserve: str = option("10%", "--reserve", metavar="PERCENT", help="slo: the share of a capacity that stays free.")
    p99: str | None = option(None, "--p99", metavar="DURATION", help="slo: the most that produce requests may take.")
    queue: str | None = option(None, "--queue", metavar="DURATION", help="slo: the most they may wait in the queue.")
    rule: list[str] | None = option(
        None, "--rule", metavar="RULE", help="slo: a limit at times of the day, in UTC. Repeatable."
    )
    headroom: HeadroomLimits = HeadroomLimits()
    hold: str = option("2m", "--hold", metavar="DURATION", help="slo: how long rates stay without metrics.")
    sample: str = option("5s", "--sample", metavar="DURATION", help="Time between the first two looks at the log dirs.")

    @property
    def name(self) -> LawName:
        """The law's name."""
        return self.law or (LawName.SLO if self.rate is None else LawName.FIXED)

    def signs(self, given: Mapping[str, str]) -> tuple[str, ...]:
        """The flags and variables of kafka-kit that mean its law, in the absence of anything stronger.
        What gave each option stands by the name of its parameter. A law or a rate that is named goes first, and
        options that only the law slo has keep that.
        """
        if self.law is not None or self.rate is not None or given.keys() & set(SLO_OPTIONS):
            return ()
        return tuple(given[name] for name in KAFKA_KIT_SIGNS if name in given)

    def chosen(self, given: Mapping[str, str]) -> LawChoice:
        """The choice, with kafka-kit's law named if what was `given` means it."""
        return replace(self, law=LawName.HEADROOM) if self.signs(given) else self

    def idle(self, given: Mapping[str, str], source: MetricsSource) -> list[str]:
        """Sentences that name what was `given` and does nothing with this law and this source of traffic."""
        sentences: list[str] = []
        for names, why in (
            (_IDLE[self.name], f"with --law {self.name}"),
            (_IDLE_WITHOUT[source], f"with traffic from {source}"),
            (WITHOUT_EFFECT, "here: Kafka's own requests are used, and a journal knows what is set"),
        ):
            if flags := [given[name] for name in names if name in given]:
                sentences.append(f"{', '.join(flags)} {'has' if len(flags) == 1 else 'have'} no effect {why}")
        return sentences

    def build(self, stale_ms: int = 45_000) -> Law:
        """The law, for metrics that are used up to an age of `stale_ms`; raises `UsageError` for an unreadable text."""
        from kafkakit.autothrottle.decide.law import HeadroomSettings, fixed_law, headroom_law
        from kafkakit.autothrottle.decide.slo import SloSettings, parse_time_rule, slo_law
        from kafkakit.core.quantities import parse_duration, parse_percent, parse_rate

        if (self.name is LawName.FIXED) != (self.rate is not None):
            raise UsageError("--rate is for --law fixed, which needs it")
        if self.rate is not None:
            return fixed_law(parse_rate(self.rate))
        capacity = _rate(self.capacity)
        least = _least_rate(self.min_rate or ("10MB" if self.name is LawName.HEADROOM else "1MB"))
        if self.name is LawName.HEADROOM:
            return headroom_law(HeadroomSettings(capacity=capacity, limits=self.headroom, min_rate=least))
        return slo_law(
            SloSettings(
                stale_ms=stale_ms,
                reserve=float(parse_percent(self.reserve, "--reserve")),
                capacity=capacity,
                client_rate=_rate(self.client_rate),
                p99_ms=_ms(self.p99, "--p99"),
                queue_ms=_ms(self.queue, "--queue"),
                rules=tuple(parse_time_rule(text) for text in self.rule or ()),
                min_rate=least,
                hold_ms=round(parse_duration(self.hold, "--hold") * 1000),
            )
        )

    def stated(self, capacities: Capacities) -> StatedRates:
        """What is stated of brokers, for a simulation; raises `UsageError` for a text that cannot be read."""
        from kafkakit.autothrottle.decide.simulate import StatedRates

        return StatedRates(
            capacity=_rate(self.capacity),
            capacity_of=capacities.of_broker,
            client_rate=_rate(self.client_rate),
        )


TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Set the pacer's rates over those that another process has set on brokers that take part in moves; they "
        "stand in the journal, and come back when the moves have ended.",
    ),
]


def open_pacer(
    cli: CliContext,
    session: ClusterSession,
    law: LawChoice,
    traffic: TrafficChoice,
    place: OverridePlace,
    lead: Lease | None,
    answer: str = "0",
    *,
    take_over: bool = False,
) -> Pacer:
    """The pacer of the session's cluster; `session` only reads, the pacer claims the cluster when it sets something."""
    from functools import partial

    from kafkakit.autothrottle.act.pacer import Pacer, PacerOptions, PacerPorts
    from kafkakit.autothrottle.act.service import rates_of_run
    from kafkakit.autothrottle.decide.law import with_capacities
    from kafkakit.cli.session import open_access
    from kafkakit.core.quantities import parse_duration, parse_duration_or_zero

    metrics, capacities = traffic.metrics, traffic.capacities.read(session, law.broker_capacity)
    options = PacerOptions(
        law=with_capacities(law.build(metrics.stale_ms), capacities),
        law_name=law.name.value,
        by=session.requester,
        sample_s=parse_duration(law.sample, "--sample"),
        answer_s=parse_duration_or_zero(answer),
        take_over=take_over,
    )
    ports = PacerPorts(
        admin=session.admin,
        clock=session.clock,
        store=session.control,
        overrides=place.open(session),
        open_access=partial(open_access, cli, "autothrottle", cluster_id=session.cluster_id),
        measure=metrics.measure(session, with_type=bool(capacities.of_type)),
        rates_of_run=partial(rates_of_run, session.settings.state_dir, session.cluster_id),
    )
    return Pacer(session.cluster_id, ports, lead, options)


def read_token(file: Path | None, listen: str, *, no_token: bool) -> str | None:
    """The token of the API: "" where this host needs none, None where only its reads are answered.

    Raises `UsageError` for an address that other machines reach without a token, and for a file without a sound one.
    """
    from kafkakit.core.rpc import is_loopback, parse_listen
    from kafkakit.wiring import read_input

    if file is not None:
        if no_token:
            raise UsageError("--token-file and --no-token exclude each other")
        token = read_input(file, 4096).decode("ascii", "replace").strip()
        if not 16 <= len(token) <= 512 or not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError(
                f"{file} holds no token", hint="one line of 16 to 512 letters, such as from: openssl rand -hex 32"
            )
        return token
    if listen != "none" and not is_loopback(parse_listen(listen)[0]):
        raise UsageError(f"{listen} can be reached from other machines", hint="protect it with --token-file")
    return "" if no_token else None


def open_api(
    stack: ExitStack,
    log: Callable[[str], None],
    service: PacerService,
    overrides: OverrideStore,
    listen: str,
    token: str | None,
    names: Collection[str] = (),
    probes: ServiceProbes | None = None,
) -> Callable[[], None]:
    """Serve the HTTP API until `stack` ends; `names` are of this server, beside where it listens.

    What comes back raises `OperationFailedError` if the API is not served any more.
    """
    from contextlib import closing

    from kafkakit.autothrottle.act.service import PacerApi
    from kafkakit.autothrottle.report import service_pages
    from kafkakit.wiring import open_page_server

    if listen == "none":
        return lambda: None
    pages = service_pages(lambda: service.last, lambda: service.is_leader, lambda: service.failure)
    api = PacerApi(overrides, pages, token, service.wake, log)
    server = stack.enter_context(closing(open_page_server(listen, api.answer, names, probes=probes)))
    log(f"serving http://{server.address}/throttle, /healthz and /metrics")
    return server.require_listening


def _rate(text: str | None) -> float | None:
    from kafkakit.core.quantities import parse_rate

    return None if text is None else float(parse_rate(text))


def _ms(text: str | None, flag: str) -> float | None:
    from kafkakit.core.quantities import parse_duration

    return None if text is None else parse_duration(text, flag) * 1000


def _least_rate(text: str) -> int:
    """A rate, or a small bare number of MB, which is how kafka-kit takes it."""
    from kafkakit.core.quantities import BARE_RATE_MIN, parse_rate

    bare = text.strip()
    is_bare = bare.replace(".", "", 1).isascii() and bare.replace(".", "", 1).isdigit()
    if is_bare and float(bare) >= BARE_RATE_MIN:
        from kafkakit.core.errors import UsageError

        raise UsageError(f"--min-rate {bare:.40} has no unit", hint=f"write {bare:.40}B or {bare:.40}MB")
    return parse_rate(f"{bare}MB" if is_bare else text)


KAFKA_KIT_PREFIX = "autothrottle"
"""Where kafka-kit keeps overrides unless it is told otherwise."""
HEADROOM_OPTIONS = ("max_tx_rate", "max_rx_rate", "change_threshold", "failure_threshold")
SLO_OPTIONS = ("client_rate", "reserve", "p99", "queue", "rule", "hold")
WITHOUT_EFFECT = ("kafka_native_mode", "cleanup_after")
KAFKA_KIT_SIGNS = (*HEADROOM_OPTIONS, "cap_map", *WITHOUT_EFFECT, "kafka_api_request_timeout")
"""Parameters that command lines of kafka-kit have, and others seldom."""
_CAPACITIES = ("capacity", "broker_capacity", "cap_map", "capacity_file", "capacity_tag")
_IDLE: Mapping[LawName, tuple[str, ...]] = {
    LawName.SLO: HEADROOM_OPTIONS,
    LawName.HEADROOM: SLO_OPTIONS,
    LawName.FIXED: (*HEADROOM_OPTIONS, *SLO_OPTIONS, *_CAPACITIES, "min_rate"),
}
_DATADOG = ("net_tx_query", "net_rx_query", "copies_tx_query", "copies_rx_query", "produce_latency_query")
_IDLE_WITHOUT: Mapping[MetricsSource, tuple[str, ...]] = {
    MetricsSource.BROKERS: (*_DATADOG, "broker_label", "instance_type_tag", "metrics_window", "prometheus_selector"),
    MetricsSource.PROMETHEUS: _DATADOG,
    MetricsSource.DATADOG: ("prometheus_selector", "prometheus_url"),
}

KEY_PREFIX = "AUTOTHROTTLE"
FRESH_MS = 45_000


def _label(text: str, flag: str) -> str:
    if not text.isascii() or not text.isidentifier():
        raise UsageError(f"{flag} {text!r:.60} is not a valid label name")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChoice:
    """Events to Datadog, as kafka-kit sends them."""

    dd_events: bool | None = option(
        None,
        "--dd-events/--no-dd-events",
        help="Send events to Datadog for what changed, as kafka-kit does; the default if traffic comes from Datadog.",
    )
    dd_event_tags: str = option(
        "", envvar="AUTOTHROTTLE_DD_EVENT_TAGS", metavar="TAG,...", help="More tags of these events."
    )

    def open(self, stack: ExitStack, session: ClusterSession, metrics: MetricsChoice) -> EventSender | None:
        """What sends them until `stack` ends, None for no events; raises `UsageError` where there is no key."""
        from contextlib import closing

        from kafkakit.autothrottle.act.service import EventSender
        from kafkakit.autothrottle.decide.pacer import event_tags
        from kafkakit.wiring import open_datadog_events

        wanted = metrics.kind is MetricsSource.DATADOG if self.dd_events is None else self.dd_events
        if not wanted:
            return None
        warn = session.cli.output.warn
        api = open_datadog_events(metrics.datadog_site, metrics.api_key_file, warn, KEY_PREFIX)
        return stack.enter_context(closing(EventSender(api.send_event, event_tags(self.dd_event_tags), warn)))


class ServiceLog:
    """Lines on stderr; with `-o json` each is one JSON object, and those of ticks have the whole tick."""

    def __init__(self, session: ClusterSession, events: EventSender | None) -> None:
        from kafkakit.cli.output import OutputFormat

        self._session, self._events = session, events
        self._is_json = session.cli.output.output_format is OutputFormat.JSON

    def say(self, line: str, tick: Tick | None = None) -> None:
        """Write one line; for any thread."""
        from kafkakit.autothrottle.report import log_line

        session = self._session
        session.cli.output.say(log_line(session.clock.now(), line, tick) if self._is_json else line)

    def tick(self, tick: Tick) -> None:
        """Write the line of a tick, and send its events."""
        from kafkakit.autothrottle.report import tick_line

        self.say(tick_line(tick), tick)
        if self._events is not None:
            self._events.see(tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChoice:
    """The options of `run` that `once` does not have."""

    interval: str = option(
        "15s",
        "--interval",
        envvar="AUTOTHROTTLE_INTERVAL",
        metavar="DURATION",
        help="Time between two ticks; a bare number is seconds.",
    )
    listen: str = option(
        "127.0.0.1:8080",
        "--listen",
        "--api-listen",
        envvar="AUTOTHROTTLE_API_LISTEN",
        metavar="HOST:PORT",
        help="Address of the HTTP API; it is not encrypted. `none`: no API.",
    )
    http_name: list[str] | None = option(
        None,
        "--http-name",
        metavar="HOST",
        help="Another name under which a --listen of this host is reached, as behind a proxy. Repeatable.",
    )
    token_file: Path | None = option(
        None,
        "--token-file",
        metavar="FILE",
        help="The bearer token of the API, for everything but reads from this host.",
    )
    no_token: bool = option(
        False, "--no-token", help="Let any process of this host change overrides, as kafka-kit does."
    )
    remove_on_exit: bool = option(
        False, "--remove-on-exit", help="Remove the pacer's throttles at SIGTERM even while moves run."
    )
