"""The history of commits, and of what was produced, as columns; and where reading continues the next time."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lag.api import ResumePoint
from kafkakit.streams.model.offsets_log.commits import CommitColumns, KeyTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOMENTS = 96
LEAST_STEP_MS = 60_000
_KNOWN_TO = "/known-to"


def commit_columns(
    keys: KeyTable, commits: CommitColumns, log_partitions: "NDArray[np.int32]"
) -> Mapping[str, Sequence[Any]]:
    """The table `commits`; `log_partitions` is by row. What the metadata says is not stored."""
    groups = [keys.groups[n] for n in range(keys.groups.capacity)]
    topics = [keys.topics[n] for n in range(keys.topics.capacity)]
    return {
        "group": [groups[n] for n in keys.group_index[commits.key].tolist()],
        "topic": [topics[n] for n in keys.topic_index[commits.key].tolist()],
        "partition": keys.partition[commits.key].tolist(),
        "committed": [offset if offset >= 0 else None for offset in commits.offset.tolist()],
        "at_ms": [ms if ms >= 0 else None for ms in commits.committed_ms.tolist()],
        "log_partition": log_partitions.tolist(),
        "log_offset": commits.at.tolist(),
        "metadata_bytes": [len(metadata) for metadata in commits.metadata],
    }


def moments(begin_ms: int, end_ms: int) -> tuple[int, ...]:
    """The times at which log ends are looked up: 96 at most, evenly spread, a minute apart or more."""
    step_ms = max(LEAST_STEP_MS, -(-(end_ms - begin_ms) // MOMENTS))
    return tuple(range(begin_ms, end_ms, step_ms))


def produced_columns(
    partitions: Sequence[TopicPartition],
    times_ms: Sequence[int],
    looked_up: Sequence[Mapping[TopicPartition, int | ItemError | None]],
    ends: Mapping[TopicPartition, int],
) -> Mapping[str, Sequence[Any]]:
    """The table `produced`: the end of each log at each time, without those that repeat both neighbours.

    `looked_up` is, by time, the first offset from then on; None where there is none, which means that the log had its
    end of now. What is not known gives no row.
    """
    import numpy as np

    unknown = -1
    at = np.full((len(partitions), len(times_ms)), unknown, np.int64)
    for column, answers in enumerate(looked_up):
        found = (answers.get(p, unknown) if p in answers else unknown for p in partitions)
        at[:, column] = [
            ends.get(p, unknown) if offset is None else offset if isinstance(offset, int) else unknown
            for p, offset in zip(partitions, found, strict=True)
        ]
    edge = np.full((len(partitions), 1), -2)
    before, after = np.hstack([edge, at[:, :-1]]), np.hstack([at[:, 1:], edge])
    rows, columns = np.nonzero((at >= 0) & ((at != before) | (at != after)))
    return {
        "topic": [partitions[row].topic for row in rows.tolist()],
        "partition": [partitions[row].partition for row in rows.tolist()],
        "offset": at[rows, columns].tolist(),
        "at_ms": [times_ms[column] for column in columns.tolist()],
    }


def positions_of(points: Mapping[int, ResumePoint], topic: str) -> dict[str, int]:
    """Where reading the topic continues, as positions of a manifest."""
    found: dict[str, int] = {}
    for partition, point in points.items():
        found |= {f"{topic}-{partition}": point.at, f"{topic}-{partition}{_KNOWN_TO}": point.known_to}
    return found


def resume_points(positions: Mapping[str, int], partitions: Sequence[TopicPartition]) -> dict[int, ResumePoint]:
    """The inverse, for the partitions that have a position."""
    names = {p.partition: str(p) for p in partitions if str(p) in positions}
    return {n: ResumePoint(positions[name], positions[name + _KNOWN_TO], -1) for n, name in names.items()}
