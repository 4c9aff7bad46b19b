"""Rules of single keys and values at their boundaries, with the fixes that they offer."""

import pytest

from kafkakit.core.findings import Severity
from kafkakit.rules.config_defs import MINORS, Scope, added_in, config_table, default_changes, nearest_key, removed_in
from kafkakit.rules.rule import Limits
from tests.rigs.lint_examples import EXAMPLE_FILE, outcome_of
from tests.rigs.rule_cases import SKIPPED, findings, rule_of, verdict


def topic(config: str, version: str = "4.3", target: str = "") -> str:
    wanted = f"target_version: '{target}'\n" if target else ""
    return f"version: '{version}'\n{wanted}topics: [{{name: a, config: {{{config}}}}}]\n"


def broker(config: str, version: str = "4.3", target: str = "", dynamic: str = "", more: str = "") -> str:
    wanted = f"target_version: '{target}'\n" if target else ""
    return f"version: '{version}'\n{wanted}brokers: [{{id: 1, config: {{{config}}}, dynamic: {{{dynamic}}}{more}}}]\n"


def edits(code: str, text: str) -> list[tuple[str, str | None, str | None, bool]]:
    found = outcome_of({EXAMPLE_FILE: text}, rules=[rule_of(code)], limits=Limits(strict=True))
    return [(e.key, e.value, e.rename, e.is_safe) for checked in found.checked for e in checked.edits]


