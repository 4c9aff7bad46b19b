"""What the plain requests share at the command line: refuse or save, report, name the next command."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.decide.budget import Budget
    from kafkakit.topicmappr.decide.planned_change import PlannedChange


def budget_of(max_moves: int | None, max_moved_bytes: str = "") -> "Budget":
    """Read the flags of a budget; `UsageError` for a size that is none."""
    from kafkakit.core.quantities import parse_size
    from kafkakit.topicmappr.decide.budget import Budget

    return Budget(
        max_moves=max_moves,
        max_moved_bytes=parse_size(max_moved_bytes, "--max-moved-bytes") if max_moved_bytes else None,
    )


def limits_recorded(pin: Sequence[str] | None, max_moves: int | None, max_moved_bytes: str = "") -> dict[str, str]:
    """Pins and budget for the plan's record; here a zero that was given says something."""
    from kafkakit.core.topic_selection import parse_patterns

    words = {
        "pin": ",".join(parse_patterns(",".join(pin or ()))),
        "max-moves": "" if max_moves is None else str(max_moves),
        "max-moved-bytes": max_moved_bytes.strip(),
    }
    return {name: value for name, value in words.items() if value}


def finish(
    kit: "Kit",
    command: str,
    change: "PlannedChange",
    destination: "Destination",
    *,
    ignore_warns: bool,
    exit_code: bool,
) -> int:
    """Write plan and report, print the result, and return the exit code.

    Raises `InfeasibleError` when partitions cannot be served and `OperationFailedError` for other warnings,
    unless these are ignored; then nothing is written.
    """
    from kafkakit.cli.output import OutputFormat
    from kafkakit.core.documents import encode_plan
    from kafkakit.core.errors import ExitCode
    from kafkakit.topicmappr.commands.planning import next_command
    from kafkakit.topicmappr.commands.report import write_report
    from kafkakit.topicmappr.show.planned_change import outcome_text, planned_change_text, refusal_text
    from kafkakit.wiring import write_file

    text = planned_change_text(change)
    if change.plan.warnings and not ignore_warns:
        if kit.output.output_format is OutputFormat.TEXT:
            kit.output.result(_result(command, change, text + refusal_text(change)))
        _refuse(change)
    saved = str(destination.plan) if destination.plan else None
    if destination.plan is not None:
        write_file(destination.plan, encode_plan(change.plan))
    following = next_command(kit, change.plan, saved)
    write_report(change.plan, destination.report, following)
    kit.output.result(_result(command, change, text + outcome_text(change.plan, saved, following)))
    return int(ExitCode.CHANGES) if exit_code and change.plan.moves else int(ExitCode.DONE)


def _refuse(change: "PlannedChange") -> None:
    from kafkakit.core.errors import InfeasibleError, OperationFailedError

    if change.reasons:
        raise InfeasibleError(
            f"no plan fits: {'; '.join(change.reasons)}",
            reasons=change.reasons if len(change.reasons) > 1 else (),
            hint=f"--ignore-warns plans the rest and leaves {change.left_alone} partition(s) as they are",
        )
    raise OperationFailedError(
        f"no plan written because of warnings: {'; '.join(change.plan.warnings)}",
        hint="--ignore-warns writes it all the same",
    )


def _result(command: str, change: "PlannedChange", text: str) -> "Report":
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.show.planned_change import COLUMNS, change_data, change_rows

    return Report(command=command, data=change_data(change), text=text, columns=COLUMNS, rows=change_rows(change))
