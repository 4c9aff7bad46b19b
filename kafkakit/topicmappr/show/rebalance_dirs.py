"""The report of `rebalance-dirs`: every dir before and after, and the copies that change dirs."""

from kafkakit.core.plan import DirMove
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.report.blocks import capped, gap_text, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.map_files import SavedPlan
from kafkakit.topicmappr.decide.planned_change import PlannedChange
from kafkakit.topicmappr.show.log_dirs import DIR_MOVE_COLUMNS, dir_move_rows, dirs_data, dirs_section
from kafkakit.topicmappr.show.plan_blocks import (
    NOT_SAVED,
    SHOWN_CHANGES,
    certificate_data,
    outcome,
    refusal,
    refused,
    remarks_data,
    warn_section,
)
from kafkakit.topicmappr.show.planned_change import title_data, title_lines

COMMAND = "topicmappr rebalance-dirs"


def rebalance_dirs_report(change: PlannedChange, saved: SavedPlan | None) -> Report:
    """The report; `saved` is None when warnings forbade to write the plan."""
    plan, c = change.plan, change.plan.certificate
    moves = capped(plan.dir_moves, _move_line, SHOWN_CHANGES) or ["none"]
    cost = (
        f"{counted(len(plan.dir_moves), 'copy', 'copies')} to move inside brokers ({format_bytes(c.objective)}); "
        f"lower bound {format_bytes(c.lower_bound)}, gap {gap_text(c.gap)} ({c.status})"
    )
    head = text_of([*title_lines(change), *section("Changes:", moves), *dirs_section(plan)])
    text = head + warn_section(plan.warnings) + text_of(outcome(plan, cost, saved or NOT_SAVED))
    if saved is None:
        return refused(COMMAND, text, refusal(plan, (), 0))
    return Report(
        command=COMMAND,
        data={
            **title_data(change),
            **dirs_data(plan),
            "certificate": certificate_data(plan.certificate),
            **remarks_data(plan),
        },
        text=text,
        columns=DIR_MOVE_COLUMNS,
        rows=dir_move_rows(plan),
        code=saved.code,
    )


def _move_line(m: DirMove) -> str:
    size = "" if m.size_bytes is None else f" ({format_bytes(m.size_bytes)})"
    return f"{m.topic} p{m.partition} on {m.broker}: {m.source_dir} -> {m.target_dir}{size}"
