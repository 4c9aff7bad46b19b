"""Rules of compacted topics, the cleaner, and advice for tiered topics, at their boundaries."""

import pytest

from kafkakit.rules.rule import Limits
from tests.rigs.rule_cases import SKIPPED, findings, marks

KNOWN = 'config: {num.io.threads: "8"}\n'
DAY = 86_400_000
COMPACT = "cleanup.policy: compact"
TIERED = 'remote.storage.enable: "true"'


def topic(config: str, more: str = "", head: str = KNOWN, name: str = "t") -> str:
    return f"{head}topics: [{{name: {name}, config: {{{config}}}{more}}}]"


def broker(config: str) -> str:
    return f"brokers: [{{id: 1, config: {{{config}}}}}]\n"


def group(lag_s: int) -> str:
    return f"\nobserved: {{groups: [{{name: g, topics: [t], time_lag_s: {{t: {lag_s}}}}}]}}"


def rate(bytes_s: int, limit: str) -> str:
    partition = f", observed: {{partitions: [{{partition: 0, replicas: [1], bytes_s: {bytes_s}}}]}}"
    return topic(COMPACT, partition, broker(f"log.cleaner.io.max.bytes.per.second: '{limit}'"))


SLOW = ", observed: {partitions: [{partition: 0, replicas: [1], bytes_s: %d}]}"

