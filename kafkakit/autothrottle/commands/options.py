"""The options of the pacer, and the pacer that they describe."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from kafkakit.autothrottle.act.overrides import OverrideStore
    from kafkakit.autothrottle.act.pacer import Measure, Pacer
    from kafkakit.autothrottle.act.run import PacerService
    from kafkakit.autothrottle.decide.law import Law
    from kafkakit.autothrottle.decide.overrides import Override
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.execution.act.leases import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class OverridePlace:
    """Where overrides are kept."""

    zk_config_prefix: Annotated[
        str,
        typer.Option(
            "--zk-config-prefix",
            metavar="PREFIX",
            help="Keep overrides in kafka-kit's znodes below /PREFIX (there: autothrottle); needs zookeeper.addr.",
        ),
    ] = ""

    def open(self, session: ClusterSession) -> OverrideStore:
        """The store; raises `UsageError` for a prefix without a ZooKeeper."""
        from kafkakit.autothrottle.act.overrides import ControlOverrides, ZnodeOverrides

        if not self.zk_config_prefix:
            return ControlOverrides(session.control, session.cluster_id)
        return ZnodeOverrides(session.znodes, self.zk_config_prefix)


class LawName(StrEnum):
    """How rates are decided: to keep clients' objectives, by kafka-kit's formula, or one rate for all."""

    SLO = "slo"
    HEADROOM = "headroom"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LawChoice:
    """How rates are decided; the usual numbers are those of the laws."""

    law: Annotated[
        LawName | None,
        typer.Option("--law", help="The law of rates; slo when not given, fixed with --rate.", show_default=False),
    ] = None
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="RATE", help="fixed: the rate for each broker.", show_default=False)
    ] = None
    min_rate: Annotated[
        str | None,
        typer.Option(
            "--min-rate", metavar="RATE", help="No rate below this (slo 1MB, headroom 10MB).", show_default=False
        ),
    ] = None
    capacity: Annotated[
        str | None,
        typer.Option("--capacity", metavar="RATE", help="A broker's network in each direction.", show_default=False),
    ] = None
    broker_capacity: Annotated[
        list[str] | None,
        typer.Option(
            "--broker-capacity", metavar="ID:RATE", help="slo: that of one broker. Repeatable.", show_default=False
        ),
    ] = None
    client_rate: Annotated[
        str | None,
        typer.Option(
            "--client-rate", metavar="RATE", help="slo: what clients may take, without metrics.", show_default=False
        ),
    ] = None
    reserve: Annotated[
        str, typer.Option("--reserve", metavar="PERCENT", help="slo: the share of a capacity that stays free.")
    ] = "10%"
    p99: Annotated[
        str | None,
        typer.Option(
            "--p99", metavar="DURATION", help="slo: the most that produce requests may take.", show_default=False
        ),
    ] = None
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", metavar="DURATION", help="slo: the most they may wait in the queue.", show_default=False
        ),
    ] = None
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule", metavar="RULE", help="slo: a limit at times of the day, in UTC. Repeatable.", show_default=False
        ),
    ] = None
    max_tx_rate: Annotated[
        float, typer.Option("--max-tx-rate", min=0.1, max=99.9, help="headroom: percent of what is free to send.")
    ] = 90.0
    max_rx_rate: Annotated[
        float, typer.Option("--max-rx-rate", min=0.1, max=99.9, help="headroom: percent of what is free to receive.")
    ] = 90.0
    change_threshold: Annotated[
        float, typer.Option("--change-threshold", min=0, max=100, help="headroom: percent of change worth a write.")
    ] = 10.0
    failure_threshold: Annotated[
        int, typer.Option("--failure-threshold", min=0, max=1000, help="headroom: looks without metrics to pass over.")
    ] = 1
    sample: Annotated[
        str, typer.Option("--sample", metavar="DURATION", help="Time between the first two looks at the log dirs.")
    ] = "5s"

    @property
    def name(self) -> LawName:
        """The law's name."""
        return self.law or (LawName.SLO if self.rate is None else LawName.FIXED)

    def build(self) -> Law:
        """The law; raises `UsageError` for a text that cannot be read."""
        from kafkakit.autothrottle.decide.fixed import fixed_law
        from kafkakit.autothrottle.decide.headroom import HeadroomSettings, headroom_law
        from kafkakit.autothrottle.decide.slo import slo_law
        from kafkakit.autothrottle.decide.slo_settings import SloSettings
        from kafkakit.autothrottle.decide.time_rules import parse_time_rule
        from kafkakit.core.errors import UsageError
        from kafkakit.core.percent import parse_percent
        from kafkakit.core.quantities import parse_rate

        if (self.name is LawName.FIXED) != (self.rate is not None):
            raise UsageError("--rate is for --law fixed, which needs it")
        if self.rate is not None:
            return fixed_law(parse_rate(self.rate))
        capacity = _rate(self.capacity)
        least = parse_rate(self.min_rate or ("10MB" if self.name is LawName.HEADROOM else "1MB"))
        if self.name is LawName.HEADROOM:
            return headroom_law(
                HeadroomSettings(
                    capacity_of_type={} if capacity is None else {"": capacity},
                    max_tx_percent=self.max_tx_rate,
                    max_rx_percent=self.max_rx_rate,
                    change_percent=self.change_threshold,
                    failure_threshold=self.failure_threshold,
                    min_rate=least,
                )
            )
        return slo_law(
            SloSettings(
                reserve=float(parse_percent(self.reserve, "--reserve")),
                capacity=capacity,
                capacity_of=dict(_broker_capacity(text) for text in self.broker_capacity or ()),
                client_rate=_rate(self.client_rate),
                p99_ms=_ms(self.p99, "--p99"),
                queue_ms=_ms(self.queue, "--queue"),
                rules=tuple(parse_time_rule(text) for text in self.rule or ()),
                min_rate=least,
            )
        )


