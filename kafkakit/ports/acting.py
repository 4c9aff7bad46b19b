"""What acting modules are handed: time with all ways to wait, and a reporter of lines, warnings and progress."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """What waiting needs: a `Clock`, or the module `time` for adapters and threads that no clock is handed to."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Wait; raises whatever a signal handler raises."""
        ...


class Clock(Timer, Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """The current UTC time, timezone-aware."""
        ...


def looks(timer: Timer, limit_s: float, every_s: float = 0.5) -> Iterator[bool]:
    """For each look at something that takes time: at once and then every `every_s`, whether it is the last one.

    There is one look at the least, and a last one after `limit_s`.
    """
    deadline_s = timer.monotonic() + limit_s
    while timer.monotonic() < deadline_s:
        yield False
        timer.sleep(every_s)
    yield True


def look_until(
    timer: Timer, limit_s: float, look: Callable[[], T], is_so: Callable[[T], bool], every_s: float = 0.5
) -> T:
    """Look at once and then every `every_s`: the first look of which `is_so` holds, or the last one."""
    for is_last in looks(timer, limit_s, every_s):
        found = look()
        if is_last or is_so(found):
            break
    return found


def wait_until(timer: Timer, limit_s: float, is_so: Callable[[], bool], every_s: float = 0.5) -> bool:
    """Look at once and then every `every_s` whether something is so; False when it is not after `limit_s`."""
    return look_until(timer, limit_s, is_so, bool, every_s)


def repeat_every(timer: Timer, every_s: float, limit_s: float = float("inf")) -> Iterator[None]:
    """For each turn of a loop: at once, and again `every_s` after the end of the turn before.

    The last turn is the one that ends when `limit_s` is over, or after it; there is one at the least.
    """
    end_s = timer.monotonic() + limit_s
    yield
    while (left_s := end_s - timer.monotonic()) > 0:
        timer.sleep(min(every_s, left_s))
        yield


def wait_without_limit(timer: Timer, every_s: float, find: Callable[[], T | None]) -> T:
    """Look at once and then every `every_s` until something is found, without a limit."""
    while (found := find()) is None:
        timer.sleep(every_s)
    return found


def pace(timer: Timer, items: Iterable[T], pause_s: float) -> Iterator[T]:
    """The items, with a pause between one and the next."""
    for number, item in enumerate(items):
        if number:
            timer.sleep(pause_s)
        yield item


def pause(timer: Timer, seconds: float) -> None:
    """Let time pass that nothing ends earlier: between two measurements, before a repetition, for a rate."""
    timer.sleep(seconds)


class Timetable:
    """The next time of each thing by its name, on the monotonic clock; what was never named is due. For one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_s: dict[str, float] = {}

    def is_due(self, what: str, every_s: float) -> bool:
        """True when the time has come; then it is due again `every_s` from now."""
        now_s = self._clock.monotonic()
        if now_s < self._due_s.get(what, now_s):
            return False
        self._due_s[what] = now_s + every_s
        return True

    def set_due(self, what: str, in_s: float) -> None:
        """Make it due so long from now, whatever was planned."""
        self._due_s[what] = self._clock.monotonic() + in_s

    def bring_forward(self, what: str, in_s: float) -> None:
        """Make it due so long from now at the latest."""
        self._due_s[what] = min(self._due_s.get(what, float("inf")), self._clock.monotonic() + in_s)


class ProgressBar(Protocol):
    """The state of one long phase."""

    def update(self, done: float, total: float, note: str = "") -> None:
        """Show `done` of `total` (any unit), with a few words beside it."""
        ...


class Screen(Protocol):
    """A display that is refreshed while its content changes."""

    def show(self, text: str, line: str) -> None:
        """Show `text` where it can replace what was shown before, else print `line`."""
        ...


class Reporter(Protocol):
    """Lines for people; every method may do nothing."""

    def say(self, line: str) -> None:
        """Print one line."""
        ...

    def warn(self, line: str) -> None:
        """Print one warning."""
        ...

    def progress(self, label: str) -> AbstractContextManager[ProgressBar]:
        """Show the progress of one phase while the context is open."""
        ...
