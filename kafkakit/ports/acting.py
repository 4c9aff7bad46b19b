"""What acting modules are handed: time, and a reporter of lines, warnings and progress."""

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """The current UTC time, timezone-aware."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; raises whatever a signal handler raises."""
        ...


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
