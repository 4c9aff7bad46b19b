"""The audit `lag` against a plain Python reference on random histories, and at the edges of each rule."""

import random
from typing import Any

from kafkakit.rules.audits import delivery as lag
from tests.spark import reference_lag as reference
from tests.spark.conftest import NOW_MS, TODAY, StoreBuilder, run_job, spec_for

YESTERDAY = "2026-11-19"
HOUR_MS = lag.HOUR_MS
Row = dict[str, Any]


def random_history(seed: int, hours: int = 100) -> tuple[list[Row], list[Row]]:
    """Samples of two topics, one of which begins anew, and commits of groups that fall behind, stop and are deleted."""
    draw = random.Random(seed)
    commits: list[Row] = []
    produced: list[Row] = []
    start = NOW_MS - hours * HOUR_MS
    for topic, partition in (("a", 0), ("a", 1), ("b", 0)):
        ends = [(draw.randrange(100), start + draw.randrange(HOUR_MS))]
        for hour in range(1, 2 * hours):
            grown = draw.choice([0, 0, 5, 600, 4000])
            reset = topic == "b" and hour == hours
            ends.append((1 if reset else ends[-1][0] + grown, start + hour * HOUR_MS // 2))
            if draw.random() < 0.1:  # a producer with a clock that is behind
                ends.append((ends[-1][0] + 3, ends[-1][1] - 600_000))
        produced += [{"topic": topic, "partition": partition, "offset": o, "at_ms": at} for o, at in ends]
        for group in ("steady", "slow", "late"):
            for number in range(4 * hours if group != "late" else 3 * hours):
                at = start - HOUR_MS + number * HOUR_MS // 4 + draw.randrange(1000)
                known = [
                    o for o, t in ends if t <= at - draw.choice([0, 0, 60_000] if group != "slow" else [9_000_000])
                ]
                offset = max((known[-1] if known else 0) - draw.randrange(5), 0)
                committed = None if draw.random() < 0.01 else offset
                where = {"group": group, "topic": topic, "partition": partition, "log_partition": 1}
                commits.append({**where, "committed": committed, "at_ms": at, "log_offset": len(commits)})
    return commits, produced


def test_random_histories_give_what_the_reference_says(spark: Any, store: StoreBuilder) -> None:
    wanted: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    rules: set[tuple[str, str]] = set()
    for seed in range(3):
        commits, produced = random_history(seed)
        cluster = f"c{seed}"
        # The second day holds some rows of the first again, and one from a clock that is a day ahead.
        store.add("commits", commits[: len(commits) // 2], cluster=cluster, date=YESTERDAY)
        ahead = {**commits[0], "at_ms": NOW_MS + 86_400_000, "committed": 1, "log_offset": 10**6}
        store.add("commits", [*commits[len(commits) // 3 :], ahead], cluster=cluster)
        store.add("produced", produced, cluster=cluster)
        hours = reference.hourly(reference.timed(commits, produced))
        wanted.update({(cluster, *key): value for key, value in hours.items()})
        for group, by_hour in reference.by_group(hours).items():
            where = f"group {group} of {cluster}"
            rules |= {("KKJ001", where)} if reference.missed(by_hour) else set()
            rules |= {("KKJ002", where)} if reference.is_odd(by_hour) else set()
    output = run_job(spark, spec_for(store.finish(), "lag", (YESTERDAY, TODAY)))
    got = {
        (r["cluster"], r["group"], r["topic"], r["partition"], r["hour_ms"]): (
            r["commits"], r["max_lag_ms"], r["median_lag_ms"], r["max_offset_lag"], r["median_offset_lag"]
        )
        for r in output.tables["lag_hourly"].collect()
    }  # fmt: skip
    assert got.keys() == wanted.keys()
    assert {k: (v, wanted[k]) for k, v in got.items() if v != wanted[k]} == {}
    found = {(f["rule"], f["where"]) for f in output.findings.collect() if f["rule"] in ("KKJ001", "KKJ002")}
    assert found == rules
    assert len(rules) > 2
    (facts,) = output.facts[0].collect()
    assert facts["commits_ahead_of_the_clock"] == 3


def steady(group: str, lags_s: list[float], topic: str = "t", last_ms: int = NOW_MS) -> tuple[list[Row], list[Row]]:
    """A commit an hour, each so many seconds behind a log that takes in one record a second, on a topic of its own."""
    first = last_ms - (len(lags_s) - 1) * HOUR_MS
    commits = []
    for number, seconds in enumerate(lags_s):
        at = first + number * HOUR_MS
        committed = (at - first) // 1000 + 100_000 - int(seconds)
        commits.append({"group": group, "topic": topic, "partition": 0, "committed": committed, "at_ms": at})
    begin = {"topic": topic, "partition": 0, "offset": 0, "at_ms": first - 100_000_000}
    end = {**begin, "offset": (NOW_MS - first) // 1000 + 100_000, "at_ms": NOW_MS}
    return commits, [begin, end]


def test_each_rule_fires_beyond_its_threshold_and_is_silent_at_it(spark: Any, store: StoreBuilder) -> None:
    week_s = 604_800.0
    histories = {
        "late": ([61.0] + [0.0] * 98, NOW_MS), "in-time": ([61.0] + [60.0] * 99, NOW_MS),
        "jump": ([10.0] * 99 + [70.0], NOW_MS), "wavers": ([10.0, 60.0] * 60 + [10.0, 70.0], NOW_MS),
        "stopped": ([0.0] * 100, NOW_MS - HOUR_MS - 1000), "pauses": ([0.0] * 100, NOW_MS - HOUR_MS),
        "far": ([0.0] * 99 + [0.8 * 86_400 + 1], NOW_MS), "near": ([0.0] * 99 + [0.8 * 86_400], NOW_MS),
        "idle": ([0.0] * 9, NOW_MS - int((0.8 * week_s + 1) * 1000)),
        "rests": ([0.0] * 9, NOW_MS - int(0.8 * week_s * 1000)),
        "at-work": ([0.0] * 9, NOW_MS - int(week_s * 1000)),
    }  # fmt: skip
    for group, (lags, last_ms) in histories.items():
        commits, produced = steady(group, lags, topic=group, last_ms=last_ms)
        store.add("commits", commits)
        store.add("produced", produced)
    gone, produced = steady("gone", [0.0] * 9, topic="gone", last_ms=NOW_MS - 9 * HOUR_MS)
    store.add("commits", [*gone, {**gone[-1], "committed": None, "at_ms": gone[-1]["at_ms"] + 1}])
    store.add("produced", produced)
    store.add("topics", [{"topic": t, "partitions": 1} for t in ("far", "near")])
    store.add("topic_configs", [{"topic": t, "key": "retention.ms", "value": "86400000"} for t in ("far", "near")])
    store.add("groups", [{"group": g, "state": "Empty"} for g in ("idle", "rests", "gone")])
    store.add("groups", [{"group": "at-work", "state": "Stable"}])
    output = run_job(spark, spec_for(store.finish(), "lag"))
    rows = output.findings.collect()
    found = {(f["rule"], f["where"].split()[1]) for f in rows}
    assert {g for r, g in found if r == "KKJ001"} == {"late"}
    assert {g for r, g in found if r == "KKJ002"} == {"jump", "far", "near"}
    assert {g for r, g in found if r == "KKJ003"} == {"stopped", "idle", "rests", "at-work"}
    assert {g for r, g in found if r == "KKJ004"} == {"idle"}
    assert {g for r, g in found if r == "KKR220"} == {"far"}
    (message,) = (f["message"] for f in rows if f["rule"] == "KKJ003" and "stopped" in f["where"])
    assert message == "no commit for 1 h on 1 partition of stopped that took in 3601 records beyond what is committed"


def test_a_broker_s_offset_retention_counts(spark: Any, store: StoreBuilder) -> None:
    commits, produced = steady("idle", [0.0] * 3, last_ms=NOW_MS - 49 * 60_000)
    store.add("commits", commits)
    store.add("produced", produced)
    store.add("groups", [{"group": "idle", "state": "Empty"}])
    store.add("broker_configs", [{"broker": 1, "key": "offsets.retention.minutes", "value": "60", "source": "static"}])
    output = run_job(spark, spec_for(store.finish(), "lag"))
    (message,) = (f["message"] for f in output.findings.collect() if f["rule"] == "KKJ004")
    assert message.endswith("forgotten in 11 min")
