"""Defects of made fleets that rows of segments and batches show."""

from collections.abc import Callable
from typing import Any

from kafkakit.fleet.decide.synth_cluster import DAY_MS, RETENTION_MS, SEGMENT_BYTES
from kafkakit.fleet.decide.synth_defect import Defect, Expected, Scope
from kafkakit.fleet.decide.synth_edit import TableEdit

HOUR_MS = 3_600_000
Edit = Callable[[TableEdit, int], None]
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
    edit.put("segments", edit.segments_of(topic, 0), open_txn_since_ms=edit.model.end_ms - 2 * HOUR_MS)


def _future(edit: TableEdit, topic: int) -> None:
    rows = edit.segments_of(topic, 0, all_replicas=True)
    edit.put("segments", rows, max_ms=edit.model.end_ms + 2 * HOUR_MS)


def _past(edit: TableEdit, topic: int) -> None:
    """A closed segment whose records are all older than the file before."""
    rows = edit.segments_of(topic, 3, all_replicas=True)
    edit.put("segments", rows, max_ms=edit.tables["segments"]["max_ms"][rows] - 6 * HOUR_MS)


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


def _bomb(mib: int) -> Edit:
    def change(edit: TableEdit, topic: int) -> None:
        rows = edit.rows("batches", topic=edit.model.names[topic])
        edit.put("batches", rows, compressed_bytes=1_000_000, decompressed_bytes=mib * 1_000_000)

    return change


def _defect(name: str, edit: Edit, *rules: str, where: str = PARTITION, job: str = "segments") -> Defect:
    expected = tuple(Expected(job, rule, where) for rule in rules)
    return Defect(name=name, scope=Scope.SEGMENTS, expected=expected, edit=edit)


_LEADERS_DIR = "log dir {leader}:{folder}"
DEFECTS = (
    _defect("checksum-mismatch", _on_segment(3, crc_failures=1), "KKF001"),
    _defect("damaged-segment", _on_segment(3, fault="no batch header at position 71"), "KKF002"),
    _defect("unreadable-segment", _on_segment(3, fault="x.log cannot be read: Permission denied"), "KKF003"),
    _defect("torn-segment", _on_segment(3, torn_bytes=100), "KKF004"),
    _defect("missing-offsets", _on_segment(3, offset_gaps=1), "KKF005"),
    _defect("repeated-offsets", _on_segment(3, overlaps=1), "KKF006"),
    _defect("falling-epoch", _on_segment(3, epoch_regressions=1), "KKF007"),
    _defect("wrong-epoch", _on_segment(3, epoch_faults=1), "KKF008"),
    _defect("index-mismatch", _on_segment(3, index_faults=1), "KKF009"),
    _defect("lost-tail", _lost_tail, "KKF010"),
    _defect("open-transaction", _hanging, "KKF011"),
    _defect("aborted-records", _on_topic(aborted_records=0.5), "KKF012", where=TOPIC),
    _defect("clock-ahead", _future, "KKF013", "KKM411", where=TOPIC),
    _defect("clock-behind", _past, "KKM411", where=TOPIC),
    _defect("missing-timestamps", _on_segment(3, missing_times=1), "KKF014", where=TOPIC),
    _defect("empty-segment", _on_segment(3, size_bytes=0, batches=0, records=0), "KKF015", where=TOPIC),
    _defect(
        "full-index", _on_segment(3, size_bytes=SEGMENT_BYTES // 2, index_entries=1_310_720), "KKF016", where=TOPIC
    ),
    _defect("kept-too-long", _late, "KKF018", where=TOPIC),
    _defect("tiny-batches", _on_topic(tiny_batches=0.95), "KKF019", where=TOPIC),
    _defect("mixed-codecs", _on_topic(zstd_batches=0.5, none_batches=0.5), "KKF020", where=TOPIC),
    _defect("legacy-batches", _on_segment(3, legacy_batches=1), "KKF021", where=TOPIC),
    _defect("dead-files", _file("deleted"), "KKF022", where=_LEADERS_DIR),
    _defect("foreign-files", _file("foreign"), "KKF023", where=_LEADERS_DIR),
    _defect("large-batch", _bomb(300), "KKM409", "KKM410", where=TOPIC, job="bombs"),
    _defect("undecodable-batch", _bomb(60), "KKM410", where=TOPIC, job="bombs"),
)
