"""The sentences of the audit `drift`: lint's rules KKX001 to KKX007 on rows, and defaults that differ by version.

Rows hold values in the form of `drift_keys`; each function gets one row and says what lint would.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kafkakit.core.findings import AuditFinding, Place, Rule, Severity, audit_finding, shown
from kafkakit.core.quantities import counted
from kafkakit.rules.audits.drift_keys import table_with
from kafkakit.rules.config_defs import NEWEST, ConfigTable, config_table, minor_key, minor_or_none
from kafkakit.rules.effective import BrokerConfig, Declared, Source, TopicConfig
from kafkakit.rules.engine import AnySubject, checked
from kafkakit.rules.families.drift import baseline_drift, stale_dynamic_override, unmanaged_or_missing_topic
from kafkakit.rules.families.drift_between import (
    intra_cluster_heterogeneity,
    mirror_pair_divergence,
    peer_outlier,
    version_skew,
)
from kafkakit.rules.rule import Limits, LintRule
from kafkakit.rules.subjects import Estate, LintBroker, LintCluster, LintTopic, PartitionFacts, TopicFacts
from kafkakit.rules.violation import Violation

JOB = "drift"
LIMITS = Limits()
DAY_MS = 86_400_000
Row = Mapping[str, Any]

OTHER_DEFAULTS = Rule(
    "version-default-drift",
    Severity.NOTE,
    "settings that are not set have the same default as on the clusters that this one is compared with",
    risk="Behaviour changes with the version alone: a test on a mirror of another version does not cover it, and an "
    "upgrade changes what no file mentions.",
    repair="set the keys to the wanted values before the versions are brought together",
    code="KKX010",
)
RULES: tuple[Rule, ...] = (OTHER_DEFAULTS,)


def cluster_minor(version: str | None, brokers: Iterable[str | None]) -> str | None:
    """The minor version of a cluster: its own, else the oldest of its brokers'; None where nothing tells."""
    found = minor_or_none(version) if version else None
    return found or min(filter(None, (minor_or_none(v) for v in brokers if v)), key=minor_key, default=None)


def differing_since_ms(minors_by_day: Mapping[str, Sequence[str]], today: str) -> int | None:
    """The first of the last days in a row on which brokers had more than one minor version; None where they have one.

    In ms of UTC at its midnight. Days on which the cluster was not seen are no break.
    """
    since = None
    for day in sorted(minors_by_day):
        if day <= today:
            since = None if len(minors_by_day[day]) < 2 else since or day
    moment = datetime.strptime(since, "%Y-%m-%d").replace(tzinfo=UTC) if since is not None else None
    return None if moment is None else int(moment.timestamp()) * 1000


def declared_drift(row: Row) -> Iterator[AuditFinding]:
    """KKX001 of one topic.

    `row` has cluster, topic, owner, blast, file, line, `settings` of (key, declared, live, line), and where they
    differ partitions, live_partitions, replication, live_replication.
    """
    table = config_table(NEWEST)
    settings = row["settings"] or ()
    overrides, current, undeclared = {}, {}, set()
    for s in sorted(settings, key=lambda s: str(s["key"])):
        key, declared, live = s["key"], s["declared"], s["live"]
        place = Place(row["file"] or "", s["line"] or row["line"] or 1) if row["file"] else None
        overrides[key] = Declared(live if declared is None else declared, Source.TOPIC, place)
        if declared is None:
            undeclared.add(key)
        if live is not None:
            current[key] = live
    replicas = tuple(range(row["live_replication"] or 0))
    topic = LintTopic(
        name=row["topic"],
        config=TopicConfig(overrides, BrokerConfig(table, is_known=False)),
        partitions=row["partitions"],
        replication_factor=row["replication"],
        partition_facts=(PartitionFacts(partition=0, replicas=replicas),) * (row["live_partitions"] or 0),
        current=current,
        undeclared=frozenset(undeclared),
        place=Place(row["file"], row["line"] or 1) if row["file"] else None,
        owner=row["owner"],
    )
    cluster = LintCluster(name=row["cluster"], table=table, is_live=True)
    for violation in baseline_drift.check(topic, cluster, LIMITS):
        yield _said(baseline_drift, violation, topic, cluster, row)