CASES = [
    ("KKC301", topic(f"{COMPACT}, retention.ms: '1', retention.bytes: '1'"), "WW"),
    ("KKC301", topic(COMPACT), ""),
    ("KKC301", topic("cleanup.policy: 'compact,delete', retention.ms: '1'"), ""),
    ("KKC301", topic("retention.ms: '1'", head="config: {log.cleanup.policy: compact}\n"), "W"),
    ("KKC301", topic("retention.ms: '1'", head=""), ""),
    ("KKC302", topic(f"{COMPACT}, segment.ms: '{DAY}'"), ""),
    ("KKC302", topic(f"{COMPACT}, segment.ms: '{DAY + 1}'"), "W"),
    ("KKC302", topic(f"{COMPACT}, max.compaction.lag.ms: '{DAY}'"), ""),
    ("KKC302", topic(COMPACT, head=""), SKIPPED),
    ("KKC302", topic(COMPACT, name="__consumer_offsets"), ""),
    ("KKC302", topic(COMPACT, SLOW % 100_000), ""),
    ("KKC302", topic(COMPACT, SLOW % 10_000), "W"),
    ("KKC302", topic(""), ""),
    ("KKC304", topic(f"{COMPACT}, max.compaction.lag.ms: '604799999'"), "N"),
    ("KKC304", topic(f"{COMPACT}, max.compaction.lag.ms: '604800000'"), ""),
    ("KKC304", topic("max.compaction.lag.ms: '1'"), ""),
    ("KKC305", topic(f"{COMPACT}, delete.retention.ms: '3599999'"), "W"),
    ("KKC305", topic(f"{COMPACT}, delete.retention.ms: '3600000'"), ""),
    ("KKC305", topic(f"{COMPACT}, delete.retention.ms: '3600000'") + group(3601), "W"),
    ("KKC305", topic("delete.retention.ms: '1'"), ""),
    ("KKC306", topic(f"{COMPACT}, min.cleanable.dirty.ratio: '0.05'"), ""),
    ("KKC306", topic(f"{COMPACT}, min.cleanable.dirty.ratio: '0.049'"), "W"),
    ("KKC306", topic(f"{COMPACT}, min.cleanable.dirty.ratio: '0.9'"), ""),
    ("KKC306", topic(f"{COMPACT}, min.cleanable.dirty.ratio: '0.91'"), "W"),
    ("KKC306", topic("min.cleanable.dirty.ratio: '1'"), ""),
    ("KKC307", broker("log.cleaner.enable: 'false'"), "E"),
    ("KKC307", broker("log.cleaner.threads: '0'"), "E"),
    ("KKC307", broker("log.cleaner.threads: '1'"), ""),
    ("KKC307", "brokers: [{id: 1}]", SKIPPED),
    ("KKC309", topic(COMPACT, ", observed: {dirty_unique_keys: 5033164}"), ""),
    ("KKC309", topic(COMPACT, ", observed: {dirty_unique_keys: 5033165}"), "N"),
    ("KKC309", topic(COMPACT), SKIPPED),
    ("KKC310", topic("cleanup.policy: delete", ", labels: [state]"), "W"),
    ("KKC310", topic("cleanup.policy: 'compact,delete'", ", labels: [changelog, windowed]"), ""),
    ("KKC310", topic(COMPACT, ", labels: [state]"), ""),
    ("KKC311", topic("cleanup.policy: 'compact,delete'", name="__consumer_offsets"), "E"),
    ("KKC311", topic(COMPACT, name="__transaction_state"), ""),
    ("KKC311", topic("cleanup.policy: delete", name="__share_group_state"), ""),
    ("KKC311", topic("", name="__consumer_offsets"), SKIPPED),
    ("KKC311", topic("", name="__consumer_offsets") + "\nobserved: {live: true}", "E"),
    ("KKC312", topic(COMPACT, ", observed: {keyless_records: 1}"), "W"),
    ("KKC312", topic(COMPACT, ", observed: {keyless_records: 0}"), ""),
    ("KKC312", topic(COMPACT), SKIPPED),
    ("KKC313", rate(500, "1000"), ""),
    ("KKC313", rate(501, "1000"), "W"),
    ("KKC313", rate(501, "1.0E3"), "W"),
    ("KKC313", topic(COMPACT, head=broker("log.cleaner.io.max.bytes.per.second: '1'")), SKIPPED),
    ("KKT906", topic(f"{TIERED}, retention.ms: '1000', local.retention.ms: '900'"), "N"),
    ("KKT906", topic(f"{TIERED}, retention.ms: '1000', local.retention.ms: '899'"), ""),
    ("KKT906", topic(f"{TIERED}, retention.ms: '-1', local.retention.ms: '1000'"), ""),
    ("KKT906", topic(f"{TIERED}, retention.ms: '-1'"), "N"),
    ("KKT906", topic(f"{TIERED}, local.retention.bytes: '1000'"), ""),
    ("KKT906", topic("retention.ms: '1000'"), ""),
    ("KKT906", topic(TIERED, head=""), SKIPPED),
    ("KKT907", topic(f"{TIERED}, local.retention.ms: '{DAY}', segment.ms: '{DAY}'"), ""),
    ("KKT907", topic(f"{TIERED}, local.retention.ms: '{DAY}', segment.ms: '{DAY + 1}'"), "W"),
    ("KKT907", topic(f"{TIERED}, local.retention.ms: '{DAY}'", SLOW % 100_000), ""),
    ("KKT907", topic(f"{TIERED}, local.retention.ms: '{DAY}'", head=""), SKIPPED),
    ("KKT908", topic(f"{TIERED}, local.retention.ms: '1000'") + group(1), ""),
    ("KKT908", topic(f"{TIERED}, local.retention.ms: '1000'") + group(2), "W"),
    ("KKT908", topic(f"{TIERED}, local.retention.ms: '1000'"), SKIPPED),
    ("KKT908", topic("local.retention.ms: '1000'"), ""),
]


@pytest.mark.parametrize(("code", "text", "expected"), CASES)
def test_compaction_and_tiering_at_their_boundaries(code: str, text: str, expected: str) -> None:
    assert marks(code, text) == expected


def test_freshness_is_an_option() -> None:
    assert marks("KKC302", topic(f"{COMPACT}, segment.ms: '{DAY + 1}'"), Limits(freshness_s=2 * 86_400)) == ""


def test_the_passes_of_the_cleaner_are_counted() -> None:
    (found,) = findings("KKC309", topic(COMPACT, ", observed: {dirty_unique_keys: 15099493}"))
    assert found.message.endswith("15,099,493: 4 passes")
