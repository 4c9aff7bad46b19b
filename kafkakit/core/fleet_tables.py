"""The tables of a fleet's snapshots, which collectors write as Parquet and audits read; and documents of audit jobs.

Files lie in `KIND/snapshot_date=YYYY-MM-DD/cluster=ID/part-*.parquet`; date and cluster are only in the path (a
character that a path cannot hold is written `%XX`, as Hive does). A manifest for each date and cluster, written last,
says which rows belong to the snapshot: `manifests/snapshot_date=YYYY-MM-DD/cluster=ID.json`. What has no manifest, or
one that is not complete, is not read. What is read at another place, such as the log directories of a broker, is a
source of its own: its files are `part-SOURCE-*.parquet`, its manifest is `cluster=ID@SOURCE.json`.

Times are milliseconds of UTC, null if unknown; -1 is never a time here.

Two documents pass between the command line and Spark: what an audit job is to do, and what it did. Only the standard
library is used: executors and drivers get this module in a zip.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields

PARTITION_COLUMNS = ("snapshot_date", "cluster")
MANIFESTS = "manifests"
STORE_LINKS = "store"
"""The folder of a run beside those of its jobs that holds links to the store's files while it runs."""
VERSION_COLUMN = "schema_version"
_TYPES = frozenset({"string", "int", "bigint", "double", "boolean", "array<int>", "array<string>"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name and type, one of those of Spark's DDL that `_TYPES` lists. Every column may be null."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class FleetTable:
    """One kind of rows. Readers fill columns that older files lack with null, and skip rows of a newer version."""

    kind: str
    version: int
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The schema as Spark's DDL, with the columns that the path holds at the end."""
        own = [f"`{c.name}` {c.type}" for c in self.columns]
        return ", ".join([*own, f"{VERSION_COLUMN} int", *(f"{name} string" for name in PARTITION_COLUMNS)])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that a file holds, without its version."""
        return tuple(c.name for c in self.columns)


def _columns(text: str) -> tuple[Column, ...]:
    found = []
    for part in text.split(","):
        name, kind = part.split()
        if kind not in _TYPES:
            raise ValueError(f"column {name} has the unknown type {kind}")
        found.append(Column(name, kind))
    return tuple(found)


def _table(kind: str, columns: str, version: int = 1) -> tuple[str, FleetTable]:
    return kind, FleetTable(kind, version, _columns(columns))


TABLES: Mapping[str, FleetTable] = dict(
    [
        _table(
            "clusters",
            "cluster_id string, labels array<string>, env string, kafka_version string, mirror_of string, "
            "taken_at_ms bigint, source string",
        ),
        # Tags of brokers and topics are keys and as many values; null where not read, empty where there are none.
        _table(
            "brokers",
            "broker int, rack string, host string, is_alive boolean, version string, open_files bigint, "
            "max_map_count bigint, connections bigint, tag_keys array<string>, tag_values array<string>",
        ),
        # value is null where the setting is sensitive; source is static, dynamic-broker, dynamic-default or default.
        _table(
            "broker_configs",
            "broker int, key string, value string, source string, is_read_only boolean, is_sensitive boolean",
        ),
        _table(
            "topics",
            "topic string, topic_id string, partitions int, replication int, is_internal boolean, "
            "labels array<string>, owner string, tag_keys array<string>, tag_values array<string>",
        ),
        # Settings made for the topic only; what it inherits stands in broker_configs.
        _table("topic_configs", "topic string, key string, value string, source string, is_sensitive boolean"),
        # What files declare of a topic: key is a setting, or `partitions` or `replication`, or `` for the topic itself.
        _table("declared", "topic string, key string, value string, file string, line int, owner string"),
        _table(
            "partitions",
            "topic string, partition int, leader int, replicas array<int>, isr array<int>, size_bytes bigint, "
            "start_offset bigint, end_offset bigint, oldest_ms bigint, bytes_in_s double, messages_in_s double",
        ),
        _table(
            "replicas",
            "topic string, partition int, broker int, log_dir string, size_bytes bigint, offset_lag bigint, "
            "is_future boolean",
        ),
        _table("log_dirs", "broker int, path string, total_bytes bigint, usable_bytes bigint, error string"),
        _table("groups", "group string, state string, protocol string, members int"),
        _table(
            "group_offsets",
            "group string, topic string, partition int, committed bigint, end_offset bigint, metadata_bytes int",
        ),
        # One row for each commit in __consumer_offsets; committed is null where the commit was deleted.
        _table(
            "commits",
            "group string, topic string, partition int, committed bigint, at_ms bigint, log_partition int, "
            "log_offset bigint, metadata_bytes int",
        ),
        # Which offset a partition had reached when: the end of a batch, or an end offset read at that time.
        _table("produced", "topic string, partition int, offset bigint, at_ms bigint"),
        # One row for each segment of each replica (role `log`), and for what else uses its disk: `future`, `delete`,
        # `stray` are segments in directories so named; `deleted`, `swap`, `cleaned`, `orphan` (of no log), `foreign`
        # are files, `unreadable` directories. See kafkakit/streams/model/segment_rows.py.
        _table(
            "segments",
            "broker int, log_dir string, topic string, partition int, base_offset bigint, path string, role string, "
            "size_bytes bigint, mtime_ms bigint, is_active boolean, batches bigint, records bigint, "
            "valid_bytes bigint, torn_bytes bigint, legacy_batches bigint, first_offset bigint, last_offset bigint, "
            "first_batch_max_ms bigint, min_ms bigint, max_ms bigint, missing_times bigint, "
            "append_time_batches bigint, "
            "none_batches bigint, gzip_batches bigint, snappy_batches bigint, lz4_batches bigint, zstd_batches bigint, "
            "single_record_batches bigint, tiny_batches bigint, control_batches bigint, transactional_batches bigint, "
            "aborted_records bigint, offset_gaps bigint, missing_records bigint, overlaps bigint, "
            "epoch_regressions bigint, "
            "first_epoch int, last_epoch int, crc_failures bigint, index_entries bigint, index_faults bigint, "
            "time_index_entries bigint, time_index_faults bigint, txn_entries bigint, open_txn_since_ms bigint, "
            "dead_bytes bigint, producers bigint, smallest_ratio_bound double, fault string, seen_at_ms bigint, "
            "epoch_faults bigint, log_start bigint, recovery_point bigint",
        ),
        # One row for each directory of a log dir: role is that of its name (`live`, `future`, `delete`, `stray`), or
        # `foreign` for one that is no partition's, `unreadable` for one that cannot be listed. topic_id stands in
        # its partition.metadata; oldest_ms is the time of its oldest file: it was there by then. The cleaner has
        # compacted the log up to cleaned_to, by its checkpoint.
        _table(
            "directories",
            "broker int, log_dir string, topic string, partition int, path string, role string, topic_id string, "
            "held_bytes bigint, oldest_ms bigint, cleaned_to bigint, seen_at_ms bigint",
        ),
        # Batches worth a second look: those that may expand beyond a limit, and a sample of the others.
        _table(
            "batches",
            "topic string, partition int, base_offset bigint, codec string, records bigint, compressed_bytes bigint, "
            "content_size bigint, decompressed_bytes bigint, is_bound boolean, producer_id bigint, path string",
        ),
        # One row for each record of a topic that two clusters hold; key_hash and value_crc are of the raw bytes.
        _table(
            "records",
            "topic string, partition int, offset bigint, at_ms bigint, record_id string, key_hash string, "
            "value_crc bigint, size_bytes bigint",
        ),
        # Daily maxima of what a log dir held, for trends.
        _table("disk_daily", "broker int, path string, day string, used_bytes bigint, total_bytes bigint"),
        # Traffic by hour of day; broker is the leader's.
        _table(
            "traffic_hourly",
            "topic string, partition int, broker int, hour_ms bigint, bytes_in_s double, bytes_out_s double, "
            "messages_in_s double",
        ),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was collected of a cluster on a date, from one source (the empty one: the cluster's own answers).

    `rows` counts the rows of each kind; with `error` the cluster was not, or not wholly, read and is not complete.
    `positions` are the offsets where the next snapshot continues in logs that are read on from day to day. `cluster_id`
    is Kafka's, empty where it is not known.
    """

    cluster: str
    snapshot_date: str
    started_ms: int
    ended_ms: int
    rows: Mapping[str, int]
    error: str = ""
    source: str = ""
    positions: Mapping[str, int] = field(default_factory=dict)
    cluster_id: str = ""

    @property
    def is_complete(self) -> bool:
        """True when every row belongs to the snapshot."""
        return not self.error


def manifest_data(manifest: Manifest) -> dict[str, object]:
    """A manifest as it stands in its file."""
    return {
        "kafkakit": {"kind": "fleet-manifest", "schema": 1},
        "cluster": manifest.cluster,
        "snapshot_date": manifest.snapshot_date,
        "started_ms": manifest.started_ms,
        "ended_ms": manifest.ended_ms,
        "rows": dict(sorted(manifest.rows.items())),
        "error": manifest.error,
        "source": manifest.source,
        "positions": dict(sorted(manifest.positions.items())),
        # Manifests of earlier versions have none.
        **({"cluster_id": manifest.cluster_id} if manifest.cluster_id else {}),
    }


def merged_manifest(manifests: Iterable[Manifest]) -> Manifest:
    """The rows and errors of one cluster and date from several sources in one manifest, complete where each is."""
    parts = sorted(manifests, key=lambda m: m.source)
    rows: dict[str, int] = {}
    for part in parts:
        for kind, count in part.rows.items():
            rows[kind] = rows.get(kind, 0) + count
    return Manifest(
        cluster=parts[0].cluster,
        snapshot_date=parts[0].snapshot_date,
        started_ms=min(part.started_ms for part in parts),
        ended_ms=max(part.ended_ms for part in parts),
        rows=rows,
        error="; ".join(part.error for part in parts if part.error),
        cluster_id=next((part.cluster_id for part in parts if part.cluster_id), ""),
    )


def repeated_clusters(ids: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each cluster that has several names; `ids` are Kafka's ids by name, empty where not known."""
    names: dict[str, list[str]] = {}
    for name, cluster_id in sorted(ids.items()):
        names.setdefault(cluster_id, []).append(name)
    return tuple(
        f"{', '.join(found[:-1])} and {found[-1]} as one cluster, which they are: all have the id {cluster_id}, and "
        "sums count it more than once"
        for cluster_id, found in sorted(names.items())
        if cluster_id and len(found) > 1
    )


def manifest_of(data: Mapping[str, object]) -> Manifest:
    """The manifest that a file holds; `ValueError` where it is not one of this version."""
    head, rows, positions = data.get("kafkakit"), data.get("rows"), data.get("positions") or {}
    wanted = {"kind": "fleet-manifest", "schema": 1}
    if head != wanted or not isinstance(rows, dict) or not isinstance(positions, dict):
        raise ValueError("not a fleet manifest of schema 1")
    try:
        return Manifest(
            cluster=str(data["cluster"]),
            snapshot_date=str(data["snapshot_date"]),
            started_ms=int(str(data["started_ms"])),
            ended_ms=int(str(data["ended_ms"])),
            rows={str(kind): int(count) for kind, count in rows.items()},
            error=str(data.get("error") or ""),
            source=str(data.get("source") or ""),
            positions={str(log): int(at) for log, at in positions.items()},
            cluster_id=str(data.get("cluster_id") or ""),
        )
    except KeyError as error:
        raise ValueError(f"has no {error}") from None


SPEC_KIND = {"kind": "job-spec", "schema": 1}
RESULT_KIND = {"kind": "job-result", "schema": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One run of audits: immutable, and without secrets.

    `jobs` are names of `audit.decide.request.JOBS`; `input` is the store of snapshots and `output` where the run's
    folder lies, as URIs; `snapshot_date` is the day that is looked at, `now_ms` its time. `dates` are the days that
    trends and comparisons may read, oldest first, the snapshot's among them. `parameters` are thresholds, by
    `job.name`. `segments` are trees of log segments to scan beside the store, as URIs of the driver's host.

    `scope` is what the run is limited to as it was typed, by `clusters`, `topics` and `brokers`; None for everything.
    What it stands for: `clusters` are the only ones of the store that are read, and findings about other `topics` or
    `brokers` than these, by cluster, are left out.
    """

    jobs: tuple[str, ...]
    input: str
    output: str
    snapshot_date: str
    dates: tuple[str, ...]
    now_ms: int
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    segments: tuple[str, ...] = ()
    version: str = ""
    scope: Mapping[str, str] | None = None
    clusters: tuple[str, ...] | None = None
    topics: Mapping[str, tuple[str, ...]] | None = None
    brokers: Mapping[str, tuple[str, ...]] | None = None

    @property
    def run_id(self) -> str:
        """The run's folder: jobs, date, and eight digits of all else that decides over its result."""
        content = spec_data(self)
        del content["now_ms"]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
        return f"{'-'.join(self.jobs) if len(self.jobs) < 3 else 'all'}-{self.snapshot_date}-{digest}"


def spec_data(spec: JobSpec) -> dict[str, object]:
    """The document of a spec."""
    content = {"kafkakit": SPEC_KIND, **asdict(spec), "parameters": dict(sorted(spec.parameters.items()))}
    # A run without a scope is the one that it was before there were scopes.
    return {name: value for name, value in content.items() if value is not None}


def spec_of(data: Mapping[str, object]) -> JobSpec:
    """The spec of a document; `ValueError` where it is another kind or version, or lacks a part."""
    values = {name: data[name] for name in (f.name for f in fields(JobSpec)) if name in data}
    if data.get("kafkakit") != SPEC_KIND:
        raise ValueError("not a job spec of schema 1")
    for name in ("jobs", "dates", "segments"):
        values[name] = tuple(values.get(name, ()))  # type: ignore[arg-type]
    if "clusters" in values:
        values["clusters"] = tuple(values["clusters"])  # type: ignore[arg-type]
    for name in values.keys() & {"topics", "brokers"}:
        values[name] = {cluster: tuple(names) for cluster, names in values[name].items()}  # type: ignore[attr-defined]
    try:
        return JobSpec(**values)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What one job of a run found, in numbers; its findings and tables lie in files beside.

    `facts` are single numbers of the job (rows read, days until the first disk is full), `tables` the rows of each
    table it wrote. In sentences, `skipped` is what the job does not look at with what it was given, and `left_out` what
    it should have looked at and could not: clusters not collected, damaged files. If it failed it has an `error`.
    """

    job: str
    findings: Mapping[str, int] = field(default_factory=dict)
    """How many of each severity."""
    rules: Mapping[str, int] = field(default_factory=dict)
    """How many of each rule."""
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""
    clusters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The clusters looked at, each with the kinds of tables that the store holds of it on the day, of those read."""


def summary_data(spec: JobSpec, results: tuple[JobResult, ...]) -> dict[str, object]:
    """The document `summary.json` of a run."""
    return {
        "kafkakit": RESULT_KIND,
        "run": spec.run_id,
        "snapshot_date": spec.snapshot_date,
        "now_ms": spec.now_ms,
        "jobs": [asdict(result) for result in results],
    }


def results_of(data: Mapping[str, object]) -> tuple[JobResult, ...]:
    """The results of a `summary.json`; `ValueError` where it is another kind or version."""
    jobs = data.get("jobs")
    if data.get("kafkakit") != RESULT_KIND or not isinstance(jobs, list):
        raise ValueError("not a job result of schema 1")
    return tuple(
        JobResult(
            **{
                **job,
                "skipped": tuple(job.get("skipped", ())),
                "left_out": tuple(job.get("left_out", ())),
                "clusters": {name: tuple(kinds) for name, kinds in job.get("clusters", {}).items()},
            }
        )
        for job in jobs
    )
