"""The audits `capacity`, `hotspots` and `retention`: thresholds and sentences on disks, traffic and kept data.

`capacity`: disks that fill up, and brokers and racks that are lost. `hotspots`: partitions and brokers far above their
peers.

`retention` checks lint's rules (KKR201, KKR203, KKB501, KKB502) against what a fleet's snapshots show. Advice is one of
a few options for each topic, the same multiples of the tolerance for all: the first with which the descriptors and maps
of each broker that holds it suffice. Options later in the list take fewer segments, so that brokers that choose one
after another stay within their limits together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafkakit.core.findings import AuditFinding, Rule, Severity, audit_finding, shorten
from kafkakit.core.quantities import count_of, format_bytes, format_rate, format_span
from kafkakit.core.text import ShellCommand, quote, shell_command
from kafkakit.rules.audits.segments import FUTURE_MS
from kafkakit.rules.config_defs import NEWEST, config_table
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, InputMissing, TopicConfig, ValueSource
from kafkakit.rules.engine import make_finding
from kafkakit.rules.families.brokers import fd_budget, mmap_budget
from kafkakit.rules.families.drift import FULL, days_to_full
from kafkakit.rules.families.retention import disk_forecast, retention_overshoot, size_retention_granularity
from kafkakit.rules.retention import MAPS_OF_SEGMENT
from kafkakit.rules.rule import Limits, LintRule
from kafkakit.rules.subjects import HostFacts, LintBroker, LintCluster, LintTopic, LogDirFacts, PartitionFacts

CAPACITY_JOB = "capacity"
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
    "`kafkakit topicmappr set-replication N --topics NAMES` for topics with too few replicas; wait for replicas that "
    "are catching up",
    code="KKW001",
)
RACK_LOSS = Rule(
    "rack-loss-stops-writes",
    Severity.WARNING,
    "Every partition keeps min.insync.replicas when any one rack is lost.",
    "Producers with acks=all get errors for the partitions that do not.",
    "spread the replicas with `kafkakit topicmappr fix-racks`; topics with too few replicas for that need "
    "`kafkakit topicmappr set-replication N --topics NAMES`",
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
CAPACITY_RULES = (BROKER_LOSS, RACK_LOSS, NO_SPACE)


LOSS_CAUSES = ("factor", "racks", "behind")
"""Why a loss stops writes: too few replicas, replicas in too few racks, replicas that are out of sync."""
MOST_NAMED = 20
"""Topics that a command names."""


def _planning_command(cluster: str, verb: str, *arguments: str, **options: str) -> ShellCommand:
    return shell_command(verb, *arguments, program=f"kafkakit --profile {quote(cluster)}", **options)


def dir_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """KKX009 of a log dir: the row has `broker`, `path`, `total_bytes`, `replicas`, `days` (day, used)."""
    used = {day["day"]: day["used"] for day in row["days"]}
    series = tuple(used.get(day) for day in range(min(used), max(used) + 1))
    log_dir = LogDirFacts(path=row["path"], total_bytes=row["total_bytes"], daily_used_bytes=series)
    broker, cluster = _broker(row, (log_dir,))
    repair = str(_planning_command(row["cluster"], "topicmappr rebalance", topics=".*", brokers="-1", plan="plan.json"))
    for violation in days_to_full.check(broker, cluster, Limits()):
        finding = make_finding(days_to_full, violation, broker, cluster).finding
        yield audit_finding(CAPACITY_JOB, row["cluster"], finding, blast=row["replicas"] or 1, repair=repair)


def ceiling_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """KKR221 of a broker: the row has `broker`, `total_bytes`, `ceiling_bytes` and `replicas`."""
    dirs = (LogDirFacts(path="", total_bytes=row["total_bytes"]),)
    broker, cluster = _broker(row, dirs)
    # A topic without limits that holds as much as all partitions may come to hold.
    unlimited = TopicConfig({"retention.ms": DeclaredValue("-1", ValueSource.TOPIC)}, broker.config)
    held = PartitionFacts(
        partition=0, replicas=(row["broker"],), replica_bytes={row["broker"]: round(row["ceiling_bytes"])}
    )
    topic = LintTopic(name="all", config=unlimited, partition_facts=(held,))
    cluster = LintCluster(name=cluster.name, table=cluster.table, brokers=(broker,), topics=(topic,))
    for violation in disk_forecast.check(broker, cluster, Limits()):
        finding = make_finding(disk_forecast, violation, broker, cluster).finding
        yield audit_finding(CAPACITY_JOB, row["cluster"], finding, blast=row["replicas"])


def loss_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What the loss of the worst broker or rack of a cluster does.

    The row has `kind`, `name`, `below_min_isr`, `offline`, `leaders`, `bytes`, `free_elsewhere_bytes`, and says with
    `stops_writes` and `lacks_space` which of the rules it breaks. Of the topics whose writes stop there are their names
    by cause (`topics_CAUSE` for each of `LOSS_CAUSES`), of those with too few replicas the largest `factor` and the
    least `wanted` one, and there is the number of `brokers`.
    """
    cluster, named = row["cluster"], f"{row['kind']} {row['name']}"
    where = f"cluster {cluster}"
    if row["stops_writes"]:
        rule = BROKER_LOSS if row["kind"] == "broker" else RACK_LOSS
        offline = f", {row['offline']} of them without any replica" if row["offline"] else ""
        topics = sorted({name for cause in LOSS_CAUSES for name in row[f"topics_{cause}"] or ()})
        message = (
            f"without {named}, {count_of(row['below_min_isr'], 'partition')} would have fewer in-sync replicas than "
            f"min.insync.replicas{offline}: {count_of(len(topics), 'topic')}, {shorten(topics)}"
        )
        hint, repair = _loss_repair(row)
        finding = rule.finding(where, message, hint, count=row["below_min_isr"])
        yield audit_finding(CAPACITY_JOB, cluster, finding, blast=row["below_min_isr"], repair=repair)
    if row["lacks_space"]:
        message = (
            f"{named} holds {format_bytes(row['bytes'])}, and the other brokers have "
            f"{format_bytes(row['free_elsewhere_bytes'])} free below {FULL:.0%} of their log dirs"
        )
        yield audit_finding(CAPACITY_JOB, cluster, NO_SPACE.finding(where, message), blast=row["replicas"])


