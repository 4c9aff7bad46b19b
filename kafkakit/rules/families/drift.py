"""X: rules of drift: between what is declared and what a cluster has, between brokers, clusters and days.

Each declared value that differs from a cluster's has a class by what applying it would risk (kafka-helmsman's classes
of drift). Also what a change did to a cluster, and when its disks are full.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from kafkakit.core.findings import Severity, shorten
from kafkakit.core.quantities import count_of, format_bytes, format_span
from kafkakit.core.text import shell_command
from kafkakit.rules.cluster_facts import LEAST_DAYS, days_until
from kafkakit.rules.config_defs import minor_key, minor_or_none, minors_between
from kafkakit.rules.effective import InputMissing, TopicConfig, ValueSource, to_int
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    broker_rule,
    cluster_rule,
    estate_rule,
    set_to,
    topic_rule,
)
from kafkakit.rules.subjects import Estate, LintBroker, LintCluster, LintTopic, require_known
from kafkakit.rules.values import holds_placeholder

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
                yield _stale_violation(topic, key, age, (topic.current or {}).get(key))
    for broker in cluster.brokers:
        if broker.override_age_s is None:
            continue
        found = True
        for key, age in sorted(broker.override_age_s.items()):
            declared = broker.config.dynamic.get(key)
            if age > DAY_S * limits.stale_override_days and (declared is None or declared.place is None):
                yield _stale_violation(broker, key, age, None)
    if not found:
        raise InputMissing("since when overrides are set")


@cluster_rule("KKX006", WARNING, CORE, Needs.LIVE)
def unmanaged_or_missing_topic(cluster: LintCluster, limits: Limits) -> Violations:
    """A declared topic is not in the cluster, or a topic of the cluster is in no file (a note).

    Why: a missing topic is created by the first producer with the brokers' defaults, if these create topics; an
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
            f"cluster; {_applying_text(kind, risk)}",
            key=key,
            observed=found,
            expected=declared.text,
        )


def _shape_drift(topic: LintTopic) -> Iterator[Violation]:
    facts = topic.partition_facts or ()
    if topic.partitions is not None and topic.partitions != len(facts):
        kind, risk = kind_of_partitions(len(facts), topic.partitions)
        yield Violation(
            message=f"{count_of(topic.partitions, 'partition')} in the file, {len(facts)} in the cluster; "
            f"{_applying_text(kind, risk)}",
            subject="partitions",
        )
    replicas = sorted({len(p.replicas) for p in facts})
    if topic.replication_factor is not None and replicas and replicas != [topic.replication_factor]:
        live = " and ".join(map(str, replicas))
        planned = shell_command("topicmappr set-replication", str(topic.replication_factor), topics=topic.name)
        yield Violation(
            message=f"{count_of(topic.replication_factor, 'replica')} in the file, {live} in the cluster; "
            f"{_applying_text(DriftKind.UNSUPPORTED, 'replicas are moved by a reassignment')}",
            hint=f"plan it with `{planned}`",
            subject="replication factor",
        )


class DriftKind(StrEnum):
    """Whether the declared value can be applied."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNSUPPORTED = "unsupported"


def _applying_text(kind: DriftKind, risk: str) -> str:
    if kind is DriftKind.SAFE:
        return "applying the file is safe"
    return f"applying the file is {kind.value}: {risk}"


def _stale_violation(about: LintTopic | LintBroker, key: str, age_s: float, value: str | None) -> Violation:
    return Violation(
        message=f"{key} was set {format_span(age_s)} ago and is in no file",
        key=key,
        observed=value,
        about=about,
        hint="declare it, or delete it from the cluster",
    )


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

    Why: if 95 % of the peers agree, the other value is more often forgotten than meant. At least 3 peers are needed.
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
    peers = require_known(cluster.peers, "clusters of the same label")
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
            f"{count_of(len(values), 'peer')}",
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
        found = [(b, b.config.value(key)) for b in seen]
        told = [(b, v) for b, v in found if not holds_placeholder(v.text)]
        values = [v for _, v in told]
        texts = Counter(v.text for v in values)
        # Defaults that differ are those of two versions: KKX007.
        if len(texts) < 2 or all(v.source is ValueSource.DEFAULT for v in values):
            continue
        usual = texts.most_common(1)[0][0]
        odd = [(b, v) for b, v in told if v.text != usual]
        yield Violation(
            message=f"{key} is {usual or 'not set'} on {count_of(texts[usual], 'broker')}, but "
            + shorten([f"{v.text or 'not set'} on {b.where}" for b, v in odd]),
            key=key,
            place=odd[0][1].place or odd[0][0].place,
        )


@estate_rule("KKX005", WARNING, CORE, Needs.LIVE, fix=Fix.UNSAFE)
def mirror_pair_divergence(estate: Estate, limits: Limits) -> Violations:
    """A topic has other settings on a mirror than on the cluster that it mirrors.

    Why: changes are tested on the mirror, and readers fail over to it: both prove nothing if the settings differ.
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
    known_minors = {c.name: c.table.version for c in estate.clusters if c.is_version_known}
    newest = max(known_minors.values(), key=minor_key, default="")
    for cluster in estate.clusters:
        behind = minors_between(known_minors.get(cluster.name, newest), newest) if newest else 0
        if behind > LARGEST_TAIL:
            yield Violation(
                message=f"Kafka {cluster.table.version} is {behind} minor versions behind {newest}, the newest "
                "of the fleet",
                where=cluster.where,
                place=cluster.place,
                subject=cluster.name,
            )
    for cluster in estate.clusters:
        versions = sorted(filter(None, {minor_or_none(b.version) for b in cluster.brokers if b.version is not None}))
        if len(versions) < 2:
            continue
        days = require_known(cluster.versions_differ_days, "since when versions differ")
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


