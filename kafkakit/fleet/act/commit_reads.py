"""Reading the history of commits from `__consumer_offsets`, and how far logs had grown meanwhile."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.errors import TryLaterError
from kafkakit.core.quantities import epoch_ms
from kafkakit.fleet.act.snapshot_writer import SnapshotWriter
from kafkakit.fleet.decide.commit_history import commit_columns, moments, positions_of, produced_columns, resume_points
from kafkakit.fleet.decide.snapshot_columns import Spans
from kafkakit.ports.acting import Clock
from kafkakit.ports.data import LogReader
from kafkakit.streams.lag.api import ResumePoint, resume_points_of
from kafkakit.streams.lag.api_act import OFFSETS_TOPIC, OffsetsTail
from kafkakit.streams.model.offsets_log.commits import CommitColumns, KeyTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_KEYS = 10_000_000
ROWS_OF_FILE = 500_000
TRIES = 20
PAUSE_S = 0.5


class CommitHistory:
    """The commits of one cluster since some time, written as they are read."""

    def __init__(self, log: LogReader, writer: SnapshotWriter, clock: Clock) -> None:
        self._log, self._writer, self._clock = log, writer, clock
        self._keys = KeyTable(max_keys=MAX_KEYS)
        self._tail = OffsetsTail(log, self._keys, self._take, every=True)
        self._held: list[CommitColumns] = []

    def read(self, spans: Spans, positions: Mapping[str, int], since_ms: int) -> dict[str, int]:
        """Write all commits from `positions` on, where there are none from `since_ms` on; returns the next positions.

        The log is read to the end that it has in the beginning, or a little further. Raises `TryLaterError` when a
        partition cannot be read.
        """
        import numpy as np

        own = {p: s for p, s in spans.items() if p.topic == OFFSETS_TOPIC and isinstance(s, LogSpan)}
        resume = resume_points(positions, list(own))
        fresh = [p for p in own if p.partition not in resume]
        for place, found in self._log.offsets_at(dict.fromkeys(fresh, since_ms)).items():
            at = own[place].end if found is None else found
            if isinstance(at, int):
                resume[place.partition] = ResumePoint(at, at, -1)
        self._tail.adopt(b"", np.empty(0, np.int64), np.empty(0, np.int32), resume)
        for _ in range(TRIES):
            self._tail.locate()
            while not self._tail.is_caught_up:
                self._poll(0)
            behind = [c for c in self._tail.cursors.values() if c.is_behind]
            if not behind:
                self._write(1)
                return positions_of(resume_points_of(self._tail.cursors.values()), OFFSETS_TOPIC)
            self._clock.sleep(PAUSE_S)
            self._poll(100)
        raise TryLaterError(f"{OFFSETS_TOPIC}-{behind[0].partition} cannot be read: {behind[0].error}")

    def write_produced(self, spans: Spans, begin_ms: int, spans_ms: int) -> None:
        """Write how far the logs of the commits' partitions had grown at times since `begin_ms`, and at `spans_ms`."""
        own = {self._keys.key_of(number)[1:] for number in range(self._keys.capacity)}
        ends = {p: s.end for p, s in spans.items() if p in own and isinstance(s, LogSpan)}
        partitions, times = sorted(ends), moments(begin_ms, spans_ms)
        looked_up = []
        for time_ms in times:
            self._writer.check()
            looked_up.append(self._log.offsets_at(dict.fromkeys(partitions, time_ms)))
        columns = produced_columns(partitions, (*times, spans_ms), (*looked_up, ends), ends)
        self._writer.add("produced", columns)

    @property
    def note(self) -> str:
        """What could not be read, in a sentence; empty where all was."""
        totals = self._tail.totals
        lost = totals.undecodable + totals.unreadable_batches + totals.keys_left_out
        return f"{lost} records of {OFFSETS_TOPIC} could not be read ({totals.first_reason})" if lost else ""

    def _poll(self, wait_ms: int) -> None:
        self._writer.check()
        self._tail.poll(wait_ms, epoch_ms(self._clock.now()))
        self._write(ROWS_OF_FILE)

    def _take(self, columns: CommitColumns) -> "NDArray[np.int64]":
        import numpy as np

        self._held.append(columns)
        return np.empty(0, np.int64)

    def _write(self, at_least: int) -> None:
        if sum(map(len, self._held)) < at_least:
            return
        origins = self._tail.origins.partition
        tables = [commit_columns(self._keys, held, origins[held.key]) for held in self._held]
        self._held.clear()
        self._writer.add("commits", {name: [v for t in tables for v in t[name]] for name in tables[0]})
