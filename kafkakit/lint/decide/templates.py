"""Rules of an organisation, made from templates in the lint configuration: no code, the same findings.

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kafkakit.core.errors import InputError
from kafkakit.core.findings import Severity
from kafkakit.rules.effective import BrokerConfig, TopicConfig, to_int
from kafkakit.rules.rule import Fix, Limits, LintRule, Needs, Subject, Violation, Violations
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic

_CODE = re.compile(r"[A-Z]{2,8}\d{3}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_PATTERN = 500


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
            yield from _judged(given, judge, topic.config)

    def check_broker(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
        del cluster, limits
        yield from _judged(given, judge, broker.config)

    about = given.message or f"{given.key} must satisfy the template {given.template}"
    check = check_topic if given.subject == "topic" else check_broker
    check.__doc__ = f"{about}\n\nWhy: a rule of this organisation.\nSource: {source}."
    return LintRule(
        given.code, given.name, Severity(given.severity), Subject(given.subject), True, (Needs.FILE,), Fix.NONE, check
    )


def _judged(given: TemplateRule, judge: _Judge, config: _Config) -> Iterator[Violation]:
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


def _required(given: TemplateRule, config: _Config) -> str | None:
    return None if any(key == given.key for key, _ in config.all_declared()) else f"{given.key} is not set"


def _forbidden(given: TemplateRule, config: _Config) -> str | None:
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
    "required": (("key",), _required),
    "forbidden": (("key",), _forbidden),
    "ratio": (("key", "peer"), _ratio),
    "equals-peer": (("key", "peer"), _equals_peer),
}
