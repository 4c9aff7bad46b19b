"""`kafkakit streams dlq`, `streams reconcile`, `streams lane route` and `streams lane rules`.

`dlq list` and `dlq show` say what was rejected, and why; `dlq replay`, `dlq purge` and `dlq copy` change it.
`reconcile` compares the two sides of a dual write. `lane rules` says which lane takes which records, `lane route`
where sampled records would go.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import MaxBytes
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent, DryRun
from kafkakit.cli.session import finish, open_session
from kafkakit.core.options import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.cli.session import ClusterSession
    from kafkakit.ports.acting import Clock
    from kafkakit.streams.lanes.act.dead_letters import StreamClusters
    from kafkakit.streams.lanes.act.foreign_topics import ForeignTopic
    from kafkakit.streams.lanes.decide import CopyOutcome


MOST_LISTED = 100_000

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
StreamOrTopic = Annotated[
    str, typer.Argument(metavar="STREAM", help="The stream, or a dead letter topic.", show_default=False)
]
TopicHeader = Annotated[
    str,
    typer.Option(
        "--topic-header",
        metavar="NAME",
        help="STREAM is a dead letter topic of another program; this header of its records names their topic.",
        show_default=False,
    ),
]
Where = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="QUERY",
        help="Only records that match, such as 'reason = poison and age_s < 3600'. Attributes: reason, group, lane, "
        "key, tries, hops, age_s, error_class, error_text, header.NAME, topic, partition, offset, bytes, origin_topic, "
        "replayed (true or false), held (copy or reference).",
    ),
]


def list_(
    ctx: typer.Context,
    stream: StreamOrTopic,
    where: Where = "",
    topic_header: TopicHeader = "",
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, max=MOST_LISTED, help="Show at most N records; count all.")
    ] = 100,
) -> None:
    """List rejected records: in the DLQ lane, and as references to records that are still in their topic.

    Reads the DLQ lane and the reject ledger (topic __kafkakit_rejects) from their beginning to their end. Reads only,
    and joins no group. In place of a stream it takes a dead letter topic that Spring, Kafka Connect or Kafka Streams
    wrote, whose headers are known, or with --topic-header a dead letter topic of another program.

    Examples:

    \b
    kafkakit --profile prod streams dlq list orders
    kafkakit --profile prod streams dlq list orders --where 'reason = timeout and group = billing and age_s < 3600'
    kafkakit --profile prod streams dlq list orders --where 'key like "customer-7*"' -o json
    kafkakit --profile prod streams dlq list orders.DLT --where 'error_class like "*Timeout*"'
    """
    from kafkakit.core.quantities import epoch_ms
    from kafkakit.streams.lanes.act.dead_letters import LetterReader
    from kafkakit.streams.lanes.decide import letter_filter
    from kafkakit.streams.lanes.report import letters_report, tally
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        matches, wait_s = letter_filter(where, epoch_ms(opened.clock.now())), opened.settings.request_timeout_s
        foreign = foreign_topic(opened, opened, stream, topic_header)
        if foreign is not None:
            letters = LetterReader(foreign.clusters, opened.clock, wait_s=wait_s).copies(foreign.route, foreign)
            first, reasons = tally(filter(matches, letters), limit)
            report = letters_report(stream, first, reasons, 0, "topic")
        else:
            reader = LetterReader(clusters_of(ctx, stack, read_only=True), opened.clock, wait_s=wait_s)
            first, reasons = tally(reader.matching(RouteStore(opened.control).existing(stream).route, matches), limit)
            report = letters_report(stream, first, reasons, reader.strange)
    finish(cli, report)


def show(
    ctx: typer.Context,
    stream: Stream,
    place: Annotated[
        str, typer.Argument(metavar="TOPIC/PARTITION@OFFSET", help="The record, as in the list.", show_default=False)
    ],
    max_bytes: MaxBytes = 1_000,
) -> None:
    """Show one rejected record: where it came from, why it was rejected, key, value and headers.

    Records may hold secrets: they go to the result and nowhere else. Exits 1 when the record is gone.

    Examples:

    \b
    kafkakit --profile prod streams dlq show orders orders.dlq.1/0@17
    """
    from kafkakit.streams.lanes.act.dead_letters import LetterReader
    from kafkakit.streams.lanes.report import letter_report
    from kafkakit.streams.records.api import parse_place
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    key, offset = parse_place(place)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        clusters = clusters_of(ctx, stack, read_only=True)
        reader = LetterReader(clusters, opened.clock, wait_s=opened.settings.request_timeout_s)
        letter, found = reader.one(RouteStore(opened.control).existing(stream).route, key, offset)
    finish(cli, letter_report(letter, found, max_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Where records are replayed to, and how fast."""

    to: str = option(
        "", "--to", metavar="LANE", help="The lane (or topic); if not given, the one that each record came from."
    )
    rate: float = option(100.0, "--rate", metavar="N", min=0.001, max=1_000_000, help="At most N records a second.")
    limit: int | None = option(None, "--limit", metavar="N", min=1, help="At most N records in all.")

    @property
    def lane(self) -> str | None:
        """The lane that is named; None for each record's own."""
        return self.to or None


