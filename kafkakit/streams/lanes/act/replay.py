"""Writing records of the DLQ lane to their original lane again, batch by batch.

At least once: a record counts as replayed once it was acknowledged. At most one batch is written twice, by whatever
the program is stopped (`decide/replay_state.py`). Records keep key, value and headers, their provenance too.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.clock import Clock
from kafkakit.streams.lanes.act.batch_writer import BatchRecord, BatchWriter
from kafkakit.streams.lanes.act.lane_reading import LaneReader
from kafkakit.streams.lanes.act.replay_states import ReplayStates
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters, lane_of
from kafkakit.streams.lanes.decide.dead_letters import DeadLetter, letter_of
from kafkakit.streams.lanes.decide.replay_plan import ReplayBudget, ReplayOutcome, ReplayTarget, target_of
from kafkakit.streams.model.commit import OffsetRanges
from kafkakit.streams.model.route import DLQ, Route, Segment

MOST_BYTES = 16 << 20
"""A batch is written once its records have this many bytes."""
_AGAIN = "run the same command again: this batch is written again, all before it are done"


@dataclass(frozen=True, slots=True)
class _Item:
    record: Record
    target: ReplayTarget

    @property
    def written(self) -> BatchRecord:
        """The record as it is written again."""
        one = self.record
        value = None if one.is_null else one.value
        return BatchRecord(place=self.target.place, value=value, key=one.key, headers=one.headers)


@dataclass(slots=True)
class _Run:
    """What a run has done, and the batch that it collects: records of one segment of the DLQ lane."""

    states: ReplayStates
    budget: ReplayBudget
    batch: list[_Item] = field(default_factory=list)
    segment: Segment | None = None
    matching: int = 0
    replayed: int = 0
    stayed: Counter[str] = field(default_factory=Counter)

    @property
    def is_full(self) -> bool:
        """Whether the batch is to be written."""
        count, limit = self.budget.batch, self.budget.limit
        wanted = count if limit is None else min(count, limit - self.replayed)
        return len(self.batch) >= wanted or sum(len(item.record.value) for item in self.batch) >= MOST_BYTES


class Replayer:
    """Replays one stream; `guard` is called before each batch and raises where another process may replay it."""

    def __init__(self, clusters: StreamClusters, clock: Clock, guard: Callable[[], None], *, wait_s: float) -> None:
        self._clusters, self._clock, self._guard, self._wait_s = clusters, clock, guard, wait_s
        self._reader = LaneReader(clusters, clock, wait_s=wait_s)
        self._writers: dict[str, BatchWriter] = {}

    def replay(
        self,
        route: Route,
        matches: Callable[[DeadLetter], bool],
        budget: ReplayBudget,
        *,
        to: str | None = None,
        is_plan: bool = False,
    ) -> ReplayOutcome:
        """Replay what matches and was not replayed; a plan reads all and writes nothing.

        Raises `OperationFailedError` for records that a broker refuses: their batch counts as not replayed.
        """
        run = _Run(ReplayStates(self._clusters, route.stream), budget)
        for segment, letter, record in self._unreplayed(route, run.states):
            if not matches(letter):
                continue
            run.matching += 1
            target = target_of(letter, route, to)
            if isinstance(target, str):
                run.stayed[target] += 1
            elif is_plan:
                run.replayed += budget.limit is None or run.replayed < budget.limit
            else:
                if segment is not run.segment:
                    self._write(run)
                run.segment = segment
                run.batch.append(_Item(record, target))
                if run.is_full:
                    self._write(run)
                if run.replayed == budget.limit:
                    break
        self._write(run)
        return ReplayOutcome(
            matching=run.matching,
            replayed=run.replayed,
            uncertain=run.states.uncertain,
            stayed=dict(sorted(run.stayed.items())),
            is_plan=is_plan,
        )

    def _unreplayed(self, route: Route, states: ReplayStates) -> Iterator[tuple[Segment, DeadLetter, Record]]:
        """The records that no replay has written; offsets without a record are noted as done."""
        following: dict[TopicPartition, int] = {}

        def window(segment: Segment, spans: Mapping[TopicPartition, range]) -> dict[TopicPartition, range]:
            found = states.of(segment, spans)
            following.update({key: state.first for key, state in found.items()})
            return {key: range(state.first, spans[key].stop) for key, state in found.items()}

        for segment, record in self._reader.records(lane_of(route, DLQ), window):
            state = states.known(segment)[record.partition]
            state.skip(following[record.partition], record.offset)
            following[record.partition] = record.offset + 1
            if not state.was_done(record.offset):
                yield segment, letter_of(record, segment, is_replayed=False), record

    def _write(self, run: _Run) -> None:
        """Write the batch, empty it, and wait until the rate allows for another one."""
        if run.segment is None or not run.batch:
            return
        started = self._clock.monotonic()
        offsets: dict[TopicPartition, list[tuple[int, int]]] = {}
        for item in run.batch:
            offsets.setdefault(item.record.partition, []).append((item.record.offset, item.record.offset + 1))
        ranges = {key: OffsetRanges.of(found) for key, found in offsets.items()}
        self._guard()
        run.states.write(run.segment, ranges, sent=False)
        self._send(run.batch)
        run.states.write(run.segment, ranges, sent=True)
        run.replayed += len(run.batch)
        self._clock.sleep(max(0.0, len(run.batch) / run.budget.rate - (self._clock.monotonic() - started)))
        run.batch.clear()

    def _send(self, batch: list[_Item]) -> None:
        by_cluster: dict[str, list[_Item]] = {}
        for item in batch:
            by_cluster.setdefault(item.target.segment.cluster_id, []).append(item)
        for cluster_id, items in by_cluster.items():
            if cluster_id not in self._writers:
                data = self._clusters.of_segment(items[0].target.segment).data
                self._writers[cluster_id] = BatchWriter(data, wait_s=self._wait_s)
            self._writers[cluster_id].write([item.written for item in items], _AGAIN)