def _loss_repair(row: Mapping[str, Any]) -> tuple[str, str]:
    """What helps, by cause with the topics that it is about, and the first command of it."""
    few, placed, behind = (row[f"topics_{cause}"] or () for cause in LOSS_CAUSES)
    hints, commands = [], []
    brokers = row["brokers"]
    if few and row["wanted"] is not None and (brokers is None or row["wanted"] <= brokers):
        names = ",".join(few) if len(few) <= MOST_NAMED else "NAMES"
        command = _planning_command(row["cluster"], "topicmappr set-replication", str(row["wanted"]), topics=names)
        commands += [str(command)] if len(few) <= MOST_NAMED else []
        hints.append(f"{shorten(few)}: {row['wanted']} replicas with `{command}`, or lower min.insync.replicas")
    elif few:
        way = "lower min.insync.replicas, or add brokers" if row["factor"] > 1 else "add brokers"
        hints.append(f"{shorten(few)}: {way}, since {count_of(brokers or 0, 'broker')} cannot hold enough replicas")
    if placed:
        options = {"topics": ",".join(placed)} if len(placed) <= MOST_NAMED else {}
        command = _planning_command(row["cluster"], "topicmappr fix-racks", **options)
        commands.append(str(command))
        hints.append(f"{shorten(placed)}: spread the replicas over the racks with `{command}`")
    if behind:
        hints.append(f"{shorten(behind)}: wait for replicas that are catching up")
    return "; ".join(hints), commands[0] if commands else ""


def _broker(row: Mapping[str, Any], dirs: tuple[LogDirFacts, ...]) -> tuple[LintBroker, LintCluster]:
    config = BrokerConfig(config_table(NEWEST))
    broker = LintBroker(config=config, id=row["broker"], log_dirs=dirs)
    return broker, LintCluster(name=row["cluster"], table=config.table, brokers=(broker,), is_live=True)