@with_option_groups
def replay(
    ctx: typer.Context,
    *,
    stream: StreamOrTopic,
    where: Where = "",
    topic_header: TopicHeader = "",
    target: ReplayOptions,
    consent: Consent,
) -> None:
    """Write records of the DLQ lane to their original lane again, each once.

    What was replayed is kept in the commits of group kafkakit-dlq-replay.STREAM (see `streams commits show`), so the
    same command continues after an interruption: no record is missed, and at most the batch that was being written is
    written twice. All groups that read the lane get the records. References are not replayed: copy them first.
    Records of a dead letter topic that Spring, Kafka Connect or Kafka Streams wrote go to the topic that their headers
    name, with key, value and headers as they are; --topic-header names the header of another program.

    Examples:

    \b
    kafkakit --profile prod streams dlq replay orders --dry-run
    kafkakit --profile prod streams dlq replay orders --where 'reason = timeout' --rate 50 --yes
    kafkakit --profile prod streams dlq replay orders --to slow --limit 1000
    kafkakit --profile prod streams dlq replay orders.DLT --topic-header x-original-topic --dry-run
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import epoch_ms
    from kafkakit.streams.lanes.act.dead_letters import Replayer
    from kafkakit.streams.lanes.decide import ReplayBudget, letter_filter, require_target
    from kafkakit.streams.lanes.report import replay_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    cli.operation_words = ("stopped; what was replayed is kept", "run the same command again to continue")
    budget = ReplayBudget(rate=target.rate, limit=target.limit)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        matches = letter_filter(where, epoch_ms(opened.clock.now()))
        acting = opened if consent.dry_run else stack.enter_context(open_session(cli))
        foreign = foreign_topic(opened, acting, stream, topic_header)
        if foreign is not None:
            kind, route, clusters = "topic", foreign.route, foreign.clusters
            if target.lane is not None and (problem := foreign.problem_of(target.lane)):
                raise UsageError(f"nothing can be replayed to topic {target.lane[:249]!r}: {problem}")
        else:
            kind, route = "stream", RouteStore(opened.control).existing(stream).route
            require_target(route, target.lane)
            clusters = clusters_of(ctx, stack, read_only=consent.dry_run)
        consent.require_possible(cli)  # the lease of the replay is taken before the question
        guard, clock = (lambda: None), opened.clock
        if not consent.dry_run:
            guard, clock = claim_stream(ctx, opened, stack, stream, "replay", is_topic=foreign is not None)
        replayer = Replayer(clusters, clock, guard, wait_s=opened.settings.request_timeout_s)
        is_plan = consent.dry_run or not consent.yes
        outcome = replayer.replay(route, matches, budget, to=target.lane, is_plan=is_plan, origins=foreign)
        question = f"Replay {outcome.replayed:,} records of {kind} {stream}?"
        if is_plan and not consent.dry_run and outcome.replayed and consent.confirm(cli, question):
            outcome = replayer.replay(route, matches, budget, to=target.lane, origins=foreign)
    finish(cli, replay_report(stream, outcome, kind))


@with_option_groups
def purge(
    ctx: typer.Context,
    *,
    stream: Stream,
    where: Where = "",
    everything: Annotated[bool, typer.Option("--all", help="Instead of --where: every rejected record.")] = False,
    consent: Consent,
) -> None:
    """Delete rejected records for good: from the DLQ lane, and their references.

    Kafka deletes the records of a partition only from its beginning, so a matching record stays while one that does not
    match lies before it. Prints the plan, and deletes nothing that was rejected after it.

    Examples:

    \b
    kafkakit --profile prod streams dlq purge orders --where 'replayed = true' --dry-run
    kafkakit --profile prod streams dlq purge orders --where 'age_s > 2592000' --yes
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import epoch_ms
    from kafkakit.streams.lanes.act.dead_letters import Purger
    from kafkakit.streams.lanes.decide import PurgeOutcome, letter_filter
    from kafkakit.streams.lanes.report import purge_lines, purge_report
    from kafkakit.streams.routes.api_act import RouteStore

    if bool(where) == everything:
        raise UsageError("give what to delete: --where QUERY or --all, not both")
    cli = cli_context(ctx)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        route, clusters = (
            RouteStore(opened.control).existing(stream).route,
            clusters_of(ctx, stack, read_only=consent.dry_run),
        )
        purger = Purger(clusters, opened.clock, wait_s=opened.settings.request_timeout_s)
        outcome = PurgeOutcome(plan=purger.plan(route, letter_filter(where, epoch_ms(opened.clock.now()))), errors={})
        is_plan = consent.dry_run or outcome.plan.is_empty
        if not is_plan and not consent.yes:
            cli.output.say("\n".join(purge_lines(stream, outcome.plan)))
            is_plan = not consent.confirm(cli, "Delete these records?")
        if not is_plan:
            outcome = purger.carry_out(route, outcome.plan)
    finish(cli, purge_report(stream, outcome, is_plan=is_plan))


