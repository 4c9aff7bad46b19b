"""The lint configuration, `kafkakit-lint.yaml`: what a repository selects, accepts and adds, with reasons.

Rules are selected by sets of rules, codes, prefixes of codes and names. Rules of an organisation are made from
templates, without code, and give the same findings as others:

    rules:
      - code: ORG001
        name: retention-at-most-a-week
        template: range
        key: retention.ms
        max: 604800000
        severity: error
        message: keep at most a week; ask the platform team for more
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum

import msgspec

from kafkakit.core.documents import decode_tree
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.findings import FailOn, Place, Severity
from kafkakit.core.yaml_json import Document, Node, Scalar
from kafkakit.core.yaml_json import Mapping as Tree
from kafkakit.lint.decide.pieces import FileProblem
from kafkakit.rules.effective import BrokerConfig, TopicConfig, to_int
from kafkakit.rules.rule import Fix, Limits, LintRule, Needs, Subject, Violation, Violations
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic

NAME = "kafkakit-lint.yaml"
UNKNOWN_RULE = "KKL004"


class RuleSet(StrEnum):
    """Ready sets of rules: `core` has no finding on a sound cluster, `strict` has all rules."""

    CORE = "core"
    STRICT = "strict"
    DATADOG_SCALE = "datadog-scale"


class AssumedDefaults(StrEnum):
    """What is taken for what no file tells of brokers."""

    DEFAULTS = "defaults"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRule:
    """One rule as configured; which fields a template needs is in `_TEMPLATES`."""

    code: str
    name: str
    template: str
    key: str
    subject: str = "topic"
    severity: str = "warning"
    message: str = ""
    min: float | None = None
    max: float | None = None
    values: tuple[str, ...] = ()
    pattern: str = ""
    peer: str = ""
    names: str = ""
    """A regular expression that limits the rule to topics of these names."""


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
    assume: AssumedDefaults | None = None
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
    document.require_sound()
    given = decode_tree(document, LintSettings, strict=False)
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


LIMITS_OF: dict[RuleSet, Limits] = {
    RuleSet.CORE: Limits(),
    RuleSet.STRICT: Limits(strict=True),
    # Segments of 12 h at a day's retention, many partitions a broker, as Datadog describes its clusters.
    RuleSet.DATADOG_SCALE: Limits(overshoot_ratio=0.51, partitions_per_broker=2_000, strict=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSelection:
    """What was asked for: `select` adds to the set or, on the command line, replaces it; `ignore` wins over both."""

    rule_set: RuleSet = RuleSet.CORE
    select: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def selected_rules(rules: Sequence[LintRule], selection: RuleSelection) -> tuple[LintRule, ...]:
    """The rules to run, by code; `UsageError` names a selector that fits no rule, with the nearest ones."""
    for selector in (*selection.select, *selection.extend, *selection.ignore):
        if not any(fits(rule, selector) for rule in rules):
            raise UsageError(
                f"no rule fits {selector!r:.60}{suggestion(rules, selector)}", hint="--list-rules names all"
            )
    chosen = [rule for rule in rules if _is_chosen(rule, selection)]
    return tuple(rule for rule in chosen if not any(fits(rule, selector) for selector in selection.ignore))


def fits(rule: LintRule, selector: str) -> bool:
    """True for the rule's code, its name, a prefix of its code with the family (`KKR`, `KKR2`), and `ALL`."""
    wanted = selector.strip()
    if wanted.lower() == rule.name or wanted.upper() == "ALL":
        return True
    return len(wanted) >= 3 and rule.code.startswith(wanted.upper())