def refused(code: str, text: str) -> list[bool]:
    found = outcome_of({EXAMPLE_FILE: text}, rules=[rule_of(code)], limits=Limits(strict=True))
    return [checked.refused for checked in found.checked]


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKV001", topic("retention.msec: '1'"), 1),
        ("KKV001", topic("log.retention.ms: '1'"), 1),
        ("KKV001", topic("remote.copy.lag.ms: '1'", "4.3"), 1),
        ("KKV001", topic("remote.copy.lag.ms: '1'", "4.4"), 0),
        ("KKV001", topic("message.format.version: '3.0'", "4.0"), 0),
        ("KKV001", broker("log.retention.hour: '1'"), 1),
        ("KKV001", broker("listener.name.external.ssl.client.auth: required"), 0),
        ("KKV001", broker("listener.name.external.plain.sasl.jaas.config: '${file:/a:b}'"), 0),
        ("KKV001", broker("listener.name.external.ssl.client.autth: required"), 1),
        ("KKV001", broker("confluent.support.metrics.enable: 'true'"), 0),
        ("KKV001", broker("super.users: 'User:admin'"), 0),
        ("KKV001", broker("config.providers: env, config.providers.env.class: a.B", "3.9"), 0),
        ("KKV001", broker("zookeeper.connect: 'a:2181'"), 0),
        ("KKV001", broker("retention.ms: '1'"), 1),
        ("KKV002", topic("retention.ms: 7d"), 1),
        ("KKV002", topic("preallocate: 'TRUE'"), 0),
        ("KKV002", topic("preallocate: 'yes'"), 1),
        ("KKV002", topic("unknown.key: 7d"), 0),
        ("KKV002", broker("log.retention.ms: ''"), 1),
        ("KKV002", broker("log.retention.ms: '{{ hours }}'"), 0),
        ("KKV002", broker("leader.replication.throttled.rate: fast"), 0),
        ("KKV002", broker("", dynamic="leader.replication.throttled.rate: fast"), 1),
        ("KKV003", topic("segment.bytes: '1048575'"), 1),
        ("KKV003", topic("segment.bytes: '1048576'"), 0),
        ("KKV003", topic("segment.bytes: '1048575'", "4.0"), 0),
        ("KKV003", topic("segment.bytes: big"), 0),
        ("KKV003", broker("log.retention.hours: '0'"), 1),
        ("KKV003", broker("log.retention.hours: '0', log.retention.ms: '1000'"), 0),
        ("KKV003", broker("log.retention.ms: '-5'"), 0),
        ("KKV003", broker("log.roll.ms: '0'"), 1),
        ("KKV003", broker("log.roll.jitter.ms: '-1'"), 1),
        ("KKV003", broker("max.connections.per.ip: '0'"), 1),
        ("KKV003", broker("max.connections.per.ip: '0', max.connections.per.ip.overrides: '10.0.0.1:5'"), 0),
        ("KKV003", broker("max.connections.per.ip.overrides: '10.0.0.1'"), 1),
        ("KKV003", broker("offsets.topic.compression.codec: '5'"), 1),
        ("KKV003", broker("group.coordinator.rebalance.protocols: consumer"), 1),
        ("KKV003", broker("max.connections: '0'"), 0),
        ("KKV003", broker("", dynamic="max.connections: '0'"), 1),
        ("KKV004", topic("message.format.version: '3.0'", "3.9"), 0),
        ("KKV004", topic("message.format.version: '3.0'", "4.0"), 1),
        ("KKV004", topic("message.format.version: '3.0'", "3.9", "4.0"), 1),
        ("KKV004", topic("max.decompressed.message.bytes: '1'", "4.3"), 0),
        ("KKV004", broker("zookeeper.connect: 'a:2181'", "4.0"), 0),
        ("KKV004", broker("log.message.format.version: '3.0'", "4.0"), 1),
        ("KKV004", broker("password.encoder.secret: '${file:/a:b}'", "4.0"), 1),
        ("KKV004", broker("advertised.host.name: a", "3.9"), 1),
        ("KKV005", broker("log.cleaner.enable: 'true'", "4.0"), 0),
        ("KKV005", broker("log.cleaner.enable: 'true'", "4.1"), 1),
        ("KKV005", broker("log.cleaner.enable: 'true'", "4.0", "4.1"), 1),
        ("KKV006", topic("segment.bytes: '1000'", "3.9", "4.0"), 0),
        ("KKV006", topic("segment.bytes: '1000'", "3.9", "4.1"), 1),
        ("KKV006", topic("segment.bytes: '1000'", "4.1", "4.2"), 0),
        ("KKV006", broker("log.segment.bytes: '1000'", "3.9", "4.0"), 1),
        ("KKV006", broker("metadata.log.segment.bytes: '1048576'", "4.0", "4.1"), 1),
        ("KKV006", broker("num.replica.fetchers: '0'", "4.1", "4.2"), 1),
        ("KKV006", broker("remote.log.manager.copier.thread.pool.size: '-1'", "3.9", "4.0"), 1),
        ("KKV007", broker("log.dirs: /d", "4.0", "4.0"), 0),
        ("KKV007", "version: '3.9'\ntarget_version: '4.0'\ntopics: [{name: a}]", SKIPPED),
        ("KKV008", broker("log.retention.ms: '1', log.retention.minutes: '1', log.retention.hours: '1'"), 2),
        ("KKV008", broker("log.retention.minutes: '1', log.retention.hours: '1'"), 1),
        ("KKV008", broker("log.roll.hours: '1', log.retention.hours: '1'"), 0),
        ("KKV008", broker("log.flush.interval.ms: '1', log.flush.scheduler.interval.ms: '1'"), 0),
        ("KKV008", broker("log.dirs: /a, log.dir: /b"), 1),
        ("KKV008", broker("log.retention.hours: '1'", dynamic="log.retention.ms: '1'"), 0),
        ("KKV009", topic("retention.ms: '1'"), SKIPPED),
        ("KKV009", broker("") + "topics: [{name: a, config: {retention.ms: ' 604800000'}}]", 1),
        ("KKV009", broker("") + "topics: [{name: a, config: {retention.ms: '604800001'}}]", 0),
        ("KKV009", broker("") + "topics: [{name: a, config: {preallocate: 'FALSE', segment.ms: '604800000'}}]", 1),
        ("KKV010", broker("", dynamic="log.retention.hours: '1'"), 1),
        ("KKV010", broker("", dynamic="log.retention.ms: '1'"), 0),
        ("KKV010", broker("", dynamic="ssl.keystore.type: JKS"), 1),
        ("KKV010", broker("", dynamic="listener.name.external.ssl.keystore.type: JKS"), 0),
        ("KKV010", broker("leader.replication.throttled.rate: '1'"), 1),
        ("KKV010", "defaults: {ssl.client.auth: none}\nbrokers: [{id: 1}]", 1),
        ("KKV010", "defaults: {max.connections: '10'}\nbrokers: [{id: 1}]", 0),
        ("KKV010", "defaults: {listener.name.x.max.connections: '10'}\nbrokers: [{id: 1}]", 0),
        ("KKV010", "defaults: {listener.name.x.ssl.client.auth: none}\nbrokers: [{id: 1}]", 1),
        ("KKV010", "defaults: {log.retention.hours: '1'}\nbrokers: [{id: 1}, {id: 2}, {id: 3}]", 1),
        ("KKV010", broker("num.partitions: '3'", "4.3"), 0),
        ("KKV010", broker("num.partitions: '3', process.roles: broker", "4.3"), 1),
        ("KKV010", broker("num.partitions: '3', process.roles: broker", "4.2"), 0),
        ("KKV010", broker("create.topic.policy.class.name: a.B, process.roles: broker", "4.0"), 1),
        (
            "KKV010",
            broker("num.partitions: '3', process.roles: 'broker,controller'", more=", roles: [broker, controller]"),
            0,
        ),
        ("KKV012", topic("cleanup.policy: 'delete,delete'"), 1),
        ("KKV012", topic("cleanup.policy: 'delete,compact'"), 0),
        ("KKV012", topic("compression.type: 'a,a'"), 0),
        ("KKV013", topic("retention.ms: '604800'"), 1),
        ("KKV013", topic("retention.ms: '86400'"), 1),
        ("KKV013", topic("retention.ms: '7776000'"), 1),
        ("KKV013", topic("retention.ms: '7862400'"), 0),
        ("KKV013", topic("retention.ms: '86401'"), 0),
        ("KKV013", topic("retention.ms: '-1'"), 0),
        ("KKV013", topic("segment.bytes: '1024'"), 1),
        ("KKV013", topic("segment.bytes: '10000'"), 0),
        ("KKV013", topic("index.interval.bytes: '1024'"), 0),
        ("KKV015", "topics: [{name: 'a b'}]", 1),
        ("KKV015", f"topics: [{{name: {'a' * 249}}}]", 0),
        ("KKV015", f"topics: [{{name: {'a' * 250}}}]", 1),
        ("KKV015", "topics: [{name: '..'}]", 1),
        ("KKV015", "topics: [{name: a.b_c-d}]", 0),
        ("KKV016", "topics: [{name: a.b}, {name: a_b}, {name: a-b}]", 1),
        ("KKV016", "topics: [{name: a.b.c}, {name: a_b.c}, {name: a.b_c}]", 2),
    ],
)
def test_boundaries(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text, Limits(strict=True)) == expected


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKV001", topic("retention.msec: '1'"), [True]),
        ("KKV001", broker("log.retention.hour: '1'"), [False]),
        ("KKV004", topic("message.format.version: '3.0'", "4.0"), [True]),
        ("KKV004", topic("message.format.version: '3.0'", "3.9", "4.0"), [False]),
        ("KKV010", broker("num.partitions: '3', process.roles: broker"), [False]),
        ("KKV010", broker("", dynamic="log.retention.hours: '1'"), [True]),
        ("KKV012", topic("cleanup.policy: 'delete,delete'"), [False]),
        ("KKV012", broker("", "4.2", dynamic="log.cleanup.policy: 'delete,delete'"), [True]),
        ("KKV012", broker("", "4.1", dynamic="log.cleanup.policy: 'delete,delete'"), [False]),
    ],
)
def test_what_brokers_refuse(code: str, text: str, expected: list[bool]) -> None:
    assert refused(code, text) == expected


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKV001", topic("retention.msec: '1'"), [("retention.msec", None, "retention.ms", False)]),
        ("KKV001", topic("log.retention.ms: '1'"), [("log.retention.ms", None, "retention.ms", False)]),
        ("KKV001", broker("segment.ms: '1'"), [("segment.ms", None, "log.roll.ms", False)]),
        ("KKV001", topic("zzz: '1'"), []),
        ("KKV004", topic("message.format.version: '3.0'", "4.0"), [("message.format.version", None, None, True)]),
        (
            "KKV004",
            topic("message.timestamp.difference.max.ms: '9'", "3.9", "4.0"),
            [
                ("message.timestamp.after.max.ms", "9", None, True),
                ("message.timestamp.difference.max.ms", None, "message.timestamp.before.max.ms", True),
            ],
        ),
        ("KKV005", broker("log.cleaner.enable: 'true'"), [("log.cleaner.enable", None, None, True)]),
        ("KKV005", broker("log.cleaner.enable: 'false'"), []),
        ("KKV005", broker("broker.id: '1'", "4.4"), [("broker.id", None, "node.id", False)]),
        ("KKV006", topic("segment.bytes: '1000'", "3.9", "4.1"), [("segment.bytes", "1048576", None, False)]),
        (
            "KKV008",
            broker("log.retention.ms: '1', log.retention.hours: '1'"),
            [("log.retention.hours", None, None, True)],
        ),
        (
            "KKV012",
            topic("cleanup.policy: 'delete, compact,delete'"),
            [("cleanup.policy", "delete,compact", None, True)],
        ),
        ("KKV013", topic("retention.ms: '604800'"), [("retention.ms", "604800000", None, False)]),
    ],
)
def test_fixes(code: str, text: str, expected: list[tuple[str, str | None, str | None, bool]]) -> None:
    assert edits(code, text) == expected