def copy(
    ctx: typer.Context,
    stream: Stream,
    once: Annotated[bool, typer.Option("--once", help="Check once; otherwise repeatedly, until Ctrl-C.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Copy every reference now.")] = False,
    ahead: Annotated[
        str, typer.Option("--ahead", metavar="DURATION", help="Copy this long before retention may delete the record.")
    ] = "1d",
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="Time between two checks.")] = "1m",
    dry_run: DryRun = False,
) -> None:
    """Copy rejected records to the DLQ lane before retention deletes them.

    A rejected record stays in its topic, and a reference to it in topic __kafkakit_rejects. The record's time and
    retention.ms tell when it may be deleted; if size or compaction may delete it, it is copied at once. The reference
    is removed once the copy is acknowledged, so an interruption can copy a record twice and loses none. Exits 1 when a
    record is gone already, or cannot be read; its reference stays. With --dry-run it reads the records that are due,
    counts them, and ends.

    Examples:

    \b
    kafkakit --profile prod streams dlq copy orders --dry-run
    kafkakit --profile prod streams dlq copy orders
    kafkakit --profile prod streams dlq copy orders --once --all
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import parse_duration
    from kafkakit.streams.lanes.act.dead_letters import RejectCopier, copy_again_and_again
    from kafkakit.streams.lanes.report import copy_line, copy_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    ahead_s, every_s = parse_duration(ahead, "--ahead"), parse_duration(every, "--every")
    if not once and 2 * every_s > ahead_s:
        raise UsageError(f"--every {every} is too long for --ahead {ahead}", hint="check at least twice in that time")
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        guard, clock = (lambda: None), opened.clock
        if not dry_run:
            guard, clock = claim_stream(ctx, opened, stack, stream, "copy")
        clusters = clusters_of(ctx, stack, read_only=dry_run)
        copier = RejectCopier(clusters, clock, guard, wait_s=opened.settings.request_timeout_s)

        def look() -> CopyOutcome:
            route = RouteStore(opened.control).existing(stream).route
            return copier.copy(route, ahead_s=None if everything else ahead_s, is_plan=dry_run)

        outcome = look()
        if not (once or dry_run):
            copy_again_and_again(
                look,
                clock,
                every_s,
                say=lambda found: cli.output.say(copy_line(stream, found)),
                warn=cli.output.warn,
                first=outcome,
            )
    finish(cli, copy_report(stream, outcome))


def route(
    ctx: typer.Context,
    sample: Annotated[
        str,
        typer.Option("--sample", metavar="FILE", help="Records, one JSON object a line; - for stdin."),
    ],
    rules: Annotated[str, typer.Option("--rules", metavar="FILE", help="The rules, as a YAML file.")] = "",
    stream: Annotated[str, typer.Option("--stream", metavar="STREAM", help="The rules of this stream's route.")] = "",
) -> None:
    """Count which lane sampled records would go to, and which rule decides on each.

    Rules come from a stream, or from a file: a list of `lane: NAME` and `where: QUERY`. The first that matches
    decides; no match is lane live. Queries see key, header.NAME, tenant (the header tenant), bytes and age_s, the
    record's age now. The sample has a JSON object a line, each a record as `streams records show -o json` prints it, or
    what that printed as it is. Reads only.

    Examples:

    \b
    kafkakit --profile prod streams records show payments/3@0 --count 1000 -o json > sample.json
    kafkakit --profile prod streams lane route --rules rules.yaml --sample sample.json
    kafkakit --profile prod streams lane route --stream orders --sample sample.json -o json
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import epoch_ms
    from kafkakit.streams.lanes import decide as rule_file
    from kafkakit.streams.lanes import decide as samples
    from kafkakit.streams.lanes.report import routing_report
    from kafkakit.streams.routes.api_act import RouteStore

    if bool(rules) == bool(stream):
        raise UsageError("name the rules: --rules FILE or --stream STREAM")
    if rules == sample == "-":
        raise UsageError("only one of --rules and --sample can be stdin")
    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        if stream:
            chosen = RouteStore(opened.control).existing(stream).route.rules
        else:
            chosen = rule_file.read_rules(opened.read_input(rules, rule_file.RULE_FILE_LIMIT_BYTES), rules)
        records = samples.read_samples(opened.read_input(sample, samples.SAMPLES_LIMIT_BYTES), sample)
        shares = samples.lane_shares(chosen, records, epoch_ms(opened.clock.now()))
    session.finish(cli, routing_report(shares, f"stream {stream}" if stream else rules))


