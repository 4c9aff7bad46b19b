"""Records of one partition that failed: when each is tried again, and which wait for a dependency."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, TypeVar

from kafkakit.streams.client.decide.failures import Failure
from kafkakit.streams.client.decide.moves import Dependencies

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class HeldRecord(Generic[T]):
    """A record that failed `tries` times; with `dependency` it waits for that one, and not for a time."""

    offset: int
    record: T
    tries: int
    failure: Failure
    dependency: str | None = None
    is_out: bool = False
    """True while a worker tries it."""


class HeldRecords(Generic[T]):
    """The failed records of a partition by offset. Cost of a change: the logarithm of how many there are."""

    __slots__ = ("_by_offset", "_due", "_waiting")

    def __init__(self) -> None:
        self._by_offset: dict[int, HeldRecord[T]] = {}
        self._due: list[tuple[int, int]] = []
        self._waiting: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._by_offset)

    def __iter__(self) -> Iterator[HeldRecord[T]]:
        """All, in the order of their offsets."""
        return (self._by_offset[offset] for offset in sorted(self._by_offset))

    def get(self, offset: int) -> HeldRecord[T] | None:
        """The failed record at an offset."""
        return self._by_offset.get(offset)

    def wait_until(self, held: HeldRecord[T], due_ms: int) -> None:
        """Try it again from `due_ms` on."""
        held.is_out, held.dependency = False, None
        self._by_offset[held.offset] = held
        heappush(self._due, (due_ms, held.offset))

    def wait_for(self, held: HeldRecord[T], dependency: str) -> None:
        """Try it again when the dependency is up, or as the one that finds out."""
        held.is_out, held.dependency = False, dependency
        self._by_offset[held.offset] = held
        heappush(self._waiting.setdefault(dependency, []), held.offset)

    def drop(self, offset: int) -> None:
        """The record is done or rejected."""
        self._by_offset.pop(offset, None)

    def take(self, now_ms: int, dependencies: Dependencies) -> HeldRecord[T] | None:
        """A record whose time has come, the lowest offset first of those that wait for the same; None for none."""
        while self._due and self._due[0][0] <= now_ms:
            held = self._current(heappop(self._due)[1], None)
            if held is not None:
                held.is_out = True
                return held
        for name, offsets in list(self._waiting.items()):
            while offsets and self._current(offsets[0], name) is None:
                heappop(offsets)
            if not offsets:
                del self._waiting[name]
            elif dependencies.may_probe(name, now_ms):
                held = self._by_offset[heappop(offsets)]
                dependencies.probing(name)
                held.is_out = True
                return held
        return None

    def next_due_ms(self, dependencies: Dependencies) -> int | None:
        """When `take` may give out a record; None while nothing waits. It may be too early, never too late."""
        times = [self._due[0][0]] if self._due else []
        times += [dependencies.next_probe_ms(name) for name, offsets in self._waiting.items() if offsets]
        return min(times, default=None)

    def _current(self, offset: int, dependency: str | None) -> HeldRecord[T] | None:
        """The record, unless it is gone, at a worker, or waits for something else by now."""
        held = self._by_offset.get(offset)
        return held if held is not None and not held.is_out and held.dependency == dependency else None
