"""One healthy made cluster: its size, the tables of its state, and those that a scan of its log segments would give.

A fleet's tiers say how brokers, topics and partitions spread over its clusters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkakit.rules.config_defs import ConfigDef, config_table

RACKS = ("a", "b", "c")
REPLICAS = 3
SIGMA = 1.6
"""Of the lognormal sizes of clusters: the largest 5 % hold about half of all partitions."""
LEAST_TOPICS = 12
CLUSTERS_OF_POOL = 50


class Tier(StrEnum):
    """The sizes of fleets that figures are given for."""

    XS = "XS"
    S = "S"
    M = "M"
    L = "L"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSize:
    """Totals of a fleet. `hours` of traffic by partition are written, and about `segment_rows` rows of segments."""

    clusters: int
    brokers: int
    topics: int
    partitions: int
    segment_rows: int
    hours: int


SIZES: dict[Tier, FleetSize] = {
    Tier.XS: FleetSize(clusters=3, brokers=9, topics=60, partitions=600, segment_rows=10_000, hours=168),
    Tier.S: FleetSize(clusters=10, brokers=99, topics=1_000, partitions=20_000, segment_rows=500_000, hours=24),
    Tier.M: FleetSize(clusters=100, brokers=1_998, topics=20_000, partitions=500_000, segment_rows=12_000_000, hours=4),
    Tier.L: FleetSize(
        clusters=300, brokers=18_000, topics=100_000, partitions=4_000_000, segment_rows=2_000_000, hours=1
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """One cluster: broker ids are 1 to `brokers`, which is a multiple of the racks. Every third has files of topics."""

    index: int
    name: str
    brokers: int
    topics: int
    partitions: int
    mirror_of: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The label that its peers share, and that of a mirror."""
        peers = f"pool-{self.index // CLUSTERS_OF_POOL}"
        return (peers,) if self.mirror_of is None else (peers, f"mirror:{self.mirror_of}")

    @property
    def is_declared(self) -> bool:
        """True where files declare its topics."""
        return self.index % 3 == 0


