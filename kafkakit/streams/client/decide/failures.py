"""Records whose handling failed, and what each of them waits for.

A failed record of a partition waits for a time, for a dependency that is down, or, once it is out of tries, until
another record is handled; or it is rejected, and then its offset is done only when it is durable elsewhere. Invariants:

* A record out of tries is rejected for its failures only when another one was handled after its last try; or, while
  none is handled, when it failed between others that were and hardly another record begins to fail. In an outage
  those that come do, and of those that wait few have failed before.
* A sign against a record is that it failed between two other records that were handled. One outage gives one sign at
  most, however many tries it takes, and two are needed. A commit tells the next owner whether there is one.
* While some record can be handled, one is: those out of tries are tried in turns, and where records have an order the
  next one of the key is tried right after one that is out of tries (a walk, in `partition_work`).
* What is handled is handled in order: a walk that handles a record rejects all that it passed, each of them out of
  tries and failed a moment before.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from itertools import chain
from typing import Generic, TypeVar

from kafkakit.streams.client.decide.work_rules import Failure, FailureEnding, RetryRule, WorkRules
from kafkakit.streams.model.commit import Mark, MarkState

T = TypeVar("T")


class RejectReason(StrEnum):
    """Why a record left its partition without having been handled."""

    HANDLER = "handler"
    MAX_TRIES = "max-tries"
    HEAD_OF_LINE = "head-of-line"
    BOMB = "bomb"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection(Generic[T]):
    """A record that was rejected; its offset may be passed once it is durable elsewhere. `error` names the class."""

    offset: int
    record: T
    reason: RejectReason
    tries: int
    error: str = ""
    text: str = ""


_MEMORY = 0.98
"""Weight of the past in `Answers.share`: about the latest 50 records count."""

_WRONG = 0.01
"""The share of good records that may be taken for ones that can never be handled."""

_PASSED = 10
"""So many handled records for each that failed make it likely that those that did are at fault."""

_NEVER_MS = 1 << 62


class Answers:
    """What the tries of a consumer tell of all that its handlers need, and what it may move away; see `MoveRule`.

    `count` grows with each chunk of records that were handled, and is the time by which failures are ordered.
    `at_failure` is its value at the latest failure. `share` is how many of the tries of good records succeed while
    others do: over records that were handled, each with those of its failures that lie between handled ones. `handled`
    are those records, and of those that failed since the latest and that there is no sign against, `doubts` have hardly
    failed before and `known` have.
    """

    __slots__ = (
        "_moves", "_next_probe_ms", "_retry", "at_failure", "count", "doubts", "handled", "known", "share", "tokens",
    )  # fmt: skip

    def __init__(self, rules: WorkRules) -> None:
        self._moves, self._retry = rules.moves, rules.retry
        self.tokens = min(rules.moves.first_tokens, rules.moves.max_tokens)
        self.share = 1.0
        self.count = self.handled = self.at_failure = self.doubts = self.known = 0
        self._next_probe_ms = 0

    def succeeded(self, count: int, signs: int) -> None:
        """Note records that were handled, and how many `signs` there were against the one of them that had failed."""
        self.count, self.handled, self.doubts, self.known = self.count + 1, self.handled + count, 0, 0
        self.tokens = min(self._moves.max_tokens, self.tokens + count / self._moves.acks_per_move)
        self.share = 1 - (1 - self.share * _MEMORY**signs) * _MEMORY**count

    def answered(self) -> None:
        """Note that all that handlers need answers, although no record was handled: the next failure may be a sign."""
        self.count, self.doubts, self.known = self.count + 1, 0, 0

    def needed(self) -> int:
        """How many signs make a record that is out of tries one that can never be handled."""
        tries = self._retry.max_tries
        most = 3 * tries
        wanted = 1 if self.share > 1 - _WRONG else math.ceil(math.log(_WRONG) / math.log(1 - max(self.share, _WRONG)))
        return max(min(2, tries), min(wanted, most))

    def failing(self, passed: int) -> None:
        """A record without a sign begins to fail; so many were handled since it failed before."""
        self.known += passed >= _PASSED
        self.doubts += passed < _PASSED

    def is_alone(self, signs: int, passed: int, probes: int) -> bool:
        """True for a record out of tries that fails on while nothing is handled, as nothing else is left."""
        if self.doubts > 1 or probes < max(self._retry.max_tries, self.needed()):
            return False
        return signs > 0 or passed >= _PASSED * max(1, self.doubts + self.known)

    def take_token(self) -> bool:
        """Pay for one move of a record that has tries left; False where there is no token."""
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def may_probe(self, now_ms: int) -> bool:
        """True when a record out of tries may be tried although nothing was handled since."""
        return self._next_probe_ms <= now_ms

    def next_probe_ms(self) -> int:
        """When such a record may be tried."""
        return self._next_probe_ms

    def probing(self, now_ms: int) -> None:
        """One is tried now."""
        self._next_probe_ms = max(self._next_probe_ms, now_ms) + round(1000 / self._moves.probes_per_s)


@dataclass(slots=True)
class _DownDependency:
    failures: int = 0
    probe_at_ms: int = 0
    is_probed: bool = False


@dataclass(slots=True)
class Dependencies:
    """Which dependencies are down, and when one record may try each again; for all partitions of a consumer.

    Waits grow as the rule says. Times are milliseconds of a clock that never goes back.
    """

    rule: RetryRule
    _down: dict[str, _DownDependency] = field(default_factory=dict)
    _answers: dict[str, int] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """The dependencies that are down, sorted."""
        return tuple(sorted(self._down))

    def failed(self, name: str, now_ms: int, *, was_probe: bool) -> None:
        """A record found it down: the next try is later if it was the one that was to find out."""
        down = self._down.get(name)
        if down is None:
            self._down[name] = _DownDependency(failures=1, probe_at_ms=now_ms + self.rule.delay_ms(1))
        elif was_probe:
            down.failures += 1
            down.is_probed = False
            down.probe_at_ms = now_ms + self.rule.delay_ms(down.failures)

    def may_probe(self, name: str, now_ms: int) -> bool:
        """True when one record may try it now."""
        down = self._down.get(name)
        return down is None or (not down.is_probed and down.probe_at_ms <= now_ms)

    def next_probe_ms(self, name: str) -> int:
        """When one record may try it; far away while one does."""
        down = self._down.get(name)
        if down is None:
            return 0
        return _NEVER_MS if down.is_probed else down.probe_at_ms

    def probing(self, name: str) -> None:
        """A record is trying it."""
        if name in self._down:
            self._down[name].is_probed = True

    def given_up(self, name: str) -> None:
        """The record that was trying it was taken from this consumer; another one may try."""
        if name in self._down:
            self._down[name].is_probed = False

    def answered(self, name: str) -> None:
        """A record that waited for it succeeded."""
        self._down.pop(name, None)
        self._answers[name] = self._answers.get(name, 0) + 1

    def answers(self, name: str) -> int:
        """How many records that waited for it have succeeded."""
        return self._answers.get(name, 0)


@dataclass(slots=True, kw_only=True)
class HeldRecord(Generic[T]):
    """A record that failed `tries` times; with `dependency` it waits for that one, and not for a time.

    `at` is `Answers.count` at its last failure, and `of` the records handled until then. `signs` are the times between
    two handled records in which it failed, and `is_after_answer` says that the time since the last handled one will be
    such a time. `passed` were handled between its failures before that one and after it. `probes` are its tries since
    it ran out of them and nothing was handled, `dependency_at` is `Dependencies.answers` when it began to wait.
    """

    offset: int
    record: T
    tries: int
    failure: Failure
    dependency: str | None = None
    is_out: bool = False
    """True while a worker tries it, or records behind it."""
    is_parked: bool = False
    """True while it is out of tries and waits until another record is handled."""
    at: int = 0
    of: int = 0
    passed: int = 0
    is_after_answer: bool = False
    signs: int = 0
    probes: int = 0
    dependency_at: int = 0

    def signs_at(self, count: int) -> int:
        """How many signs there are against it when `Answers` has this count."""
        return self.signs + (self.is_after_answer and count > self.at)


class HeldRecords(Generic[T]):
    """The failed records of a partition by offset. Cost of a change: the logarithm of how many there are.

    Those that wait for the same thing are tried in turns: the one whose last try is the longest ago comes first.
    """

    __slots__ = ("_by_offset", "_due", "_parked", "_probes", "_turn", "_waiting")

    def __init__(self) -> None:
        self._by_offset: dict[int, HeldRecord[T]] = {}
        self._due: list[tuple[int, int]] = []
        self._waiting: dict[str, deque[HeldRecord[T]]] = {}
        # Out of tries, in the order of their last failures; and by when each may be tried again.
        self._parked: deque[HeldRecord[T]] = deque()
        self._probes: list[tuple[int, int, HeldRecord[T]]] = []
        self._turn = 0

    def __len__(self) -> int:
        return len(self._by_offset)

    def __iter__(self) -> Iterator[HeldRecord[T]]:
        """All, in the order of their offsets."""
        return (self._by_offset[offset] for offset in sorted(self._by_offset))

    def offsets(self) -> Iterator[int]:
        """Theirs, in any order."""
        return iter(self._by_offset)

    @property
    def parked(self) -> int:
        """How many are out of tries and wait until another record is handled. Cost: one step for each record."""
        return sum(held.is_parked for held in self._by_offset.values())

    def get(self, offset: int) -> HeldRecord[T] | None:
        """The failed record at an offset."""
        return self._by_offset.get(offset)

    def hold_until(self, held: HeldRecord[T], due_ms: int) -> None:
        """Try it again from `due_ms` on."""
        self._keep(held)
        heappush(self._due, (due_ms, held.offset))

    def hold_for(self, held: HeldRecord[T], dependency: str) -> None:
        """Try it again when the dependency is up, or as the one that finds out."""
        self._keep(held)
        held.dependency = dependency
        self._waiting.setdefault(dependency, deque()).append(held)

    def park(self, held: HeldRecord[T], due_ms: int) -> None:
        """It is out of tries: keep it until another record is handled, or try it from `due_ms` on, in turns."""
        self._keep(held)
        held.is_parked = True
        self._turn += 1
        self._parked.append(held)
        heappush(self._probes, (due_ms, self._turn, held))

    def drop(self, offset: int) -> None:
        """The record is done or rejected."""
        held = self._by_offset.pop(offset, None)
        if held is not None:
            held.is_out = True

    def unpark(self, count: int) -> HeldRecord[T] | None:
        """A record that is out of tries and failed before `Answers` had this count; None for none."""
        while self._parked and (not self._is_waiting(self._parked[0]) or self._parked[0].at < count):
            held = self._parked.popleft()
            if self._is_waiting(held):
                held.is_parked = False
                return held
        return None

    def take(self, now_ms: int, dependencies: Dependencies, answers: Answers) -> HeldRecord[T] | None:
        """A record whose time or turn has come; None for none."""
        while self._due and self._due[0][0] <= now_ms:
            held = self._by_offset.get(heappop(self._due)[1])
            if held is not None and not (held.is_out or held.is_parked) and held.dependency is None:
                held.is_out = True
                return held
        self._forget_probes()
        if self._probes and self._probes[0][0] <= now_ms and answers.may_probe(now_ms):
            held = heappop(self._probes)[2]
            held.is_parked, held.is_out = False, True
            return held
        for name, turns in list(self._waiting.items()):
            while turns and (turns[0].is_out or turns[0].dependency != name):
                turns.popleft()
            if not turns:
                del self._waiting[name]
            elif dependencies.may_probe(name, now_ms):
                held = turns.popleft()
                dependencies.probing(name)
                held.is_out = True
                return held
        return None

    def next_due_ms(self, dependencies: Dependencies, answers: Answers) -> int | None:
        """When `take` may give out a record; None while nothing waits. It may be too early, never too late."""
        times = [self._due[0][0]] if self._due else []
        times += [dependencies.next_probe_ms(name) for name, turns in self._waiting.items() if turns]
        self._forget_probes()
        if self._probes:
            times.append(max(self._probes[0][0], answers.next_probe_ms()))
            if self._parked[0].at < answers.count:
                times.append(0)
        return min(times, default=None)

    def _keep(self, held: HeldRecord[T]) -> None:
        held.is_out, held.is_parked, held.dependency = False, False, None
        self._by_offset[held.offset] = held

    def _forget_probes(self) -> None:
        while self._probes and not self._is_waiting(self._probes[0][2]):
            heappop(self._probes)

    def _is_waiting(self, held: HeldRecord[T]) -> bool:
        """True for a record that is out of tries and was not taken since; each failure makes a new `HeldRecord`."""
        return held.is_parked and not held.is_out


@dataclass(slots=True, kw_only=True)
class Walk(Generic[T]):
    """The tries of records behind one that is out of tries, one after another and each right after the one before it.

    `passed` have failed in this walk, each out of tries but for the last one.
    """

    front: HeldRecord[T]
    passed: list[HeldRecord[T]] = field(default_factory=list)


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

    def offsets(self) -> Iterator[int]:
        """Theirs, in any order."""
        return iter(self._by_offset)

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
    """`held` wait to be tried again, `rejected` to be durable elsewhere. Dependencies and answers are the consumer's.

    `behind` failed in walks, and stand in their order behind one that is held. `had_sign` tells of an offset whether
    there was a sign against it by the restored commit.
    """

    def __init__(
        self,
        rules: WorkRules,
        dependencies: Dependencies,
        answers: Answers,
        counts: WorkCounts,
        had_sign: Callable[[int], bool],
    ) -> None:
        self.held: HeldRecords[T] = HeldRecords()
        self.behind: dict[int, HeldRecord[T]] = {}
        self.rejected: Rejections[T] = Rejections()
        self._rules, self._dependencies, self._answers, self._counts = rules, dependencies, answers, counts
        self._had_sign = had_sign

    def take(self, now_ms: int) -> HeldRecord[T] | None:
        """A record whose time has come."""
        held = self.held.take(now_ms, self._dependencies, self._answers)
        if held is not None:
            self._counts.retries += 1
            if self.is_out_of_tries(held.tries) and held.at == self._answers.count:
                self._answers.probing(now_ms)
        return held

    def is_due(self, now_ms: int) -> bool:
        """True when `take` or `reject_hopeless` may give out a record."""
        due_ms = self.held.next_due_ms(self._dependencies, self._answers)
        return due_ms is not None and due_ms <= now_ms

    def is_out_of_tries(self, tries: int) -> bool:
        """True for a record that is not tried for its own sake any more."""
        return 0 < self._rules.retry.max_tries <= tries

    def succeeded(self, offset: int, dependency: str | None) -> int:
        """A record that was tried again is done; how many signs there were against it."""
        held = self.held.get(offset)
        signs = 0 if held is None else held.signs_at(self._answers.count)
        self.held.drop(offset)
        if dependency is not None:
            self._dependencies.answered(dependency)
        return signs

    def failed(self, offset: int, record: T, tries: int, failure: Failure, dependency: str | None, now_ms: int) -> None:
        """A record failed after `tries` earlier ones; `dependency` is what it had waited for."""
        if failure.ending is FailureEnding.WAIT:
            self._answered_otherwise(dependency, now_ms)
            held = self.held.get(offset)
            if held is None:
                held = HeldRecord(offset=offset, record=record, tries=tries, failure=failure)
                held.signs = int(self._had_sign(offset))
            self.held.hold_until(held, now_ms + (failure.after_ms or 0))
            return
        self._counts.failures += 1
        if failure.ending is FailureEnding.REJECT:
            self._answered_otherwise(dependency, now_ms)
            self.reject(offset, record, RejectReason.HANDLER, tries + 1, failure)
            return
        held = self._after_failure(HeldRecord(offset=offset, record=record, tries=tries, failure=failure))
        if failure.ending is FailureEnding.DEFER:
            self._defer(held, failure.dependency, dependency, now_ms)
            return
        self._answered_otherwise(dependency, now_ms)
        held.tries += 1
        if self.is_out_of_tries(held.tries):
            if self._answers.is_alone(held.signs, held.passed, held.probes):
                self.reject(offset, record, RejectReason.MAX_TRIES, held.tries, failure)
            else:
                self.park(held, now_ms)
            return
        delay = self._rules.retry.delay_ms(held.tries) if failure.after_ms is None else failure.after_ms
        self.held.hold_until(held, now_ms + delay)

    def park(self, held: HeldRecord[T], now_ms: int, deepest: HeldRecord[T] | None = None) -> None:
        """Keep a record that is out of tries until another one is handled, and try it again after a growing wait.

        The wait is that of the `deepest` record of its walk while this one has tries left.
        """
        waits = held.probes + 1
        if deepest is not None and not self.is_out_of_tries(deepest.tries):
            waits = min(waits, deepest.tries)
        self.held.park(held, now_ms + max(self._rules.retry.delay_ms(waits), held.failure.after_ms or 0))

    def may_be_passed(self, held: HeldRecord[T]) -> bool:
        """True when those behind a record that just failed may be tried: one more sign would be enough.

        While nothing is handled, only tries in turns are followed by others: else an outage that ends between the two
        would make dead letters of all records that are tried at that moment.
        """
        return held.probes > 0 or held.signs + held.is_after_answer >= self._answers.needed()

    def passed(self, walk: Walk[T]) -> None:
        """A walk handled a record: those that it passed are rejected."""
        for held in (walk.front, *walk.passed):
            self.behind.pop(held.offset, None)
            self.reject(held.offset, held.record, RejectReason.MAX_TRIES, held.tries, held.failure)

    def failed_behind(self, walk: Walk[T], offset: int, record: T, tries: int, failure: Failure) -> bool:
        """A record behind others failed in a walk; True when it is out of tries as well, so that the walk goes on."""
        self._counts.failures += 1
        if failure.ending is FailureEnding.REJECT:
            self.behind.pop(offset, None)
            self.reject(offset, record, RejectReason.HANDLER, tries + 1, failure)
            return False
        held = self._after_failure(HeldRecord(offset=offset, record=record, tries=tries, failure=failure))
        held.tries += failure.ending is FailureEnding.RETRY
        self.behind[offset] = held
        walk.passed.append(held)
        return self.is_out_of_tries(held.tries)

    def reject_hopeless(self, now_ms: int) -> T | None:
        """Decide about those out of tries that failed before the last record was handled; one that is rejected now.

        The others are tried again, at once with one sign or none: that may have been an outage.
        """
        while (held := self.held.unpark(self._answers.count)) is not None:
            signs = held.signs_at(self._answers.count)
            if signs >= self._answers.needed():
                self.reject(held.offset, held.record, RejectReason.MAX_TRIES, held.tries, held.failure)
                return held.record
            self.held.hold_until(held, now_ms + self._rules.retry.delay_ms(signs - 1))
        return None

    def not_tried(self, offset: int, now_ms: int) -> None:
        """A record that was to be tried again was not: it waits as before."""
        held = self.held.get(offset)
        if held is not None and held.dependency is not None:
            self._dependencies.given_up(held.dependency)
            self.held.hold_for(held, held.dependency)
        elif held is not None:
            self.held.hold_until(held, now_ms)

    def move_at(self, offset: int) -> T | None:
        """Reject the record at an offset that waits after a try, if a token pays for it; None where it was not."""
        held = self.held.get(offset)
        if held is None or held.is_out or held.tries < 1 or not held.signs_at(self._answers.count):
            return None
        if not self._answers.take_token():
            return None
        self.reject(held.offset, held.record, RejectReason.HEAD_OF_LINE, held.tries, held.failure)
        return held.record

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

    def offsets(self) -> Iterator[int]:
        """All that failed here and are not done, in any order."""
        return chain(self.held.offsets(), self.behind, self.rejected.offsets())

    def marks(self, base: int) -> Iterator[Mark]:
        """What a commit says of them: RETRYING are those that there is a sign against, also for the next owner."""
        for held in chain(self.held, self.behind.values()):
            is_retrying = held.dependency is None and held.tries and held.signs_at(self._answers.count)
            state = MarkState.RETRYING if is_retrying else MarkState.DEFERRED
            yield Mark(start=held.offset, end=held.offset + 1, state=state, count=held.tries)
        yield from self.rejected.marks(base)

    def _after_failure(self, held: HeldRecord[T]) -> HeldRecord[T]:
        """The record with what its failures before this one tell."""
        answers, before = self._answers, self.held.get(held.offset) or self.behind.pop(held.offset, None)
        held.at, held.of = answers.count, answers.handled
        is_new = before is None or before.failure.ending is FailureEnding.WAIT
        is_first = before is None or is_new or answers.count > before.at
        if before is None or is_new:
            held.signs = int(self._had_sign(held.offset)) if before is None else before.signs
            held.is_after_answer = answers.count > answers.at_failure
        elif is_first:
            held.signs, held.is_after_answer = before.signs_at(answers.count), True
            held.passed = answers.handled - before.of
        else:
            held.signs, held.is_after_answer, held.passed = before.signs, before.is_after_answer, before.passed
            held.probes = before.probes + self.is_out_of_tries(before.tries)
        if before is not None:
            held.dependency_at = before.dependency_at
        if is_first and not held.signs:
            answers.failing(held.passed)
        answers.at_failure = answers.count
        return held

    def _defer(self, held: HeldRecord[T], name: str, dependency: str | None, now_ms: int) -> None:
        """It waits for a dependency; a record that finds it down while it answers others loses a try."""
        self._counts.deferred += 1
        answered = self._dependencies.answers(name)
        if dependency == name and answered > held.dependency_at:
            held.tries += 1
        held.dependency_at = answered
        self._dependencies.failed(name, now_ms, was_probe=dependency == name)
        if dependency != name:
            self._answered_otherwise(dependency, now_ms)
        if self.is_out_of_tries(held.tries) and dependency == name:
            self.park(held, now_ms)
            return
        self.held.hold_for(held, name)

    def _answered_otherwise(self, dependency: str | None, now_ms: int) -> None:
        """The record that was to find out whether a dependency is up failed for another reason: still unknown."""
        if dependency is not None:
            self._dependencies.failed(dependency, now_ms, was_probe=True)
