"""Reports of runs: the results of one as text for people and as rows and fields for programs, and its state.

Every form of the results is made from one view: the run, the one before it, and the numbers of earlier ones. Other
reports say where runs are, and what a dry run would start.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime

from kafkakit.audit.decide.launch import launch_line
from kafkakit.audit.decide.runs import AuditState, Comparison, RunPhase, RunResults, fails
from kafkakit.core.errors import ExitCode, OperationFailedError
from kafkakit.core.findings import SHOWN_OF_A_RULE, SHOWN_SUBJECTS, AuditFinding, FailOn, Severity
from kafkakit.core.fleet_tables import JobResult, JobSpec, spec_data
from kafkakit.core.programs import Launch
from kafkakit.core.quantities import count_of, format_rough_time
from kafkakit.core.text import sanitize, shell_command
from kafkakit.report.report import Part, Remarks, Report, ResultTable, Section, attributes, lines_from

COLUMNS = ("state", *(f.name for f in fields(AuditFinding)))
_SHOWN = ("severity", "rule", "where", "score", "owner", "since", "message")

_ORDER = {severity.value: number for number, severity in enumerate(Severity)}
Columns = Mapping[str, Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditView:
    """A run with its findings, worst first, against the last run of the same jobs on an earlier date.

    `comparison` is None where there is no earlier run. `history` are earlier runs, oldest first, without their
    findings; `tables` are columns of the jobs' tables, by job and table.
    """

    run: RunResults
    comparison: Comparison | None = None
    history: tuple[RunResults, ...] = ()
    tables: Mapping[tuple[str, str], Columns] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[str, ...]:
        """The jobs that failed, each with its error."""
        return tuple(f"{r.job}: {r.error}" for r in self.run.results if r.error)

    @property
    def skipped(self) -> tuple[str, ...]:
        """What jobs do not look at with what they were given, each sentence once with the jobs it holds for."""
        return self._once(lambda result: result.skipped)

    @property
    def left_out(self) -> tuple[str, ...]:
        """What jobs should have looked at and could not, each sentence once with the jobs it holds for."""
        return self._once(lambda result: result.left_out)

    def _once(self, sentences: Callable[[JobResult], tuple[str, ...]]) -> tuple[str, ...]:
        jobs: dict[str, list[str]] = {}
        for result in self.run.results:
            for sentence in dict.fromkeys(sentences(result)):
                jobs.setdefault(sentence, []).append(result.job)
        whole = [r.job for r in self.run.results if not r.error]
        return tuple(s if names == whole else f"{', '.join(names)}: {s}" for s, names in jobs.items())

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters that any job looked at or found something in."""
        looked = {name for result in self.run.results for name in result.clusters}
        return tuple(sorted(looked | {f.cluster for f in self.run.findings}))


def run_report(view: AuditView, fail_on: FailOn = FailOn.NEVER, command: str = "audit report") -> Report:
    """The findings of a run; exit code 1 where a job failed, or with findings of `fail_on` or worse."""
    failed = bool(view.failed or view.left_out) or fails(view.run.findings, fail_on)
    groups = _groups(view)
    return Report(
        command=command,
        data=_data(view, groups),
        sections=_run_sections(view, groups),
        table=ResultTable(COLUMNS, finding_rows(groups)),
        code=ExitCode.FAILED if failed else ExitCode.DONE,
    )


def diff_report(comparison: Comparison, fail_on: FailOn) -> Report:
    """A comparison; exit code 1 with new findings of `fail_on` or worse."""
    groups = [
        ("new", comparison.new),
        ("gone", comparison.gone),
        ("still", comparison.still),
        ("unseen-before", comparison.unseen_before),
        ("unseen-after", comparison.unseen_after),
    ]
    groups = [(state, worst_first(found)) for state, found in groups]
    data = {
        **attributes(comparison, "earlier later"),
        **{state.replace("-", "_"): [asdict(f) for f in found] for state, found in groups},
        "totals": {state.replace("-", "_"): severities(found) for state, found in groups},
        "notes": list(comparison.notes),
    }
    return Report(
        command="audit diff",
        data=data,
        sections=_diff_sections(comparison),
        table=ResultTable(COLUMNS, finding_rows(groups)),
        code=ExitCode.FAILED if fails(comparison.new, fail_on) else ExitCode.DONE,
    )


def finding_rows(groups: Iterable[tuple[str, Iterable[AuditFinding]]]) -> tuple[tuple[object, ...], ...]:
    """One row a finding, in the order of `COLUMNS`."""
    return tuple((state, *asdict(f).values()) for state, found in groups for f in found)


