"""What a broker asks of single settings of its own beyond their definitions: a port of `KafkaConfig.validateValues`.

A running broker asks more of a change than a starting one of its file: connection limits above 0, and thread pools
that at most double or halve.
"""

from collections.abc import Callable, Mapping

from kafkakit.rules.declared import SetValue
from kafkakit.rules.effective import TIME_FORMS, BrokerConfig, to_int, to_items
from kafkakit.rules.subjects import LintBroker
from kafkakit.rules.values import duplicates

_FORM_OF = {form: (forms[0][0], factor) for forms in TIME_FORMS.values() for form, factor in forms}
_LEAST_MS = {"log.roll.ms": 1, "log.roll.jitter.ms": 0}
_QUOTAS = ("max.connections", "max.connection.creation.rate")
_CODECS = range(5)
MOST_SNAPSHOT_UPDATES = 500
"""Of a share coordinator; part of the definition since 4.3."""
_POOLS = (
    "num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads",
    "log.cleaner.threads", "num.network.threads", "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)  # fmt: skip


def broker_problem(broker: LintBroker, value: SetValue) -> str | None:
    """Why the broker refuses a value that its definition accepts, or None; it completes "KEY is TEXT, which".

    What a running broker asks of a change of its thread pools is known only with its current values.
    """
    check = _CHECKS.get(value.key)
    problem = check(broker.config, value) if check is not None else None
    if problem is None and value.is_dynamic:
        problem = _change_problem(broker, value)
    return problem


def _time_problem(config: BrokerConfig, value: SetValue) -> str | None:
    """Of several forms of a time the strongest one that is set counts."""
    kind, factor = _FORM_OF[value.key]
    number = to_int(value.text)
    if number is None:
        return None
    for form, _ in TIME_FORMS[kind]:
        if form == value.key:
            break
        if config.declared(form) is not None:
            return None
    if kind == "log.retention.ms":
        return "is 0: retention has to be -1 (unlimited) or at least 1" if number == 0 else None
    return f"has to be at least {_LEAST_MS[kind]}" if number * factor < _LEAST_MS[kind] else None


def _codec_problem(config: BrokerConfig, value: SetValue) -> str | None:
    number = to_int(value.text)
    unknown = number is not None and number not in _CODECS
    return "is no codec: 0 to 4 are none, gzip, snappy, lz4 and zstd" if unknown else None


def _ip_limit_problem(config: BrokerConfig, value: SetValue) -> str | None:
    has_overrides = bool(config.text("max.connections.per.ip.overrides").strip())
    return "is 0 without max.connections.per.ip.overrides" if to_int(value.text) == 0 and not has_overrides else None


def _ip_overrides_problem(config: BrokerConfig, value: SetValue) -> str | None:
    wrong = next((item for item in to_items(value.text) if not _is_ip_override(item)), None)
    return None if wrong is None else f"has the item {wrong!r:.60}, which is no host:count"


def _is_ip_override(item: str) -> bool:
    host, _, count = item.rpartition(":")
    return bool(host) and to_int(count) is not None and all(c.isalnum() or c in "-._:%" for c in host)


def _protocols_problem(config: BrokerConfig, value: SetValue) -> str | None:
    return None if "classic" in to_items(value.text) else "lacks classic, which cannot be left out"


def _snapshot_problem(config: BrokerConfig, value: SetValue) -> str | None:
    number = to_int(value.text)
    return "is above 500" if number is not None and number > MOST_SNAPSHOT_UPDATES else None


def _tags_problem(config: BrokerConfig, value: SetValue) -> str | None:
    twice = duplicates(to_items(value.text))
    return f"has {twice[0]!r:.60} twice" if twice else None


def _change_problem(broker: LintBroker, value: SetValue) -> str | None:
    wanted = to_int(value.text)
    if value.base in _QUOTAS:
        return "is 0, which a running broker refuses" if wanted == 0 else None
    if value.key not in _POOLS or broker.current is None or wanted is None:
        return None
    now = to_int(broker.current.get(value.key, ""))
    if now is None or wanted == now or (wanted >= 1 and now // 2 <= wanted <= now * 2):
        return None
    return f"is more than a running broker accepts in one step: from {now} it goes to {now // 2} to {now * 2}"


_CHECKS: Mapping[str, Callable[[BrokerConfig, SetValue], str | None]] = {
    **{form: _time_problem for form, (kind, _) in _FORM_OF.items() if kind != "log.flush.interval.ms"},
    "offsets.topic.compression.codec": _codec_problem,
    "share.coordinator.state.topic.compression.codec": _codec_problem,
    "max.connections.per.ip": _ip_limit_problem,
    "max.connections.per.ip.overrides": _ip_overrides_problem,
    "group.coordinator.rebalance.protocols": _protocols_problem,
    "share.coordinator.snapshot.update.records.per.snapshot": _snapshot_problem,
    "group.streams.rack.aware.assignment.tags": _tags_problem,
}
CHECKED = frozenset({*_CHECKS, *_POOLS, *_QUOTAS})
"""The keys that `broker_problem` may hold something against."""
