"""`kafkakit streams commits verify|limits`: many groups at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.core.findings import FailOn

if TYPE_CHECKING:
    from kafkakit.streams.commits.act.reading import Inspector

Groups = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP...", help="The groups; or --all.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="All groups of the cluster.")]


def verify(
    ctx: typer.Context,
    groups: Groups = None,
    all_groups: All = False,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="DURATION",
            help="Hold it against a group when its oldest pending record is older. Reads one record a partition.",
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit 1 for findings of this severity or worse.")
    ] = FailOn.WARNING,
) -> int:
    """Check commits for everything that loses or repeats records: for CI and cron.

    Looks for payloads that belong elsewhere or cannot be read, maps that a copy shifted, commits outside their log,
    payloads near the limit, clocks that are wrong. Reads only. Exits 0 without findings of --fail-on or worse, 1 with
    some, 75 when the cluster cannot be reached.

    Examples:

    \b
    kafkakit --profile prod streams commits verify --all --max-age 1h
    kafkakit --profile prod streams commits verify payments billing -o json
    """
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import ExitCode
    from kafkakit.core.findings import COLUMNS, fails, finding_rows, findings_data, findings_text
    from kafkakit.core.quantities import counted
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.commands.live import open_inspector
    from kafkakit.streams.commits.show.findings import ABOUT, findings_of

    kit = kit_of(ctx)
    max_age_s = None if max_age is None else parse_duration(max_age, "--max-age")
    with open_inspector(kit) as inspector:
        names = _names(inspector, groups or [], all_groups, kit.program)
        looks = inspector.look_at(names, dates=max_age_s is not None)
        limits = inspector.limits()
    findings = findings_of(looks, max_age_s=max_age_s)
    commits = sum(len(look.commits) for look in looks)
    cluster = inspector.cluster_id
    head = f"cluster {cluster}: {counted(len(looks), 'group')}, {counted(commits, 'commit')}"
    kit.output.result(
        Report(
            command="streams commits verify",
            data={
                "cluster_id": cluster,
                "groups": len(looks),
                "commits": commits,
                "limit_chars": limits.strictest,
                **findings_data(findings),
                "rules": [{"rule": rule, "about": about} for rule, about in ABOUT.items()],
            },
            text=f"{head}\n\n{findings_text(findings)}",
            columns=COLUMNS,
            rows=finding_rows(findings),
        )
    )
    return int(ExitCode.FAILED if fails(findings, fail_on) else ExitCode.DONE)


def limits(ctx: typer.Context, groups: Groups = None) -> None:
    """Show how much commit metadata the brokers take, and how much of it each group uses, the fullest first.

    The limit is offset.metadata.max.bytes, which counts characters (UTF-16 units), not bytes; a group's commits go
    through its coordinator, so the lowest of all brokers is what counts. All groups where none is named. Reads only.

    Examples:

    \b
    kafkakit --profile prod streams commits limits
    kafkakit --profile prod streams commits limits payments -o tsv
    """
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.commands.live import open_inspector
    from kafkakit.streams.commits.decide.headroom import by_fullness, headroom_of
    from kafkakit.streams.commits.show.limits_text import HEADROOM_COLUMNS, headroom_row, limits_data, limits_text

    kit = kit_of(ctx)
    with open_inspector(kit) as inspector:
        found = inspector.limits()
        looks = inspector.commits_of(_names(inspector, groups or [], not groups, kit.program))
    rooms = by_fullness(
        headroom_of(look.group, look.commits, found.strictest) for look in looks if look.commits or groups
    )
    unread = tuple(f"group {look.group}: {look.fault.message}" for look in looks if look.fault is not None)
    kit.output.result(
        Report(
            command="streams commits limits",
            data=limits_data(found, inspector.cluster_id, rooms, unread),
            text=limits_text(found, inspector.cluster_id, rooms, unread),
            columns=HEADROOM_COLUMNS,
            rows=tuple(headroom_row(room) for room in rooms),
        )
    )


def _names(inspector: Inspector, given: list[str], all_groups: bool, program: str) -> tuple[str, ...]:
    """The groups to look at, sorted; a named one that does not exist is a failure."""
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.commits.decide.group_look import no_such_group

    if bool(given) == all_groups:
        raise UsageError("name groups, or give --all", hint="one of the two")
    if all_groups:
        return inspector.group_names()
    known = set(inspector.group_names())
    for name in given:
        if name not in known and not inspector.commits_of([name])[0].exists:
            raise no_such_group(name, known, program)
    return tuple(sorted(set(given)))
