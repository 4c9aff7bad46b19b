"""`kafkakit reassign throttle`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import Kit, kit_of
from kafkakit.reassign.commands.options import ThrottleBroker, ThrottleDirs

if TYPE_CHECKING:
    from kafkakit.core.errors import TryLaterError
    from kafkakit.execution.decide.rates import RateRequest
    from kafkakit.reassign.decide.throttle_change import Retuned


def throttle(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[PLAN] RATE",
            help="The rate for each broker and direction (20MB), `none` to lift the throttle, or `same` to change only "
            "what the options name; before it the plan file, to make sure which run is meant.",
        ),
    ],
    throttle_broker: ThrottleBroker = None,
    throttle_dirs: ThrottleDirs = None,
    wait: Annotated[
        str, typer.Option("--wait", metavar="DURATION", help="How long the running executor may take to answer.")
    ] = "1m",
) -> None:
    """Change the throttle of the run at work, or of moves that an interrupted run left in flight.

    The executor is asked and takes the rates up at its next look; with none at work the rates are set here, and a
    resumed run keeps them. A new rate for all drops earlier exceptions, log dirs keep theirs. Brokers average over
    about 10 s: a higher rate begins with a burst of the difference times 10 s at line speed, a lower one with up to
    10 s in which nothing is copied. Exits with 75 when the run does not answer in time.

    Examples:

    \b
    kafkakit --profile prod reassign throttle 40MB
    kafkakit --profile prod reassign throttle p.json 40MB --throttle-broker 1003:in=10MB
    kafkakit --profile prod reassign throttle same --throttle-dirs 50MB
    kafkakit --profile prod reassign throttle none
    """
    from contextlib import ExitStack

    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError
    from kafkakit.execution.decide.rates import read_request
    from kafkakit.reassign.act.throttle import set_rates
    from kafkakit.reassign.commands.cleanup import open_desk
    from kafkakit.reassign.decide.throttle_change import COLUMNS, render_retuned, retuned_data, retuned_rows
    from kafkakit.report.report import Report

    kit = kit_of(ctx)
    if len(words) > 2:
        raise UsageError(f"one plan file and one rate, not {len(words)} words", hint="kafkakit reassign throttle 40MB")
    plan_file = words[0] if len(words) == 2 else None
    request = read_request(words[-1], throttle_broker or [], throttle_dirs)
    if request.is_empty:
        raise UsageError("nothing to change", hint="name a rate, --throttle-broker or --throttle-dirs")
    wait_s = parse_duration(wait, "--wait")
    journal = None if plan_file is None else _journal_of(kit, plan_file)
    with ExitStack() as stack:
        try:
            desk = stack.enter_context(open_desk(kit, "reassign throttle"))
        except TryLaterError as busy:
            retuned = _ask(kit, request, journal, wait_s, busy)
        else:
            files = {f.name: f for f in desk.journals}
            retuned = set_rates(
                desk.admin, desk.clock, files, kit.output, request, cluster_id=desk.cluster_id, journal=journal
            )
    kit.output.result(
        Report(
            command="reassign throttle",
            data=retuned_data(retuned),
            text=render_retuned(retuned),
            columns=COLUMNS,
            rows=retuned_rows(retuned.rates),
        )
    )
    if retuned.problems:
        raise OperationFailedError(f"the throttle is not changed everywhere: {retuned.problems[0]}")


def _ask(kit: Kit, request: RateRequest, journal: str | None, wait_s: float, busy: TryLaterError) -> Retuned:
    """Ask whoever holds the lease; raises `busy` again when nobody does."""
    from contextlib import closing

    from kafkakit.adapters.own_process import this_holder
    from kafkakit.execution.act.control_requests import Wishes
    from kafkakit.execution.act.leases import lease_path, read_lease
    from kafkakit.execution.act.run_journal import journal_files, read_run_state
    from kafkakit.execution.decide.rates import require_known
    from kafkakit.reassign.act.throttle import ask_executor
    from kafkakit.wiring import open_admin, open_control, system_clock

    settings = kit.settings
    with closing(open_admin(settings, read_only=True)) as admin:
        cluster = admin.cluster()
    cluster_id = cluster.cluster_id
    require_known(request, [b.id for b in cluster.brokers])
    with closing(open_control(settings)) as store:
        lease = read_lease(store, lease_path(cluster_id))
        if lease is None or lease.holder is None:
            raise busy
        files = journal_files(settings.state_dir, cluster_id)
        me = this_holder("reassign throttle")
        return ask_executor(
            Wishes(store, system_clock(), cluster_id),
            lease.token,
            f"{me.user} on {me.host}",
            str(lease.holder),
            request,
            {f.name: read_run_state(f) for f in files},
            cluster_id=cluster_id,
            journal=journal,
            timeout_s=wait_s,
        )


def _journal_of(kit: Kit, plan_file: str) -> str:
    """The name of the journal that the plan's runs on this host write."""
    from kafkakit.core.documents import decode_plan
    from kafkakit.core.plan import identity_of
    from kafkakit.execution.act.run_journal import journal_path
    from kafkakit.reassign.commands.session import PLAN_LIMIT_BYTES
    from kafkakit.wiring import read_input

    plan = decode_plan(read_input(plan_file, PLAN_LIMIT_BYTES), "stdin" if plan_file == "-" else plan_file)
    return str(journal_path(kit.settings.state_dir, plan.cluster_id, identity_of(plan)))
