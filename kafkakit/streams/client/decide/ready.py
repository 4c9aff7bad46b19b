"""Records of one partition that wait for their first try, and which of them may be handled now."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Generic, TypeVar

from kafkakit.streams.client.decide.failures import Failure
from kafkakit.streams.client.decide.held import HeldRecord
from kafkakit.streams.client.decide.rules import Mode

T = TypeVar("T")
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
    `key_of` is None where records have no order. `size` are the bytes of all records.
    """

    offsets: list[int]
    records: list[T]
    size: int
    key_of: Callable[[T], Key] | None = None
    tries: int | Sequence[int] = 0
    is_again: bool = False
    dependency: str | None = None
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
