"""What an application chooses for the work on its records, and what its handlers raise."""

from dataclasses import dataclass
from enum import StrEnum
from struct import error as StructError  # noqa: N812

from kafkakit.core.errors import TryLaterError, UsageError

MAX_TEXT = 500
UNNAMED = "a dependency without a name"


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
        super().__init__(reason or f"{dependency or UNNAMED} is down")
        self.dependency = dependency


class DeserializationError(RejectError):
    """The bytes of a key or value can never be deserialized; the error of the deserializer is its cause."""


class NotYetError(Exception):
    """The time of a record of the lane `retry` has not come; it was not tried."""

    def __init__(self, after_ms: int) -> None:
        super().__init__(f"not before {after_ms} ms")
        self.after_ms = after_ms


class FailureEnding(StrEnum):
    """What a failure asks for; WAIT is none, since nothing was tried."""

    RETRY = "retry"
    REJECT = "reject"
    DEFER = "defer"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One try that failed. `after_ms` replaces the rule's wait, and is that of WAIT; `dependency` is for DEFER."""

    ending: FailureEnding
    error: str = ""
    text: str = ""
    after_ms: int | None = None
    dependency: str = ""


_DATA_ERRORS = (ValueError, EOFError, StructError)
_DATA_CLASSES = frozenset(
    {
        "confluent_kafka.serialization.SerializationError",
        "google.protobuf.message.DecodeError",
        "jsonschema.exceptions.ValidationError",
    }
)
_BUSY = frozenset({408, 425, 429})


def deserialization_failure(error: BaseException, part: str) -> BaseException:
    """What an error of a deserializer is for its record; `part` is `key` or `value`.

    An outage, of whatever the deserializer asks, is a `DependencyDownError`, wherever it is in the chain of causes. An
    error about the bytes, all of whose causes are such errors, is a `DeserializationError`. Every other error stays
    what it is, and the record is tried again as for any error of a handler.
    """
    chain = _chain_of(error)
    if isinstance(error, (RejectError, RetryLaterError, DependencyDownError)):
        return error
    text = f"{part}: {type(error).__name__}: {failure_of(error).text}"
    found: BaseException = error
    if any(map(_is_outage, chain)):
        found = DependencyDownError(f"{part} deserializer", text)
    elif all(isinstance(each, _DATA_ERRORS) or _names(each) & _DATA_CLASSES for each in chain):
        found = DeserializationError(text)
    if found is not error:
        found.__cause__ = error
    return found


def _chain_of(error: BaseException) -> list[BaseException]:
    """An error and what it was raised from, or while handling."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found:
        found.append(each)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return found


def _names(error: BaseException) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}


def _is_outage(error: BaseException) -> bool:
    """True for what no answer, or an answer of a server that cannot serve now, looks like; a 404 is not."""
    answers = error, getattr(error, "response", None)  # a SchemaRegistryError of confluent-kafka; httpx and requests
    for status in (getattr(answer, name, None) for answer in answers for name in ("http_status_code", "status_code")):
        if isinstance(status, int):
            return status >= 500 or status in _BUSY
    return isinstance(error, (OSError, TryLaterError)) or "httpx.TransportError" in _names(error)


def failure_of(error: BaseException) -> Failure:
    """What an error of a handler means; any but the errors of this module is a retry."""
    name = type(error).__name__
    try:
        text = str(error)[:MAX_TEXT]
    except Exception:
        text = ""  # an error whose text cannot be made is still a failed try
    if isinstance(error, RejectError):
        return Failure(ending=FailureEnding.REJECT, error=name, text=text)
    if isinstance(error, DependencyDownError):
        return Failure(ending=FailureEnding.DEFER, error=name, text=text, dependency=_dependency_of(error))
    if isinstance(error, NotYetError):
        return Failure(ending=FailureEnding.WAIT, error=name, text=text, after_ms=error.after_ms)
    after_ms = None
    if isinstance(error, RetryLaterError):
        after_ms = _wait_ms(error)
    return Failure(ending=FailureEnding.RETRY, error=name, text=text, after_ms=after_ms)


def _dependency_of(error: DependencyDownError) -> str:
    """What a handler gave may be anything, or missing in a class of its own."""
    try:
        return str(getattr(error, "dependency", "") or UNNAMED)[:MAX_TEXT]
    except Exception:
        return UNNAMED


def _wait_ms(error: RetryLaterError) -> int | None:
    """None, so that the rule's wait is used, for what is not a time."""
    try:
        return max(0, round(float(getattr(error, "after_s", None)) * 1000))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


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

    One that is out of tries leaves it when enough of its failures lie between records that were handled: two, or more
    where good records fail as well, so that one in a hundred of those is moved, up to three times `max_tries`. While
    none is handled, at most `probes_per_s` of those out of tries are tried again, for all partitions of a consumer.

    A record that has tries left is moved only from the committed offset, where the partition is at `nearly_full` of a
    limit, not for a backlog, and `acked_share` of what lies between there and its newest done record is done: then this
    record alone holds the partition up. Such a move costs a token, and `acks_per_move` records done earn one. A
    consumer holds `first_tokens` at first and `max_tokens` at most.
    """

    acks_per_move: int = 50
    first_tokens: float = 1.0
    max_tokens: float = 200.0
    nearly_full: float = 0.9
    acked_share: float = 0.98
    probes_per_s: float = 5.0

    def __post_init__(self) -> None:
        shares = (self.nearly_full, self.acked_share)
        counts = self.acks_per_move >= 1 and min(self.first_tokens, self.max_tokens) >= 0
        if not (counts and all(0 < s <= 1 for s in shares) and self.probes_per_s > 0):
            raise UsageError(
                f"{self} is not a valid move policy",
                hint="acks_per_move >= 1, tokens >= 0, shares in (0, 1], probes_per_s > 0",
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

    def longest_wait_ms(self, *, run: int, waiting: int, gap_ms: int = 0) -> int:
        """The most time until a record is handled or rejected while others can be handled, without that of handlers.

        `run` are the records in a row, of one key or partition, that can never be handled, and `waiting` all those that
        are held. Each of a run is tried for itself, and those before it again each time; no record needs more signs
        than three times `max_tries`. Without order, records out of tries wait for others that are handled, at most
        `gap_ms` apart.
        """
        retry, tries = self.retry, 3 * self.retry.max_tries
        own_ms = sum(retry.delay_ms(number) for number in range(1, tries + 2)) + 2 * tries * gap_ms
        probes = (waiting + run * (run + 1) / 2) * (tries + 1)
        return round(retry.max_ms + (run + 1) * own_ms + 1000 * probes / self.moves.probes_per_s)
