"""Pairs of settings that brokers refuse, at their boundaries; tiered topics; bounds of groups in every version."""

import pytest

from kafkakit.rules.config_defs import MINORS, config_table
from kafkakit.rules.families.refused import BOUNDS
from tests.rigs.lint_examples import EXAMPLE_FILE, outcome_of
from tests.rigs.rule_cases import SKIPPED, findings, rule_of, verdict


def broker(config: str, version: str = "4.3", dynamic: str = "") -> str:
    return f"version: '{version}'\nbrokers: [{{id: 1, config: {{{config}}}, dynamic: {{{dynamic}}}}}]\n"


def topic(
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
        ("KKC303", topic("min.compaction.lag.ms: '5', max.compaction.lag.ms: '5'"), 0),
        ("KKC303", topic("min.compaction.lag.ms: '6', max.compaction.lag.ms: '5'"), 1),
        ("KKC303", topic("min.compaction.lag.ms: '6'", brokers="log.cleaner.max.compaction.lag.ms: '5'"), 1),
        ("KKC303", topic("min.compaction.lag.ms: '6'", brokers=""), SKIPPED),
        ("KKC303", topic("retention.ms: '6'", brokers=""), 0),
        ("KKC303", broker(LAGS), 1),
        ("KKC308", broker("log.cleaner.dedupe.buffer.size: '1048576'"), 1),
        ("KKC308", broker("log.cleaner.dedupe.buffer.size: '1048577'"), 0),
        ("KKC308", broker("log.cleaner.dedupe.buffer.size: '2097155', log.cleaner.threads: '2'"), 0),
        ("KKC308", broker("log.cleaner.dedupe.buffer.size: '2097153', log.cleaner.threads: '2'"), 1),
        ("KKC308", broker("log.cleaner.threads: '0'"), 1),
        ("KKD116", broker("replica.fetch.wait.max.ms: '15000'"), 0),
        ("KKD116", broker("replica.fetch.wait.max.ms: '15001'"), 1),
        ("KKD116", broker("replica.fetch.wait.max.ms: '30001'"), 1),
        ("KKD117", broker("replica.socket.timeout.ms: '500'"), 0),
        ("KKD117", broker("replica.socket.timeout.ms: '499'"), 1),
        ("KKB508", broker("queued.max.request.bytes: '104857599'"), 1),
        ("KKB508", broker("queued.max.request.bytes: '104857600'"), 0),
        ("KKB508", broker("queued.max.request.bytes: '-1'"), 0),
        ("KKB508", broker("queued.max.request.bytes: '0'"), 0),
        ("KKB509", broker("broker.heartbeat.interval.ms: '4500'"), 0),
        ("KKB509", broker("broker.heartbeat.interval.ms: '4501'"), 1),
        ("KKB514", broker("connections.max.idle.ms: '100'"), 1),
        ("KKB514", broker("connections.max.idle.ms: '101'"), 0),
        ("KKB514", broker("connections.max.idle.ms: '-1'"), 0),
        ("KKG707", broker("group.consumer.session.timeout.ms: '60000'"), 0),
        ("KKG707", broker("group.consumer.session.timeout.ms: '60001'"), 1),
        ("KKG707", broker("group.consumer.heartbeat.interval.ms: '4999'"), 1),
        ("KKG707", broker("group.share.max.share.sessions: '199'", "4.1"), 1),
        ("KKG707", broker("group.share.assignors: 'simple,simple'", "4.3"), 0),
        ("KKG707", broker("group.share.assignors: 'simple,other'", "4.3"), 1),
        ("KKG707", broker("offsets.commit.required.acks: '4'", "3.9"), 1),
        ("KKG707", broker("offsets.commit.required.acks: '3'", "3.9"), 0),
        ("KKT901", topic(f"{TIERED}, cleanup.policy: 'delete'"), 0),
        ("KKT901", topic(f"{TIERED}, cleanup.policy: 'compact,delete'"), 1),
        ("KKT901", topic(f"{TIERED}, cleanup.policy: ''", "4.0"), 0),
        ("KKT901", topic(f"{TIERED}, cleanup.policy: ''", "4.1"), 1),
        ("KKT901", topic(f"{TIERED}, cleanup.policy: ''", "4.2"), 0),
        ("KKT901", topic(f"{TIERED}, cleanup.policy: 'delete,delete'", "4.3"), 0),
        ("KKT901", topic("cleanup.policy: compact"), 0),
        ("KKT902", topic(f"{TIERED}, local.retention.ms: '5', retention.ms: '5'"), 0),
        ("KKT902", topic(f"{TIERED}, local.retention.ms: '6', retention.ms: '5'"), 1),
        ("KKT902", topic(f"{TIERED}, local.retention.ms: '-1', retention.ms: '5'"), 1),
        ("KKT902", topic(f"{TIERED}, local.retention.ms: '-1', retention.ms: '-1'"), 0),
        ("KKT902", topic(f"{TIERED}, local.retention.ms: '-2', retention.ms: '5'"), 0),
        ("KKT902", topic(f"{TIERED}, local.retention.bytes: '6', retention.bytes: '5'"), 1),
        ("KKT902", topic(f"{TIERED}, local.retention.bytes: '6'"), 0),
        ("KKT902", topic(f"{TIERED}, remote.copy.lag.ms: '6', retention.ms: '5'", "4.4"), 1),
        ("KKT902", topic(f"{TIERED}, remote.copy.lag.ms: '5', retention.ms: '5'", "4.4"), 0),
        ("KKT902", topic("local.retention.ms: '6', retention.ms: '5'"), 0),
        ("KKT902", broker("log.local.retention.ms: '6', log.retention.ms: '5'"), 0),
        (
            "KKT902",
            broker("log.local.retention.ms: '6', log.retention.ms: '5', remote.log.storage.system.enable: 'true'"),
            1,
        ),
        ("KKT902", broker("log.retention.ms: '5'", dynamic="log.local.retention.ms: '6'"), 1),
        ("KKT903", topic(TIERED, brokers="log.dirs: /d"), 1),
        ("KKT903", topic(TIERED), 0),
        ("KKT903", topic(TIERED, brokers=""), SKIPPED),
        ("KKT904", topic(f"{TIERED}, remote.log.copy.disable: 'true', local.retention.ms: '5', retention.ms: '5'"), 0),
        ("KKT904", topic(f"{TIERED}, remote.log.copy.disable: 'true', local.retention.ms: '4', retention.ms: '5'"), 1),
        ("KKT904", topic("remote.log.copy.disable: 'true', local.retention.ms: '4', retention.ms: '5'"), 0),
        ("KKT905", topic("remote.storage.enable: 'false'", current=TIERED), 1),
        ("KKT905", topic("retention.ms: '5'", current=TIERED), 1),
        ("KKT905", topic("remote.storage.enable: 'false'", current="retention.ms: '5'"), 0),
        ("KKT905", topic("remote.storage.enable: 'false'"), SKIPPED),
        ("KKT905", topic("retention.ms: '5'"), 0),
    ],
)
def test_boundaries(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text) == expected


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKC303", broker(LAGS), True),
        (
            "KKC303",
            broker("log.cleaner.min.compaction.lag.ms: '2'", dynamic="log.cleaner.max.compaction.lag.ms: '1'"),
            False,
        ),
        ("KKD116", broker("replica.fetch.wait.max.ms: '15001'"), False),
        ("KKD116", broker("replica.fetch.wait.max.ms: '30001'"), True),
        ("KKB509", broker("broker.heartbeat.interval.ms: '4501'"), False),
    ],
)
def test_what_brokers_refuse(code: str, text: str, expected: bool) -> None:
    found = outcome_of({EXAMPLE_FILE: text}, rules=[rule_of(code)])
    assert [checked.refused for checked in found.checked] == [expected]


@pytest.mark.parametrize("minor", MINORS)
def test_the_defaults_are_within_their_bounds(minor: str) -> None:
    table = config_table(minor)
    known = [bound for bound in BOUNDS if bound.lower in table.broker and bound.upper in table.broker]
    assert len(known) >= 12
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
    assert verdict("KKG707", broker(config, "3.9")) == 0
    assert verdict("KKG707", broker(config, "4.0")) == 1


def test_the_message_names_both_values() -> None:
    (found,) = findings("KKG707", broker("group.consumer.session.timeout.ms: '90000'"))
    assert (
        "group.consumer.session.timeout.ms (90000) is above group.consumer.max.session.timeout.ms (60000)"
        in found.message
    )