HOTSPOTS_JOB = "hotspots"
NORMAL_MAD = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""
HOT_SHARE = 0.75
"""In how many of its hours something must be above its peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """When a value of an hour is far above those of its peers: all of these must hold.

    There are at least `least` peers with values, itself among them; it is at least `floor`, more than `factor` times
    the median, and more than `deviations` (median absolute ones, scaled to standard deviations) above it.
    """

    least: int
    floor: float
    factor: float
    deviations: float


PARTITION_BYTES = Peers(least=5, floor=100e3, factor=4.0, deviations=6.0)
PARTITION_MESSAGES = Peers(least=5, floor=100.0, factor=4.0, deviations=6.0)
BROKER_BYTES = Peers(least=4, floor=1e6, factor=1.5, deviations=5.0)

HOT_PARTITION = Rule(
    "hot-partition",
    Severity.WARNING,
    "No partition takes far more bytes than the others of its topic.",
    "Its broker and its consumer are busy while the others wait.",
    "look for producers that write larger records to this partition",
    code="KKH001",
)
UNBALANCED_KEYS = Rule(
    "unbalanced-keys",
    Severity.WARNING,
    "No partition takes far more messages than the others of its topic.",
    "A few keys make up the traffic; more partitions or consumers do not help.",
    "spread the busiest keys in the producer (append a number to them), or give them a topic of their own",
    code="KKH002",
)
LEADS_MOST = Rule(
    "broker-leads-most-traffic",
    Severity.WARNING,
    "No broker leads partitions with far more traffic than the other brokers.",
    "It is the first to be overloaded, and its loss hits most producers.",
    "spread the leaders with `kafkakit topicmappr leaders`, or the partitions with "
    "`kafkakit topicmappr rebalance --topics NAMES --brokers -2`",
    code="KKH003",
)
SERVES_MOST = Rule(
    "broker-serves-most-reads",
    Severity.WARNING,
    "No broker sends consumers far more than the other brokers.",
    "Its network is the first to be full, and consumers of its partitions fall behind.",
    "spread the leaders with `kafkakit topicmappr leaders`",
    code="KKH004",
)
HOTSPOT_RULES = (HOT_PARTITION, UNBALANCED_KEYS, LEADS_MOST, SERVES_MOST)


def partition_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """A partition that is far above its topic's others, by messages if by these, else by bytes.

    The row has `topic`, `id`, `hours`, and of bytes (`first_`) and messages (`second_`) `hot` (in how many hours),
    `mean` and `median` (of the peers).
    """
    by_messages = row["second_hot"] >= HOT_SHARE * row["hours"]
    which, rule = ("second_", UNBALANCED_KEYS) if by_messages else ("first_", HOT_PARTITION)
    mean, median = row[f"{which}mean"], row[f"{which}median"]
    mean_text, median_text = (f"{v:,.0f} messages/s" if by_messages else format_rate(v) for v in (mean, median))
    message = f"takes {mean_text}, {_above_text(mean, median, median_text)} of its topic, {_hours(row, which)}"
    finding = rule.finding(f"partition {row['topic']}-{row['id']} of {row['cluster']}", message)
    yield audit_finding(HOTSPOTS_JOB, row["cluster"], finding, blast=row["first_mean"] / 1e6)


def hot_broker_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """A broker that is far above the others of its cluster; the row is as that of partitions, of bytes in and out."""
    repair = str(_planning_command(row["cluster"], "topicmappr leaders", plan="plan.json"))
    for which, rule, verb in (("first_", LEADS_MOST, "leads partitions with"), ("second_", SERVES_MOST, "sends")):
        if row[f"{which}hot"] < HOT_SHARE * row["hours"]:
            continue
        mean, median = row[f"{which}mean"], row[f"{which}median"]
        message = (
            f"{verb} {format_rate(mean)}, {_above_text(mean, median, format_rate(median))} of the cluster's brokers, "
        )
        finding = rule.finding(f"broker {row['id']} of {row['cluster']}", message + _hours(row, which))
        yield audit_finding(HOTSPOTS_JOB, row["cluster"], finding, blast=mean / 1e6, repair=repair)


def _above_text(mean: float, median: float, text: str) -> str:
    return f"{mean / median:.3g} times the median ({text})" if median > 0 else f"where the median is {text}"


def _hours(row: Mapping[str, Any], which: str) -> str:
    return f"in {row[f'{which}hot']} of {row['hours']} hours" if row["hours"] > 1 else "when it was looked at"


RETENTION_JOB = "retention"
OPTIONS: tuple[tuple[float, bool], ...] = (
    (1.0, False), (1.0, True), (2.0, True), (4.0, True), (8.0, True), (16.0, True),
)  # fmt: skip
"""What is tried for a topic: a multiple of the tolerance, and whether `segment.bytes` is raised as far as it goes."""
GREATEST_SEGMENT_BYTES = 2**31 - 1
UNKNOWN_OPEN_FILES = 100_000
"""Descriptors of a broker whose limit is not known: what Kafka's documentation starts at."""
CHECK_KEY = "log.retention.check.interval.ms"
_TIMESTAMP_LIMITS = ("message.timestamp.after.max.ms", "message.timestamp.difference.max.ms")
"""The setting that refuses records stamped in the future, since Kafka 3.6 and before."""


