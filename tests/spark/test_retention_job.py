"""The audit `retention`: against a plain reference on random fleets, and case by case."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from kafkakit.rules.audits.capacity import OPTIONS
from kafkakit.rules.retention import DAY_MS, HOUR_MS
from tests.spark.conftest import NOW_MS, StoreBuilder, run_job, spec_for
from tests.spark.reference_retention import audited

RATES = (None, 0.0, 0.5, 300.0, 20_000.0, 5e6)
TOLERANCE = 0.5


def fleet(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """A small cluster; some limits of its hosts are so low that advice has to give way."""
    brokers = range(1, rng.randint(2, 5))
    hosts = [
        {
            "broker": b, "is_alive": True, "connections": rng.choice((None, 0, 50)),
            "open_files": rng.choice((None, 1_300, 1_600, 200_000)),
            "max_map_count": rng.choice((None, 1_300, 1_800, 262_144)),
        }
        for b in brokers
        if rng.random() < 0.9
    ]  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {"brokers": hosts, "topics": [], "topic_configs": [], "partitions": []}
    rows["broker_configs"] = [
        {"broker": b, "key": key, "value": value, "source": "static"}
        for b in brokers
        for key, value in (("log.retention.hours", "48"), ("log.roll.hours", str(rng.choice((12, 168)))))
    ]
    rows["segments"] = []
    values = {
        "retention.ms": (-1, 0, HOUR_MS // 4, HOUR_MS, DAY_MS, 30 * DAY_MS),
        "retention.bytes": (-1, 2**20, 2**30, 10 * 2**30),
        "segment.ms": (HOUR_MS, DAY_MS, 7 * DAY_MS),
        "segment.bytes": (2**20, 2**28, 2**30),
        "segment.jitter.ms": (0, HOUR_MS),
        "cleanup.policy": ("delete", "compact", "compact,delete"),
        "max.compaction.lag.ms": (2 * HOUR_MS,),
    }
    for number in range(rng.randint(1, 6)):
        name = f"t{number}"
        rows["topics"].append({"topic": name})
        rows["topic_configs"] += [
            {"topic": name, "key": key, "value": str(rng.choice(choices))}
            for key, choices in values.items()
            if rng.random() < 0.4
        ]
        for partition in range(rng.randint(0, 4)):
            replicas = rng.sample(brokers, rng.randint(1, len(brokers)))
            rows["partitions"].append(
                {
                    "topic": name, "partition": partition, "replicas": replicas, "bytes_in_s": rng.choice(RATES),
                    "size_bytes": rng.choice((None, 0, 10**10)),
                    "oldest_ms": rng.choice((None, NOW_MS - 9 * DAY_MS, NOW_MS + HOUR_MS)),
                }
            )  # fmt: skip
            if rng.random() < 0.3:
                rows["segments"] += [
                    {"broker": rng.choice(replicas), "topic": name, "partition": partition, "role": role}
                    for role in rng.choices(("log", "log", "deleted"), k=rng.randint(1, 9))
                ]
    return rows


def stored(store: StoreBuilder, clusters: Mapping[str, Mapping[str, list[dict[str, Any]]]]) -> str:
    for name, kinds in clusters.items():
        store.add("clusters", [{"cluster_id": name, "kafka_version": "4.1.0"}], cluster=name)
        for kind, rows in kinds.items():
            if rows:
                store.add(kind, rows, cluster=name)
    return store.finish()


def test_tables_are_those_of_the_reference(spark: Any, store: StoreBuilder) -> None:
    clusters = {f"c{seed}": fleet(random.Random(seed)) for seed in range(16)}
    output = run_job(spark, spec_for(stored(store, clusters), "retention", tolerance=TOLERANCE))
    topics = {(r["cluster"], r["topic"]): r for r in output.tables["topics"].collect()}
    brokers = {(r["cluster"], r["broker"]): r for r in output.tables["brokers"].collect()}
    findings = output.findings.collect()
    options = set()
    expected_repairs = 0
    seen_topics = seen_brokers = 0
    for name, rows in clusters.items():
        of_topics, of_brokers = audited(rows, "4.1", TOLERANCE)
        for broker, expected in of_brokers.items():
            row = brokers[name, broker].asDict()
            assert {key: row[key] for key in expected} == expected, (name, broker)
            seen_brokers += 1
        for topic, expected in of_topics.items():
            row = topics[name, topic].asDict()
            seen_topics += 1
            assert (row["is_over_time"], row["is_over_size"]) == (expected["over_time"], expected["over_size"])
            assert row["segments"] == expected["counts"][0]
            assert row["overshoot"] == (None if expected["overshoot"] is None else pytest.approx(expected["overshoot"]))
            if "option" not in expected:
                assert row["option"] is None
                continue
            options.add(expected["option"])
            assert (row["option"], row["tightest_broker"]) == (expected["option"], expected["tightest"]), (name, topic)
            advised = expected["advised"]
            assert [row[f"advised_{key}"] for key in ("segment_ms", "segment_bytes", "jitter_ms", "segments")] == [
                advised.segment_ms, advised.segment_bytes, advised.jitter_ms, expected["advised_segments"]
            ]  # fmt: skip
            wanted = expected["advised_overshoot"]
            assert row["advised_overshoot"] == (None if wanted is None else pytest.approx(wanted))
            held = {f["rule"] for f in findings if f["where"] == f"topic {topic} of {name}"}
            rules = {"KKR201": expected["over_time"], "KKR203": expected["over_size"]}
            assert held == {rule for rule, is_held in rules.items() if is_held}
            expected_repairs += (advised != expected["settings"]) * len(held)
        full = {b for b, r in of_brokers.items() if r["maps"] > 0.8 * r["max_map_count"]}
        assert {f["where"] for f in findings if f["rule"] == "KKB502" and f["cluster"] == name} == {
            f"broker {b} of {name}" for b in full
        }
    assert (len(topics), len(brokers)) == (seen_topics, seen_brokers)
    assert {0, len(OPTIONS)} < options
    assert sum(bool(f["repair"]) for f in findings if f["rule"].startswith("KKR")) == expected_repairs


def one_topic(rate: float | None, host: dict[str, Any], number: int = 10, **config: object) -> dict[str, Any]:
    return {
        "brokers": [{"broker": 1, "is_alive": True, **host}],
        "broker_configs": [{"broker": 1, "key": "log.roll.hours", "value": "168", "source": "static"}],
        "topics": [{"topic": "orders"}],
        "topic_configs": [{"topic": "orders", "key": k.replace("_", "."), "value": str(v)} for k, v in config.items()],
        "partitions": [
            {"topic": "orders", "partition": p, "replicas": [1], "bytes_in_s": rate, "oldest_ms": NOW_MS - 8 * DAY_MS}
            for p in range(number)
        ],
    }


ROOMY = {"open_files": 1_000_000, "max_map_count": 1_000_000}
TIGHT = {"open_files": 1_000_000, "max_map_count": 65_530}


def test_findings_by_case(spark: Any, store: StoreBuilder) -> None:
    clusters = {
        "slow": one_topic(1.0, ROOMY, retention_ms=DAY_MS),
        "at": one_topic(1.0, ROOMY, retention_ms=DAY_MS, segment_ms=DAY_MS // 2 - 300_000),
        "inherits": one_topic(1.0, ROOMY),
        "as-default": one_topic(1.0, ROOMY, retention_ms=7 * DAY_MS),
        "tight": one_topic(1.0, TIGHT, number=6_000, retention_ms=DAY_MS),
        "full": one_topic(1.0, TIGHT, number=4_000, retention_ms=DAY_MS, segment_ms=8_670_000),
        "sized": one_topic(None, ROOMY, retention_bytes=2**30, segment_bytes=2**29 + 1),
        "half": one_topic(None, ROOMY, retention_bytes=2**30, segment_bytes=2**29),
        "unknown": one_topic(1.0, {}, number=15_000, retention_ms=DAY_MS, segment_ms=DAY_MS // 4),
        "low": one_topic(1.0, {"open_files": 99_999, "max_map_count": 10**6}),
    }
    output = run_job(spark, spec_for(stored(store, clusters), "retention"))
    found = {(f["cluster"], f["rule"], f["severity"]): f for f in output.findings.collect()}
    assert sorted(found) == [
        ("full", "KKB502", "error"), ("low", "KKB501", "warning"), ("sized", "KKR203", "warning"),
        ("slow", "KKR201", "error"), ("tight", "KKR201", "error"), ("unknown", "KKB501", "warning"),
        ("unknown", "KKB502", "warning"),
    ]  # fmt: skip
    slow = found["slow", "KKR201", "error"]
    assert slow["where"] == "topic orders of slow"
    assert slow["message"] == (
        "data may live 192 h 05 min, 8 times retention (24 h), because a segment stays open for up to 7 d (segment.ms)"
        "; partition 0 holds data of 8 d"
    )
    assert slow["repair"] == f"segment.ms={DAY_MS // 2 - 300_000}"
    assert (slow["expected"], slow["score"]) == (str(DAY_MS // 2 - 300_000), 90.0)
    assert slow["hint"] == "takes 20 to 40 segments on all brokers, 20 more descriptors and 40 more memory maps"
    # 6,000 partitions of 4 segments need 49,000 maps; 80 % of 65,530 are 52,424. With 5 segments they would not fit.
    assert found["tight", "KKR201", "error"]["repair"].startswith(f"segment.ms={DAY_MS // 2 - 300_000}")
    # 4,000 partitions of 12 segments need 97,000 maps.
    assert "need 97,000 memory maps" in found["full", "KKB502", "error"]["message"]
    assert found["unknown", "KKB502", "warning"]["message"].endswith("is not known, this is the usual one")
    assert found["sized", "KKR203", "warning"]["repair"] == f"segment.bytes={2**29}"
    assert output.skipped == (
        "segment files: none were collected, so numbers of segments are the most that settings permit",
    )
    (facts,) = (frame.collect()[0] for frame in output.facts)
    assert facts["topics_beyond_retention"] == 2


def test_the_cause_of_old_data_is_the_timestamp_in_the_future_that_keeps_it(spark: Any, store: StoreBuilder) -> None:
    clusters = {}
    for name, ahead, age in (
        ("pinned", 3 * DAY_MS, 9 * DAY_MS),
        ("young", 3 * DAY_MS, 2 * DAY_MS),
        ("open", 0, 9 * DAY_MS),
    ):
        rows = one_topic(1.0, ROOMY, number=2, retention_ms=DAY_MS)
        file = {"broker": 1, "topic": "orders", "role": "log", "seen_at_ms": NOW_MS, "min_ms": NOW_MS - DAY_MS}
        oldest = {"partition": 1, "min_ms": NOW_MS - age, "max_ms": NOW_MS + ahead}
        clusters[name] = {**rows, "segments": [{**file, "partition": 0, "max_ms": NOW_MS}, {**file, **oldest}]}
    output = run_job(spark, spec_for(stored(store, clusters), "retention"))
    found = {f["cluster"]: f for f in output.findings.collect() if f["rule"] == "KKR201"}
    pinned = found["pinned"]
    assert pinned["message"] == (
        "partition 1 holds data of 9 d, with a retention of 24 h, because records that are stamped up to 3 d in the "
        "future keep it"
    )
    wanted = ("message.timestamp.after.max.ms=3600000", "message.timestamp.after.max.ms", "3600000")
    assert (pinned["repair"], pinned["key"], pinned["expected"]) == wanted
    # What settings explain is said of them.
    assert all("(segment.ms)" in found[name]["message"] for name in ("young", "open"))
    assert all(found[name]["repair"].startswith("segment.ms=") for name in ("young", "open"))


def test_an_empty_store_is_skipped_in_words(spark: Any, store: StoreBuilder) -> None:
    output = run_job(spark, spec_for(store.finish(), "retention"))
    assert [text.partition(":")[0] for text in output.skipped] == ["segment files", "settings of brokers", "partitions"]
