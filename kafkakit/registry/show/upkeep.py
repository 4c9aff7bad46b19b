"""Cleanups and migrations as results of commands."""

from collections import Counter
from collections.abc import Sequence

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.tables import text_table
from kafkakit.registry.decide.cleanup import CleanupPlan
from kafkakit.registry.decide.migration import MigrationPlan, StoreContent
from kafkakit.registry.decide.tags import Kind
from kafkakit.report.blocks import records, text_of
from kafkakit.report.report import Report

COLUMNS = ("action", "kind", "name")


def planned_steps(plans: Sequence[CleanupPlan]) -> list[tuple[str, Kind, str]]:
    """What a cleanup would do, in its order."""
    return [
        (what, plan.kind, name)
        for plan in plans
        for what, names in (("mark", plan.marks), ("unmark", plan.unmarks), ("delete", plan.drops))
        for name in names
    ]


def cleanup_report(plans: Sequence[CleanupPlan], steps: Sequence[tuple[str, Kind, str]], *, is_dry: bool) -> Report:
    """What was done, what waits, and why nothing was done for a kind."""
    rows = tuple((what, str(kind), name) for what, kind, name in steps)
    counts = Counter(what for what, _, _ in steps)
    waiting = sum(len(plan.waiting) for plan in plans)
    refused = [plan.refused for plan in plans if plan.refused]
    summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing to do"
    lines = [text_table(COLUMNS, rows)] if rows else []
    later = f"; marked earlier, not old enough yet: {waiting}" if waiting else ""
    lines.append(f"{'would do: ' if is_dry and rows else ''}{summary}{later}")
    failure = None
    if refused:
        hint = "look at what the cluster lists; --force cleans up all the same"
        failure = OperationFailedError("; ".join(refused), hint=hint)
    return Report(
        command="registry cleanup",
        data={
            "actions": records(COLUMNS, rows),
            "waiting": [{"kind": str(plan.kind), "name": name} for plan in plans for name in plan.waiting],
            "refused": refused,
            "dry_run": is_dry,
        },
        text=text_of(lines),
        columns=COLUMNS,
        rows=rows,
        failure=failure,
    )


def migration_report(
    names: tuple[str, str],
    plan: MigrationPlan,
    contents: tuple[StoreContent, StoreContent],
    histories: int,
    *,
    is_done: bool,
) -> Report:
    """How much was copied, of how many objects the history, and what both stores hold."""
    columns = ("store", "brokers", "topics", "sha256")
    pairs = zip(names, contents, strict=True)
    rows = tuple((name, each.brokers, each.topics, each.digest) for name, each in pairs)
    verb = "copied" if is_done else "would copy"
    summary = f"{verb} the tags of {len(plan.writes)} objects; {plan.same} were there already"
    summary += f"; {verb} the history of {histories}"
    if is_done:
        equal = contents[0].digest == contents[1].digest
        summary += "; both hold the same" if equal else "; the target has more beside them"
    return Report(
        command="registry migrate",
        data={
            "state": "done" if is_done else "planned",
            "copied" if is_done else "to_copy": len(plan.writes),
            "already_there": plan.same,
            "histories": histories,
            "stores": records(columns, rows),
        },
        text=text_of([text_table(columns, rows), summary]),
        columns=columns,
        rows=rows,
    )
