"""What drifted, what becomes of the moves, and the new plan, as text, rows and data."""

from collections import Counter
from collections.abc import Iterator, Sequence

from kafkakit.core.quantities import counted
from kafkakit.report.blocks import INDENT, attributes, capped, optional_section, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.map_files import SavedPlan
from kafkakit.topicmappr.decide.replan.decision import Change, Fate, Replan
from kafkakit.topicmappr.show import plan_blocks as blocks

COMMAND = "topicmappr replan"
COLUMNS = ("topic", "partition", "fate", "now", "old", "new")
_NAMES = {
    Fate.DONE: "done",
    Fate.RUNNING: "running",
    Fate.KEPT: "waiting, kept",
    Fate.CHANGED: "changed",
    Fate.DROPPED: "dropped",
    Fate.ADDED: "added",
}


def replan_report(replan: Replan, source: str, saved: SavedPlan | None, old_command: str | None) -> Report:
    """What drifted and what becomes of the moves; `saved` is None when warnings forbade to write the plan.

    `old_command` carries out the plan that was given, where that is a file.
    """
    plan = replan.plan
    text = text_of(_lines(replan, source)) + blocks.warn_section(plan.warnings)
    if saved is None:
        failure = blocks.refusal(plan, replan.reasons, replan.left_alone)
        return blocks.refused(COMMAND, text + blocks.refusal_line(replan.left_alone), failure)
    rows = tuple((*c.key, c.fate.value, c.now, c.old, c.new) for c in replan.changes)
    return Report(
        command=COMMAND,
        data=_data(replan, rows),
        text=text + blocks.plan_section(plan, saved) + _old_file(replan, saved, old_command),
        columns=COLUMNS,
        rows=rows,
        code=saved.code,
    )


def _lines(replan: Replan, source: str) -> Iterator[str]:
    plan = replan.plan
    yield f"Replan of {source} ({plan.request.get('command', 'plan')}) on cluster {plan.cluster_id}"
    yield f"{INDENT}goal: {replan.goal.words}"
    fates = Counter(change.fate for change in replan.changes)
    counts = [f"{fates[fate]} {name}" for fate, name in _NAMES.items() if fates[fate]]
    yield f"{INDENT}moves: {', '.join(counts) or 'none'}"
    yield from section("Drift:", replan.drift or ("none",))
    yield from ("", verdict(replan))
    changed = replan.having(Fate.CHANGED, Fate.DROPPED, Fate.ADDED)
    yield from optional_section("Changes to the plan:", capped(changed, _change, blocks.SHOWN_CHANGES))
    yield from blocks.broker_table(plan)


def verdict(replan: Replan) -> str:
    """One sentence: whether the plan stays, and why."""
    left = counted(len(replan.having(Fate.RUNNING, Fate.KEPT)), "move")
    leads = f"it leads to {replan.leads_to}" if replan.leads_to else "every move still has a valid place"
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
    where = f"{c.key.topic} p{c.key.partition} {blocks.ids(c.now)}"
    if c.fate is Fate.DROPPED:
        return f"{where}: dropped, was to go to {blocks.ids(c.old or ())}"
    if c.fate is Fate.ADDED:
        return f"{where}: added, goes to {blocks.ids(c.new or ())}"
    return f"{where}: goes to {blocks.ids(c.new or ())} instead of {blocks.ids(c.old or ())}"


def _old_file(replan: Replan, saved: SavedPlan, old_command: str | None) -> str:
    if replan.intact and old_command and replan.plan.moves and not saved.next_command:
        return f"\n{INDENT}The old file still serves:\n{old_command}\n"
    if replan.plan.moves and not saved.path:
        return f"\n{INDENT}The old file is refused where lists have changed; --plan FILE writes the new plan.\n"
    return ""


def _data(replan: Replan, rows: Sequence[Sequence[object]]) -> dict[str, object]:
    plan = replan.plan
    fates = Counter(change.fate.value for change in replan.changes)
    return {
        "cluster_id": plan.cluster_id,
        "goal": replan.goal.words,
        **attributes(replan, "holds differs intact"),
        "leads_to": replan.leads_to or None,
        "drift": replan.drift,
        "moves": {fate.value: fates[fate.value] for fate in Fate},
        "changes": records(COLUMNS, rows),
        "certificate": blocks.certificate_data(plan.certificate),
        "before": plan.before,
        "after": plan.after,
        "reasons": replan.reasons,
        **blocks.remarks_data(plan),
    }
