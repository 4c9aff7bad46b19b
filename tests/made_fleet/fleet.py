"""A made fleet: the tables of its clusters by date, and where defects are placed in them.

Histories are disks, traffic, groups, commits and mirrored records. A defect changes single rows of a made cluster's
tables, and says what audits are expected to find.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkakit.core.quantities import count_of, epoch_ms
from tests.made_fleet import cluster as healthy
from tests.made_fleet.cluster import (
    LOG_DIRS,
    REPLICAS,
    ClusterModel,
    ClusterShape,
    CodedColumn,
    FleetSize,
    Tables,
    batch_rows,
    cluster_shapes,
    segment_parts,
)

OF_COPY = frozenset(f"KKF{number:03d}" for number in (1, 2, 3, 4, 8, 9, 10, 24, 25, 26, 27, 28, 29))
"""The rules about one copy of a partition, which findings name with its broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest:
    """What fleet is to be made: the same request makes the same bytes.

    `days` dates up to `last_day` are written, with all tables on the last one and those that drift is found in on the
    others. `defects` are counts by name.
    """

    size: FleetSize
    seed: int
    last_day: date
    days: int = 2
    is_skewed: bool = False
    defects: Mapping[str, int] = field(default_factory=dict)

    @property
    def end_ms(self) -> int:
        """The end of the last day, which is when the fleet is looked at."""
        return epoch_ms(datetime.combine(self.last_day, time(), UTC)) + healthy.DAY_MS

    def dates(self) -> tuple[str, ...]:
        """The dates, oldest first."""
        return tuple((self.last_day - timedelta(days=i)).isoformat() for i in range(self.days - 1, -1, -1))

    def shapes(self) -> tuple[ClusterShape, ...]:
        """The clusters."""
        return cluster_shapes(self.size, self.seed, skew=self.is_skewed)

    @property
    def segment_share(self) -> float:
        """Of how many of the partitions there are rows of segments."""
        return self.size.segment_rows / (self.size.partitions * REPLICAS * healthy.SEGMENTS)


def model_of(request: FleetRequest, shape: ClusterShape) -> healthy.ClusterModel:
    """The layout of a cluster."""
    return healthy.cluster_model(shape, request.seed, request.end_ms)


def tables_of(request: FleetRequest, model: healthy.ClusterModel, days_ago: int) -> healthy.Tables:
    """The tables of one date: all on the last one, of `segments` the first part; identities alone on others."""
    if days_ago:
        return healthy.identity_tables(model)
    tables = {**healthy.state_tables(model), **load_tables(model, request.size.hours), "batches": batch_rows(model)}
    first = next(segment_parts(model, request.segment_share), None)
    if first is None:
        return tables
    return {**tables, "segments": first, "directories": healthy.directory_rows(model, request.segment_share)}


def more_segments(request: FleetRequest, model: healthy.ClusterModel) -> Iterator[healthy.Columns]:
    """The other parts of `segments` on the last date."""
    return islice(segment_parts(model, request.segment_share), 1, None)


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


Truth = list[dict[str, str]]
"""Expected findings: their defect, job, rule, cluster and where."""


class Scope(StrEnum):
    """What a defect takes for itself, so that no two meet: one of these of a cluster."""

    CLUSTER = "cluster"
    MIRRORED = "mirrored topic"
    GROUP = "group"
    SEGMENTS = "topic with segments"
    HOT = "topic with several partitions"
    DECLARED = "declared topic"
    TOPIC = "topic"
    BROKER = "broker"


