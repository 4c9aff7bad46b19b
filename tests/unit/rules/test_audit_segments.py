"""The rules and sentences of the audits `segments` and `bombs`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.audit.report.exports import audit_rules
from kafkakit.core.findings import Severity
from kafkakit.rules.audits import segments
from kafkakit.rules.audits import segments as bombs
from kafkakit.rules.families.messages import is_decodable

TOPIC: dict[str, Any] = {
    "cluster": "c1", "topic": "orders", "partitions": 4, "batches": 2_000, "records": 9_000, "aborted_records": 0,
    "missing_times": 0, "tiny_batches": 0, "single_record_batches": 0, "legacy_batches": 0, "empty_segments": 0,
    "future_segments": 0, "future_ms": None, "rolled_by_index": 0, "rolled_by_time": 0, "time_full": None,
    "index_bytes": 8_000, "is_aborted": False, "is_churning": False, "is_overshot": False, "is_tiny": False,
    "is_mixed": False, "is_skewed": False, "skew_ms": None, "late_age_ms": 200_000_000, "late_partition": 3,
    "late_is_pinned": False, "retention_ms": 86_400_000, "roll_ms": 604_800_000, "check_interval_ms": 300_000,
    "none_batches": 500, "gzip_batches": 0, "snappy_batches": 0, "lz4_batches": 1_500, "zstd_batches": 0,
}  # fmt: skip


def test_codes_and_names_are_unique() -> None:
    assert len(audit_rules()) >= len(segments.RULES) == len({rule.name for rule in segments.RULES})
    assert [rule.code for rule in segments.RULES] == sorted(rule.code for rule in segments.RULES)


def test_a_sound_topic_has_no_findings() -> None:
    assert list(segments.topic_findings(TOPIC)) == []


@pytest.mark.parametrize(
    ("change", "message", "repair"),
    [
        ({"is_mixed": True}, "batches are 25% none, 75% lz4", ""),
        (
            {"future_segments": 2, "future_ms": 7_200_000},
            "segments with records that are stamped in the future, by up to 2 h: 2",
            "message.timestamp.after.max.ms=3600000",
        ),
        (
            {"rolled_by_index": 12},
            "segments that rolled because an index was full: 12",
            "segment.index.bytes=16000",
        ),
        (
            {"is_overshot": True},
            "partition 3 holds records that are 55 h 33 min old, with a retention of 24 h: "
            "segments stay open for up to 7 d (segment.ms)",
            "",
        ),
        (
            {"is_overshot": True, "roll_ms": 1},
            "partition 3 holds records that are 55 h 33 min old, with a retention of 24 h: "
            "the broker has not deleted it, although every segment is old enough",
            "",
        ),
    ],
)
def test_sentences_of_a_topic(change: dict[str, Any], message: str, repair: str) -> None:
    (found,) = segments.topic_findings(TOPIC | change)
    assert (found.message, found.repair, found.where) == (message, repair, "topic orders of c1")


def test_skew_is_lints_rule() -> None:
    (found,) = segments.topic_findings(TOPIC | {"is_skewed": True, "skew_ms": 90_000_000})
    assert (found.rule, found.name, found.where) == ("KKM411", "timestamp-skew", "topic orders of c1")


NOTHING: dict[str, Any] = dict.fromkeys(segments.PARTITION_RULES, 0) | dict.fromkeys(
    f"path_{name}" for name in segments.PARTITION_RULES
)


def a_copy(broker: int | None, **held: int) -> dict[str, Any]:
    paths = {f"path_{name}": f"/d/{name}.log" for name in held}
    return NOTHING | {"broker": broker, "log_dir": "/d"} | held | paths


def a_partition(*copies: dict[str, Any], **held: Any) -> dict[str, Any]:
    row = {"cluster": "c1", "topic": "orders", "partition": 3, "broker": 1, "open_ms": None, "is_known": True}
    sums = {name: sum(copy[name] for copy in copies) for name in segments.PARTITION_RULES}
    return row | sums | {"copies": [*copies]} | held


def test_what_records_show_is_one_finding_that_names_the_brokers() -> None:
    row = a_partition(a_copy(2, gaps=1_000), a_copy(1, gaps=200, open_transactions=1), open_ms=7_200_000)
    gap, transaction = segments.partition_findings(row)
    unsure, _ = segments.partition_findings(row | {"is_known": None})
    assert "(by its offsets: its cleanup.policy is not in the store)" in unsure.message
    said = "gaps in the offsets of a topic that is not compacted: 1,200; look at /d/gaps.log on brokers 1, 2"
    assert (gap.message, gap.severity, gap.count) == (said, Severity.ERROR, 1_200)
    assert gap.where == "partition orders-3 of c1"
    assert transaction.message == "a transaction has been open for 2 h; look at /d/open_transactions.log on broker 1"


def test_damage_of_two_copies_is_two_findings_each_with_its_broker_and_path() -> None:
    sound, torn, lacking = a_copy(1), a_copy(2, torn=1, index_faults=3), a_copy(3, missing_indexes=1, crc_failures=2)
    found = list(segments.partition_findings(a_partition(lacking, sound, torn)))
    assert [(f.rule, f.where, f.count) for f in found] == [
        ("KKF001", "partition orders-3 on broker 3 of c1", 2), ("KKF004", "partition orders-3 on broker 2 of c1", 1),
        ("KKF009", "partition orders-3 on broker 2 of c1", 3), ("KKF024", "partition orders-3 on broker 3 of c1", 1),
    ]  # fmt: skip
    assert found[3].message == "closed segments without their .index or .timeindex: 1; look at /d/missing_indexes.log"
    assert len({f.fingerprint for f in found}) == 4
    (unknown,) = segments.partition_findings(a_partition(a_copy(None, torn=1)))
    assert unknown.where == "partition orders-3 of c1"


def test_a_log_dir_with_dead_files() -> None:
    row: dict[str, Any] = {
        "cluster": "c1", "broker": 5, "log_dir": "/d1", "dead_files": 3, "dead_bytes": 4096,
        "dead_roles": "orphan, stray",
        "dead_path": "/d1/x", "foreign_files": 0, "foreign_bytes": 0, "foreign_path": None,
    }  # fmt: skip
    (found,) = segments.log_dir_findings(row)
    assert (found.where, found.rule) == ("log dir 5:/d1 of c1", "KKF022")
    assert found.message == "3 dead files (orphan, stray) of 4 KiB; the first is /d1/x"


@given(st.integers(1, 200_000_000), st.integers(1, 2_000_000_000), st.booleans(), st.integers(1, 1_000_000_000))
def test_no_batch_below_the_filter_of_the_job_is_undecodable(
    packed: int, size: int, declared: bool, limit: int
) -> None:
    content = size if declared else None
    first_try = size if declared else 2 * packed
    if size <= bombs.least_undecodable(limit) and first_try <= limit:
        assert is_decodable(packed, size, content, limit)


def test_limits_of_clients() -> None:
    assert bombs.limits_of("") == (100_000_000,)
    assert bombs.limits_of("1000000000, 5000000") == (5_000_000, 1_000_000_000)


def bomb(**known: Any) -> dict[str, Any]:
    return {"partition": 3, "base_offset": 71, "compressed_bytes": 1_000_000, "decompressed_bytes": 60_000_000,
            "content_size": None, "codec": "zstd", "is_bound": True, "producer_id": 9, **known}  # fmt: skip


def test_each_limit_of_clients_has_a_finding_of_its_own() -> None:
    row = {"cluster": "c1", "topic": "clicks", "batches": [bomb()], "ratio": 60.0, "max_message_bytes": 1_048_588,
           "large_batches": 0, "memory_bytes": 256 << 20, "limits": "70000000,100000000"}  # fmt: skip
    low, usual = bombs.bomb_findings(row)
    assert (low.rule, usual.rule) == ("KKM410", "KKM410")
    assert low.fingerprint != usual.fingerprint
    assert usual.hint.endswith("(producer ids 9)")
    assert "receive.message.max.bytes 70,000,000" in low.message
    assert list(bombs.bomb_findings(row | {"limits": "1000000000"})) == []


def test_a_batch_above_the_memory_is_reported_once() -> None:
    large = bomb(decompressed_bytes=400 << 20, codec="gzip")
    row = {"cluster": "c1", "topic": "clicks", "batches": [large], "ratio": 420.0, "max_message_bytes": 1_048_588,
           "large_batches": 1, "memory_bytes": 256 << 20, "limits": ""}  # fmt: skip
    (found,) = bombs.bomb_findings(row)
    assert (found.rule, found.where) == ("KKM409", "topic clicks of c1")
    assert "partition 3 offset 71, from 1,000,000 to up to 419,430,400 bytes" in found.message
    assert list(bombs.bomb_findings(row | {"batches": None, "large_batches": None, "ratio": 3.0})) == []
