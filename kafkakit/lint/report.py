"""A result of lint as the report that the command ends with, in any of its formats.

Text is for people, fields are for programs. For CI services: GitHub annotations, GitLab code quality, Markdown for a
comment, SARIF, and JUnit XML with one test case for each file and rule, of which those without findings pass. The
upgrade report says what breaks, what changes its default and what to set first, on one page.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from kafkakit.core.errors import ExitCode
from kafkakit.core.findings import Finding, Severity, exit_code_of, totals
from kafkakit.core.quantities import count_of
from kafkakit.core.text import sanitize
from kafkakit.lint.decide.decision import LintResult, fix_of
from kafkakit.lint.decide.fixes import LintDone
from kafkakit.lint.decide.membership import Assumption, assumption_lines
from kafkakit.lint.rule_pages import page_of, rule_url
from kafkakit.report.exports import MOST_RESULTS, SarifResult, SarifRule, group_items, sarif_log
from kafkakit.report.pages import PageTable, html_page
from kafkakit.report.report import RawDocument, Report, ResultTable, text_of
from kafkakit.rules.engine import RuleFinding
from kafkakit.rules.rule import Edit, Fix, LintRule

COMMAND = "lint"


def lint_report(done: LintDone, form: str, version: str) -> Report:
    """The report of a run, with the text of a format, or `diff` for what fixing would change."""
    result = done.run.linted.result
    return Report(
        command=COMMAND,
        data=lint_data(result) | {"fixed": done.run.fixed, "diff": done.run.diff},
        sections=lint_sections(result)
        if form == "text"
        else (RawDocument(done.run.diff if form == "diff" else render_result(result, form, version)),),
        table=ResultTable(COLUMNS, lint_rows(result)),
        code=ExitCode.USAGE if result.unchecked else exit_code_of(result.findings, done.fail_on),
    )


def render_result(result: LintResult, name: str, version: str) -> str:
    """The result in a format by its name; that of people for one of the kit's own formats. Imports only this format."""
    match name:
        case "sarif":
            return sarif(result, version)
        case "junit":
            return junit(result)
        case "github" | "gitlab" | "markdown":
            return {"github": github, "gitlab": gitlab, "markdown": markdown}[name](result)
        case "statistics":
            return statistics_text(result)
    return text_of(lint_sections(result))


COLUMNS = (
    "severity", "rule", "name", "path", "line", "column", "where", "key", "message", "fix", "owner", "fingerprint",
)  # fmt: skip
SHOWN_OF_A_RULE = 50


def lint_sections(result: LintResult) -> Iterator[str]:
    """One line a finding, grouped by file, at most 50 a rule and file; then the totals, and what was not checked."""
    for _, group in groupby(result.checked, key=lambda c: c.finding.place.path if c.finding.place else ""):
        yield from (*_of_file(list(group)), "")
    yield from _closing_lines(result)


def position(finding: Finding) -> str:
    """`path:line:column`, or the resource where no file has it."""
    place = finding.place
    return f"{sanitize(place.path)}:{place.line}:{place.column}" if place else finding.where


def lint_data(result: LintResult) -> dict[str, object]:
    """The result as JSON fields."""
    numbers = Counter(f.severity for f in result.findings)
    return {
        "findings": [finding_data(checked) for checked in result.checked],
        "totals": {s.value: numbers[s] for s in Severity},
        "suppressed": result.suppressed,
        "baselined": result.baselined,
        "files": list(result.files),
        "unread": list(result.unread),
        "resources": dict(result.resources),
        "skipped": {code: dict(needs) for code, needs in result.skipped.items()},
        "rules": [rule.code for rule in result.rules],
        "assumptions": [
            {"clusters": list(one.clusters), **_assumption_data(one), "because": one.because}
            for one in result.assumptions
        ],
    }


def _assumption_data(one: Assumption) -> dict[str, object]:
    return {"env": one.env} if one.env else {"version": one.version}


def finding_data(checked: RuleFinding) -> dict[str, object]:
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
    return text_of([*lines, *_closing_lines(result)])


