"""The proof that a fix is safe: what the edited files configure is compared with what they configured before.

Nothing is taken from the rules that proposed the edits. Every subject of the run is compared, since an edit may reach
several of them (anchors, merges, one node for several topics) or what topics inherit. A value counts as dead where
Kafka does not read it: a coarser form beside a finer one, retention of a topic that is only compacted, a key that the
cluster's version no longer has. Beside those only the keys that a finding names may differ, at the subject that it
names. If no file tells the version, nothing is dead because of it.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from functools import cache
from itertools import zip_longest

from kafkakit.core.findings import Finding
from kafkakit.rules.config_defs import MINORS, ConfigDef, Scope, ValueType, config_table, is_zookeeper_key, removed_in
from kafkakit.rules.effective import TIME_FORMS, BrokerConfig, Configs, TopicConfig, to_items
from kafkakit.rules.judging import base_key
from kafkakit.rules.subjects import Estate, LintAgent, LintBroker, LintCluster, LintConnector, LintTopic
from kafkakit.rules.values import holds_placeholder

Named = Collection[tuple[str, str]]
"""Subjects, as findings name them, with the keys that may differ there."""

_CONFIGURED = frozenset({"config", "settings", "groups", "places", "cluster", "judged"})
_RETENTION = ("retention.ms", "retention.bytes")
_FORMS = (
    *(tuple(form for form, _ in forms) for key, forms in TIME_FORMS.items() if key != "log.flush.interval.ms"),
    ("log.dirs", "log.dir"),
)


def subjects_named(finding: Finding) -> Iterator[str]:
    """The subjects of a finding, each as a finding of its own would name it."""
    if not finding.subjects:
        yield finding.where
        return
    _, of, cluster = finding.where.partition(" of ")
    yield from (f"{name}{of}{cluster}" for name in finding.subjects)


def is_same_configuration(before: Estate, after: Estate, named: Named) -> bool:
    """True when all subjects are configured as before, but for dead values and the named keys.

    Linear in the subjects and in the keys that they set.
    """
    pairs = (
        *zip_longest(before.agents, after.agents),
        *zip_longest(before.connectors, after.connectors),
    )
    return (
        len(before.clusters) == len(after.clusters)
        and all(_is_same_cluster(*pair, named) for pair in zip(before.clusters, after.clusters, strict=True))
        and all(_is_same_settings(one, other, named) for one, other in pairs)
    )


def _is_same_cluster(before: LintCluster, after: LintCluster, named: Named) -> bool:
    if before.table is not after.table or before.is_version_known != after.is_version_known:
        return False
    if len(before.brokers) != len(after.brokers) or len(before.topics) != len(after.topics):
        return False
    brokers = zip(before.brokers, after.brokers, strict=True)
    topics = zip(before.topics, after.topics, strict=True)
    others = {"brokers", "topics"}
    return (
        _identity(before, others) == _identity(after, others)
        and all(_is_same_broker(one, other, before, named) for one, other in brokers)
        and all(_is_same_topic(one, other, before, named) for one, other in topics)
    )


def _identity(subject: object, others: Collection[str] = ()) -> tuple[object, ...]:
    """What a subject is, beside its configuration and its places."""
    return tuple(
        getattr(subject, field.name)
        for field in fields(subject)  # type: ignore[arg-type]  # every subject is a dataclass
        if field.compare and not field.name.endswith("place") and field.name not in {*_CONFIGURED, *others}
    )


def _is_same_broker(before: LintBroker, after: LintBroker, cluster: LintCluster, named: Named) -> bool:
    if _identity(before) != _identity(after) or before.config.is_known != after.config.is_known:
        return False
    layers = zip(_layers(before.config), _layers(after.config), strict=True)
    touched = {key for one, other in layers for key in _touched(one, other)}
    wanted = touched | {forms[0] for forms in _FORMS if not touched.isdisjoint(forms)}
    where = cluster.within(before.where)
    for key in wanted:
        old, new = _broker_value(before.config, cluster, key), _broker_value(after.config, cluster, key)
        if old != new and not _is_named(cluster, Scope.BROKER, (where, key), before.config.declared(key), named):
            return False
    return True


def _is_same_topic(before: LintTopic, after: LintTopic, cluster: LintCluster, named: Named) -> bool:
    if _identity(before) != _identity(after):
        return False
    wanted = set(_touched(before.config.overrides, after.config.overrides))
    inherited = zip(_layers(before.config.broker), _layers(after.config.broker), strict=True)
    if any(True for one, other in inherited for _ in _touched(one, other)):
        wanted |= cluster.table.topic.keys()
    where = cluster.within(before.where)
    for key in wanted:
        old, new = _topic_value(before, cluster, key), _topic_value(after, cluster, key)
        if old != new and not _is_named(cluster, Scope.TOPIC, (where, key), before.config.overrides.get(key), named):
            return False
    return True


def _layers(config: BrokerConfig) -> tuple[Configs, Configs, Configs]:
    return config.static, config.dynamic_default, config.dynamic


def _touched(before: Configs, after: Configs) -> Iterator[str]:
    """The keys that one side lacks, or has with another text."""
    if before is after:
        return
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key)
        if old is None or new is None or old.text != new.text:
            yield key


Value = str | tuple[str, ...] | None


def _broker_value(config: BrokerConfig, cluster: LintCluster, key: str) -> Value:
    """The value of a broker key as Kafka reads it; None for a dead one."""
    for forms in _FORMS:
        finer = forms[: forms.index(key)] if key in forms else ()
        if any(_is_certain(config, form) for form in finer):
            return None
    definition = cluster.table.broker.get(base_key(key))
    if definition is None and _is_gone(cluster, Scope.BROKER, key):
        return None
    if definition is None or key != definition.name:  # with the prefix of a listener there is no default
        declared = config.declared(key)
        return None if declared is None else _read(definition, declared.text)
    return _read(definition, config.text(key))


def _is_certain(config: BrokerConfig, key: str) -> bool:
    declared = config.declared(key)
    return declared is not None and bool(declared.text.strip()) and not holds_placeholder(declared.text)


def _topic_value(topic: LintTopic, cluster: LintCluster, key: str) -> Value:
    definition = cluster.table.topic.get(key)
    if definition is None and _is_gone(cluster, Scope.TOPIC, key):
        return None
    if key in _RETENTION and topic.config.is_sure("cleanup.policy") and topic.policies == ("compact",):
        return None
    if definition is None:
        declared = topic.config.overrides.get(key)
        return None if declared is None else declared.text
    return _read(definition, _text_of(topic.config, key))


def _text_of(config: TopicConfig, key: str) -> str:
    # What a broker's file would say of a key that the topic sets is not known where there is no such file.
    return config.text(key) if config.is_sure(key) else f"{config.text(key)} unless brokers set it"


def _read(definition: ConfigDef | None, text: str) -> Value:
    return tuple(dict.fromkeys(to_items(text))) if definition and definition.type is ValueType.LIST else text


def _is_gone(cluster: LintCluster, scope: Scope, key: str) -> bool:
    if not cluster.is_version_known:
        return False
    base = base_key(key) if scope is Scope.BROKER else key
    minor = cluster.table.version
    without_zookeeper = scope is Scope.BROKER and is_zookeeper_key(base) and minor not in ("3.9",)
    return without_zookeeper or removed_in(scope, base, minor) is not None


def _is_named(cluster: LintCluster, scope: Scope, subject: tuple[str, str], declared: object, named: Named) -> bool:
    """True for a key that a finding names, unless it was the default's text that went, or the version is assumed."""
    if subject not in named or any(subject[1] in forms for forms in _FORMS):
        return False  # of forms of one setting it is known which is dead
    key = base_key(subject[1]) if scope is Scope.BROKER else subject[1]
    definition = cluster.table.find(scope, key)
    text = getattr(declared, "text", None)
    if definition is not None and text is not None and definition.default == text.strip():
        return False  # it went for being the default, which something else replaces
    return cluster.is_version_known or _is_alike_in_all(scope, key)


