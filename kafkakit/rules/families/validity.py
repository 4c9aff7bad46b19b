"""V: rules of single keys and values: what brokers refuse, ignore or read otherwise than it was meant.

Also names of topics, and files' own mistakes.
"""

from collections.abc import Iterator

from kafkakit.core.findings import shorten
from kafkakit.rules.config_defs import KeyScope
from kafkakit.rules.effective import DeclaredValue, InputMissing, TopicConfig
from kafkakit.rules.judging import SetValue, broker_problem, judge_values
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
    cluster_rule,
    config_rule,
    file_rule,
    topic_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic
from kafkakit.rules.values import describe_accepted, duplicates, holds_placeholder, parse_value


@config_rule("KKV001", ERROR, CORE, fix=Fix.UNSAFE)
def unknown_config_key(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A key is not one of Kafka's: brokers refuse it on a topic and ignore it in their own configuration.

    A topic's key is an error, a broker's a warning: a plugin may read it. Keys with the prefix of a listener are
    looked up without it; prefixes of widely used plugins are accepted.

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
    for value, verdict in judge_values(subject, cluster):
        unknown = verdict.unknown
        if unknown is None:
            continue
        is_topic = isinstance(subject, LintTopic)
        effect = "brokers refuse it" if is_topic else "brokers only log it and run without it"
        meant = f"; {unknown.nearest} was probably meant" if unknown.nearest is not None else ""
        renamed = (Edit(value.key, rename=unknown.nearest),) if unknown.nearest and value.key == value.base else ()
        yield value.violation(
            f"{value.key!r:.80} is not {unknown.what}: {effect}{meant}",
            severity=None if is_topic else WARNING,
            refused=is_topic,
            expected=unknown.nearest,
            edits=renamed,
        )


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
    for value, verdict in judge_values(subject, cluster):
        if verdict.wrong_type is not None and not value.is_ignored:
            yield value.violation(f"{value.key}{value.shown} is {verdict.wrong_type}: {_effect(value)}", refused=True)


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
    for value, verdict in judge_values(subject, cluster):
        problem = verdict.out_of_range
        if problem is None and verdict.is_broker_checked and isinstance(subject, LintBroker):
            problem = broker_problem(subject, value)
        if problem is not None and not value.is_ignored:
            expected = describe_accepted(value.definition) if value.definition is not None else ""
            yield value.violation(
                f"{value.key}{value.shown} {problem}: {_effect(value)}", refused=True, expected=expected or None
            )


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
    for value, verdict in judge_values(subject, cluster):
        items = verdict.repeated
        if not items:
            continue
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
    for value, verdict in judge_values(subject, cluster):
        suspicion = verdict.suspicion
        if suspicion is None:
            continue
        yield value.violation(
            f"{value.key} is {suspicion.what}",
            expected=suspicion.wanted,
            edits=(Edit(value.key, suspicion.wanted),) if suspicion.wanted is not None else (),
        )


@topic_rule("KKV009", NOTE, STRICT, fix=Fix.UNSAFE)
def redundant_override(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic sets values that it would inherit anyway; one finding names all of a topic.

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
    if not topic.config.overrides:
        return
    inherited = topic.config.without_overrides()
    if not topic.config.broker.is_known:
        raise InputMissing("broker configuration")
    same = [key for key, declared in topic.config.overrides.items() if _is_same(topic, inherited, key, declared)]
    if same:
        yield Violation(
            message=f"{shorten(same)} {'is' if len(same) == 1 else 'are'} set to what the topic would inherit anyway",
            key=same[0],
            edits=tuple(Edit(key) for key in same),
        )


def _is_same(topic: LintTopic, inherited: TopicConfig, key: str, declared: DeclaredValue) -> bool:
    definition = topic.config.broker.table.topic.get(key)
    if definition is None:
        return False
    before = inherited.value(key).text
    return before == declared.text or parse_value(definition.type, before) == parse_value(
        definition.type, declared.text
    )


def _effect(value: SetValue) -> str:
    if value.definition is not None and value.definition.scope is KeyScope.TOPIC:
        return "brokers refuse the topic"
    return "brokers refuse the change" if value.is_dynamic else "the broker does not start"


_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST = 249


@file_rule("KKV011", ERROR, CORE, fix=Fix.SAFE)
def duplicate_key() -> Violations:
    """A key stands twice in one file; the safe fix deletes one of two equal values.

    Why: in a properties file the last one wins in silence, and in YAML and JSON each program takes another.
    Source: `java.util.Properties.load`; the YAML specification, which forbids it.

    Bad:
        topics:
          - name: orders
            config:
              retention.ms: "86400000"
              retention.ms: "604800000"

    Good:
        topics:
          - name: orders
            config:
              retention.ms: "86400000"
    """
    yield from ()


@topic_rule("KKV015", ERROR, CORE)
def illegal_topic_name(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic has a name that Kafka does not allow.

    Why: brokers refuse to create it: names are 1 to 249 letters, digits, dots, underscores and hyphens, but not
    just . or ..
    Source: `org.apache.kafka.common.internals.Topic.validate`.

    Bad:
        topics:
          - {name: "orders:v1"}

    Good:
        topics:
          - {name: orders.v1}
    """
    # What a template fills in is not known: its marks are not part of the name.
    problem = name_problem(topic.name) if not holds_placeholder(topic.name) else None
    if problem is not None:
        yield Violation(message=f"the name {topic.name!r:.80} {problem}: brokers refuse the topic", refused=True)


def name_problem(name: str) -> str | None:
    """Why a topic cannot have this name, or None."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is a folder's"
    if len(name) > _LONGEST:
        return f"has {len(name)} characters, more than {_LONGEST}"
    wrong = sorted(set(name) - _LEGAL)
    return f"has {wrong[0]!r}, but only letters, digits, '.', '_' and '-' are allowed" if wrong else None


@cluster_rule("KKV016", ERROR, STRICT)
def colliding_topic_names(cluster: LintCluster, limits: Limits) -> Violations:
    """Two topics differ only in dots and underscores.

    Why: both have one name in metrics, where dots become underscores, so brokers refuse to create the second one.
    Source: `Topic.hasCollision`; `ReplicationControlManager.validateNewTopicNames`.

    Bad:
        topics:
          - {name: orders.v1}
          - {name: orders_v1}

    Good:
        topics:
          - {name: orders.v1}
          - {name: orders.v2}
    """
    for first, second in _collisions(cluster.topics):
        yield Violation(
            message=f"topics {first.name} and {second.name} share one name in metrics: brokers refuse the second one",
            about=second,
            subject=first.name,
            refused=True,
        )


def _collisions(topics: tuple[LintTopic, ...]) -> Iterator[tuple[LintTopic, LintTopic]]:
    seen: dict[str, LintTopic] = {}
    for topic in sorted(topics, key=lambda topic: topic.name):
        first = seen.setdefault(topic.name.replace(".", "_"), topic)
        if first.name != topic.name:
            yield first, topic


@file_rule("KKV014", NOTE, STRICT)
def value_comment_mismatch() -> Violations:
    """A comment beside a time or a size says another value than the key has.

    Why: people read the comment, brokers the number.
    Source: the idea is that of tflint-ruleset-kafka-config, which requires such comments.

    Bad:
        topics:
          - name: orders
            config:
              retention.ms: "86400000"  # 7 days

    Good:
        topics:
          - name: orders
            config:
              retention.ms: "604800000"  # 7 days
    """
    yield from ()