def _of_file(group: list[RuleFinding]) -> Iterator[str]:
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
            yield f"{code}: {count_of(number - SHOWN_OF_A_RULE, 'more finding')} here, see -o json or -o tsv"


def _closing_lines(result: LintResult) -> Iterator[str]:
    what = ", ".join(count_of(number, kind) for kind, number in result.resources.items() if number)
    linted = f"{count_of(len(result.files), 'file')}" if result.files else "live cluster"
    yield (
        (totals(result.findings) if result.checked else "no findings")
        + f" in {linted}"
        + (f" ({what})" if what else "")
    )
    fixes = Counter(fix_of(checked) for checked in result.checked)
    if fixes[Fix.SAFE] or fixes[Fix.UNSAFE]:
        yield f"fixable: {fixes[Fix.SAFE]} with --fix, {fixes[Fix.UNSAFE]} more with --unsafe-fixes; --diff shows them"
    if result.unread:
        yield f"not checked: {count_of(len(result.unread), 'file')} in a form that lint does not read (see -o json)"
    yield from assumption_lines(result.assumptions)
    if result.suppressed or result.baselined:
        yield f"accepted: {result.suppressed} by suppressions, {result.baselined} by the baseline"
    if result.skipped:
        yield f"{count_of(len(result.skipped), 'rule')} skipped at least in part, for lack of input (see -o json)"


_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_GITLAB = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}
MOST_ROWS = 200
"""Rows in Markdown; a comment of GitHub may have 65,536 characters."""


def github(result: LintResult) -> str:
    """One workflow command a finding; with start lines only, since an end at the end of a file breaks annotations."""
    return "".join(_annotation(checked) + "\n" for checked in result.checked)


def gitlab(result: LintResult) -> str:
    """GitLab's code quality report; fingerprints are unique in it and stay the same when lines move."""
    seen: Counter[str] = Counter()
    entries = []
    for checked in result.checked:
        f = checked.finding
        path = f.place.path if f.place else f.where
        text = f"{f.fingerprint}\n{path}"
        seen[text] += 1
        fingerprint = hashlib.sha256(f"{text}\n{seen[text]}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        entries.append(
            {
                "description": f"{f.rule} {f.name}: {f.message} ({f.where})",
                "check_name": f"kafkakit/{f.rule}",
                "fingerprint": fingerprint,
                "severity": _GITLAB[f.severity],
                "location": {"path": path, "lines": {"begin": f.place.line if f.place else 1}},
            }
        )
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def markdown(result: LintResult) -> str:
    """A summary and a table a file, at most 200 rows, for a comment on a merge request."""
    lines = [f"### kafkakit lint: {totals(result.findings) if result.checked else 'no findings'}", ""]
    for path, group in groupby(
        result.checked[:MOST_ROWS], key=lambda c: c.finding.place.path if c.finding.place else ""
    ):
        lines += [
            f"**{_cell(path or 'live cluster')}**",
            "",
            "| line | severity | rule | finding |",
            "|---|---|---|---|",
        ]
        lines += [_row(checked, result.docs_url) for checked in group]
        lines.append("")
    if len(result.checked) > MOST_ROWS:
        lines += [f"... and {len(result.checked) - MOST_ROWS} more.", ""]
    return "\n".join(lines)


def _annotation(checked: RuleFinding) -> str:
    f = checked.finding
    where = f"file={_property(f.place.path)},line={f.place.line},col={f.place.column}," if f.place else ""
    message = f"{f.message} ({f.where})" if f.place else f"{position(f)}: {f.message}"
    return f"::{_GITHUB[f.severity]} {where}title={_property(f'{f.rule} {f.name}')}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _row(checked: RuleFinding, docs_url: str) -> str:
    f = checked.finding
    url = rule_url(checked.rule, docs_url)
    rule = f"[{f.rule}]({url}) {f.name}" if url else f"{f.rule} {f.name}"
    return f"| {f.place.line if f.place else ''} | {f.severity.value} | {rule} | {_cell(f'{f.message} ({f.where})')} |"