def cluster_shapes(size: FleetSize, seed: int, *, skew: bool = False) -> tuple[ClusterShape, ...]:
    """The clusters of a fleet, largest first; with `skew` the first has half of all partitions.

    Clusters 2 and 12, 22, ... are mirrors of those before them, and as large.
    """
    rng = np.random.default_rng([seed, 1])
    weights = np.sort(rng.lognormal(0.0, SIGMA if size.clusters > 3 else 0.2, size.clusters))[::-1]
    if skew and size.clusters > 1:
        weights[0] = weights[1:].sum()
    for mirror in range(2, size.clusters, 10):
        weights[mirror] = weights[mirror - 1]
    shares = weights / weights.sum()
    racks = len(RACKS)
    brokers = racks * _parted(size.brokers // racks, shares, 1)
    topics = _parted(size.topics, shares, min(LEAST_TOPICS, size.topics // size.clusters))
    partitions = np.maximum(_parted(size.partitions, shares, 1), topics)
    shapes = []
    for i in range(size.clusters):
        is_mirror = i % 10 == 2
        like = i - 1 if is_mirror else i
        shapes.append(
            ClusterShape(
                index=i,
                name=f"kafka-{i:04d}",
                brokers=int(brokers[like]),
                topics=int(topics[like]),
                partitions=int(partitions[like]),
                mirror_of=f"kafka-{i - 1:04d}" if is_mirror else None,
            )
        )
    return tuple(shapes)


def _parted(total: int, shares: NDArray[np.float64], least: int) -> NDArray[np.int64]:
    """`total` in parts of about these shares, each at least `least`; the largest takes what rounding leaves."""
    parts = np.maximum(least, np.floor(shares * total)).astype(np.int64)
    excess = int(parts.sum()) - total
    if excess > 0:  # many small clusters were raised to the least: all the others give
        spare = parts - least
        parts -= np.ceil(spare * min(1.0, excess / max(1, int(spare.sum())))).astype(np.int64)
    parts[0] += total - int(parts.sum())
    return parts


Columns = dict[str, Any]
"""Columns of one table by name: arrays, or coded columns."""
Tables = dict[str, Columns]

DAY_MS = 86_400_000
VERSION = "4.3.0"
LOG_DIRS = ("/d1", "/d2")
RETENTION_MS = DAY_MS
SEGMENT_MS = 41_400_000
SEGMENT_BYTES = 100_000_000
SEGMENTS = 8
"""Of each replica: what a day of `RETENTION_MS` fills at the mean rate, the active one among them."""
ACTIVE_SHARE = 0.5
RECORD_BYTES = 500
TOPIC_SETTINGS = {
    "retention.ms": str(RETENTION_MS),
    "segment.ms": str(SEGMENT_MS),
    "segment.bytes": str(SEGMENT_BYTES),
    "min.insync.replicas": "2",
    "message.timestamp.after.max.ms": "3600000",
}
BROKER_SETTINGS = {"log.dirs": ",".join(LOG_DIRS), "default.replication.factor": "3", "min.insync.replicas": "2"}
DISK_FREE = 4
"""A log dir is this many times as large as what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterModel:
    """Where everything of a cluster lies, as arrays: one value for each partition (or topic, where said).

    `first` are the first partitions of the topics, with the end; `rate` bytes/s; `replicas` is (partitions, 3) brokers,
    the leader first, and `dirs` the places of their log dirs in `LOG_DIRS`.
    """

    shape: ClusterShape
    end_ms: int
    names: tuple[str, ...]
    first: NDArray[np.int64]
    topic: NDArray[np.int32]
    number: NDArray[np.int32]
    replicas: NDArray[np.int32]
    dirs: NDArray[np.int32]
    rate: NDArray[np.float64]
    size: NDArray[np.int64]
    end: NDArray[np.int64]


def cluster_model(shape: ClusterShape, seed: int, end_ms: int) -> ClusterModel:
    """Lay a cluster out: leaders round-robin, so that brokers and log dirs hold and lead about as much."""
    # A mirror has the topics of its primary.
    rng = np.random.default_rng([seed, 2, shape.index - (shape.mirror_of is not None)])
    counts = np.full(shape.topics, shape.partitions // shape.topics)
    counts[: shape.partitions % shape.topics] += 1
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    topic = np.repeat(np.arange(shape.topics, dtype=np.int32), counts)
    at = np.arange(shape.partitions)
    block = at // shape.brokers
    places = (at + block)[:, None] + np.arange(REPLICAS)
    speed = rng.uniform(0.97, 1.03, shape.topics)[topic]
    full = SEGMENTS - 1 + ACTIVE_SHARE
    size = np.full(shape.partitions, round(full * SEGMENT_BYTES), np.int64)
    return ClusterModel(
        shape=shape,
        end_ms=end_ms,
        names=tuple(f"{word}-{i:05d}" for i, word in zip(range(shape.topics), _words(shape.topics), strict=True)),
        first=first,
        topic=topic,
        number=(at - first[topic]).astype(np.int32),
        replicas=(places % shape.brokers + 1).astype(np.int32),
        dirs=((block[:, None] + np.arange(REPLICAS)) % len(LOG_DIRS)).astype(np.int32),
        rate=speed * SEGMENT_BYTES * SEGMENTS / (RETENTION_MS / 1000),
        size=size,
        end=rng.integers(10**6, 10**9, shape.topics)[topic] + size // RECORD_BYTES,
    )


def _words(number: int) -> list[str]:
    words = ("orders", "payments", "clicks", "stock", "prices", "users", "mails", "audits")
    return [words[i % len(words)] for i in range(number)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedColumn(Sequence[Any]):
    """`codes` (one for each row) are places in `words`; -1 is null. Four bytes a row, whatever a word is."""

    words: tuple[Any, ...]
    codes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: Any) -> Any:
        code = self.codes[index]
        return None if code < 0 else self.words[code]

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:  # noqa: A002
        """What pyarrow makes an array of."""
        return pa.array(self.words, type=type).take(pa.array(self.codes, mask=self.codes < 0))


def coded(words: Sequence[Any], codes: Any) -> CodedColumn:
    """A coded column."""
    return CodedColumn(words=tuple(words), codes=np.ascontiguousarray(codes, np.int32))


def constant(word: Any, rows: int) -> CodedColumn:
    """One value in every row."""
    return coded((word,), np.zeros(rows, np.int32))


def state_tables(model: ClusterModel) -> Tables:
    """All tables that show the cluster's state; a quarter of a second for 100,000 partitions."""
    return {**identity_tables(model), **_partition_tables(model), **_log_dirs(model)}


def identity_tables(model: ClusterModel) -> Tables:
    """The tables that are kept for earlier days too: what drift is found in."""
    shape = model.shape
    brokers = np.arange(1, shape.brokers + 1, dtype=np.int32)
    topics = shape.topics
    tables: Tables = {
        "clusters": {
            "cluster_id": constant(f"{shape.name}-id", 1),
            "labels": constant(list(shape.labels), 1),
            "env": constant("prod", 1),
            "kafka_version": constant(VERSION, 1),
            "mirror_of": constant(shape.mirror_of, 1),
            "taken_at_ms": np.array([model.end_ms]),
            "source": constant("synth", 1),
        },
        "brokers": {
            "broker": brokers,
            "rack": coded(RACKS, (brokers - 1) % len(RACKS)),
            "host": coded([f"b{b}.{shape.name}" for b in brokers], brokers - 1),
            "is_alive": np.ones(shape.brokers, np.bool_),
            "version": constant(VERSION, shape.brokers),
            "open_files": np.full(shape.brokers, 1_048_576),
            "max_map_count": np.full(shape.brokers, 262_144),
            "connections": np.full(shape.brokers, 2_000),
        },
        "broker_configs": _broker_configs(model, brokers),
        "topics": {
            "topic": coded(model.names, np.arange(topics)),
            "topic_id": coded([topic_id_of(shape, i) for i in range(topics)], np.arange(topics)),
            "partitions": np.diff(model.first).astype(np.int32),
            "replication": np.full(topics, REPLICAS, np.int32),
            "is_internal": np.zeros(topics, np.bool_),
            "labels": constant([], topics),
            "owner": coded([f"team-{i}" for i in range(5)], np.arange(topics) % 5),
        },
        "topic_configs": _topic_configs(model),
    }
    if shape.is_declared:
        tables["declared"] = _declared(model, tables["topic_configs"])
    return tables


def _definitions(found: dict[str, ConfigDef]) -> list[ConfigDef]:
    return [d for _, d in sorted(found.items()) if not d.internal]


def _broker_configs(model: ClusterModel, brokers: NDArray[np.int32]) -> Columns:
    definitions = _definitions(dict(config_table(VERSION[:3]).broker))
    ids = [str(b) for b in brokers]
    rack = {"node.id": ids, "broker.rack": [RACKS[(b - 1) % len(RACKS)] for b in brokers]}
    words: list[str | None] = []
    codes = np.empty((len(brokers), len(definitions)), np.int32)
    for i, d in enumerate(definitions):
        if d.name in rack:
            codes[:, i] = np.arange(len(brokers)) + len(words)
            words += rack[d.name]
        else:
            value = None if d.is_sensitive else BROKER_SETTINGS.get(d.name, d.default)
            codes[:, i] = -1 if value is None else len(words)
            words += [value]
    is_static = [d.name in rack or d.name in BROKER_SETTINGS for d in definitions]
    return {
        "broker": np.repeat(brokers, len(definitions)),
        "key": coded([d.name for d in definitions], np.tile(np.arange(len(definitions)), len(brokers))),
        "value": coded(words, codes.ravel()),
        "source": coded(("default", "static"), np.tile(np.array(is_static, np.int32), len(brokers))),
        "is_read_only": np.tile(np.array([d.update_mode.value == "read-only" for d in definitions]), len(brokers)),
        "is_sensitive": np.tile(np.array([d.is_sensitive for d in definitions]), len(brokers)),
    }


def _topic_configs(model: ClusterModel) -> Columns:
    definitions = [d for d in _definitions(dict(config_table(VERSION[:3]).topic)) if d.default is not None]
    topics, keys = model.shape.topics, len(definitions)
    return {
        "topic": coded(model.names, np.repeat(np.arange(topics), keys)),
        "key": coded([d.name for d in definitions], np.tile(np.arange(keys), topics)),
        "value": coded([TOPIC_SETTINGS.get(d.name, d.default) for d in definitions], np.tile(np.arange(keys), topics)),
        "source": constant("topic", topics * keys),
        "is_sensitive": np.zeros(topics * keys, np.bool_),
    }


def _declared(model: ClusterModel, live: Columns) -> Columns:
    """Files that declare every topic as it is: its settings, then itself, its partitions and its replicas."""
    topics = model.shape.topics
    counts = np.diff(model.first)
    keys, values = live["key"], live["value"]
    sizes = tuple(str(c) for c in range(int(counts.max()) + 1))
    own = np.repeat(np.arange(topics), 3)
    base_key, base_value = len(keys.words), len(values.words)
    texts = np.stack([np.full(topics, -1), base_value + counts, np.full(topics, base_value + REPLICAS)], axis=1)
    rows = len(live["topic"]) + len(own)
    return {
        "topic": coded(model.names, np.concatenate([live["topic"].codes, own])),
        "key": coded(
            (*keys.words, "", "partitions", "replication"),
            np.concatenate([keys.codes, np.tile(np.arange(3) + base_key, topics)]),
        ),
        "value": coded((*values.words, *sizes, *map(str, range(len(sizes), REPLICAS + 1))),
                       np.concatenate([values.codes, texts.ravel()])),
        "file": constant("topics.yaml", rows),
        "line": np.arange(1, rows + 1, dtype=np.int32),
        "owner": constant(None, rows),
    }  # fmt: skip


def _partition_tables(model: ClusterModel) -> Tables:
    replicas, rows = model.replicas, len(model.topic)
    names = coded(model.names, model.topic)
    sets = tuple([[(b + j) % model.shape.brokers + 1 for j in range(REPLICAS)] for b in range(model.shape.brokers)])
    assigned = coded(sets, replicas[:, 0] - 1)
    each = np.repeat(np.arange(rows), REPLICAS)
    records = model.size // RECORD_BYTES
    return {
        "partitions": {
            "topic": names,
            "partition": model.number,
            "leader": replicas[:, 0].copy(),
            "replicas": assigned,
            "isr": assigned,
            "size_bytes": model.size.copy(),
            "start_offset": model.end - records,
            "end_offset": model.end.copy(),
            "oldest_ms": model.end_ms - (model.size * 1000 / model.rate).astype(np.int64),
            "bytes_in_s": model.rate.copy(),
            "messages_in_s": model.rate / RECORD_BYTES,
        },
        "replicas": {
            "topic": coded(model.names, model.topic[each]),
            "partition": model.number[each],
            "broker": replicas.ravel(),
            "log_dir": coded(LOG_DIRS, model.dirs.ravel()),
            "size_bytes": model.size[each],
            "offset_lag": np.zeros(len(each), np.int64),
            "is_future": np.zeros(len(each), np.bool_),
        },
    }


def topic_id_of(shape: ClusterShape, topic: int) -> str:
    """What stands in for a topic's id."""
    return f"{shape.name}-{topic:06d}"


def used_bytes(model: ClusterModel) -> NDArray[np.int64]:
    """What each log dir holds, of all brokers in turn."""
    dirs = len(LOG_DIRS)
    places = ((model.replicas - 1) * dirs + model.dirs).ravel()
    sizes = np.repeat(model.size, REPLICAS).astype(np.float64)
    return np.bincount(places, sizes, model.shape.brokers * dirs).astype(np.int64)


def total_bytes(model: ClusterModel) -> int:
    """The size of each log dir: whole GiB, the same in the whole cluster."""
    return -(-int(used_bytes(model).max()) * DISK_FREE // 2**30) * 2**30


def _log_dirs(model: ClusterModel) -> Tables:
    used, total = used_bytes(model), total_bytes(model)
    rows = len(used)
    return {
        "log_dirs": {
            "broker": np.repeat(np.arange(1, model.shape.brokers + 1, dtype=np.int32), len(LOG_DIRS)),
            "path": coded(LOG_DIRS, np.arange(rows) % len(LOG_DIRS)),
            "total_bytes": np.full(rows, total),
            "usable_bytes": total - used,
            "error": constant(None, rows),
        }
    }


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


def segment_parts(model: ClusterModel, share: float) -> Iterator[Columns]:
    """The rows of `segments`, in parts of up to 480,000: those of the first topics, `share` of the partitions."""
    stop = int(model.first[np.searchsorted(model.first, min(1.0, share) * len(model.topic))])
    step = ROWS_OF_PART // (REPLICAS * SEGMENTS)
    for begin in range(0, stop, step):
        yield segment_rows(model, begin, min(stop, begin + step))


def segment_rows(model: ClusterModel, begin: int, end: int) -> Columns:
    """The rows of partitions `begin` to `end`: for each its replicas, for each of these its segments, oldest first."""
    each = SEGMENTS * REPLICAS
    p = np.repeat(np.arange(begin, end), each)
    rows = len(p)
    replica = np.tile(np.repeat(np.arange(REPLICAS), SEGMENTS), end - begin)
    age = np.tile(np.arange(SEGMENTS - 1, -1, -1), (end - begin) * REPLICAS)
    is_active = age == 0
    size = np.where(is_active, round(SEGMENT_BYTES * ACTIVE_SHARE), SEGMENT_BYTES)
    span_ms = SEGMENT_BYTES * 1000 / model.rate[p]
    last_ms = (model.end_ms - 1000 - np.where(is_active, 0, (age - 1 + ACTIVE_SHARE) * span_ms)).astype(np.int64)
    first_ms = (last_ms - span_ms * np.where(is_active, ACTIVE_SHARE, 1)).astype(np.int64) + 1
    records = size // RECORD_BYTES
    base = model.end[p] - (SEGMENT_BYTES // RECORD_BYTES) * age - round(SEGMENT_BYTES * ACTIVE_SHARE) // RECORD_BYTES
    batches = size // BATCH_BYTES
    folders = [f"{d}/{model.names[t]}-{n}" for t, n in zip(model.topic[begin:end], model.number[begin:end], strict=True)
               for d in LOG_DIRS]  # fmt: skip
    return {
        "broker": model.replicas[p, replica],
        "log_dir": coded(LOG_DIRS, model.dirs[p, replica]),
        "topic": coded(model.names, model.topic[p]),
        "partition": model.number[p],
        "base_offset": base,
        "path": coded(folders, (p - begin) * len(LOG_DIRS) + model.dirs[p, replica]),
        "role": constant("log", rows),
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
        "open_txn_since_ms": constant(None, rows),
        "producers": np.ones(rows, np.int64),
        "smallest_ratio_bound": np.full(rows, 0.014),
        "fault": constant(None, rows),
        "seen_at_ms": np.full(rows, model.end_ms),
        "log_start": model.end[p] - model.size[p] // RECORD_BYTES,
        "recovery_point": model.end[p] - 1,
        **{name: np.zeros(rows, np.int64) for name in _ZEROS},
    }


def directory_rows(model: ClusterModel, share: float) -> Columns:
    """The rows of `directories`: each replica of the first topics, `share` of the partitions, as `segment_parts`."""
    stop = int(model.first[np.searchsorted(model.first, min(1.0, share) * len(model.topic))])
    p, rows = np.repeat(np.arange(stop), REPLICAS), stop * REPLICAS
    folders = [f"{d}/{model.names[t]}-{n}" for t, n in zip(model.topic[:stop], model.number[:stop], strict=True)
               for d in LOG_DIRS]  # fmt: skip
    dirs = model.dirs[:stop].ravel()
    return {
        "broker": model.replicas[:stop].ravel(),
        "log_dir": coded(LOG_DIRS, dirs),
        "topic": coded(model.names, model.topic[p]),
        "partition": model.number[p],
        "path": coded(folders, p * len(LOG_DIRS) + dirs),
        "role": constant("live", rows),
        "topic_id": coded([topic_id_of(model.shape, i) for i in range(len(model.names))], model.topic[p]),
        "held_bytes": model.size[p],
        "oldest_ms": np.full(rows, model.end_ms - 30 * DAY_MS),
        "seen_at_ms": np.full(rows, model.end_ms),
    }


def batch_rows(model: ClusterModel) -> Columns:
    """A sample of batches: one of the first partition of each topic, three times as large decompressed."""
    p = model.first[:-1]
    topics = len(p)
    return {
        "topic": coded(model.names, np.arange(topics)),
        "partition": np.zeros(topics, np.int32),
        "base_offset": model.end[p] - RECORD_BYTES,
        "codec": constant(CODEC, topics),
        "records": np.full(topics, BATCH_BYTES // RECORD_BYTES),
        "compressed_bytes": np.full(topics, BATCH_BYTES),
        "content_size": constant(None, topics),
        "decompressed_bytes": np.full(topics, 3 * BATCH_BYTES),
        "is_bound": np.zeros(topics, np.bool_),
        "producer_id": np.full(topics, -1),
        "path": coded([f"{LOG_DIRS[0]}/{name}-0" for name in model.names], np.arange(topics)),
    }
