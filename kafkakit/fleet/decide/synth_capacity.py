"""Defects of made fleets: disks that fill up, losses that stop writes, partitions and brokers with most traffic."""

from collections.abc import Callable

import numpy as np

from kafkakit.fleet.decide.synth_cluster import LOG_DIRS
from kafkakit.fleet.decide.synth_defect import Defect, Expected, Scope
from kafkakit.fleet.decide.synth_edit import TableEdit
from kafkakit.fleet.decide.synth_load import DISK_DAYS

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
    dirs = edit.tables["log_dirs"]
    used = dirs["total_bytes"][rows] - dirs["usable_bytes"][rows]
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


def _defect(
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
DEFECTS = (
    _defect("disk-filling", Scope.BROKER, "capacity", ("KKX009",), _BROKER, _filling),
    _defect("high-ceiling", Scope.BROKER, "capacity", ("KKR221",), _BROKER, _ceiling),
    _defect("replica-out-of-sync", Scope.CLUSTER, "capacity", ("KKW001", "KKW002"), "", _out_of_sync),
    _defect("unequal-racks", Scope.CLUSTER, "capacity", ("KKW002",), "", _racks),
    _defect("no-space-for-loss", Scope.CLUSTER, "capacity", ("KKW003",), "", _used_by_others),
    _defect("large-records", Scope.HOT, "hotspots", ("KKH001",), _PARTITION, _traffic(1, bytes_in_s=HOT),
            partitions=LEAST_PARTITIONS),
    _defect("unbalanced-keys", Scope.HOT, "hotspots", ("KKH002",), _PARTITION,
            _traffic(1, bytes_in_s=HOT, messages_in_s=HOT), partitions=LEAST_PARTITIONS),
    _defect("leads-most", Scope.BROKER, "hotspots", ("KKH003",), _BROKER, _traffic(None, bytes_in_s=HOT_BROKER), 6),
    _defect("serves-most", Scope.BROKER, "hotspots", ("KKH004",), _BROKER, _traffic(None, bytes_out_s=HOT_BROKER), 6),
)  # fmt: skip
