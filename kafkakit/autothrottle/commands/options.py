"""The options of the pacer, and the pacer that they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kafkakit.autothrottle.act.overrides import OverrideStore
    from kafkakit.autothrottle.act.pacer import Pacer
    from kafkakit.autothrottle.decide.law import Law
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LawChoice:
    """How rates are decided."""

    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="One rate for each broker, without metrics.", show_default=False),
    ] = None
    sample: Annotated[
        str, typer.Option("--sample", metavar="DURATION", help="Time between the first two looks at the log dirs.")
    ] = "5s"

    def law(self) -> tuple[Law, str]:
        """The law and its name; raises `UsageError` where none is chosen."""
        from kafkakit.autothrottle.decide.fixed import fixed_law
        from kafkakit.core.errors import UsageError
        from kafkakit.core.quantities import parse_rate

        if self.rate is None:
            raise UsageError("no law of rates is chosen", hint="give --rate")
        return fixed_law(parse_rate(self.rate)), "fixed"


def open_pacer(
    cli: CliContext,
    session: ClusterSession,
    law: LawChoice,
    place: OverridePlace,
    lead: Lease | None,
    answer: str = "0",
) -> Pacer:
    """The pacer of the session's cluster; `session` only reads, the pacer claims the cluster when it sets something."""
    from functools import partial

    from kafkakit.autothrottle.act.pacer import Pacer, PacerOptions, PacerPorts
    from kafkakit.cli.session import open_access
    from kafkakit.core.durations import parse_duration, parse_duration_or_zero

    chosen, name = law.law()
    options = PacerOptions(
        law=chosen,
        law_name=name,
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
    )
    return Pacer(session.cluster_id, ports, lead, options)


def open_lead(cli: CliContext, session: ClusterSession, command: str) -> Lease:
    """The lead over the other pacers of the cluster, not yet taken."""
    from kafkakit.autothrottle.act.run import lead_path
    from kafkakit.wiring import open_lease

    path = lead_path(session.cluster_id)
    return open_lease(session.control, session.clock, session.cluster_id, command, cli.output.say, path)