class Expected(NamedTuple):
    """A finding that is expected of a job: its rule, and its place without the ending that names the cluster.

    In the place are to be filled in `{topic}`, `{broker}`, and of the topic's first partition `{leader}` and the
    `{folder}` of its log there. An empty place is the cluster itself.
    """

    job: str
    rule: str
    where: str


Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEdit:
    """The tables of one cluster and date, to be changed in place; tables that the date lacks are passed over."""

    model: ClusterModel
    tables: Tables

    def rows(self, kind: str, **values: Any) -> Rows:
        """The rows of a table in which each of these columns has the value."""
        columns = self.tables.get(kind)
        if columns is None:
            return np.zeros(0, np.bool_)
        found = np.ones(len(next(iter(columns.values()))), np.bool_)
        for name, value in values.items():
            found &= _equal(columns[name], value)
        return found

    def put(self, kind: str, rows: Rows, **values: Any) -> None:
        """Set columns of some rows: each to one value, or to an array of one value for each of the rows."""
        if kind not in self.tables:
            return
        columns = self.tables[kind]
        for name, value in values.items():
            columns[name] = _with(columns[name], rows, value)

    def add(self, kind: str, like: Rows, **values: Any) -> None:
        """Add a row like the first of these rows, but for some columns."""
        if kind not in self.tables:
            return
        columns = self.tables[kind]
        first, total = int(np.argmax(like)), len(like)
        for name, column in columns.items():
            if isinstance(column, CodedColumn):
                codes = np.append(column.codes, column.codes[first])
                columns[name] = CodedColumn(words=column.words, codes=codes)
            else:
                columns[name] = np.append(column, column[first])
        self.put(kind, np.arange(total + 1) == total, **values)

    def segments_of(self, topic: int, age: int | None = None, *, all_replicas: bool = False) -> Rows:
        """The segments of a topic's first partition on its leader, or on all replicas; with `age` (0: the active one)
        the one of that place from the end."""
        model, columns = self.model, self.tables["segments"]
        found = self.rows("segments", topic=model.names[topic], partition=0)
        if not all_replicas:
            found &= columns["broker"] == model.replicas[model.first[topic], 0]
        if age is not None:
            bases = np.unique(columns["base_offset"][found])
            found &= columns["base_offset"] == bases[-1 - age]
        return found

    def drop(self, kind: str, rows: Rows) -> None:
        """Remove some rows."""
        for name, column in self.tables.get(kind, {}).items():
            if isinstance(column, CodedColumn):
                self.tables[kind][name] = CodedColumn(words=column.words, codes=column.codes[~rows])
            else:
                self.tables[kind][name] = column[~rows]

    def topic_setting(self, topic: int, key: str, value: str, *, is_declared: bool = True) -> None:
        """Set a setting of a topic, in the files that declare it too."""
        name = self.model.names[topic]
        for kind in ("topic_configs", "declared") if is_declared else ("topic_configs",):
            self.put(kind, self.rows(kind, topic=name, key=key), value=value)

    def broker_setting(self, broker: int, key: str, value: str, source: str = "static") -> None:
        """Set a setting of a broker."""
        rows = self.rows("broker_configs", broker=broker, key=key)
        self.put("broker_configs", rows, value=value, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One kind of defect.

    `edit(tables, subject)` makes it: subject is the number of a topic (of a group, its topic), or a broker's id, or 0.
    """

    name: str
    scope: Scope
    expected: tuple[Expected, ...]
    edit: Callable[[TableEdit, int], None]
    is_lasting: bool = False
    """True for what is wrong on earlier dates too."""
    least_brokers: int = 3
    least_partitions: int = 1
    """Of a topic."""
    least_led: int = 1
    """Partitions that a broker leads."""
    least_clusters: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedDefect:
    """A defect of a cluster and its subject."""

    defect: Defect
    cluster: int
    subject: int


def placed(
    defects: Mapping[str, Defect], wanted: Mapping[str, int], shapes: Sequence[ClusterShape], share: float = 1.0
) -> tuple[PlacedDefect, ...]:
    """Give each defect a subject of its own, clusters in turn; `ValueError` for too many.

    `share` is the part of the topics that there are rows of segments of.
    """
    found = []
    for defect, spot in _spots(defects, wanted, shapes, share):
        if spot is None:
            raise ValueError(
                f"the fleet has no place for {count_of(wanted[defect.name], 'defect')} {defect.name}: "
                f"each needs a {defect.scope.value} of its own"
            )
        found.append(PlacedDefect(defect=defect, cluster=spot[0], subject=spot[1]))
    return tuple(found)


def one_of_each(defects: Mapping[str, Defect], request: FleetRequest) -> Mapping[str, int]:
    """A count of one for each defect that the fleet has a place for."""
    spots = _spots(defects, dict.fromkeys(defects, 1), request.shapes(), request.segment_share)
    return {defect.name: 1 for defect, spot in spots if spot is not None}


def _spots(
    defects: Mapping[str, Defect], wanted: Mapping[str, int], shapes: Sequence[ClusterShape], share: float
) -> Iterator[tuple[Defect, tuple[int, int] | None]]:
    """Each defect that is wanted with its cluster and subject; those first that fewest subjects will do for."""
    spots = _Spots(shapes, share)
    for defect in sorted(defects.values(), key=lambda d: (list(Scope).index(d.scope), -d.least_brokers, d.name)):
        for _ in range(wanted.get(defect.name, 0)):
            yield defect, spots.take(defect)


class _Spots:
    """Which topics and brokers of each cluster are still healthy; the first brokers stay so."""

    def __init__(self, shapes: Sequence[ClusterShape], share: float) -> None:
        self._shapes, self._share = shapes, share
        self._topic = [0] * len(shapes)
        self._broker = [s.brokers for s in shapes]
        self._whole: set[tuple[int, str]] = set()
        self._turn = count()

    def take(self, defect: Defect) -> tuple[int, int] | None:
        start = next(self._turn)
        for step in range(len(self._shapes)):
            cluster = (start + step) % len(self._shapes)
            subject = self._subject(defect, cluster)
            if subject is not None:
                return cluster, subject
        return None

    def _subject(self, defect: Defect, cluster: int) -> int | None:
        shape = self._shapes[cluster]
        if shape.brokers < defect.least_brokers or len(self._shapes) < defect.least_clusters:
            return None
        if shape.partitions < max(defect.least_partitions * shape.topics, defect.least_led * shape.brokers):
            return None
        if defect.scope is Scope.CLUSTER:
            if (cluster, defect.name) in self._whole or self._is_mirrored(cluster):
                return None
            self._whole.add((cluster, defect.name))
            return 0
        if defect.scope is Scope.BROKER:
            # Half of the brokers at most, so that the others still tell what is usual.
            if self._broker[cluster] <= max(1, shape.brokers // 2):
                return None
            self._broker[cluster] -= 1
            return self._broker[cluster] + 1
        return self._topic_of(defect.scope, cluster)

    def _topic_of(self, scope: Scope, cluster: int) -> int | None:
        shape = self._shapes[cluster]
        scanned = int(shape.topics * min(1.0, self._share))
        limits = {Scope.MIRRORED: MIRRORED_TOPICS, Scope.GROUP: GROUPS_OF_CLUSTER, Scope.SEGMENTS: scanned}
        if scope is Scope.MIRRORED and shape.mirror_of is None:
            return None
        if scope is Scope.DECLARED and not shape.is_declared:
            return None
        if scope in (Scope.DECLARED, Scope.TOPIC) and self._is_mirrored(cluster):
            return None
        if self._topic[cluster] >= min(limits.get(scope, shape.topics), shape.topics):
            return None
        self._topic[cluster] += 1
        return self._topic[cluster] - 1

    def _is_mirrored(self, cluster: int) -> bool:
        """True for both sides of a pair, whose topics must stay alike."""
        names = {s.mirror_of for s in self._shapes}
        return self._shapes[cluster].name in names or self._shapes[cluster].mirror_of is not None


def cluster_truth(model: ClusterModel, found: Sequence[PlacedDefect]) -> Truth:
    """The rows of `truth.json` for the defects of one cluster."""
    rows: Truth = []
    for one in found:
        is_topic = one.defect.scope not in (Scope.CLUSTER, Scope.BROKER)
        topic = model.names[one.subject] if is_topic else ""
        first = int(model.first[one.subject]) if is_topic else 0
        leader, folder = int(model.replicas[first, 0]), LOG_DIRS[model.dirs[first, 0]]
        rows += expected_rows(
            one.defect.name, one.defect.expected, model.shape.name,
            topic=topic, broker=one.subject, leader=leader, folder=folder,
        )  # fmt: skip
    return rows


def expected_rows(name: str, expected: Sequence[Expected], cluster: str, **words: object) -> Truth:
    """The rows of `truth.json` for one defect."""
    rows: Truth = []
    for job, rule, place in expected:
        where = f"{place.format(**words)} of {cluster}" if place else f"cluster {cluster}"
        rows.append({"defect": name, "job": job, "rule": rule, "cluster": cluster, "where": where})
    return rows


def _equal(column: Any, value: Any) -> Rows:
    if isinstance(column, CodedColumn):
        codes = [code for code, word in enumerate(column.words) if word == value]
        found: Rows = np.isin(column.codes, codes)
        return found
    equal: Rows = np.asarray(column) == value
    return equal


def _with(column: Any, rows: Rows, value: Any) -> Any:
    if not isinstance(column, CodedColumn):
        changed = np.array(column)
        changed[rows] = value
        return changed
    values = list(value) if isinstance(value, np.ndarray) else [value]
    codes = column.codes.copy()
    codes[rows] = -1 if value is None else np.arange(len(values), dtype=np.int32) + len(column.words)
    return CodedColumn(words=(*column.words, *values), codes=codes)
