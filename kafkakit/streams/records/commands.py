"""`kafkakit streams records`: the records that offsets stand for. `kafkakit streams bombs`: batches that are too large.

`bombs scan` and `bombs watch` find batches that become too large when they are decompressed; `bombs quarantine` keeps
such batches in files and lets a group pass them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import MaxBytes
from kafkakit.cli.completion import GROUP_NAME, TOPIC_NAME
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.core.errors import UsageError
from kafkakit.core.options import parsed_option
from kafkakit.core.quantities import parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kafkakit.cli.session import ClusterSession
    from kafkakit.report.report import Report
    from kafkakit.streams.model.commit import OffsetRanges
    from kafkakit.streams.records.act import BombScanner
    from kafkakit.streams.records.decide import KeptBatch, ScanStart


MOST_RECORDS = 1_000

records_app = new_group("Show the records that offsets stand for.")


@records_app.command("show", cls=CliCommand, short_help="Show the record at an offset.")
def show(
    ctx: typer.Context,
    place: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION@OFFSET", help="The record.", show_default=False)],
    count: Annotated[
        int,
        typer.Option("--count", metavar="N", min=1, max=MOST_RECORDS, help="Number of records, markers included."),
    ] = 1,
    max_bytes: MaxBytes = 1_000,
) -> None:
    """Show the record at an offset: time, key, value and headers, and the outcome of its transaction.

    Bytes that are UTF-8 are shown as text, others as hexadecimal digits, with -o json as base64. Of an offset without
    a record it reports why: a transaction marker, deleted by retention, compacted away (the next record is shown), or
    beyond the end. Records may hold secrets: they go to the result and nowhere else. Reads only, and joins no group.
    Exits 1 when there is nothing to show.

    Examples:

    \b
    kafkakit --profile prod streams records show payments/3@102
    kafkakit --profile prod streams records show payments/3@102 --count 10 --max-bytes 100
    kafkakit --profile prod streams records show payments/3@102 --max-bytes 10000000 -o json
    """
    from kafkakit.streams.records.act import RecordReader
    from kafkakit.streams.records.decide import parse_place, records_report

    cli = cli_context(ctx)
    key, offset = parse_place(place)
    with session.open_session(cli, read_only=True) as opened:
        reader = RecordReader(opened.log, opened.data, opened.clock, wait_s=opened.settings.request_timeout_s)
        found, cluster_id = reader.read(key, offset, count), opened.log.cluster_id()
    session.finish(cli, records_report(found, cluster_id, max_bytes))


record_app = new_group("Show the newest records of a topic.")


@record_app.command("tail", cls=CliCommand)
def tail(
    ctx: typer.Context,
    place: Annotated[
        str,
        typer.Argument(**{**TOPIC_NAME, "metavar": "TOPIC[/PARTITION]"}, help="The topic.", show_default=False),
    ],
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, max=MOST_RECORDS, help="Records of each partition.")
    ] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Also show what comes, until Ctrl-C.")] = False,
    grep: Annotated[str, typer.Option("--grep", metavar="TEXT", help="Only records with this text.")] = "",
    max_bytes: MaxBytes = 1_000,
) -> None:
    """Show the newest records: place, time, key, value, headers. Reads only, and joins no group.

    With --follow and -o json each record is one line. Records may hold secrets: they go to the result and nowhere else.

    Examples:

    \b
    kafkakit --profile prod record tail payments
    kafkakit --profile prod record tail payments/3 -n 100 --grep 4711
    kafkakit --profile prod record tail payments --follow
    """
    import json

    from kafkakit.cli.output import OutputFormat, write_out
    from kafkakit.core.text import plain_value
    from kafkakit.report.report import text_of
    from kafkakit.streams.records.act import RecordReader
    from kafkakit.streams.records.decide import (
        ReadResult,
        in_time_order,
        parse_tail,
        tail_data,
        tail_report,
        tail_sections,
    )

    cli = cli_context(ctx)
    if follow and (cli.output.page_file or cli.output.output_file):
        raise UsageError("--follow prints records until Ctrl-C; --html and --output-file need a result that ends")
    request = parse_tail(place, count, grep)
    with session.open_session(cli, read_only=True) as opened:
        reader = RecordReader(opened.log, opened.data, opened.clock, wait_s=opened.settings.request_timeout_s)
        found = reader.tail(request)
        as_lines = follow and cli.output.output_format is OutputFormat.JSON

        def show(read: ReadResult) -> None:
            records = in_time_order([read], request)
            if as_lines:
                lines = (json.dumps(plain_value(tail_data(key, entry, max_bytes))) for key, entry in records)
                write_out("".join(f"{line}\n" for line in lines))
            else:
                write_out(text_of(tail_sections(records, max_bytes)))

        if follow:
            for one in found:
                show(one)
            reader.follow(request, found, show)
        cluster_id = opened.log.cluster_id()
    session.finish(cli, tail_report(in_time_order(found, request), cluster_id, max_bytes))


Topics = Annotated[
    list[str], typer.Argument(**{**TOPIC_NAME, "metavar": "TOPIC..."}, help="The topics.", show_default=False)
]
Topic = Annotated[str, typer.Argument(**TOPIC_NAME, help="The topic.", show_default=False)]
From = Annotated[
    int | None,
    typer.Option("--from", metavar="OFFSET", min=0, help="Begin at this offset instead of the log's start."),
]
Since = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Begin at the first record of this time or later: 14:00 (today, local), -2h or ISO 8601.",
    ),
]


LEAST_LIMIT = 1_000


def _limit_bytes(text: str) -> int:
    found = parse_size(text, "--limit")
    if found < LEAST_LIMIT:
        raise UsageError(f"--limit: {text} is below {LEAST_LIMIT} bytes")
    return found


def _partitions(text: str) -> tuple[int, ...]:
    if not text:
        return ()
    from kafkakit.streams.commits.api import parse_partitions

    return parse_partitions(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimit:
    """Which partitions are looked at, and what a batch may become."""

    numbers: tuple[int, ...] = parsed_option(
        "", "--partition", parse=_partitions, metavar="N[,N-N...]", help="Only these partitions."
    )
    limit_bytes: int = parsed_option(
        "100MB",
        "--limit",
        parse=_limit_bytes,
        metavar="SIZE",
        help="Report batches that can become larger than this. Consumers on librdkafka stop at a third of their "
        "receive.message.max.bytes already: 33MB for its default.",
    )

    def scanner(self, opened: ClusterSession) -> BombScanner:
        """What looks at the cluster."""
        from kafkakit.streams.records.act import BombScanner

        wait_s = opened.settings.request_timeout_s
        return BombScanner(opened.log, opened.clock, limit_bytes=self.limit_bytes, wait_s=wait_s)


@with_option_groups
def quarantine(
    ctx: typer.Context,
    *,
    topic: Topic,
    offsets: Annotated[
        str,
        typer.Option("--offsets", metavar="N[,N-N...]", help="Only batches with these offsets; otherwise all."),
    ] = "",
    which: BatchLimit,
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
    which Kafka's tools read as a segment. OFFSET.json next to it holds its origin, its checksums and its producer. The
    topic is not changed. With --group the offsets of one partition's batches are marked as done in the group's commit,
    as streams commits skip does: the plan is shown first, and undo reverts it.

    Examples:

    \b
    kafkakit --profile prod streams bombs quarantine payments --dry-run
    kafkakit --profile prod streams bombs quarantine payments --partition 3 --offsets 102 --out-path kept
    kafkakit --profile prod streams bombs quarantine payments --partition 3 --offsets 102 --group orders --yes
    """
    from kafkakit.core.errors import RefusedError, TryLaterError
    from kafkakit.core.text import sanitize
    from kafkakit.streams.commits.api import no_such_group
    from kafkakit.streams.records.act import Quarantine
    from kafkakit.streams.records.decide import quarantine_report
    from kafkakit.wiring import write_file

    cli = cli_context(ctx)
    if group and len(which.numbers) != 1:
        raise UsageError("--group is about one partition", hint="name it: --partition N")
    if reject and not group:
        raise UsageError("--reject does nothing without --group")
    wanted, start = quarantined_offsets(offsets)
    with session.open_session(cli, read_only=True, edits_commits=bool(group) and not consent.dry_run) as opened:
        scanner, folder = which.scanner(opened), out_path or cli.settings.state_dir / "quarantine"
        keys = scanner.partitions([topic], which.numbers)
        if group:
            known = {listing.group for listing in opened.groups.groups()}
            if group not in known:
                raise no_such_group(group, known, cli.program)
            consent.require_possible(cli)  # batches are kept in files before the question
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
            raise RefusedError(f"no batch of {sanitize(topic)} with offsets {offsets:.80} is over the limit")
        if scan.unread:
            key, reason = min(scan.unread.items())
            words = f"{sanitize(str(key))} was not read to the end: {sanitize(reason)}"
            raise TryLaterError(words, hint="what was found before is kept; no commit was changed")
        edit = _mark_batches(ctx, opened, group, kept.kept, consent, reject=reject) if group and kept.kept else None
    report = quarantine_report(kept.kept, scan.cluster_id, str(folder), edit, is_planned=consent.dry_run)
    return session.finish(cli, report)