def _findings_sections(findings: Sequence[AuditFinding]) -> tuple[Part, ...]:
    """A table of findings, worst first, with at most 20 of a rule; then how many more there are."""
    numbers: Counter[str] = Counter()
    rows = []
    for f in worst_first(findings):
        numbers[f.rule] += 1
        if numbers[f.rule] <= SHOWN_OF_A_RULE:
            named = f"{f.rule} {f.name}" if f.name else f.rule
            rows.append(
                (f.severity, named, sanitize(f.where), f"{f.score:.10g}", sanitize(f.owner or ""), f.since,
                 sanitize(f.message))
            )  # fmt: skip
    more = {rule: number - SHOWN_OF_A_RULE for rule, number in numbers.items() if number > SHOWN_OF_A_RULE}
    return (
        ResultTable(_SHOWN, rows, empty=""),
        *(f"{rule}: {count_of(number, 'more finding')}, see -o json or -o tsv" for rule, number in more.items()),
    )


def _groups(view: AuditView) -> list[tuple[str, tuple[AuditFinding, ...]]]:
    if view.comparison is None:
        return [("found", worst_first(view.run.findings))]
    found = view.comparison
    parts = [("new", found.new), ("still", found.still), ("unseen-before", found.unseen_before)]
    return [(state, worst_first(findings)) for state, findings in parts]


def _run_sections(view: AuditView, groups: list[tuple[str, tuple[AuditFinding, ...]]]) -> Iterator[Part]:
    run = view.run
    jobs, clusters = count_of(len(run.results), "job"), count_of(len(view.clusters), "cluster")
    took = format_rough_time(sum(r.seconds for r in run.results))
    yield f"run {run.spec.run_id} of {run.spec.snapshot_date}: {jobs}, {clusters}, {took}"
    yield Remarks("FAILED", map(sanitize, view.failed))
    yield Remarks("LEFT OUT", map(sanitize, view.left_out))
    titles = {"new": _since_text(view), "still": "still there", "found": "findings, worst first"}
    titles["unseen-before"] = "new because the run before did not look there"
    for state, found in groups:
        if state == "new" and not found:
            yield from ("", f"{titles[state]}: nothing")
        yield Section(f"{titles[state]}: {totals(found)}", _findings_sections(found))
    if view.comparison is not None and view.comparison.gone:
        yield from ("", f"gone since then: {totals(view.comparison.gone)}")
    yield Section("to repair:", _repairs(run.findings))
    yield Section("not looked at:", map(sanitize, view.skipped))
    yield from ("", totals(run.findings) if run.findings else "no findings")
    if view.failed:
        yield f"{count_of(len(view.failed), 'job')} FAILED: what it would have found is missing here"


def _since_text(view: AuditView) -> str:
    before = view.history[-1].spec.snapshot_date if view.history else "the run before"
    return f"new since {before}"


def _repairs(findings: Iterable[AuditFinding]) -> list[str]:
    hints: dict[str, dict[str, None]] = {}
    for f in worst_first(findings):
        if f.hint:
            hints.setdefault(f.rule, {})[f.hint] = None
    lines = [f"{rule}: {sanitize(hint)}" for rule, found in hints.items() for hint in list(found)[:SHOWN_SUBJECTS]]
    number = sum(1 for f in findings if f.repair)
    return [*lines, f"{count_of(number, 'finding')} can be fixed automatically: see kafkakit audit fixes RUN"] * bool(
        lines or number
    )


def _data(view: AuditView, groups: list[tuple[str, tuple[AuditFinding, ...]]]) -> dict[str, object]:
    run = view.run
    return {
        "run": run.spec.run_id,
        "snapshot_date": run.spec.snapshot_date,
        "compared_with": view.comparison.earlier if view.comparison else None,
        "findings": [{"state": state, **asdict(f)} for state, found in groups for f in found],
        "gone": [asdict(f) for f in worst_first(view.comparison.gone)] if view.comparison else [],
        "totals": severities(run.findings),
        "jobs": [asdict(result) for result in run.results],
        **attributes(view, "skipped left_out failed"),
    }


def _diff_sections(comparison: Comparison) -> Iterator[Part]:
    yield f"from {comparison.earlier} to {comparison.later}"
    yield Remarks("note", map(sanitize, comparison.notes))
    parts = [
        ("new", comparison.new),
        ("gone", comparison.gone),
        ("new because the earlier run did not look there", comparison.unseen_before),
        ("not looked at again, so neither gone nor still there", comparison.unseen_after),
    ]
    for title, found in parts:
        yield Section(f"{title}: {totals(found)}", _findings_sections(found))
    yield ""
    yield f"{len(comparison.new)} new, {len(comparison.gone)} gone, {len(comparison.still)} still there"