def test_an_unknown_broker_key_is_a_warning_that_names_the_likely_one() -> None:
    (found,) = findings("KKV001", broker("log.retention.hour: '24'"))
    assert found.severity is Severity.WARNING
    assert "log.retention.hours was probably meant" in found.message


def test_a_secret_value_is_in_no_message() -> None:
    text = broker("listener.name.x.ssl.keystore.password: hunter2, ssl.client.auth: hunter3")
    assert not any("hunter2" in f.message for code in ("KKV001", "KKV002", "KKV003") for f in findings(code, text))


def test_the_changed_defaults_of_an_upgrade() -> None:
    changes = {change.key: (change.before, change.after, change.since) for change in default_changes("3.9", "4.4")}
    assert changes["num.recovery.threads.per.data.dir"] == ("1", "2", "4.0")
    assert changes["log.message.timestamp.after.max.ms"] == ("9223372036854775807", "3600000", "4.0")
    assert changes["group.coordinator.append.linger.ms"] == ("10", "-1", "4.2")
    assert "group.consumer.assignors" not in changes
    assert default_changes("4.3", "4.3") == ()


def test_what_was_removed_and_added() -> None:
    assert removed_in(Scope.TOPIC, "message.format.version", "4.4") == "4.0"
    assert removed_in(Scope.TOPIC, "message.format.version", "3.9") is None
    assert removed_in(Scope.BROKER, "group.coordinator.new.enable", "4.1") == "4.1"
    assert removed_in(Scope.BROKER, "port", "3.9") == "3.0"
    assert removed_in(Scope.BROKER, "no.such.key", "4.4") is None
    assert added_in(Scope.TOPIC, "remote.copy.lag.ms") == "4.4"


@pytest.mark.parametrize("minor", MINORS)
def test_the_nearest_key_exists(minor: str) -> None:
    table = config_table(minor)
    for key in (d.name for d in table.topic.values() if not d.internal):
        near = nearest_key(Scope.BROKER, key, minor)
        assert near is None or near in table.broker
        assert nearest_key(Scope.TOPIC, key + "s", minor) in table.topic
