"""How the handling of a record ended when it did not succeed: the errors that handlers raise, and what they mean."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

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
