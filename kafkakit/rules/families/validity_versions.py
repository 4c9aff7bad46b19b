"""V: rules of keys and values that another version of Kafka reads otherwise."""

from collections.abc import Iterator

from kafkakit.core.findings import Severity
from kafkakit.rules.config_defs import ConfigDef, KeyScope, UpdateMode, default_changes, keeps_form, replacements
from kafkakit.rules.effective import TIME_FORMS, BrokerConfig, InputMissing
from kafkakit.rules.judging import DYNAMIC, SetValue, base_key, definition_of, judge_values, own_values, table_of
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    WARNING,
    Edit,
    Fix,
    Limits,
    Violation,
    Violations,
    broker_rule,
    cluster_rule,
    config_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic
from kafkakit.rules.values import describe_accepted, is_reference


@config_rule("KKV004", ERROR, CORE, fix=Fix.SAFE)
def removed_key(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A key no longer exists in the version that the cluster runs or is to be upgraded to.

    A key that is dead already is deleted by the safe fix; one that works until the upgrade is renamed if another
    took its place. Keys of ZooKeeper mode have a rule of their own.

    Why: brokers refuse a topic with such a key and ignore it in their own configuration, although it looks as if it
    still worked: Kafka 4.0 removed 42.
    Source: the upgrade notes of Kafka 3.0 and 4.0; KIP-724, KIP-937.

    Bad:
        version: "4.0"
        topics:
          - {name: orders, config: {message.timestamp.difference.max.ms: "3600000"}}

    Good:
        version: "4.0"
        topics:
          - {name: orders, config: {message.timestamp.before.max.ms: "3600000"}}
    """
    for value, verdict in judge_values(subject, cluster):
        gone = verdict.removed_in
        if gone is None:
            continue
        is_dead = value.definition is None
        instead = tuple(key for key in replacements(value.key) if definition_of(*_newest_table(subject, cluster), key))
        is_refused = is_dead and isinstance(subject, LintTopic)
        effect = "brokers refuse it" if is_refused else "brokers ignore it"
        effect = effect if is_dead else "it stops working with the upgrade"
        if is_dead and not cluster.is_version_known:
            effect = f"if the cluster runs {gone} or later, {effect}"
        advice = f"; {' and '.join(instead)} took its place" if instead else ""
        yield value.violation(
            f"{value.key} was removed in Kafka {gone}: {effect}{advice}",
            severity=None if cluster.is_version_known or not is_dead else WARNING,
            refused=is_refused and cluster.is_version_known,
            expected=instead[0] if instead else None,
            edits=_removal(value, instead, is_dead),
        )


def _newest_table(subject: LintTopic | LintBroker, cluster: LintCluster) -> tuple[KeyScope, str]:
    table = cluster.target or table_of(subject)
    return (KeyScope.TOPIC if isinstance(subject, LintTopic) else KeyScope.BROKER), table.version


def _removal(value: SetValue, instead: tuple[str, ...], is_dead: bool) -> tuple[Edit, ...]:
    if is_dead:
        return (Edit(value.key, is_safe=True),)
    if not keeps_form(value.key):
        return ()
    if not instead:
        return (Edit(value.key),)
    first, *others = instead
    return (
        *(Edit(other, value.text, is_safe=True) for other in others),
        Edit(value.key, rename=first, is_safe=True),
    )


@config_rule("KKV005", WARNING, CORE, fix=Fix.UNSAFE)
def deprecated_key(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A key is deprecated in the version that the cluster runs or is to be upgraded to.

    Why: Kafka removes deprecated keys with the next major version, and brokers ignore a removed key in silence.
    Source: the documentation of the key in that version, as its `ConfigDef` has it.

    Bad:
        version: "4.3"
        config: {log.cleaner.enable: "true"}
        brokers: [{id: 1}]

    Good:
        version: "4.3"
        config: {log.cleaner.threads: "2"}
        brokers: [{id: 1}]
    """
    for value, verdict in judge_values(subject, cluster):
        version = verdict.deprecated_in
        if version is None:
            continue
        instead = replacements(value.key)
        is_default = value.definition is not None and value.definition.default == value.text.strip()
        is_set = bool(instead) and isinstance(subject, LintBroker) and subject.config.declared(instead[0]) is not None
        renamed = Edit(value.key, rename=instead[0] if instead and not is_set else None)
        edit = Edit(value.key, is_safe=True) if is_default else renamed
        has_edit = is_default or (bool(instead) and (is_set or keeps_form(value.key)))
        yield value.violation(
            f"{value.key} is deprecated in Kafka {version}" + (f": {instead[0]} takes its place" if instead else ""),
            expected=instead[0] if instead else None,
            edits=(edit,) if has_edit else (),
        )


@config_rule("KKV006", ERROR, CORE, fix=Fix.UNSAFE)
def range_tightened_on_upgrade(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A value that brokers accept now is refused by the version to upgrade to.

    Why: a broker does not start with it after the upgrade, and a topic can no longer be changed: log.segment.bytes
    below 1 MiB is refused from 4.0 on, segment.bytes from 4.1 on.
    Source: KIP-1030; the `ConfigDef`s of both versions.

    Bad:
        version: "3.9"
        target_version: "4.1"
        topics:
          - {name: orders, config: {segment.bytes: "1000"}}

    Good:
        version: "3.9"
        target_version: "4.1"
        topics:
          - {name: orders, config: {segment.bytes: "1048576"}}
    """
    for value, verdict in judge_values(subject, cluster):
        if verdict.refused_later is None:
            continue
        then = definition_of(*_newest_table(subject, cluster), value.key)
        least = _least_text(then)
        effect = "the topic can no longer be changed" if isinstance(subject, LintTopic) else "the broker does not start"
        yield value.violation(
            f"{value.key}{value.shown} {verdict.refused_later} in Kafka {_newest_table(subject, cluster)[1]}: {effect} "
            "after the upgrade",
            expected=describe_accepted(then) if then is not None else None,
            edits=(Edit(value.key, least),) if least is not None else (),
        )


def _least_text(definition: ConfigDef | None) -> str | None:
    return None if definition is None or definition.minimum is None else str(int(definition.minimum))


@cluster_rule("KKV007", NOTE, CORE)
def default_changed_on_upgrade(cluster: LintCluster, limits: Limits) -> Violations:
    """A key that no broker sets has another default in the version to upgrade to.

    Why: the upgrade changes what the cluster does although no file changes: from 4.0 on, records more than 1 h in
    the future are rejected. Keys of tiered storage are left out if it is off.
    Source: KIP-1030; the `ConfigDef`s of both versions.

    Bad:
        version: "3.9"
        target_version: "4.0"
        brokers: [{id: 1, config: {log.dirs: /data}}]

    Good:
        version: "3.9"
        target_version: "4.0"
        brokers:
          - id: 1
            config:
              log.message.timestamp.after.max.ms: "3600000"
              num.recovery.threads.per.data.dir: "2"
              group.coordinator.rebalance.protocols: classic
              group.coordinator.append.linger.ms: "10"
              group.coordinator.threads: "1"
              group.consumer.migration.policy: disabled
    """
    if cluster.target is None or cluster.target.version == cluster.table.version:
        return
    changes = default_changes(cluster.table.version, cluster.target.version)
    if changes and not any(broker.config.is_known for broker in cluster.data_brokers):
        raise InputMissing("broker configuration")
    tiers = any(broker.config.is_true("remote.log.storage.system.enable") for broker in cluster.data_brokers)
    for change in changes:
        if change.key.startswith("remote.") and not tiers:
            continue
        unset = [b for b in cluster.data_brokers if not _is_set(b.config, change.key)]
        if unset:
            some = (
                ""
                if len(unset) == len(cluster.data_brokers)
                else f" on {len(unset)} of {len(cluster.data_brokers)} brokers"
            )
            before, after = change.before or "empty", change.after or "empty"
            yield Violation(
                message=f"{change.key} is not set{some}: its default changes from {before} to {after} in Kafka "
                f"{change.since}",
                key=change.key,
                observed=before,
                expected=after,
            )


def _is_set(config: BrokerConfig, key: str) -> bool:
    forms = TIME_FORMS.get(key, ((key, 1),))
    return any(config.declared(form) is not None for form, _ in forms)


# Keys of which the first that is set counts; flush intervals are not among them: both forms are in use.
_SHADOWING = (
    *(tuple(form for form, _ in forms) for key, forms in TIME_FORMS.items() if key != "log.flush.interval.ms"),
    ("log.dirs", "log.dir"),
)


@broker_rule("KKV008", WARNING, CORE, fix=Fix.SAFE)
def shadowed_synonym(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Two forms of one setting are set in one place, of which only the finer one counts.

    Why: whoever changes log.retention.hours while log.retention.ms is set changes nothing.
    Source: `KafkaConfig.logRetentionTimeMillis`; `ServerTopicConfigSynonyms`.

    Bad:
        brokers:
          - {id: 1, config: {log.retention.ms: "86400000", log.retention.hours: "168"}}

    Good:
        brokers:
          - {id: 1, config: {log.retention.ms: "86400000"}}
    """
    layer = broker.config.static
    shared = cluster.brokers[0].config.static if cluster.brokers and cluster.brokers[0] is not broker else {}
    for forms in _SHADOWING:
        strongest, *others = [form for form in forms if form in layer] or [""]
        for dead in others:
            declared = layer[dead]
            if declared.place is None or shared.get(dead) != declared:
                yield Violation(
                    message=f"{dead} is {declared.text}, but {strongest} is set to {layer[strongest].text} "
                    "and overrides it",
                    key=dead,
                    place=declared.place,
                    observed=declared.text,
                    edits=(Edit(dead, is_safe=True),),
                )


# Kafka, `SslConfigs.RECONFIGURABLE_CONFIGS`: dynamic with the prefix of a listener only.
_SECURITY = frozenset(
    {
        "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password",
        "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
        "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.truststore.certificates",
    }
)  # fmt: skip
_DYNAMIC_ONLY = frozenset(
    {
        "leader.replication.throttled.rate", "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)  # fmt: skip
_CONTROLLER_KEYS = ("create.topic.policy.class.name", "alter.config.policy.class.name")
_CONTROLLER_KEYS_4_3 = ("num.partitions", "default.replication.factor")
_OF_CONTROLLERS = frozenset({*_CONTROLLER_KEYS, *_CONTROLLER_KEYS_4_3})
_OF_LISTENERS_CLUSTER_WIDE = ("max.connections", "max.connection.creation.rate", "num.network.threads")


@broker_rule("KKV010", ERROR, CORE)
def wrong_scope(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A key is set in a place where brokers refuse or ignore it.

    Read-only keys and TLS keys without the prefix of a listener are refused in dynamic configuration, keys of single
    brokers are refused as the cluster's default. Keys that exist only dynamically are ignored in a file, and keys of
    controllers on a node that is not a controller, unless controllers share the file.

    Why: the value that the file shows is not in force.
    Source: `DynamicBrokerConfig.validateConfigs`; `KafkaConfig.validateValues` (warnings of Kafka 4.3).

    Bad:
        defaults: {log.retention.hours: "24"}
        brokers: [{id: 1}]

    Good:
        defaults: {log.retention.ms: "86400000"}
        brokers: [{id: 1}]
    """
    for value in _placed_values(broker, cluster):
        problem = _scope_problem(broker, value, cluster)
        if problem is not None and not _is_for_controllers(value, cluster):
            severity, text = problem
            yield value.violation(f"{value.key} {text}", severity=severity, refused=severity is ERROR)


def _is_for_controllers(value: SetValue, cluster: LintCluster) -> bool:
    """True for a key of controllers in a file that brokers share with them."""
    if value.is_dynamic or value.key not in _OF_CONTROLLERS or value.declared.place is None:
        return False
    nodes = (node for node in cluster.brokers if "controller" in node.roles)
    return any(node.config.static.get(value.key) == value.declared for node in nodes)


def _placed_values(broker: LintBroker, cluster: LintCluster) -> Iterator[SetValue]:
    """The values whose place may be wrong: all dynamic ones, and few keys of the broker's file."""
    table = broker.config.table.broker
    for key, declared in own_values(broker, cluster):
        if declared.source in DYNAMIC or key in _OF_CONTROLLERS or key in _DYNAMIC_ONLY:
            base = base_key(key)
            yield SetValue(key, base, declared, table.get(base))


def _scope_problem(broker: LintBroker, value: SetValue, cluster: LintCluster) -> tuple[Severity, str] | None:
    definition = value.definition
    if definition is None:
        return None
    if not value.is_dynamic:
        return _static_problem(broker, value.key, cluster)
    is_prefixed = value.key != value.base
    if not is_prefixed and definition.update_mode is UpdateMode.READ_ONLY:
        return ERROR, "is read-only: brokers refuse it in dynamic configuration"
    if value.key in _SECURITY:
        return (
            ERROR,
            f"is dynamic for one listener only: brokers refuse it without a prefix (listener.name.NAME.{value.key})",
        )
    is_of_broker = definition.update_mode is UpdateMode.PER_BROKER or is_prefixed
    is_default = value.declared in broker.config.dynamic_default.values()
    if is_of_broker and is_default and value.base not in _OF_LISTENERS_CLUSTER_WIDE:
        return ERROR, "can only be set per broker: brokers refuse it as the cluster default"
    return None


def _static_problem(broker: LintBroker, key: str, cluster: LintCluster) -> tuple[Severity, str] | None:
    if key in _DYNAMIC_ONLY:
        return WARNING, "exists in dynamic configuration only: brokers ignore it in their files"
    if "controller" in broker.roles or not _knows_roles(broker, cluster):
        return None
    if key in _CONTROLLER_KEYS:
        return WARNING, "is a key of controllers: a node that is only a broker ignores it"
    minor = broker.config.table.version
    if key in _CONTROLLER_KEYS_4_3 and (int(minor[0]), int(minor[2:])) >= (4, 3):
        return (
            WARNING,
            "is a key of controllers since Kafka 4.3: a node that is only a broker will ignore it in 5.0",
        )
    return None


def _knows_roles(broker: LintBroker, cluster: LintCluster) -> bool:
    """True where a node's roles are given, and not only those that nodes have where nothing is said."""
    roles = broker.config.declared("process.roles")
    if roles is not None:
        return not is_reference(roles.text)
    return any("controller" in b.roles for b in cluster.brokers)
