"""The machine's clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """`ports.Clock` over the system: wall time in UTC, monotonic seconds, real sleep."""

    def now(self) -> datetime:
        """The current UTC time."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)
    """Seconds that never go back, from an arbitrary start."""

    def sleep(self, seconds: float) -> None:
        """Wait; zero or less returns at once."""
        if seconds > 0:
            time.sleep(seconds)
