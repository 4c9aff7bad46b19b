"""Formats of CI services: GitHub annotations, GitLab code quality, and Markdown for a comment."""

import hashlib
import json
from collections import Counter
from itertools import groupby

from kafkakit.core.findings import Severity, totals
from kafkakit.lint.decide.result import LintResult
from kafkakit.lint.show.rule_pages import rule_url
from kafkakit.lint.show.text import position
from kafkakit.rules.engine import Checked

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


def _annotation(checked: Checked) -> str:
    f = checked.finding
    where = f"file={_property(f.place.path)},line={f.place.line},col={f.place.column}," if f.place else ""
    message = f"{f.message} ({f.where})" if f.place else f"{position(f)}: {f.message}"
    return f"::{_GITHUB[f.severity]} {where}title={_property(f'{f.rule} {f.name}')}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _row(checked: Checked, docs_url: str) -> str:
    f = checked.finding
    url = rule_url(checked.rule, docs_url)
    rule = f"[{f.rule}]({url}) {f.name}" if url else f"{f.rule} {f.name}"
    return f"| {f.place.line if f.place else ''} | {f.severity.value} | {rule} | {_cell(f'{f.message} ({f.where})')} |"


def _cell(text: str) -> str:
    for mark in ("\\", "|", "`", "*", "_", "<", "[", "@"):
        text = text.replace(mark, "&lt;" if mark == "<" else f"\\{mark}")
    return " ".join(text.split())
