"""JUnit XML: one test case for each file and rule; those without findings pass."""

from html import escape
from itertools import groupby
from typing import NamedTuple

from kafkakit.lint.decide.result import LintResult
from kafkakit.lint.show.text import position
from kafkakit.rules.engine import Checked

LIVE = "live cluster"


def junit(result: LintResult) -> str:
    """The result as one `testsuite` a file; rules that could not be checked anywhere are skipped cases."""
    by_file: dict[str, list[Checked]] = {path: [] for path in result.files or (LIVE,)}
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


def _suite(path: str, found: list[Checked], result: LintResult) -> _Suite:
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


def _failure(found: list[Checked]) -> str:
    first = found[0].finding
    lines = "\n".join(f"{position(c.finding)}: {c.finding.message} ({c.finding.where})" for c in found)
    opening = f"<failure type={_attribute(first.severity.value)} message={_attribute(first.message)}>"
    return f"      {opening}{_text(lines)}</failure>"


def _needs(result: LintResult, code: str) -> str:
    return "not checked everywhere, for want of: " + ", ".join(result.skipped[code])


def _attribute(text: str) -> str:
    return f'"{escape(_printable(text))}"'


def _text(text: str) -> str:
    return escape(_printable(text), quote=False)


def _printable(text: str) -> str:
    # XML 1.0 has no form for most control characters and for surrogates.
    return "".join(
        c if c in "\t\n" or c.isprintable() or (ord(c) > 0x9F and not 0xD800 <= ord(c) < 0xE000) else "?" for c in text
    )
