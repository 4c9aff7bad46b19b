"""One rule on one file in a line: how often it fires, or that it is skipped, for nothing is assumed."""

from collections.abc import Mapping

from kafkakit.core.findings import Finding
from kafkakit.lint.decide.pieces import AssemblyOptions
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.rule import Limits, LintRule
from tests.rigs.lint_examples import EXAMPLE_FILE, outcome_of

SKIPPED = "skipped"


def rule_of(code: str) -> LintRule:
    """The rule of a code."""
    return next(rule for rule in all_rules() if rule.code == code)


def findings(
    code: str, text: str | Mapping[str, str], limits: Limits | None = None, target: str | None = None
) -> tuple[Finding, ...]:
    """What one rule finds in a file, or in files by their names; fails where it is skipped."""
    files = {EXAMPLE_FILE: text} if isinstance(text, str) else text
    options = AssemblyOptions(target_version=target, assume_defaults=False)
    found = outcome_of(files, rules=[rule_of(code)], limits=limits, options=options)
    assert not found.skipped, found.skipped
    return tuple(c.finding for c in found.checked)


def verdict(code: str, text: str | Mapping[str, str], limits: Limits | None = None) -> int | str:
    """How many findings a rule has, or `skipped` where it could not check a subject."""
    files = {EXAMPLE_FILE: text} if isinstance(text, str) else text
    found = outcome_of(files, rules=[rule_of(code)], limits=limits, options=AssemblyOptions(assume_defaults=False))
    return SKIPPED if found.skipped else len(found.checked)


def marks(code: str, text: str, limits: Limits | None = None, target: str | None = None) -> str:
    """The first letters of the severities of a rule's findings in a file, or `skipped`."""
    options = AssemblyOptions(target_version=target, assume_defaults=False)
    found = outcome_of({EXAMPLE_FILE: text}, rules=[rule_of(code)], limits=limits, options=options)
    return SKIPPED if found.skipped else "".join(sorted(c.finding.severity.value[0].upper() for c in found.checked))
