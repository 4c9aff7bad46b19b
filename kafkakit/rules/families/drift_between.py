"""X: rules of what brokers of a cluster, and clusters of a fleet, differ in."""

from collections import Counter
from collections.abc import Iterator

from kafkakit.core.findings import shown
from kafkakit.core.quantities import counted
from kafkakit.rules.config_defs import MINORS, minor_or_none
from kafkakit.rules.effective import InputMissing, Source, TopicConfig
from kafkakit.rules.rule import CORE, ERROR, STRICT, WARNING, Fix, Limits, Needs, cluster_rule, estate_rule
from kafkakit.rules.subjects import Estate, LintCluster, known
from kafkakit.rules.violation import Violation, Violations, set_to

SHARE_OF_PEERS = 0.95
LEAST_PEERS = 3
LONGEST_SKEW_DAYS = 7.0
LARGEST_TAIL = 2
MIRROR_OF = "mirror:"
"""The label of a mirror, before the name of the cluster that it mirrors."""
MAY_DIFFER = "may_differ:"
"""The label of a mirror for a key that is meant to differ, before the key."""
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


@estate_rule("KKX005", WARNING, CORE, Needs.LIVE, fix=Fix.UNSAFE)
def mirror_pair_divergence(estate: Estate, limits: Limits) -> Violations:
    """A topic has other settings on a mirror than on the cluster that it mirrors.

    Why: changes are tested on the mirror, and readers fail over to it: both prove nothing where the settings differ.
    A cluster is a mirror by its label `mirror:NAME`; topics are paired by name, or as `NAME.topic`. Its labels
    `may_differ:KEY` name the keys that are meant to differ.
    Source: MirrorMaker 2, `sync.topic.configs.enabled`.

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
    for mirror in estate.clusters:
        own = {x.removeprefix(MAY_DIFFER) for x in mirror.labels if x.startswith(MAY_DIFFER)}
        allowed = ALWAYS_OWN | own
        for label in sorted(mirror.labels):
            source = by_name.get(label.removeprefix(MIRROR_OF)) if label.startswith(MIRROR_OF) else None
            if source is not None:
                yield from _pair_divergence(source, mirror, allowed)


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
    ranks = {c.name: MINORS.index(c.table.version) for c in estate.clusters if c.is_version_known}
    newest = max(ranks.values(), default=0)
    for cluster in estate.clusters:
        behind = newest - ranks.get(cluster.name, newest)
        if behind > LARGEST_TAIL:
            yield Violation(
                message=f"Kafka {cluster.table.version} is {behind} minor versions behind {MINORS[newest]}, the newest "
                "of the fleet",
                where=cluster.where,
                place=cluster.place,
                subject=cluster.name,
            )
    for cluster in estate.clusters:
        versions = sorted(filter(None, {minor_or_none(b.version) for b in cluster.brokers if b.version is not None}))
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
                yield set_to(
                    key,
                    ours.text,
                    f"{key} is {theirs.text or 'not set'} on the mirror and {ours.text or 'not set'} on {source.name}",
                    observed=theirs.text,
                    where=mirror.within(copy.where),
                    about=copy,
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