def _mark_batches(
    ctx: typer.Context,
    opened: session.ClusterSession,
    group: str,
    kept: Sequence[KeptBatch],
    consent: Consent,
    *,
    reject: bool,
) -> Report:
    """Mark the batches' offsets in the group's commit, after its plan was shown and confirmed."""
    from kafkakit.core.text import shell_command
    from kafkakit.streams.commits import api
    from kafkakit.streams.commits.api_act import EditedCluster, PartitionScope, edit_lock
    from kafkakit.streams.records.decide import offsets_to_mark

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
        cli.output.say(api.plan_text(plan))
    opening = api.opening_for(plan, who=opened.requester, reason="batches in quarantine")
    outcome = cluster.carry_out(plan, opening, None if consent.yes else cli.output.ask_typed)
    undo = shell_command("streams commits undo", "last", program=cli.program, group=group)
    return api.outcome_report(outcome, str(undo))


def quarantined_offsets(offsets: str) -> tuple[OffsetRanges, ScanStart]:
    """The offsets whose batches are meant, all for "", and the part of a log that holds them."""
    from kafkakit.streams.commits.api import parse_offsets
    from kafkakit.streams.model.commit import MAX_OFFSET, OffsetRanges
    from kafkakit.streams.records.decide import ScanStart

    if not offsets:
        return OffsetRanges.of([(0, MAX_OFFSET)]), ScanStart()
    ranges = parse_offsets(offsets)
    return ranges, ScanStart(offset=ranges.first, end=ranges.end)