def topic_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What is held against a topic: how long or how large its data becomes, with the settings that repair it.

    The row has the columns of `kafkakit_spark.effective`, with `partitions`, `slowest_rate`, `tolerance`,
    `observed_age_ms`, `oldest_partition`, `oldest_future_ms` (how far in the future a record of that one is stamped, or
    None), `age_limit_ms`, and the advice: `option` (of `OPTIONS`, their number for none),
    `advised_segment_ms`, `advised_segment_bytes`, `advised_jitter_ms`, `advised_overshoot`, `segments`,
    `advised_segments`, `tightest_broker`.
    """
    topic, cluster = lint_topic(row)
    limits = Limits(overshoot_ratio=row["tolerance"])
    repair = _repair(row)
    for rule in (retention_overshoot, size_retention_granularity):
        for found in _check_topic(rule, topic, cluster, limits):
            is_time = rule is retention_overshoot
            if is_time and _is_kept_by_future(row):
                yield _kept_by_future(found, row)
                continue
            name = "advised_segment_ms" if is_time else "advised_segment_bytes"
            yield replace(
                found,
                message=found.message + (_evidence(row) if is_time else ""),
                hint=_hint(row, is_time),
                expected=str(row[name]) if repair else None,
                score=found.score * max(row["partitions"], 1),
                repair=repair,
            )


def _is_kept_by_future(row: Mapping[str, Any]) -> bool:
    """True for data that is older than settings explain, in a partition with timestamps in the future."""
    age, limit = row["observed_age_ms"], row["age_limit_ms"]
    return row["oldest_future_ms"] is not None and age is not None and limit is not None and age > limit


def _kept_by_future(found: AuditFinding, row: Mapping[str, Any]) -> AuditFinding:
    ahead, retention = format_span(row["oldest_future_ms"] / 1000), format_span(row["retention_ms"] / 1000)
    key = next(key for key in _TIMESTAMP_LIMITS if key in config_table(row["minor"]).topic)
    return replace(
        found,
        message=f"partition {row['oldest_partition']} holds data of {format_span(row['observed_age_ms'] / 1000)}, with "
        f"a retention of {retention}, because records that are stamped up to {ahead} in the future keep it",
        hint="correct the clock of the producer; what is there stays until its timestamps are over, or until "
        "kafka-delete-records.sh deletes it",
        key=key,
        observed=None,
        expected=str(FUTURE_MS),
        score=found.score * max(row["partitions"], 1),
        repair=f"{key}={FUTURE_MS}",
    )


def retention_broker_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What is held against a broker's handles: the row has `segments`, `replicas` and the limits of its host.

    A limit that is not known counts as Linux's or Kafka's usual one, and breaking it as a warning.
    """
    host = HostFacts(
        open_files=row["open_files"], max_map_count=row["max_map_count"], connections=row["connections"] or 0
    )
    config = BrokerConfig(config_table(row["minor"]), is_known=True)
    counted_topic = LintTopic(
        name="all",
        config=TopicConfig({}, config),
        partition_facts=(PartitionFacts(partition=0, replicas=(row["broker"],), segments=row["segments"]),),
    )
    broker = LintBroker(config=config, id=row["broker"], host=host)
    cluster = LintCluster(name=row["cluster"], table=config.table, brokers=(broker,), topics=(counted_topic,))
    for rule, is_known in ((fd_budget, row["knows_open_files"]), (mmap_budget, row["knows_max_map_count"])):
        for violation in rule.check(broker, cluster, Limits()):
            finding = make_finding(rule, violation, broker, cluster).finding
            if not is_known:
                message = f"{finding.message}; the limit of the broker is not known, this is the usual one"
                finding = replace(finding, severity=Severity.WARNING, message=message)
            yield audit_finding(RETENTION_JOB, row["cluster"], finding, blast=row["replicas"])


