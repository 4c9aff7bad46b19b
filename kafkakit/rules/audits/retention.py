"""The audit `retention`: its thresholds, the repairs that its advice comes to, and its sentences.

The rules are lint's (KKR201, KKR203, KKB501, KKB502), checked against what a fleet's snapshots show. Advice is one of
a few options for each topic, the same multiples of the tolerance for all: the first with which the descriptors and
maps of each broker that holds it suffice. Options later in the list take fewer segments, so that brokers that choose
one after another stay within their limits together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kafkakit.core.findings import AuditFinding, Severity, audit_finding
from kafkakit.core.quantities import format_span
from kafkakit.rules.config_defs import config_table
from kafkakit.rules.effective import BrokerConfig, Declared, InputMissing, Source, TopicConfig
from kafkakit.rules.engine import checked
from kafkakit.rules.families.brokers_handles import fd_budget, mmap_budget
from kafkakit.rules.families.retention import retention_overshoot, size_retention_granularity
from kafkakit.rules.retention import MAPS_OF_SEGMENT
from kafkakit.rules.rule import Limits, LintRule
from kafkakit.rules.subjects import HostFacts, LintBroker, LintCluster, LintTopic, PartitionFacts

JOB = "retention"
OPTIONS: tuple[tuple[float, bool], ...] = (
    (1.0, False), (1.0, True), (2.0, True), (4.0, True), (8.0, True), (16.0, True),
)  # fmt: skip
"""What is tried for a topic: a multiple of the tolerance, and whether `segment.bytes` is raised as far as it goes."""
GREATEST_SEGMENT_BYTES = 2**31 - 1
UNKNOWN_OPEN_FILES = 100_000
"""Descriptors of a broker whose limit is not known: what Kafka's documentation starts at."""
CHECK_KEY = "log.retention.check.interval.ms"


def topic_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What is held against a topic: how long or how large its data becomes, with the settings that repair it.

    The row has the columns of `kafkakit_spark.effective`, with `partitions`, `slowest_rate`, `tolerance`,
    `observed_age_ms`, `oldest_partition`, and the advice: `option` (of `OPTIONS`, their number for none),
    `advised_segment_ms`, `advised_segment_bytes`, `advised_jitter_ms`, `advised_overshoot`, `segments`,
    `advised_segments`, `tightest_broker`.
    """
    topic, cluster = lint_topic(row)
    limits = Limits(overshoot_ratio=row["tolerance"])
    repair = _repair(row)
    for rule in (retention_overshoot, size_retention_granularity):
        for found in _checked(rule, topic, cluster, limits):
            is_time = rule is retention_overshoot
            name = "advised_segment_ms" if is_time else "advised_segment_bytes"
            yield replace(
                found,
                message=found.message + (_evidence(row) if is_time else ""),
                hint=_hint(row, is_time),
                expected=str(row[name]) if repair else None,
                score=found.score * max(row["partitions"], 1),
                repair=repair,
            )


def broker_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
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
            finding = checked(rule, violation, broker, cluster).finding
            if not is_known:
                message = f"{finding.message}; the limit of the broker is not known, this is the usual one"
                finding = replace(finding, severity=Severity.WARNING, message=message)
            yield audit_finding(JOB, row["cluster"], finding, blast=row["replicas"])


def lint_topic(row: Mapping[str, Any]) -> tuple[LintTopic, LintCluster]:
    """The subject of lint's rules for a row of effective settings, with its slowest partition."""
    check = Declared(str(row["check_interval_ms"]), Source.STATIC)
    broker = BrokerConfig(config_table(row["minor"]), static={CHECK_KEY: check}, is_known=row["is_broker_known"])
    given = {key: Declared(value["text"], Source(value["source"])) for key, value in dict(row["settings"]).items()}
    slowest = PartitionFacts(partition=0, replicas=(), bytes_s=row["slowest_rate"])
    topic = LintTopic(name=row["topic"], config=TopicConfig(given, broker), partition_facts=(slowest,))
    return topic, LintCluster(name=row["cluster"], table=broker.table, topics=(topic,))


def _checked(rule: LintRule, topic: LintTopic, cluster: LintCluster, limits: Limits) -> Iterator[AuditFinding]:
    try:
        for violation in rule.check(topic, cluster, limits):
            yield audit_finding(JOB, cluster.name, checked(rule, violation, topic, cluster).finding)
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
