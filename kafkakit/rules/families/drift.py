"""X: rules of drift between what is declared and what a cluster has, and between brokers and clusters."""

from collections import Counter
from collections.abc import Iterator, Mapping

from kafkakit.core.findings import shown
from kafkakit.core.quantities import counted, format_rough_time
from kafkakit.rules.config_defs import MINORS, minor_of
from kafkakit.rules.drift_kinds import DriftKind, kind_of_drift, kind_of_partitions
from kafkakit.rules.effective import InputMissing, Source, TopicConfig
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Limits,
    Needs,
    Violation,
    Violations,
    cluster_rule,
    estate_rule,
    topic_rule,
)
from kafkakit.rules.subjects import Estate, LintCluster, LintTopic, known

DAY_S = 86_400.0
LIVE = "the live cluster"
SHARE_OF_PEERS = 0.95
LEAST_PEERS = 3
LONGEST_SKEW_DAYS = 7.0
LARGEST_TAIL = 2
MIRROR_OF = "mirror:"
"""The label of a mirror, before the name of the cluster that it mirrors."""
ALWAYS_OWN = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
UNIFORM = (
    "authorizer.class.name", "auto.create.topics.enable", "compression.type", "default.replication.factor",
    "delete.topic.enable", "group.max.session.timeout.ms", "group.max.size", "group.min.session.timeout.ms",
    "inter.broker.listener.name", "log.cleaner.enable", "log.cleanup.policy", "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms", "log.message.timestamp.type", "log.retention.bytes", "log.retention.ms",
    "log.roll.ms", "log.segment.bytes", "message.max.bytes", "num.partitions", "offset.metadata.max.bytes",
    "offsets.retention.minutes", "offsets.topic.num.partitions", "offsets.topic.replication.factor",
    "remote.log.storage.system.enable", "replica.fetch.max.bytes", "replica.lag.time.max.ms",
    "replica.selector.class", "sasl.enabled.mechanisms", "socket.request.max.bytes", "super.users",
    "transaction.max.timeout.ms", "transaction.state.log.min.isr", "transaction.state.log.num.partitions",
    "transactional.id.expiration.ms", "unclean.leader.election.enable",
)  # fmt: skip
"""Broker keys that must have one value in a cluster (min.insync.replicas has KKD110)."""


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
    del limits
    if topic.place is None:
        return  # not declared: KKX006
    if not cluster.is_live:
        raise InputMissing(LIVE)
    if topic.current is not None:
        yield from _key_drift(topic, topic.current)
    if topic.partition_facts is not None:
        yield from _shape_drift(topic)


@cluster_rule("KKX002", WARNING, CORE, Needs.LIVE)
def peer_outlier(cluster: LintCluster, limits: Limits) -> Violations:
    """A setting differs from that of nearly all clusters with the same label.

    Why: where 95 % of the peers agree, the other value is more often forgotten than meant. At least 3 peers are needed.
    Source: fleet audits; majority as baseline.

    Bad:
        config: {log.retention.ms: "86400000"}
        brokers: [{id: 1}]
        observed: {peers: {log.retention.ms: ["604800000", "604800000", "604800000"]}}

    Good:
        config: {log.retention.ms: "604800000"}
        brokers: [{id: 1}]
        observed: {peers: {log.retention.ms: ["604800000", "604800000", "604800000"]}}
    """
    del limits
    peers = known(cluster.peers, "clusters of the same label")
    config = cluster.reference_broker().given()
    topic = TopicConfig({}, config)
    for key, values in sorted(peers.items()):
        if len(values) < LEAST_PEERS:
            continue
        usual, number = Counter(values).most_common(1)[0]
        found = config.value(key) if key in config.table.broker else topic.value(key)
        if number / len(values) < SHARE_OF_PEERS or found.text == usual:
            continue
        yield Violation(
            message=f"{key} is {found.text or 'not set'} here and {usual or 'not set'} in {number} of "
            f"{counted(len(values), 'peer')}",
            key=key,
            observed=found.text,
            expected=usual,
            place=found.place,
        )


