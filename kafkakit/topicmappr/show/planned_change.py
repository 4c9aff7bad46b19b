"""The reports of plain requests and of `rebalance-dirs`: what changes, before and after, what it costs."""

from collections.abc import Iterator

from kafkakit.core.lists_in_words import some
from kafkakit.core.plan import DirMove, Move
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.report.blocks import INDENT, attributes, capped, gap_text, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.budget import left_data
from kafkakit.topicmappr.decide.map_files import SavedPlan
from kafkakit.topicmappr.show import plan_blocks as blocks
from kafkakit.topicmappr.show.log_dirs import DIR_MOVE_COLUMNS, dir_move_rows, dirs_data, dirs_section

COLUMNS = ("topic", "partition", "before", "after", "change")


def change_report(command: str, change: PlannedChange, saved: SavedPlan | None) -> Report:
    """The report of a request; `saved` is None when warnings forbade to write its plan."""
    plan = change.plan
    if saved is None:
        text = _head(change) + blocks.refusal_line(change.left_alone)
        return blocks.refused(command, text, blocks.refusal(plan, change.reasons, change.left_alone))
    return Report(
        command=command,
        data={
            **title_data(change),
            "changes": blocks.moves_data(plan),
            "certificate": blocks.certificate_data(plan.certificate),
            "before": plan.before,
            "after": plan.after,
            "left_alone": change.left_alone,
            "left_for_later": left_data(change.later),
            "reasons": change.reasons,
            **blocks.remarks_data(plan),
        },
        text=_head(change) + blocks.plan_section(plan, saved),
        columns=COLUMNS,
        rows=tuple(
            (m.topic, m.partition, m.before, m.after, blocks.what_changed(m.before, m.after)) for m in plan.moves
        ),
        code=saved.code,
    )


def planned_change_text(change: PlannedChange) -> str:
    """The report's text for a plan that goes into no file."""
    return _head(change) + blocks.plan_section(change.plan)


def _head(change: PlannedChange) -> str:
    changes = capped(change.plan.moves, _move_line, blocks.SHOWN_CHANGES) or ["none"]
    lines = [*title_lines(change), *section("Changes:", changes), *blocks.broker_table(change.plan)]
    return text_of(lines) + blocks.warn_section(change.plan.warnings)


def _move_line(move: Move) -> str:
    size = f" ({format_bytes(move.bytes_moved)})" if move.adding and move.bytes_moved is not None else ""
    return blocks.change_line(move.topic, move.partition, move.before, move.after) + size


def title_lines(change: PlannedChange) -> Iterator[str]:
    """What was asked for, of which topics."""
    yield from (change.title, f"{INDENT}topics: {some(change.topics)}")
    if change.topics_excluded:
        yield f"{INDENT}topics excluded: {some(change.topics_excluded)}"


def title_data(change: PlannedChange) -> dict[str, object]:
    """The cluster, and what was asked for of which topics, for JSON and YAML."""
    return {
        "cluster_id": change.plan.cluster_id,
        **attributes(change, "title topics topics_excluded"),
    }


DIRS_COMMAND = "topicmappr rebalance-dirs"


def rebalance_dirs_report(change: PlannedChange, saved: SavedPlan | None) -> Report:
    """The report; `saved` is None when warnings forbade to write the plan."""
    plan, c = change.plan, change.plan.certificate
    moves = capped(plan.dir_moves, _dir_move_line, blocks.SHOWN_CHANGES) or ["none"]
    cost = (
        f"{counted(len(plan.dir_moves), 'copy', 'copies')} to move inside brokers ({format_bytes(c.objective)}); "
        f"lower bound {format_bytes(c.lower_bound)}, gap {gap_text(c.gap)} ({c.status})"
    )
    head = text_of([*title_lines(change), *section("Changes:", moves), *dirs_section(plan)])
    text = head + blocks.warn_section(plan.warnings) + text_of(blocks.outcome(plan, cost, saved or blocks.NOT_SAVED))
    if saved is None:
        return blocks.refused(DIRS_COMMAND, text, blocks.refusal(plan, (), 0))
    return Report(
        command=DIRS_COMMAND,
        data={
            **title_data(change),
            **dirs_data(plan),
            "certificate": blocks.certificate_data(plan.certificate),
            **blocks.remarks_data(plan),
        },
        text=text,
        columns=DIR_MOVE_COLUMNS,
        rows=dir_move_rows(plan),
        code=saved.code,
    )


def _dir_move_line(m: DirMove) -> str:
    size = "" if m.size_bytes is None else f" ({format_bytes(m.size_bytes)})"
    return f"{m.topic} p{m.partition} on {m.broker}: {m.source_dir} -> {m.target_dir}{size}"
