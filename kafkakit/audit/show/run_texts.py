"""Reports of runs: what a run gave, where runs are, and what a dry run would start."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from kafkakit.audit.decide.launch import launch_line
from kafkakit.audit.decide.run_state import RunPhase, RunState
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.findings import FailOn, Severity
from kafkakit.core.job_spec import JobResult, JobSpec, spec_data
from kafkakit.core.spark_launch import Launch
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report

JOB_COLUMNS = ("job", "state", *(severity.value + "s" for severity in Severity), "seconds")
RUN_COLUMNS = ("run", "state", "started", "reason")


def run_report(command: str, state: RunState, fail_on: FailOn, *, is_earlier: bool = False) -> Report:
    """One run: its jobs, what failed, what was left out, and where the results are."""
    code = state.exit_code(fail_on)
    is_dead = state.phase is RunPhase.FAILED and not state.results
    return Report(
        command=command,
        data={**_state_data(state), "earlier": is_earlier, "exit_code": int(code)},
        text=_run_text(state, is_earlier),
        columns=JOB_COLUMNS,
        rows=tuple(_job_row(result) for result in state.results),
        failure=OperationFailedError(
            f"run {state.run} failed: {state.reason}", hint=f"kafkakit audit logs {state.location}"
        )
        if is_dead
        else None,
        code=code,
    )


def state_report(command: str, state: RunState, fail_on: FailOn) -> Report:
    """The state of one run, whose failure is a fact and no failure of the command that asks."""
    return Report(
        command=command,
        data={**_state_data(state), "exit_code": int(state.exit_code(fail_on))},
        text=_run_text(state, is_earlier=False),
        columns=JOB_COLUMNS,
        rows=tuple(_job_row(result) for result in state.results),
        code=state.exit_code(fail_on),
    )


def detached_report(command: str, state: RunState) -> Report:
    """A run that goes on without this command."""
    text = f"{state.location}\n"
    return Report(command=command, data=_state_data(state), text=text, columns=("run",), rows=((state.location,),))


def list_report(output: str, states: Sequence[RunState]) -> Report:
    """All runs of an output."""
    rows = tuple((s.run, s.phase.value, _time(s.started_ms), s.reason[:100]) for s in states)
    return Report(
        command="audit list",
        data={"output": output, "runs": [_state_data(state) for state in states]},
        text=f"{text_table(RUN_COLUMNS, rows)}\n" if rows else f"no runs below {output}\n",
        columns=RUN_COLUMNS,
        rows=rows,
    )


def dry_run_report(command: str, spec: JobSpec, launch: Launch) -> Report:
    """What would be started: the driver's command line, and the spec that it would get."""
    line = launch_line(launch)
    return Report(
        command=command,
        data={
            "run": spec.run_id,
            "spec": spec_data(spec),
            "command": launch.command,
            "environment": launch.environment,
        },
        text=f"run {spec.run_id} over {len(spec.dates)} dates of {spec.input} would start:\n{line}\n",
        columns=("run", "command_line"),
        rows=((spec.run_id, line),),
    )


def text_report(command: str, text: str, **data: object) -> Report:
    """A text that is the result: a log, a manifest, a list of files."""
    lines = text.splitlines()
    return Report(
        command=command, data={**data, "lines": lines}, text=text, columns=("line",), rows=tuple((x,) for x in lines)
    )


def _run_text(state: RunState, is_earlier: bool) -> str:
    lines = []
    if is_earlier:
        lines.append("this run was done before; --again runs it again")
    if state.results:
        lines.append(text_table(JOB_COLUMNS, (_job_row(result) for result in state.results)))
        lines += [f"{result.job} failed: {result.error}" for result in state.results if result.error]
        lines += [f"{r.job}: left out: {text}" for r in state.results for text in r.skipped]
    if any(not result.error for result in state.results):
        lines.append(f"findings: kafkakit audit report {state.location}")
    reason = f": {state.reason}" if state.reason and not state.results else ""
    lines.append(f"run {state.run} is {state.phase.value}{reason}; {state.location}")
    return "\n".join(lines) + "\n"


def _job_row(result: JobResult) -> tuple[object, ...]:
    counts = (None if result.error else result.findings.get(severity.value, 0) for severity in Severity)
    return (result.job, "failed" if result.error else "done", *counts, round(result.seconds, 1))


def _state_data(state: RunState) -> dict[str, object]:
    return {
        "run": state.run,
        "folder": state.location,
        "state": state.phase.value,
        "reason": state.reason,
        "started": _time(state.started_ms),
        "jobs": [asdict(result) for result in state.results],
    }


def _time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
