"""What the audit `capacity` finds, in plain Python over rows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from kafkakit.rules.cluster_facts import daily_slope, days_until
from kafkakit.rules.retention import settings_of
from kafkakit.rules.subjects import LintTopic
from tests.spark.reference_retention import Rows, settings_by_topic


def trends_of(rows: Sequence[Mapping[str, Any]], today: str) -> dict[tuple[int, str], tuple[int, float, float | None]]:
    """Days seen, slope and days until 85 % of each log dir whose last day is at most two days old."""
    by_dir: dict[tuple[int, str], dict[int, tuple[int, int]]] = defaultdict(dict)
    for row in rows:
        day = date.fromisoformat(row["day"]).toordinal() - date.fromisoformat(today).toordinal()
        if -90 < day <= 0 and row["used_bytes"] is not None:
            by_dir[row["broker"], row["path"]][day] = row["used_bytes"], row["total_bytes"]
    found = {}
    for key, days in by_dir.items():
        if max(days) <= -3:
            continue
        values = [days[day][0] if day in days else None for day in range(min(days), max(days) + 1)]
        try:
            found[key] = len(days), daily_slope(values), days_until(values, 0.85 * days[max(days)][1])
        except ValueError:
            found[key] = len(days), float("nan"), None
    return found


def held_by(cluster: Rows, version: str) -> tuple[dict[int, float], dict[tuple[str, str], list[int]]]:
    """The ceiling of each broker; and for each broker and rack replicas, leaders, bytes, and partitions it stops."""
    configs = settings_by_topic(cluster, version)
    racks = {row["broker"]: row.get("rack") for row in cluster.get("brokers", ())}
    ceilings: dict[int, float] = defaultdict(float)
    losses: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 5)
    for row in cluster["partitions"]:
        topic = LintTopic(name=row["topic"], config=configs[row["topic"]])
        rate, isr = row["bytes_in_s"], row["isr"]
        limit = None if rate is None else settings_of(topic).disk_limit_bytes(rate)
        least = min(topic.config.number("min.insync.replicas") or 1, len(row["replicas"]))
        size = row["size_bytes"] or 0
        for broker in row["replicas"]:
            ceilings[broker] += size if limit is None else limit
        parts = {("broker", str(b)): [b] for b in row["replicas"]}
        for rack in {racks.get(b) for b in row["replicas"]} - {None}:
            parts["rack", str(rack)] = [b for b in row["replicas"] if racks.get(b) == rack]
        for part, brokers in parts.items():
            lost = [b for b in brokers if b in isr]
            left = len(isr) - len(lost)
            stops = bool(lost) and len(isr) >= least > left
            numbers = len(brokers), row["leader"] in brokers, size * len(brokers), stops, bool(lost) and left == 0
            losses[part] = [a + int(b) for a, b in zip(losses[part], numbers, strict=True)]
    return ceilings, losses
