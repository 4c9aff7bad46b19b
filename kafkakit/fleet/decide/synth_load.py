"""The tables of one healthy made cluster that are histories: disks, traffic, groups, commits, mirrored records."""

from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from kafkakit.fleet.decide import synth_cluster as healthy

DISK_DAYS = 30
HOUR_MS = 3_600_000
GROUPS_OF_CLUSTER = 12
"""One group each for the first topics."""
GROUP_PARTITIONS = 4
"""Partitions of each group of which commits are kept."""
COMMITS = 48
"""Of each partition, over one day."""
COMMIT_EVERY_MS = healthy.DAY_MS // COMMITS
LAG_MS = 10_000
MIRRORED_TOPICS = 12
MIRRORED_RECORDS = 240
"""Of partition 0 of each of the first topics, one each half minute up to an hour before the snapshot."""


def load_tables(model: healthy.ClusterModel, hours: int) -> healthy.Tables:
    """All histories of a cluster; traffic by hour has `hours` rows a partition."""
    tables = {"disk_daily": _disk_daily(model), "traffic_hourly": _traffic(model, hours), **_groups(model)}
    if model.shape.index % 10 in (1, 2):
        tables["records"] = _records(model)
    return tables


def _disk_daily(model: healthy.ClusterModel) -> dict[str, object]:
    used = healthy.used_bytes(model)
    # Quiet weekends; no growth.
    week = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.97, 0.96])[np.arange(DISK_DAYS) % 7]
    days = [_day(model.end_ms - (DISK_DAYS - i) * healthy.DAY_MS) for i in range(DISK_DAYS)]
    rows = len(used) * DISK_DAYS
    return {
        "broker": np.repeat(np.arange(1, model.shape.brokers + 1, dtype=np.int32), len(healthy.LOG_DIRS) * DISK_DAYS),
        "path": healthy.coded(healthy.LOG_DIRS, np.repeat(np.arange(len(used)) % len(healthy.LOG_DIRS), DISK_DAYS)),
        "day": healthy.coded(days, np.tile(np.arange(DISK_DAYS), len(used))),
        "used_bytes": (used[:, None] * week).astype(np.int64).ravel(),
        "total_bytes": np.full(rows, healthy.total_bytes(model)),
    }


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


def hours_of(model: healthy.ClusterModel, hours: int) -> NDArray[np.int64]:
    """The begins of the last hours, oldest first."""
    return model.end_ms - HOUR_MS * np.arange(hours, 0, -1)


def _traffic(model: healthy.ClusterModel, hours: int) -> dict[str, object]:
    rows = len(model.topic)
    starts = hours_of(model, hours)
    day = 1 + 0.2 * np.sin((starts // HOUR_MS % 24) * (2 * np.pi / 24))
    rate = (model.rate[None, :] * day[:, None]).ravel()
    return {
        "topic": healthy.coded(model.names, np.tile(model.topic, hours)),
        "partition": np.tile(model.number, hours),
        "broker": np.tile(model.replicas[:, 0], hours),
        "hour_ms": np.repeat(starts, rows),
        "bytes_in_s": rate,
        "bytes_out_s": rate * 2,
        "messages_in_s": rate / healthy.RECORD_BYTES,
    }


def group_name(model: healthy.ClusterModel, topic: int) -> str:
    """The group that reads a topic."""
    return f"g-{model.names[topic]}"


def _groups(model: healthy.ClusterModel) -> healthy.Tables:
    groups = min(GROUPS_OF_CLUSTER, model.shape.topics)
    names = [group_name(model, t) for t in range(groups)]
    stop = int(model.first[groups])
    every = slice(0, stop)
    tracked = np.flatnonzero((model.topic < groups) & (model.number < GROUP_PARTITIONS))
    # Commits of the last hour are within it.
    at = model.end_ms - healthy.DAY_MS + COMMIT_EVERY_MS * np.arange(1, COMMITS + 1) - LAG_MS - 60_000
    behind = _rate_at(model, tracked)[:, None] * ((model.end_ms - at) / 1000)[None, :]
    offsets = model.end[tracked][:, None] - behind.astype(np.int64)
    rows = len(tracked) * COMMITS
    times = np.tile(at, len(tracked))
    produced: dict[str, object] = {
        "topic": healthy.coded(model.names, np.repeat(model.topic[tracked], COMMITS)),
        "partition": np.repeat(model.number[tracked], COMMITS),
        "offset": offsets.ravel(),
        "at_ms": times,
    }
    lag = (_rate_at(model, np.arange(stop)) * LAG_MS / 1000).astype(np.int64)
    return {
        "groups": {
            "group": healthy.coded(names, np.arange(groups)),
            "state": healthy.constant("STABLE", groups),
            "protocol": healthy.constant("consumer", groups),
            "members": np.full(groups, 3, np.int32),
        },
        "group_offsets": {
            "group": healthy.coded(names, model.topic[every]),
            "topic": healthy.coded(model.names, model.topic[every]),
            "partition": model.number[every],
            "committed": model.end[every] - lag,
            "end_offset": model.end[every].copy(),
            "metadata_bytes": np.zeros(stop, np.int32),
        },
        # What was at the end LAG_MS ago is committed now.
        "commits": {
            "group": healthy.coded(names, np.repeat(model.topic[tracked], COMMITS)),
            "topic": produced["topic"],
            "partition": produced["partition"],
            "committed": offsets.ravel().copy(),
            "at_ms": times + LAG_MS,
            "log_partition": constant_int(7, rows),
            "log_offset": np.arange(rows),
            "metadata_bytes": constant_int(0, rows),
        },
        "produced": produced,
    }


def constant_int(value: int, rows: int) -> NDArray[np.int32]:
    """One number in every row."""
    return np.full(rows, value, np.int32)


def _rate_at(model: healthy.ClusterModel, partitions: NDArray[np.int64]) -> NDArray[np.float64]:
    return model.rate[partitions] / healthy.RECORD_BYTES


def _records(model: healthy.ClusterModel) -> dict[str, object]:
    """The last records of some topics: of a primary and of its mirror the same ones, at other offsets."""
    topics = min(MIRRORED_TOPICS, model.shape.topics)
    number = np.tile(np.arange(MIRRORED_RECORDS), topics)
    topic = np.repeat(np.arange(topics), MIRRORED_RECORDS)
    shift = 0 if model.shape.mirror_of is None else 1_000
    ids = [f"{name}/0/{i}" for name in model.names[:topics] for i in range(MIRRORED_RECORDS)]
    rows = len(topic)
    keys = healthy.coded([f"{i:016x}" for i in range(97)], number % 97)
    return {
        "topic": healthy.coded(model.names, topic),
        "partition": constant_int(0, rows),
        "offset": number + shift,
        "at_ms": model.end_ms - HOUR_MS - 30_000 * (MIRRORED_RECORDS - number),
        "record_id": healthy.coded(ids, np.arange(rows)),
        "key_hash": keys,
        "value_crc": (number * 2_654_435_761 + topic) % 2**32,
        "size_bytes": np.full(rows, healthy.RECORD_BYTES),
    }
