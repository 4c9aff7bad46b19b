"""The audit `capacity`: thresholds and sentences on disks that fill up and on brokers and racks that are lost."""

from collections.abc import Iterator, Mapping
from typing import Any

from kafkakit.core.findings import AuditFinding, Rule, Severity, audit_finding
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.text import quote
from kafkakit.rules.config_defs import NEWEST, config_table
from kafkakit.rules.effective import BrokerConfig, Declared, Source, TopicConfig
from kafkakit.rules.engine import checked
from kafkakit.rules.families.drift_load import FULL, days_to_full
from kafkakit.rules.families.retention_load import disk_forecast
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, LogDirFacts, PartitionFacts

JOB = "capacity"
DAYS = 90
"""How far back trends look."""
STALE_DAYS = 3
"""A log dir whose last day is older than this has no trend."""
HORIZONS = (30, 90)

BROKER_LOSS = Rule(
    "broker-loss-stops-writes",
    Severity.WARNING,
    "Every partition keeps min.insync.replicas when any one broker is lost.",
    "Producers with acks=all get errors for the partitions that do not.",
    "`kafkakit topicmappr set-replication` for topics with too few replicas; wait for replicas that are catching up",
    code="KKW001",
)
RACK_LOSS = Rule(
    "rack-loss-stops-writes",
    Severity.WARNING,
    "Every partition keeps min.insync.replicas when any one rack is lost.",
    "Producers with acks=all get errors for the partitions that do not.",
    "spread the replicas with `kafkakit topicmappr fix-racks`",
    code="KKW002",
)
NO_SPACE = Rule(
    "no-space-after-broker-loss",
    Severity.WARNING,
    "The other brokers have free space for what any one broker holds.",
    "The replicas of a broker that does not come back cannot be made anew.",
    "add brokers or disks, or shorten retention",
    code="KKW003",
)
RULES = (BROKER_LOSS, RACK_LOSS, NO_SPACE)


def dir_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """KKX009 of a log dir: the row has `broker`, `path`, `total_bytes`, `replicas`, `days` (day, used)."""
    used = {day["day"]: day["used"] for day in row["days"]}
    series = tuple(used.get(day) for day in range(min(used), max(used) + 1))
    log_dir = LogDirFacts(path=row["path"], total_bytes=row["total_bytes"], daily_used_bytes=series)
    broker, cluster = _broker(row, (log_dir,))
    repair = (
        f"kafkakit --profile {quote(row['cluster'])} topicmappr rebalance --topics '.*' --brokers -1 --plan plan.json"
    )
    for violation in days_to_full.check(broker, cluster, Limits()):
        finding = checked(days_to_full, violation, broker, cluster).finding
        yield audit_finding(JOB, row["cluster"], finding, blast=row["replicas"] or 1, repair=repair)


def ceiling_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """KKR221 of a broker: the row has `broker`, `total_bytes`, `ceiling_bytes` and `replicas`."""
    dirs = (LogDirFacts(path="", total_bytes=row["total_bytes"]),)
    broker, cluster = _broker(row, dirs)
    # A topic without limits that holds as much as all partitions may come to hold.
    unlimited = TopicConfig({"retention.ms": Declared("-1", Source.TOPIC)}, broker.config)
    held = PartitionFacts(
        partition=0, replicas=(row["broker"],), replica_bytes={row["broker"]: round(row["ceiling_bytes"])}
    )
    topic = LintTopic(name="all", config=unlimited, partition_facts=(held,))
    cluster = LintCluster(name=cluster.name, table=cluster.table, brokers=(broker,), topics=(topic,))
    for violation in disk_forecast.check(broker, cluster, Limits()):
        finding = checked(disk_forecast, violation, broker, cluster).finding
        yield audit_finding(JOB, row["cluster"], finding, blast=row["replicas"])


def loss_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What the loss of the worst broker or rack of a cluster does.

    The row has `kind`, `name`, `below_min_isr`, `offline`, `leaders`, `bytes`, `free_elsewhere_bytes`, and says with
    `stops_writes` and `lacks_space` which of the rules it breaks.
    """
    cluster, named = row["cluster"], f"{row['kind']} {row['name']}"
    where = f"cluster {cluster}"
    if row["stops_writes"]:
        rule = BROKER_LOSS if row["kind"] == "broker" else RACK_LOSS
        offline = f", {row['offline']} of them without any replica" if row["offline"] else ""
        message = (
            f"without {named}, {counted(row['below_min_isr'], 'partition')} would have fewer in-sync replicas than "
            f"min.insync.replicas{offline}"
        )
        repair = f"kafkakit --profile {quote(cluster)} topicmappr fix-racks" if rule is RACK_LOSS else ""
        finding = rule.finding(where, message, count=row["below_min_isr"])
        yield audit_finding(JOB, cluster, finding, blast=row["below_min_isr"], repair=repair)
    if row["lacks_space"]:
        message = (
            f"{named} holds {format_bytes(row['bytes'])}, and the other brokers have "
            f"{format_bytes(row['free_elsewhere_bytes'])} free below {FULL:.0%} of their log dirs"
        )
        yield audit_finding(JOB, cluster, NO_SPACE.finding(where, message), blast=row["replicas"])


def _broker(row: Mapping[str, Any], dirs: tuple[LogDirFacts, ...]) -> tuple[LintBroker, LintCluster]:
    config = BrokerConfig(config_table(NEWEST))
    broker = LintBroker(config=config, id=row["broker"], log_dirs=dirs)
    return broker, LintCluster(name=row["cluster"], table=config.table, brokers=(broker,), is_live=True)
