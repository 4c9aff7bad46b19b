"""The report of a plan: the precondition verdicts, what groups still have to read, fences, windows and the budget."""

from collections.abc import Iterator, Sequence

from kafkakit.core.errors import ExitCode
from kafkakit.core.quantities import counted
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import optional_section, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.failover.decide.commits import DuplicateBudget
from kafkakit.streams.failover.decide.operation import FenceKind
from kafkakit.streams.failover.decide.plan import FailoverPlan

VERDICT_COLUMNS = ("check", "level", "where", "text")
MOVE_COLUMNS = ("lane", "topic", "partitions", "replication", "sources")
BACKLOG_COLUMNS = ("group", "topic", "offsets", "size_bytes", "time_lag_s", "eta_s")


def plan_report(plan: FailoverPlan, command: str = "streams failover plan", done: str = "") -> Report:
    """A plan; it exits with 2 where a precondition is refused."""
    operation = plan.operation
    rows = tuple((v.check, v.level, v.where, v.text) for v in plan.verdicts)
    moves = [(m.lane, m.topic, m.partitions, m.replication, m.sources) for m in operation.moves]
    backlog = [(row.group, row.topic, row.offsets, row.size_bytes, row.time_lag_s, row.eta_s) for row in plan.backlog]
    lines = [
        f"{operation.request.kind.noun} of stream {operation.stream} to {operation.request.to} "
        f"(cluster {operation.cluster_id})",
        f"plan {plan.sha256}",
        "",
        *text_table(MOVE_COLUMNS, moves).splitlines(),
    ]
    lines += section("Preconditions:", text_table(VERDICT_COLUMNS, rows).splitlines())
    total = sum(row.offsets or 0 for row in plan.backlog)
    lines += optional_section("To be read from the old topics:", _table(backlog, total))
    lines += section("Quiet:", _quiet_lines(plan))
    lines += section("Records that may come a second time:", [budget_words(plan.budget)])
    if done:
        lines += ["", done]
    return Report(
        command=command,
        data={
            "stream": operation.stream,
            "plan_sha256": plan.sha256,
            "operation": plain_value(operation),
            "verdicts": records(VERDICT_COLUMNS, rows),
            "moves": records(MOVE_COLUMNS, moves),
            "backlog": records(BACKLOG_COLUMNS, backlog),
            "fences": plain_value(plan.fences),
            "windows_s": plain_value(plan.windows_s),
            "duplicates": plain_value(plan.budget),
            "refused": bool(plan.refused),
            "reason": plan.refused[0].check if plan.refused else "",
        },
        text=text_of(lines),
        columns=VERDICT_COLUMNS,
        rows=rows,
        code=ExitCode.USAGE if plan.refused else ExitCode.DONE,
    )


def budget_words(budget: DuplicateBudget) -> str:
    """The budget in one line."""
    if budget.most is None:
        return f"not bounded: the commits of {', '.join(budget.unbounded)} cannot be read"
    if budget.least == budget.most:
        return f"{budget.most:,}, and what members have handled since their last commit"
    return f"{budget.least:,} to {budget.most:,}, and what members have handled since their last commit"


def _quiet_lines(plan: FailoverPlan) -> Iterator[str]:
    for basis, seconds in plan.windows_s.items():
        yield f"basis {basis}: the ends of old logs must stay the same for {seconds:g} s"
    for number, verdicts in plan.fences.items():
        for verdict in verdicts:
            if verdict.kind is not FenceKind.NONE:
                words = "; ".join(verdict.reasons or verdict.notes)
                state = "can be used" if verdict.is_usable else "cannot be used"
                yield f"{plan.topics[number]}, fence {verdict.kind}: {state} ({words})"


def _table(rows: Sequence[tuple[object, ...]], total: int) -> list[str]:
    table = text_table(BACKLOG_COLUMNS, rows).splitlines()
    return [*table, counted(total, "offset")] if rows else []
