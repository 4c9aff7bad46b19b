"""The options of the pacer, and the pacer that they describe."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.autothrottle.commands.kafka_kit_options import KafkaKitFlags
from kafkakit.autothrottle.commands.law_options import LawChoice
from kafkakit.autothrottle.commands.metrics_options import CapacityChoice, MetricsChoice
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack

    from kafkakit.autothrottle.act.overrides import OverrideStore
    from kafkakit.autothrottle.act.pacer import Pacer
    from kafkakit.autothrottle.act.run import PacerService
    from kafkakit.autothrottle.decide.overrides import Override
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
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
        help="Keep overrides in kafka-kit's znodes below /PREFIX (there: autothrottle); needs a ZooKeeper.",
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

    def open(self, session: ClusterSession) -> OverrideStore:
        """The store; raises `UsageError` for a prefix without a ZooKeeper."""
        from kafkakit.autothrottle.act.overrides import ControlOverrides, ZnodeOverrides

        if not self.zk_config_prefix:
            return ControlOverrides(session.control, session.cluster_id)
        return ZnodeOverrides(session.znodes, self.zk_config_prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficChoice:
    """What is known of brokers beside their moves, and kafka-kit's flags of its connection."""

    metrics: MetricsChoice
    capacities: CapacityChoice
    kafka_kit: KafkaKitFlags


def open_pacer(
    cli: CliContext,
    session: ClusterSession,
    law: LawChoice,
    traffic: TrafficChoice,
    place: OverridePlace,
    lead: Lease | None,
    answer: str = "0",
) -> Pacer:
    """The pacer of the session's cluster; `session` only reads, the pacer claims the cluster when it sets something."""
    from functools import partial

    from kafkakit.autothrottle.act.pacer import Pacer, PacerOptions, PacerPorts
    from kafkakit.autothrottle.act.run_rates import rates_of_run
    from kafkakit.autothrottle.decide.capacities import with_capacities
    from kafkakit.cli.session import open_access
    from kafkakit.core.durations import parse_duration, parse_duration_or_zero

    metrics, capacities = traffic.metrics, traffic.capacities.read(session, law.broker_capacity)
    options = PacerOptions(
        law=with_capacities(law.build(metrics.stale_ms), capacities),
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
        measure=metrics.measure(session, with_type=bool(capacities.of_type)),
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
    return open_lease(session.control, session.clock, session.cluster_id, command, cli.output.say, path, "the pacer")


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
    stack: ExitStack,
    log: Callable[[str], None],
    service: PacerService,
    overrides: OverrideStore,
    listen: str,
    token: str | None,
) -> None:
    """Serve the HTTP API until `stack` ends."""
    from contextlib import closing

    from kafkakit.adapters.http_server import HttpServer
    from kafkakit.autothrottle.act.api import PacerApi
    from kafkakit.autothrottle.show.status import service_pages

    if listen == "none":
        return
    pages = service_pages(lambda: service.last, lambda: service.is_leader, lambda: service.failure)
    api = PacerApi(overrides, pages, token, service.wake, log)
    server = stack.enter_context(closing(HttpServer(listen, api.answer)))
    log(f"serving http://{server.address}/throttle, /healthz and /metrics")
