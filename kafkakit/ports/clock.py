"""Time as a port."""

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
