"""Verdicts on single values: each is judged once for each key, text and version, not at every topic.

Ten thousand topics set the same few values: a rule about single values looks at the verdicts of its subject, of which
most have none. A value that is set at one topic or broker is reported once, although many brokers may share a file.

What a broker asks of settings beyond their definitions is a port of `KafkaConfig.validateValues`. A running broker asks
more of a change than a starting one of its file: connection limits above 0, and thread pools that at most double or
halve.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import count_of, format_span
from kafkakit.rules.config_defs import (
    MINORS,
    ConfigDef,
    ConfigTable,
    KeyScope,
    ValueType,
    added_in,
    config_table,
    is_plugin_key,
    is_zookeeper_key,
    minors_between,
    nearest_key,
    removed_in,
)
from kafkakit.rules.effective import TIME_FORMS, BrokerConfig, DeclaredValue, ValueSource, to_int, to_items, to_pairs
from kafkakit.rules.rule import Edit, Violation
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic
from kafkakit.rules.values import (
    duplicates,
    is_secret_key,
    is_unresolved,
    parse_value,
    problem_of,
    range_problem,
    type_problem,
)

SECONDS_A_DAY = 86_400
MAX_DAYS = 90
SMALL_BYTES = 10_000
MEBIBYTE = 2**20


class UnknownKey(NamedTuple):
    """A key that the version does not have: what it is not, and the key that was probably meant."""

    what: str
    nearest: str | None


class Suspicion(NamedTuple):
    """A value that looks as if it were in another unit, and what it would be."""

    what: str
    wanted: str | None


class ValueVerdict(NamedTuple):
    """What rules of single values hold against a value; `is_broker_checked` where a broker compares it with others."""

    unknown: UnknownKey | None = None
    wrong_type: str | None = None
    out_of_range: str | None = None
    is_broker_checked: bool = False
    removed_in: str | None = None
    deprecated_in: str | None = None
    refused_later: str | None = None
    repeated: tuple[str, ...] = ()
    suspicion: Suspicion | None = None


class SetValue(NamedTuple):
    """One value as it is set, with its definition, which is None for a key that the version does not know.

    `base` is the key without the prefix of a listener.
    """

    key: str
    base: str
    declared: DeclaredValue
    definition: ConfigDef | None

    @property
    def text(self) -> str:
        """The value as written."""
        return self.declared.text

    @property
    def is_dynamic(self) -> bool:
        """True for a value of a broker's dynamic configuration."""
        return self.declared.source in DYNAMIC

    @property
    def is_ignored(self) -> bool:
        """True for a key in a broker's file that exists in dynamic configuration only."""
        return not self.is_dynamic and self.definition is not None and "dynamic-only" in self.definition.rules

    @property
    def shown(self) -> str:
        """The value for a message, with a blank before it; nothing for a secret."""
        hidden = self.definition is not None and self.definition.is_sensitive
        return "" if hidden or is_secret_key(self.key) else f" {self.text!r:.60}"

    def violation(
        self,
        message: str,
        *,
        severity: Severity | None = None,
        refused: bool = False,
        expected: str | None = None,
        edits: tuple[Edit, ...] = (),
    ) -> Violation:
        """A violation at this value."""
        return Violation(
            message=message,
            key=self.key,
            place=self.declared.place,
            observed=self.text,
            severity=severity,
            expected=expected,
            edits=edits,
            refused=refused,
            subject=self.declared.source.value if self.is_dynamic else "",
        )


DYNAMIC = (ValueSource.DYNAMIC_BROKER, ValueSource.DYNAMIC_DEFAULT)
_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
# What a SASL listener's keys end with after the mechanism (`listener.name.x.plain.sasl.jaas.config`).
_MECHANISM_KEYS = (
    "sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.server.callback.handler.class", "connections.max.reauth.ms",
)  # fmt: skip

_CLEAN = ValueVerdict()
Judged = tuple[tuple[SetValue, ValueVerdict], ...]


def judge_values(subject: LintTopic | LintBroker, cluster: LintCluster) -> Judged:
    """The values that are set at a topic or broker of which something is to be said, worked out once."""
    known = cluster.judged.get(id(subject))
    if known is None or known[0] is not subject:
        known = cluster.judged[id(subject)] = (subject, _judge_values(subject, cluster))
    found: Judged = known[1]
    return found


