"""The tables of one healthy made cluster that a scan of its log segments would give."""

from collections.abc import Iterator

import numpy as np

from kafkakit.fleet.decide import synth_cluster as healthy
from kafkakit.fleet.decide.synth_shape import REPLICAS

ROWS_OF_PART = 480_000
BATCH_BYTES = 25_000
CODEC = "zstd"
EPOCH = 3
_ZEROS = (
    "torn_bytes", "legacy_batches", "missing_times", "append_time_batches", "none_batches", "gzip_batches",
    "snappy_batches", "lz4_batches", "single_record_batches", "tiny_batches", "control_batches",
    "transactional_batches", "aborted_records", "offset_gaps", "missing_records", "overlaps", "epoch_regressions",
    "crc_failures", "epoch_faults", "index_faults", "time_index_faults", "txn_entries", "dead_bytes",
)  # fmt: skip


def segment_parts(model: healthy.ClusterModel, share: float) -> Iterator[healthy.Columns]:
    """The rows of `segments`, in parts of up to 480,000: those of the first topics, `share` of the partitions."""
    stop = int(model.first[np.searchsorted(model.first, min(1.0, share) * len(model.topic))])
    step = ROWS_OF_PART // (REPLICAS * healthy.SEGMENTS)
    for begin in range(0, stop, step):
        yield segment_rows(model, begin, min(stop, begin + step))


def segment_rows(model: healthy.ClusterModel, begin: int, end: int) -> healthy.Columns:
    """The rows of partitions `begin` to `end`: for each its replicas, for each of these its segments, oldest first."""
    each = healthy.SEGMENTS * REPLICAS
    p = np.repeat(np.arange(begin, end), each)
    rows = len(p)
    replica = np.tile(np.repeat(np.arange(REPLICAS), healthy.SEGMENTS), end - begin)
    age = np.tile(np.arange(healthy.SEGMENTS - 1, -1, -1), (end - begin) * REPLICAS)
    is_active = age == 0
    size = np.where(is_active, round(healthy.SEGMENT_BYTES * healthy.ACTIVE_SHARE), healthy.SEGMENT_BYTES)
    span_ms = healthy.SEGMENT_BYTES * 1000 / model.rate[p]
    last_ms = (model.end_ms - 1000 - np.where(is_active, 0, (age - 1 + healthy.ACTIVE_SHARE) * span_ms)).astype(
        np.int64
    )
    first_ms = (last_ms - span_ms * np.where(is_active, healthy.ACTIVE_SHARE, 1)).astype(np.int64) + 1
    records = size // healthy.RECORD_BYTES
    base = (
        model.end[p]
        - (healthy.SEGMENT_BYTES // healthy.RECORD_BYTES) * age
        - round(healthy.SEGMENT_BYTES * healthy.ACTIVE_SHARE) // healthy.RECORD_BYTES
    )
    batches = size // BATCH_BYTES
    folders = [f"{d}/{model.names[t]}-{n}" for t, n in zip(model.topic[begin:end], model.number[begin:end], strict=True)
               for d in healthy.LOG_DIRS]  # fmt: skip
    return {
        "broker": model.replicas[p, replica],
        "log_dir": healthy.coded(healthy.LOG_DIRS, model.dirs[p, replica]),
        "topic": healthy.coded(model.names, model.topic[p]),
        "partition": model.number[p],
        "base_offset": base,
        "path": healthy.coded(folders, (p - begin) * len(healthy.LOG_DIRS) + model.dirs[p, replica]),
        "role": healthy.constant("log", rows),
        "size_bytes": size,
        "mtime_ms": last_ms + 500,
        "is_active": is_active,
        "batches": batches,
        "records": records,
        "valid_bytes": size.copy(),
        "first_offset": base.copy(),
        "last_offset": base + records - 1,
        "first_batch_max_ms": first_ms + 2_000,
        "min_ms": first_ms,
        "max_ms": last_ms,
        f"{CODEC}_batches": batches.copy(),
        "first_epoch": np.full(rows, EPOCH, np.int32),
        "last_epoch": np.full(rows, EPOCH, np.int32),
        "index_entries": batches.copy(),
        "time_index_entries": batches.copy(),
        "open_txn_since_ms": healthy.constant(None, rows),
        "producers": np.ones(rows, np.int64),
        "smallest_ratio_bound": np.full(rows, 0.014),
        "fault": healthy.constant(None, rows),
        "seen_at_ms": np.full(rows, model.end_ms),
        "log_start": model.end[p] - model.size[p] // healthy.RECORD_BYTES,
        "recovery_point": model.end[p] - 1,
        **{name: np.zeros(rows, np.int64) for name in _ZEROS},
    }


def batch_rows(model: healthy.ClusterModel) -> healthy.Columns:
    """A sample of batches: one of the first partition of each topic, three times as large decompressed."""
    p = model.first[:-1]
    topics = len(p)
    return {
        "topic": healthy.coded(model.names, np.arange(topics)),
        "partition": np.zeros(topics, np.int32),
        "base_offset": model.end[p] - healthy.RECORD_BYTES,
        "codec": healthy.constant(CODEC, topics),
        "records": np.full(topics, BATCH_BYTES // healthy.RECORD_BYTES),
        "compressed_bytes": np.full(topics, BATCH_BYTES),
        "content_size": healthy.constant(None, topics),
        "decompressed_bytes": np.full(topics, 3 * BATCH_BYTES),
        "is_bound": np.zeros(topics, np.bool_),
        "producer_id": np.full(topics, -1),
        "path": healthy.coded([f"{healthy.LOG_DIRS[0]}/{name}-0" for name in model.names], np.arange(topics)),
    }