def suggestion(rules: Iterable[LintRule], selector: str) -> str:
    """`; did you mean X?` for a mistyped code or name, else nothing."""
    from difflib import get_close_matches

    known = list(_names(rules))
    near = get_close_matches(selector.strip().lower(), known, n=1, cutoff=0.6)
    near = near or get_close_matches(selector.strip().upper(), known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def _names(rules: Iterable[LintRule]) -> Iterator[str]:
    for rule in rules:
        yield rule.code
        yield rule.name


def _is_chosen(rule: LintRule, selection: RuleSelection) -> bool:
    if selection.select:
        return any(fits(rule, selector) for selector in (*selection.select, *selection.extend))
    in_set = rule.is_core or selection.rule_set is not RuleSet.CORE
    return in_set or any(fits(rule, selector) for selector in selection.extend)


_CODE = re.compile(r"[A-Z]{2,8}\d{3}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_PATTERN = 500

_Config = TopicConfig | BrokerConfig
_Judge = Callable[[TemplateRule, _Config], str | None]


def template_rule(given: TemplateRule, source: str) -> LintRule:
    """The rule to run; `InputError` naming what is wrong with the configuration."""
    problem = _problem(given)
    if problem:
        raise InputError(source, f"rule {given.code!r:.40}: {problem}")
    judge = _TEMPLATES[given.template][1]
    only = re.compile(given.names) if given.names else None

    def check_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
        del cluster, limits
        if only is None or only.fullmatch(topic.name):
            yield from _judge_values(given, judge, topic.config)

    def check_broker(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
        del cluster, limits
        yield from _judge_values(given, judge, broker.config)

    about = given.message or f"{given.key} must satisfy the template {given.template}"
    check = check_topic if given.subject == "topic" else check_broker
    check.__doc__ = f"{about}\n\nWhy: a rule of this organisation.\nSource: {source}."
    return LintRule(
        given.code, given.name, Severity(given.severity), Subject(given.subject), True, (Needs.FILE,), Fix.NONE, check
    )


def _judge_values(given: TemplateRule, judge: _Judge, config: _Config) -> Iterator[Violation]:
    found = judge(given, config)
    if found is not None:
        yield Violation(message=f"{given.message}: {found}" if given.message else found, key=given.key)


def _problem(given: TemplateRule) -> str:
    if _CODE.fullmatch(given.code) is None or given.code.startswith("KK"):
        return "a code is 2 to 8 capital letters and 3 digits, and does not begin with KK"
    if _NAME.fullmatch(given.name) is None:
        return f"{given.name!r:.60} is not a name like retention-at-most-a-week"
    if given.template not in _TEMPLATES:
        return f"there is no template {given.template!r:.40}; known: {', '.join(_TEMPLATES)}"
    if given.subject not in (Subject.TOPIC.value, Subject.BROKER.value):
        return "subject must be topic or broker"
    if given.severity not in tuple(Severity):
        return f"severity must be one of {', '.join(Severity)}"
    missing = [field for field in _TEMPLATES[given.template][0] if getattr(given, field) in ("", (), None)]
    if given.template == "range" and given.min is None and given.max is None:
        missing = ["min or max"]
    if missing:
        return f"the template {given.template} needs {', '.join(missing)}"
    for pattern in (given.pattern, given.names):
        if len(pattern) > LONGEST_PATTERN:
            return f"a pattern may have {LONGEST_PATTERN} characters"
        try:
            re.compile(pattern)
        except re.error as error:
            return f"{pattern!r:.60} is not a regular expression: {error}"
    return ""


def _range(given: TemplateRule, config: _Config) -> str | None:
    number = to_int(config.text(given.key))
    if number is None:
        return None
    if given.min is not None and number < given.min:
        return f"{given.key} is {number}, below {given.min:g}"
    if given.max is not None and number > given.max:
        return f"{given.key} is {number}, above {given.max:g}"
    return None


def _one_of(given: TemplateRule, config: _Config) -> str | None:
    text = config.text(given.key)
    return None if text in given.values else f"{given.key} is {text!r:.80}, not one of {', '.join(given.values)}"


def _regex(given: TemplateRule, config: _Config) -> str | None:
    text = config.text(given.key)
    return None if re.fullmatch(given.pattern, text[:10_000]) else f"{given.key} is {text!r:.80}, not {given.pattern}"


def _check_required(given: TemplateRule, config: _Config) -> str | None:
    return None if any(key == given.key for key, _ in config.all_declared()) else f"{given.key} is not set"


def _check_forbidden(given: TemplateRule, config: _Config) -> str | None:
    return f"{given.key} is set" if any(key == given.key for key, _ in config.all_declared()) else None


def _ratio(given: TemplateRule, config: _Config) -> str | None:
    number, other = to_int(config.text(given.key)), to_int(config.text(given.peer))
    if number is None or not other or other < 0 or number < 0:
        return None
    if given.max is not None and number > given.max * other:
        return (
            f"{given.key} is {number}, {number / other:.3g} times {given.peer} ({other}); at most {given.max:g} times"
        )
    if given.min is not None and number < given.min * other:
        return (
            f"{given.key} is {number}, {number / other:.3g} times {given.peer} ({other}); at least {given.min:g} times"
        )
    return None


def _equals_peer(given: TemplateRule, config: _Config) -> str | None:
    text, other = config.text(given.key), config.text(given.peer)
    return None if text == other else f"{given.key} is {text!r:.80}, but {given.peer} is {other!r:.80}"


_TEMPLATES: Mapping[str, tuple[tuple[str, ...], _Judge]] = {
    "range": (("key",), _range),
    "one-of": (("key", "values"), _one_of),
    "regex": (("key", "pattern"), _regex),
    "required": (("key",), _check_required),
    "forbidden": (("key",), _check_forbidden),
    "ratio": (("key", "peer"), _ratio),
    "equals-peer": (("key", "peer"), _equals_peer),
}
