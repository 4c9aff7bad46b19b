"""The audit `hotspots`: against a plain reference on random fleets, and case by case."""

import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from kafkakit.rules.audits.capacity import BROKER_BYTES, HOT_SHARE, PARTITION_BYTES, PARTITION_MESSAGES, Peers
from tests.spark.conftest import NOW_MS, StoreBuilder, run_job, spec_for

Row = dict[str, Any]
HOUR_MS = 3_600_000


def hours(partitions: Sequence[tuple[int, float, float]], count: int = 4, topic: str = "orders") -> list[Row]:
    """The same traffic in each of some hours: broker, bytes/s and messages/s of each partition."""
    return [
        {
            "topic": topic, "partition": number, "broker": broker, "hour_ms": NOW_MS - hour * HOUR_MS,
            "bytes_in_s": bytes_s, "bytes_out_s": bytes_s, "messages_in_s": messages,
        }
        for hour in range(count)
        for number, (broker, bytes_s, messages) in enumerate(partitions)
    ]  # fmt: skip


def fleet(rng: random.Random) -> list[Row]:
    values = (None, 0.0, 2e5, 2.1e5, 2.2e5, 2.4e5, 9e5, 4e6)
    return [
        {
            "topic": f"t{topic}", "partition": partition, "broker": rng.choice((-1, 1, 2, 3, 4, 5, 6)),
            "hour_ms": NOW_MS - hour * HOUR_MS, "bytes_in_s": rng.choice(values[:6] if partition % 7 else values[6:]),
            "bytes_out_s": rng.choice(values), "messages_in_s": rng.choice(values[:6] if partition % 5 else values[6:]),
        }
        for topic in range(3)
        for partition in range(rng.randint(1, 12))
        for hour in range(rng.randint(1, 6))
        if rng.random() < 0.9
    ]  # fmt: skip


def hot(
    rows: Sequence[Row], peers_of: Callable[[Row], Any], member: Callable[[Row], Any], name: str, peers: Peers
) -> dict[Any, tuple[int, int]]:
    """In how many of its hours each member is far above its peers: (hours, hot hours)."""
    cells: dict[Any, dict[Any, float | None]] = defaultdict(dict)
    for row in rows:
        cell, value = cells[peers_of(row), row["hour_ms"]], row[name]
        before = cell.get(member(row))
        cell[member(row)] = value if before is None else before + (value or 0.0)
    found: dict[Any, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for (group, _), values in cells.items():
        known = [v for v in values.values() if v is not None]
        for who, value in values.items():
            far = False
            if value is not None:
                median = statistics.median(known)
                mad = statistics.median(abs(v - median) for v in known)
                far = value > max(peers.factor * median, median + peers.deviations * 1.4826 * mad)
                far = far and len(known) >= peers.least and value >= peers.floor
            seen, times = found[group, who]
            found[group, who] = seen + 1, times + far
    return found


def one_of(number: int, bytes_s: float, messages: float, count: int = 5) -> list[tuple[int, float, float]]:
    """Partitions of equal traffic, all led by one broker, but for the last."""
    usual = [(1, 200e3, 1_000.0)] * (count - 1)
    return [*usual, (1, bytes_s, messages)][:number]


EVEN_HOURS = [{**row, "hour_ms": row["hour_ms"] - 9 * HOUR_MS} for row in hours(one_of(5, 200e3, 1e3), 2)]
HALF = [*hours(one_of(5, 9e6, 9e3), 2), *EVEN_HOURS]
LEADS = [(1, 4e6, 10.0), (2, 2.5e6, 10.0), (3, 2.5e6, 10.0), (4, 2.5e6, 10.0)]
CASES: dict[str, tuple[list[Row], list[tuple[str, str]]]] = {
    "bytes": (hours(one_of(5, 800_001, 1_000.0)), [("KKH001", "partition orders-4 of bytes")]),
    "at": (hours(one_of(5, 800_000, 4_000.0)), []),
    "keys": (hours(one_of(5, 900e3, 4_001.0)), [("KKH002", "partition orders-4 of keys")]),
    "four": (hours([*one_of(3, 0.0, 0.0), (1, 9e6, 9e3)]), []),
    "half": (HALF, []),
    "leads": (hours(LEADS), [("KKH003", "broker 1 of leads"), ("KKH004", "broker 1 of leads")]),
    "even": (hours([(1, 3.75e6, 10.0), *LEADS[1:]]), []),
    "three": (hours(LEADS[:3]), []),
}  # fmt: skip


def test_findings(spark: Any, store: StoreBuilder) -> None:
    clusters = {f"c{seed}": fleet(random.Random(seed)) for seed in range(10)}
    for name, rows in {**clusters, **{name: rows for name, (rows, _) in CASES.items()}}.items():
        store.add("traffic_hourly", rows, cluster=name)
    output = run_job(spark, spec_for(store.finish(), "hotspots"))
    findings = output.findings.collect()
    expected = set()
    for name, rows in clusters.items():
        led = [row for row in rows if row["broker"] >= 0]
        measures = {
            rule: hot(rows, lambda r: r["topic"], lambda r: r["partition"], column, peers)
            for rule, column, peers in (
                ("KKH001", "bytes_in_s", PARTITION_BYTES), ("KKH002", "messages_in_s", PARTITION_MESSAGES)
            )
        } | {
            rule: hot(led, lambda r: "", lambda r: r["broker"], column, BROKER_BYTES)
            for rule, column in (("KKH003", "bytes_in_s"), ("KKH004", "bytes_out_s"))
        }  # fmt: skip
        for rule, members in measures.items():
            for (topic, who), (seen, times) in members.items():
                by_keys = measures["KKH002"].get((topic, who), (1, 0))
                if times >= HOT_SHARE * seen and not (rule == "KKH001" and by_keys[1] >= HOT_SHARE * by_keys[0]):
                    where = f"partition {topic}-{who} of {name}" if topic else f"broker {who} of {name}"
                    expected.add((rule, where))
    found = [(f["rule"], f["where"]) for f in findings]
    assert len(found) == len(set(found))
    assert {(rule, where) for rule, where in found if where.rpartition(" of ")[2] in clusters} == expected
    assert {rule for rule, _ in expected} >= {"KKH001", "KKH002"}
    for name, (_, cases) in CASES.items():
        assert sorted((f["rule"], f["where"]) for f in findings if f["cluster"] == name) == cases, name
    by_rule = {(f["cluster"], f["rule"]): f for f in findings}
    assert by_rule["keys", "KKH002"]["message"] == (
        "takes 4,001 messages/s, 4 times the median (1,000 messages/s) of its topic, in 4 of 4 hours"
    )
    leads = by_rule["leads", "KKH003"]
    assert leads["message"] == (
        "leads partitions with 4 MB/s, 1.6 times the median (2.5 MB/s) of the cluster's brokers, in 4 of 4 hours"
    )
    assert leads["repair"] == "kafkakit --profile leads topicmappr leaders --plan plan.json"
    assert output.skipped == ()


def test_partitions_without_rates_are_no_error(spark: Any, store: StoreBuilder) -> None:
    store.add("partitions", [{"topic": "t", "partition": n, "leader": 1, "replicas": [1]} for n in range(3)])
    output = run_job(spark, spec_for(store.finish(), "hotspots"))
    assert output.findings.collect() == []
    (row,) = output.tables["traffic"].collect()
    assert (row["bytes_in_s"], row["bytes_out_s"]) == (None, None)
