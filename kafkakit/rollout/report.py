"""The reports of plans, of two configurations compared, and of rollouts.

A rollout's report says how it ended; others list all rollouts of a cluster, and what a watch saw.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT
from kafkakit.core.errors import ExitCode, InfeasibleError, OperationFailedError
from kafkakit.core.quantities import count_of
from kafkakit.core.text import plain_value, shell_command
from kafkakit.report.report import Part, Report, ResultTable, Section, attributes, cap_lines
from kafkakit.rollout.decide.plan import ConfigDifference, ConfigPlan, PlanFinding, row_of, show_value
from kafkakit.rollout.decide.rollout import HealthVerdict, RolloutEnd, RolloutState, UndoPlan
from kafkakit.rollout.decide.settings import SettingChange

PLAN_COLUMNS = ("where", "key", "before", "after", "in_force", "how")
SHOWN_ROWS = 100
SHOWN_FINDINGS = 20


def plan_report(plan: ConfigPlan, command: str, *, fail_on_changes: bool = False, notes: Sequence[str] = ()) -> Report:
    """The plan for people and programs; with `fail_on_changes` exit code 3 where something changes."""
    changes = plan.all_changes
    return Report(
        command=command,
        data={
            **attributes(plan, "cluster_id profile"),
            "run": plan.run_id,
            **attributes(plan, "fingerprint hash changes restarts steps rollback findings_gone findings_new"),
            "notes": list(notes),
        },
        sections=_plan_sections(plan, notes),
        warnings=plan.warnings,
        code=ExitCode.CHANGES if fail_on_changes and changes else ExitCode.DONE,
    )


def refused_plan(report: Report, plan: ConfigPlan, *, writes: bool) -> Report:
    """The report of a plan that brings findings of level error: it is infeasible, and says what to do about it."""
    words = f"the change brings {count_of(len(plan.errors), 'finding')} of level error"
    return replace(
        report,
        failure=InfeasibleError(
            f"{words}, so no plan was written" if writes else words,
            hint="choose other values, or pass --force if this is intended",
        ),
    )


def _plan_sections(plan: ConfigPlan, notes: Sequence[str]) -> Iterator[Part]:
    if not plan.all_changes:
        yield f"cluster {plan.cluster_id}: nothing to change"
        yield from notes
        return
    number = count_of(len(plan.all_changes), "setting")
    yield f"cluster {plan.cluster_id}: {number} to change in {count_of(len(plan.steps), 'step')}"
    rows = tuple(_change_row(c, c in plan.restarts) for c in plan.all_changes)
    yield ResultTable(PLAN_COLUMNS, rows, most=SHOWN_ROWS)
    yield Section("steps:", step_lines(plan))
    yield Section(
        f"brokers to restart: {', '.join(map(str, sorted({int(c.name) for c in plan.restarts})))}",
        [f"{c.where}: {c.key} is read only at start" for c in plan.restarts[:SHOWN_FINDINGS]],
    )
    yield Section(f"lint findings fixed: {len(plan.findings_gone)}", _finding_lines(plan.findings_gone))
    yield Section(f"lint findings introduced: {len(plan.findings_new)}", _finding_lines(plan.findings_new))
    yield Section(
        "rollback:",
        cap_lines(plan.rollback, lambda c: f"{c.where} {c.key}: {show_value(c.key, c.after)}", SHOWN_FINDINGS),
    )
    yield from ("", f"run {plan.run_id}, hash {plan.hash}", *notes)


def _change_row(change: SettingChange, restart: bool) -> tuple[object, ...]:
    key = change.key
    return (
        change.where,
        key,
        show_value(key, change.before),
        show_value(key, change.after),
        None if change.in_force is None else show_value(key, change.in_force),
        "restart" if restart else "without restart",
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
    return cap_lines(tuple(findings), lambda f: f"{f.severity} {f.rule} {f.where}: {f.message}", SHOWN_FINDINGS)


def diff_report(one: str, other: str, found: Sequence[ConfigDifference], *, exit_code: bool) -> Report:
    """The settings that differ between two states."""
    rows = [row_of(each) for each in found]
    return Report(
        command="config diff",
        data={"a": one, "b": other, "differences": plain_value(tuple(found))},
        sections=(f"a: {one}", f"b: {other}", ResultTable(("where", "key", "a", "b"), rows, empty="no difference")),
        code=ExitCode.CHANGES if exit_code and rows else ExitCode.DONE,
    )


ROLLOUT_COLUMNS = ("run", "began", "ended", "state", "settings", "steps", "by", "rehearsal_of")


def run_report(
    command: str,
    name: str,
    state: RolloutState,
    program: str,
    *,
    wanted: RolloutEnd | None,
    undo: UndoPlan | None = None,
) -> Report:
    """How a rollout stands; the failure where it is not `wanted`, which is None for one that was only looked at.

    `undo` is what taking it back would do, where that was asked for and not done.
    """
    plan = state.plan
    lines: list[Part] = [
        f"rollout {name} on cluster {plan.cluster_id}: {state.words}",
        Section("steps that passed:", [f"{n + 1}. {plan.steps[n].name}" for n in state.passed if not state.is_back]),
        Section("why it was rolled back:", state.reasons),
        Section("left as they are:", state.left),
    ]
    if wanted is None:
        lines.append(Section("remaining steps:", steps_left(state) if undo is None else ()))
        lines.append(Section("would be taken back:", undo.lines if undo is not None else ()))
        lines += ["", "nothing is done"]
    elif state.end is RolloutEnd.INCOMPLETE:
        lines += ["", f"once that is repaired: {shell_command('config rollback', name, program=program)}"]
    elif state.end is RolloutEnd.APPLIED:
        lines += ["", f"to take it back: {shell_command('config rollback', name, program=program)}"]
    failure = None
    if wanted is not None and state.end is not wanted:
        why = state.reasons[0] if state.reasons else "it is still open"
        failure = OperationFailedError(f"rollout {name} is {state.words}: {why}")
    return Report(
        command=command,
        data={
            "cluster_id": plan.cluster_id,
            "run": name,
            "state": state.words,
            "end": None if state.end is None else state.end.value,
            "passed": [plan.steps[n].name for n in state.passed],
            **attributes(state, "reasons left"),
            "would_take_back": None if undo is None else plain_value(undo.changes),
        },
        sections=lines,
        table=ResultTable(ROLLOUT_COLUMNS, (_rollout_row(name, state),)),
        failure=failure,
    )


def steps_left(state: RolloutState) -> tuple[str, ...]:
    """The steps that an open rollout has still to carry out; none while it is taken back."""
    if state.end is not None or state.is_back:
        return ()
    return tuple(f"{n}. {step.name}" for n, step in enumerate(state.plan.steps, 1) if n - 1 not in state.passed)


def history_report(
    cluster_id: str | None, runs: Sequence[tuple[str, RolloutState]], damages: Sequence[str] = ()
) -> Report:
    """All rollouts of a cluster, or of all clusters (None), oldest first, and what is wrong with their journals."""
    rows = tuple((*_rollout_row(name, state), state.plan.cluster_id) for name, state in runs)
    table = ResultTable((*ROLLOUT_COLUMNS, "cluster_id"), rows, empty="no rollout on this host")
    return Report(
        command="config history",
        data={
            "cluster_id": cluster_id,
            "runs": table.records(),
        },
        sections=(table,),
        warnings=tuple(f"{damage}; only the lines before that count" for damage in damages),
    )


def changes_report(name: str, state: RolloutState) -> Report:
    """What one rollout wrote, in order, and how it ended."""
    rows = tuple(
        (at, c.where, c.key, show_value(c.key, c.before), show_value(c.key, c.after)) for at, c in state.writes
    )
    changes = ResultTable(("time", "where", "key", "before", "after"), rows)
    return Report(
        command="config history",
        data={
            "cluster_id": state.plan.cluster_id,
            "run": name,
            "state": state.words,
            "reasons": list(state.reasons),
            "changes": changes.records(),
        },
        sections=(
            f"rollout {name} on cluster {state.plan.cluster_id}: {state.words}",
            Section("why it was rolled back:", state.reasons),
            "",
            changes,
        ),
    )


def watch_report(cluster_id: str, verdicts: Sequence[HealthVerdict]) -> Report:
    """What was seen in each window; exit code 1 where one is bad."""
    rows = tuple(
        (n, v.health.value, r.signal.value, f"{r.seen:.4g}", f"{r.usual:.4g}", f"{r.limit:.4g}", r.is_bad)
        for n, v in enumerate(verdicts, 1)
        for r in v.rows
    )
    bad = [f"window {n}: {reason}" for n, v in enumerate(verdicts, 1) for reason in v.reasons]
    return Report(
        command="config watch",
        data={"cluster_id": cluster_id, "windows": plain_value(tuple(verdicts)), "bad": bad},
        sections=(
            f"cluster {cluster_id}: {count_of(len(verdicts), 'window')} watched",
            ResultTable(("window", "verdict", "signal", "seen", "usual", "limit", "bad"), rows),
            Section("worse than usual:", bad),
        ),
        code=ExitCode.FAILED if bad else ExitCode.DONE,
    )


def nothing_report(command: str, cluster_id: str) -> Report:
    """Everything is set as the plan wants it."""
    return Report(
        command=command,
        data={"cluster_id": cluster_id, "state": "nothing to do"},
        sections=(f"cluster {cluster_id}: nothing to do, every value is set already",),
    )


def requested_report(cluster_id: str, holder: str) -> Report:
    """A running rollout was asked to take its values back."""
    return Report(
        command="config abort",
        data={"cluster_id": cluster_id, "state": "requested", "holder": holder},
        sections=(f"cluster {cluster_id}: {holder} takes back what it has set",),
    )


def _rollout_row(name: str, state: RolloutState) -> tuple[object, ...]:
    plan = state.plan
    steps = f"{len(state.passed)}/{len(plan.steps)}"
    return (
        name,
        state.began_at.replace(microsecond=0),
        state.ended_at.replace(microsecond=0) if state.ended_at else None,
        state.words,
        len(plan.all_changes),
        steps,
        state.by,
        state.rehearsal_of,
    )
