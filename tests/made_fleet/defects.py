"""All defects that the snapshots of a made fleet can have, by name.

- Capacity: disks that fill up, losses that stop writes, partitions and brokers with most traffic.
- Drift: what differs between files, brokers, clusters and mirrors.
- Readers: groups that lag or are silent, and records that one side of a mirrored topic lacks.
- Retention that is overshot, and limits of hosts.
- What rows of segments and batches show.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.made_fleet.cluster import (
    DAY_MS,
    LOG_DIRS,
    RECORD_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    used_bytes,
)
from tests.made_fleet.fleet import (
    DISK_DAYS,
    HOUR_MS,
    OF_COPY,
    Defect,
    Expected,
    Rows,
    Scope,
    TableEdit,
    group_name,
)

FULL_IN_A_WEEK = np.linspace(0.30, 0.74, DISK_DAYS)
"""What is used on each day, of all: the trend reaches 85 % seven days later."""
NEARLY_FULL = 0.72
"""Of what a log dir holds now, of all; settings permit a fifth more."""
HOT = 20.0
"""A hot partition takes so many times what the others of its topic do."""
HOT_BROKER = 8.0
"""So many times what it took: its partitions alone are not yet hot."""
LEAST_PARTITIONS = 5
LEAST_LED = 20
Edit = Callable[[TableEdit, int], None]


def _filling(edit: TableEdit, broker: int) -> None:
    rows = edit.rows("disk_daily", broker=broker, path=LOG_DIRS[0])
    total = edit.tables["disk_daily"]["total_bytes"][rows]
    edit.put("disk_daily", rows, used_bytes=(total * FULL_IN_A_WEEK).astype(np.int64))
    rows = edit.rows("log_dirs", broker=broker, path=LOG_DIRS[0])
    total = edit.tables["log_dirs"]["total_bytes"][rows]
    edit.put("log_dirs", rows, usable_bytes=(total * (1 - FULL_IN_A_WEEK[-1])).astype(np.int64))


def _ceiling(edit: TableEdit, broker: int) -> None:
    rows = edit.rows("log_dirs", broker=broker)
    used = used_bytes(edit.model)[rows]
    total = (used / NEARLY_FULL).astype(np.int64)
    edit.put("log_dirs", rows, total_bytes=total, usable_bytes=total - used)
    edit.put("disk_daily", edit.rows("disk_daily", broker=broker), total_bytes=np.repeat(total, DISK_DAYS))


def _out_of_sync(edit: TableEdit, _: int) -> None:
    """A partition of the last topic with one replica less in sync, which is the least that accepts writes."""
    model = edit.model
    rows = edit.rows("partitions", topic=model.names[-1], partition=0)
    edit.put("partitions", rows, isr=[int(b) for b in model.replicas[model.first[-2]][:2]])


def _racks(edit: TableEdit, _: int) -> None:
    edit.put("brokers", edit.rows("brokers", broker=edit.model.shape.brokers), rack="a")


def _used_by_others(edit: TableEdit, _: int) -> None:
    total = edit.tables["log_dirs"]["total_bytes"]
    edit.put("log_dirs", np.ones(len(total), np.bool_), usable_bytes=total * 3 // 20 + 1)


def _traffic(partition: int | None, **factors: float) -> Edit:
    """Multiply the traffic of a topic's partition, or of all that a broker leads."""

    def change(edit: TableEdit, subject: int) -> None:
        if partition is None:
            rows = edit.rows("traffic_hourly", broker=subject)
        else:
            rows = edit.rows("traffic_hourly", topic=edit.model.names[subject], partition=partition)
        for name, factor in factors.items():
            edit.put("traffic_hourly", rows, **{name: edit.tables["traffic_hourly"][name][rows] * factor})

    return change


def _capacity_defect(
    name: str,
    scope: Scope,
    job: str,
    rules: tuple[str, ...],
    where: str,
    edit: Edit,
    brokers: int = 3,
    partitions: int = 1,
) -> Defect:
    expected = tuple(Expected(job, rule, where) for rule in rules)
    return Defect(
        name=name, scope=scope, expected=expected, edit=edit, least_brokers=brokers, least_partitions=partitions,
        least_led=LEAST_LED if brokers > 3 else 1,
    )  # fmt: skip


