"""What is to be said of one value by itself, worked out once for each key and text of a version, not at every topic.

Ten thousand topics set the same few values: a rule about single values looks at the verdicts of its subject, of which
most have none.
"""

from functools import lru_cache
from typing import NamedTuple

from kafkakit.core.quantities import counted, format_span
from kafkakit.rules.broker_checks import CHECKED
from kafkakit.rules.config_defs import ConfigDef, Scope, ValueType
from kafkakit.rules.declared import SetValue, base_key, definition_of, own_values, table_of
from kafkakit.rules.effective import to_int
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic
from kafkakit.rules.values import duplicates, parsed, problem_of, range_problem, type_problem
from kafkakit.rules.versions import added_in, is_plugin_key, is_zookeeper_key, nearest_key, removed_in

SECONDS_A_DAY = 86_400
MAX_DAYS = 90
SMALL_BYTES = 10_000
MEBIBYTE = 2**20


class Unknown(NamedTuple):
    """A key that the version does not have: what it is not, and the key that was probably meant."""

    what: str
    nearest: str | None


class Suspicion(NamedTuple):
    """A value that looks as if it were in another unit, and what it would be."""

    what: str
    wanted: str | None


class Verdict(NamedTuple):
    """What rules of single values hold against a value; `is_broker_checked` where a broker compares it with others."""

    unknown: Unknown | None = None
    wrong_type: str | None = None
    out_of_range: str | None = None
    is_broker_checked: bool = False
    removed_in: str | None = None
    deprecated_in: str | None = None
    refused_later: str | None = None
    repeated: tuple[str, ...] = ()
    suspicion: Suspicion | None = None


_CLEAN = Verdict()
Judged = tuple[tuple[SetValue, Verdict], ...]


def judged(subject: LintTopic | LintBroker, cluster: LintCluster) -> Judged:
    """The values that are set at a topic or broker of which something is to be said, worked out once."""
    known = cluster.judged.get(id(subject))
    if known is None or known[0] is not subject:
        known = cluster.judged[id(subject)] = (subject, _judged(subject, cluster))
    found: Judged = known[1]
    return found


def _judged(subject: LintTopic | LintBroker, cluster: LintCluster) -> Judged:
    table = table_of(subject)
    minor, target = table.version, cluster.target.version if cluster.target is not None else table.version
    found = []
    if isinstance(subject, LintTopic):
        for key, declared in subject.config.overrides.items():
            verdict = judge(Scope.TOPIC, minor, target, key, declared.text)
            if verdict is not None:
                found.append((SetValue(key, key, declared, table.topic.get(key)), verdict))
    else:
        for key, declared in own_values(subject, cluster):
            verdict = judge(Scope.BROKER, minor, target, key, declared.text)
            if verdict is not None:
                base = base_key(key)
                found.append((SetValue(key, base, declared, table.broker.get(base)), verdict))
    return tuple(found)


@lru_cache(2**17)
def judge(scope: Scope, minor: str, target: str, key: str, text: str) -> Verdict | None:
    """The verdict on a value in a version and in the one to upgrade to; None when there is nothing to say."""
    base = key if scope is Scope.TOPIC else base_key(key)
    definition = definition_of(scope, minor, key)
    gone = None if scope is Scope.BROKER and is_zookeeper_key(base) else _gone(scope, minor, target, base)
    verdict = Verdict(removed_in=gone, deprecated_in=_deprecated(scope, minor, target, key) if gone is None else None)
    if definition is None:
        verdict = verdict._replace(unknown=_unknown(scope, minor, base) if gone is None else None)
    else:
        wrong = type_problem(definition, text)
        verdict = verdict._replace(
            wrong_type=wrong,
            out_of_range=range_problem(definition, text) if wrong is None else None,
            is_broker_checked=scope is Scope.BROKER and base in CHECKED,
            refused_later=_refused_later(definition, definition_of(scope, target, key), text),
            repeated=_repeated(definition, text),
            suspicion=_suspicion(definition, key, text),
        )
    return None if verdict == _CLEAN else verdict


def _gone(scope: Scope, minor: str, target: str, base: str) -> str | None:
    return removed_in(scope, base, minor) or removed_in(scope, base, target)


def _deprecated(scope: Scope, minor: str, target: str, key: str) -> str | None:
    for version in (minor, target):
        definition = definition_of(scope, version, key)
        if definition is not None and definition.deprecated:
            return version
    return None


def _unknown(scope: Scope, minor: str, base: str) -> Unknown | None:
    if scope is Scope.BROKER and (is_plugin_key(base) or is_zookeeper_key(base)):
        return None
    later = added_in(scope, base)
    what = f"{scope.value} configuration of Kafka {minor}"
    return Unknown(what, nearest_key(scope, base, minor)) if later is None else Unknown(f"{what}, but of {later}", None)


def _refused_later(now: ConfigDef, then: ConfigDef | None, text: str) -> str | None:
    if then is None or then is now or problem_of(now, text) is not None:
        return None
    return problem_of(then, text)


def _repeated(definition: ConfigDef, text: str) -> tuple[str, ...]:
    if definition.type is not ValueType.LIST or "," not in text:
        return ()
    items = parsed(ValueType.LIST, text).value
    return items if isinstance(items, tuple) and duplicates(items) else ()


def _suspicion(definition: ConfigDef, key: str, text: str) -> Suspicion | None:
    number = to_int(text) if key.endswith((".ms", ".bytes")) else None
    if number is None or number <= 0:
        return None
    if key.endswith(".ms"):
        days, rest = divmod(number, SECONDS_A_DAY)
        if rest != 0 or not 1 <= days <= MAX_DAYS:
            return None
        what = f"{number} ms, which is {format_span(number / 1000)}; in seconds it would be {counted(days, 'day')}"
        return Suspicion(what, str(number * 1000))
    default = to_int(definition.default or "") or 0
    if number >= SMALL_BYTES or default < MEBIBYTE:
        return None
    return Suspicion(f"{number} bytes, where Kafka's default is {default}: a unit may have been lost", None)
