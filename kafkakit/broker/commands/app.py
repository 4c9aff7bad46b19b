"""`kafkakit broker`: empty a broker, replace it, take it out for good, bring it back."""

from __future__ import annotations

import typer

from kafkakit.broker.commands import options
from kafkakit.broker.commands.moving import decommission, drain, replace
from kafkakit.cli.command_classes import KitCommand, kit_of, new_group
from kafkakit.cli.command_line import given_words
from kafkakit.reassign.commands import options as runs
from kafkakit.reassign.commands.session import (
    DEFAULT_DISK_USE,
    DEFAULT_IN_EACH,
    DEFAULT_MOVES,
    DEFAULT_OUT_EACH,
    options_of,
)

app = new_group("Drain, replace, decommission and rejoin brokers, each in one resumable step.")

app.command("drain", cls=KitCommand, short_help="Empty brokers, and make sure that nothing is left.")(drain)
app.command("replace", cls=KitCommand, short_help="Give every replica of one broker to another.")(replace)
app.command("decommission", cls=KitCommand, short_help="Drain brokers and say whether they may be stopped.")(
    decommission
)


@app.command("rejoin", cls=KitCommand, short_help="Bring brokers back, with their leaderships.")
def rejoin(
    ctx: typer.Context,
    brokers: options.Comers,
    restore: options.Restore = "",
    wait: options.Wait = "30m",
    leaders_at_once: options.LeadersAtOnce = 50,
    leaders_pause: options.LeadersPause = "1s",
    yes: runs.Yes = False,
    dry_run: runs.DryRun = False,
    throttle: runs.Throttle = None,
    throttle_broker: runs.ThrottleBroker = None,
    throttle_dirs: runs.ThrottleDirs = None,
    max_in: runs.MaxIn = DEFAULT_IN_EACH,
    max_out: runs.MaxOut = DEFAULT_OUT_EACH,
    max_moves: runs.MaxMoves = DEFAULT_MOVES,
    one_replica: runs.OneReplica = False,
    max_disk_use: runs.MaxDiskUse = DEFAULT_DISK_USE,
    disk_headroom: runs.DiskHeadroom = "0",
    ingest_sample: runs.IngestSample = "5s",
    wait_for_others: runs.Others = False,
    allow_drift: runs.AllowDrift = False,
    stall_timeout: runs.StallTimeout = "5m",
) -> None:
    """Bring brokers back that were down or emptied, and give them their leaderships back slowly.

    Waits until they are registered and unfenced and every copy on them is in sync, then elects them where they are
    the preferred leader. With --restore the plans of a drain are rolled back first: what it took away returns, in
    the old order. Run it again after a stop: it only does what is left. Exits with 75 when a broker or a copy is
    not there in time.

    Examples:

    \b
    kafkakit --profile prod broker rejoin 1004
    kafkakit --profile prod broker rejoin 1004 --leaders-at-once 10 --leaders-pause 30s --yes
    kafkakit --profile prod broker rejoin 1004 --restore last --throttle 20MB
    """
    from contextlib import ExitStack
    from pathlib import Path

    from kafkakit.broker.act.elections import Elections, Pace
    from kafkakit.broker.act.rejoin import Rejoin
    from kafkakit.broker.commands.moving import ids_of
    from kafkakit.broker.commands.session import ReassignRunner, claimed, finish, open_site
    from kafkakit.broker.decide.operation import base_name
    from kafkakit.broker.decide.request import RejoinRequest
    from kafkakit.core.durations import parse_duration, parse_duration_or_zero
    from kafkakit.core.errors import RefusedError

    kit = kit_of(ctx)
    ids = ids_of(brokers, "ID")
    given = options_of(locals())
    listed = ",".join(map(str, ids))
    again = " ".join([kit.program, "broker", "rejoin", listed, *given_words(ctx), "--yes"])
    pace = Pace(group=leaders_at_once, pause_s=parse_duration_or_zero(leaders_pause, "--leaders-pause"))
    request = RejoinRequest(
        brokers=ids,
        again=again,
        confirm=lambda question: yes or kit.output.ask_typed(question),
        wait_s=parse_duration(wait, "--wait"),
        asks=not yes,
        dry_run=dry_run,
    )
    if not (yes or dry_run or kit.input_allowed):
        raise RefusedError("confirmation needed, and nobody can be asked here", hint="pass --yes")
    with ExitStack() as stack:
        site = stack.enter_context(open_site(kit, f"rejoin-{listed[:80]}", dry_run=dry_run))
        record = None
        if restore:
            record = site.records.last_on(ids) if restore == "last" else site.records.named(Path(restore))
        if record is not None and not dry_run:  # its own command must not be at work on it
            stack.enter_context(site.lock(base_name(record.kind, record.brokers, record.onto)))
        elections = Elections(lambda: claimed(kit, "broker rejoin"), kit.output, pace, request.patience_s)
        runner = ReassignRunner(site, given, again=again, undo_of=lambda _: again)
        outcome = Rejoin(site.admin, site.clock, kit.output, site.records, runner, elections, request).run(record)
    finish(kit, outcome)