_BROKER, _PARTITION = "broker {broker}", "partition {topic}-1"
CAPACITY_DEFECTS = (
    _capacity_defect("disk-filling", Scope.BROKER, "capacity", ("KKX009",), _BROKER, _filling),
    _capacity_defect("high-ceiling", Scope.BROKER, "capacity", ("KKR221",), _BROKER, _ceiling),
    _capacity_defect("replica-out-of-sync", Scope.CLUSTER, "capacity", ("KKW001", "KKW002"), "", _out_of_sync),
    _capacity_defect("unequal-racks", Scope.CLUSTER, "capacity", ("KKW002",), "", _racks),
    _capacity_defect("no-space-for-loss", Scope.CLUSTER, "capacity", ("KKW003",), "", _used_by_others),
    _capacity_defect("large-records", Scope.HOT, "hotspots", ("KKH001",), _PARTITION, _traffic(1, bytes_in_s=HOT),
            partitions=LEAST_PARTITIONS),
    _capacity_defect("unbalanced-keys", Scope.HOT, "hotspots", ("KKH002",), _PARTITION,
            _traffic(1, bytes_in_s=HOT, messages_in_s=HOT), partitions=LEAST_PARTITIONS),
    _capacity_defect("leads-most", Scope.BROKER, "hotspots", ("KKH003",), _BROKER,
            _traffic(None, bytes_in_s=HOT_BROKER), 6),
    _capacity_defect("serves-most", Scope.BROKER, "hotspots", ("KKH004",), _BROKER,
            _traffic(None, bytes_out_s=HOT_BROKER), 6),
)  # fmt: skip


def _baseline(edit: TableEdit, topic: int) -> None:
    edit.topic_setting(topic, "max.message.bytes", "2000000", is_declared=False)


def _missing(edit: TableEdit, topic: int) -> None:
    """A topic that only files know; named after the healthy topic whose place it takes."""
    name = edit.model.names[topic]
    edit.add("declared", edit.rows("declared", topic=name), topic=f"missing-{name}", key="", value=None)


def _unmanaged(edit: TableEdit, topic: int) -> None:
    edit.drop("declared", edit.rows("declared", topic=edit.model.names[topic]))


def _outlier(edit: TableEdit, _: int) -> None:
    edit.put("broker_configs", edit.rows("broker_configs", key="num.io.threads"), value="24", source="static")


def _heterogeneous(edit: TableEdit, _: int) -> None:
    edit.broker_setting(edit.model.shape.brokers, "message.max.bytes", "2097152", "dynamic-broker")


def _versions(edit: TableEdit, _: int) -> None:
    edit.put("brokers", edit.rows("brokers", broker=edit.model.shape.brokers), version="4.2.0")


def _diverged(edit: TableEdit, topic: int) -> None:
    edit.topic_setting(topic, "max.message.bytes", "2000000")


def _expect_drift(rule: str, where: str = "topic {topic}") -> tuple[Expected, ...]:
    return (Expected("drift", rule, where),)


DRIFT_DEFECTS = (
    Defect(
        name="baseline-drift", scope=Scope.DECLARED, expected=_expect_drift("KKX001"), is_lasting=True, edit=_baseline
    ),
    Defect(
        name="peer-outlier",
        scope=Scope.CLUSTER,
        expected=_expect_drift("KKX002", ""),
        is_lasting=True,
        edit=_outlier,
        least_clusters=4,
    ),
    Defect(
        name="unequal-brokers",
        scope=Scope.CLUSTER,
        expected=_expect_drift("KKX003", ""),
        is_lasting=True,
        edit=_heterogeneous,
    ),
    Defect(
        name="mirror-divergence",
        scope=Scope.MIRRORED,
        expected=_expect_drift("KKX005"),
        is_lasting=True,
        edit=_diverged,
    ),
    Defect(
        name="missing-topic",
        scope=Scope.DECLARED,
        expected=_expect_drift("KKX006", "topic missing-{topic}"),
        is_lasting=True,
        edit=_missing,
    ),
    Defect(
        name="unmanaged-topic", scope=Scope.DECLARED, expected=_expect_drift("KKX006"), is_lasting=True, edit=_unmanaged
    ),
    Defect(
        name="version-skew", scope=Scope.CLUSTER, expected=_expect_drift("KKX007", ""), is_lasting=True, edit=_versions
    ),
)


def _slow(edit: TableEdit, topic: int) -> None:
    _later_by(edit, topic, _commits(edit, topic), LATE_S)


def _suddenly_slow(edit: TableEdit, topic: int) -> None:
    _later_by(edit, topic, _commits(edit, topic) & _since(edit, HOUR_MS), VERY_LATE_S)


def _silent(edit: TableEdit, topic: int) -> None:
    edit.drop("commits", _commits(edit, topic) & _since(edit, 3 * HOUR_MS))


