"""Linting of texts in memory: examples of rules' pages, and files of tests."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from datetime import date

from kafkakit.lint.decide.acceptance import decode_baseline
from kafkakit.lint.decide.decision import LintRequest, lint
from kafkakit.lint.decide.files import read_text
from kafkakit.lint.decide.pieces import AssemblyOptions, assemble
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.engine import CheckOutcome
from kafkakit.rules.rule import Limits, LintRule
from kafkakit.rules.subjects import Estate

EXAMPLE_FILE = "example.yaml"
BASELINE_FILE = "lint-baseline.json"
TODAY = date(2026, 11, 1)
_PART = re.compile(r"^(Why|Source|Options|Bad|Good):[ \t]*", re.MULTILINE)
_FILE = re.compile(r"^--- (\S+)\n", re.MULTILINE)


def estate_of(texts: Mapping[str, str], options: AssemblyOptions | None = None) -> Estate:
    """The estate of some files."""
    readings = [read_text(path, text, is_named=True) for path, text in texts.items()]
    return assemble([reading.pieces for reading in readings], options or AssemblyOptions())


def outcome_of(
    texts: Mapping[str, str],
    *,
    rules: Sequence[LintRule] | None = None,
    limits: Limits | None = None,
    options: AssemblyOptions | None = None,
) -> CheckOutcome:
    """What all rules, or the given ones, find in some files, each given by its name."""
    readings = [read_text(path, text, is_named=True) for path, text in texts.items() if path != BASELINE_FILE]
    baseline = decode_baseline(texts[BASELINE_FILE].encode(), BASELINE_FILE) if BASELINE_FILE in texts else None
    request = LintRequest(
        rules=tuple(all_rules() if rules is None else rules),
        known=all_rules(),
        assemble=options or AssemblyOptions(),
        today=TODAY,
        limits=limits or Limits(),
        baseline=baseline,
        baseline_path=BASELINE_FILE,
    )
    result = lint(readings, [], request).result
    return CheckOutcome(checked=result.checked, skipped=result.skipped)


def codes_of(outcome: CheckOutcome) -> set[str]:
    """The codes of the rules that found something."""
    return {checked.rule.code for checked in outcome.checked}


def page_parts(page: str) -> dict[str, str]:
    """The parts of a rule's page by their titles, dedented; the first sentence is the part `""`."""
    text = textwrap.dedent("    " + page) if not page.startswith(("\n", " ")) else textwrap.dedent(page)
    pieces = _PART.split(text)
    return {"": pieces[0].strip()} | {
        title: textwrap.dedent(body).strip("\n") for title, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def files_of(example: str) -> dict[str, str]:
    """The files of an example: what stands before the first `--- path` line is a file of the kind `kafkakit`."""
    pieces = _FILE.split(example + "\n")
    named = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return {EXAMPLE_FILE: pieces[0], **named} if pieces[0].strip() else named
