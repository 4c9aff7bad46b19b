"""Findings of the problems that readers of files met."""

from collections.abc import Iterable, Iterator, Mapping

from kafkakit.core.findings import Finding, fingerprint_of
from kafkakit.core.printable import printable
from kafkakit.lint.decide.pieces import FileProblem
from kafkakit.rules.effective import Anchor
from kafkakit.rules.engine import Checked
from kafkakit.rules.rule import LintRule


def check_problems(problems: Iterable[FileProblem], rules: Mapping[str, LintRule]) -> Iterator[Checked]:
    """Each problem as a finding of its rule, where that rule is among `rules` (by code)."""
    for problem in problems:
        rule = rules.get(problem.rule)
        if rule is None:
            continue
        where = printable(f"file {problem.place.path}")
        yield Checked(
            Finding(
                rule=rule.code,
                name=rule.name,
                severity=rule.severity,
                message=printable(problem.message),
                where=where,
                hint="",
                fingerprint=fingerprint_of(rule.code, where, problem.key or "", ""),
                place=problem.place,
            ),
            rule,
            problem.edits,
            anchor=Anchor(problem.key, problem.place) if problem.key is not None else None,
        )
