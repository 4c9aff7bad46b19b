"""T: rules of advice for tiered topics; what brokers refuse stands in other modules of the family."""

from kafkakit.core.quantities import format_span
from kafkakit.rules.retention import SHORTEST_SENSIBLE_ROLL_MS, settings_of
from kafkakit.rules.rule import NOTE, STRICT, WARNING, Fix, Limits, Needs, topic_rule
from kafkakit.rules.subjects import LintCluster, LintTopic, known
from kafkakit.rules.violation import Edit, Violation, Violations

FOLLOWS_RETENTION = -2
POINTLESS_SHARE = 0.9


@topic_rule("KKT906", NOTE, STRICT)
def pointless_tiering(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A tiered topic keeps nearly all of its data on the brokers as well.

    Why: every closed segment is uploaded, so data that is also kept locally for 90 % of the retention or more is paid
    for twice. `local.retention.*` is -2 by default, which means all of the retention.
    Source: KIP-405; Kafka documentation, `local.retention.ms`, `local.retention.bytes`.

    Bad:
        topics:
          - {name: audit, config: {remote.storage.enable: "true", retention.ms: "2592000000", retention.bytes: "-1"}}

    Good:
        topics:
          - name: audit
            config: {remote.storage.enable: "true", retention.ms: "2592000000", local.retention.ms: "86400000"}
    """
    if not topic.config.is_true("remote.storage.enable"):
        return
    if _saves(topic, "ms") or _saves(topic, "bytes"):
        return
    for key in ("retention.ms", "retention.bytes"):
        topic.config.sure_number(key)
    yield Violation(
        message="the brokers keep at least 90 % of what is also in remote storage",
        key="local.retention.ms",
        expected="less than the retention",
    )


def _saves(topic: LintTopic, unit: str) -> bool:
    """True when the local limit by time or size is clearly below the one of the whole topic."""
    kept, local = topic.config.number(f"retention.{unit}"), local_retention(topic, unit)
    if local is None or local < 0:
        return False
    return kept is None or kept < 0 or local < POINTLESS_SHARE * kept


def local_retention(topic: LintTopic, unit: str) -> int | None:
    """The effective local retention in `ms` or `bytes`: -2 stands for the topic's retention."""
    local = topic.config.number(f"local.retention.{unit}")
    return topic.config.number(f"retention.{unit}") if local == FOLLOWS_RETENTION else local


@topic_rule("KKT907", WARNING, STRICT, Needs.FILE, Needs.METRICS, fix=Fix.UNSAFE)
def late_upload(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Segments of a tiered topic stay open for longer than data is to be kept locally.

    Why: only closed segments are uploaded, and the active one is rolled no earlier than its newest record is older
    than the local retention: brokers keep data for the time a segment is open plus the local retention.
    Source: KIP-405; KAFKA-15047.

    Bad:
        topics:
          - name: audit
            config: {remote.storage.enable: "true", local.retention.ms: "86400000", segment.ms: "604800000"}

    Good:
        topics:
          - name: audit
            config: {remote.storage.enable: "true", local.retention.ms: "86400000", segment.ms: "43200000"}
    """
    if not topic.config.is_true("remote.storage.enable"):
        return
    local = local_retention(topic, "ms")
    if local is None or local <= 0:
        return
    settings, rates = settings_of(topic), topic.rates_bytes_s()
    span = settings.span_ms(rates[0] if rates else None)
    if span > local:
        topic.config.sure_number("segment.ms")
        yield Violation(
            message=f"a segment may stay open for {format_span(span / 1000)} before it is uploaded, "
            f"longer than the local retention of {format_span(local / 1000)}",
            key="segment.ms",
            expected=f"at most {local}",
            edits=(Edit("segment.ms", str(local)),) if local >= SHORTEST_SENSIBLE_ROLL_MS else (),
        )


@topic_rule("KKT908", WARNING, STRICT, Needs.LIVE, Needs.METRICS)
def local_shorter_than_lag(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A consumer group of a tiered topic is further behind than data is kept locally.

    Why: what it reads comes from remote storage, at its latency and its price a request, and through the brokers'
    few threads for it.
    Source: KIP-405; Kafka documentation, `remote.log.reader.threads`.

    Bad:
        topics:
          - {name: audit, config: {remote.storage.enable: "true", local.retention.ms: "3600000"}}
        observed: {groups: [{name: billing, topics: [audit], time_lag_s: {audit: 7200}}]}

    Good:
        topics:
          - {name: audit, config: {remote.storage.enable: "true", local.retention.ms: "86400000"}}
        observed: {groups: [{name: billing, topics: [audit], time_lag_s: {audit: 7200}}]}
    """
    if not topic.config.is_true("remote.storage.enable"):
        return
    local = local_retention(topic, "ms")
    groups = known(cluster.groups, "consumer groups")
    behind = max(((g.time_lag_s[topic.name], g.name) for g in groups if topic.name in g.time_lag_s), default=None)
    if behind is None:
        if any(topic.name in g.topics for g in groups):
            known(behind, "lag of consumer groups")
        return
    if local is not None and 0 <= local < behind[0] * 1000:
        yield Violation(
            message=f"group {behind[1]} is {format_span(behind[0])} behind, further than the "
            f"{format_span(local / 1000)} that are kept locally: it reads from remote storage",
            key="local.retention.ms",
            subject=behind[1],
        )
