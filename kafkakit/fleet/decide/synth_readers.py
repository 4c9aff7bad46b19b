"""Defects of made fleets: groups that lag or are silent, and records that one side of a mirrored topic lacks."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kafkakit.fleet.decide.synth_cluster import DAY_MS, RECORD_BYTES
from kafkakit.fleet.decide.synth_defect import Defect, Expected, Scope
from kafkakit.fleet.decide.synth_edit import Rows, TableEdit
from kafkakit.fleet.decide.synth_load import HOUR_MS, group_name

LATE_S = 300
VERY_LATE_S = 1_800
IDLE_MS = 6 * DAY_MS
Edit = Callable[[TableEdit, int], None]


def _commits(edit: TableEdit, topic: int) -> Rows:
    return edit.rows("commits", group=group_name(edit.model, topic))


def _later_by(edit: TableEdit, topic: int, rows: Rows, seconds: int) -> None:
    """Let commits be of what was produced that much earlier."""
    rate = edit.model.rate[edit.model.first[topic]] / RECORD_BYTES
    edit.put("commits", rows, committed=edit.tables["commits"]["committed"][rows] - int(rate * seconds))


def _slow(edit: TableEdit, topic: int) -> None:
    _later_by(edit, topic, _commits(edit, topic), LATE_S)


def _since(edit: TableEdit, ms: int) -> Rows:
    found: Rows = edit.tables["commits"]["at_ms"] > edit.model.end_ms - ms
    return found


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


def _records(edit: TableEdit, topic: int) -> NDArray[np.int64]:
    return np.flatnonzero(edit.rows("records", topic=edit.model.names[topic]))


def _some(edit: TableEdit, topic: int, first: int, number: int) -> Rows:
    found = np.zeros(len(edit.tables["records"]["offset"]), np.bool_)
    found[_records(edit, topic)[first : first + number]] = True
    return found


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


DEFECTS = (
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
