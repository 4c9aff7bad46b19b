"""The report of a plan, and of two configurations compared."""

from collections.abc import Iterable, Iterator, Sequence

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT
from kafkakit.core.errors import ExitCode
from kafkakit.core.quantities import counted
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import capped, optional_section, text_of
from kafkakit.report.report import Report
from kafkakit.rollout.decide.difference import ConfigDifference, row_of
from kafkakit.rollout.decide.plan import ConfigPlan, PlanFinding, shown
from kafkakit.rollout.decide.settings import SettingChange

COLUMNS = ("where", "key", "before", "after", "in_force", "how")
DIFF_COLUMNS = ("where", "key", "a", "b")
SHOWN_ROWS = 100
SHOWN_FINDINGS = 20


def plan_report(plan: ConfigPlan, command: str, *, fail_on_changes: bool = False, notes: Sequence[str] = ()) -> Report:
    """The plan for people and programs; with `fail_on_changes` exit code 3 where something changes."""
    changes = plan.all_changes
    return Report(
        command=command,
        data={
            "cluster_id": plan.cluster_id,
            "profile": plan.profile,
            "run": plan.run_id,
            "fingerprint": plan.fingerprint,
            "hash": plan.hash,
            "changes": plain_value(plan.changes),
            "restarts": plain_value(plan.restarts),
            "steps": plain_value(plan.steps),
            "rollback": plain_value(plan.rollback),
            "findings_gone": plain_value(plan.findings_gone),
            "findings_new": plain_value(plan.findings_new),
            "notes": list(notes),
        },
        text=text_of(_plan_lines(plan, notes)),
        columns=COLUMNS,
        rows=tuple(_row(c, c in plan.restarts) for c in changes),
        warnings=plan.warnings,
        code=ExitCode.CHANGES if fail_on_changes and changes else ExitCode.DONE,
    )


def _plan_lines(plan: ConfigPlan, notes: Sequence[str]) -> Iterator[str]:
    if not plan.all_changes:
        yield f"cluster {plan.cluster_id}: nothing to change"
        yield from notes
        return
    number = counted(len(plan.all_changes), "setting")
    yield f"cluster {plan.cluster_id}: {number} to change in {counted(len(plan.steps), 'step')}"
    rows = [_row(c, c in plan.restarts) for c in plan.all_changes]
    yield text_table(COLUMNS, rows[:SHOWN_ROWS])
    if len(rows) > SHOWN_ROWS:
        yield f"... and {len(rows) - SHOWN_ROWS} more (all of them with -o tsv)"
    yield from optional_section("steps:", step_lines(plan))
    brokers = sorted({int(c.name) for c in plan.restarts})
    if brokers:
        yield from optional_section(
            f"brokers to restart: {', '.join(map(str, brokers))}",
            [f"{c.where}: {c.key} is read at start only" for c in plan.restarts[:SHOWN_FINDINGS]],
        )
    yield from optional_section(f"findings that go: {len(plan.findings_gone)}", _finding_lines(plan.findings_gone))
    yield from optional_section(f"findings that come: {len(plan.findings_new)}", _finding_lines(plan.findings_new))
    yield from optional_section(
        "rollback:", capped(plan.rollback, lambda c: f"{c.where} {c.key}: {shown(c.key, c.after)}", SHOWN_FINDINGS)
    )
    yield from ("", f"run {plan.run_id}, hash {plan.hash}", *notes)


def _row(change: SettingChange, restart: bool) -> tuple[object, ...]:
    key = change.key
    return (
        change.where,
        key,
        shown(key, change.before),
        shown(key, change.after),
        None if change.in_force is None else shown(key, change.in_force),
        "restart" if restart else "while it runs",
    )


def step_lines(plan: ConfigPlan) -> list[str]:
    """The steps of a plan, one a line."""
    return [f"{n}. {step.name}: {_summary(step.changes)}" for n, step in enumerate(plan.steps, 1)]


def _summary(changes: Sequence[SettingChange]) -> str:
    if any(c.name == CLUSTER_DEFAULT for c in changes) and any(c.name != CLUSTER_DEFAULT for c in changes):
        default = [c for c in changes if c.name == CLUSTER_DEFAULT]
        brokers = dict.fromkeys(c.name for c in changes if c.name != CLUSTER_DEFAULT)
        return f"{_summary(default)}; trial values are removed from broker {', '.join(brokers)}"
    pairs = dict.fromkeys((c.key, c.after) for c in changes)
    words = [f"{key}={value}" if value is not None else f"{key} removed" for key, value in pairs]
    return ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")


def _finding_lines(findings: Iterable[PlanFinding]) -> list[str]:
    return capped(tuple(findings), lambda f: f"{f.severity} {f.rule} {f.where}: {f.message}", SHOWN_FINDINGS)


def diff_report(one: str, other: str, found: Sequence[ConfigDifference], *, exit_code: bool) -> Report:
    """The settings that differ between two states."""
    rows = [row_of(each) for each in found]
    head = f"a: {one}\nb: {other}"
    body = text_table(DIFF_COLUMNS, rows) if rows else "no difference"
    return Report(
        command="config diff",
        data={"a": one, "b": other, "differences": plain_value(tuple(found))},
        text=f"{head}\n{body}\n",
        columns=DIFF_COLUMNS,
        rows=tuple(rows),
        code=ExitCode.CHANGES if exit_code and rows else ExitCode.DONE,
    )
