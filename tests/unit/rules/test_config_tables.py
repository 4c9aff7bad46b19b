"""The shipped configuration tables: complete, consistent, and as the reference has them."""

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.rules.config_defs import MINORS, Scope, UpdateMode, ValueType, config_table, minor_of


@pytest.mark.parametrize("minor", MINORS)
def test_every_version_has_a_table(minor: str) -> None:
    table = config_table(minor)
    assert table.version == minor
    assert len(table.topic) >= 33
    assert len(table.broker) >= 300
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

    def minimum(minor: str, scope: Scope, key: str) -> float | None:
        found = config_table(minor).find(scope, key)
        assert found is not None
        return found.minimum

    assert len(config_table("3.9").topic) == 36
    assert topic("3.9", "message.format.version")
    assert not topic("4.0", "message.format.version")
    assert [minimum(m, Scope.TOPIC, "segment.bytes") for m in MINORS[:3]] == [14, 14, 1048576]
    assert [minimum(m, Scope.BROKER, "log.segment.bytes") for m in MINORS[:2]] == [14, 1048576]
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
    ("version", "minor"), [("3.9.2", "3.9"), ("v4.1", "4.1"), ("2.8", "3.9"), ("4.4.0-rc1", "4.4"), ("5.0", "4.4")]
)
def test_the_table_of_a_version(version: str, minor: str) -> None:
    assert minor_of(version) == minor


@pytest.mark.parametrize("text", ["", "4", "four.one", "4.x"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(UsageError):
        minor_of(text)
