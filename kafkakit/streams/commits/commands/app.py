"""`kafkakit streams commits`: the group, and the commands that only read.

`show`, `explain` and `watch` look at one group of a live cluster, `verify` and `limits` at many groups at once, and
`decode`, `encode` and `diff` at strings and files, without a cluster. The commands that edit are in
`kafkakit/streams/commits/commands/editing.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.session import ClusterSession, open_session
from kafkakit.core.findings import FailOn
from kafkakit.core.quantities import epoch_ms
from kafkakit.streams.commits.commands import options
from kafkakit.streams.commits.commands.editing import (
    delete,
    finish,
    reject,
    replay,
    reset,
    skip,
    translate,
    unack,
    undo,
)
from kafkakit.streams.commits.commands.options import DEFAULT_FORM, FormWord
from kafkakit.streams.commits.decide.group_look import CommitScope
from kafkakit.streams.model.dialects.registry import about_forms

if TYPE_CHECKING:
    from kafkakit.streams.commits.act.reading import Inspector


app = new_group("Inspect and edit commits that hold many offsets.")


@with_option_groups
def show(
    ctx: typer.Context,
    *,
    group: options.Group,
    within: CommitScope,
    also: options.Also = None,
    drawing: options.DrawingOptions,
) -> None:
    """Show what a group committed: done, pending, retrying and rejected offsets, their age, size and hazards.

    Reads the commits, the ends of the logs, the time of the oldest pending record, the brokers' limit and which
    member holds each partition. For several commits a table comes first, then those that hold more than an offset.
    Reads only.

    Examples:

    \b
    kafkakit --profile prod streams commits show payments
    kafkakit --profile prod streams commits show payments --topic orders --partition 3 -o json
    """
    from kafkakit.streams.commits.report.groups import group_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        look = inspector_of(ctx, opened, also).look_existing(group, within)
    report = group_report("show", look, columns=drawing.columns, style=drawing.style(cli))
    session.finish(cli, report)


@with_option_groups
def explain(
    ctx: typer.Context,
    *,
    group: options.Group,
    offset: Annotated[
        int | None,
        typer.Argument(
            metavar="OFFSET", min=0, help="The offset; the oldest pending one when not given.", show_default=False
        ),
    ] = None,
    within: options.OneCommitScope,
) -> None:
    """Explain why an offset is pending or done, since when, and what a restart would do to it.

    Examples:

    \b
    kafkakit --profile prod streams commits explain payments --topic orders --partition 3
    kafkakit --profile prod streams commits explain payments 1048576 --topic orders --partition 3
    """
    from kafkakit.streams.commits.decide.group_look import only_commit
    from kafkakit.streams.commits.decide.offset_states import explain as explain_offset
    from kafkakit.streams.commits.report.commits import explained_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        inspector = inspector_of(ctx, opened)
        look = inspector.look_existing(group, within)
        cli.cluster_id, facts = look.cluster_id, only_commit(look)
        at = facts.first_pending if offset is None else offset
        written = None
        if facts.key is not None and facts.span is not None and facts.span.start <= at < facts.span.end:
            written = inspector.written(facts.key, at)
    found = explain_offset(facts, at, written)
    addresses = cli.settings.bootstrap_servers or "HOST:PORT"
    session.finish(cli, explained_report(facts, found, written, addresses))


@with_option_groups
def watch(
    ctx: typer.Context,
    *,
    group: options.Group,
    within: CommitScope,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Time between two refreshes.")] = "5s",
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=0, help="End after this many refreshes; 0: not before Ctrl-C.")
    ] = 0,
) -> None:
    """Watch a group's commits: a table that refreshes on a terminal, otherwise one line a change.

    Ctrl-C ends it. While the cluster cannot be reached, a warning says so and the command continues; the table
    shows the time of its figures. The result is the last state read.

    Examples:

    \b
    kafkakit --profile prod streams commits watch payments --interval 2s
    """
    from kafkakit.core.quantities import parse_duration
    from kafkakit.streams.commits.act.reading import GroupDisplay, watch_group
    from kafkakit.streams.commits.report.groups import group_report

    cli = cli_context(ctx)
    every_s = parse_duration(interval, "--interval")
    with session.open_session(cli, read_only=True) as opened:
        inspector = inspector_of(ctx, opened)
        first = inspector.look_existing(group, within)
        with cli.output.screen() as screen:
            look = watch_group(
                lambda: inspector.look(group, within),
                opened.clock,
                cli.output,
                GroupDisplay(screen, rows=options.DrawingOptions().rows, in_place=cli.output.animate),
                first=first,
                every_s=every_s,
                count=count,
            )
    drawing = options.DrawingOptions()
    report = group_report("watch", look, columns=drawing.columns, style=drawing.style(cli))
    session.finish(cli, report)


All = Annotated[bool, typer.Option("--all", help="All groups of the cluster.")]


def verify(
    ctx: typer.Context,
    groups: options.Groups = None,
    all_groups: All = False,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="DURATION",
            help="Report groups whose oldest pending record is older than this. Reads one record a partition.",
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit 1 for findings of this severity or worse.")
    ] = FailOn.WARNING,
) -> int:
    """Check commits for everything that loses or repeats records, for CI and cron.

    Finds payloads that belong to another commit or cannot be read, maps that a copy shifted, commits outside their
    log, payloads near the limit, wrong clocks. Reads only. Exits 0 without findings of --fail-on or worse, 1 with
    some, 75 when the cluster cannot be reached.

    Examples:

    \b
    kafkakit --profile prod streams commits verify --all --max-age 1h
    kafkakit --profile prod streams commits verify payments billing -o json
    """
    from kafkakit.core.quantities import parse_duration
    from kafkakit.streams.commits.report.groups import findings_report

    cli = cli_context(ctx)
    max_age_s = None if max_age is None else parse_duration(max_age, "--max-age")
    with session.open_session(cli, read_only=True) as opened:
        inspector = inspector_of(ctx, opened)
        names = inspector.chosen_names(groups or [], all_groups=all_groups)
        looks = inspector.look_at(names, dates=max_age_s is not None)
        limits = inspector.limits()
    return session.finish(cli, findings_report(looks, limits, inspector.cluster_id, max_age_s, fail_on))


def limits(ctx: typer.Context, groups: options.Groups = None) -> None:
    """Show the brokers' limit of commit metadata, and how much of it each group uses, the highest use first.

    The limit is offset.metadata.max.bytes, which counts characters (UTF-16 units), not bytes; a group's commits go
    through its coordinator, so the lowest limit of all brokers applies. All groups if none is named. Reads only.

    Examples:

    \b
    kafkakit --profile prod streams commits limits
    kafkakit --profile prod streams commits limits payments -o tsv
    """
    from kafkakit.streams.commits.report.groups import limits_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        inspector = inspector_of(ctx, opened)
        found = inspector.limits()
        looks = inspector.commits_of(inspector.chosen_names(groups or [], all_groups=not groups))
    session.finish(cli, limits_report(found, inspector.cluster_id, looks, is_named=bool(groups)))


@with_option_groups
def decode(
    ctx: typer.Context,
    *,
    metadata: Annotated[str, typer.Argument(metavar="STRING", help="The commit's metadata; - reads it from stdin.")],
    offset: options.Offset,
    committed_for: options.IdentityOptions,
    limit: options.MetadataLimit = None,
    drawing: options.DrawingOptions,
) -> None:
    """Decode the metadata of a commit by any known client. Needs no cluster.

    Reads the metadata of kafkakit, parallel-consumer and Kafka Streams. Draws which offsets are done, pending,
    retrying, deferred, rejected and skipped; prints the oldest pending one and its age, the size and its limit, what is
    delivered again after a restart, and hazards. With all four parts of the identity it checks whether the payload
    belongs there. The exit code is 0 for every string, even for metadata of an unknown client.

    Examples:

    \b
    kafkakit streams commits decode '~bEA9kU2IBB2QKAAECAgUCCLawy6eWM-gHBAIHAg' --offset 100
    kafkakit streams commits decode ZQAAAAEAAMNL --offset 5
    kafkakit streams commits decode - --offset 5 -o json < metadata.txt
    """
    from kafkakit.streams.commits.decide.documents import facts_of, text_of_stdin
    from kafkakit.streams.commits.report.commits import commit_report
    from kafkakit.wiring import read_input, system_clock

    cli = cli_context(ctx)
    text = metadata if metadata != "-" else text_of_stdin(read_input("-", MAX_STRING))
    at_ms = epoch_ms(system_clock().now())
    facts = facts_of(text, offset, limit_chars=limit, identity=committed_for.identity, at_ms=at_ms)
    session.finish(cli, commit_report(facts, columns=drawing.columns, style=drawing.style(cli)))


@with_option_groups
def encode(
    ctx: typer.Context,
    *,
    document: Annotated[str, typer.Argument(metavar="FILE", help="What decode -o json printed; - reads stdin.")],
    form: Annotated[FormWord, typer.Option("--as", help=about_forms())] = DEFAULT_FORM,
    committed_for: options.IdentityOptions,
    limit: Annotated[
        int, typer.Option("--limit", metavar="CHARS", min=1, help="The most characters that the metadata may have.")
    ] = 4095,
) -> None:
    """Write a commit's metadata from JSON: the fields that decode -o json prints. Commits nothing.

    offset and state.base are required, state.done are [start, end] pairs, the end excluded; all other fields are
    optional. kafkakit's own metadata needs an identity, in the JSON or from the options, which take precedence.
    What does not fit the limit is coarsened, and stderr reports how many acknowledgements are lost. Exits 4 when
    nothing fits. The default limit is one below Kafka's, since confluent-kafka adds a character.

    Examples:

    \b
    kafkakit streams commits decode "$OLD" --offset 100 -o json | kafkakit streams commits encode - --as pc
    kafkakit streams commits encode commit.json --as w --limit 4095
    """
    from kafkakit.streams.commits.decide.documents import encode_document, read_commit
    from kafkakit.streams.commits.report.commits import encoded_report
    from kafkakit.wiring import read_input

    cli = cli_context(ctx)
    source = "stdin" if document == "-" else document
    written = encode_document(
        read_commit(read_input(document, MAX_INPUT), source),
        form,
        identity=committed_for.identity,
        limit_chars=limit,
        source=source,
    )
    if written.forgotten:
        cli.output.warn(f"{written.forgotten:,} acknowledgements did not fit and are forgotten: they come again")
    if written.left_out:
        cli.output.warn(f"{form} does not hold {', '.join(written.left_out)}: left out")
    session.finish(cli, encoded_report(written))


def diff(
    ctx: typer.Context,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="OFFSET:STRING, or a file of show -o json.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The later commit, in the same form.")],
) -> None:
    """Show what changed between two commits: what became done, pending again, rejected, or was tried again.

    Give two strings with their offsets before them, or two files that `show -o json` wrote. Files are compared
    partition by partition.

    Examples:

    \b
    kafkakit streams commits diff 5:ZQAAAAEAAMNL 5:ZQAAAAEAAMNM
    kafkakit --profile prod streams commits show payments -o json --output-file before.json
    kafkakit streams commits diff before.json after.json
    """
    from kafkakit.streams.commits.decide.documents import read_shown
    from kafkakit.streams.commits.report.groups import changes_report, compare_shown, compare_strings
    from kafkakit.wiring import read_input

    changes = compare_strings(before, after)
    if changes is None:
        changes = compare_shown(
            read_shown(read_input(before, MAX_INPUT), before), read_shown(read_input(after, MAX_INPUT), after)
        )
    session.finish(cli_context(ctx), changes_report(changes))


MAX_INPUT = 16 << 20
MAX_STRING = 1 << 20


def inspector_of(ctx: typer.Context, opened: ClusterSession, also: list[str] | None = None) -> Inspector:
    """A reader of the session's cluster; the clusters of the profiles in `also` are opened only when one is needed."""
    from kafkakit.streams.commits.act.reading import Inspector, known_elsewhere

    cli = cli_context(ctx)
    others = [cli.load_settings(profile) for profile in also or ()]
    return Inspector(
        opened.groups,
        opened.log,
        opened.admin,
        opened.clock,
        lambda: known_elsewhere(open_session(cli, read_only=True, settings=settings) for settings in others),
        cli.program,
    )


