"""The lint configuration, `kafkakit-lint.yaml`: what a repository selects, accepts and adds, with reasons."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from kafkakit.core.errors import InputError
from kafkakit.core.findings import FailOn, Place, Severity
from kafkakit.lint.decide.documents.tree import Document, Node, Scalar
from kafkakit.lint.decide.documents.tree import Mapping as Tree
from kafkakit.lint.decide.pieces import FileProblem
from kafkakit.lint.decide.selection import LIMITS_OF, RuleSet, fits, suggestion
from kafkakit.lint.decide.templates import TemplateRule, template_rule
from kafkakit.rules.rule import Limits, LintRule

NAME = "kafkakit-lint.yaml"
UNKNOWN_RULE = "KKL004"


class LintSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The file as written; `ignore` and `select` name rules by code, prefix or name, `ignore` with a reason each."""

    kafkakit: str = "lint"
    rules: RuleSet | None = None
    select: tuple[str, ...] = ()
    ignore: dict[str, str] = {}
    severity: dict[str, Severity] = {}
    limits: dict[str, float] = {}
    per_file_ignores: dict[str, tuple[str, ...]] = {}
    kafka_version: str | None = None
    target_version: str | None = None
    env: str | None = None
    baseline: str | None = None
    docs_url: str = ""
    fail_on: FailOn | None = None
    organisation_rules: tuple[TemplateRule, ...] = ()
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintConfig:
    """A configuration that can be used: selectors that fit no rule are left out and became `problems`.

    `rules` are all that exist, with those of the organisation.
    """

    settings: LintSettings
    rules: tuple[LintRule, ...]
    problems: tuple[FileProblem, ...] = ()
    path: str | None = None

    def limits(self, rule_set: RuleSet) -> Limits:
        """The thresholds of a set of rules, with those of this configuration."""
        base = LIMITS_OF[rule_set]
        return replace(base, **{name: type(getattr(base, name))(value) for name, value in self.settings.limits.items()})

    def severities(self) -> Mapping[str, Severity]:
        """Severities by code."""
        return {
            rule.code: severity
            for selector, severity in self.settings.severity.items()
            for rule in self.rules
            if fits(rule, selector)
        }


def read_lint_config(
    document: Document | None,
    rules: Sequence[LintRule],
    load_plugins: Callable[[Sequence[str]], Sequence[LintRule]],
) -> LintConfig:
    """Read a configuration; without a document the empty one. `load_plugins` finds the rules of packages by name.

    Raises `InputError` for what cannot be used. A rule that does not exist only becomes a problem, so that an older
    file does not stop a newer program.
    """
    if document is None:
        return LintConfig(settings=LintSettings(), rules=tuple(rules))
    if document.problems:
        first = document.problems[0]
        raise InputError(f"{document.path}:{document.place(first.at).line}", first.message)
    try:
        given = msgspec.convert(_plain(document.roots[0]) if document.roots else {}, LintSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(document.path, " ".join(str(error).split())) from None
    own = tuple(template_rule(rule, document.path) for rule in given.organisation_rules)
    known = (*rules, *load_plugins(given.plugins), *own)
    twice = (
        {rule.code for rule in known if [r.code for r in known].count(rule.code) > 1}
        if len(known) > len(rules)
        else set()
    )
    if twice:
        raise InputError(document.path, f"two rules have the code {min(twice)}")
    wrong = set(given.limits) - {f.name for f in fields(Limits)}
    if wrong:
        names = ", ".join(f.name for f in fields(Limits))
        raise InputError(document.path, f"there is no limit {min(wrong)!r:.60}", hint=f"limits are {names}")
    return _without_unknown(document, given, known)


def _without_unknown(document: Document, given: LintSettings, rules: tuple[LintRule, ...]) -> LintConfig:
    named = [
        *given.select,
        *given.ignore,
        *given.severity,
        *(s for group in given.per_file_ignores.values() for s in group),
    ]
    unknown = {selector for selector in named if not any(fits(rule, selector) for rule in rules)}
    settings = msgspec.structs.replace(
        given,
        select=tuple(s for s in given.select if s not in unknown),
        ignore={s: why for s, why in given.ignore.items() if s not in unknown},
        severity={s: severity for s, severity in given.severity.items() if s not in unknown},
        per_file_ignores={
            glob: tuple(s for s in group if s not in unknown) for glob, group in given.per_file_ignores.items()
        },
    )
    problems = [
        FileProblem(
            rule=UNKNOWN_RULE,
            message=f"no rule fits {selector!r:.60}{suggestion(rules, selector)}",
            place=_place_of(document, selector),
            key=selector,
        )
        for selector in sorted(unknown)
    ]
    return LintConfig(settings=settings, rules=rules, problems=tuple(problems), path=document.path)


def _place_of(document: Document, text: str) -> Place:
    queue: list[Node] = list(document.roots)
    while queue:
        node = queue.pop()
        if isinstance(node, Tree):
            for entry in node.entries.values():
                if entry.key.text == text:
                    return document.place(entry.key.start)
                queue.append(entry.value)
        elif isinstance(node, Scalar):
            if node.text == text:
                return document.place(node.start)
        else:
            queue += node.items
    return Place(document.path, 1)


def _plain(node: Node) -> Any:
    if isinstance(node, Scalar):
        return None if node.is_null else node.text
    if isinstance(node, Tree):
        return {name: _plain(entry.value) for name, entry in node.entries.items()}
    return [_plain(item) for item in node.items]
