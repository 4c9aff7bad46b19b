"""The audit `mirror` against a plain Python reference on random pairs of topics, and at the edges of each rule."""

import random
from typing import Any

from kafkakit.streams.model.record_identity import RecordId, format_record_id
from tests.spark import reference_mirror as reference
from tests.spark.conftest import NOW_MS, TODAY, StoreBuilder, run_job, spec_for

T0 = NOW_MS - 3_600_000
BASE = {"key_hash": "k", "value_crc": 1, "size_bytes": 9}
YESTERDAY = "2026-11-19"
Row = dict[str, Any]


def random_pair(seed: int) -> tuple[list[Row], list[Row]]:
    """Records of a primary and its mirror over 40 min: some lost, some twice, some of the topics without ids."""
    draw = random.Random(seed)
    sides: tuple[list[Row], list[Row]] = ([], [])
    shift = draw.choice([0, 0, 2500, -90_000])
    for topic in ("a", "b", "alone"):
        offsets = [0, 0]
        for number in range(300):
            at = T0 + draw.randrange(2_400_000)
            named = topic == "a" and draw.random() < 0.9
            identity = format_record_id(RecordId(at_ms=at, session=seed, sequence=number)) if named else None
            row = {
                "topic": topic, "partition": number % 3, "record_id": identity,
                "key_hash": draw.choice([None, "x", "y"]), "value_crc": draw.choice([number, 7]),
            }  # fmt: skip
            for side in (0, 1):
                name = f"p{seed}.b" if side and topic == "b" else topic
                copies = 0 if draw.random() < 0.03 or (side and topic == "alone") else 1 + (draw.random() < 0.03)
                for _ in range(copies):
                    late = shift + draw.choice([0, 0, 0, 400]) if side else 0
                    sides[side].append({**row, "topic": name, "offset": offsets[side], "at_ms": at + late})
                    offsets[side] += 1
    return sides


def test_random_pairs_give_what_the_reference_says(spark: Any, store: StoreBuilder) -> None:
    wanted = {}
    for seed in range(4):
        primary, mirror = random_pair(seed)
        source, copy = f"p{seed}", f"m{seed}"
        label: Row = {"labels": [f"mirror:{source}"]} if seed % 2 else {"mirror_of": source}
        store.add("clusters", [label], cluster=copy)
        store.add("clusters", [{}], cluster=source)
        # Of records that two days hold, one counts.
        store.add("records", primary[:50], cluster=source, date=YESTERDAY)
        store.add("records", primary, cluster=source)
        store.add("records", mirror, cluster=copy)
        found = reference.windows(primary, mirror, source=source, window_ms=300_000, round_ms=1000)
        wanted.update({(copy, source, topic, window): counts for (topic, window), counts in found.items()})
    output = run_job(spark, spec_for(store.finish(), "mirror", (YESTERDAY, TODAY)))
    rows = [r.asDict() for r in output.tables["mirror_windows"].collect()]
    got = {(r.pop("cluster"), r.pop("source"), r.pop("topic"), r.pop("window_ms")): r for r in rows}
    assert got == wanted
    sums = {name: sum(r[name] for r in rows) for name in ("mirror", "primary", "twice_on_mirror", "twice_on_primary")}
    assert min(sums.values()) > 5
    findings = output.findings.collect()
    for rule, name in (("KKZ001", "mirror"), ("KKZ002", "primary")):
        assert sum(f["count"] for f in findings if f["rule"] == rule) == sums[name]
    assert (
        sum(f["count"] for f in findings if f["rule"] == "KKZ003") == sums["twice_on_mirror"] + sums["twice_on_primary"]
    )
    assert any(f["rule"] == "KKZ004" for f in findings)
    (facts,) = output.facts[0].collect()
    assert (facts["topics_compared"], facts["topics_on_one_side"]) == (8, 4)


def test_a_lost_record_is_named_and_equal_sides_are_silent(spark: Any, store: StoreBuilder) -> None:
    def rows(topic: str, shift: int = 0) -> list[Row]:
        named = ((n, T0 + 30_000 + n * 60_000) for n in range(30))
        return [
            {
                **BASE,
                "topic": topic,
                "partition": 0,
                "offset": 100 + n,
                "at_ms": at + shift,
                "record_id": f"{topic}-{n}",
            }
            for n, at in named
        ]

    store.add("clusters", [{"labels": ["mirror:c1"]}], cluster="dr")
    store.add("clusters", [{}], cluster="c1")
    store.add("records", [*rows("lost"), *rows("same"), *rows("late")], cluster="c1")
    kept = [r for r in rows("lost") if r["offset"] not in (101, 112, 113, 118)]
    store.add("records", [*kept, *rows("same", 1000), *rows("late", 1001)], cluster="dr")
    output = run_job(spark, spec_for(store.finish(), "mirror"))
    found = {(f["rule"], f["where"]): f["message"] for f in output.findings.collect()}
    # 101 is in the window that the collection began in.
    assert found == {
        ("KKZ001", "topic lost of dr"): "3 records of c1 are not on dr, in 2 windows; first on c1 (partition:offset) "
        "0:112, 0:118",
        ("KKZ004", "topic late of dr"): "records have times on dr that are 1 s later than on c1",
    }  # fmt: skip


def test_a_store_without_mirrors_says_so(spark: Any, store: StoreBuilder) -> None:
    store.add("clusters", [{}])
    output = run_job(spark, spec_for(store.finish(), "mirror"))
    assert output.skipped == ("no cluster is labelled mirror:NAME",)
    assert output.findings.count() == 0
