"""Records whose handling failed: what an application chooses for them, and what each of them waits for.

Handlers raise the errors that stand here. An application chooses order, retries, limits and when a failing record may
be moved away; moves take tokens, by the rate of failures. A failed record of a partition waits for a time or for a
dependency that is down, or is rejected: its offset is done only when it is durable elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from typing import Generic, TypeVar

from kafkakit.core.errors import UsageError
from kafkakit.streams.model.commit import Mark, MarkState

T = TypeVar("T")
MAX_TEXT = 500


class RetryLaterError(Exception):
    """Raised by a handler: try this record again, after `after_s` seconds where given; costs a try."""

    def __init__(self, reason: str = "", *, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


class RejectError(Exception):
    """Raised by a handler: this record can never be handled; it goes to the dead-letter lane."""


class DependencyDownError(Exception):
    """Raised by a handler: `dependency` does not answer.

    The record waits, without costing a try, with all others that wait for the same dependency; one of them is tried
    from time to time, and all are when that one succeeds.
    """

    def __init__(self, dependency: str, reason: str = "") -> None:
        super().__init__(reason or f"{dependency} is down")
        self.dependency = dependency


class Ending(StrEnum):
    """What a failure asks for."""

    RETRY = "retry"
    REJECT = "reject"
    DEFER = "defer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One try that failed. `after_ms` replaces the rule's wait; `dependency` is for DEFER."""

    ending: Ending
    error: str = ""
    text: str = ""
    after_ms: int | None = None
    dependency: str = ""


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


def failure_of(error: BaseException) -> Failure:
    """What an error of a handler means; any but the three errors of this module is a retry."""
    name = type(error).__name__
    try:
        text = str(error)[:MAX_TEXT]
    except Exception:
        text = ""  # an error whose text cannot be made is still a failed try
    if isinstance(error, RejectError):
        return Failure(ending=Ending.REJECT, error=name, text=text)
    if isinstance(error, DependencyDownError):
        return Failure(ending=Ending.DEFER, error=name, text=text, dependency=error.dependency)
    after_ms = None
    if isinstance(error, RetryLaterError) and error.after_s is not None:
        after_ms = max(0, round(error.after_s * 1000))
    return Failure(ending=Ending.RETRY, error=name, text=text, after_ms=after_ms)


class Mode(StrEnum):
    """Which records of a partition may be handled at the same time.

    UNORDERED: any. KEY: those of different keys; records without a key have no order. PARTITION: one after another. A
    record that fails holds up the later ones of its key, or of its partition, until it is done or rejected.
    """

    UNORDERED = "unordered"
    KEY = "key"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """When a record that failed is tried again: after `first_ms`, then `factor` times later each time up to `max_ms`.

    After `max_tries` tries it is rejected (0: never), if the `MoveRule` allows it.
    """

    first_ms: int = 1_000
    factor: float = 2.0
    max_ms: int = 60_000
    max_tries: int = 5

    def __post_init__(self) -> None:
        if not (0 <= self.first_ms <= self.max_ms and self.factor >= 1 and self.max_tries >= 0):
            raise UsageError(
                f"{self} is not a valid retry policy", hint="0 <= first_ms <= max_ms, factor >= 1, max_tries >= 0"
            )

    def delay_ms(self, tries: int) -> int:
        """The wait after so many tries. The exponent is bounded, so that no count overflows."""
        return min(self.max_ms, round(self.first_ms * self.factor ** min(tries - 1, 64))) if tries > 0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRule:
    """When a record that keeps failing may leave its partition without having been handled.

    Each move costs a token, and `acks_per_move` records done earn one, so that an outage, in which none is done, moves
    none: 50, or 2 where a lane of its own handles what is moved. A consumer holds `first_tokens` at first and
    `max_tokens` at most, for all its partitions: one that only fails is told from an outage by the others. While
    `outage_share` or more of the latest tries failed, records wait instead. A record that has tries left is moved only
    where the partition is at `nearly_full` of a limit and `acked_share` of what lies between its oldest and its newest
    record is done: then this record alone holds the partition up.
    """

    acks_per_move: int = 50
    first_tokens: float = 1.0
    max_tokens: float = 200.0
    outage_share: float = 0.5
    nearly_full: float = 0.9
    acked_share: float = 0.98

    def __post_init__(self) -> None:
        shares = (self.outage_share, self.nearly_full, self.acked_share)
        if self.acks_per_move < 1 or min(self.first_tokens, self.max_tokens) < 0 or not all(0 < s <= 1 for s in shares):
            raise UsageError(
                f"{self} is not a valid move policy", hint="acks_per_move >= 1, tokens >= 0, shares in (0, 1]"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimits:
    """How much of one partition is held at a time; a partition at a limit is not fetched.

    `records` and `size_bytes` are read and not done. `span` are the offsets from the oldest record that is not done to
    the newest one: at most so many are read again after a restart.
    """

    records: int = 5_000
    size_bytes: int = 16 << 20
    span: int = 500_000

    def __post_init__(self) -> None:
        if min(self.records, self.size_bytes, self.span) < 1:
            raise UsageError(f"{self}: invalid limits", hint="each is 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRules:
    """All that decides about the work on a partition."""

    mode: Mode = Mode.KEY
    retry: RetryRule = RetryRule()
    moves: MoveRule = MoveRule()
    limits: WorkLimits = WorkLimits()


_MEMORY = 0.98
"""Weight of the past in the share of failures: about the latest 50 tries count."""

_NEVER_MS = 1 << 62


class MoveBudget:
    """What a consumer may move away; see `MoveRule`. A start counts as healthy."""

    __slots__ = ("_rule", "failed_share", "tokens")

    def __init__(self, rule: MoveRule) -> None:
        self._rule = rule
        self.tokens = min(rule.first_tokens, rule.max_tokens)
        self.failed_share = 0.0

    def succeeded(self, count: int) -> None:
        """Note tries that succeeded."""
        self.tokens = min(self._rule.max_tokens, self.tokens + count / self._rule.acks_per_move)
        self.failed_share *= _MEMORY**count

    def failed(self) -> None:
        """Note a try that failed."""
        self.failed_share = self.failed_share * _MEMORY + 1 - _MEMORY

    def take(self) -> bool:
        """Pay for one move; False where there is no token, or failures look like an outage."""
        if self.tokens < 1 or self.failed_share >= self._rule.outage_share:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class _Down:
    failures: int = 0
    probe_at_ms: int = 0
    is_probed: bool = False


@dataclass(slots=True)
class Dependencies:
    """Which dependencies are down, and when one record may try each again; for all partitions of a consumer.

    Waits grow as the rule says. Times are milliseconds of a clock that never goes back.
    """

    rule: RetryRule
    _down: dict[str, _Down] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """The dependencies that are down, sorted."""
        return tuple(sorted(self._down))

    def failed(self, name: str, now_ms: int, *, was_probe: bool) -> None:
        """A record found it down: the next try is later if it was the one that was to find out."""
        down = self._down.get(name)
        if down is None:
            self._down[name] = _Down(failures=1, probe_at_ms=now_ms + self.rule.delay_ms(1))
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
