"""What the audit `retention` finds, in plain Python over rows."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafkakit.rules.audits.capacity import GREATEST_SEGMENT_BYTES, OPTIONS, UNKNOWN_OPEN_FILES
from kafkakit.rules.config_defs import config_table
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, TopicConfig, ValueSource
from kafkakit.rules.retention import DEFAULT_MAX_MAP_COUNT, SegmentSettings, descriptors, maps, settings_of
from kafkakit.rules.subjects import LintTopic

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def settings_by_topic(cluster: Rows, version: str) -> dict[str, TopicConfig]:
    """The configuration of each topic over the static settings of the first broker."""
    known = cluster.get("broker_configs", ())
    first = min((row["broker"] for row in known), default=None)
    static = {row["key"]: DeclaredValue(row["value"], ValueSource.STATIC) for row in known if row["broker"] == first}
    broker = BrokerConfig(config_table(version), static=static, is_known=first is not None)
    found: dict[str, TopicConfig] = {}
    for row in cluster["topics"]:
        own = [r for r in cluster.get("topic_configs", ()) if r["topic"] == row["topic"]]
        found[row["topic"]] = TopicConfig({r["key"]: DeclaredValue(r["value"], ValueSource.TOPIC) for r in own}, broker)
    return found


def option(settings: SegmentSettings, k: int, tolerance: float, over_time: bool, over_size: bool) -> SegmentSettings:
    factor, is_raised = OPTIONS[k]
    changed = settings
    if over_time:
        wanted = max(int(factor * tolerance * settings.retention_ms - settings.check_interval_ms), 600_000)
        roll = min(settings.segment_ms, wanted)
        changed = replace(changed, segment_ms=roll, jitter_ms=min(settings.jitter_ms, roll // 10))
    if over_size:
        size = max(int(settings.retention_bytes * factor * tolerance), 2**20)
        changed = replace(changed, segment_bytes=min(size, settings.segment_bytes))
    elif over_time and is_raised and settings.retention_bytes <= 0:
        entries = max(settings.index_bytes // 12 - 1, 0) * (settings.index_interval_bytes + 1)
        greatest = max(settings.segment_bytes, min(GREATEST_SEGMENT_BYTES, entries))
        changed = replace(changed, segment_bytes=greatest)
    return changed


def audited(cluster: Rows, version: str, tolerance: float) -> tuple[dict[str, Any], dict[int, Any]]:
    """Topics and brokers of one cluster by name and id, with what the job's tables hold of them."""
    totals: dict[int, list[int]] = defaultdict(lambda: [0] * (len(OPTIONS) + 2))
    topics = {
        name: found
        for name, config in settings_by_topic(cluster, version).items()
        if (found := audited_topic(cluster, name, config, tolerance, totals)) is not None
    }
    brokers = {broker: audited_broker(cluster, broker, counts) for broker, counts in totals.items()}
    for topic in topics.values():
        if topic["over_time"] or topic["over_size"]:
            chosen, tightest = max((brokers[b]["option"], -b) for b in topic["brokers"])
            advised = [*topic["options"], topic["settings"]][chosen]
            topic |= {
                "option": chosen, "tightest": -tightest, "advised": advised,
                "advised_segments": [*topic["counts"][1:], topic["counts"][0]][chosen],
                "advised_overshoot": advised.overshoot(topic["slowest"]),
            }  # fmt: skip
    return topics, brokers


def audited_topic(
    cluster: Rows, name: str, config: TopicConfig, tolerance: float, totals: dict[int, list[int]]
) -> dict[str, Any] | None:
    settings = settings_of(LintTopic(name=name, config=config))
    rows = [r for r in cluster["partitions"] if r["topic"] == name]
    if not rows:
        return None
    slowest = min((r["bytes_in_s"] for r in rows if r["bytes_in_s"] is not None), default=None)
    overshoot = settings.overshoot(slowest)
    is_set = config.is_set("retention.ms") and settings.retention_ms > 0
    over_time = is_set and overshoot is not None and overshoot > tolerance
    over_size = settings.deletes and 0 < settings.retention_bytes * tolerance < settings.segment_bytes
    options = [option(settings, k, tolerance, over_time, over_size) for k in range(len(OPTIONS))]
    counts = [0] * (len(OPTIONS) + 1)
    for row in rows:
        now = segments_now(cluster, row, settings)
        numbers = [now]
        for changed in options:
            before, after = settings.segment_limit(row["bytes_in_s"]), changed.segment_limit(row["bytes_in_s"])
            is_changed = after is not None and (over_time or over_size)
            numbers.append(max(now + (after or 0) - (before or now), 1) if is_changed else now)
        counts = [a + b * len(row["replicas"]) for a, b in zip(counts, numbers, strict=True)]
        for broker in row["replicas"]:
            totals[broker] = [a + b for a, b in zip(totals[broker], [*numbers, 1], strict=True)]
    return {
        "settings": settings, "over_time": over_time, "over_size": over_size, "options": options, "counts": counts,
        "slowest": slowest, "overshoot": overshoot, "brokers": {b for r in rows for b in r["replicas"]},
    }  # fmt: skip


def segments_now(cluster: Rows, row: Mapping[str, Any], settings: SegmentSettings) -> int:
    files = Counter(
        file["broker"]
        for file in cluster.get("segments", ())
        if (file["topic"], file["partition"]) == (row["topic"], row["partition"]) and file["role"] == "log"
    )
    by_size = None if row["size_bytes"] is None else 1 + row["size_bytes"] // max(settings.capacity_bytes(), 1)
    return max(files.values(), default=None) or settings.segment_limit(row["bytes_in_s"]) or by_size or 1


def audited_broker(cluster: Rows, broker: int, counts: list[int]) -> dict[str, Any]:
    now, *then, replicas = counts
    host = next((row for row in cluster.get("brokers", ()) if row["broker"] == broker), {})
    files = UNKNOWN_OPEN_FILES if host.get("open_files") is None else host["open_files"]
    areas = DEFAULT_MAX_MAP_COUNT if host.get("max_map_count") is None else host["max_map_count"]
    connections = host.get("connections") or 0
    fitting = [
        k
        for k, n in enumerate(then)
        if n <= now or (descriptors(n, connections) <= 0.8 * files and maps(n) <= 0.8 * areas)
    ]
    chosen = min(fitting, default=len(OPTIONS))
    return {
        "segments": now, "replicas": replicas, "option": chosen, "segments_after": [*then, now][chosen],
        "descriptors": descriptors(now, connections), "maps": maps(now), "open_files": files, "max_map_count": areas,
    }  # fmt: skip
