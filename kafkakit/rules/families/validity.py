"""V: rules of single keys and values: what brokers refuse, ignore or read otherwise than it was meant."""

from functools import lru_cache
from typing import NamedTuple

from kafkakit.core.quantities import counted, format_rough_time
from kafkakit.rules.broker_checks import CHECKED, broker_problem
from kafkakit.rules.config_defs import Scope, ValueType
from kafkakit.rules.declared import SetValue, base_key, definition_of, set_values
from kafkakit.rules.effective import to_int
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Edit,
    Fix,
    Limits,
    Violation,
    Violations,
    config_rule,
    topic_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic
from kafkakit.rules.values import accepted, duplicates, parsed, range_problem, type_problem
from kafkakit.rules.versions import added_in, is_plugin_key, is_zookeeper_key, nearest_key, removed_in

SECONDS_A_DAY = 86_400
MAX_DAYS = 90
SMALL_BYTES = 10_000
MEBIBYTE = 2**20


@config_rule("KKV001", ERROR, CORE, fix=Fix.UNSAFE)
def unknown_config_key(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A key is none of Kafka's: brokers refuse it on a topic and ignore it in their own configuration.

    A topic's key is an error, a broker's a warning: a plugin may read it. Keys with the prefix of a listener are
    looked up without it; prefixes of plugins in wide use are left alone.

    Why: a broker only logs a key that it does not know, so a typo leaves the default in force: with
    log.retention.hour=24 data is kept for 168 h.
    Source: `LogConfig.validateNames`; `AbstractConfig.logUnused`.

    Bad:
        topics:
          - {name: orders, config: {retention.msec: "86400000"}}

    Good:
        topics:
          - {name: orders, config: {retention.ms: "86400000"}}
    """
    del limits
    for value, unknown in set_values(subject, cluster, _unknown):
        is_topic = isinstance(subject, LintTopic)
        effect = "brokers refuse it" if is_topic else "brokers only log it and go on without it"
        meant = f"; {unknown.nearest} was probably meant" if unknown.nearest is not None else ""
        renamed = (Edit(value.key, rename=unknown.nearest),) if unknown.nearest and value.key == value.base else ()
        yield value.violation(
            f"{value.key!r:.80} is no {unknown.what}: {effect}{meant}",
            severity=None if is_topic else WARNING,
            refused=is_topic,
            expected=unknown.nearest,
            edits=renamed,
        )


class _Unknown(NamedTuple):
    what: str
    nearest: str | None


@lru_cache(2**14)
def _unknown(scope: Scope, minor: str, key: str, text: str) -> _Unknown | None:
    del text
    base = key if scope is Scope.TOPIC else base_key(key)
    if definition_of(scope, minor, key) is not None or removed_in(scope, base, minor) is not None:
        return None
    if scope is Scope.BROKER and (is_plugin_key(base) or is_zookeeper_key(base)):
        return None
    later = added_in(scope, base)
    what = f"{scope.value} configuration of Kafka {minor}"
    if later is not None:
        return _Unknown(f"{what}, but of {later}", None)
    return _Unknown(what, nearest_key(scope, base, minor))


@config_rule("KKV002", ERROR, CORE)
def wrong_type(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A value is not of its key's type, such as "7d" for a number of milliseconds.

    Why: Kafka's numbers have no units and its booleans are true and false: a topic with such a value is refused, and
    a broker with it does not start.
    Source: `ConfigDef.parseType`.

    Bad:
        topics:
          - {name: orders, config: {retention.ms: 7d}}

    Good:
        topics:
          - {name: orders, config: {retention.ms: "604800000"}}
    """
    del limits
    for value, problem in set_values(subject, cluster, _wrong_type):
        if not value.is_ignored:
            yield value.violation(f"{value.key}{value.shown} is {problem}: {_effect(value)}", refused=True)


@lru_cache(2**16)
def _wrong_type(scope: Scope, minor: str, key: str, text: str) -> str | None:
    definition = definition_of(scope, minor, key)
    return None if definition is None else type_problem(definition, text)


@config_rule("KKV003", ERROR, CORE)
def out_of_range(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A value is outside of what its key accepts in this version.

    Why: a topic with such a value is refused, and a broker with it does not start; segment.bytes=1000, for one, was
    accepted up to Kafka 4.0, and 4.1 wants 1 MiB at least.
    Source: the validators of `LogConfig` and `AbstractKafkaConfig`; `KafkaConfig.validateValues`.

    Bad:
        version: "4.1"
        topics:
          - {name: orders, config: {segment.bytes: "1000"}}

    Good:
        version: "4.1"
        topics:
          - {name: orders, config: {segment.bytes: "104857600"}}
    """
    del limits
    for value, problem in set_values(subject, cluster, _out_of_range):
        if value.is_ignored:
            continue
        expected = accepted(value.definition) if value.definition is not None else ""
        yield value.violation(
            f"{value.key}{value.shown} {problem}: {_effect(value)}", refused=True, expected=expected or None
        )
    if isinstance(subject, LintBroker):
        for value, _ in set_values(subject, cluster, _has_cross_check):
            further = broker_problem(subject, value)
            if further is not None:
                yield value.violation(f"{value.key}{value.shown} {further}: {_effect(value)}", refused=True)


@lru_cache(2**16)
def _out_of_range(scope: Scope, minor: str, key: str, text: str) -> str | None:
    definition = definition_of(scope, minor, key)
    return None if definition is None else range_problem(definition, text)


def _has_cross_check(scope: Scope, minor: str, key: str, text: str) -> bool | None:
    del scope, minor, text
    return True if base_key(key) in CHECKED else None


@config_rule("KKV012", WARNING, STRICT, fix=Fix.SAFE)
def duplicate_list_item(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A list has an item twice.

    Why: since Kafka 4.2 brokers drop the second item with a warning and refuse it in dynamic configuration; before,
    they kept both.
    Source: KIP-1161; `ConfigDef.ValidList`.

    Bad:
        topics:
          - {name: orders, config: {cleanup.policy: "compact,delete,compact"}}

    Good:
        topics:
          - {name: orders, config: {cleanup.policy: "compact,delete"}}
    """
    del limits
    for value, items in set_values(subject, cluster, _repeated):
        once = ",".join(dict.fromkeys(items))
        checked = value.definition is not None and "no-duplicates" in value.definition.rules
        refused = checked and value.is_dynamic
        yield value.violation(
            f"{value.key} lists {', '.join(duplicates(items))} more than once"
            + (": brokers refuse the change" if refused else ""),
            severity=ERROR if refused else None,
            refused=refused,
            expected=once,
            edits=(Edit(value.key, once, is_safe=True),),
        )


@lru_cache(2**14)
def _repeated(scope: Scope, minor: str, key: str, text: str) -> tuple[str, ...] | None:
    if "," not in text:
        return None
    definition = definition_of(scope, minor, key)
    if definition is None or definition.type is not ValueType.LIST:
        return None
    items = parsed(ValueType.LIST, text).value
    return items if isinstance(items, tuple) and duplicates(items) else None


@config_rule("KKV013", WARNING, CORE, fix=Fix.UNSAFE)
def suspicious_unit(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A value looks as if it were written in another unit: whole days in seconds for milliseconds, kilobytes for bytes.

    Why: 604800 is 7 days in seconds; as retention.ms it keeps data for 10 minutes.
    Source: Kafka documentation: keys that end in .ms are milliseconds, keys that end in .bytes bytes.

    Bad:
        topics:
          - {name: orders, config: {retention.ms: "604800"}}

    Good:
        topics:
          - {name: orders, config: {retention.ms: "604800000"}}
    """
    del limits
    for value, suspicion in set_values(subject, cluster, _suspicion):
        yield value.violation(
            f"{value.key} is {suspicion.what}",
            expected=suspicion.wanted,
            edits=(Edit(value.key, suspicion.wanted),) if suspicion.wanted is not None else (),
        )


class _Suspicion(NamedTuple):
    what: str
    wanted: str | None


@lru_cache(2**16)
def _suspicion(scope: Scope, minor: str, key: str, text: str) -> _Suspicion | None:
    if not key.endswith((".ms", ".bytes")):
        return None
    definition, number = definition_of(scope, minor, key), to_int(text)
    if definition is None or number is None or number <= 0:
        return None
    days, rest = divmod(number, SECONDS_A_DAY)
    if key.endswith(".ms"):
        if rest != 0 or not 1 <= days <= MAX_DAYS:
            return None
        what = (
            f"{number} ms, which is {format_rough_time(number / 1000)}; in seconds it would be {counted(days, 'day')}"
        )
        return _Suspicion(what, str(number * 1000))
    default = to_int(definition.default or "") or 0
    if number >= SMALL_BYTES or default < MEBIBYTE:
        return None
    return _Suspicion(f"{number} bytes, where Kafka's default is {default}: a unit may have been lost", None)


@topic_rule("KKV009", NOTE, STRICT, fix=Fix.UNSAFE)
def redundant_override(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic sets a value that it would inherit anyway.

    Why: the override hides what is meant for this topic only, and keeps it from following a change of the brokers'
    default.
    Source: `DescribeConfigs`, whose synonyms list both values.

    Bad:
        config: {log.retention.hours: "24"}
        brokers: [{id: 1}]
        topics:
          - {name: orders, config: {retention.ms: "86400000"}}

    Good:
        config: {log.retention.hours: "24"}
        brokers: [{id: 1}]
        topics:
          - {name: orders, config: {retention.ms: "172800000"}}
    """
    del limits
    if not topic.config.overrides:
        return
    inherited = topic.config.without_overrides()
    topic.config.broker.given()
    for key, declared in topic.config.overrides.items():
        definition = topic.config.broker.table.topic.get(key)
        if definition is None:
            continue
        before = inherited.value(key)
        if before.text == declared.text or parsed(definition.type, before.text) == parsed(
            definition.type, declared.text
        ):
            yield Violation(
                message=f"{key} is {declared.text}, as it would be without the override ({before.source.value})",
                key=key,
                edits=(Edit(key),),
            )


def _effect(value: SetValue) -> str:
    if value.definition is not None and value.definition.scope is Scope.TOPIC:
        return "brokers refuse the topic"
    return "brokers refuse the change" if value.is_dynamic else "the broker does not start"
