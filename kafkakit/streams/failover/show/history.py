"""What was done with a stream: its operations, and the commands of its audit log."""

from collections.abc import Sequence

from kafkakit.core.quantities import counted
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.failover.decide.audit import AuditedCommand
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import Step
from kafkakit.streams.failover.show.runs import record_data, time_text

HISTORY_COLUMNS = ("operation", "to", "began", "step", "by", "late", "lost", "certificate")
COMMAND_COLUMNS = ("began", "by", "command", "operation", "plan", "outcome", "reason")


def history_report(
    stream: str, found: Sequence[OperationRecord], commands: Sequence[AuditedCommand], damaged: int
) -> Report:
    """All operations of a stream and the commands of its audit log, oldest first."""
    rows = tuple(
        (
            record.operation.id,
            record.request.to,
            time_text(record.operation.started_ms),
            record.end or next(iter(sorted(record.reached_ms, key=list(Step).index, reverse=True)), "cut"),
            record.operation.operator,
            record.late,
            sum(each.count for each in record.lost),
            record.certificate[:16],
        )
        for record in found
    )
    lines = (
        text_table(HISTORY_COLUMNS, rows).splitlines() if rows else [f"stream {stream}: no operation was ever begun"]
    )
    if commands:
        lines += section(
            "Commands:", text_table(COMMAND_COLUMNS, [_command_row(each) for each in commands]).splitlines()
        )
    return Report(
        command="streams failover history",
        data={
            "stream": stream,
            "operations": [{"operation": plain_value(record.operation), **record_data(record)} for record in found],
            "commands": [
                {"began": each.began, "ended": each.ended, "outcome": each.outcome, "line": plain_value(each.line)}
                for each in commands
            ],
        },
        text=text_of(lines),
        columns=HISTORY_COLUMNS,
        rows=rows,
        warnings=(f"{counted(damaged, 'line')} of the audit log cannot be read",) if damaged else (),
    )


def _command_row(each: AuditedCommand) -> tuple[object, ...]:
    line = each.line
    why = line.error or line.reason
    return each.began[:19], line.by, line.command, line.operation, line.plan_sha256[:16], each.outcome, why
