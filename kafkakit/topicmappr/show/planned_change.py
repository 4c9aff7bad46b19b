"""The report of a plain request: what changes, what each broker carries before and after, what it costs."""

from collections.abc import Iterator

from kafkakit.core.lists_in_words import some
from kafkakit.core.plan import Move
from kafkakit.core.quantities import format_bytes
from kafkakit.report.blocks import INDENT, attributes, capped, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.budget import left_data
from kafkakit.topicmappr.decide.map_files import SavedPlan
from kafkakit.topicmappr.decide.planned_change import PlannedChange
from kafkakit.topicmappr.show.plan_blocks import (
    SHOWN_CHANGES,
    broker_table,
    certificate_data,
    change_line,
    moves_data,
    plan_section,
    refusal,
    refusal_line,
    refused,
    remarks_data,
    warn_section,
    what_changed,
)

COLUMNS = ("topic", "partition", "before", "after", "change")


def change_report(command: str, change: PlannedChange, saved: SavedPlan | None) -> Report:
    """The report of a request; `saved` is None when warnings forbade to write its plan."""
    plan = change.plan
    if saved is None:
        text = _head(change) + refusal_line(change.left_alone)
        return refused(command, text, refusal(plan, change.reasons, change.left_alone))
    return Report(
        command=command,
        data={
            **title_data(change),
            "changes": moves_data(plan),
            "certificate": certificate_data(plan.certificate),
            "before": plan.before,
            "after": plan.after,
            "left_alone": change.left_alone,
            "left_for_later": left_data(change.later),
            "reasons": change.reasons,
            **remarks_data(plan),
        },
        text=_head(change) + plan_section(plan, saved),
        columns=COLUMNS,
        rows=tuple((m.topic, m.partition, m.before, m.after, what_changed(m.before, m.after)) for m in plan.moves),
        code=saved.code,
    )


def planned_change_text(change: PlannedChange) -> str:
    """The report's text for a plan that goes into no file."""
    return _head(change) + plan_section(change.plan)


def _head(change: PlannedChange) -> str:
    changes = capped(change.plan.moves, _move_line, SHOWN_CHANGES) or ["none"]
    lines = [*title_lines(change), *section("Changes:", changes), *broker_table(change.plan)]
    return text_of(lines) + warn_section(change.plan.warnings)


def _move_line(move: Move) -> str:
    size = f" ({format_bytes(move.bytes_moved)})" if move.adding and move.bytes_moved is not None else ""
    return change_line(move.topic, move.partition, move.before, move.after) + size


def title_lines(change: PlannedChange) -> Iterator[str]:
    """What was asked for, of which topics."""
    yield from (change.title, f"{INDENT}topics: {some(change.topics)}")
    if change.topics_excluded:
        yield f"{INDENT}topics excluded: {some(change.topics_excluded)}"


def title_data(change: PlannedChange) -> dict[str, object]:
    """The same for JSON and YAML, with the cluster."""
    return {
        "cluster_id": change.plan.cluster_id,
        **attributes(change, "title topics topics_excluded"),
    }
