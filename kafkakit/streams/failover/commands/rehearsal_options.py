"""The options of `streams failover rehearse`, and what a rehearsal works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from kafkakit.streams.failover.act.rehearsal import RehearsalParts
    from kafkakit.streams.failover.act.rehearsal_load import RehearsalLoad
    from kafkakit.streams.failover.act.run import RunParts
    from kafkakit.streams.failover.commands.options import FailoverSession
    from kafkakit.streams.failover.decide.rehearsal import Rehearsal
    from kafkakit.streams.model.route import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOptions:
    """Where the shadow moves to, and what is written to it."""

    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PROFILE",
            help="The profile of the cluster that would take the writes.",
            autocompletion=complete_profile_names,
        ),
    ]
    rate: float | None = option(
        None,
        "--rate",
        metavar="N",
        help="Records a second over all lanes; what the stream takes now, measured for 5 s, if not given.",
    )
    record_bytes: int = option(
        1000, "--record-bytes", min=20, max=900_000, metavar="N", help="The size of a record's value."
    )
    load: str = option(
        "5s", "--load", metavar="DURATION", help="How long is written before the failover, and after it."
    )

    def rehearsal(self, session: FailoverSession, stream: str, route: Route, parts: RehearsalParts) -> Rehearsal:
        """What is rehearsed; measures the rate where none is given."""
        from secrets import token_hex

        from kafkakit.core.durations import epoch_ms, parse_duration
        from kafkakit.streams.failover.act.rehearsal import rate_of
        from kafkakit.streams.failover.decide.rehearsal import Rehearsal, lanes_to_rehearse, stated_rate

        sources = {lane.active.cluster for lane in lanes_to_rehearse(route) if lane.active is not None}
        load_s = parse_duration(self.load, "--load")
        per_s = rate_of(route, session.cluster, parts.run) if self.rate is None else stated_rate(self.rate)
        started_ms = epoch_ms(session.home.clock.now())
        return Rehearsal(
            id=f"{started_ms:013d}-{token_hex(4)}",
            stream=stream,
            to=self.to,
            by=session.home.requester,
            started_ms=started_ms,
            per_s=round(per_s, 3),
            record_bytes=self.record_bytes,
            load_s=load_s,
            profiles=tuple(sorted({*sources, self.to})),
        )

    def parts(self, session: FailoverSession, stream: str, run: RunParts) -> RehearsalParts:
        """What a rehearsal works with."""
        from kafkakit.streams.failover.act.rehearsal import RehearsalHistory, RehearsalParts
        from kafkakit.streams.failover.act.shadow_stream import ShadowStream

        shadow = ShadowStream(session.stream, session.home.control, run.clock, session.cluster, run.require_held)
        return RehearsalParts(
            run=run,
            planner=session.planner(run),
            shadow=shadow,
            history=RehearsalHistory(session.home.control, stream),
            open_cluster=session.cluster,
            open_load=lambda rehearsal, lanes: open_load(session, rehearsal, lanes),
        )


def open_load(session: FailoverSession, rehearsal: Rehearsal, lanes: tuple[str, ...]) -> RehearsalLoad:
    """The load, with a client of the profile in use, as an application has one."""
    from kafkakit.streams.client.connect import connect
    from kafkakit.streams.failover.act.rehearsal_load import RehearsalLoad

    cli = session.cli
    return RehearsalLoad(connect(cli.settings.profile, config=cli.given.config), session.home.clock, rehearsal, lanes)
