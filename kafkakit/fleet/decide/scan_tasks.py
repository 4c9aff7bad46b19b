"""Which directories of partitions are read together, and what was found in them, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.fleet_tables import TABLES
from kafkakit.streams.model.log_dirs import PartitionFiles

TASK_BYTES = 2 << 30
TASK_FILES = 2_000
"""Opening a file costs about as much as walking a megabyte of batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedBroker:
    """What the log dirs of one broker held."""

    broker: int
    partitions: int
    rows: Mapping[str, int]
    size_bytes: int
    seconds: float
    faults: tuple[str, ...] = ()


def by_broker(found: Sequence[PartitionFiles], broker: int | None) -> dict[int, tuple[PartitionFiles, ...]]:
    """The directories by the broker they belong to, sorted: that of their `meta.properties`, else `broker`.

    Raises `RefusedError` where `meta.properties` names another broker, `UsageError` where none is named anywhere.
    """
    groups: dict[int, list[PartitionFiles]] = {}
    for part in found:
        if broker is not None and part.broker not in (None, broker):
            raise RefusedError(
                f"{part.log_dir} is a log dir of broker {part.broker}, not of broker {broker}",
                hint="leave --broker out to take it from meta.properties",
            )
        own = part.broker if part.broker is not None else broker
        if own is None:
            raise UsageError(f"{part.log_dir} has no meta.properties that names its broker", hint="give --broker N")
        groups.setdefault(own, []).append(part)
    return {number: tuple(parts) for number, parts in sorted(groups.items())}


def scan_tasks(parts: Sequence[PartitionFiles]) -> tuple[tuple[PartitionFiles, ...], ...]:
    """The directories in their order, cut into tasks of about 2 GiB or 2,000 files."""
    tasks: list[list[PartitionFiles]] = []
    size_bytes = files = 0
    for part in parts:
        if not tasks or size_bytes >= TASK_BYTES or files >= TASK_FILES:
            tasks.append([])
            size_bytes = files = 0
        tasks[-1].append(part)
        size_bytes += part.log_bytes
        files += len(part.files)
    return tuple(tuple(task) for task in tasks)


def table_columns(kind: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as the columns of a table; what the table has no column for is left out."""
    return {name: [row.get(name) for row in rows] for name in TABLES[kind].names}
