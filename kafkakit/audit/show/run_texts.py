"""Reports of runs: what a run gave, where runs are, and what a dry run would start."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from kafkakit.audit.decide.launch import launch_line
from kafkakit.audit.decide.run_state import RunPhase, RunState
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.findings import FailOn, Severity
from kafkakit.core.fleet_tables import JobResult, JobSpec, spec_data
from kafkakit.core.programs import Launch
from kafkakit.core.text import text_table
from kafkakit.report import Report

JOB_COLUMNS = ("job", "state", *(severity.value + "s" for severity in Severity), "seconds")
SHOWN_LEFT_OUT = 10
RUN_COLUMNS = ("run", "state", "started", "reason")


def run_report(
    command: str, state: RunState, fail_on: FailOn, *, is_earlier: bool = False, is_asked: bool = False
) -> Report:
    """One run: its jobs, what failed, what was left out, and where the results are.

    `is_earlier` when the result was there before. To a command that only asks for the state (`is_asked`), a run that
    died is no failure of its own.
    """
    code = state.exit_code(fail_on)
    failure = None
    if state.phase is RunPhase.FAILED and not state.results and not is_asked:
        failure = OperationFailedError(
            f"run {state.run} failed: {state.reason}", hint=f"kafkakit audit logs {state.location}"
        )
    return Report(
        command=command,
        data={**_state_data(state), "earlier": is_earlier, "exit_code": int(code)},
        text=_run_text(state, is_earlier),
        columns=JOB_COLUMNS,
        rows=tuple(_job_row(result) for result in state.results),
        failure=failure,
        code=code,
    )


def detached_report(command: str, state: RunState) -> Report:
    """A run that continues without this command."""
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
        lines += [line for result in state.results for line in _left_out(result)]
    if any(not result.error for result in state.results):
        lines.append(f"findings: kafkakit audit report {state.location}")
    reason = f": {state.reason}" if state.reason and not state.results else ""
    lines.append(f"run {state.run} is {state.phase.value}{reason}; {state.location}")
    return "\n".join(lines) + "\n"


def _left_out(result: JobResult) -> list[str]:
    more = len(result.skipped) - SHOWN_LEFT_OUT
    lines = [f"{result.job}: left out: {text}" for text in result.skipped[:SHOWN_LEFT_OUT]]
    return [*lines, f"{result.job}: left out: {more} more, see -o json"] if more > 0 else lines


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
