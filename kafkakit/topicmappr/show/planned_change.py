"""The report of a plain request: what changes, what each broker carries before and after, what it costs."""

from collections.abc import Iterator

from kafkakit.core.lists_in_words import some
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.tables import text_table
from kafkakit.topicmappr.decide.budget import left_data
from kafkakit.topicmappr.decide.planned_change import PlannedChange
from kafkakit.topicmappr.show.rebuild import certificate_data, ids, plan_section, warn_section, what_changed

INDENT = "  "
COLUMNS = ("topic", "partition", "before", "after", "change")
SHOWN_CHANGES = 40


def planned_change_text(change: PlannedChange) -> str:
    """Everything up to and including the warnings."""
    return "\n".join(_lines(change)) + "\n" + warn_section(change.plan.warnings)


def _lines(change: PlannedChange) -> Iterator[str]:
    plan = change.plan
    yield from (change.title, f"{INDENT}topics: {some(change.topics)}")
    if change.topics_excluded:
        yield f"{INDENT}topics excluded: {some(change.topics_excluded)}"
    yield from ("", "Changes:")
    for move in plan.moves[:SHOWN_CHANGES]:
        size = f" ({format_bytes(move.bytes_moved)})" if move.adding and move.bytes_moved is not None else ""
        words = what_changed(move.before, move.after)
        yield f"{INDENT}{move.topic} p{move.partition}: {ids(move.before)} -> {ids(move.after)} {words}{size}"
    if len(plan.moves) > SHOWN_CHANGES:
        yield f"{INDENT}... and {len(plan.moves) - SHOWN_CHANGES} more (all of them with -o tsv)"
    if not plan.moves:
        yield f"{INDENT}none"
    yield from ("", "Brokers:")
    yield from (INDENT + line for line in broker_table(plan).splitlines())


def broker_table(plan: Plan) -> str:
    """Replicas and preferred leaders of each broker before and after, within the plan's topics."""
    before = {load.broker: load for load in plan.before.brokers}
    rows: list[tuple[int, str | None, int, int, int, int]] = []
    for load in plan.after.brokers:
        old = before.get(load.broker)
        rows.append(
            (load.broker, load.rack, old.replicas if old else 0, load.replicas, old.leaders if old else 0, load.leaders)
        )
    known = {load.broker for load in plan.after.brokers}
    rows += [(o.broker, o.rack, o.replicas, 0, o.leaders, 0) for o in plan.before.brokers if o.broker not in known]
    rows.sort()
    return text_table(("broker", "rack", "replicas", "after", "leaders", "after"), rows)


def outcome_text(plan: Plan, saved_to: str | None, next_command: str | None) -> str:
    """What the plan costs, why nothing cheaper exists, and the next command on its own line."""
    return plan_section(plan, saved_to, next_command)


def change_rows(change: PlannedChange) -> tuple[tuple[object, ...], ...]:
    """One row a changed partition."""
    return tuple(
        (m.topic, m.partition, ",".join(map(str, m.before)), ",".join(map(str, m.after)),
         what_changed(m.before, m.after))
        for m in change.plan.moves
    )  # fmt: skip


def change_data(change: PlannedChange) -> dict[str, object]:
    """The result for JSON and YAML."""
    plan = change.plan
    return {
        "cluster_id": plan.cluster_id,
        "title": change.title,
        "topics": change.topics,
        "topics_excluded": change.topics_excluded,
        "changes": [
            {"topic": m.topic, "partition": m.partition, "before": m.before, "after": m.after,
             "bytes_moved": m.bytes_moved, "change": what_changed(m.before, m.after)}
            for m in plan.moves
        ],
        "certificate": certificate_data(plan.certificate),
        "before": plan.before,
        "after": plan.after,
        "left_alone": change.left_alone,
        "left_for_later": left_data(change.later),
        "reasons": change.reasons,
        "notes": plan.notes,
        "warnings": plan.warnings,
    }  # fmt: skip


def refusal_text(change: PlannedChange) -> str:
    """The last lines when warnings stop the plan."""
    left = f"; {counted(change.left_alone, 'partition')} cannot be served" if change.left_alone else ""
    return f"\n{INDENT}No plan written because of the warnings above{left}. --ignore-warns writes it without them.\n"
