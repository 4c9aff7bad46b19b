"""T: rules of topics with tiered storage: what brokers refuse of them, and advice."""

from collections.abc import Iterator
from typing import NamedTuple

from kafkakit.core.quantities import format_span
from kafkakit.rules.config_defs import minor_key
from kafkakit.rules.effective import BrokerConfig
from kafkakit.rules.judging import DYNAMIC
from kafkakit.rules.retention import SHORTEST_SENSIBLE_ROLL_MS, settings_of
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Edit,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    config_rule,
    topic_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, require_known

ENABLE = "remote.storage.enable"
SYSTEM = "remote.log.storage.system.enable"
AS_RETENTION = -2
UNLIMITED = -1


@topic_rule("KKT901", ERROR, CORE)
def tiered_compact(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic with tiered storage is compacted.

    Why: brokers refuse it: remote segments cannot be rewritten. Kafka 4.1 also refuses an empty cleanup.policy here,
    4.2 accepts it again.
    Source: `LogConfig.validateRemoteStorageRequiresDeleteCleanupPolicy`; KIP-405.

    Bad:
        topics:
          - {name: users, config: {remote.storage.enable: "true", cleanup.policy: compact}}

    Good:
        topics:
          - {name: users, config: {remote.storage.enable: "true", cleanup.policy: delete}}
    """
    if topic.config.is_true(ENABLE) and not _is_tierable(topic.policies, topic.config.broker.table.version):
        yield Violation(
            message=f"cleanup.policy is {','.join(topic.policies) or 'empty'} on a topic with tiered storage, "
            "which only delete allows: brokers refuse the topic",
            key="cleanup.policy",
            expected="delete",
            refused=True,
        )


def _is_tierable(policies: tuple[str, ...], version: str) -> bool:
    minor = minor_key(version)
    if minor < (4, 1):
        return not any("compact" in policy.lower() for policy in policies)
    if minor == (4, 1):
        return {policy.lower() for policy in policies} == {"delete"}
    return set(policies) <= {"delete"}


class _LocalLimit(NamedTuple):
    """A limit of local retention: its key and value, and the retention with its key."""

    key: str
    local: int
    whole_key: str
    whole: int


_TOPIC_LIMITS = (("local.retention.ms", "retention.ms"), ("local.retention.bytes", "retention.bytes"))
_TOPIC_LAGS = ("remote.copy.lag.ms", "remote.copy.lag.bytes")
_BROKER_LIMITS = (
    ("log.local.retention.ms", "log.retention.ms"),
    ("log.local.retention.bytes", "log.retention.bytes"),
)
_BROKER_LAGS = ("log.remote.copy.lag.ms", "log.remote.copy.lag.bytes")


@config_rule("KKT902", ERROR, CORE)
def local_retention_exceeds(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A tiered topic keeps data longer on the brokers' disks than it keeps it at all.

    From 4.4 on segments may not wait longer for their upload (remote.copy.lag) than they are kept on disk, either.

    Why: brokers refuse it: local.retention.ms and local.retention.bytes are part of retention.ms and retention.bytes,
    and cannot be unlimited where these are not. A broker refuses such defaults at start if tiered storage is on,
    and always when they are changed while it runs.
    Source: `LogConfig.validateRemoteStorageRetentionTime`, `validateRemoteCopyLagTime`; `DynamicLogConfig`.

    Bad:
        topics:
          - name: orders
            config: {remote.storage.enable: "true", local.retention.ms: "172800000", retention.ms: "86400000"}

    Good:
        topics:
          - name: orders
            config: {remote.storage.enable: "true", local.retention.ms: "3600000", retention.ms: "86400000"}
    """
    if isinstance(subject, LintTopic):
        if subject.config.is_true(ENABLE):
            yield from _topic_limits(subject)
    elif _decides_local(subject.config):
        yield from _broker_limits(subject)


def _topic_limits(topic: LintTopic) -> Violations:
    config = topic.config
    for (key, whole_key), lag_key in zip(_TOPIC_LIMITS, _TOPIC_LAGS, strict=True):
        is_set = any(k in config.overrides for k in (key, whole_key, lag_key))
        number = config.sure_number if is_set else config.number
        local, whole, lag = number(key), number(whole_key), config.number(lag_key)
        if local is not None and whole is not None:
            yield from _problems(_LocalLimit(key, local, whole_key, whole), lag_key, lag, refused=True)


def _decides_local(config: BrokerConfig) -> bool:
    keys = (*(key for key, _ in _BROKER_LIMITS), *_BROKER_LAGS)
    return any(config.declared(key) is not None for key in keys)


def _broker_limits(broker: LintBroker) -> Violations:
    config = broker.config
    for (key, whole_key), lag_key in zip(_BROKER_LIMITS, _BROKER_LAGS, strict=True):
        local, whole, lag = config.number(key), config.number(whole_key), config.number(lag_key)
        is_dynamic = any(config.value(k).source in DYNAMIC for k in (key, whole_key, lag_key))
        is_on = config.is_true(SYSTEM)
        if local is not None and whole is not None and (is_dynamic or is_on):
            # At start brokers check local retention alone.
            lag_now = lag if is_dynamic else None
            yield from _problems(_LocalLimit(key, local, whole_key, whole), lag_key, lag_now, refused=True)


def _problems(limit: _LocalLimit, lag_key: str, lag: int | None, *, refused: bool) -> Iterator[Violation]:
    local, whole = limit.local, limit.whole
    if local != AS_RETENTION and whole > UNLIMITED and (local == UNLIMITED or local > whole):
        shown = "unlimited" if local == UNLIMITED else str(local)
        yield Violation(
            message=f"{limit.key} is {shown}, above {limit.whole_key} of {whole}: brokers refuse it",
            key=limit.key,
            expected=f"-2 or at most {whole}",
            refused=refused,
        )
    effective = whole if local == AS_RETENTION else local
    if lag is not None and 0 <= effective < lag:
        yield Violation(
            message=f"segments wait {lag} for their upload ({lag_key}), longer than the {effective} that they stay "
            "on disk: brokers refuse it",
            key=lag_key,
            expected=f"at most {effective}",
            refused=refused,
        )


@topic_rule("KKT903", ERROR, CORE)
def tier_system_disabled(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic asks for tiered storage that the brokers do not have.

    Why: brokers refuse remote.storage.enable=true unless remote.log.storage.system.enable is true.
    Source: `LogConfig.validateRemoteStorageOnlyIfSystemEnabled`.

    Bad:
        brokers: [{id: 1, config: {log.dirs: /data}}]
        topics:
          - {name: orders, config: {remote.storage.enable: "true"}}

    Good:
        brokers: [{id: 1, config: {remote.log.storage.system.enable: "true"}}]
        topics:
          - {name: orders, config: {remote.storage.enable: "true"}}
    """
    if topic.config.is_true(ENABLE) and not topic.config.broker.given().is_true(SYSTEM):
        yield Violation(
            message=f"{ENABLE} is true, but the brokers run without tiered storage ({SYSTEM}): they refuse the topic",
            key=ENABLE,
            expected="false",
            refused=True,
        )


@topic_rule("KKT904", ERROR, CORE)
def copy_disabled_local_mismatch(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic no longer uploads segments, but keeps data on disk for less than it keeps it at all.

    Why: brokers refuse it: what leaves the disk would be nowhere. With remote.log.copy.disable=true local retention
    has to be -2 or equal to retention.
    Source: `LogConfig.validateRetentionConfigsWhenRemoteCopyDisabled`.

    Bad:
        topics:
          - name: orders
            config:
              {remote.storage.enable: "true", remote.log.copy.disable: "true", local.retention.ms: "3600000",
               retention.ms: "86400000"}

    Good:
        topics:
          - name: orders
            config:
              {remote.storage.enable: "true", remote.log.copy.disable: "true", local.retention.ms: "-2",
               retention.ms: "86400000"}
    """
    if not (topic.config.is_true(ENABLE) and topic.config.is_true("remote.log.copy.disable")):
        return
    for key, whole_key in _TOPIC_LIMITS:
        local = topic.config.sure_number(key) if key in topic.config.overrides else topic.config.number(key)
        if local is None or local == AS_RETENTION:
            continue
        whole = topic.config.sure_number(whole_key)
        if local != whole:
            yield Violation(
                message=f"nothing is uploaded any more, and {key} is {local} but {whole_key} is {whole}: "
                "brokers refuse the topic",
                key=key,
                expected=str(AS_RETENTION),
                refused=True,
            )


@topic_rule("KKT905", ERROR, CORE, Needs.PLAN)
def disable_without_delete(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A change turns tiered storage off and does not say that the remote data goes.

    Why: brokers refuse to set remote.storage.enable from true to false unless remote.log.delete.on.disable is true,
    because the remote segments would be left behind.
    Source: `LogConfig.validateTurningOffRemoteStorageWithDelete`; KIP-950.

    Bad:
        topics:
          - name: orders
            config: {remote.storage.enable: "false"}
            observed: {current: {remote.storage.enable: "true"}}

    Good:
        topics:
          - name: orders
            config: {remote.storage.enable: "false", remote.log.delete.on.disable: "true"}
            observed: {current: {remote.storage.enable: "true"}}
    """
    if topic.config.is_true(ENABLE) or (topic.current is None and ENABLE not in topic.config.overrides):
        return
    was = require_known(topic.current, "a change to compare with").get(ENABLE, "false").strip().lower() == "true"
    if was and not topic.config.is_true("remote.log.delete.on.disable"):
        yield Violation(
            message="tiered storage is turned off without remote.log.delete.on.disable=true: brokers refuse the change",
            key=ENABLE,
            expected="true, or remote.log.delete.on.disable=true",
            refused=True,
        )


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
    groups = require_known(cluster.groups, "consumer groups")
    behind = max(((g.time_lag_s[topic.name], g.name) for g in groups if topic.name in g.time_lag_s), default=None)
    if behind is None:
        if any(topic.name in g.topics for g in groups):
            require_known(behind, "lag of consumer groups")
        return
    if local is not None and 0 <= local < behind[0] * 1000:
        yield Violation(
            message=f"group {behind[1]} is {format_span(behind[0])} behind, further than the "
            f"{format_span(local / 1000)} that are kept locally: it reads from remote storage",
            key="local.retention.ms",
            subject=behind[1],
        )