def managed(row: Row) -> Iterator[AuditFinding]:
    """KKX006 of one topic, by cluster, topic, owner, blast and is_declared: what is declared is not in the cluster."""
    other = LintTopic(name="", config=_no_settings(), partition_facts=())
    topic = LintTopic(
        name=row["topic"],
        config=_no_settings(),
        partition_facts=None if row["is_declared"] else (),
        is_declared=row["is_declared"],
        owner=row["owner"],
    )
    cluster = LintCluster(name=row["cluster"], table=config_table(NEWEST), is_live=True, topics=(topic, other))
    for violation in unmanaged_or_missing_topic.check(cluster, LIMITS):
        yield _said(unmanaged_or_missing_topic, violation, cluster, cluster, row)


def stale_override(row: Row) -> Iterator[AuditFinding]:
    """KKX004 of one override, by cluster, topic or broker, key, value, age_ms, days, owner and blast."""
    table, ages = config_table(NEWEST), {row["key"]: row["age_ms"] / 1000}
    topics: tuple[LintTopic, ...] = ()
    brokers: tuple[LintBroker, ...] = ()
    if row["topic"] is not None:
        facts = TopicFacts(override_age_s=ages)
        current = {row["key"]: row["value"]}
        topics = (
            LintTopic(name=row["topic"], config=_no_settings(), facts=facts, current=current, is_declared=False,
                      owner=row["owner"]),
        )  # fmt: skip
    else:
        brokers = (LintBroker(id=row["broker"], config=BrokerConfig(table), override_age_s=ages),)
    cluster = LintCluster(name=row["cluster"], table=table, topics=topics, brokers=brokers)
    for violation in stale_dynamic_override.check(cluster, Limits(stale_override_days=row["days"])):
        yield _said(stale_dynamic_override, violation, cluster, cluster, row)


def different_brokers(row: Row) -> Iterator[AuditFinding]:
    """KKX003 of a key, by cluster, key, minor, blast, ids of all brokers, and `groups` of (value, source, brokers)."""
    table = table_with(row["key"], row["minor"] or NEWEST)
    known = {
        b: _broker_config(table, row["key"], g["value"], g["source"] or "") for g in row["groups"] for b in g["brokers"]
    }
    brokers = tuple(LintBroker(id=b, config=known.get(b, BrokerConfig(table))) for b in sorted(row["ids"]))
    cluster = LintCluster(name=row["cluster"], table=table, brokers=brokers)
    for violation in intra_cluster_heterogeneity.check(cluster, LIMITS):
        yield _said(intra_cluster_heterogeneity, violation, cluster, cluster, row)


def different_peers(row: Row) -> Iterator[AuditFinding]:
    """KKX002 of one key, by cluster, key, value, minor, usual, `agree` of `peers` clusters, and blast."""
    table = table_with(row["key"], row["minor"] or NEWEST)
    broker = LintBroker(id=None, config=_broker_config(table, row["key"], row["value"], "static"))
    values = (row["usual"],) * row["agree"] + ("",) * (row["peers"] - row["agree"])
    cluster = LintCluster(name=row["cluster"], table=table, brokers=(broker,), peers={row["key"]: values})
    for violation in peer_outlier.check(cluster, LIMITS):
        yield _said(peer_outlier, violation, cluster, cluster, row)


