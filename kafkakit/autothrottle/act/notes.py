"""What happened in one tick, kept until its summary line."""

from collections.abc import Iterator
from contextlib import contextmanager


class Notes:
    """Implements `ports.Reporter`; only warnings are kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def clear(self) -> None:
        """Forget what was noted."""
        self.lines.clear()

    def say(self, line: str) -> None:
        """Ignore progress."""

    def warn(self, line: str) -> None:
        """Keep a warning."""
        self.lines.append(line)

    def update(self, done: float, total: float, note: str = "") -> None:
        """Ignore progress."""

    @contextmanager
    def progress(self, label: str) -> Iterator["Notes"]:
        """See `Reporter`."""
        del label
        yield self
