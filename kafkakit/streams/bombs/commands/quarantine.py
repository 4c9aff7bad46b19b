"""`kafkakit streams bombs quarantine`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.cluster_words import GROUP_NAME
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.streams.bombs.commands import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkakit.report.report import Report
    from kafkakit.streams.bombs.decide import KeptBatch


@with_option_groups
def quarantine(
    ctx: typer.Context,
    *,
    topic: options.Topic,
    offsets: Annotated[
        str,
        typer.Option("--offsets", metavar="N[,N-N...]", help="Only batches with these offsets; otherwise all."),
    ] = "",
    which: options.BatchLimit,
    out_path: Annotated[
        Path | None,
        typer.Option("--out-path", metavar="DIR", help="The folder; if not given, one in the state folder."),
    ] = None,
    group: Annotated[
        str, typer.Option("--group", **GROUP_NAME, help="Let this group pass the batches; it must have no members.")
    ] = "",
    reject: Annotated[
        bool, typer.Option("--reject", help="Mark them as rejected instead of done: for metadata that holds this.")
    ] = False,
    consent: Consent,
) -> int:
    """Keep batches that become too large in files, and let a group pass them.

    Each batch over the limit is written as it was fetched, still compressed, to CLUSTER/TOPIC-PARTITION/OFFSET.log,
    which Kafka's tools read as a segment. OFFSET.json beside it holds where it is from, its checksums and its
    producer. The topic is not changed. With --group the offsets of one partition's batches are marked as done in the
    group's commit, as streams commits skip does: the plan is shown first, and undo takes it back.

    Examples:

    \b
    kafkakit --profile prod streams bombs quarantine payments --dry-run
    kafkakit --profile prod streams bombs quarantine payments --partition 3 --offsets 102 --out-path kept
    kafkakit --profile prod streams bombs quarantine payments --partition 3 --offsets 102 --group orders --yes
    """
    from kafkakit.core.errors import RefusedError, TryLaterError, UsageError
    from kafkakit.core.printable import printable
    from kafkakit.streams.bombs.act.quarantine import Quarantine
    from kafkakit.streams.bombs.show import quarantine_report
    from kafkakit.wiring import write_file

    cli = cli_context(ctx)
    if group and len(which.numbers) != 1:
        raise UsageError("--group is about one partition", hint="name it: --partition N")
    if reject and not group:
        raise UsageError("--reject does nothing without --group")
    if group:
        consent.require_possible(cli)
    wanted, start = options.quarantined_offsets(offsets)
    with session.open_session(cli, read_only=True, edits_commits=bool(group) and not consent.dry_run) as opened:
        scanner, folder = which.scanner(opened), out_path or cli.settings.state_dir / "quarantine"
        keys = scanner.partitions([topic], which.numbers)
        kept = Quarantine(
            folder,
            write_file,
            cluster_id=opened.cluster_id,
            topic_ids=keys,
            wanted=wanted,
            limit_bytes=which.limit_bytes,
            is_planned=consent.dry_run,
        )
        with cli.output.progress("reading batch headers") as bar:
            scan = scanner.scan(list(keys), start, bar, kept.keep)
        if offsets and not kept.kept:
            raise RefusedError(f"no batch of {printable(topic)} with offsets {offsets:.80} is over the limit")
        if scan.unread:
            key, reason = min(scan.unread.items())
            words = f"{printable(str(key))} was not read to the end: {printable(reason)}"
            raise TryLaterError(words, hint="what was found before is kept; no commit was changed")
        edit = _marked(ctx, opened, group, kept.kept, consent, reject=reject) if group and kept.kept else None
    report = quarantine_report(kept.kept, scan.cluster_id, str(folder), edit, is_planned=consent.dry_run)
    return session.finish(cli, report)


def _marked(
    ctx: typer.Context,
    opened: session.ClusterSession,
    group: str,
    kept: Sequence[KeptBatch],
    consent: Consent,
    *,
    reject: bool,
) -> Report:
    """Mark the batches' offsets in the group's commit, after its plan was shown and confirmed."""
    from kafkakit.core.shell_words import quote
    from kafkakit.streams.bombs.decide import offsets_to_mark
    from kafkakit.streams.commits import api
    from kafkakit.streams.commits.api_act import EditedCluster, PartitionScope, edit_lock

    cli, key = cli_context(ctx), kept[0].found.key
    cluster = EditedCluster(
        opened.groups,
        opened.log,
        opened.admin,
        opened.clock,
        cli.output,
        state_dir=cli.settings.state_dir,
        program=cli.program,
    )
    if not consent.dry_run:
        opened.lock(edit_lock(cli.settings.state_dir, opened.cluster_id, group), f"commits of group {group}", "bombs")
    offsets = offsets_to_mark(kept, opened.log.spans([key])[key])
    request = api.EditRequest(verb=(api.Reject if reject else api.Skip)(offsets=offsets))
    words = ("batches in quarantine",)
    plan = cluster.plan(group, PartitionScope(topic=key.topic, partitions=(key.partition,)), request, words)
    cluster.check_no_interrupted(group, applies=not consent.dry_run)
    if consent.dry_run:
        return api.plan_report(plan, "")
    if plan.changes:
        cli.output.say(api.render_plan(plan))
    opening = api.opening_for(plan, who=opened.requester, reason="batches in quarantine")
    outcome = cluster.carry_out(plan, opening, None if consent.yes else cli.output.ask_typed)
    return api.outcome_report(outcome, f"{cli.program} streams commits undo last --group {quote(group)} --apply")
