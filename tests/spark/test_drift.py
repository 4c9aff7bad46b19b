"""The audit `drift` against a plain Python reference on random fleets, and at the edges of each rule."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.spark import reference_drift as reference
from tests.spark.conftest import NOW_MS, TODAY, StoreBuilder, run_job, spec_for

DATES = ("2026-10-10", "2026-11-18", "2026-11-19", TODAY)
FORMS = {
    "log.retention.ms": (None, "604800000", " 604800000 "), "log.retention.hours": ("168", "+168", "24", "-1"),
    "message.max.bytes": ("1048588", "01048588", "2097152"), "log.cleanup.policy": ("delete", "compact, delete"),
    "auto.create.topics.enable": ("true", "TRUE", "false"), "num.io.threads": ("8", "16"),
}  # fmt: skip
TOPIC_FORMS = {
    "retention.ms": ("604800000", "+604800000", "3600000"), "leader.replication.throttled.replicas": ("*", "0:1"),
    "cleanup.policy": ("delete", "compact,delete", "delete , compact"), "min.insync.replicas": ("1", "2"),
}  # fmt: skip
DECLARED = (
    ("a", "", None), ("b", "", None), ("gone", "", None), ("a", "retention.ms", "604800000"),
    ("a", "cleanup.policy", "delete"), ("a", "partitions", "6"), ("b", "replication", "2"),
    ("b", "min.insync.replicas", "2"), ("b", "retention.ms", " 3600000"),
)  # fmt: skip
DEFAULTS = {"log.retention.ms": None, "log.retention.hours": "168", "message.max.bytes": "1048588"}


Rows = dict[str, list[dict[str, Any]]]


def _settings(draw: random.Random, settings: dict[tuple[int, str], tuple[str | None, str]], is_first: bool) -> None:
    """Give the brokers' keys values on the first day, and change one later."""
    for key in sorted(FORMS) if is_first else draw.sample(sorted(FORMS), 1):
        value = draw.choice(FORMS[key]) if draw.random() < 0.4 else FORMS[key][0]
        source = draw.choice(["static", "dynamic-broker", "dynamic-default"])
        for broker in (1, 2, 3):
            settings[broker, key] = (draw.choice(FORMS[key]) if draw.random() < 0.15 else value), source
            if key in DEFAULTS and draw.random() < 0.3:
                settings[broker, key] = DEFAULTS[key], "default"
            if draw.random() < 0.05:
                settings.pop((broker, key))


def _overrides(draw: random.Random, names: Sequence[str], topics: dict[tuple[str, str], str], is_first: bool) -> None:
    for topic in names:
        for key, forms in TOPIC_FORMS.items():
            if draw.random() < (0.6 if is_first else 0.1):
                topics[topic, key] = draw.choice(forms)
            elif draw.random() < 0.1:
                topics.pop((topic, key), None)


def _cluster(draw: random.Random, seed: int, number: int, rows: Rows) -> None:
    name, first = f"c{seed}-{number}", f"c{seed}-0"
    labels = [f"group{seed}", *(["may_differ:num.io.threads"] if draw.random() < 0.3 else [])]
    labels += {1: [f"mirror:{first}"], 4: ["owned-by:replicator"]}.get(number, [])
    version = draw.choice(["4.0.1", "4.1.0", "3.9.2"])
    missed, joined = draw.choice([None, *DATES[:-1]]), draw.choice(DATES)
    settings: dict[tuple[int, str], tuple[str | None, str]] = {}
    topics: dict[tuple[str, str], str] = {}
    for day in DATES:
        _settings(draw, settings, day == DATES[0])
        _overrides(draw, ("a", "b", "__internal", f"{first}.b"), topics, day == DATES[0])
        if day == missed:
            continue
        at = {"cluster": name, "date": day}
        rows["clusters"].append({**at, "labels": labels, "kafka_version": version, "mirror_of": None})
        for broker in (1, 2, 3) if day >= joined else (1, 2):
            rows["brokers"].append(
                {**at, "broker": broker, "version": "4.2.0" if (number, broker) == (2, 3) else version}
            )
            own = {k: v for (b, k), v in settings.items() if b == broker}
            own |= {"node.id": (str(broker), "static"), "ssl.key.password": (None, "static")}
            rows["broker_configs"] += [
                {**at, "broker": broker, "key": k, "value": v, "source": s, "is_sensitive": "password" in k}
                for k, (v, s) in own.items()
            ]
        for topic in sorted({t for t, _ in topics}):
            own_labels = ["owned-by:x"] if number == 3 else ["may_differ:min.insync.replicas"]
            shape = {"partitions": 3, "replication": 3, "labels": own_labels if topic == "b" else None}
            rows["topics"].append({**at, "topic": topic, **shape})
        rows["topic_configs"] += [
            {**at, "topic": t, "key": k, "value": v, "source": "topic", "is_sensitive": False}
            for (t, k), v in topics.items()
        ]
        if number in (0, 3, 4):
            rows["declared"] += [
                {**at, "topic": t, "key": k, "value": v, "file": "t.yaml", "line": 1} for t, k, v in DECLARED
            ]


def random_fleet(seed: int) -> Rows:
    """Five clusters of one label, one of them a mirror, with a few differences each, over the days of `DATES`."""
    draw = random.Random(seed)
    rows: Rows = {k: [] for k in ("clusters", "brokers", "broker_configs", "topics", "topic_configs", "declared")}
    for number in range(5):
        _cluster(draw, seed, number, rows)
    return rows


def added(store: StoreBuilder, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for kind, found in rows.items():
        for row in found:
            groups.setdefault((kind, row["cluster"], row["date"]), []).append(row)
    for (kind, cluster, day), found in groups.items():
        store.add(kind, found, cluster=cluster, date=day)
    return store.finish()


def test_random_fleets_give_what_the_reference_says(spark: Any, store: StoreBuilder) -> None:
    rows: dict[str, list[dict[str, Any]]] = {}
    for seed in range(19, 22):  # with which every check has something to find
        for kind, found in random_fleet(seed).items():
            rows.setdefault(kind, []).extend(found)
    output = run_job(spark, spec_for(added(store, rows), "drift", DATES))
    findings = output.findings.collect()
    fleet = reference.Fleet(rows, DATES, NOW_MS)
    for check in (
        reference.uniform, reference.peers, reference.declared, reference.mirrors, reference.skews,
    ):  # fmt: skip
        wanted = sorted(check(fleet))
        rules = {w[0] for w in wanted}
        assert sorted((f["rule"], f["where"], f["message"]) for f in findings if f["rule"] in rules) == wanted
        assert wanted
    changed = [
        (r["cluster"], r["topic"] if r["topic"] is not None else r["broker"], r["key"], r["old"], r["new"],
         r["old_source"], r["new_source"], r["last_old"], r["first_day"], r["last_day"], r["places"])
        for r in output.tables["changes"].collect()
    ]  # fmt: skip
    merged: dict[tuple[Any, ...], list[Any]] = {}
    for cluster, place, *rest in reference.changes(fleet):
        merged.setdefault((cluster, place if isinstance(place, str) else "", *rest), []).append(place)
    assert sorted(changed, key=str) == sorted(
        ((k[0], min(places), *k[2:], len(places)) for k, places in merged.items()), key=str
    )
    stale = [(f["where"], f["key"]) for f in findings if f["rule"] == "KKX004"]
    assert sorted(stale) == sorted(reference.stale(fleet, 30))
    assert len(changed) > 20
    assert len(stale) > 5
