"""What drifted, what becomes of the moves, and the new plan, as text, rows and data."""

from collections import Counter
from collections.abc import Iterator

from kafkakit.core.quantities import counted
from kafkakit.topicmappr.decide.replan.decision import Change, Fate, Replan
from kafkakit.topicmappr.show.planned_change import broker_table
from kafkakit.topicmappr.show.rebuild import certificate_data, ids, plan_section, warn_section

INDENT = "  "
COLUMNS = ("topic", "partition", "fate", "now", "old", "new")
SHOWN_CHANGES = 40
_NAMES = {
    Fate.DONE: "done",
    Fate.RUNNING: "running",
    Fate.KEPT: "waiting, kept",
    Fate.CHANGED: "changed",
    Fate.DROPPED: "dropped",
    Fate.ADDED: "added",
}


def report_text(replan: Replan, source: str) -> str:
    """Everything up to and including the warnings."""
    return "\n".join(_lines(replan, source)) + "\n" + warn_section(replan.plan.warnings)


def _lines(replan: Replan, source: str) -> Iterator[str]:
    plan = replan.plan
    yield f"Replan of {source} ({plan.request.get('command', 'plan')}) on cluster {plan.cluster_id}"
    yield f"{INDENT}goal: {replan.goal.words}"
    fates = Counter(change.fate for change in replan.changes)
    told = [f"{fates[fate]} {name}" for fate, name in _NAMES.items() if fates[fate]]
    yield f"{INDENT}moves: {', '.join(told) or 'none'}"
    yield from ("", "Drift:")
    yield from (f"{INDENT}{line}" for line in replan.drift or ("none",))
    yield from ("", verdict(replan))
    changed = replan.having(Fate.CHANGED, Fate.DROPPED, Fate.ADDED)
    if changed:
        yield from ("", "Changes to the plan:")
        yield from (f"{INDENT}{_change(c)}" for c in changed[:SHOWN_CHANGES])
        if len(changed) > SHOWN_CHANGES:
            yield f"{INDENT}... and {len(changed) - SHOWN_CHANGES} more (all of them with -o tsv)"
    yield from ("", "Brokers:")
    yield from (INDENT + line for line in broker_table(plan).splitlines())


def verdict(replan: Replan) -> str:
    """One sentence: whether the plan stays, and why."""
    left = counted(len(replan.having(Fate.RUNNING, Fate.KEPT)), "move")
    leads = f"it leads to {replan.leads_to}" if replan.leads_to else "every move still has a lawful place"
    if not replan.differs:
        if not replan.plan.moves:
            return "Nothing to change: the plan is done."
        if not replan.holds:
            return f"Nothing to change: {left} left, and nothing better is left to do."
        return f"Nothing to change: the plan still holds, {leads}; {left} left."
    if replan.holds:
        return f"The plan still holds, {leads}; only what is gone or overtaken leaves it."
    leads = (
        f"as it stands it would lead to {replan.leads_to}" if replan.leads_to else "some moves have lost their place"
    )
    fates = Counter(change.fate for change in replan.changes)
    return (
        f"The plan must change: {leads}; {fates[Fate.CHANGED]} moves changed, {fates[Fate.DROPPED]} dropped, "
        f"{fates[Fate.ADDED]} added, {left} kept."
    )


def _change(c: Change) -> str:
    where = f"{c.key.topic} p{c.key.partition} {ids(c.now)}"
    if c.fate is Fate.DROPPED:
        return f"{where}: dropped, was to go to {ids(c.old or ())}"
    if c.fate is Fate.ADDED:
        return f"{where}: added, goes to {ids(c.new or ())}"
    return f"{where}: goes to {ids(c.new or ())} instead of {ids(c.old or ())}"


def outcome_text(replan: Replan, saved_to: str | None, next_command: str | None, old_command: str | None) -> str:
    """What is left to copy, why no less is possible, and the next command."""
    text = plan_section(replan.plan, saved_to, next_command)
    if replan.intact and old_command and replan.plan.moves and not next_command:
        text += f"\n{INDENT}The old file still serves:\n{old_command}\n"
    elif replan.plan.moves and not saved_to:
        text += f"\n{INDENT}The old file is refused where lists have changed; --plan FILE writes the new plan.\n"
    return text


def refusal_text(replan: Replan) -> str:
    """The last lines when warnings stop the plan."""
    left = f"; {counted(replan.left_alone, 'partition')} cannot be served" if replan.left_alone else ""
    return f"\n{INDENT}No plan written because of the warnings above{left}. --ignore-warns writes it without them.\n"


def replan_rows(replan: Replan) -> tuple[tuple[object, ...], ...]:
    """One row a partition that either plan moves."""
    return tuple((c.key.topic, c.key.partition, c.fate.value, c.now, c.old, c.new) for c in replan.changes)


def replan_data(replan: Replan) -> dict[str, object]:
    """The result for JSON and YAML."""
    plan = replan.plan
    fates = Counter(change.fate.value for change in replan.changes)
    return {
        "cluster_id": plan.cluster_id,
        "goal": replan.goal.words,
        "holds": replan.holds,
        "differs": replan.differs,
        "intact": replan.intact,
        "leads_to": replan.leads_to or None,
        "drift": replan.drift,
        "moves": {fate.value: fates[fate.value] for fate in Fate},
        "changes": [
            {"topic": c.key.topic, "partition": c.key.partition, "fate": c.fate.value, "now": c.now, "old": c.old,
             "new": c.new}
            for c in replan.changes
        ],
        "certificate": certificate_data(plan.certificate),
        "before": plan.before,
        "after": plan.after,
        "reasons": replan.reasons,
        "notes": plan.notes,
        "warnings": plan.warnings,
    }  # fmt: skip