def _rate(text: str | None) -> float | None:
    from kafkakit.core.quantities import parse_rate

    return None if text is None else float(parse_rate(text))


def _ms(text: str | None, flag: str) -> float | None:
    from kafkakit.core.durations import parse_duration

    return None if text is None else parse_duration(text, flag) * 1000


def _broker_capacity(text: str) -> tuple[int, float]:
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import parse_rate

    broker, colon, rate = text.partition(":")
    if not colon or not broker.isascii() or not broker.isdigit() or int(broker[:11]) >= 2**31:
        raise UsageError(f"--broker-capacity {text!r:.60} names no broker", hint="write 1003:1GB")
    return int(broker), float(parse_rate(rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsChoice:
    """Where the traffic of brokers is measured; without a service the brokers' log dirs alone tell what moves."""

    prometheus_url: Annotated[
        str | None,
        typer.Option(
            "--prometheus-url", metavar="URL", help="Prometheus, or what answers as it does.", show_default=False
        ),
    ] = None
    prometheus_selector: Annotated[
        str, typer.Option(metavar="MATCHERS", help="""Added to each query: 'namespace="kafka"'.""")
    ] = ""
    prometheus_token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A bearer token.")] = None
    prometheus_user: Annotated[str | None, typer.Option(metavar="NAME", help="Basic authentication.")] = None
    prometheus_password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The user's password.")] = None
    broker_label: Annotated[
        str, typer.Option("--broker-label", metavar="NAME", help="The label whose value ends with a broker's id.")
    ] = "broker_id"
    metrics_window: Annotated[
        str, typer.Option("--metrics-window", metavar="DURATION", help="The time that traffic is averaged over.")
    ] = "2m"

    def measure(self, session: ClusterSession) -> Measure | None:
        """What asks the service, None where none is named; raises `UsageError`."""
        from kafkakit.autothrottle.act.measure import measure_with
        from kafkakit.autothrottle.decide.metrics import TrafficQueries
        from kafkakit.core.durations import parse_duration
        from kafkakit.core.errors import UsageError
        from kafkakit.wiring import open_prometheus

        if self.prometheus_url is None:
            return None
        if not self.broker_label.isascii() or not self.broker_label.isidentifier():
            raise UsageError(f"--broker-label {self.broker_label!r:.60} is no name of a label")
        queries = TrafficQueries(
            label=self.broker_label,
            selector=self.prometheus_selector,
            window_s=round(parse_duration(self.metrics_window, "--metrics-window")),
        )
        access = (self.prometheus_token_file, self.prometheus_user, self.prometheus_password_file)
        warn = session.cli.output.warn
        return measure_with(open_prometheus(self.prometheus_url, *access, warn, warn), session.clock, queries, None)


def open_pacer(
    cli: CliContext,
    session: ClusterSession,
    law: LawChoice,
    metrics: MetricsChoice,
    place: OverridePlace,
    lead: Lease | None,
    answer: str = "0",
) -> Pacer:
    """The pacer of the session's cluster; `session` only reads, the pacer claims the cluster when it sets something."""
    from functools import partial

    from kafkakit.autothrottle.act.pacer import Pacer, PacerOptions, PacerPorts
    from kafkakit.autothrottle.act.status import rates_of_run
    from kafkakit.cli.session import open_access
    from kafkakit.core.durations import parse_duration, parse_duration_or_zero

    options = PacerOptions(
        law=law.build(),
        law_name=law.name.value,
        by=session.requester,
        sample_s=parse_duration(law.sample, "--sample"),
        answer_s=parse_duration_or_zero(answer),
    )
    ports = PacerPorts(
        admin=session.admin,
        clock=session.clock,
        store=session.control,
        overrides=place.open(session),
        open_access=partial(open_access, cli, "autothrottle", cluster_id=session.cluster_id),
        measure=metrics.measure(session),
        rates_of_run=partial(rates_of_run, session.settings.state_dir, session.cluster_id),
    )
    return Pacer(session.cluster_id, ports, lead, options)


@contextmanager
def leading(cli: CliContext, session: ClusterSession, command: str) -> Iterator[Lease]:
    """The lead over the other pacers of the cluster while the context is open; `TryLaterError` names its holder."""
    from kafkakit.autothrottle.act.run import LEAD_TTL_S

    lead = open_lead(cli, session, command)
    lead.acquire(LEAD_TTL_S)
    try:
        yield lead
    finally:
        lead.release()


def read_override(rate: str | None, into: str | None, out: str | None, *, autoremove: bool) -> Override:
    """The texts as an override; raises `UsageError` for what cannot be read, and for none."""
    from kafkakit.autothrottle.decide.overrides import Override
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import parse_rate

    if not (rate or into or out):
        raise UsageError("no rate is given", hint="kafkakit autothrottle set 40MB")
    both, one, other = (None if text is None else parse_rate(text) for text in (rate, into, out))
    return Override(into=one or both, out=other or both, autoremove=autoremove)


def open_lead(cli: CliContext, session: ClusterSession, command: str) -> Lease:
    """The lead over the other pacers of the cluster, not yet taken."""
    from kafkakit.autothrottle.act.run import lead_path
    from kafkakit.wiring import open_lease

    path = lead_path(session.cluster_id)
    return open_lease(session.control, session.clock, session.cluster_id, command, cli.output.say, path)


def read_token(file: Path | None, listen: str, *, no_token: bool) -> str | None:
    """The token of the API: "" where this host needs none, None where only its reads are answered.

    Raises `UsageError` for an address that other machines reach without a token, and for a file without a sound one.
    """
    from kafkakit.adapters.http_server import parse_listen
    from kafkakit.core.errors import UsageError
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
    if listen != "none" and parse_listen(listen)[0] not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(f"{listen} can be reached from other machines", hint="protect it with --token-file")
    return "" if no_token else None


def open_api(
    stack: ExitStack, cli: CliContext, service: PacerService, overrides: OverrideStore, listen: str, token: str | None
) -> None:
    """Serve the HTTP API until `stack` ends."""
    from contextlib import closing

    from kafkakit.adapters.http_server import HttpServer
    from kafkakit.autothrottle.act.api import PacerApi
    from kafkakit.autothrottle.show.status import service_pages

    if listen == "none":
        return
    pages = service_pages(lambda: service.last, lambda: service.is_leader, lambda: service.failure)
    api = PacerApi(overrides, pages, token, service.wake)
    server = stack.enter_context(closing(HttpServer(listen, api.answer)))
    cli.output.say(f"serving http://{server.address}/throttle, /healthz and /metrics")
