"""Rules of groups and offsets at their boundaries."""

import pytest

from kafkakit.core.findings import Severity
from tests.rigs.rule_cases import SKIPPED, findings, verdict


def broker(config: str) -> str:
    return f"brokers: [{{id: 1, config: {{{config}}}}}]\n"


def read(retention: str, policy: str = "delete") -> str:
    return (
        f"topics: [{{name: t, config: {{retention.ms: '{retention}', cleanup.policy: '{policy}'}}}}]\n"
        "observed: {groups: [{name: g, topics: [t]}]}"
    )


def commits(size: int) -> str:
    return f"observed: {{groups: [{{name: g, metadata_p99_bytes: {size}}}]}}"


OFFSETS = "topics: [{name: __consumer_offsets, partitions: %s}]"
WEEK = broker("offsets.retention.minutes: '10080'")


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKG701", WEEK, 0),
        ("KKG701", broker("offsets.retention.minutes: '10079'"), 1),
        ("KKG701", broker("num.io.threads: '8'"), 0),
        ("KKG701", "brokers: [{id: 1}]", SKIPPED),
        ("KKG702", WEEK + read("604800000"), 0),
        ("KKG702", WEEK + read("604800001"), 1),
        ("KKG702", WEEK + read("604800001", "compact"), 0),
        ("KKG702", WEEK + read("-1"), 0),
        ("KKG702", WEEK + "topics: [{name: t}]", SKIPPED),
        ("KKG702", read("604800001"), SKIPPED),
        ("KKG703", broker("") + OFFSETS % 50, 0),
        ("KKG703", broker("") + OFFSETS % 51, 1),
        ("KKG703", broker(""), SKIPPED),
        ("KKG703", OFFSETS % 51, SKIPPED),
        ("KKG704", broker("offsets.topic.segment.bytes: '104857600'"), 0),
        ("KKG704", broker("transaction.state.log.segment.bytes: '104857601'"), 1),
        ("KKG705", broker("") + commits(3276), 0),
        ("KKG705", broker("") + commits(3277), 1),
        ("KKG705", broker(""), SKIPPED),
        ("KKG706", broker("producer.id.expiration.ms: '900000'"), 0),
        ("KKG706", broker("producer.id.expiration.ms: '899999'"), 1),
        ("KKG706", broker("producer.id.expiration.ms: '119999', transaction.max.timeout.ms: '1000'"), 1),
        ("KKG706", broker("producer.id.expiration.ms: '120000', transaction.max.timeout.ms: '1000'"), 0),
        ("KKG708", "version: '4.2'\n" + broker("group.coordinator.rebalance.protocols: classic"), 0),
        ("KKG708", "version: '4.3'\n" + broker("group.coordinator.rebalance.protocols: classic"), 1),
        ("KKG709", broker(""), 0),
        ("KKG709", "labels: [multi_tenant]\n" + broker(""), 1),
        ("KKG710", broker("group.initial.rebalance.delay.ms: '0'"), 1),
        ("KKG710", "env: dev\n" + broker("group.initial.rebalance.delay.ms: '0'"), 0),
    ],
)
def test_boundaries(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text) == expected


@pytest.mark.parametrize(("minutes", "severity"), [(1439, Severity.ERROR), (1440, Severity.WARNING)])
def test_less_than_a_day_is_an_error(minutes: int, severity: Severity) -> None:
    (found,) = findings("KKG701", broker(f"offsets.retention.minutes: '{minutes}'"))
    assert found.severity is severity


def test_the_target_version_counts() -> None:
    text = "version: '4.0'\n" + broker("group.coordinator.rebalance.protocols: classic")
    assert len(findings("KKG708", text, target="4.4")) == 1
    assert not findings("KKG708", text, target="4.1")


def test_the_message_names_topic_group_and_times() -> None:
    (found,) = findings("KKG702", WEEK + read("2592000000"))
    assert found.message == (
        "offsets of an idle group are forgotten after 7 d, but topic t, which group g reads, keeps data for 30 d"
    )
    assert found.setting is not None
    assert found.setting.expected == "at least 43200"
