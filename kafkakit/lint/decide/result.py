"""What a run of lint found, after suppressions and the baseline, and problems of files as findings."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkakit.core.findings import Finding, fingerprint_of
from kafkakit.core.text import printable
from kafkakit.lint.decide.pieces import FileProblem
from kafkakit.rules.effective import Anchor
from kafkakit.rules.engine import Checked
from kafkakit.rules.rule import Fix, LintRule


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """Findings to report, in the order of files; `rules` are those that were selected.

    `skipped` says for each code what was missing and how often; `suppressed` and `baselined` count findings that are
    accepted. `resources` counts what was linted, by kind. `docs_url` is where the pages of the rules are published.
    """

    checked: tuple[Checked, ...]
    rules: tuple[LintRule, ...]
    files: tuple[str, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    suppressed: int = 0
    baselined: int = 0
    docs_url: str = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings alone."""
        return tuple(c.finding for c in self.checked)


def fix_of(checked: Checked) -> Fix:
    """Whether this very finding can be fixed, and how safely."""
    if not checked.edits or checked.anchor is None:
        return Fix.NONE
    return Fix.SAFE if all(edit.is_safe for edit in checked.edits) else Fix.UNSAFE