def _judge_values(subject: LintTopic | LintBroker, cluster: LintCluster) -> Judged:
    table = table_of(subject)
    minor, target = table.version, cluster.target.version if cluster.target is not None else table.version
    found = []
    if isinstance(subject, LintTopic):
        for key, declared in subject.config.overrides.items():
            verdict = _of_mapped(judge(KeyScope.TOPIC, minor, target, key, declared.text), cluster)
            if verdict is not None:
                found.append((SetValue(key, key, declared, table.topic.get(key)), verdict))
    else:
        for key, declared in own_values(subject, cluster):
            verdict = _of_mapped(judge(KeyScope.BROKER, minor, target, key, declared.text), cluster)
            if verdict is not None:
                base = base_key(key)
                found.append((SetValue(key, base, declared, table.broker.get(base)), verdict))
    return tuple(found)


def _of_mapped(verdict: ValueVerdict | None, cluster: LintCluster) -> ValueVerdict | None:
    """The verdict without what the table of another version cannot tell: which keys there are."""
    if verdict is None or not cluster.is_version_mapped:
        return verdict
    kept = verdict._replace(removed_in=None, deprecated_in=None, unknown=None)
    return None if kept == _CLEAN else kept


@lru_cache(2**17)
def judge(scope: KeyScope, minor: str, target: str, key: str, text: str) -> ValueVerdict | None:
    """The verdict on a value in a version and in the one to upgrade to; None when there is nothing to say."""
    base = key if scope is KeyScope.TOPIC else base_key(key)
    definition = definition_of(scope, minor, key)
    gone = None if scope is KeyScope.BROKER and is_zookeeper_key(base) else _removed_since(scope, minor, target, base)
    verdict = ValueVerdict(
        removed_in=gone, deprecated_in=_deprecated_since(scope, minor, target, key) if gone is None else None
    )
    if definition is None:
        verdict = verdict._replace(unknown=_unknown(scope, minor, base) if gone is None else None)
    else:
        wrong = type_problem(definition, text)
        verdict = verdict._replace(
            wrong_type=wrong,
            out_of_range=range_problem(definition, text) if wrong is None else None,
            is_broker_checked=scope is KeyScope.BROKER and base in CHECKED,
            refused_later=_refused_later(definition, definition_of(scope, target, key), text),
            repeated=_repeated_items(definition, text),
            suspicion=_suspicion(definition, key, text),
        )
    return None if verdict == _CLEAN else verdict


def _removed_since(scope: KeyScope, minor: str, target: str, base: str) -> str | None:
    return removed_in(scope, base, minor) or removed_in(scope, base, target)


def _deprecated_since(scope: KeyScope, minor: str, target: str, key: str) -> str | None:
    for version in (minor, target):
        definition = definition_of(scope, version, key)
        if definition is not None and definition.deprecated:
            return version
    return None


def _unknown(scope: KeyScope, minor: str, base: str) -> UnknownKey | None:
    if scope is KeyScope.BROKER and (is_plugin_key(base) or is_zookeeper_key(base)):
        return None
    later = added_in(scope, base)
    what = f"a {scope.value} setting in Kafka {minor}"
    return (
        UnknownKey(what, nearest_key(scope, base, minor))
        if later is None
        else UnknownKey(f"{what}, {_since_text(later)}", None)
    )


def _since_text(first: str) -> str:
    """Since when there is a key whose first table is known: versions before may have no table."""
    before = MINORS[max(MINORS.index(first) - 1, 0)]
    return f"only since {first}" if minors_between(before, first) <= 1 else f"but in {first}"


def _refused_later(now: ConfigDef, then: ConfigDef | None, text: str) -> str | None:
    if then is None or then is now or problem_of(now, text) is not None:
        return None
    return problem_of(then, text)


def _repeated_items(definition: ConfigDef, text: str) -> tuple[str, ...]:
    if definition.type is not ValueType.LIST or "," not in text:
        return ()
    items = parse_value(ValueType.LIST, text).value
    return items if isinstance(items, tuple) and duplicates(items) else ()


def _suspicion(definition: ConfigDef, key: str, text: str) -> Suspicion | None:
    number = to_int(text) if key.endswith((".ms", ".bytes")) else None
    if number is None or number <= 0:
        return None
    if key.endswith(".ms"):
        days, rest = divmod(number, SECONDS_A_DAY)
        if rest != 0 or not 1 <= days <= MAX_DAYS:
            return None
        what = f"{number} ms, which is {format_span(number / 1000)}; in seconds it would be {count_of(days, 'day')}"
        return Suspicion(what, str(number * 1000))
    default = to_int(definition.default or "") or 0
    if number >= SMALL_BYTES or default < MEBIBYTE:
        return None
    return Suspicion(f"{number} bytes, but Kafka's default is {default}: a unit may have been lost", None)