@with_option_groups
def rules(
    ctx: typer.Context,
    *,
    stream: Stream,
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="The new rules, as a YAML file; none removes all; - for stdin.")
    ] = "",
    consent: Consent,
) -> int:
    """Print the rules of a stream, or replace them all.

    The file is a list of `lane: NAME` and `where: QUERY`; the first rule that matches a record decides, and no match is
    lane live. Producers follow the change without a restart; records that are written already stay where they are.
    Check first with `streams lane route` what the rules would do to current records.

    Examples:

    \b
    kafkakit --profile prod streams lane rules orders
    kafkakit --profile prod streams lane rules orders rules.yaml --dry-run
    kafkakit --profile prod streams lane rules orders none --yes
    """
    from functools import partial

    from kafkakit.core.quantities import epoch_ms
    from kafkakit.streams.lanes.decide import RULE_FILE_LIMIT_BYTES, read_rules
    from kafkakit.streams.lanes.report import rules_report
    from kafkakit.streams.model.route import with_rules
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as opened:
        routes = RouteStore(opened.control)
        before = route = routes.existing(stream).route
        if file:
            chosen = () if file == "none" else read_rules(opened.read_input(file, RULE_FILE_LIMIT_BYTES), file)
            edit = partial(with_rules, rules=chosen)
            route = edit(before)
            question = f"Replace the {len(before.rules)} rules of stream {stream} by {len(chosen)}?"
            if not consent.dry_run and route != before and consent.confirm(cli, question):
                route = routes.change(
                    stream,
                    edit,
                    by=opened.requester,
                    what=f"set {len(chosen)} rules",
                    at_ms=epoch_ms(opened.clock.now()),
                )
    return finish(cli, rules_report(before, route))


def foreign_topic(opened: ClusterSession, acting: ClusterSession, name: str, topic_header: str) -> ForeignTopic | None:
    """The dead letter topic of this name, which `acting` reads and writes; None if it is a stream.

    A stream goes before a topic of the same name, unless a header is given.
    """
    from kafkakit.streams.lanes.act.foreign_topics import ForeignTopic
    from kafkakit.streams.model.route import is_stream_name
    from kafkakit.streams.routes.api_act import RouteStore

    if not topic_header and is_stream_name(name) and RouteStore(opened.control).read(name) is not None:
        return None
    return ForeignTopic(acting, name, topic_header or None)