bombs_app = new_group("Find batches too large to decompress; quarantine them.")
bombs_app.command("quarantine", cls=CliCommand, short_help="Keep such batches in files, and let a group pass them.")(
    quarantine
)


@bombs_app.command("scan", cls=CliCommand, short_help="Look for such batches in topics.")
@with_option_groups
def scan(
    ctx: typer.Context,
    *,
    topics: Topics,
    from_: From = None,
    since: Since = "",
    which: BatchLimit,
) -> int:
    """Look for batches in topics that become larger than a limit when they are decompressed.

    Reads the logs up to their present ends and looks at headers: zstd, lz4 and snappy batches are bounded by their
    blocks. Gzip states no reliable sizes: a batch that may exceed the limit is inflated up to it, and nothing of it is
    kept. Reads only, and joins no group. Exits 1 when a batch is found, 0 when none is, 75 when none is found and a
    partition was not read to its end.

    Examples:

    \b
    kafkakit --profile prod streams bombs scan payments
    kafkakit --profile prod streams bombs scan payments orders --since -2h --limit 33MB
    kafkakit --profile prod streams bombs scan payments --partition 3 --from 1000000 -o json
    """
    from kafkakit.streams.records.decide import scan_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        start = scan_start(from_, since, opened.clock.now())
        scanner = which.scanner(opened)
        keys = scanner.partitions(topics, which.numbers)
        with cli.output.progress("reading batch headers") as bar:
            found = scanner.scan(list(keys), start, bar)
    return session.finish(cli, scan_report(found, cli.program))


def scan_start(offset: int | None, since: str, now: datetime) -> ScanStart:
    """Where a scan begins; `UsageError` for a time that cannot be read, or for both."""
    from kafkakit.streams.commits.api import parse_moment
    from kafkakit.streams.records.decide import ScanStart

    if offset is not None and since:
        raise UsageError("name one start: --from OFFSET or --since TIME")
    moment = parse_moment(since, "--since", now, lambda at: at.astimezone()) if since else None
    return ScanStart(offset=offset, since_ms=None if moment is None else moment.ms)


@bombs_app.command("watch", cls=CliCommand, short_help="Report such batches as they come.")
@with_option_groups
def watch(
    ctx: typer.Context,
    *,
    topics: Topics,
    which: BatchLimit,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Time between two looks.")] = "5s",
    once: Annotated[
        bool, typer.Option("--once", help="Look once at the records of the last interval and end, for timers.")
    ] = False,
) -> int:
    """Report batches that become too large as they come into topics: a line each.

    Begins at the ends of the logs, and reads what came since every --interval. New partitions are read from their
    start. While a leader does not answer, a warning says so and the command continues. Ctrl-C ends it. With --once
    the records of the last interval are looked at, by their times; it ends like scan.

    Examples:

    \b
    kafkakit --profile prod streams bombs watch payments orders --limit 33MB
    kafkakit --profile prod streams bombs watch payments --once --interval 10m
    """
    from kafkakit.core.quantities import epoch_ms, parse_duration
    from kafkakit.streams.records.decide import ScanStart, found_line, scan_report

    cli = cli_context(ctx)
    every_s = parse_duration(interval, "--interval")
    with session.open_session(cli, read_only=True) as opened:
        scanner = which.scanner(opened)
        if not once:
            scanner.watch(topics, which.numbers, cli.output, found_line, every_s=every_s)
        start = ScanStart(since_ms=epoch_ms(opened.clock.now()) - round(1000 * every_s))
        with cli.output.progress("reading batch headers") as bar:
            found = scanner.scan(list(scanner.partitions(topics, which.numbers)), start, bar)
    return session.finish(cli, scan_report(found, cli.program))
