"""`kafkakit autothrottle run`."""

from __future__ import annotations

import typer

from kafkakit.autothrottle.commands.law_options import LawChoice
from kafkakit.autothrottle.commands.log_options import EventChoice
from kafkakit.autothrottle.commands.options import OverridePlace, TrafficChoice
from kafkakit.autothrottle.commands.service_options import ServiceChoice
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups


@with_option_groups
def serve(
    ctx: typer.Context,
    law: LawChoice,
    traffic: TrafficChoice,
    place: OverridePlace,
    events: EventChoice,
    service: ServiceChoice,
) -> None:
    """Adapt the throttles of moves until stopped: a tick each interval, and within about 5 s of other
    moves or overrides.

    Of several instances one leads and the others wait; one that ends or falls silent is replaced within 15 s, and
    writes nothing after it lost the lead. The HTTP API has kafka-kit's routes (/throttle, /throttle/ID,
    /throttle/remove), and /healthz and /metrics. SIGTERM ends it with exit 143: throttles of moves that run stay,
    and the next instance, or `once`, takes them over and removes them when the moves have ended. Lines go to stderr,
    with -o json as one JSON object each, that of a tick with all its rates and reasons.

    kafka-kit's flags and its AUTOTHROTTLE_ variables are taken; docs/autothrottle.md tells what they mean here.

    Examples:

    \b
    kafkakit --profile prod autothrottle run --rate 40MB
    kafkakit --profile prod autothrottle run --rate 40MB --interval 3m --listen 127.0.0.1:8080 --no-token
    kafkakit --profile prod autothrottle run --source datadog --law headroom --cap-map '{"i3.large": 90}' --interval 180
    """
    from contextlib import ExitStack

    from kafkakit.adapters.service_manager import notify_service
    from kafkakit.autothrottle.act.run import PacerService, run_service
    from kafkakit.autothrottle.commands.log_options import ServiceLog
    from kafkakit.autothrottle.commands.options import open_api, open_lead, open_pacer, read_token
    from kafkakit.cli.session import open_session
    from kafkakit.core.durations import parse_seconds

    cli = cli_context(ctx)
    interval_s = parse_seconds(service.interval, "--interval")
    token = read_token(service.token_file, service.listen, no_token=service.no_token)
    place.apply(cli)
    traffic.kafka_kit.apply(cli)
    with ExitStack() as stack:
        session = stack.enter_context(open_session(cli, read_only=True))
        lead = open_lead(cli, session, "autothrottle run")
        pacer, overrides = open_pacer(cli, session, law, traffic, place, lead), place.open(session)
        log = ServiceLog(session, events.open(stack, session, traffic.metrics))
        paced = PacerService(
            pacer,
            lead,
            overrides,
            session.clock,
            interval_s=interval_s,
            report=log.say,
            told=log.tick,
        )
        open_api(stack, log.say, paced, overrides, service.listen, token)
        run_service(paced, pacer, lead, session.clock, notify_service, remove_on_exit=service.remove_on_exit)