app.command("show", cls=CliCommand, short_help="Show what a group committed, offset by offset.")(show)
app.command("explain", cls=CliCommand, short_help="Explain why an offset is pending, and since when.")(explain)
app.command("watch", cls=CliCommand, short_help="Watch a group's commits.")(watch)
app.command("verify", cls=CliCommand, short_help="Check groups for what loses or repeats records.")(verify)
app.command("limits", cls=CliCommand, short_help="Show how full the metadata of all groups is.")(limits)
app.command("decode", cls=CliCommand, short_help="Decode a commit's metadata from a string.")(decode)
app.command("encode", cls=CliCommand, short_help="Write a commit's metadata from JSON.")(encode)
app.command("diff", cls=CliCommand, short_help="Show what changed between two commits.")(diff)
app.command("reset", cls=CliCommand, short_help="Move the committed offset of a group without members.")(reset)
app.command("skip", cls=CliCommand, short_help="Mark records as done, such as a poison pill.")(skip)
app.command("unack", cls=CliCommand, short_help="Deliver done records again.")(unack)
app.command("reject", cls=CliCommand, short_help="Mark records as rejected.")(reject)
app.command("replay", cls=CliCommand, short_help="Deliver a window of records again.")(replay)
app.command("translate", cls=CliCommand, short_help="Convert commits to another kind of metadata.")(translate)
app.command("delete", cls=CliCommand, short_help="Delete the commits of a group without members.")(delete)
app.command("undo", cls=CliCommand, short_help="Restore the commits that an edit replaced.")(undo)
app.command("finish", cls=CliCommand, short_help="Finish an edit that was interrupted.")(finish)