def _cell(text: str) -> str:
    for mark in ("\\", "|", "`", "*", "_", "<", "[", "@"):
        text = text.replace(mark, "&lt;" if mark == "<" else f"\\{mark}")
    return " ".join(text.split())


LIVE = "live cluster"


def junit(result: LintResult) -> str:
    """The result as one `testsuite` a file; rules that could not be checked anywhere are skipped cases."""
    by_file: dict[str, list[RuleFinding]] = {path: [] for path in result.files or (LIVE,)}
    for checked in result.checked:
        by_file.setdefault(checked.finding.place.path if checked.finding.place else LIVE, []).append(checked)
    suites = [_suite(path, found, result) for path, found in by_file.items()]
    numbers = _numbers(*(sum(suite.numbers[i] for suite in suites) for i in range(3)))
    head = f'<testsuites name="kafkakit lint" {numbers}>'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *(s.text for s in suites), "</testsuites>", ""])


class _Suite(NamedTuple):
    text: str
    numbers: tuple[int, int, int]


def _numbers(tests: int, failures: int, skipped: int) -> str:
    return f'tests="{tests}" failures="{failures}" errors="0" skipped="{skipped}"'


def _suite(path: str, found: list[RuleFinding], result: LintResult) -> _Suite:
    ordered = sorted(found, key=lambda c: c.finding.rule)
    failed = {code: list(group) for code, group in groupby(ordered, key=lambda c: c.finding.rule)}
    names = {rule.code: rule.name for rule in result.rules} | {c.finding.rule: c.finding.name for c in found}
    cases, skipped = [], 0
    for code in sorted(names):
        opening = f"    <testcase classname={_attribute(path)} name={_attribute(f'{code} {names[code]}')}"
        if code in failed:
            cases += [f"{opening}>", _failure(failed[code]), "    </testcase>"]
        elif code in result.skipped:
            skipped += 1
            cases += [f"{opening}>", f"      <skipped message={_attribute(_needs(result, code))}/>", "    </testcase>"]
        else:
            cases.append(f"{opening}/>")
    numbers = (len(names), len(failed), skipped)
    text = "\n".join([f"  <testsuite name={_attribute(path)} {_numbers(*numbers)}>", *cases, "  </testsuite>"])
    return _Suite(text, numbers)


def _failure(found: list[RuleFinding]) -> str:
    first = found[0].finding
    lines = "\n".join(f"{position(c.finding)}: {c.finding.message} ({c.finding.where})" for c in found)
    opening = f"<failure type={_attribute(first.severity.value)} message={_attribute(first.message)}>"
    return f"      {opening}{_text(lines)}</failure>"


def _needs(result: LintResult, code: str) -> str:
    return "skipped at least in part, for lack of: " + ", ".join(result.skipped[code])


def _attribute(text: str) -> str:
    return f'"{escape(_make_printable(text))}"'


def _text(text: str) -> str:
    return escape(_make_printable(text), quote=False)


def _make_printable(text: str) -> str:
    # XML 1.0 has no form for most control characters and for surrogates.
    return "".join(
        c if c in "\t\n" or c.isprintable() or (ord(c) > 0x9F and not 0xD800 <= ord(c) < 0xE000) else "?" for c in text
    )


def sarif(result: LintResult, version: str) -> str:
    """The result as a SARIF log with one run; above 5,000 findings those of one rule and file become one."""
    rules = sorted({c.rule for c in result.checked}, key=lambda rule: rule.code)
    groups = group_items(result.checked, _rule_and_file, MOST_RESULTS)
    return sarif_log(version, [_rule(rule, result.docs_url) for rule in rules], [_result(*group) for group in groups])


def _rule_and_file(checked: RuleFinding) -> tuple[str, str]:
    f = checked.finding
    return f.rule, f.place.path if f.place else f.where


def _rule(rule: LintRule, docs_url: str) -> SarifRule:
    page = page_of(rule)
    return SarifRule(
        code=rule.code,
        name=rule.name,
        severity=rule.severity,
        summary=page.summary,
        why=page.why,
        text=page.text,
        markdown=page.markdown,
        family=rule.family,
        url=rule_url(rule, docs_url),
    )


