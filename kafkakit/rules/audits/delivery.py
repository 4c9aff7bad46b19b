"""The audits `lag` and `mirror`: thresholds and sentences on records that arrive late, or do not arrive.

`lag`: lag of groups in time, silent groups, offsets about to expire. `mirror`: records that one of two clusters lacks,
or has twice.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kafkakit.core.findings import AuditFinding, Rule, Severity, audit_finding, shorten
from kafkakit.core.quantities import agree, count_of, format_span
from kafkakit.rules.config_defs import NEWEST, config_table
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, TopicConfig, ValueSource
from kafkakit.rules.engine import make_finding
from kafkakit.rules.families.drift import MIRROR_OF
from kafkakit.rules.families.retention import retention_vs_lag
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import GroupFacts, LintCluster, LintTopic

LAG_JOB = "lag"
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
    repair="compare with deployments and with the topic's traffic; see kafkakit streams lag once",
    code="KKJ002",
)
SILENT = Rule(
    "silent-group",
    Severity.ERROR,
    "a group that reads a topic commits while data comes in",
    risk="It stopped, hangs on a record, or commits nowhere; it reads again what it has not committed.",
    repair="look at its members: kafkakit streams lag once, and the logs of the application",
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
LAG_RULES: tuple[Rule, ...] = (SLO_MISSED, ANOMALY, SILENT, EXPIRING)


def objective_missed(row: Row) -> Iterator[AuditFinding]:
    """KKJ001 of a group, by cluster, group, hours, within, worst_s, slo_s and blast (partitions)."""
    missed = row["hours"] - row["within"]
    yield _lag_finding(
        SLO_MISSED,
        row,
        f"the group was more than {format_span(row['slo_s'])} behind in {missed} of {count_of(row['hours'], 'hour')}, "
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
    yield _lag_finding(
        ANOMALY, row, f"the group is {format_span(row['now_s'])} behind in its last hour, usually {' and '.join(usual)}"
    )


def find_silent(row: Row) -> Iterator[AuditFinding]:
    """KKJ003 of a group and topic, by cluster, group, topic, silent_s, pending (records), partitions and blast."""
    yield _lag_finding(
        SILENT,
        row,
        f"no commit for {format_span(row['silent_s'])} on {count_of(row['partitions'], 'partition')} of {row['topic']} "
        f"that took in {count_of(row['pending'], 'record')} beyond what is committed",
        parts=(row["topic"],),
        count=row["partitions"],
    )


def find_expiring(row: Row) -> Iterator[AuditFinding]:
    """KKJ004 of a group, by cluster, group, idle_s, retention_s, partitions and blast."""
    left = row["retention_s"] - row["idle_s"]
    when = f"in {format_span(left)}" if left > 0 else "at the next check"
    yield _lag_finding(
        EXPIRING,
        row,
        f"the group is empty and last committed {format_span(row['idle_s'])} ago; its offsets of "
        f"{count_of(row['partitions'], 'partition')} are forgotten {when}",
        count=row["partitions"],
    )


def near_retention(row: Row) -> Iterator[AuditFinding]:
    """KKR220 of a group and topic, by cluster, group, topic, lag_s, retention_ms and blast."""
    table = config_table(NEWEST)
    own = {
        "retention.ms": DeclaredValue(str(row["retention_ms"]), ValueSource.TOPIC),
        "cleanup.policy": DeclaredValue("delete", ValueSource.TOPIC),
    }
    topic = LintTopic(name=row["topic"], config=TopicConfig(own, BrokerConfig(table)))
    group = GroupFacts(name=row["group"], topics=(row["topic"],), time_lag_s={row["topic"]: row["lag_s"]})
    cluster = LintCluster(name=row["cluster"], table=table, topics=(topic,), groups=(group,))
    for violation in retention_vs_lag.check(topic, cluster, Limits()):
        finding = make_finding(retention_vs_lag, violation, topic, cluster).finding
        yield audit_finding(LAG_JOB, row["cluster"], finding, blast=row["blast"])


def _lag_finding(rule: Rule, row: Row, message: str, *, parts: tuple[str, ...] = (), count: int = 1) -> AuditFinding:
    where = f"group {row['group']} of {row['cluster']}"
    return audit_finding(
        LAG_JOB, row["cluster"], rule.finding(where, message, count=count, parts=parts), blast=row["blast"]
    )


MIRROR_JOB = "mirror"
WINDOW_S = 300.0
"""The length of the windows that records are counted in."""
ROUND_MS = 1_000
"""How far the times of two copies without an id may be apart."""
CLOCK_S = 1.0
"""How far the clocks of the two sides may be apart before that is reported."""
EXAMPLES = 3

MISSING_ON_MIRROR = Rule(
    "missing-on-mirror",
    Severity.ERROR,
    "every record of the primary is on its mirror",
    risk="Readers that fail over to the mirror never see these records.",
    repair="copy the windows again from the primary; see the table mirror_windows of this run",
    code="KKZ001",
)
MISSING_ON_PRIMARY = Rule(
    "missing-on-primary",
    Severity.WARNING,
    "every record of a mirror is on its primary",
    risk="The write to the primary failed and was not repeated, or something else writes to the mirror.",
    repair="look for failed sends of the producers in these windows; see the table mirror_windows of this run",
    code="KKZ002",
)
DUPLICATES = Rule(
    "duplicates-in-mirrored-topic",
    Severity.WARNING,
    "a record is once on each side",
    risk="Readers process these records twice.",
    repair="make the producer idempotent, or drop records by their id when reading",
    code="KKZ003",
)
CLOCKS = Rule(
    "mirror-clock-difference",
    Severity.NOTE,
    "the same record has the same time on both sides",
    risk="Offsets that are looked up by time differ between the sides. Windows are compared without the difference.",
    repair="synchronise the clocks, or use message.timestamp.type=CreateTime on both sides",
    code="KKZ004",
)
MIRROR_RULES: tuple[Rule, ...] = (MISSING_ON_MIRROR, MISSING_ON_PRIMARY, DUPLICATES, CLOCKS)


def sources_of(name: str, labels: Collection[str] | None, mirror_of: str | None) -> tuple[str, ...]:
    """The clusters that a cluster mirrors, by its labels `mirror:NAME` and by `mirror_of`."""
    found = {label.removeprefix(MIRROR_OF) for label in labels or () if label.startswith(MIRROR_OF)}
    return tuple(sorted((found | {mirror_of or ""}) - {"", name}))


def compare_mirror(row: Row) -> Iterator[AuditFinding]:
    """KKZ001 to KKZ004 of a topic and its mirror.

    `row` has cluster (the mirror), source, topic, shift_ms, clock_s, and for `mirror`, `primary` (what each lacks)
    and `twice_on_mirror`, `twice_on_primary` a count, and how many windows (`_windows`) and the first records
    (`_first`: partition, offset).
    """
    mirror, source = row["cluster"], row["source"]
    for rule, name, lacking, having in (
        (MISSING_ON_MIRROR, "mirror", mirror, source),
        (MISSING_ON_PRIMARY, "primary", source, mirror),
    ):
        count = row[name]
        if count:
            are = agree(count, "are not on")
            message = f"{count_of(count, 'record')} of {having} {are} {lacking}, {_places(row, name, having)}"
            yield _mirror_finding(rule, row, message, count)
    for name, where in (("twice_on_mirror", mirror), ("twice_on_primary", source)):
        count = row[name]
        if count:
            message = f"{count_of(count, 'record')} more than once on {where}, {_places(row, name, where)}"
            yield _mirror_finding(DUPLICATES, row, message, count, where)
    if abs(row["shift_ms"] or 0) > row["clock_s"] * 1000:
        ahead, behind = (mirror, source) if row["shift_ms"] > 0 else (source, mirror)
        span = format_span(abs(row["shift_ms"]) / 1000)
        yield _mirror_finding(CLOCKS, row, f"records have times on {ahead} that are {span} later than on {behind}", 1)


def _places(row: Row, name: str, cluster: str) -> str:
    first = [f"{e['partition']}:{e['offset']}" for e in row[f"{name}_first"][:EXAMPLES]]
    return f"in {count_of(row[f'{name}_windows'], 'window')}; first on {cluster} (partition:offset) {shorten(first)}"


def _mirror_finding(rule: Rule, row: Row, message: str, count: int, *parts: str) -> AuditFinding:
    where = f"topic {row['topic']} of {row['cluster']}"
    return audit_finding(
        MIRROR_JOB, row["cluster"], rule.finding(where, message, count=count, parts=(row["source"], *parts))
    )
