"""The audit `capacity`: against a plain reference on random fleets, and case by case."""

import random
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest

from tests.spark.conftest import TODAY, StoreBuilder, run_job, spec_for
from tests.spark.reference_capacity import held_by, trends_of

Kinds = dict[str, list[dict[str, Any]]]


def day(ago: int) -> str:
    return (date.fromisoformat(TODAY) - timedelta(days=ago)).isoformat()


def daily(values: Sequence[int | None], broker: int = 1, path: str = "/d", total: int = 10_000) -> list[dict[str, Any]]:
    """One row for each value, the last of them today's."""
    last = len(values) - 1
    return [
        {"broker": broker, "path": path, "day": day(last - n), "used_bytes": value, "total_bytes": total}
        for n, value in enumerate(values)
    ]


def fleet(rng: random.Random) -> Kinds:
    brokers = range(1, rng.randint(4, 7))
    rows: Kinds = {
        "brokers": [{"broker": b, "is_alive": True, "rack": rng.choice(("a", "b", None))} for b in brokers],
        "broker_configs": [
            {"broker": b, "key": "min.insync.replicas", "value": str(rng.choice((1, 2))), "source": "static"}
            for b in brokers
        ],
        "topics": [{"topic": "t0"}, {"topic": "t1"}],
        "topic_configs": [{"topic": "t1", "key": "retention.ms", "value": rng.choice(("-1", "86400000"))}],
        "partitions": [],
        "disk_daily": [],
    }
    for number in range(rng.randint(1, 12)):
        replicas = rng.sample(brokers, rng.randint(1, 3))
        rows["partitions"].append(
            {
                "topic": f"t{number % 2}", "partition": number, "replicas": replicas,
                "leader": rng.choice((*replicas, -1)), "isr": rng.sample(replicas, rng.randint(0, len(replicas))),
                "size_bytes": rng.choice((None, 0, 5_000)), "bytes_in_s": rng.choice((None, 0.0, 2.5, 1e6)),
            }
        )  # fmt: skip
    for broker in brokers:
        steps = [rng.choice((0, 30, 60, 90, None)) for _ in range(rng.randint(2, 100))]
        values = [None if step is None else 3_000 + step * n // 2 for n, step in enumerate(steps)]
        rows["disk_daily"] += daily(values, broker, rng.choice(("/d", "/e")))
    return rows


def one(isr: list[int], usable: int = 9_000, **more: Any) -> Kinds:
    """Three brokers in two racks, ten partitions on all of them that hold 500 bytes each."""
    return {
        "brokers": [{"broker": b, "is_alive": True, "rack": "ab"[b % 2]} for b in (1, 2, 3, 4)],
        "broker_configs": [{"broker": 1, "key": "min.insync.replicas", "value": "2", "source": "static"}],
        "topics": [{"topic": "orders"}],
        "log_dirs": [
            {"broker": b, "path": "/d", "total_bytes": 10_000, "usable_bytes": usable} for b in (1, 2, 3, 4)
        ],
        "partitions": [
            {"topic": "orders", "partition": p, "replicas": isr, "isr": isr, "leader": isr[0], "size_bytes": 500}
            for p in range(10)
        ],
        **more,
    }  # fmt: skip


WEEK = [500 * n for n in range(8, 15)]


def limited(segment_bytes: int) -> Kinds:
    """Ten partitions that hold up to 100 bytes and a segment each."""
    values = {"retention.ms": -1, "retention.bytes": 100, "segment.bytes": segment_bytes}
    rows = one([1, 2, 3, 4])
    rows["topic_configs"] = [{"topic": "orders", "key": key, "value": str(value)} for key, value in values.items()]
    rows["partitions"] = [{**row, "bytes_in_s": 0.0} for row in rows["partitions"]]
    return rows


FIVE = [{"broker": b, "is_alive": True, "rack": "ab"[b % 2]} for b in (1, 2, 3, 4, 5)]


def placed(replicas: list[int], isr: list[int] | None = None) -> list[dict[str, Any]]:
    row = {"topic": "orders", "partition": 0, "replicas": replicas, "isr": isr or replicas, "leader": replicas[0]}
    return [{**row, "size_bytes": 500}]


def single() -> Kinds:
    """One broker, which is full."""
    rows = one([1], usable=100)
    return {**rows, **{kind: rows[kind][:1] for kind in ("brokers", "log_dirs")}}


CASES: dict[str, tuple[Kinds, list[tuple[str, str, str]]]] = {
    "calm": (one([1, 2, 3, 4]), []),
    "fills": (one([1, 2, 3, 4], disk_daily=daily(WEEK)), [("KKX009", "error", "broker 1 of fills")]),
    "six-days": (one([1, 2, 3, 4], disk_daily=daily(WEEK[1:])), []),
    "slow": (one([1, 2, 3, 4], disk_daily=daily([1_000 + n for n in range(30)])), []),
    "stale": (one([1, 2, 3, 4], log_dirs=[], disk_daily=daily([*WEEK, None, None, None])), []),
    "broker": (one([1, 2]), [("KKW001", "warning", "cluster broker"), ("KKW002", "warning", "cluster broker")]),
    "rack": (one([1, 3, 2]), [("KKW002", "warning", "cluster rack")]),
    "space": (one([1, 2, 3, 4], usable=3_166), [("KKW003", "warning", "cluster space")]),
    "enough": (one([1, 2, 3, 4], usable=3_167), []),
    "ceiling": (limited(701), [("KKR221", "warning", f"broker {b} of ceiling") for b in (1, 2, 3, 4)]),
    "below": (limited(700), []),
    "placed": (one([1, 3], partitions=placed([1, 3, 5, 2]), brokers=FIVE), [("KKW002", "warning", "cluster placed")]),
    "behind": (one([1, 2], partitions=placed([1, 2, 3, 4], isr=[1, 2])), [
        ("KKW001", "warning", "cluster behind"), ("KKW002", "warning", "cluster behind")]),
    "alone": (single(), [("KKW001", "warning", "cluster alone")]),
}  # fmt: skip


def test_tables_and_findings(spark: Any, store: StoreBuilder) -> None:
    random_clusters = {f"c{seed}": fleet(random.Random(seed)) for seed in range(12)}
    for name, kinds in {**random_clusters, **{name: kinds for name, (kinds, _) in CASES.items()}}.items():
        store.add("clusters", [{"cluster_id": name, "kafka_version": "4.1.0"}], cluster=name)
        for kind, rows in kinds.items():
            if rows:
                store.add(kind, rows, cluster=name)
    output = run_job(spark, spec_for(store.finish(), "capacity"))
    dirs = {(r["cluster"], r["broker"], r["path"]): r for r in output.tables["dirs"].collect()}
    brokers = {(r["cluster"], r["broker"]): r for r in output.tables["brokers"].collect()}
    losses = {(r["cluster"], r["kind"], r["name"]): r for r in output.tables["losses"].collect()}
    seen = 0
    for name, kinds in random_clusters.items():
        trends = trends_of(kinds["disk_daily"], TODAY)
        assert {key[1:] for key in dirs if key[0] == name} == set(trends)
        for key, (days, slope, until) in trends.items():
            row = dirs[name, *key]
            assert row["days_seen"] == days
            assert row["slope"] == (None if slope != slope else pytest.approx(slope))
            assert row["days_to_full"] == (None if until is None else pytest.approx(until))
            if until:
                seen += 1
                assert row["days_to_full_low"] <= row["days_to_full"]
                assert row["used_in_30_days_low"] <= row["used_in_30_days"] <= row["used_in_30_days_high"]
        ceilings, lost = held_by(kinds, "4.1")
        assert {b: brokers[name, b]["ceiling_bytes"] for b in ceilings} == pytest.approx(ceilings)
        columns = ("replicas", "leaders", "bytes", "below_min_isr", "offline")
        assert {key[1:]: [row[c] for c in columns] for key, row in losses.items() if key[0] == name} == lost
    assert seen > 5
    findings = output.findings.collect()
    for name, (_, expected) in CASES.items():
        found = [(f["rule"], f["severity"], f["where"]) for f in findings if f["cluster"] == name]
        assert sorted(found) == sorted(expected), name
    by_rule = {(f["cluster"], f["rule"]): f for f in findings}
    assert by_rule["fills", "KKX009"]["message"] == "/d reaches 85% in 3 days: 6.84 KiB of 9.77 KiB are used"
    assert by_rule["fills", "KKX009"]["repair"].startswith("kafkakit --profile fills topicmappr rebalance")
    assert by_rule["broker", "KKW001"]["message"] == (
        "without broker 1, 10 partitions would have fewer in-sync replicas than min.insync.replicas: 1 topic, orders"
    )
    assert by_rule["rack", "KKW002"]["message"].startswith("without rack b, 10 partitions")
    # Only where another placement helps the racks are the cause: three replicas in two racks are too few.
    program = "kafkakit --profile {} topicmappr"
    assert {key: by_rule[key]["repair"] for key in by_rule if key[1].startswith("KKW00") and key[1] < "KKW003"} == {
        ("broker", "KKW001"): f"{program.format('broker')} set-replication 3 --topics orders",
        ("broker", "KKW002"): f"{program.format('broker')} set-replication 4 --topics orders",
        ("rack", "KKW002"): f"{program.format('rack')} set-replication 4 --topics orders",
        ("placed", "KKW002"): f"{program.format('placed')} fix-racks --topics orders",
        ("behind", "KKW001"): "",
        ("behind", "KKW002"): "",
        ("alone", "KKW001"): "",
        **{(n, r): by_rule[n, r]["repair"] for n, r in by_rule if n in random_clusters and r < "KKW003"},
    }
    assert by_rule["behind", "KKW001"]["hint"] == "orders: wait for replicas that are catching up"
    assert by_rule["alone", "KKW001"]["hint"] == "orders: add brokers, since 1 broker cannot hold enough replicas"
    assert by_rule["broker", "KKW001"]["hint"] == (
        "orders: 3 replicas with `kafkakit --profile broker topicmappr set-replication 3 --topics orders`, or lower "
        "min.insync.replicas"
    )
    assert by_rule["space", "KKW003"]["message"].startswith(
        "broker 1 holds 4.88 KiB, and the other brokers have 4.88 KiB"
    )
    assert [text.partition(":")[0] for text in output.skipped] == ["replicas"]