def lint_topic(row: Mapping[str, Any]) -> tuple[LintTopic, LintCluster]:
    """The subject of lint's rules for a row of effective settings, with its slowest partition."""
    check = DeclaredValue(str(row["check_interval_ms"]), ValueSource.STATIC)
    broker = BrokerConfig(config_table(row["minor"]), static={CHECK_KEY: check}, is_known=row["is_broker_known"])
    given = {
        key: DeclaredValue(value["text"], ValueSource(value["source"])) for key, value in dict(row["settings"]).items()
    }
    slowest = PartitionFacts(partition=0, replicas=(), bytes_s=row["slowest_rate"])
    topic = LintTopic(name=row["topic"], config=TopicConfig(given, broker), partition_facts=(slowest,))
    return topic, LintCluster(name=row["cluster"], table=broker.table, topics=(topic,))


def _check_topic(rule: LintRule, topic: LintTopic, cluster: LintCluster, limits: Limits) -> Iterator[AuditFinding]:
    try:
        for violation in rule.check(topic, cluster, limits):
            yield audit_finding(RETENTION_JOB, cluster.name, make_finding(rule, violation, topic, cluster).finding)
    except InputMissing:
        return


def _repair(row: Mapping[str, Any]) -> str:
    """The settings to change, as lines; empty where no option fits the handles."""
    if row["option"] >= len(OPTIONS):
        return ""
    pairs = (("segment.ms", "segment_ms"), ("segment.bytes", "segment_bytes"), ("segment.jitter.ms", "jitter_ms"))
    return "\n".join(f"{key}={row[f'advised_{name}']}" for key, name in pairs if row[f"advised_{name}"] != row[name])


def _hint(row: Mapping[str, Any], is_time: bool) -> str:
    if row["option"] >= len(OPTIONS):
        return (
            f"no smaller segments fit the descriptors and memory maps of broker {row['tightest_broker']}: "
            "raise vm.max_map_count and LimitNOFILE, or add brokers"
        )
    if not _repair(row):
        return "no segments of 10 min or 1 MiB and more bring it within the tolerance; lengthen the retention"
    more = row["advised_segments"] - row["segments"]
    price = f"{row['segments']:,} to {row['advised_segments']:,} segments on all brokers"
    if more > 0:
        price += f", {more:,} more descriptors and {MAPS_OF_SEGMENT * more:,} more memory maps"
    over = row["advised_overshoot"]
    if is_time and over is not None and over > row["tolerance"]:
        handles = OPTIONS[row["option"]][0] > 1.0
        why = f"the handles of broker {row['tightest_broker']} permit" if handles else "segments of 10 min permit"
        return f"the least overshoot that {why} is {over:.2g} times retention; it takes {price}"
    return f"takes {price}"


def _evidence(row: Mapping[str, Any]) -> str:
    age = row["observed_age_ms"]
    if age is None or age <= (1 + row["tolerance"]) * row["retention_ms"]:
        return ""
    return f"; partition {row['oldest_partition']} holds data of {format_span(age / 1000)}"
