"""X: rules of drift between what is declared and what a cluster has."""

from collections.abc import Iterator, Mapping

from kafkakit.core.quantities import counted, format_span
from kafkakit.rules.drift_kinds import DriftKind, kind_of_drift, kind_of_partitions
from kafkakit.rules.effective import InputMissing
from kafkakit.rules.rule import CORE, NOTE, STRICT, WARNING, Limits, Needs, cluster_rule, topic_rule
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic
from kafkakit.rules.violation import Violation, Violations

DAY_S = 86_400.0
LIVE = "the live cluster"


@topic_rule("KKX001", WARNING, CORE, Needs.LIVE)
def baseline_drift(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic in the cluster has other settings than its file declares.

    Why: someone changed the cluster by hand, or the file was never applied; the next apply undoes one of them. Each
    difference is classed by what applying the file would do: `safe`, `unsafe` (records or writes may be lost),
    `unsupported` (the number of replicas, fewer partitions).
    Source: kafka-helmsman, topic enforcer.

    Bad:
        topics:
          - name: orders
            config: {retention.ms: "86400000"}
            observed: {current: {retention.ms: "604800000"}}
        observed: {live: true}

    Good:
        topics:
          - name: orders
            config: {retention.ms: "604800000"}
            observed: {current: {retention.ms: "604800000"}}
        observed: {live: true}
    """
    if not topic.is_declared:
        return  # KKX006
    if not cluster.is_live:
        raise InputMissing(LIVE)
    if topic.current is not None:
        yield from _key_drift(topic, topic.current)
    if topic.partition_facts is not None:
        yield from _shape_drift(topic)


@cluster_rule("KKX004", WARNING, STRICT, Needs.LIVE)
def stale_dynamic_override(cluster: LintCluster, limits: Limits) -> Violations:
    """A setting was made in the cluster long ago and is in no file.

    Why: most such overrides were made in an incident and were meant to be undone.
    Source: fleet audits.
    Options: stale_override_days (30).

    Bad:
        topics:
          - name: orders
            observed:
              current: {retention.ms: "3600000"}
              override_age_s: {retention.ms: 7776000.0}

    Good:
        topics:
          - name: orders
            config: {retention.ms: "3600000"}
            observed:
              current: {retention.ms: "3600000"}
              override_age_s: {retention.ms: 7776000.0}
    """
    found = False
    for topic in cluster.topics:
        ages = topic.facts.override_age_s
        if ages is None:
            continue
        found = True
        for key, age in sorted(ages.items()):
            is_own = topic.is_declared and key in topic.config.overrides and key not in topic.undeclared
            if age > DAY_S * limits.stale_override_days and not is_own:
                yield _stale(topic, key, age, (topic.current or {}).get(key))
    for broker in cluster.brokers:
        if broker.override_age_s is None:
            continue
        found = True
        for key, age in sorted(broker.override_age_s.items()):
            declared = broker.config.dynamic.get(key)
            if age > DAY_S * limits.stale_override_days and (declared is None or declared.place is None):
                yield _stale(broker, key, age, None)
    if not found:
        raise InputMissing("since when overrides are set")


@cluster_rule("KKX006", WARNING, CORE, Needs.LIVE)
def unmanaged_or_missing_topic(cluster: LintCluster, limits: Limits) -> Violations:
    """A declared topic is not in the cluster, or a topic of the cluster is in no file (a note).

    Why: a missing topic is created by the first producer with the brokers' defaults, where these create topics; an
    unmanaged one has settings that no review has seen.
    Source: kafka-gitops, topicctl.

    Bad:
        topics: [{name: orders}]
        observed: {live: true}

    Good:
        topics: [{name: orders, observed: {partitions: [{partition: 0, replicas: [1]}]}}]
        observed: {live: true}
    """
    if not cluster.is_live:
        raise InputMissing(LIVE)
    declared = any(t.is_declared for t in cluster.topics)
    for topic in cluster.topics:
        if topic.is_declared and topic.partition_facts is None:
            yield Violation("the topic is declared, but not in the cluster", about=topic, subject="missing")
    unmanaged = [t for t in cluster.topics if not t.is_declared and not t.is_internal] if declared else []
    for topic in unmanaged:
        yield Violation("the topic is in the cluster, but in no file", about=topic, severity=NOTE, subject="unmanaged")


def _key_drift(topic: LintTopic, live: Mapping[str, str]) -> Iterator[Violation]:
    for key, declared in topic.config.overrides.items():
        if key in topic.undeclared:
            yield Violation(
                message=f"{key} is {declared.text} in the cluster, but not in the file",
                key=key,
                observed=declared.text,
                place=topic.place,
            )
            continue
        found = live.get(key)
        if found == declared.text:
            continue
        kind, risk = kind_of_drift(key, found if found is not None else "", declared.text)
        yield Violation(
            message=f"{key} is {declared.text} in the file and {found if found is not None else 'not set'} in the "
            f"cluster; {_applying(kind, risk)}",
            key=key,
            observed=found,
            expected=declared.text,
        )


def _shape_drift(topic: LintTopic) -> Iterator[Violation]:
    facts = topic.partition_facts or ()
    if topic.partitions is not None and topic.partitions != len(facts):
        kind, risk = kind_of_partitions(len(facts), topic.partitions)
        yield Violation(
            message=f"{counted(topic.partitions, 'partition')} in the file, {len(facts)} in the cluster; "
            f"{_applying(kind, risk)}",
            subject="partitions",
        )
    replicas = sorted({len(p.replicas) for p in facts})
    if topic.replication_factor is not None and replicas and replicas != [topic.replication_factor]:
        live = " and ".join(map(str, replicas))
        yield Violation(
            message=f"{counted(topic.replication_factor, 'replica')} in the file, {live} in the cluster; "
            f"{_applying(DriftKind.UNSUPPORTED, 'replicas are moved by a reassignment')}",
            hint="plan it with `kafkakit topicmappr set-replication`",
            subject="replication factor",
        )


def _applying(kind: DriftKind, risk: str) -> str:
    if kind is DriftKind.SAFE:
        return "applying the file is safe"
    return f"applying the file is {kind.value}: {risk}"


def _stale(about: LintTopic | LintBroker, key: str, age_s: float, value: str | None) -> Violation:
    return Violation(
        message=f"{key} was set {format_span(age_s)} ago and is in no file",
        key=key,
        observed=value,
        about=about,
        hint="declare it, or delete it from the cluster",
    )
