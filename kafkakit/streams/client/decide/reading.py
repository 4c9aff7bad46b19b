"""What a consumer reads, and which of it may be handled now.

From a route come topics by cluster, each with its lane and segment. Of a partition, some offsets are still to be read,
as a restored commit and its marks say; records that were read wait for their first try. Which lane gets the next free
worker is a matter of weighted fair shares, with workers that only the first lane may have.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Generic, NamedTuple, TypeVar

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.decide.failures import HeldRecord, Walk
from kafkakit.streams.client.decide.work_rules import Failure, Mode
from kafkakit.streams.model.commit import (
    MAX_OFFSET,
    NO_TOPIC_ID,
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    ReplayWindow,
    topic_id_bytes,
)
from kafkakit.streams.model.done_set import DoneSet
from kafkakit.streams.model.route import DLQ, LIVE, Route

MAX_REQUEST = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """The lane and segment that a topic carries, and what identifies it; `earlier_ids` are of topics of its name that
    were deleted."""

    lane: str
    segment: int
    cluster_id: str
    topic: str
    topic_id: bytes
    earlier_ids: tuple[bytes, ...] = ()

    def identity(self, partition: int, group: str) -> CommitIdentity:
        """What commits of a partition are bound to."""
        return CommitIdentity(cluster_id=self.cluster_id, topic_id=self.topic_id, partition=partition, group=group)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """What to read at an epoch: sources by topic for each cluster id, the clusters' profiles, and weights of lanes."""

    epoch: int
    sources: Mapping[str, Mapping[str, TopicSource]]
    profiles: Mapping[str, str]
    weights: Mapping[str, int]


def reading_plan(route: Route, lanes: Collection[str] | None) -> ReadingPlan:
    """All segments of the lanes, whatever their state, but held ones and those of paused lanes; None: all but `dlq`.

    `UsageError` for a lane that the route does not have.
    """
    names = [lane.name for lane in route.lanes]
    unknown = sorted(set(lanes or ()) - set(names))
    if unknown:
        raise UsageError(
            f"stream {route.stream} has no lane {', '.join(unknown)}", hint=f"its lanes: {', '.join(names)}"
        )
    wanted = [lane for lane in route.lanes if (lane.name in lanes if lanes is not None else lane.name != DLQ)]
    sources: dict[str, dict[str, TopicSource]] = {}
    earlier: dict[tuple[str, str], tuple[bytes, ...]] = {}
    for _, old in route.left():
        place = old.cluster_id, old.topic
        earlier[place] = (*earlier.get(place, ()), topic_id_bytes(old.topic_id))
    for lane in wanted:
        for segment in lane.readable:
            sources.setdefault(segment.cluster_id, {})[segment.topic] = TopicSource(
                lane=lane.name,
                segment=segment.id,
                cluster_id=segment.cluster_id,
                topic=segment.topic,
                topic_id=topic_id_bytes(segment.topic_id),
                earlier_ids=earlier.get((segment.cluster_id, segment.topic), ()),
            )
    return ReadingPlan(
        epoch=route.epoch,
        sources=sources,
        profiles={cluster_id: route.clusters[cluster_id] for cluster_id in sources},
        weights={lane.name: lane.weight for lane in wanted},
    )


def replaced_topics(before: Mapping[str, TopicSource], now: Mapping[str, TopicSource]) -> tuple[str, ...]:
    """Topics whose name stands for another topic now: what was read and committed of the old ones means nothing."""
    both = sorted(before.keys() & now.keys())
    ids = {name: (before[name].topic_id, now[name].topic_id) for name in both}
    return tuple(name for name, (old, new) in ids.items() if old != new and NO_TOPIC_ID not in (old, new))


def marks_within(marks: Iterable[Mark], offsets: OffsetRanges) -> Iterator[Mark]:
    """What marks say of some offsets. Cost: for a mark the logarithm of the ranges, and those that it meets."""
    for mark in marks:
        for start, end in offsets.within(mark.start, mark.end):
            yield Mark(start=start, end=end, state=mark.state, count=mark.count, deferred_s=mark.deferred_s)