def table_of(subject: LintTopic | LintBroker) -> ConfigTable:
    """The configuration table of the version that a subject runs."""
    return subject.config.broker.table if isinstance(subject, LintTopic) else subject.config.table


def base_key(key: str) -> str:
    """A broker key without the prefix of a listener: what its definition is listed under."""
    if not key.startswith("listener.name."):
        return key
    matched = _LISTENER.fullmatch(key)
    if matched is None:
        return key
    return next((k for k in _MECHANISM_KEYS if matched[1].endswith(k)), matched[1])


def own_values(subject: LintBroker, cluster: LintCluster) -> Iterator[tuple[str, DeclaredValue]]:
    """Every value that is set at a broker, with its key.

    Values that it shares with the first broker of the cluster, from one place of a file or as the dynamic default,
    come with the first one only.
    """
    first = cluster.brokers[0] if cluster.brokers else subject
    config, shared = subject.config, first.config
    if subject is first:
        yield from config.all_declared()
        return
    for layer, of_first in ((config.static, shared.static), (config.dynamic, shared.dynamic)):
        for key, declared in layer.items():
            if declared.place is None or of_first.get(key) != declared:
                yield key, declared
    for key, declared in config.dynamic_default.items():
        if shared.dynamic_default.get(key) != declared:
            yield key, declared


def definition_of(scope: KeyScope, minor: str, key: str) -> ConfigDef | None:
    """The definition of a key as it is set, with the prefix of a listener or without."""
    return config_table(minor).find(scope, key if scope is KeyScope.TOPIC else base_key(key))


_FORM_OF = {form: (forms[0][0], factor) for forms in TIME_FORMS.values() for form, factor in forms}
_LEAST_MS = {"log.roll.ms": 1, "log.roll.jitter.ms": 0}
_QUOTAS = ("max.connections", "max.connection.creation.rate")
_CODECS = range(5)
MOST_SNAPSHOT_UPDATES = 500
"""Of a share coordinator; part of the definition since 4.3."""
POOLS = (
    "num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads",
    "log.cleaner.threads", "num.network.threads", "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)  # fmt: skip
"""Thread pools of which a running broker accepts at least half and at most double of what it runs with."""


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
    return "is not a codec: 0 to 4 are none, gzip, snappy, lz4 and zstd" if unknown else None


def _compression_problem(config: BrokerConfig, value: SetValue) -> str | None:
    """Up to 3.2 brokers check it beside their definitions, in small letters."""
    if value.definition is None or value.definition.one_of or is_unresolved(value.definition, value.text):
        return None
    wanted = config.table.topic["compression.type"].one_of
    known = value.text.strip().lower() in wanted
    return None if known else f"is not one of the accepted values ({', '.join(wanted)})"


def _ip_limit_problem(config: BrokerConfig, value: SetValue) -> str | None:
    has_overrides = bool(config.text("max.connections.per.ip.overrides").strip())
    return "is 0 without max.connections.per.ip.overrides" if to_int(value.text) == 0 and not has_overrides else None


def _ip_overrides_problem(config: BrokerConfig, value: SetValue) -> str | None:
    wrong = next((item for item in to_pairs(value.text) if not _is_ip_override(item)), None)
    return None if wrong is None else f"has the item {wrong!r:.60}, which is not host:count"


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
    if value.key not in POOLS or broker.current is None or wanted is None:
        return None
    now = to_int(broker.current.get(value.key, ""))
    if now is None or wanted == now or (wanted >= 1 and now // 2 <= wanted <= now * 2):
        return None
    return f"is more than a running broker accepts in one step: from {now} it goes to {now // 2} to {now * 2}"


_CHECKS: Mapping[str, Callable[[BrokerConfig, SetValue], str | None]] = {
    **{form: _time_problem for form, (kind, _) in _FORM_OF.items() if kind != "log.flush.interval.ms"},
    "offsets.topic.compression.codec": _codec_problem,
    "share.coordinator.state.topic.compression.codec": _codec_problem,
    "compression.type": _compression_problem,
    "max.connections.per.ip": _ip_limit_problem,
    "max.connections.per.ip.overrides": _ip_overrides_problem,
    "group.coordinator.rebalance.protocols": _protocols_problem,
    "share.coordinator.snapshot.update.records.per.snapshot": _snapshot_problem,
    "group.streams.rack.aware.assignment.tags": _tags_problem,
}
CHECKED = frozenset({*_CHECKS, *POOLS, *_QUOTAS})
"""The keys that `broker_problem` may hold something against."""
