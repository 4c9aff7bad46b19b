"""The report of lint for people, and the fields for programs."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from kafkakit.core.findings import Finding, Severity, totals
from kafkakit.core.quantities import counted
from kafkakit.core.text import printable
from kafkakit.lint.decide.result import LintResult, fix_of
from kafkakit.report import text_of
from kafkakit.rules.engine import Checked
from kafkakit.rules.rule import Fix

COLUMNS = (
    "severity", "rule", "name", "path", "line", "column", "where", "key", "message", "fix", "owner", "fingerprint",
)  # fmt: skip
SHOWN_OF_A_RULE = 50


def lint_text(result: LintResult) -> str:
    """One line a finding, grouped by file, at most 50 a rule and file; then the totals, and what was not checked."""
    lines: list[str] = []
    for _, group in groupby(result.checked, key=lambda c: c.finding.place.path if c.finding.place else ""):
        lines += [*_of_file(list(group)), ""]
    return text_of([*lines, *_closing(result)])


def position(finding: Finding) -> str:
    """`path:line:column`, or the resource where no file has it."""
    place = finding.place
    return f"{printable(place.path)}:{place.line}:{place.column}" if place else finding.where


def lint_data(result: LintResult) -> dict[str, object]:
    """The result as JSON fields."""
    numbers = Counter(f.severity for f in result.findings)
    return {
        "findings": [finding_data(checked) for checked in result.checked],
        "totals": {s.value: numbers[s] for s in Severity},
        "suppressed": result.suppressed,
        "baselined": result.baselined,
        "files": list(result.files),
        "resources": dict(result.resources),
        "skipped": {code: dict(needs) for code, needs in result.skipped.items()},
        "rules": [rule.code for rule in result.rules],
    }


def finding_data(checked: Checked) -> dict[str, object]:
    """One finding as JSON fields."""
    f = checked.finding
    return {
        "rule": f.rule,
        "name": f.name,
        "severity": f.severity.value,
        "message": f.message,
        "where": f.where,
        "count": f.count,
        "subjects": list(f.subjects),
        "path": f.place.path if f.place else None,
        "line": f.place.line if f.place else None,
        "column": f.place.column if f.place else None,
        "key": f.setting.key if f.setting else None,
        "observed": f.setting.observed if f.setting else None,
        "source": f.setting.source if f.setting else None,
        "expected": f.setting.expected if f.setting else None,
        "hint": f.hint or None,
        "owner": f.owner,
        "fix": fix_of(checked).value,
        "fingerprint": f.fingerprint,
    }


def lint_rows(result: LintResult) -> tuple[tuple[object, ...], ...]:
    """One row a finding, in the order of `COLUMNS`."""
    return tuple(tuple(finding_data(checked)[column] for column in COLUMNS) for checked in result.checked)


def statistics_text(result: LintResult) -> str:
    """How many findings each rule has, most first."""
    numbers = Counter((f.rule, f.name) for f in result.findings)
    fixable = Counter(c.finding.rule for c in result.checked if fix_of(c) is not Fix.NONE)
    lines = [
        f"{number:>6}  {code}  {name}" + (f"  ({fixable[code]} fixable)" if fixable[code] else "")
        for (code, name), number in sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    ]
    return text_of([*lines, *_closing(result)])


def _of_file(group: list[Checked]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for checked in group:
        f = checked.finding
        seen[f.rule] += 1
        if seen[f.rule] <= SHOWN_OF_A_RULE:
            where = f" ({f.where})" if f.place else ""
            owner = f" [owner: {f.owner}]" if f.owner else ""
            yield f"{position(f)}: {f.severity.value} {f.rule} {f.name}: {f.message}{where}{owner}"
    for code, number in seen.items():
        if number > SHOWN_OF_A_RULE:
            yield f"{code}: {counted(number - SHOWN_OF_A_RULE, 'more finding')} here, see -o json or -o tsv"


def _closing(result: LintResult) -> Iterator[str]:
    what = ", ".join(counted(number, kind) for kind, number in result.resources.items() if number)
    linted = f"{counted(len(result.files), 'file')}" if result.files else "live cluster"
    yield (
        (totals(result.findings) if result.checked else "no findings")
        + f" in {linted}"
        + (f" ({what})" if what else "")
    )
    fixes = Counter(fix_of(checked) for checked in result.checked)
    if fixes[Fix.SAFE] or fixes[Fix.UNSAFE]:
        yield f"fixable: {fixes[Fix.SAFE]} with --fix, {fixes[Fix.UNSAFE]} more with --unsafe-fixes; --diff shows them"
    if result.suppressed or result.baselined:
        yield f"accepted: {result.suppressed} by suppressions, {result.baselined} by the baseline"
    if result.skipped:
        yield f"not checked everywhere, for want of other inputs: {counted(len(result.skipped), 'rule')} (see -o json)"
