"""Rules as pure functions: a decorator gives each its code, severity, inputs and fix; the docstring is its page.

    @topic_rule("KKR202", WARNING, CORE, fix=Fix.UNSAFE)
    def roll_slower_than_retention(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
        '''A segment may stay open for longer than the topic keeps its data.

        Why: a record is deleted with its segment, and a segment that is not rolled ...
        Source: Kafka, `LogSegment.shouldRoll`.

        Bad:
            topics:
              - name: orders
                config: {retention.ms: "86400000"}

        Good:
            ...
        '''

The name of a rule is that of its function with hyphens; the decorated name is bound to the `LintRule`. Examples are
documents of the kind `kafkakit` (see `docs/lint.md`), and the tests lint them. A rule returns violations of one setting
or subject, each with the edits of files that end it.
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import TypedDict, Unpack

from kafkakit.core.findings import Place, Severity
from kafkakit.rules.subjects import LintBroker, LintConnector, LintTopic

__all__ = (
    "CORE", "ERROR", "NOTE", "STRICT", "WARNING", "Edit", "Fix", "Limits", "LintRule", "Needs", "Subject", "Violation",
    "Violations", "agent_rule", "broker_rule", "cluster_rule", "config_rule", "connector_rule", "estate_rule",
    "file_rule", "set_to", "topic_rule",
)  # fmt: skip
"""Packages that bring rules import from here (docs/lint.md)."""

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
CORE, STRICT = True, False


class Needs(StrEnum):
    """What a rule looks at beyond declared configuration."""

    FILE = "files"
    LIVE = "live cluster"
    METRICS = "metrics"
    SEGMENTS = "segment audit"
    HOST = "host limits"
    PLAN = "a change to compare with"


class Fix(StrEnum):
    """Whether a rule's findings can be fixed by editing files: `safe` keeps the effective configuration."""

    NONE = "none"
    SAFE = "safe"
    UNSAFE = "unsafe"


class Subject(StrEnum):
    """What a rule is called with."""

    TOPIC = "topic"
    BROKER = "broker"
    CONFIG = "configuration"
    """Topics and brokers alike."""
    CLUSTER = "cluster"
    AGENT = "agent"
    CONNECTOR = "connector"
    ESTATE = "estate"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Thresholds that an organisation may set, with the defaults of the rules' pages."""

    overshoot_ratio: float = 0.5
    target_replication_factor: int = 3
    min_isr_margin: int = 1
    freshness_s: float = 86_400.0
    partitions_per_broker: int = 4_000
    large_message_bytes: int = 10 * 2**20
    consumer_memory_bytes: int = 256 * 2**20
    consumer_fetch_bytes: int = 52_428_800
    consumer_partition_fetch_bytes: int = 2**20
    receive_message_bytes: int = 100_000_000
    recovery_s: float = 7_200.0
    recovery_bytes_s: float = 100e6
    """The throttle for replacing a broker, where the brokers have none set."""
    timestamp_skew_s: float = 3_600.0
    stale_override_days: float = 30.0
    strict: bool = False
    """Report what only the profile `strict` reports."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one key where it is written: `value` None deletes the key, `rename` gives it another name."""

    key: str
    value: str | None = None
    rename: str | None = None
    is_safe: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """What a rule holds against its subject.

    The message has the computed numbers and is one sentence without a final point. `key` is the setting it is about;
    without `place` the finding stands at that key, or at the subject. `severity` and `hint` replace the rule's own.
    `subject` tells several violations of one rule and key at one subject apart. `about` is the topic, broker or
    connector that a rule over a whole cluster or estate holds it against. `refused` says that brokers of its version
    do not accept the configuration, or do not start with it.
    """

    message: str
    key: str | None = None
    _: KW_ONLY
    place: Place | None = None
    observed: str | None = None
    expected: str | None = None
    severity: Severity | None = None
    hint: str = ""
    edits: tuple[Edit, ...] = ()
    subject: str = ""
    where: str | None = None
    about: LintTopic | LintBroker | LintConnector | None = None
    refused: bool = False


Violations = Iterator[Violation]


@dataclass(frozen=True, slots=True)
class LintRule:
    """One rule: what identifies it, when it runs, and the function that checks one subject.

    A finding about the topics that a broker's defaults make stands at the key that it is about, or else at the first of
    `of_defaults` that the broker sets. Rules are asked about defaults if their codes begin as `OF_DEFAULTS` of
    `engine.py` says; a broker's `log.X` is then `X` of a topic.
    """

    code: str
    name: str
    severity: Severity
    subject: Subject
    is_core: bool
    needs: tuple[Needs, ...]
    fix: Fix
    check: Callable[..., Violations] = field(compare=False)
    of_defaults: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """The rule's documentation: the docstring of its function."""
        return self.check.__doc__ or ""

    @property
    def family(self) -> str:
        """The letter of the code, with the prefix: `KKR`."""
        return self.code[:3]


def _rule(subject: Subject) -> Callable[..., Callable[[Callable[..., Violations]], LintRule]]:
    def decorate(
        code: str,
        severity: Severity,
        is_core: bool,
        *needs: Needs,
        fix: Fix = Fix.NONE,
        of_defaults: tuple[str, ...] = (),
    ) -> Callable[[Callable[..., Violations]], LintRule]:
        def make(check: Callable[..., Violations]) -> LintRule:
            name = check.__name__.replace("_", "-")
            found_in = needs or (Needs.FILE,)
            return LintRule(code, name, severity, subject, is_core, found_in, fix, check, of_defaults)

        return make

    return decorate


topic_rule = _rule(Subject.TOPIC)
"""For `check(topic: LintTopic, cluster: LintCluster, limits: Limits)`."""
broker_rule = _rule(Subject.BROKER)
"""For `check(broker: LintBroker, cluster: LintCluster, limits: Limits)`."""
config_rule = _rule(Subject.CONFIG)
"""For `check(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits)`."""
cluster_rule = _rule(Subject.CLUSTER)
"""For `check(cluster: LintCluster, limits: Limits)`."""
agent_rule = _rule(Subject.AGENT)
"""For `check(agent: LintAgent, limits: Limits)`."""
connector_rule = _rule(Subject.CONNECTOR)
"""For `check(connector: LintConnector, limits: Limits)`."""
estate_rule = _rule(Subject.ESTATE)
"""For `check(estate: Estate, limits: Limits)`."""
file_rule = _rule(Subject.FILE)
"""For rules that the reader of files carries out itself; `check` is not called."""


class _ViolationFields(TypedDict, total=False):
    observed: str
    severity: Severity | None
    subject: str
    about: LintTopic | LintBroker | LintConnector | None
    where: str


def set_to(key: str, value: str, message: str, **others: Unpack[_ViolationFields]) -> Violation:
    """A violation that goes away when `key` is set to `value`: what is expected, and the edit that makes it so."""
    return Violation(message, key, expected=value, edits=(Edit(key, value),), **others)