def different_mirror(row: Row) -> Iterator[AuditFinding]:
    """KKX005 of one key, by source and mirror cluster, topic (its name on the mirror; null for what topics inherit),
    key, ours, theirs, from_broker (the broker key that it is inherited from), owner and blast."""
    table = table_with(row["key"], NEWEST)
    sides = []
    for name, value, labels in (
        (row["source"], row["ours"], frozenset[str]()),
        (row["cluster"], row["theirs"], frozenset({f"mirror:{row['source']}"})),
    ):
        topics: tuple[LintTopic, ...] = ()
        config = BrokerConfig(table)
        if row["topic"] is not None:
            own = {row["key"]: Declared(value, Source.TOPIC)}
            topics = (LintTopic(name=row["topic"], config=TopicConfig(own, config), owner=row["owner"]),)
        else:
            config = _broker_config(table, row["from_broker"] or row["key"], value, "static")
        broker = LintBroker(id=None, config=config)
        sides.append(LintCluster(name=name, table=table, labels=labels, topics=topics, brokers=(broker,)))
    estate = Estate(clusters=tuple(sides))
    for violation in mirror_pair_divergence.check(estate, LIMITS):
        yield _said(mirror_pair_divergence, violation, estate, None, row)


def version_skews(clusters: Sequence[Row], now_ms: int) -> Iterator[AuditFinding]:
    """KKX007 of a fleet; each row has cluster, minor, versions, since_ms and blast.

    `versions` are those of its brokers, `since_ms` when they were first seen to differ, without a day between on which
    they did not.
    """
    table = config_table(NEWEST)
    subjects, blast = [], {}
    for row in clusters:
        since = row["since_ms"] if row["since_ms"] is not None else now_ms
        blast[row["cluster"]] = row["blast"]
        subjects.append(
            LintCluster(
                name=row["cluster"],
                table=config_table(row["minor"]) if row["minor"] else table,
                is_version_known=row["minor"] is not None,
                brokers=tuple(LintBroker(config=BrokerConfig(table), version=v) for v in row["versions"]),
                versions_differ_days=(now_ms - since) / DAY_MS,
            )
        )
    estate = Estate(clusters=tuple(subjects))
    for violation in version_skew.check(estate, LIMITS):
        name = violation.subject
        finding = checked(version_skew, violation, estate, None).finding
        yield audit_finding(JOB, name, finding, blast=blast[name])


def other_defaults(row: Row) -> Iterator[AuditFinding]:
    """KKX010 of one cluster, by cluster, minor, other_minor, other (whom it is compared with), blast and `keys` of
    (key, ours, theirs)."""
    keys = sorted(row["keys"], key=lambda k: str(k["key"]))
    pairs = [f"{k['key']} {k['ours'] or 'not set'}, there {k['theirs'] or 'not set'}" for k in keys]
    finding = OTHER_DEFAULTS.finding(
        f"cluster {row['cluster']}",
        f"{counted(len(keys), 'setting')} that no file sets {'has' if len(keys) == 1 else 'have'} another default in "
        f"Kafka {row['minor']} than in {row['other_minor']} of {row['other']}: {shown(pairs)}",
        count=len(keys),
        subjects=tuple(str(k["key"]) for k in keys),
        parts=(str(row["other"]),),
    )
    yield audit_finding(JOB, row["cluster"], finding, blast=row["blast"] or 1.0)


def _said(
    rule: LintRule, violation: Violation, subject: AnySubject, cluster: LintCluster | None, row: Row
) -> AuditFinding:
    finding = checked(rule, violation, subject, cluster).finding
    # Of topics alone: what a broker has set is changed in its file.
    is_topic = row.get("topic") is not None and violation.key is not None
    repair = f"{violation.key}={violation.expected}" if is_topic and violation.expected else ""
    return audit_finding(JOB, row["cluster"], finding, blast=row["blast"] or 1.0, repair=repair)


def _no_settings() -> TopicConfig:
    return TopicConfig({}, BrokerConfig(config_table(NEWEST), is_known=False))


def _broker_config(table: ConfigTable, key: str, value: str, source: str) -> BrokerConfig:
    """A broker with one setting in the layer that it comes from."""
    own = {key: Declared(value, Source.DEFAULT if source == "default" else Source.STATIC)}
    if source == "dynamic-broker":
        return BrokerConfig(table, dynamic=own)
    return BrokerConfig(table, dynamic_default=own) if source == "dynamic-default" else BrokerConfig(table, static=own)
