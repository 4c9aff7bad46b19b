"""`kafkakit reassign throttle`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.plan_file import RunChoice, RunId
from kafkakit.cli.run_options import ThrottleBroker, ThrottleDirs, WithoutLease


def throttle(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[PLAN] RATE",
            help="The rate for each broker and direction (20MB), `none` to remove the throttle, or `same` to change "
            "only what the options name; a plan file before it selects the run.",
        ),
    ],
    throttle_broker: ThrottleBroker = None,
    throttle_dirs: ThrottleDirs = None,
    run: RunId = "",
    without_lease: WithoutLease = False,
    wait: Annotated[
        str, typer.Option("--wait", metavar="DURATION", help="How long the running executor may take to answer.")
    ] = "1m",
) -> None:
    """Change the throttle of the active run, or of moves that an interrupted run left running.

    A running executor is requested to apply the rates, and does so at its next tick; if none is running, this
    command sets them, and a resumed run keeps them. A new rate for all brokers removes earlier exceptions, log dirs
    keep their rate. Brokers average over about 10 s: a higher rate begins with a burst of the difference times 10 s
    at line speed, a lower one with up to 10 s in which nothing is copied. Exits with 75 when the run does not
    answer in time.

    Examples:

    \b
    kafkakit --profile prod reassign throttle 40MB
    kafkakit --profile prod reassign throttle p.json 40MB --throttle-broker 1003:in=10MB
    kafkakit --profile prod reassign throttle same --throttle-dirs 50MB
    kafkakit --profile prod reassign throttle none
    """
    from functools import partial

    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import UsageError
    from kafkakit.execution.decide.rates import read_request
    from kafkakit.reassign.act.control import RunRequester
    from kafkakit.reassign.act.throttle import change_throttle
    from kafkakit.reassign.show.throttle import throttle_report

    cli = cli_context(ctx)
    if len(words) > 2:
        raise UsageError(f"one plan file and one rate, not {len(words)} words", hint="kafkakit reassign throttle 40MB")
    request = read_request(words[-1], throttle_broker or [], throttle_dirs)
    if request.is_empty:
        raise UsageError("nothing to change", hint="name a rate, --throttle-broker or --throttle-dirs")
    wait_s = parse_duration(wait, "--wait")
    state_dir = cli.settings.state_dir
    with open_session(cli, read_only=True) as session:
        chosen = RunChoice(plan_file=words[0] if len(words) == 2 else None, run=run)
        named = chosen.journal(cli, session, "throttle")[0].name if len(words) == 2 or run else None
        result = change_throttle(
            request,
            partial(open_access, cli, "reassign throttle", without_lease=without_lease),
            RunRequester(lambda: session.control, session.clock, state_dir, session.requester, wait_s=wait_s),
            session.admin,
            cli.output,
            journal=named,
        )
    finish(cli, throttle_report(result))
