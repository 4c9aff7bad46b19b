"""Rejected records of one partition: their offsets are done only when each is durable elsewhere."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from kafkakit.streams.client.decide.failures import Rejection
from kafkakit.streams.model.commit import Mark, MarkState

T = TypeVar("T")


class Rejections(Generic[T]):
    """The rejected records that are durable nowhere else yet, by offset."""

    __slots__ = ("_by_offset", "_unwritten")

    def __init__(self) -> None:
        self._by_offset: dict[int, Rejection[T]] = {}
        self._unwritten: dict[int, Rejection[T]] = {}

    def __len__(self) -> int:
        return len(self._by_offset)

    def add(self, rejection: Rejection[T]) -> None:
        """A record was rejected."""
        self._by_offset[rejection.offset] = self._unwritten[rejection.offset] = rejection

    def record_at(self, offset: int) -> T | None:
        """The rejected record at an offset."""
        rejection = self._by_offset.get(offset)
        return None if rejection is None else rejection.record

    def take_unwritten(self) -> list[Rejection[T]]:
        """Those that are to be written elsewhere; each is given out once."""
        given = list(self._unwritten.values())
        self._unwritten.clear()
        return given

    def durable(self, offset: int) -> Rejection[T] | None:
        """The record is durable elsewhere; None where it was not rejected, or is durable already."""
        self._unwritten.pop(offset, None)
        return self._by_offset.pop(offset, None)

    def marks(self, base: int) -> Iterator[Mark]:
        """Their marks; the record at base cannot be in a done set, so a restart handles it again."""
        for offset, rejection in self._by_offset.items():
            if offset != base:
                yield Mark(start=offset, end=offset + 1, state=MarkState.REJECTED, count=rejection.tries)