@cache
def _is_alike_in_all(scope: Scope, key: str) -> bool:
    """True when every version has the key, with one default."""
    found = [config_table(minor).find(scope, key) for minor in MINORS]
    return None not in found and len({d.default for d in found if d is not None}) == 1


def _is_same_settings(
    before: LintAgent | LintConnector | None, after: LintAgent | LintConnector | None, named: Named
) -> bool:
    if before is None or after is None or type(before) is not type(after) or _identity(before) != _identity(after):
        return False
    where = before.where
    old, new = _texts(before), _texts(after)
    changed = {key for key in {**old, **new} if old.get(key) != new.get(key)}
    if isinstance(before, LintAgent) and isinstance(after, LintAgent) and before.groups != after.groups:
        changed.discard("consumer_groups")
        if not _is_named_in_groups(before, after, where, named):
            return False
    return all((where, key) in named for key in changed)


def _texts(subject: LintAgent | LintConnector) -> Mapping[str, str]:
    values = subject.settings if isinstance(subject, LintAgent) else subject.config
    return {key: declared.text for key, declared in values.items()}


def _is_named_in_groups(before: LintAgent, after: LintAgent, where: str, named: Named) -> bool:
    """True when what left the listed groups is what findings name: the whole list, groups, or topics."""
    if (where, "consumer_groups") in named:
        return True
    old, new = _paths(before), _paths(after)
    return new.items() <= old.items() and all(
        any((where, name) in named for name in path) for path in old.keys() - new.keys()
    )


def _paths(agent: LintAgent) -> dict[tuple[str, ...], tuple[int, ...]]:
    groups = agent.groups or {}
    found: dict[tuple[str, ...], tuple[int, ...]] = {(group,): () for group in groups}
    return found | {(group, name): parts for group, topics in groups.items() for name, parts in topics.items()}