def _idle(edit: TableEdit, topic: int) -> None:
    """A group without members that had read all there is, six days ago."""
    rows = _commits(edit, topic)
    edit.drop("commits", rows & ~_since(edit, HOUR_MS // 2))
    columns = edit.tables["commits"]
    rows = _commits(edit, topic)
    ends = edit.model.end[edit.model.first[topic] + columns["partition"][rows]]
    edit.put("commits", rows, committed=ends, at_ms=edit.model.end_ms - IDLE_MS)
    edit.put("groups", edit.rows("groups", group=group_name(edit.model, topic)), state="EMPTY", members=0)


def _stuck(edit: TableEdit, topic: int) -> None:
    """A group that commits what it had committed nearly a day ago."""
    rows, columns = _commits(edit, topic), edit.tables["commits"]
    for partition in np.unique(columns["partition"][rows]):
        own = rows & (columns["partition"] == partition)
        edit.put("commits", own, committed=int(edit.tables["commits"]["committed"][own].min()))


def _lost(edit: TableEdit, topic: int) -> None:
    edit.drop("records", _some(edit, topic, 100, 5))


def _extra(edit: TableEdit, topic: int) -> None:
    edit.add("records", _some(edit, topic, 100, 1), offset=10_000, record_id=f"only-here/{topic}")


def _twice(edit: TableEdit, topic: int) -> None:
    edit.add("records", _some(edit, topic, 100, 1), offset=10_000)


def _clock(edit: TableEdit, topic: int) -> None:
    rows = edit.rows("records", topic=edit.model.names[topic])
    edit.put("records", rows, at_ms=edit.tables["records"]["at_ms"][rows] + 10_000)


def _group(name: str, edit: Edit, *rules: str) -> Defect:
    expected = tuple(Expected("lag", rule, "group g-{topic}") for rule in rules)
    return Defect(name=name, scope=Scope.GROUP, expected=expected, edit=edit)


def _mirrored(name: str, edit: Edit, rule: str) -> Defect:
    return Defect(name=name, scope=Scope.MIRRORED, expected=(Expected("mirror", rule, "topic {topic}"),), edit=edit)


LATE_S = 300
VERY_LATE_S = 1_800
IDLE_MS = 6 * DAY_MS


def _commits(edit: TableEdit, topic: int) -> Rows:
    return edit.rows("commits", group=group_name(edit.model, topic))


def _later_by(edit: TableEdit, topic: int, rows: Rows, seconds: int) -> None:
    """Let commits be of what was produced that much earlier."""
    rate = edit.model.rate[edit.model.first[topic]] / RECORD_BYTES
    edit.put("commits", rows, committed=edit.tables["commits"]["committed"][rows] - int(rate * seconds))


def _since(edit: TableEdit, ms: int) -> Rows:
    found: Rows = edit.tables["commits"]["at_ms"] > edit.model.end_ms - ms
    return found


def _records(edit: TableEdit, topic: int) -> NDArray[np.int64]:
    return np.flatnonzero(edit.rows("records", topic=edit.model.names[topic]))


def _some(edit: TableEdit, topic: int, first: int, number: int) -> Rows:
    found = np.zeros(len(edit.tables["records"]["offset"]), np.bool_)
    found[_records(edit, topic)[first : first + number]] = True
    return found


READER_DEFECTS = (
    _group("slow-group", _slow, "KKJ001"),
    _group("suddenly-slow-group", _suddenly_slow, "KKJ001", "KKJ002"),
    _group("silent-group", _silent, "KKJ003"),
    _group("idle-group", _idle, "KKJ004"),
    Defect(
        name="stuck-group", scope=Scope.GROUP, edit=_stuck,
        expected=(Expected("lag", "KKJ001", "group g-{topic}"), Expected("lag", "KKR220", "topic {topic}")),
    ),
    _mirrored("lost-on-mirror", _lost, "KKZ001"),
    _mirrored("only-on-mirror", _extra, "KKZ002"),
    _mirrored("twice-on-mirror", _twice, "KKZ003"),
    _mirrored("clocks-apart", _clock, "KKZ004"),
)  # fmt: skip

RETENTION_TOPIC = "topic {topic}"
BROKER = "broker {broker}"
SLOW_BYTES_S = 50.0


def _overshoot(edit: TableEdit, topic: int) -> None:
    """Segments that stay open for seven days on a topic that keeps one."""
    edit.topic_setting(topic, "segment.ms", "604800000")
    edit.put("partitions", edit.rows("partitions", topic=edit.model.names[topic]), bytes_in_s=SLOW_BYTES_S)


def _granularity(edit: TableEdit, topic: int) -> None:
    edit.topic_setting(topic, "retention.bytes", "150000000")


def _descriptors(edit: TableEdit, broker: int) -> None:
    edit.put("brokers", edit.rows("brokers", broker=broker), open_files=50_000)


def _maps(edit: TableEdit, broker: int) -> None:
    edit.put("brokers", edit.rows("brokers", broker=broker), max_map_count=1_200)


def _expect_retention(rule: str, where: str) -> tuple[Expected, ...]:
    return (Expected("retention", rule, where),)


RETENTION_DEFECTS = (
    Defect(
        name="retention-overshoot",
        scope=Scope.TOPIC,
        expected=_expect_retention("KKR201", RETENTION_TOPIC),
        is_lasting=True,
        edit=_overshoot,
    ),
    Defect(
        name="size-granularity",
        scope=Scope.TOPIC,
        expected=_expect_retention("KKR203", RETENTION_TOPIC),
        is_lasting=True,
        edit=_granularity,
    ),
    Defect(
        name="few-descriptors",
        scope=Scope.BROKER,
        expected=_expect_retention("KKB501", BROKER),
        is_lasting=True,
        edit=_descriptors,
    ),
    Defect(
        name="few-maps", scope=Scope.BROKER, expected=_expect_retention("KKB502", BROKER), is_lasting=True, edit=_maps
    ),
)

SEGMENT_HOUR_MS = 3_600_000
PARTITION, TOPIC = "partition {topic}-0", "topic {topic}"


def _on_segment(age: int, **values: Any) -> Edit:
    """Set columns of one segment of the leader; -1 counts from the oldest."""
    return lambda edit, topic: edit.put("segments", edit.segments_of(topic, age % 8), **values)


def _on_topic(**values: Any) -> Edit:
    """Set columns of all segments of a topic; a fraction is that part of the segment's batches."""

    def change(edit: TableEdit, topic: int) -> None:
        rows = edit.rows("segments", topic=edit.model.names[topic])
        for name, value in values.items():
            batches = edit.tables["segments"]["records" if name.endswith("records") else "batches"][rows]
            edit.put("segments", rows, **{name: (batches * value).astype(int) if isinstance(value, float) else value})

    return change


def _lost_tail(edit: TableEdit, topic: int) -> None:
    rows = edit.segments_of(topic, 0)
    edit.put("segments", rows, recovery_point=int(edit.model.end[edit.model.first[topic]]) + 100)


def _hanging(edit: TableEdit, topic: int) -> None:
    edit.put("segments", edit.segments_of(topic, 0), open_txn_since_ms=edit.model.end_ms - 2 * SEGMENT_HOUR_MS)


def _future(edit: TableEdit, topic: int) -> None:
    rows = edit.segments_of(topic, 0, all_replicas=True)
    edit.put("segments", rows, max_ms=edit.model.end_ms + 2 * SEGMENT_HOUR_MS)


def _past(edit: TableEdit, topic: int) -> None:
    """A closed segment whose records are all older than the file before."""
    rows = edit.segments_of(topic, 3, all_replicas=True)
    edit.put("segments", rows, max_ms=edit.tables["segments"]["max_ms"][rows] - 6 * SEGMENT_HOUR_MS)


def _late(edit: TableEdit, topic: int) -> None:
    first_ms = edit.model.end_ms - 3 * RETENTION_MS
    rows = edit.segments_of(topic, 7, all_replicas=True)
    edit.put("segments", rows, min_ms=first_ms, first_batch_max_ms=first_ms + 1_000)


def _file(role: str) -> Edit:
    def change(edit: TableEdit, topic: int) -> None:
        like = edit.segments_of(topic, 7)
        at = {"is_active": False, "mtime_ms": edit.model.end_ms - 2 * DAY_MS}
        path = f"/{edit.model.names[topic]}-0/old.{role}"
        edit.add("segments", like, role=role, path=path, dead_bytes=SEGMENT_BYTES, batches=0, records=0, **at)

    return change


def _directory(**values: Any) -> Edit:
    """Add a directory beside that of the topic's first partition on its leader; texts take the topic's name."""

    def change(edit: TableEdit, topic: int) -> None:
        name = edit.model.names[topic]
        like = edit.rows("directories", topic=name, partition=0)
        like &= edit.tables["directories"]["broker"] == edit.model.replicas[edit.model.first[topic], 0]
        named = {key: value.format(topic=name) if isinstance(value, str) else value for key, value in values.items()}
        edit.add("directories", like, **named)

    return change


def _bomb(mib: int) -> Edit:
    def change(edit: TableEdit, topic: int) -> None:
        rows = edit.rows("batches", topic=edit.model.names[topic])
        edit.put("batches", rows, compressed_bytes=1_000_000, decompressed_bytes=mib * 1_000_000)

    return change


def _segment_defect(name: str, edit: Edit, *rules: str, where: str = PARTITION, job: str = "segments") -> Defect:
    expected = tuple(
        Expected(job, rule, f"{where} on broker {{leader}}" if rule in OF_COPY else where) for rule in rules
    )
    return Defect(name=name, scope=Scope.SEGMENTS, expected=expected, edit=edit)


_LEADERS_DIR = "log dir {leader}:{folder}"
SEGMENT_DEFECTS = (
    _segment_defect("checksum-mismatch", _on_segment(3, crc_failures=1), "KKF001"),
    _segment_defect("damaged-segment", _on_segment(3, fault="no batch header at position 71"), "KKF002"),
    _segment_defect("unreadable-segment", _on_segment(3, fault="x.log cannot be read: Permission denied"), "KKF003"),
    _segment_defect("torn-segment", _on_segment(3, torn_bytes=100), "KKF004"),
    _segment_defect("missing-offsets", _on_segment(3, offset_gaps=1), "KKF005"),
    _segment_defect("repeated-offsets", _on_segment(3, overlaps=1), "KKF006"),
    _segment_defect("falling-epoch", _on_segment(3, epoch_regressions=1), "KKF007"),
    _segment_defect("wrong-epoch", _on_segment(3, epoch_faults=1), "KKF008"),
    _segment_defect("index-mismatch", _on_segment(3, index_faults=1), "KKF009"),
    _segment_defect("lost-tail", _lost_tail, "KKF010"),
    _segment_defect("open-transaction", _hanging, "KKF011"),
    _segment_defect("aborted-records", _on_topic(aborted_records=0.5), "KKF012", where=TOPIC),
    _segment_defect("clock-ahead", _future, "KKF013", "KKM411", where=TOPIC),
    _segment_defect("clock-behind", _past, "KKM411", where=TOPIC),
    _segment_defect("missing-timestamps", _on_segment(3, missing_times=1), "KKF014", where=TOPIC),
    _segment_defect("empty-segment", _on_segment(3, size_bytes=0, batches=0, records=0), "KKF015", where=TOPIC),
    _segment_defect(
        "full-index", _on_segment(3, size_bytes=SEGMENT_BYTES // 2, index_entries=1_310_720), "KKF016", where=TOPIC
    ),
    _segment_defect("kept-too-long", _late, "KKF018", where=TOPIC),
    _segment_defect("tiny-batches", _on_topic(tiny_batches=0.95), "KKF019", where=TOPIC),
    _segment_defect("mixed-codecs", _on_topic(zstd_batches=0.5, none_batches=0.5), "KKF020", where=TOPIC),
    _segment_defect("legacy-batches", _on_segment(3, legacy_batches=1), "KKF021", where=TOPIC),
    _segment_defect("dead-files", _file("deleted"), "KKF022", where=_LEADERS_DIR),
    _segment_defect("foreign-files", _file("foreign"), "KKF023", where=_LEADERS_DIR),
    _segment_defect(
        "unknown-topic-directory",
        _directory(topic="gone-{topic}", path="/d/gone-{topic}-0"),
        "KKF025",
        where="partition gone-{topic}-0",
    ),
    _segment_defect("other-topic-id", _directory(topic_id="another", path="/d/{topic}-0"), "KKF026"),
    _segment_defect(
        "partition-beyond-count",
        _directory(partition=99_999, path="/d/{topic}-99999"),
        "KKF027",
        where="partition {topic}-99999",
    ),
    _segment_defect("forgotten-move", _directory(role="future", path="/d/{topic}-0.ab-future"), "KKF029"),
    _segment_defect(
        "foreign-directory",
        _directory(role="foreign", topic=None, path="/d/of-{topic}"),
        "KKF030",
        where="broker {leader}",
    ),
    _segment_defect("large-batch", _bomb(300), "KKM409", "KKM410", where=TOPIC, job="bombs"),
    _segment_defect("undecodable-batch", _bomb(60), "KKM410", where=TOPIC, job="bombs"),
)

_GROUPS = (
    DRIFT_DEFECTS,
    RETENTION_DEFECTS,
    SEGMENT_DEFECTS,
    CAPACITY_DEFECTS,
    READER_DEFECTS,
)
DEFECTS: Mapping[str, Defect] = {defect.name: defect for group in _GROUPS for defect in group}