def worst_first(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Findings by falling score, then by severity, rule, cluster and place."""
    return tuple(
        sorted(findings, key=lambda f: (-f.score, _ORDER[f.severity], f.rule, f.cluster, f.where, f.job, f.fingerprint))
    )


def severities(findings: Iterable[AuditFinding]) -> dict[str, int]:
    """How many findings of each severity, worst first."""
    numbers = Counter(f.severity for f in findings)
    return {severity.value: numbers[severity.value] for severity in Severity}


def totals(findings: Iterable[AuditFinding]) -> str:
    """The numbers by severity in words: `2 errors, 1 warning, 0 notes`."""
    return ", ".join(count_of(number, severity) for severity, number in severities(findings).items())


JOB_COLUMNS = ("job", "state", *(severity.value + "s" for severity in Severity), "seconds")
SHOWN_LEFT_OUT = 10


def run_state_report(
    command: str, state: AuditState, fail_on: FailOn, *, is_earlier: bool = False, is_asked: bool = False
) -> Report:
    """One run: its jobs, what failed, what was left out, and where the results are.

    `is_earlier` when the result was there before. To a command that only asks for the state (`is_asked`), a run that
    died is no failure of its own.
    """
    code = state.exit_code(fail_on)
    failure = None
    if state.phase is RunPhase.FAILED and not state.results and not is_asked:
        failure = OperationFailedError(
            f"run {state.run} failed: {state.reason}", hint=str(shell_command("audit logs", state.location))
        )
    return Report(
        command=command,
        data={**_state_data(state), "earlier": is_earlier, "exit_code": int(code)},
        sections=_state_sections(state, is_earlier),
        failure=failure,
        code=code,
    )


def detached_report(command: str, state: AuditState) -> Report:
    """A run that continues without this command."""
    where = state.location
    return Report(command=command, data=_state_data(state), sections=(where,), table=ResultTable(("run",), ((where,),)))


def list_report(output: str, states: Sequence[AuditState]) -> Report:
    """All runs of an output."""
    rows = tuple((s.run, s.phase.value, _time(s.started_ms), s.reason[:100]) for s in states)
    return Report(
        command="audit list",
        data={"output": output, "runs": [_state_data(state) for state in states]},
        sections=(ResultTable(("run", "state", "started", "reason"), rows, empty=f"no runs below {output}"),),
    )


def dry_run_report(command: str, spec: JobSpec, launch: Launch) -> Report:
    """What would be started: the driver's command line, and the spec that it would get."""
    line = launch_line(launch)
    return Report(
        command=command,
        data={
            "run": spec.run_id,
            "spec": spec_data(spec),
            **attributes(launch, "command environment"),
        },
        sections=(f"run {spec.run_id} over {len(spec.dates)} dates of {spec.input} would start:", line),
        table=ResultTable(("run", "command_line"), ((spec.run_id, line),)),
    )


def text_report(command: str, text: str, **data: object) -> Report:
    """A text that is the result: a log, a manifest, a list of files."""
    lines = text.splitlines()
    return Report(
        command=command,
        data={**data, "lines": lines},
        sections=lines_from(text),
        table=ResultTable(("line",), tuple((x,) for x in lines)),
    )


def _state_sections(state: AuditState, is_earlier: bool) -> Iterator[Part]:
    if is_earlier:
        yield "this run was done before; --again runs it again"
    yield from (line for result in state.results for line in _left_out(result))
    yield ResultTable(JOB_COLUMNS, tuple(map(_job_row, state.results)), empty="")
    yield from (f"{result.job} failed: {result.error}" for result in state.results if result.error)
    if any(not result.error for result in state.results):
        yield f"findings: {shell_command('audit report', state.location)}"
    reason = f": {state.reason}" if state.reason and not state.results else ""
    yield f"run {state.run} is {state.phase.value}{reason}; {state.location}"


def _left_out(result: JobResult) -> list[str]:
    more = len(result.left_out) - SHOWN_LEFT_OUT
    lines = [f"{result.job}: left out: {text}" for text in result.left_out[:SHOWN_LEFT_OUT]]
    return [*lines, f"{result.job}: left out: {more} more, see -o json"] if more > 0 else lines


def _job_row(result: JobResult) -> tuple[object, ...]:
    counts = (None if result.error else result.findings.get(severity.value, 0) for severity in Severity)
    return (result.job, "failed" if result.error else "done", *counts, round(result.seconds, 1))


def _state_data(state: AuditState) -> dict[str, object]:
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
