"""What rules find: violations of one setting or subject, and the edits of files that end them."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TypedDict, Unpack

from kafkakit.core.findings import Place, Severity
from kafkakit.rules.subjects import LintBroker, LintConnector, LintTopic


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


class _Others(TypedDict, total=False):
    observed: str
    severity: Severity | None
    subject: str
    about: LintTopic | LintBroker | LintConnector | None
    where: str


def set_to(key: str, value: str, message: str, **others: Unpack[_Others]) -> Violation:
    """A violation that goes away when `key` is set to `value`: what is expected, and the edit that makes it so."""
    return Violation(message, key, expected=value, edits=(Edit(key, value),), **others)
