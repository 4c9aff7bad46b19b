"""Writing records of the DLQ lane to their original lane again, batch by batch.

At least once: a record counts as replayed once it was acknowledged. At most one batch is written twice, by whatever
the program is stopped (`decide/replay_state.py`). Records keep key, value and headers, their provenance too.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.clock import Clock
from kafkakit.ports.data import Producer
from kafkakit.streams.formats.offset_ranges import OffsetRanges
from kafkakit.streams.lanes.act.lane_reading import LaneReader
from kafkakit.streams.lanes.act.replay_states import ReplayStates
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters, lane_of
from kafkakit.streams.lanes.decide.dead_letters import DeadLetter, letter_of
from kafkakit.streams.lanes.decide.replay_plan import ReplayBudget, ReplayOutcome, ReplayTarget, target_of
from kafkakit.streams.routes.api import DLQ, Route, Segment

MOST_BYTES = 16 << 20
"""A batch is written once its records have this many bytes."""


@dataclass(frozen=True, slots=True)
class _Item:
    record: Record
    target: ReplayTarget


class Replayer:
    """Replays one stream; `guard` is called before each batch and raises where another process may replay it."""

    def __init__(self, clusters: StreamClusters, clock: Clock, guard: Callable[[], None], *, wait_s: float) -> None:
        self._clusters, self._clock, self._guard, self._wait_s = clusters, clock, guard, wait_s
        self._reader = LaneReader(clusters, clock, wait_s=wait_s)
        self._producers: dict[str, Producer] = {}

    def replay(
        self,
        route: Route,
        matches: Callable[[DeadLetter], bool],
        budget: ReplayBudget,
        *,
        to: str | None = None,
        is_plan: bool = False,
        tell: Callable[[int], None] = lambda _: None,
    ) -> ReplayOutcome:
        """Replay what matches and was not replayed; a plan reads all and writes nothing. `tell` gets the count so far.

        Raises `OperationFailedError` for records that a broker refuses: their batch counts as not replayed.
        """
        states = ReplayStates(self._clusters, route.stream)
        stayed: Counter[str] = Counter()
        matching = replayed = held = 0
        batch: list[_Item] = []
        at: Segment | None = None
        before: dict[TopicPartition, int] = {}

        def first(segment: Segment, spans: Mapping[TopicPartition, range]) -> dict[TopicPartition, int]:
            found = states.of(segment, spans)
            before.update({key: state.first for key, state in found.items()})
            return {key: state.first for key, state in found.items()}

        for segment, record in self._reader.records(lane_of(route, DLQ), first):
            if batch and segment is not at:
                replayed, held = self._finish(states, at, batch, replayed, budget, tell), 0
            at = segment
            state = states.known(segment)[record.partition]
            state.skip(before[record.partition], record.offset)
            before[record.partition] = record.offset + 1
            letter = letter_of(record, segment, is_replayed=state.was_done(record.offset))
            if letter.is_replayed or not matches(letter):
                continue
            matching += 1
            target = target_of(letter, route, to)
            if isinstance(target, str):
                stayed[target] += 1
            elif is_plan:
                continue
            else:
                batch.append(_Item(record, target))
                held += len(record.value)
                wanted = budget.batch if budget.limit is None else min(budget.batch, budget.limit - replayed)
                if len(batch) >= wanted or held >= MOST_BYTES:
                    replayed, held = self._finish(states, at, batch, replayed, budget, tell), 0
                if replayed == budget.limit:
                    break
        if batch:
            replayed = self._finish(states, at, batch, replayed, budget, tell)
        return ReplayOutcome(
            matching=matching,
            replayed=replayed,
            uncertain=states.uncertain,
            stayed=dict(sorted(stayed.items())),
            is_plan=is_plan,
        )

    def _finish(
        self,
        states: ReplayStates,
        segment: Segment | None,
        batch: list[_Item],
        replayed: int,
        budget: ReplayBudget,
        tell: Callable[[int], None],
    ) -> int:
        """Write the batch, empty it, and wait until the rate allows for another one; the count of all so far."""
        assert segment is not None
        started = self._clock.monotonic()
        offsets: dict[TopicPartition, list[tuple[int, int]]] = {}
        for item in batch:
            offsets.setdefault(item.record.partition, []).append((item.record.offset, item.record.offset + 1))
        ranges = {key: OffsetRanges.of(found) for key, found in offsets.items()}
        self._guard()
        states.write(segment, ranges, sent=False)
        self._send(batch)
        states.write(segment, ranges, sent=True)
        done = replayed + len(batch)
        tell(done)
        self._clock.sleep(max(0.0, len(batch) / budget.rate - (self._clock.monotonic() - started)))
        batch.clear()
        return done

    def _send(self, batch: list[_Item]) -> None:
        used = {item.target.segment.cluster_id: self._producer(item.target.segment) for item in batch}
        failed = {cluster: producer.failed for cluster, producer in used.items()}
        for item in batch:
            record = item.record
            value = None if record.is_null else record.value
            used[item.target.segment.cluster_id].send(item.target.place, value, record.key, record.headers)
        for cluster, producer in used.items():
            left = producer.flush(self._wait_s)
            if left or producer.failed > failed[cluster]:
                reason = f": {producer.last_error}" if producer.last_error else ""
                raise OperationFailedError(
                    f"{left + producer.failed - failed[cluster]} of a batch of {len(batch)} records were not "
                    f"acknowledged{reason}",
                    hint="run the same command again: this batch is written again, all before it are done",
                )

    def _producer(self, segment: Segment) -> Producer:
        if segment.cluster_id not in self._producers:
            self._producers[segment.cluster_id] = self._clusters.of_segment(segment).data.producer()
        return self._producers[segment.cluster_id]