@cluster_rule("KKX003", ERROR, CORE, Needs.LIVE)
def intra_cluster_heterogeneity(cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers of one cluster have different values of a setting that must be the same on all.

    Why: what a topic gets depends on the broker that leads it, so a failover changes retention, limits or
    permissions. min.insync.replicas has a rule of its own (KKD110).
    Source: Kafka documentation, "Updating broker configs" (cluster-wide keys).

    Bad:
        brokers:
          - {id: 1, config: {message.max.bytes: "1048588"}}
          - {id: 2, config: {message.max.bytes: "2097152"}}

    Good:
        brokers:
          - {id: 1, config: {message.max.bytes: "2097152"}}
          - {id: 2, config: {message.max.bytes: "2097152"}}
    """
    del limits
    brokers = cluster.data_brokers
    seen = [b for b in brokers if b.config.is_known]
    if len(seen) < 2:
        if sum(b.count for b in brokers) > 1 and not seen:
            raise InputMissing("broker configuration")
        return
    for key in UNIFORM:
        values = [b.config.value(key) for b in seen]
        texts = Counter(v.text for v in values)
        # Defaults that differ are those of two versions: KKX007.
        if len(texts) < 2 or all(v.source is Source.DEFAULT for v in values):
            continue
        usual = texts.most_common(1)[0][0]
        odd = [(b, v) for b, v in zip(seen, values, strict=True) if v.text != usual]
        yield Violation(
            message=f"{key} is {usual or 'not set'} on {counted(texts[usual], 'broker')}, but "
            + shown([f"{v.text or 'not set'} on {b.where}" for b, v in odd]),
            key=key,
            place=odd[0][1].place or odd[0][0].place,
        )


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
            declared = topic.config.overrides.get(key)
            if age > DAY_S * limits.stale_override_days and (declared is None or declared.place is None):
                yield _stale(cluster, topic.where, key, age, subject=topic.name)
    for broker in cluster.brokers:
        if broker.override_age_s is None:
            continue
        found = True
        for key, age in sorted(broker.override_age_s.items()):
            declared = broker.config.dynamic.get(key)
            if age > DAY_S * limits.stale_override_days and (declared is None or declared.place is None):
                yield _stale(cluster, broker.where, key, age, subject=str(broker.id))
    if not found:
        raise InputMissing("since when overrides are set")


@estate_rule("KKX005", WARNING, CORE, Needs.LIVE)
def mirror_pair_divergence(estate: Estate, limits: Limits) -> Violations:
    """A topic has other settings on a mirror than on the cluster that it mirrors.

    Why: changes are tested on the mirror, and readers fail over to it: both prove nothing where the settings differ.
    A cluster is a mirror by its label `mirror:NAME`; topics are paired by name, or as `NAME.topic`.
    Source: MirrorMaker 2, `sync.topic.configs.enabled`.
    Options: mirror_may_differ (keys that may differ).

    Bad:
        cluster: orders
        config: {num.io.threads: "8"}
        brokers: [{id: 1}]
        topics: [{name: orders, config: {cleanup.policy: compact}}]
        --- mirror.yaml
        cluster: orders-dr
        labels: ["mirror:orders"]
        config: {num.io.threads: "8"}
        brokers: [{id: 1}]
        topics: [{name: orders, config: {cleanup.policy: delete}}]

    Good:
        cluster: orders
        config: {num.io.threads: "8"}
        brokers: [{id: 1}]
        topics: [{name: orders, config: {cleanup.policy: compact}}]
        --- mirror.yaml
        cluster: orders-dr
        labels: ["mirror:orders"]
        config: {num.io.threads: "8"}
        brokers: [{id: 1}]
        topics: [{name: orders, config: {cleanup.policy: compact}}]
    """
    by_name = {c.name: c for c in estate.clusters}
    allowed = ALWAYS_OWN | frozenset(limits.mirror_may_differ)
    for mirror in estate.clusters:
        for label in sorted(mirror.labels):
            source = by_name.get(label.removeprefix(MIRROR_OF)) if label.startswith(MIRROR_OF) else None
            if source is not None:
                yield from _pair_divergence(source, mirror, allowed)


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
    del limits
    if not cluster.is_live:
        raise InputMissing(LIVE)
    declared = any(t.place is not None for t in cluster.topics)
    for topic in cluster.topics:
        if topic.place is not None and topic.partition_facts is None:
            yield Violation(
                message="the topic is declared, but not in the cluster",
                where=cluster.within(topic.where),
                place=topic.place,
                subject="missing",
            )
    unmanaged = [t.name for t in cluster.topics if t.place is None and not t.is_internal] if declared else []
    for name in unmanaged:
        yield Violation(
            message="the topic is in the cluster, but in no file",
            where=cluster.within(f"topic {name}"),
            severity=NOTE,
            subject="unmanaged",
        )


@estate_rule("KKX007", WARNING, STRICT, Needs.LIVE)
def version_skew(estate: Estate, limits: Limits) -> Violations:
    """Brokers of one cluster run different versions for more than 7 days, or a cluster is 3 minors behind the newest.

    Why: a cluster with two versions has neither's features and both's faults; one that falls far behind the fleet
    needs upgrades in several steps, and the tools of the fleet must know all its versions.
    Source: Kafka documentation, "Upgrading".

    Bad:
        cluster: orders
        version: "4.0"
        brokers: [{id: 1}]
        --- newest.yaml
        cluster: search
        version: "4.4"
        brokers: [{id: 1}]

    Good:
        cluster: orders
        version: "4.3"
        brokers: [{id: 1}]
        --- newest.yaml
        cluster: search
        version: "4.4"
        brokers: [{id: 1}]
    """
    del limits
    ranks = {c.name: MINORS.index(c.table.version) for c in estate.clusters}
    newest = max(ranks.values(), default=0)
    for cluster in estate.clusters:
        behind = newest - ranks[cluster.name]
        if behind > LARGEST_TAIL:
            yield Violation(
                message=f"Kafka {cluster.table.version} is {behind} minor versions behind {MINORS[newest]}, the newest "
                "of the fleet",
                where=cluster.where,
                place=cluster.place,
                subject=cluster.name,
            )
    for cluster in estate.clusters:
        versions = sorted({minor_of(b.version) for b in cluster.brokers if b.version is not None})
        if len(versions) < 2:
            continue
        days = known(cluster.versions_differ_days, "since when versions differ")
        if days > LONGEST_SKEW_DAYS:
            yield Violation(
                message=f"brokers run {' and '.join(versions)} for {days:.0f} days, longer than "
                f"{LONGEST_SKEW_DAYS:.0f}",
                where=cluster.where,
                place=cluster.place,
                subject=cluster.name,
            )


def _key_drift(topic: LintTopic, live: Mapping[str, str]) -> Iterator[Violation]:
    for key, declared in topic.config.overrides.items():
        if declared.place is None:
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


def _stale(cluster: LintCluster, where: str, key: str, age_s: float, subject: str) -> Violation:
    return Violation(
        message=f"{key} was set {format_rough_time(age_s)} ago and is in no file",
        key=key,
        where=cluster.within(where),
        subject=subject,
        hint="declare it, or delete it from the cluster",
    )


def _pair_divergence(source: LintCluster, mirror: LintCluster, allowed: frozenset[str]) -> Iterator[Violation]:
    copies = {t.name: t for t in mirror.topics}
    for topic in source.topics:
        copy = copies.get(topic.name) or copies.get(f"{source.name}.{topic.name}")
        if copy is None or topic.is_internal:
            continue
        keys = (topic.config.overrides.keys() | copy.config.overrides.keys()) - allowed
        for key in sorted(keys):
            if not (topic.config.is_sure(key) and copy.config.is_sure(key)):
                raise InputMissing("broker configuration")
            ours, theirs = topic.config.value(key), copy.config.value(key)
            if ours.text != theirs.text:
                yield Violation(
                    message=f"{key} is {theirs.text or 'not set'} on the mirror and {ours.text or 'not set'} on "
                    f"{source.name}",
                    key=key,
                    observed=theirs.text,
                    expected=ours.text,
                    where=mirror.within(copy.where),
                    place=theirs.place or copy.place,
                    subject=copy.name,
                )
    first, second = TopicConfig({}, source.reference_broker()), TopicConfig({}, mirror.reference_broker())
    if not (first.broker.is_known and second.broker.is_known):
        raise InputMissing("broker configuration")
    for key in sorted(first.broker.table.topic.keys() & second.broker.table.topic.keys() - allowed):
        ours, theirs = first.value(key), second.value(key)
        if ours.text != theirs.text:
            yield Violation(
                message=f"topics inherit {key} {theirs.text or 'not set'} on the mirror and {ours.text or 'not set'} "
                f"on {source.name}",
                key=key,
                observed=theirs.text,
                expected=ours.text,
                where=mirror.where,
                place=theirs.place or mirror.place,
                subject=mirror.name,
            )
