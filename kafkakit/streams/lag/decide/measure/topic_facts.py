"""What a topic's settings mean for its lag: who stamps the records, whether the cleaner works, what retention takes."""

from collections.abc import Mapping

from kafkakit.streams.lag.decide.measure.topics import TopicFacts

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
BROKER_KEYS = (
    "log.message.timestamp.type",
    "log.cleanup.policy",
    "log.retention.ms",
    "log.retention.minutes",
    "log.retention.hours",
    "log.retention.bytes",
)


def facts_of(configs: Mapping[str, Mapping[str, str]], defaults: Mapping[str, str]) -> "dict[str, TopicFacts]":
    """The facts of each topic from the values set on it and, for the rest, those in force on the brokers.

    A value that is no number counts as unknown. `is_dense` stays False: no setting states it.
    """
    return {topic: _facts(values, defaults) for topic, values in sorted(configs.items())}


def _facts(values: Mapping[str, str], defaults: Mapping[str, str]) -> TopicFacts:
    kind = values.get("message.timestamp.type") or defaults.get("log.message.timestamp.type", "CreateTime")
    policy = (values.get("cleanup.policy") or defaults.get("log.cleanup.policy", "delete")).split(",")
    is_deleting = "delete" in (word.strip() for word in policy)
    retention_ms = _number(values.get("retention.ms"))
    if retention_ms is None:
        retention_ms = _default_ms(defaults)
    retention_bytes = _number(values.get("retention.bytes", defaults.get("log.retention.bytes")))
    return TopicFacts(
        is_log_append=kind == "LogAppendTime",
        is_compacted="compact" in (word.strip() for word in policy),
        retention_ms=_limit(retention_ms) if is_deleting else None,
        retention_bytes=_limit(retention_bytes) if is_deleting else None,
    )


def _default_ms(defaults: Mapping[str, str]) -> int | None:
    """The brokers' retention: the finest unit that is set counts."""
    for key, unit in (("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)):
        number = _number(defaults.get(key))
        if number is not None:
            return number * unit if number >= 0 else number
    return None


def _limit(number: int | None) -> int | None:
    return None if number is None or number < 0 else number


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