DEVIATIONS = 3.0
FULL = 0.85
WARN_DAYS, ERROR_DAYS = 30.0, 7.0


@cluster_rule("KKX008", ERROR, CORE, Needs.METRICS)
def rollout_isr_regression(cluster: LintCluster, limits: Limits) -> Violations:
    """After a change the ISRs change far more often than at the same hours before, or an election was unclean.

    Why: replicas that fall out of sync are the first sign that brokers cannot bear a change, well before producers
    see errors. More than the mean and 3 standard deviations is not chance; an unclean election lost records.
    Source: Datadog, "Lessons learned from running Kafka" (2019).

    Bad:
        observed: {rollout: {isr_changes_per_min: 12.0, baseline_mean: 0.5, baseline_deviation: 0.4}}

    Good:
        observed: {rollout: {isr_changes_per_min: 1.0, baseline_mean: 0.5, baseline_deviation: 0.4}}
    """
    seen = require_known(cluster.rollout, "ISR changes after a change")
    hint = "roll the change back"
    usual = seen.baseline_mean + DEVIATIONS * seen.baseline_deviation
    if seen.unclean_elections:
        yield Violation(
            message=f"{count_of(seen.unclean_elections, 'unclean election')} since the change lost committed records",
            hint=hint,
            subject="unclean elections",
        )
    if seen.isr_changes_per_min > usual:
        yield Violation(
            message=f"ISRs change {seen.isr_changes_per_min:.3g} times a minute since the change, more than "
            f"{usual:.3g} (mean {seen.baseline_mean:.3g} and {DEVIATIONS:g} deviations of "
            f"{seen.baseline_deviation:.3g} at the same hours before)",
            hint=hint,
            subject="isr changes",
        )


@broker_rule("KKX009", WARNING, CORE, Needs.METRICS)
def days_to_full(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A log dir reaches 85 % in less than 30 days by its trend (less than 7 days is an error).

    Why: a broker with a full log dir stops. New brokers and moves of partitions take days. The trend is the median
    slope over pairs of days of one weekday (Theil-Sen), so that single days and weekends do not bend it.
    Source: P. K. Sen, 1968.

    Bad:
        brokers:
          - id: 1
            log_dirs: [{path: /d1, total_bytes: 1000, daily_used_bytes: [700, 710, 720, 730, 740, 750, 760]}]

    Good:
        brokers:
          - id: 1
            log_dirs: [{path: /d1, total_bytes: 1000, daily_used_bytes: [300, 301, 302, 303, 304, 305, 306]}]
    """
    if not broker.is_broker:
        return
    checked = False
    for log_dir in broker.log_dirs:
        used, total = log_dir.daily_used_bytes, log_dir.total_bytes
        seen = [value for value in used or () if value is not None]
        if used is None or len(seen) < LEAST_DAYS or not total:
            continue
        checked = True
        days = days_until(used, FULL * total)
        if days is None or days >= WARN_DAYS:
            continue
        severity: Severity | None = ERROR if days < ERROR_DAYS else None
        when = f"reaches {FULL:.0%} in {days:.0f} days" if days >= 1 else f"is at {FULL:.0%} within a day"
        yield Violation(
            message=f"{log_dir.path} {when}: {format_bytes(seen[-1])} of {format_bytes(total)} are used",
            severity=severity,
            subject=log_dir.path,
            hint="add brokers or disks, shorten retention, or move replicas with "
            "`kafkakit topicmappr rebalance --topics '.*' --brokers -2 --band 10% --best-effort`",
        )
    if not checked:
        raise InputMissing("a week of the sizes of log dirs")


def _differs_always(live: str, declared: str) -> bool:
    return True


def _lowers(live: str, declared: str) -> bool:
    return _size(declared) < _size(live)


def _turns_on(live: str, declared: str) -> bool:
    return declared.strip().lower() == "true"


def _turns_off(live: str, declared: str) -> bool:
    return declared.strip().lower() == "false"


def _size(text: str) -> float:
    number = to_int(text)
    return float("inf") if number is None or number < 0 else number


_RISKY: Mapping[str, tuple[Callable[[str, str], bool], str]] = {
    "cleanup.policy": (_differs_always, "records may be deleted"),
    "retention.ms": (_lowers, "records are deleted"),
    "retention.bytes": (_lowers, "records are deleted"),
    "local.retention.ms": (_lowers, "local segments are deleted"),
    "local.retention.bytes": (_lowers, "local segments are deleted"),
    "delete.retention.ms": (_lowers, "readers may miss deletes"),
    "max.compaction.lag.ms": (_lowers, "superseded values go sooner"),
    "min.insync.replicas": (_differs_always, "writes may fail, or be acknowledged by fewer replicas"),
    "max.message.bytes": (_lowers, "producers of larger batches are refused"),
    "message.timestamp.type": (_differs_always, "records get other timestamps"),
    "remote.storage.enable": (_turns_off, "remote segments may be deleted"),
    "unclean.leader.election.enable": (_turns_on, "committed records may be lost"),
}


def kind_of_drift(key: str, live: str, declared: str) -> tuple[DriftKind, str]:
    """The class of a difference of one topic key, and what applying the declared value risks (empty where safe)."""
    is_risky, risk = _RISKY.get(key, (None, ""))
    if is_risky is not None and is_risky(live, declared):
        return DriftKind.UNSAFE, risk
    return DriftKind.SAFE, ""


def kind_of_partitions(live: int, declared: int) -> tuple[DriftKind, str]:
    """The class of a difference in the number of partitions."""
    if declared < live:
        return DriftKind.UNSUPPORTED, "Kafka cannot remove partitions"
    return DriftKind.UNSAFE, "keys move to other partitions"
