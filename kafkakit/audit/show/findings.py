"""The results of a run as the report of a command: text for people, rows and fields for programs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields

from kafkakit.audit.decide.comparison import Comparison, fails
from kafkakit.audit.show.view import RunView, severities, totals, worst_first
from kafkakit.core.errors import ExitCode
from kafkakit.core.findings import SHOWN_OF_A_RULE, SHOWN_SUBJECTS, AuditFinding, FailOn
from kafkakit.core.quantities import counted, format_rough_time
from kafkakit.core.text import printable, text_table
from kafkakit.report import Report, optional_section, text_of

COLUMNS = ("state", *(f.name for f in fields(AuditFinding)))
_SHOWN = ("severity", "rule", "where", "score", "owner", "since", "message")


def run_report(view: RunView, fail_on: FailOn = FailOn.NEVER, command: str = "audit report") -> Report:
    """The findings of a run; exit code 1 where a job failed, or with findings of `fail_on` or worse."""
    failed = bool(view.failed) or fails(view.run.findings, fail_on)
    groups = _groups(view)
    return Report(
        command=command,
        data=_data(view, groups),
        text=text_of(_lines(view, groups)),
        columns=COLUMNS,
        rows=finding_rows(groups),
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
        "earlier": comparison.earlier,
        "later": comparison.later,
        **{state.replace("-", "_"): [asdict(f) for f in found] for state, found in groups},
        "totals": {state.replace("-", "_"): severities(found) for state, found in groups},
        "notes": list(comparison.notes),
    }
    return Report(
        command="audit diff",
        data=data,
        text=text_of(_diff_lines(comparison)),
        columns=COLUMNS,
        rows=finding_rows(groups),
        code=ExitCode.FAILED if fails(comparison.new, fail_on) else ExitCode.DONE,
    )


def finding_rows(groups: Iterable[tuple[str, Iterable[AuditFinding]]]) -> tuple[tuple[object, ...], ...]:
    """One row a finding, in the order of `COLUMNS`."""
    return tuple((state, *asdict(f).values()) for state, found in groups for f in found)


def findings_lines(findings: Sequence[AuditFinding]) -> list[str]:
    """A table of findings, worst first, with at most 20 of a rule; then how many more there are."""
    if not findings:
        return []
    numbers: Counter[str] = Counter()
    rows = []
    for f in worst_first(findings):
        numbers[f.rule] += 1
        if numbers[f.rule] <= SHOWN_OF_A_RULE:
            named = f"{f.rule} {f.name}" if f.name else f.rule
            rows.append(
                (f.severity, named, printable(f.where), f"{f.score:.10g}", printable(f.owner or ""), f.since,
                 printable(f.message))
            )  # fmt: skip
    return [
        *text_table(_SHOWN, rows).splitlines(),
        *(
            f"{rule}: {counted(number - SHOWN_OF_A_RULE, 'more finding')}, see -o json or -o tsv"
            for rule, number in numbers.items()
            if number > SHOWN_OF_A_RULE
        ),
    ]


def _groups(view: RunView) -> list[tuple[str, tuple[AuditFinding, ...]]]:
    if view.comparison is None:
        return [("found", worst_first(view.run.findings))]
    found = view.comparison
    parts = [("new", found.new), ("still", found.still), ("unseen-before", found.unseen_before)]
    return [(state, worst_first(findings)) for state, findings in parts]


def _lines(view: RunView, groups: list[tuple[str, tuple[AuditFinding, ...]]]) -> Iterator[str]:
    run = view.run
    jobs, clusters = counted(len(run.results), "job"), counted(len(view.clusters), "cluster")
    took = format_rough_time(sum(r.seconds for r in run.results))
    yield f"run {run.spec.run_id} of {run.spec.snapshot_date}: {jobs}, {clusters}, {took}"
    for failure in view.failed:
        yield f"FAILED: {printable(failure)}"
    titles = {"new": _since(view), "still": "still there", "found": "findings, worst first"}
    titles["unseen-before"] = "found where the run before did not look"
    for state, found in groups:
        if state == "new" and not found:
            yield from ("", f"{titles[state]}: nothing")
        yield from optional_section(f"{titles[state]}: {totals(found)}", findings_lines(found))
    if view.comparison is not None and view.comparison.gone:
        yield from ("", f"gone since then: {totals(view.comparison.gone)}")
    yield from optional_section("to repair:", _repairs(run.findings))
    yield from optional_section("not looked at:", [printable(sentence) for sentence in view.skipped])
    yield from ("", totals(run.findings) if run.findings else "no findings")
    if view.failed:
        yield f"{counted(len(view.failed), 'job')} FAILED: what it would have found is missing here"


def _since(view: RunView) -> str:
    before = view.history[-1].spec.snapshot_date if view.history else "the run before"
    return f"new since {before}"


def _repairs(findings: Iterable[AuditFinding]) -> list[str]:
    hints: dict[str, dict[str, None]] = {}
    for f in worst_first(findings):
        if f.hint:
            hints.setdefault(f.rule, {})[f.hint] = None
    lines = [f"{rule}: {printable(hint)}" for rule, found in hints.items() for hint in list(found)[:SHOWN_SUBJECTS]]
    number = sum(1 for f in findings if f.repair)
    return [*lines, f"{counted(number, 'finding')} with a change that can be applied: see audit fixes"] * bool(
        lines or number
    )


def _data(view: RunView, groups: list[tuple[str, tuple[AuditFinding, ...]]]) -> dict[str, object]:
    run = view.run
    return {
        "run": run.spec.run_id,
        "snapshot_date": run.spec.snapshot_date,
        "compared_with": view.comparison.earlier if view.comparison else None,
        "findings": [{"state": state, **asdict(f)} for state, found in groups for f in found],
        "gone": [asdict(f) for f in worst_first(view.comparison.gone)] if view.comparison else [],
        "totals": severities(run.findings),
        "jobs": [asdict(result) for result in run.results],
        "skipped": list(view.skipped),
        "failed": list(view.failed),
    }


def _diff_lines(comparison: Comparison) -> Iterator[str]:
    yield f"from {comparison.earlier} to {comparison.later}"
    yield from (f"note: {printable(note)}" for note in comparison.notes)
    parts = [
        ("new", comparison.new),
        ("gone", comparison.gone),
        ("found where the earlier run did not look", comparison.unseen_before),
        ("not looked at again, so neither gone nor still there", comparison.unseen_after),
    ]
    for title, found in parts:
        yield from optional_section(f"{title}: {totals(found)}", findings_lines(found))
    yield ""
    yield f"{len(comparison.new)} new, {len(comparison.gone)} gone, {len(comparison.still)} still there"
