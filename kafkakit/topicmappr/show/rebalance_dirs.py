"""The report of `rebalance-dirs`: every dir before and after, and the copies that change dirs."""

from kafkakit.core.lists_in_words import some
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.topicmappr.decide.planned_change import PlannedChange
from kafkakit.topicmappr.show.log_dirs import dirs_data, dirs_section
from kafkakit.topicmappr.show.rebuild import certificate_data, gap_text, warn_section

INDENT = "  "
SHOWN_MOVES = 40


def report_text(change: PlannedChange, saved_to: str | None, next_command: str | None) -> str:
    """The whole report for people; the next command stands on a line of its own."""
    plan = change.plan
    lines = [change.title, f"{INDENT}topics: {some(change.topics)}"]
    if change.topics_excluded:
        lines.append(f"{INDENT}topics excluded: {some(change.topics_excluded)}")
    lines += ["", "Changes:"]
    for m in plan.dir_moves[:SHOWN_MOVES]:
        size = "" if m.size_bytes is None else f" ({format_bytes(m.size_bytes)})"
        lines.append(f"{INDENT}{m.topic} p{m.partition} on {m.broker}: {m.source_dir} -> {m.target_dir}{size}")
    if len(plan.dir_moves) > SHOWN_MOVES:
        lines.append(f"{INDENT}... and {len(plan.dir_moves) - SHOWN_MOVES} more (all of them with -o tsv)")
    if not plan.dir_moves:
        lines.append(f"{INDENT}none")
    lines += dirs_section(plan)
    text = "\n".join(lines) + "\n" + warn_section(plan.warnings)
    return text + _plan_section(plan, saved_to, next_command)


def _plan_section(plan: Plan, saved_to: str | None, next_command: str | None) -> str:
    c = plan.certificate
    lines = [
        "",
        "Plan:",
        f"{INDENT}{counted(len(plan.dir_moves), 'copy', 'copies')} to move inside brokers "
        f"({format_bytes(c.objective)}); lower bound {format_bytes(c.lower_bound)}, gap {gap_text(c)} ({c.status})",
        f"{INDENT}why: {c.argument}",
        *(f"{INDENT}note: {note}" for note in plan.notes),
    ]
    if saved_to:
        lines.append(f"{INDENT}saved to: {saved_to}")
    if next_command:
        lines += [f"{INDENT}next:", next_command]
    return "\n".join(lines) + "\n"


def report_data(change: PlannedChange) -> dict[str, object]:
    """The result for JSON and YAML."""
    plan = change.plan
    return {
        "cluster_id": plan.cluster_id,
        "title": change.title,
        "topics": change.topics,
        "topics_excluded": change.topics_excluded,
        **dirs_data(plan),
        "certificate": certificate_data(plan.certificate),
        "notes": plan.notes,
        "warnings": plan.warnings,
    }
