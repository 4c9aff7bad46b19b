"""Records of one partition that wait for their first try, and which of them may be handled now."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Generic, TypeVar

from kafkakit.streams.client.decide.failures import Failure
from kafkakit.streams.client.decide.rules import Mode

T = TypeVar("T")
Key = bytes | None
_WHOLE_PARTITION = b""


@dataclass(slots=True, kw_only=True)
class Chunk(Generic[T]):
    """Records for one worker, which handles them in order. The worker alone writes `handled`, `failures`, `skipped`.

    `handled` counts those at the front that are over: handled, failed, or skipped because an earlier record of the
    same key failed. It may be read at any time, so work on a long chunk counts before its end. `tries` are those so
    far, of a chunk that is tried again; `dependency` is what its record waits for. `keys` is None where records have no
    order.
    """

    offsets: list[int]
    records: list[T]
    keys: list[Key] | None = None
    tries: int = 0
    is_again: bool = False
    dependency: str | None = None
    handled: int = 0
    failures: dict[int, Failure] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    settled: int = 0

    def failed(self, index: int, failure: Failure) -> None:
        """Note that a record failed, and skip later ones of its key."""
        self.failures[index] = failure
        keys = self.keys
        if keys is not None and keys[index] is not None:
            key = keys[index]
            self.skipped.update(i for i in range(index + 1, len(keys)) if keys[i] == key)


@dataclass(slots=True)
class _Run(Generic[T]):
    offsets: list[int]
    records: list[T]
    at: int = 0


class ReadyQueue(Generic[T]):
    """Records in the order of their offsets. A key with a record at a worker, or one that failed, is busy.

    Cost: a slice for a chunk of records without order, a look-up a record else.
    """

    __slots__ = ("_busy", "_freed", "_key_of", "_runs", "_waiting")

    def __init__(self, mode: Mode, key_of: Callable[[T], Key]) -> None:
        self._key_of: Callable[[T], Key] | None = None
        if mode is not Mode.UNORDERED:
            self._key_of = key_of if mode is Mode.KEY else lambda record: _WHOLE_PARTITION
        self._runs: deque[_Run[T]] = deque()
        # Records that wait for their key; None for none, which nearly all keys have.
        self._busy: dict[Key, deque[tuple[int, T]] | None] = {}
        self._waiting = 0
        self._freed: deque[Key] = deque()

    @property
    def has_work(self) -> bool:
        """True when a record may be free; only `take` tells for certain."""
        return bool(self._runs or self._freed)

    def add(self, offsets: list[int], records: list[T]) -> None:
        """Records that were read, in the order of their offsets."""
        if offsets:
            self._runs.append(_Run(offsets, records))

    def take(self, limit: int) -> Chunk[T] | None:
        """Up to `limit` records that may be handled one after another now; None where all wait."""
        if self._key_of is None:
            return self._slice(limit)
        while self._freed:
            key = self._freed.popleft()
            waiting = self._busy[key] or deque()
            some = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
            self._waiting -= len(some)
            if some:
                return Chunk(offsets=[o for o, _ in some], records=[r for _, r in some], keys=[key] * len(some))
            del self._busy[key]
        return self._of_free_keys(limit, self._key_of)

    def _slice(self, limit: int) -> Chunk[T] | None:
        if not self._runs:
            return None
        run = self._runs[0]
        end = run.at + limit
        chunk = Chunk(offsets=run.offsets[run.at : end], records=run.records[run.at : end])
        run.at = end
        if end >= len(run.offsets):
            self._runs.popleft()
        return chunk

    def _of_free_keys(self, limit: int, key_of: Callable[[T], Key]) -> Chunk[T] | None:
        offsets: list[int] = []
        records: list[T] = []
        keys: list[Key] = []
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
                        keys.append(key)
                new.difference_update(blocked)
            else:
                offsets += places
                records += some
                keys += found
            busy.update(dict.fromkeys(new))
            mine |= new
            run.at += len(some)
            if run.at >= len(run.offsets):
                self._runs.popleft()
        return Chunk(offsets=offsets, records=records, keys=keys) if offsets else None

    def give_back(self, chunk: Chunk[T], held: Iterable[int]) -> None:
        """A worker is through with a chunk: what it did not come to waits again; the keys of the records at the
        positions `held` stay busy, the others are free."""
        left: list[int] = []
        if chunk.skipped or chunk.handled < len(chunk.offsets):
            left = [i for i in range(len(chunk.offsets)) if i >= chunk.handled or i in chunk.skipped]
        if chunk.keys is None:
            self._put_first([(chunk.offsets[i], chunk.records[i]) for i in left])
            return
        self._put_first([(chunk.offsets[i], chunk.records[i]) for i in left if chunk.keys[i] is None])
        for i in reversed(left):
            if chunk.keys[i] is not None:
                self._wait(chunk.keys[i]).appendleft((chunk.offsets[i], chunk.records[i]))
        kept = {chunk.keys[i] for i in held}
        busy = self._busy
        if not kept and not self._waiting:
            deque(map(busy.pop, chunk.keys, repeat(None)), maxlen=0)
            return
        for key in dict.fromkeys(chunk.keys):
            if key is not None and key not in kept:
                self._free(key)

    def release(self, record: T) -> None:
        """A record that held up its key is done or rejected."""
        if self._key_of is not None and (key := self._key_of(record)) is not None:
            self._free(key)

    def key_of(self, record: T) -> Key:
        """What orders the record among others; None for nothing."""
        return self._key_of(record) if self._key_of is not None else None

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
