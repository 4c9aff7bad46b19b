"""Asking the log when records were written, for many partitions at a small price.

A broker gives each partition of a fetch whole batches within its bytes, and nothing at all where the first batch is
larger, save for the first partition of the answer. So partitions are asked many at once with a small limit of bytes
each, and those that gave nothing again with more, in the end one by one.
"""

from collections.abc import Collection

from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.log_answers import fetch_answers
from kafkakit.ports.log import LogReader
from kafkakit.streams.commits.decide.record_time import time_at
from kafkakit.streams.model.dialects.dialect import TimeSpan

ROUNDS = ((200, 32 << 10), (8, 1 << 20), (1, 1 << 20))  # partitions at once, bytes for each
MOST_ALONE = 100  # partitions that are asked one by one
MOST = 2_000  # partitions that one call dates

Place = tuple[TopicPartition, int]


class RecordTimes:
    """When records were written, by the log; of one cluster."""

    def __init__(self, log: LogReader) -> None:
        self._log = log

    def at(self, places: Collection[Place]) -> dict[Place, TimeSpan]:
        """The times of the records at these offsets, or the next that the log has; one that cannot be told is absent.

        At most `MOST` are asked for, in order of partition.
        """
        found: dict[Place, TimeSpan] = {}
        left = sorted(set(places))[:MOST]
        for at_once, limit_bytes in ROUNDS:
            if at_once == 1:
                left = left[:MOST_ALONE]
            requested, left = left, []
            while requested:
                batch, requested = _one_a_partition(requested, at_once)
                left += self._ask(batch, limit_bytes, found)
        return found

    def _ask(self, batch: list[Place], limit_bytes: int, found: dict[Place, TimeSpan]) -> list[Place]:
        """Ask once; returns those that may tell when they are given more bytes."""
        answers = fetch_answers(self._log, dict(batch), max_bytes=limit_bytes * len(batch), partition_bytes=limit_bytes)
        again: list[Place] = []
        for place in batch:
            fetched = answers[place[0]]
            if fetched.error is not None:
                continue
            span = time_at(fetched.records, place[1])
            if span is not None:
                found[place] = span
            else:
                again.append(place)
        return again


def _one_a_partition(places: list[Place], most: int) -> tuple[list[Place], list[Place]]:
    """The next places to ask at once, no partition twice, and the rest."""
    batch: dict[TopicPartition, int] = {}
    rest: list[Place] = []
    for key, offset in places:
        if key in batch or len(batch) == most:
            rest.append((key, offset))
        else:
            batch[key] = offset
    return list(batch.items()), rest
