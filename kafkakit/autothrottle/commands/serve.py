"""`kafkakit autothrottle run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.autothrottle.commands.law_options import LawChoice
from kafkakit.autothrottle.commands.options import MetricsChoice, OverridePlace
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups

DEFAULT_LISTEN = "127.0.0.1:8080"


@with_option_groups
def serve(
    ctx: typer.Context,
    law: LawChoice,
    metrics: MetricsChoice,
    place: OverridePlace,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Time between two ticks.")] = "30s",
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Address of the HTTP API; it is not encrypted. `none`: no API."
        ),
    ] = DEFAULT_LISTEN,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="The bearer token of the API, for everything but reads from this host.",
            show_default=False,
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let any process of this host change overrides, as kafka-kit does.")
    ] = False,
    remove_on_exit: Annotated[
        bool, typer.Option("--remove-on-exit", help="Remove the pacer's throttles at SIGTERM, while moves run, too.")
    ] = False,
) -> None:
    """Adapt the throttles of moves until stopped: a tick each interval, and within about 5 s of other
    moves or overrides.

    Of several instances one leads and the others wait; one that ends or falls silent is replaced within 15 s, and
    writes nothing after it lost the lead. The HTTP API has kafka-kit's routes (/throttle, /throttle/ID,
    /throttle/remove), and /healthz and /metrics. SIGTERM ends it with exit 143: throttles of moves that run stay,
    and the next instance, or `once`, takes them over and removes them when the moves have ended.

    Examples:

    \b
    kafkakit --profile prod autothrottle run --rate 40MB
    kafkakit --profile prod autothrottle run --rate 40MB --interval 3m --listen 127.0.0.1:8080 --no-token
    """
    from contextlib import ExitStack

    from kafkakit.adapters.service_manager import notify_service
    from kafkakit.autothrottle.act.run import PacerService, run_service
    from kafkakit.autothrottle.commands.options import open_api, open_lead, open_pacer, read_token
    from kafkakit.autothrottle.show.tick import tick_line
    from kafkakit.cli.session import open_session
    from kafkakit.core.durations import parse_duration

    cli = cli_context(ctx)
    interval_s = parse_duration(interval, "--interval")
    token = read_token(token_file, listen, no_token=no_token)
    with ExitStack() as stack:
        session = stack.enter_context(open_session(cli, read_only=True))
        lead = open_lead(cli, session, "autothrottle run")
        pacer, overrides = open_pacer(cli, session, law, metrics, place, lead), place.open(session)
        service = PacerService(
            pacer,
            lead,
            overrides,
            session.clock,
            interval_s=interval_s,
            report=cli.output.say,
            summary=tick_line,
        )
        open_api(stack, cli, service, overrides, listen, token)
        run_service(service, pacer, lead, session.clock, notify_service, remove_on_exit=remove_on_exit)