def join_marks(marks: Iterable[Mark]) -> Iterator[Mark]:
    """Neighbours in the same state with the same count as one."""
    last: Mark | None = None
    for mark in marks:
        if (
            last is not None
            and last.end == mark.start
            and (last.state, last.count, last.deferred_s)
            == (
                mark.state,
                mark.count,
                mark.deferred_s,
            )
        ):
            last = Mark(start=last.start, end=mark.end, state=mark.state, count=mark.count, deferred_s=mark.deferred_s)
            continue
        if last is not None:
            yield last
        last = mark
    if last is not None:
        yield last


def ranges_of(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Sorted offsets as ranges. Cost: one step where they are contiguous."""
    if not offsets:
        return
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        yield offsets[0], offsets[-1] + 1
        return
    start = last = offsets[0]
    for offset in offsets[1:]:
        if offset != last + 1:
            yield start, last + 1
            start = offset
        last = offset
    yield start, last + 1


T = TypeVar("T")


def handled_in(state: CommitState) -> OffsetRanges:
    """What a commit says is done for good: rejected records may be durable nowhere else."""
    return state.done.minus(OffsetRanges.of((m.start, m.end) for m in state.marks if m.state is MarkState.REJECTED))


class UnreadOffsets:
    """Below `fresh` only some offsets are still to be read, from `fresh` on all are.

    What the restored commit says of an offset is kept until it is done or has failed again, so that the next owner is
    told where this one did not come to it.
    """

    __slots__ = ("_marks", "_wanted", "fresh")

    def __init__(self, state: CommitState) -> None:
        self.fresh = state.end
        self._marks = state.marks
        self._wanted = handled_in(state).gaps(state.base, state.end)

    def mark_at(self, offset: int) -> Mark | None:
        """What the restored commit says of an offset."""
        at = bisect_left(self._marks, offset + 1, key=lambda mark: mark.start) - 1
        return self._marks[at] if at >= 0 and offset < self._marks[at].end else None

    def tries_of(self, offsets: Sequence[int]) -> int | list[int]:
        """How often each of these offsets, in order, had failed by the restored commit; 0 where none had."""
        if not self._marks or offsets[0] >= self._marks[-1].end:
            return 0
        return [0 if (mark := self.mark_at(offset)) is None else mark.count for offset in offsets]

    def had_sign(self, offset: int) -> bool:
        """Whether the restored commit says that an offset failed while others were handled."""
        mark = self.mark_at(offset)
        return mark is not None and mark.state is MarkState.RETRYING

    def marks(self, done: DoneSet, failed: Iterable[int]) -> list[Mark]:
        """What a commit says of records that were not read or not tried again; `failed` are those that were.

        Cost: what is done and failed in ranges while there are such records, nothing later.
        """
        if not self._marks:
            return []
        base, end = done.base, self._marks[-1].end
        tried = done.ranges().union(OffsetRanges.of((offset, offset + 1) for offset in failed))
        untried, rejected = tried.gaps(base, end), MarkState.REJECTED
        pending = marks_within((mark for mark in self._marks if not mark.state.is_done), untried)
        # A rejected record that was read is among the failed; that at base cannot be in a done set.
        unread = marks_within((mark for mark in self._marks if mark.state is rejected), self._wanted)
        self._marks = tuple(sorted((*pending, *unread), key=lambda mark: mark.start))
        beyond_base = OffsetRanges.of([(base + 1, end)])
        return [
            *(mark for mark in self._marks if mark.state is not rejected),
            *marks_within((mark for mark in self._marks if mark.state is rejected), beyond_base),
        ]

    def sift(
        self, offsets: list[int], records: list[T], at: int
    ) -> tuple[list[int], list[T], list[tuple[int, T, Mark]]]:
        """What of a read from `at` on is still to be handled, and what had been rejected; the rest is done or known."""
        kept: list[int] = []
        kept_records: list[T] = []
        rejected: list[tuple[int, T, Mark]] = []
        for offset, record in zip(offsets, records, strict=True):
            if offset < at or (offset < self.fresh and offset not in self._wanted):
                continue
            mark = self.mark_at(offset) if offset < self.fresh else None
            if mark is not None and mark.state is MarkState.REJECTED:
                self._wanted = self._wanted.minus(OffsetRanges(((offset, offset + 1),)))
                rejected.append((offset, record, mark))
                continue
            kept.append(offset)
            kept_records.append(record)
        return kept, kept_records, rejected

    def read(self, start: int, end: int, offsets: list[int], done: DoneSet) -> int:
        """A read went from `start` to `end` and brought records at `offsets`: the others that were expected there do
        not exist, and become done. How many these are."""
        gone, at = 0, start
        if not (offsets and offsets[0] == start and end - start == len(offsets)):
            for low, high in ranges_of(offsets):
                gone += self._gone(at, low, done)
                at = high
            gone += self._gone(at, end, done)
        if start < self.fresh and self._wanted:
            self._wanted = self._wanted.minus(OffsetRanges.of([(start, end)]))
        self.fresh = max(self.fresh, end)
        return gone

    def open_again(self, offsets: OffsetRanges) -> None:
        """These offsets, which were done, are to be read again."""
        # Marks of what was done are history: they say nothing of the window's second time.
        if self._marks:
            self._marks = tuple(marks_within(self._marks, offsets.gaps(0, self._marks[-1].end)))
        self._wanted = self._wanted.union(offsets)

    def _gone(self, start: int, end: int, done: DoneSet) -> int:
        if start >= end:
            return 0
        ranges = self._wanted.within(start, min(end, self.fresh))
        return sum(done.mark_range(low, high) for low, high in ranges) + done.mark_range(max(start, self.fresh), end)


Key = bytes | None


def _no_key(record: object) -> Key:
    return None


def _same_key(record: object) -> Key:
    return b""


@dataclass(slots=True, kw_only=True, eq=False)
class Chunk(Generic[T]):
    """Records for one worker, which handles them in order. The worker alone writes `handled`, `failures`, `skipped`.

    `handled` counts those at the front that are over: handled, failed, or skipped because an earlier record of the
    same key failed. It may be read at any time, so work on a long chunk counts before its end. `tries` are those so
    far, of each record where they differ; `dependency` is what the record of a chunk that is tried again waits for.
    `key_of` is None where records have no order. `size` are the bytes of all records. The one record of a chunk with a
    `walk` is tried although an earlier one of its key has failed.
    """

    offsets: list[int]
    records: list[T]
    size: int
    key_of: Callable[[T], Key] | None = None
    tries: int | Sequence[int] = 0
    is_again: bool = False
    dependency: str | None = None
    walk: Walk[T] | None = None
    handled: int = 0
    failures: dict[int, Failure] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    settled: int = 0
    _keys: list[Key] | None = None

    def read_keys(self) -> list[Key]:
        """The records' keys, read when they are needed first."""
        if self._keys is None:
            self._keys = list(map(self.key_of or _no_key, self.records))
        return self._keys

    def failed(self, index: int, failure: Failure) -> None:
        """Note that a record failed, and skip later ones of its key."""
        self.failures[index] = failure
        if self.key_of is not None and (key := self.read_keys()[index]) is not None:
            keys = self.read_keys()
            self.skipped.update(i for i in range(index + 1, len(keys)) if keys[i] == key)


@dataclass(slots=True)
class _Run(Generic[T]):
    offsets: list[int]
    records: list[T]
    size: int | None = None
    """Bytes of all, where they are known."""
    at: int = 0


class ReplayRange(NamedTuple):
    """Offsets of a partition that are handled again: `start` to `end` (exclusive)."""

    cluster_id: str
    partition: TopicPartition
    start: int
    end: int


def replay_window(start: int, end: int, request_id: int) -> ReplayWindow:
    """The window of offsets as commits hold it; `UsageError` for one that they cannot."""
    if not 0 <= start < end <= MAX_OFFSET:
        raise UsageError(f"a replay is from an offset to a higher one, not from {start} to {end}")
    if not 0 <= request_id <= MAX_REQUEST:
        raise UsageError(f"the id of a request is 0 to {MAX_REQUEST}, not {request_id}")
    return ReplayWindow(start=start, end=end, request_id=request_id)


def replay_times(start: datetime, end: datetime | None) -> tuple[int, int | None]:
    """The times of a replay in ms of UTC, rounded up: a record has one before or at a time.

    `UsageError` for times without a zone, and for an end that is not after the start.
    """
    for name, at in (("start", start), ("end", end)):
        if at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
            hint = "datetime.now(UTC) - timedelta(hours=1), or datetime(2026, 1, 31, 12, tzinfo=UTC)"
            raise UsageError(f"the {name} of a replay is a datetime with a time zone, not {at!r}", hint=hint)
    if end is not None and end <= start:
        raise UsageError(f"a replay is from a time to a later one, not from {start} to {end}")
    return _up_to_ms(start), None if end is None else _up_to_ms(end)


def _up_to_ms(at: datetime) -> int:
    return max(0, -((_EPOCH - at) // timedelta(milliseconds=1)))


def replay_ranges(
    starts: Mapping[TopicPartition, int | None],
    stops: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, range]:
    """What lies between two times, by the first offsets at or after each (None: there is none) and the logs' ends."""
    found = {}
    for partition, start in starts.items():
        if start is None:
            continue
        stop = stops.get(partition)
        stop = ends[partition] if stop is None else stop
        if start < stop:
            found[partition] = range(start, stop)
    return found


class ReadyQueue(Generic[T]):
    """Records in the order of their offsets. A key with a record at a worker, or one that failed, is busy.

    Cost: a slice for a chunk of records without order, or of one partition in order, or where nothing else of the
    partition is at a worker; a look-up a record else.
    """

    __slots__ = ("_busy", "_freed", "_is_held", "_key_of", "_out", "_runs", "_size_of", "_waiting", "_whole")

    def __init__(self, mode: Mode, key_of: Callable[[T], Key], size_of: Callable[[T], int]) -> None:
        self._key_of: Callable[[T], Key] | None = None
        if mode is not Mode.UNORDERED:
            self._key_of = key_of if mode is Mode.KEY else _same_key
        self._size_of = size_of
        self._runs: deque[_Run[T]] = deque()
        # A partition as one key: True while a record of it is at a worker or failed.
        self._whole, self._is_held = mode is Mode.PARTITION, False
        # A chunk whose keys are not among the busy ones, as no other worker came for the partition.
        self._out: Chunk[T] | None = None
        # Records that wait for their key; None for none, which nearly all keys have.
        self._busy: dict[Key, deque[tuple[int, T]] | None] = {}
        self._waiting = 0
        self._freed: deque[Key] = deque()

    @property
    def has_work(self) -> bool:
        """True when a record may be free; only `take` tells for certain."""
        return bool(self._freed) or (bool(self._runs) and not self._is_held)

    def add(self, offsets: list[int], records: list[T], size: int) -> None:
        """Records that were read, in the order of their offsets, and the bytes of all."""
        if offsets:
            self._runs.append(_Run(offsets, records, size))

    def take(self, limit: int) -> Chunk[T] | None:
        """Up to `limit` records that may be handled one after another now; None where all wait."""
        if self._key_of is None:
            return self._slice(limit)
        if self._whole:
            chunk = None if self._is_held else self._slice(limit)
            self._is_held |= chunk is not None
            return chunk
        if not self._busy and self._out is None:
            self._out = self._slice(limit)
            return self._out
        if self._runs:
            self._enter()
        while self._freed:
            key = self._freed.popleft()
            waiting = self._busy[key] or deque()
            some = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
            self._waiting -= len(some)
            if some:
                return self._chunk([offset for offset, _ in some], [record for _, record in some])
            del self._busy[key]
        return self._of_free_keys(limit, self._key_of)

    def _chunk(self, offsets: list[int], records: list[T], size: int | None = None) -> Chunk[T]:
        size = sum(map(self._size_of, records)) if size is None else size
        return Chunk(offsets=offsets, records=records, size=size, key_of=self._key_of)

    def _slice(self, limit: int) -> Chunk[T] | None:
        if not self._runs:
            return None
        run = self._runs[0]
        start, run.at = run.at, run.at + limit
        if run.at >= len(run.offsets):
            self._runs.popleft()
            if not start:
                return self._chunk(run.offsets, run.records, run.size)
        return self._chunk(run.offsets[start : run.at], run.records[start : run.at])

    def _enter(self) -> None:
        """Note the keys of the chunk that is out as busy."""
        if self._out is not None:
            self._busy.update(dict.fromkeys(key for key in self._out.read_keys() if key is not None))
            self._out = None

    def _of_free_keys(self, limit: int, key_of: Callable[[T], Key]) -> Chunk[T] | None:
        offsets: list[int] = []
        records: list[T] = []
        mine: set[Key] = {None}
        busy = self._busy
        while self._runs and len(offsets) < limit:
            run = self._runs[0]
            end = run.at + limit - len(offsets)
            some, places = run.records[run.at : end], run.offsets[run.at : end]
            found = list(map(key_of, some))
            new = set(found) - mine
            blocked = new & busy.keys() if busy else ()
            if blocked:
                for key, record, offset in zip(found, some, places, strict=True):
                    if key in blocked:
                        self._wait(key).append((offset, record))
                    else:
                        offsets.append(offset)
                        records.append(record)
                new.difference_update(blocked)
            else:
                offsets += places
                records += some
            busy.update(dict.fromkeys(new))
            mine |= new
            run.at += len(some)
            if run.at >= len(run.offsets):
                self._runs.popleft()
        return self._chunk(offsets, records) if offsets else None

    def give_back(self, chunk: Chunk[T], held: Collection[int]) -> None:
        """A worker is through with a chunk: what it did not come to waits again; the keys of the records at the
        positions `held` stay busy, the others are free."""
        left: list[int] = []
        if chunk.skipped or chunk.handled < len(chunk.offsets):
            left = [i for i in range(len(chunk.offsets)) if i >= chunk.handled or i in chunk.skipped]
        if self._key_of is None or self._whole:
            self._put_first([(chunk.offsets[i], chunk.records[i]) for i in left])
            self._is_held = self._whole and bool(held)
            return
        if chunk is self._out:
            if not left and not held:
                self._out = None
                return
            self._enter()
        keys = chunk.read_keys()
        self._put_first([(chunk.offsets[i], chunk.records[i]) for i in left if keys[i] is None])
        for i in reversed(left):
            if keys[i] is not None:
                self._wait(keys[i]).appendleft((chunk.offsets[i], chunk.records[i]))
        kept = {keys[i] for i in held}
        if not kept and not self._waiting:
            deque(map(self._busy.pop, keys, repeat(None)), maxlen=0)
            return
        for key in dict.fromkeys(keys):
            if key is not None and key not in kept:
                self._free(key)

    def release(self, record: T) -> None:
        """A record that held up its key is done or rejected."""
        self._is_held = False
        if self._key_of is not None and not self._whole and (key := self._key_of(record)) is not None:
            self._free(key)

    def take_behind(self, record: T, walk: Walk[T]) -> Chunk[T] | None:
        """The first record that waits for one that failed, None where none does; its key, or partition, stays busy."""
        chunk: Chunk[T] | None = None
        if self._whole:
            chunk = self._slice(1)
        elif self._key_of is not None and (waiting := self._busy.get(self._key_of(record))):
            offset, behind = waiting.popleft()
            self._waiting -= 1
            chunk = self._chunk([offset], [behind])
        if chunk is not None:
            chunk.walk = walk
        return chunk

    def put_back(self, offset: int, record: T) -> None:
        """A record that was taken from behind another one waits there again, as the first."""
        if self._whole or self._key_of is None:
            self._put_first([(offset, record)])
        else:
            self._wait(self._key_of(record)).appendleft((offset, record))

    def again(self, held: HeldRecord[T]) -> Chunk[T]:
        """A record that failed before, to be tried again; its key is busy."""
        chunk = self._chunk([held.offset], [held.record])
        chunk.tries, chunk.is_again, chunk.dependency = held.tries, True, held.dependency
        return chunk

    def find(self, offset: int) -> T | None:
        """The record at an offset, if it waits here. Cost: runs and busy keys."""
        for run in self._runs:
            at = bisect_left(run.offsets, offset, run.at)
            if at < len(run.offsets) and run.offsets[at] == offset:
                return run.records[at]
        for waiting in self._busy.values():
            if waiting is not None and waiting and waiting[0][0] == offset:
                return waiting[0][1]
        return None

    def _put_first(self, entries: list[tuple[int, T]]) -> None:
        if entries:
            self._runs.appendleft(_Run([o for o, _ in entries], [r for _, r in entries]))

    def _wait(self, key: Key) -> deque[tuple[int, T]]:
        """The queue of a busy key, for one more record."""
        self._waiting += 1
        waiting = self._busy[key]
        if waiting is None:
            waiting = self._busy[key] = deque()
        return waiting

    def _free(self, key: Key) -> None:
        if self._busy[key]:
            self._freed.append(key)
        else:
            del self._busy[key]


class LaneShares:
    """Weighted fair shares of records among lanes that have work; `strict` gives `live` all it can take first.

    While `live` is among the lanes, the others together take at most `workers` less a quarter (one at least), so that
    a live record does not wait for a slow one to end. A lane without work collects no claim.
    """

    __slots__ = ("_others_limit", "_running", "_spent", "_strict", "_weights", "_workers")

    def __init__(self, weights: Mapping[str, int], workers: int, *, strict: bool) -> None:
        self._strict = strict and LIVE in weights
        self._weights = dict(weights)
        self._spent = dict.fromkeys(weights, 0.0)
        self._running = dict.fromkeys(weights, 0)
        reserved = max(1, workers // 4) if LIVE in weights and len(weights) > 1 else 0
        self._others_limit = max(1, workers - reserved)
        self._workers = workers

    def update(self, weights: Mapping[str, int]) -> None:
        """The lanes and weights of a newer route; lanes that stay keep what they spent."""
        least = min(self._spent.values(), default=0.0)
        self._weights = dict(weights)
        for lane in weights:
            self._spent.setdefault(lane, least)
            self._running.setdefault(lane, 0)

    @property
    def are_all_busy(self) -> bool:
        """True while no worker is free."""
        return sum(self._running.values()) >= self._workers

    def order(self, ready: Collection[str]) -> list[str]:
        """The lanes that may have a worker now, the one whose turn it is first."""
        others = sum(count for lane, count in self._running.items() if lane != LIVE)
        allowed = [lane for lane in ready if lane == LIVE or others < self._others_limit]
        return sorted(allowed, key=lambda lane: (not (self._strict and lane == LIVE), self._spent[lane], lane))

    def started(self, lane: str, records: int, ready: Collection[str]) -> None:
        """A worker took so many records of a lane; `ready` are the lanes with work before that."""
        self._running[lane] += 1
        # A lane that had no work starts where the busy ones are: it may not catch up on what it never wanted.
        floor = min((self._spent[other] for other in ready), default=0.0)
        for other in self._spent:
            if other not in ready:
                self._spent[other] = max(self._spent[other], floor)
        self._spent[lane] += records / self._weights.get(lane, 1)

    def ended(self, lane: str) -> None:
        """The worker is free again."""
        self._running[lane] -= 1
