"""The arithmetic of retention as Spark expressions is that of `rules.retention`."""

import random
from dataclasses import asdict
from typing import Any

import pytest

from kafkakit.rules.effective import UNLIMITED
from kafkakit.rules.retention import DAY_MS, HOUR_MS, SegmentSettings

RATES = (None, 0.0, 0.001, 1.0, 17.0, 10_240.0, 102_400.0, 1e8, 3e9)


def drawn(rng: random.Random) -> SegmentSettings:
    def pick(*values: int) -> int:
        return rng.choice((*values, rng.randrange(1, 2 * DAY_MS)))

    return SegmentSettings(
        deletes=rng.random() < 0.8, compacts=rng.random() < 0.3, retention_ms=pick(-1, 0, 1, DAY_MS, UNLIMITED),
        retention_bytes=pick(-1, -1, 0, 2**30, 5 * 2**30), segment_ms=pick(1, HOUR_MS, 7 * DAY_MS, UNLIMITED),
        segment_bytes=pick(14, 2**20, 2**30), jitter_ms=pick(0, 0, HOUR_MS),
        index_bytes=pick(4, 20, 24, 10 * 2**20), index_interval_bytes=pick(0, 1024, 4096),
        delete_delay_ms=pick(0, 60_000), check_interval_ms=pick(1, 300_000),
        max_compaction_lag_ms=pick(0, HOUR_MS, UNLIMITED, UNLIMITED),
    )  # fmt: skip


def test_expressions_are_the_functions_of_the_rules(spark: Any) -> None:
    from kafkakit_spark.effective import MANY, with_bounds

    rng = random.Random(3)
    # Worked values of the rules: 8 times the retention with Kafka's defaults, 0.503 with 12 h and 100 MB.
    worked = [
        SegmentSettings(retention_ms=DAY_MS),
        SegmentSettings(retention_ms=DAY_MS, segment_ms=DAY_MS // 2, segment_bytes=100 * 2**20),
        SegmentSettings(retention_ms=-1, retention_bytes=5 * 2**30),
    ]
    cases = [(s, rate) for s in (*worked, *(drawn(rng) for _ in range(400))) for rate in RATES]
    rows = [(*asdict(settings).values(), rate) for settings, rate in cases]
    kinds = ", ".join(
        f"{name} {'boolean' if name in ('deletes', 'compacts') else 'bigint'}" for name in asdict(cases[0][0])
    )
    frame = spark.createDataFrame(rows, f"{kinds}, rate double").coalesce(1)
    found = with_bounds(frame, "rate").collect()
    assert len(found) == len(cases)
    for row, (settings, bytes_s) in zip(found, cases, strict=True):
        expected = {
            "roll_ms": settings.roll_ms, "span_ms": settings.span_ms(bytes_s),
            "shortest_span_ms": settings.shortest_span_ms(bytes_s), "age_limit_ms": settings.age_limit_ms(bytes_s),
            "overshoot": settings.overshoot(bytes_s), "capacity_bytes": settings.capacity_bytes(),
            "disk_limit_bytes": None if bytes_s is None else settings.disk_limit_bytes(bytes_s),
            "segment_limit": settings.segment_limit(bytes_s),
        }  # fmt: skip
        for name, value in expected.items():
            limited = value if value is None or name != "segment_limit" else min(value, MANY + 2)
            assert row[name] == (None if limited is None else pytest.approx(limited, rel=1e-9)), (name, settings)
    first, tuned, sized = found[:: len(RATES)][:3]
    assert (first["age_limit_ms"] / HOUR_MS, round(first["overshoot"], 3)) == (pytest.approx(192 + 1 / 12), 7.003)
    assert (tuned["age_limit_ms"] / HOUR_MS, round(tuned["overshoot"], 3)) == (pytest.approx(36 + 1 / 12), 0.503)
    assert (tuned["segment_limit"], sized["age_limit_ms"]) == (4, None)
    at_100_kb = found[2 * len(RATES) + RATES.index(102_400.0)]
    assert round(at_100_kb["disk_limit_bytes"] / 2**20) == 6173