def _result(checked: RuleFinding, number: int) -> SarifResult:
    f = checked.finding
    return SarifResult(
        code=f.rule,
        severity=f.severity,
        message=f.message,
        where=f.where,
        fingerprint=f.fingerprint,
        number=number,
        place=f.place,
    )


BREAKS = frozenset({"KKV004", "KKV006", "KKV012", "KKD109", "KKQ855", "KKG708"})
DEFAULTS = frozenset({"KKV007"})
DEPRECATED = frozenset({"KKV005"})
_SECTIONS = (
    ("What breaks", BREAKS, "Change these before the first broker is upgraded."),
    ("Changed defaults", DEFAULTS, "To keep today's behaviour, set these explicitly before you upgrade."),
    ("Deprecated", DEPRECATED, "These still work in the target version."),
)


def upgrade_page(result: LintResult, target: str, suffix: str) -> str:
    """The page as HTML for a file name that ends in `.html` or `.htm`, else as Markdown."""
    return (upgrade_html if suffix.lower() in (".html", ".htm") else upgrade_markdown)(result, target)


def upgrade_markdown(result: LintResult, target: str) -> str:
    """The page as Markdown."""
    lines = [f"# Upgrade to Kafka {target}", "", _summary(result), ""]
    for heading, codes, what_to_do in _SECTIONS:
        found = [f"- `{position(c.finding)}` {c.rule.code}: {c.finding.message}" for c in _checked_with(result, codes)]
        lines += [f"## {heading} ({len(found)})", "", *([what_to_do, "", *found] if found else ["Nothing."]), ""]
    first = [f"- `{where}`: {edit}" for where, edit in _first_sections(result)]
    return "\n".join([*lines, *(["## What to set first", "", *first, ""] if first else [])])


def upgrade_html(result: LintResult, target: str) -> str:
    """The page as HTML that needs nothing else."""
    sections = []
    for heading, codes, what_to_do in _SECTIONS:
        rows = [(position(c.finding), c.rule.code, c.finding.message) for c in _checked_with(result, codes)]
        columns = (("where", False), ("rule", False), ("what", False))
        sections.append((heading, what_to_do, PageTable(caption=heading, columns=columns, rows=rows)))
    breaks = count_of(len(_checked_with(result, BREAKS)), "setting")
    first = PageTable(
        caption="What to set first", columns=(("where", False), ("change", False)), rows=list(_first_sections(result))
    )
    page = html_page(
        "upgrade.html",
        title=f"Kafka {target} breaks {breaks} in {count_of(len(result.files), 'file')}",
        target=target,
        summary=_summary(result),
        sections=sections,
        first=first,
    )
    return page.decode()


def _summary(result: LintResult) -> str:
    numbers = [len(_checked_with(result, codes)) for _, codes, _ in _SECTIONS]
    return (
        f"{count_of(numbers[0], 'setting')} would break, {count_of(numbers[1], 'default')} would change, "
        f"{count_of(numbers[2], 'setting')} are deprecated, in {count_of(len(result.files), 'file')}."
    )


def _checked_with(result: LintResult, codes: Iterable[str]) -> Sequence[RuleFinding]:
    wanted = set(codes)
    return [checked for checked in result.checked if checked.rule.code in wanted]


def _first_sections(result: LintResult) -> Iterable[tuple[str, str]]:
    seen = set()
    for checked in _checked_with(result, BREAKS | DEFAULTS):
        for edit in checked.edits:
            line = (
                position(checked.finding) if checked.rule.code in BREAKS else checked.finding.where,
                _edit_text(edit),
            )
            if line not in seen:
                seen.add(line)
                yield line


def _edit_text(edit: Edit) -> str:
    if edit.rename is not None:
        return f"rename {edit.key} to {edit.rename}"
    return f"delete {edit.key}" if edit.value is None else f"set {edit.key}={edit.value}"
