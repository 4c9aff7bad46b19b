"""The sentences and thresholds of the audit `lag`: lag of groups in time, silent groups, offsets about to expire."""

from collections.abc import Iterator, Mapping
from typing import Any

from kafkakit.core.findings import AuditFinding, Rule, Severity, audit_finding
from kafkakit.core.quantities import counted, format_span
from kafkakit.rules.config_defs import NEWEST, config_table
from kafkakit.rules.effective import BrokerConfig, Declared, Source, TopicConfig
from kafkakit.rules.engine import checked
from kafkakit.rules.families.retention_load import retention_vs_lag
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import GroupFacts, LintCluster, LintTopic

JOB = "lag"
HOUR_MS = 3_600_000
SLO_S = 60.0
"""How far behind a group may be."""
SLO_SHARE = 0.99
"""The share of hours in which it must not be further behind."""
Z_LIMIT = 6.0
LEAST_SPREAD_S = 1.0
LEAST_DAYS = 3
"""How many days must show the same hour before an hour is compared with them."""
LEAST_HOURS = 6
RECENT_HOURS = 24
SILENT_S = 3_600.0
EXPIRY_SHARE = 0.8
OFFSETS_RETENTION_MINUTES = 10_080
"""Kafka's default of offsets.retention.minutes."""
MAD_TO_DEVIATION = 1.4826
Row = Mapping[str, Any]

SLO_MISSED = Rule(
    "lag-objective-missed",
    Severity.WARNING,
    "a group is within its objective of lag in nearly all hours",
    risk="Readers of its output work with old data.",
    repair="add members or partitions, or raise lag.slo_s to what the group is meant to keep",
    code="KKJ001",
)
ANOMALY = Rule(
    "lag-anomaly",
    Severity.WARNING,
    "a group is as far behind as it is at this hour of other days, and as in the hours before",
    risk="Something changed: a slow release, a blocked partition, more data.",
    repair="compare with deployments and with the topic's traffic; see kafkakit streams lag",
    code="KKJ002",
)
SILENT = Rule(
    "silent-group",
    Severity.ERROR,
    "a group that reads a topic commits while data comes in",
    risk="It stopped, hangs on a record, or commits nowhere; it reads again what it has not committed.",
    repair="look at its members: kafkakit streams lag, and the logs of the application",
    code="KKJ003",
)
EXPIRING = Rule(
    "offsets-about-to-expire",
    Severity.WARNING,
    "the committed offsets of an idle group are kept until it comes back",
    risk="Once they are forgotten the group continues at auto.offset.reset: it skips what it has not read, or reads "
    "everything again.",
    repair="start the group, or raise offsets.retention.minutes before they go",
    code="KKJ004",
)
RULES: tuple[Rule, ...] = (SLO_MISSED, ANOMALY, SILENT, EXPIRING)


def objective_missed(row: Row) -> Iterator[AuditFinding]:
    """KKJ001 of a group, by cluster, group, hours, within, worst_s, slo_s and blast (partitions)."""
    missed = row["hours"] - row["within"]
    yield _finding(
        SLO_MISSED,
        row,
        f"the group was more than {format_span(row['slo_s'])} behind in {missed} of {counted(row['hours'], 'hour')}, "
        f"{format_span(row['worst_s'])} at worst",
        count=missed,
    )


def anomaly(row: Row) -> Iterator[AuditFinding]:
    """KKJ002 of a group, by cluster, group, now_s, same_hour_s and recent_s (medians, null where not known), blast."""
    usual = []
    if row["same_hour_s"] is not None:
        usual.append(f"{format_span(row['same_hour_s'])} at this hour of other days")
    if row["recent_s"] is not None:
        usual.append(f"{format_span(row['recent_s'])} in the hours before")
    yield _finding(
        ANOMALY, row, f"the group is {format_span(row['now_s'])} behind in its last hour, usually {' and '.join(usual)}"
    )


def silent(row: Row) -> Iterator[AuditFinding]:
    """KKJ003 of a group and topic, by cluster, group, topic, silent_s, pending (records), partitions and blast."""
    yield _finding(
        SILENT,
        row,
        f"no commit for {format_span(row['silent_s'])} on {counted(row['partitions'], 'partition')} of {row['topic']} "
        f"that took in {counted(row['pending'], 'record')} beyond what is committed",
        parts=(row["topic"],),
        count=row["partitions"],
    )


def expiring(row: Row) -> Iterator[AuditFinding]:
    """KKJ004 of a group, by cluster, group, idle_s, retention_s, partitions and blast."""
    left = row["retention_s"] - row["idle_s"]
    when = f"in {format_span(left)}" if left > 0 else "at the next check"
    yield _finding(
        EXPIRING,
        row,
        f"the group is empty and last committed {format_span(row['idle_s'])} ago; its offsets of "
        f"{counted(row['partitions'], 'partition')} are forgotten {when}",
        count=row["partitions"],
    )


def near_retention(row: Row) -> Iterator[AuditFinding]:
    """KKR220 of a group and topic, by cluster, group, topic, lag_s, retention_ms and blast."""
    table = config_table(NEWEST)
    own = {
        "retention.ms": Declared(str(row["retention_ms"]), Source.TOPIC),
        "cleanup.policy": Declared("delete", Source.TOPIC),
    }
    topic = LintTopic(name=row["topic"], config=TopicConfig(own, BrokerConfig(table)))
    group = GroupFacts(name=row["group"], topics=(row["topic"],), time_lag_s={row["topic"]: row["lag_s"]})
    cluster = LintCluster(name=row["cluster"], table=table, topics=(topic,), groups=(group,))
    for violation in retention_vs_lag.check(topic, cluster, Limits()):
        finding = checked(retention_vs_lag, violation, topic, cluster).finding
        yield audit_finding(JOB, row["cluster"], finding, blast=row["blast"])


def _finding(rule: Rule, row: Row, message: str, *, parts: tuple[str, ...] = (), count: int = 1) -> AuditFinding:
    where = f"group {row['group']} of {row['cluster']}"
    return audit_finding(
        JOB, row["cluster"], rule.finding(where, message, count=count, parts=parts), blast=row["blast"]
    )
