"""The failed records of one partition: whether each waits for a time, for a dependency, or is rejected."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafkakit.streams.client.decide.failures import Ending, Failure, Rejection, RejectReason
from kafkakit.streams.client.decide.held import HeldRecord, HeldRecords
from kafkakit.streams.client.decide.moves import Dependencies, MoveBudget
from kafkakit.streams.client.decide.rejections import Rejections
from kafkakit.streams.client.decide.rules import WorkRules
from kafkakit.streams.model.commit import Mark, MarkState

T = TypeVar("T")
OUT_OF_TRIES = ""
"""Records that used up their tries wait for this "dependency" while they may not be rejected."""


@dataclass(slots=True)
class WorkCounts:
    """What happened on a partition since it was assigned; `gone` are offsets without a record to handle."""

    handled: int = 0
    failures: int = 0
    retries: int = 0
    rejected: int = 0
    deferred: int = 0
    gone: int = 0
    replayed: int = 0


class FailingRecords(Generic[T]):
    """`held` wait to be tried again, `rejected` to be durable elsewhere. Dependencies and budget are the consumer's."""

    def __init__(self, rules: WorkRules, dependencies: Dependencies, budget: MoveBudget, counts: WorkCounts) -> None:
        self.held: HeldRecords[T] = HeldRecords()
        self.rejected: Rejections[T] = Rejections()
        self._rules, self._dependencies, self._budget, self._counts = rules, dependencies, budget, counts

    def take(self, now_ms: int) -> HeldRecord[T] | None:
        """A record whose time has come."""
        held = self.held.take(now_ms, self._dependencies)
        self._counts.retries += held is not None
        return held

    def is_due(self, now_ms: int) -> bool:
        """True when `take` may give out a record."""
        due_ms = self.held.next_due_ms(self._dependencies)
        return due_ms is not None and due_ms <= now_ms

    def succeeded(self, offset: int, dependency: str | None) -> None:
        """A record that was tried again is done."""
        self.held.drop(offset)
        if dependency is not None:
            self._dependencies.answered(dependency)

    def failed(self, offset: int, record: T, tries: int, failure: Failure, dependency: str | None, now_ms: int) -> None:
        """A record failed after `tries` earlier ones; `dependency` is what it had waited for."""
        self._counts.failures += 1
        if failure.ending is Ending.REJECT:
            self._answered_otherwise(dependency, now_ms)
            self.reject(offset, record, RejectReason.HANDLER, tries + 1, failure)
            return
        held = HeldRecord(offset=offset, record=record, tries=tries, failure=failure)
        if failure.ending is Ending.DEFER:
            self._defer(held, failure.dependency, dependency, now_ms)
            return
        self._budget.failed()
        held.tries += 1
        limit = self._rules.retry.max_tries
        if limit and held.tries >= limit:
            if self._budget.take():
                self._answered_otherwise(dependency, now_ms)
                self.reject(offset, record, RejectReason.MAX_TRIES, held.tries, failure)
            else:
                self._defer(held, OUT_OF_TRIES, dependency, now_ms)
            return
        self._answered_otherwise(dependency, now_ms)
        delay = self._rules.retry.delay_ms(held.tries) if failure.after_ms is None else failure.after_ms
        self.held.wait_until(held, now_ms + delay)

    def not_tried(self, offset: int, now_ms: int) -> None:
        """A record that was to be tried again was not: it waits as before."""
        held = self.held.get(offset)
        if held is not None and held.dependency is not None:
            self._dependencies.given_up(held.dependency)
            self.held.wait_for(held, held.dependency)
        elif held is not None:
            self.held.wait_until(held, now_ms)

    def move_oldest(self) -> T | None:
        """Reject the oldest record that waits after a try, if the budget allows it; None where nothing was moved."""
        oldest = next((held for held in self.held if not held.is_out), None)
        if oldest is None or oldest.tries < 1 or not self._budget.take():
            return None
        self.reject(oldest.offset, oldest.record, RejectReason.HEAD_OF_LINE, oldest.tries, oldest.failure)
        return oldest.record

    def reject(self, offset: int, record: T, reason: RejectReason, tries: int, failure: Failure) -> None:
        """The record is not tried again."""
        self.held.drop(offset)
        self._counts.rejected += 1
        self.rejected.add(
            Rejection(offset=offset, record=record, reason=reason, tries=tries, error=failure.error, text=failure.text)
        )

    def record_at(self, offset: int) -> T | None:
        """The failed record at an offset."""
        held = self.held.get(offset)
        return held.record if held is not None else self.rejected.record_at(offset)

    def marks(self, base: int) -> Iterator[Mark]:
        """What a commit says of them."""
        for held in self.held:
            state = MarkState.RETRYING if held.dependency is None else MarkState.DEFERRED
            yield Mark(start=held.offset, end=held.offset + 1, state=state, count=held.tries)
        yield from self.rejected.marks(base)

    def _defer(self, held: HeldRecord[T], name: str, dependency: str | None, now_ms: int) -> None:
        self._counts.deferred += 1
        self._dependencies.failed(name, now_ms, was_probe=dependency == name)
        if dependency != name:
            self._answered_otherwise(dependency, now_ms)
        self.held.wait_for(held, name)

    def _answered_otherwise(self, dependency: str | None, now_ms: int) -> None:
        """The record that was to find out whether a dependency is up failed for another reason: still unknown."""
        if dependency is not None:
            self._dependencies.failed(dependency, now_ms, was_probe=True)
