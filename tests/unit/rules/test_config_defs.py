"""Rules of single keys and values at their boundaries, with the fixes that they offer.

Pairs of settings that brokers refuse, at their boundaries; tiered topics; bounds of groups in every version. A sound
production cluster with Kafka's defaults has no finding of a core rule, on any version. The shipped configuration
tables. Every configuration key that a rule names exists in some version of Kafka, or is known to be another program's.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Severity
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.config_defs import (
    MINORS,
    KeyScope,
    UpdateMode,
    ValueType,
    added_in,
    config_table,
    default_changes,
    minor_key,
    minor_of,
    minors_between,
    nearest_key,
    removed_in,
)
from kafkakit.rules.families.refused_settings import BOUNDS
from kafkakit.rules.rule import Limits
from tests.places import ROOT
from tests.rigs.lint_examples import EXAMPLE_FILE, codes_of, outcome_of
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


@pytest.mark.parametrize("key", ["port", "host.name", "advertised.port", "advertised.host.name"])
def test_no_fix_gives_the_value_of_a_key_to_one_of_another_form(key: str) -> None:
    assert edits("KKV005", broker(f"{key}: '9093'", "2.8")) == []
    assert edits("KKV004", broker(f"{key}: '9093'", "2.8", "3.0")) == []
    assert edits("KKV004", broker(f"{key}: '9093'", "3.0")) == [(key, None, None, True)]
    if key.startswith("advertised"):
        set_already = broker(f"{key}: '9093', advertised.listeners: 'SSL://b:9093'", "2.8")
        assert edits("KKV005", set_already) == [(key, None, None, False)]


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
    assert [change.key for change in default_changes("2.8", "3.3")] == ["inter.broker.protocol.version"]
    assert "listener.security.protocol.map" not in {change.key for change in default_changes("3.7", "3.8")}


def test_what_was_removed_and_added() -> None:
    assert removed_in(KeyScope.TOPIC, "message.format.version", "4.4") == "4.0"
    assert removed_in(KeyScope.TOPIC, "message.format.version", "3.9") is None
    assert removed_in(KeyScope.BROKER, "group.coordinator.new.enable", "4.1") == "4.1"
    assert removed_in(KeyScope.BROKER, "port", "3.9") == "3.0"
    assert removed_in(KeyScope.BROKER, "port", "2.8") is None
    assert removed_in(KeyScope.BROKER, "log.cleaner.min.cleanable.dirty.ratio", "2.8") == "0.9"
    assert removed_in(KeyScope.BROKER, "no.such.key", "4.4") is None
    assert added_in(KeyScope.TOPIC, "remote.copy.lag.ms") == "4.4"


@pytest.mark.parametrize("minor", MINORS)
def test_the_nearest_key_exists(minor: str) -> None:
    table = config_table(minor)
    for key in (d.name for d in table.topic.values() if not d.internal):
        near = nearest_key(KeyScope.BROKER, key, minor)
        assert near is None or near in table.broker
        assert nearest_key(KeyScope.TOPIC, key + "s", minor) in table.topic


def broker_refused(config: str, version: str = "4.3", dynamic: str = "") -> str:
    return f"version: '{version}'\nbrokers: [{{id: 1, config: {{{config}}}, dynamic: {{{dynamic}}}}}]\n"


def topic_refused(
    config: str, version: str = "4.3", current: str = "", brokers: str = "remote.log.storage.system.enable: 'true'"
) -> str:
    now = f", observed: {{current: {{{current}}}}}" if current else ""
    of_brokers = f"brokers: [{{id: 1, config: {{{brokers}}}}}]\n" if brokers else ""
    return f"version: '{version}'\n{of_brokers}topics: [{{name: a, config: {{{config}}}{now}}}]\n"


TIERED = "remote.storage.enable: 'true'"
LAGS = "log.cleaner.min.compaction.lag.ms: '2', log.cleaner.max.compaction.lag.ms: '1'"


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKC303", topic_refused("min.compaction.lag.ms: '5', max.compaction.lag.ms: '5'"), 0),
        ("KKC303", topic_refused("min.compaction.lag.ms: '6', max.compaction.lag.ms: '5'"), 1),
        ("KKC303", topic_refused("min.compaction.lag.ms: '6'", brokers="log.cleaner.max.compaction.lag.ms: '5'"), 1),
        ("KKC303", topic_refused("min.compaction.lag.ms: '6'", brokers=""), SKIPPED),
        ("KKC303", topic_refused("retention.ms: '6'", brokers=""), 0),
        ("KKC303", broker_refused(LAGS), 1),
        ("KKC308", broker_refused("log.cleaner.dedupe.buffer.size: '1048576'"), 1),
        ("KKC308", broker_refused("log.cleaner.dedupe.buffer.size: '1048577'"), 0),
        ("KKC308", broker_refused("log.cleaner.dedupe.buffer.size: '2097155', log.cleaner.threads: '2'"), 0),
        ("KKC308", broker_refused("log.cleaner.dedupe.buffer.size: '2097153', log.cleaner.threads: '2'"), 1),
        ("KKC308", broker_refused("log.cleaner.threads: '0'"), 1),
        ("KKD116", broker_refused("replica.fetch.wait.max.ms: '15000'"), 0),
        ("KKD116", broker_refused("replica.fetch.wait.max.ms: '15001'"), 1),
        ("KKD116", broker_refused("replica.fetch.wait.max.ms: '30001'"), 1),
        ("KKD117", broker_refused("replica.socket.timeout.ms: '500'"), 0),
        ("KKD117", broker_refused("replica.socket.timeout.ms: '499'"), 1),
        ("KKB508", broker_refused("queued.max.request.bytes: '104857599'"), 1),
        ("KKB508", broker_refused("queued.max.request.bytes: '104857600'"), 0),
        ("KKB508", broker_refused("queued.max.request.bytes: '-1'"), 0),
        ("KKB508", broker_refused("queued.max.request.bytes: '0'"), 0),
        ("KKB509", broker_refused("broker.heartbeat.interval.ms: '4500'"), 0),
        ("KKB509", broker_refused("broker.heartbeat.interval.ms: '4501'"), 1),
        ("KKB514", broker_refused("connections.max.idle.ms: '100'"), 1),
        ("KKB514", broker_refused("connections.max.idle.ms: '101'"), 0),
        ("KKB514", broker_refused("connections.max.idle.ms: '-1'"), 0),
        ("KKG707", broker_refused("group.consumer.session.timeout.ms: '60000'"), 0),
        ("KKG707", broker_refused("group.consumer.session.timeout.ms: '60001'"), 1),
        ("KKG707", broker_refused("group.consumer.heartbeat.interval.ms: '4999'"), 1),
        ("KKG707", broker_refused("group.share.max.share.sessions: '199'", "4.1"), 1),
        ("KKG707", broker_refused("group.share.assignors: 'simple,simple'", "4.3"), 0),
        ("KKG707", broker_refused("group.share.assignors: 'simple,other'", "4.3"), 1),
        ("KKG707", broker_refused("offsets.commit.required.acks: '4'", "3.9"), 1),
        ("KKG707", broker_refused("offsets.commit.required.acks: '3'", "3.9"), 0),
        ("KKT901", topic_refused(f"{TIERED}, cleanup.policy: 'delete'"), 0),
        ("KKT901", topic_refused(f"{TIERED}, cleanup.policy: 'compact,delete'"), 1),
        ("KKT901", topic_refused(f"{TIERED}, cleanup.policy: ''", "4.0"), 0),
        ("KKT901", topic_refused(f"{TIERED}, cleanup.policy: ''", "4.1"), 1),
        ("KKT901", topic_refused(f"{TIERED}, cleanup.policy: ''", "4.2"), 0),
        ("KKT901", topic_refused(f"{TIERED}, cleanup.policy: 'delete,delete'", "4.3"), 0),
        ("KKT901", topic_refused("cleanup.policy: compact"), 0),
        ("KKT902", topic_refused(f"{TIERED}, local.retention.ms: '5', retention.ms: '5'"), 0),
        ("KKT902", topic_refused(f"{TIERED}, local.retention.ms: '6', retention.ms: '5'"), 1),
        ("KKT902", topic_refused(f"{TIERED}, local.retention.ms: '-1', retention.ms: '5'"), 1),
        ("KKT902", topic_refused(f"{TIERED}, local.retention.ms: '-1', retention.ms: '-1'"), 0),
        ("KKT902", topic_refused(f"{TIERED}, local.retention.ms: '-2', retention.ms: '5'"), 0),
        ("KKT902", topic_refused(f"{TIERED}, local.retention.bytes: '6', retention.bytes: '5'"), 1),
        ("KKT902", topic_refused(f"{TIERED}, local.retention.bytes: '6'"), 0),
        ("KKT902", topic_refused(f"{TIERED}, remote.copy.lag.ms: '6', retention.ms: '5'", "4.4"), 1),
        ("KKT902", topic_refused(f"{TIERED}, remote.copy.lag.ms: '5', retention.ms: '5'", "4.4"), 0),
        ("KKT902", topic_refused("local.retention.ms: '6', retention.ms: '5'"), 0),
        ("KKT902", broker_refused("log.local.retention.ms: '6', log.retention.ms: '5'"), 0),
        (
            "KKT902",
            broker_refused(
                "log.local.retention.ms: '6', log.retention.ms: '5', remote.log.storage.system.enable: 'true'"
            ),
            1,
        ),
        ("KKT902", broker_refused("log.retention.ms: '5'", dynamic="log.local.retention.ms: '6'"), 1),
        ("KKT903", topic_refused(TIERED, brokers="log.dirs: /d"), 1),
        ("KKT903", topic_refused(TIERED), 0),
        ("KKT903", topic_refused(TIERED, brokers=""), SKIPPED),
        (
            "KKT904",
            topic_refused(f"{TIERED}, remote.log.copy.disable: 'true', local.retention.ms: '5', retention.ms: '5'"),
            0,
        ),
        (
            "KKT904",
            topic_refused(f"{TIERED}, remote.log.copy.disable: 'true', local.retention.ms: '4', retention.ms: '5'"),
            1,
        ),
        ("KKT904", topic_refused("remote.log.copy.disable: 'true', local.retention.ms: '4', retention.ms: '5'"), 0),
        ("KKT905", topic_refused("remote.storage.enable: 'false'", current=TIERED), 1),
        ("KKT905", topic_refused("retention.ms: '5'", current=TIERED), 1),
        ("KKT905", topic_refused("remote.storage.enable: 'false'", current="retention.ms: '5'"), 0),
        ("KKT905", topic_refused("remote.storage.enable: 'false'"), SKIPPED),
        ("KKT905", topic_refused("retention.ms: '5'"), 0),
    ],
)
def test_boundaries_refused(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text) == expected


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKC303", broker_refused(LAGS), True),
        (
            "KKC303",
            broker_refused("log.cleaner.min.compaction.lag.ms: '2'", dynamic="log.cleaner.max.compaction.lag.ms: '1'"),
            False,
        ),
        ("KKD116", broker_refused("replica.fetch.wait.max.ms: '15001'"), False),
        ("KKD116", broker_refused("replica.fetch.wait.max.ms: '30001'"), True),
        ("KKB509", broker_refused("broker.heartbeat.interval.ms: '4501'"), False),
    ],
)
def test_what_brokers_refuse_refused(code: str, text: str, expected: bool) -> None:
    found = outcome_of({EXAMPLE_FILE: text}, rules=[rule_of(code)])
    assert [checked.refused for checked in found.checked] == [expected]


@pytest.mark.parametrize("minor", MINORS)
def test_the_defaults_are_within_their_bounds(minor: str) -> None:
    table = config_table(minor)
    known = [bound for bound in BOUNDS if bound.lower in table.broker and bound.upper in table.broker]
    assert len(known) >= (12 if minor_key(minor) >= (3, 9) else 8 if minor_key(minor) >= (3, 5) else 1)
    for bound in known:
        low, high = table.broker[bound.lower].default, table.broker[bound.upper].default
        assert low is not None
        assert high is not None
        assert int(low) < int(high) or (int(low) == int(high) and not bound.is_strict), bound


def test_every_bound_is_of_a_key_that_some_version_has() -> None:
    keys = {key for minor in MINORS for key in config_table(minor).broker}
    assert {key for bound in BOUNDS for key in bound[:2]} <= keys


def test_a_heartbeat_may_equal_the_session_in_3_9_only() -> None:
    config = "group.consumer.min.session.timeout.ms: '5000', group.consumer.session.timeout.ms: '5000'"
    assert verdict("KKG707", broker_refused(config, "3.9")) == 0
    assert verdict("KKG707", broker_refused(config, "4.0")) == 1


def test_the_message_names_both_values() -> None:
    (found,) = findings("KKG707", broker_refused("group.consumer.session.timeout.ms: '90000'"))
    assert (
        "group.consumer.session.timeout.ms (90000) is above group.consumer.max.session.timeout.ms (60000)"
        in found.message
    )


CORE = tuple(rule for rule in all_rules() if rule.is_core)
# Rules about defaults that are unsafe in production, with the settings that answer them; KKR218 is about 3.6 to 3.9.
UNSAFE_DEFAULTS = {
    "KKB505": "log.dirs: /var/lib/kafka",
    "KKD108": 'default.replication.factor: "3"',
    "KKD121": 'auto.create.topics.enable: "false"',
    "KKS801": "listeners: 'SSL://:9092'",
    "KKS805": "authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
LIMITED_TIMES = 'log.message.timestamp.after.max.ms: "3600000"'
VOTERS = "'11@c1:9093,12@c2:9093,13@c3:9093'"


def broker_silence(number: int, rack: str, version: str, settings: list[str]) -> str:
    own = [
        "process.roles: broker",
        f'node.id: "{number}"',
        f"broker.rack: {rack}",
        f"controller.quorum.voters: {VOTERS}",
        "controller.listener.names: CONTROLLER",
        "listener.security.protocol.map: 'SSL:SSL,CONTROLLER:SSL'",
        "security.inter.broker.protocol: SSL",
        'min.insync.replicas: "2"',
        *settings,
    ]
    if version in ("3.6", "3.7", "3.8", "3.9"):
        own.append(LIMITED_TIMES)
    # From 4.3 on the controllers' default counts, and brokers warn of their own.
    kept = [s for s in own if version < "4.3" or not s.startswith("default.replication.factor")]
    return f"  - {{id: {number}, rack: {rack}, config: {{{', '.join(kept)}}}}}\n"


def controller(number: int) -> str:
    return (
        f"  - {{id: {number}, roles: [controller], config: {{process.roles: controller, node.id: '{number}', "
        f"controller.quorum.voters: {VOTERS}, controller.listener.names: CONTROLLER, "
        "listeners: 'CONTROLLER://:9093', listener.security.protocol.map: 'CONTROLLER:SSL', "
        "authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer, "
        "log.dirs: /var/lib/kafka, default.replication.factor: '3', min.insync.replicas: '2'}}\n"
    )


TOPICS = """
topics:
  - {name: orders, partitions: 12, replication_factor: 3}
  - {name: payments, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
  - {name: __consumer_offsets, partitions: 50, replication_factor: 3, config: {cleanup.policy: compact}}
"""


def cluster(version: str, left_out: str = "") -> str:
    settings = [text for code, text in UNSAFE_DEFAULTS.items() if code != left_out]
    brokers = "".join(broker_silence(n, rack, version, settings) for n, rack in enumerate("abc", 1))
    return (
        f'kafkakit: cluster\ncluster: prod\nversion: "{version}"\nbrokers:\n{brokers}'
        + "".join(controller(n) for n in (11, 12, 13))
        + TOPICS
    )


LIVE = """
topics:
  - name: orders
    config: {min.insync.replicas: "2"}
    observed:
      age_s: 864000
      idle_s: 1
      partitions:
        - {partition: 0, replicas: [1, 2, 3], isr: [1, 2, 3], leader: 1, bytes: {1: 9000, 2: 9000, 3: 9000}, bytes_s: 1}
        - {partition: 1, replicas: [2, 3, 1], isr: [1, 2, 3], leader: 2, bytes: {1: 9000, 2: 9000, 3: 9000}, bytes_s: 1}
        - {partition: 2, replicas: [3, 1, 2], isr: [1, 2, 3], leader: 3, bytes: {1: 9000, 2: 9000, 3: 9000}, bytes_s: 1}
observed:
  live: true
  moves_running: false
  metadata_behind_days: 0
  features: {metadata.version: 25}
  groups: [{name: billing, topics: [orders], members: 3, time_lag_s: {orders: 5}, byte_lag: {orders: 5}}]
"""


def told(text: str) -> list[str]:
    found = outcome_of({"prod.yaml": text}, rules=CORE, limits=Limits())
    return [f"{c.rule.code} {c.finding.where}: {c.finding.message}" for c in found.checked]


@pytest.mark.parametrize("version", MINORS)
def test_a_sound_cluster_has_no_finding(version: str) -> None:
    assert told(cluster(version)) == []


@pytest.mark.parametrize("version", MINORS)
def test_a_sound_live_cluster_has_no_finding(version: str) -> None:
    assert told(cluster(version).replace(TOPICS, LIVE)) == []


@pytest.mark.parametrize("code", UNSAFE_DEFAULTS)
def test_an_unsafe_default_alone_is_one_rule(code: str) -> None:
    found = outcome_of({"prod.yaml": cluster("4.2", left_out=code)}, rules=CORE)
    assert codes_of(found) - {"KKQ854"} == {code}


def test_the_unbounded_timestamps_of_3_9_are_one_rule() -> None:
    text = cluster("3.9").replace(f", {LIMITED_TIMES}", "")
    assert codes_of(outcome_of({"prod.yaml": text}, rules=CORE)) == {"KKR218"}


@pytest.mark.parametrize("minor", MINORS)
def test_every_version_has_a_table(minor: str) -> None:
    table = config_table(minor)
    assert table.version == minor
    assert len(table.topic) >= 26
    assert len(table.broker) >= 230
    for definition in (*table.topic.values(), *table.broker.values()):
        assert definition.minimum is None or definition.maximum is None or definition.minimum <= definition.maximum


@pytest.mark.parametrize("minor", MINORS)
def test_synonyms_are_broker_keys(minor: str) -> None:
    table = config_table(minor)
    for definition in table.topic.values():
        assert all(synonym in table.broker for synonym in definition.synonyms), definition.name


@pytest.mark.parametrize("minor", MINORS)
def test_keys_that_are_only_dynamic(minor: str) -> None:
    broker = config_table(minor).broker
    assert {name for name, key in broker.items() if "dynamic-only" in key.rules} == {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }


def test_what_changed_between_versions() -> None:
    def topic(minor: str, key: str) -> object:
        return config_table(minor).topic.get(key)

    def minimum(minor: str, scope: KeyScope, key: str) -> float | None:
        found = config_table(minor).find(scope, key)
        assert found is not None
        return found.minimum

    assert len(config_table("3.9").topic) == 36
    assert topic("3.9", "message.format.version")
    assert not topic("4.0", "message.format.version")
    assert [minimum(m, KeyScope.TOPIC, "segment.bytes") for m in ("2.8", "3.9", "4.0", "4.1")] == [
        14,
        14,
        14,
        1048576,
    ]
    assert [minimum(m, KeyScope.BROKER, "log.segment.bytes") for m in ("3.9", "4.0")] == [14, 1048576]
    assert config_table("3.9").broker["num.recovery.threads.per.data.dir"].default == "1"
    assert config_table("4.0").broker["num.recovery.threads.per.data.dir"].default == "2"
    assert config_table("4.2").broker["log.dirs"].type is ValueType.LIST
    assert config_table("4.4").topic["remote.copy.lag.ms"].default == "0"
    assert config_table("4.3").broker["group.coordinator.rebalance.protocols"].deprecated


def test_update_modes_and_secrets() -> None:
    broker = config_table("4.3").broker
    assert broker["log.retention.ms"].update_mode is UpdateMode.CLUSTER_WIDE
    assert broker["log.retention.hours"].update_mode is UpdateMode.READ_ONLY
    assert broker["ssl.client.auth"].update_mode is UpdateMode.PER_BROKER
    assert broker["ssl.keystore.password"].is_sensitive


@pytest.mark.parametrize(
    ("version", "minor"),
    [("3.9.2", "3.9"), ("v4.1", "4.1"), ("2.0", "2.8"), ("3.4.1", "3.3"), ("4.4.0-rc1", "4.4"), ("5.0", "4.4")],
)
def test_the_table_of_a_version(version: str, minor: str) -> None:
    assert minor_of(version) == minor


def test_minor_versions_without_a_table_count() -> None:
    assert minors_between("2.8", "4.0") == 11
    assert (minors_between("3.9", "4.0"), minors_between("4.1", "4.4"), minors_between("3.5", "3.5")) == (1, 3, 0)


@pytest.mark.parametrize("text", ["", "4", "four.one", "4.x"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(UsageError):
        minor_of(text)


FAMILIES = sorted(
    path
    for path in (ROOT / "kafkakit/rules/families").glob("*.py")
    if path.stem != "agent" and not path.stem.startswith("connectors")  # keys of other programs
)
KEY = re.compile(r"[a-z]+(?:\.[a-z0-9]+)+")
KNOWN = frozenset(
    name for minor in MINORS for keys in (config_table(minor).topic, config_table(minor).broker) for name in keys
)
# Keys of clients, authorizers and features, which no broker's table holds.
OTHERS = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "super.users",
        "eligible.leader.replicas.version",
        "metadata.version",
        "delivery.timeout.ms",
        "fetch.max.bytes",
        "max.partition.fetch.bytes",
        "receive.message.max.bytes",
    }
)


def named_keys(path: Path) -> Iterator[str]:
    """The texts of a module that are keys as a whole; docstrings are none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value):
            yield node.value


def exists(key: str) -> bool:
    """True for a key, or the end of one: rules put the ends of group settings together."""
    return key in KNOWN | OTHERS or key.startswith("rlmm.config.") or any(name.endswith(f".{key}") for name in KNOWN)


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_keys_exist(path: Path) -> None:
    assert [key for key in named_keys(path) if not exists(key)] == []