def clusters_of(ctx: typer.Context, stack: ExitStack, *, read_only: bool) -> StreamClusters:
    """The clusters that a route names, each by its profile, opened when they are needed."""
    from kafkakit.streams.lanes.act.dead_letters import StreamClusters

    cli = cli_context(ctx)

    def opened(profile: str) -> ClusterSession:
        return stack.enter_context(open_session(cli, read_only=read_only, settings=cli.load_settings(profile)))

    return StreamClusters(opened)


def claim_stream(
    ctx: typer.Context, opened: ClusterSession, stack: ExitStack, stream: str, what: str, *, is_topic: bool = False
) -> tuple[Callable[[], None], Clock]:
    """Take the stream's lease for `what`: what to call before each change, and a clock that keeps the lease.

    Raises `TryLaterError` while another process has it.
    """
    from kafkakit.core.lease import DEFAULT_TTL_S
    from kafkakit.execution.act.leases import HeldClock
    from kafkakit.streams.model.route import check_stream
    from kafkakit.wiring import open_lease

    # A folder of their own: those below `streams` are the names of streams.
    folder = f"dead-letter-topics/{stream}" if is_topic else f"streams/{check_stream(stream)}"
    path, say = f"{folder}/lease-{what}", cli_context(ctx).output.say
    words, command = f"{what} of {'topic' if is_topic else 'stream'} {stream}", f"streams dlq {what}"
    lease = open_lease(opened.control, opened.clock, opened.cluster_id, command, say, path, words)
    lease.acquire()
    stack.callback(lease.release)
    return lease.require_held, HeldClock(opened.clock, lease, DEFAULT_TTL_S / 10)


dlq = new_group("List, replay and purge rejected records.")
dlq.command("list", cls=CliCommand, short_help="List rejected records.")(list_)
dlq.command("show", cls=CliCommand, short_help="Show one rejected record and its provenance.")(show)
dlq.command("replay", cls=CliCommand, short_help="Write rejected records to their original lane again.")(replay)
dlq.command("purge", cls=CliCommand, short_help="Delete rejected records for good.")(purge)
dlq.command("copy", cls=CliCommand, short_help="Copy rejected records before retention deletes them.")(copy)


def reconcile(
    ctx: typer.Context,
    primary: Annotated[str, typer.Argument(metavar="STREAM", help="The primary stream.", show_default=False)],
    secondary: Annotated[str, typer.Argument(metavar="SECONDARY", help="The secondary.", show_default=False)],
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Records made at this time or later: 14:00, -2h or ISO 8601.")
    ] = "-1h",
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="Records made before this time; leave time for repairs.")
    ] = "-1m",
    margin: Annotated[
        str,
        typer.Option(
            "--margin",
            metavar="DURATION",
            help="Also read records whose time in Kafka is this far outside; more if applications set times.",
        ),
    ] = "10m",
) -> int:
    """Compare the two streams of a dual write by their records' ids (header kafkakit-id).

    Counts records that only one stream has, that both have, and that have another key. Duplicates do not count as a
    difference; records without an id are not compared. Reads every lane but dlq, up to 2,000,000 records of each
    stream, with 300 bytes of memory each; writes nothing and joins no group. Exits 1 when the streams differ.

    Examples:

    \b
    kafkakit --profile prod streams reconcile orders orders-copy
    kafkakit --profile prod streams reconcile orders orders-copy --since -25h --until -1h -o json
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import parse_duration
    from kafkakit.streams.commits.api import parse_moment
    from kafkakit.streams.lanes.act.dead_letters import ComparedRange, Reconciler
    from kafkakit.streams.lanes.report import reconciliation_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    if primary == secondary:
        raise UsageError(f"stream {primary} would be compared with itself")
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        now = opened.clock.now()
        moments = (("--since", since), ("--until", until))
        start, end = (parse_moment(text, flag, now, lambda at: at.astimezone()).ms for flag, text in moments)
        compared = ComparedRange(from_ms=start, to_ms=end, margin_ms=round(parse_duration(margin, "--margin") * 1000))
        routes = [RouteStore(opened.control).existing(stream).route for stream in (primary, secondary)]
        clusters = clusters_of(ctx, stack, read_only=True)
        reconciler = Reconciler(clusters, opened.clock, wait_s=opened.settings.request_timeout_s)
        found = reconciler.compare(routes[0], routes[1], compared)
    return finish(cli, reconciliation_report(primary, secondary, start, end, found))
