"""The signals that stop a command, as exceptions."""

import signal
from types import FrameType
from typing import Any

from kafkakit.core.errors import (
    DeadlineReached,
    InterruptedRunError,
    KafkakitError,
    StopRequested,
    TerminationRequested,
)


class StopSignals:
    """Turns SIGTERM, SIGHUP and the time limit into exceptions, once, so that `finally` blocks run undisturbed."""

    def __init__(self) -> None:
        self.received: StopRequested | None = None
        self._earlier: dict[int, Any] = {}

    def install(self) -> None:
        """Take over the signals that the caller of the program did not ignore."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            try:
                # nohup ignores SIGHUP on purpose.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._earlier[number] = signal.signal(number, self._raise)
            except ValueError:  # not the main thread, as in some tests
                return

    def start_timer(self, seconds: float) -> None:
        """Raise `DeadlineReached` so long from now."""
        if signal.SIGALRM in self._earlier:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def restore(self) -> None:
        """Give the signals back to their earlier handlers."""
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        if self._earlier:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def code_for(self, error: KafkakitError) -> int:
        """The error's code; a run that was stopped reports the stop that arrived, not always Ctrl-C."""
        if isinstance(error, InterruptedRunError) and self.received is not None:
            return int(self.received.exit_code)
        return int(error.exit_code)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            return
        self.received = DeadlineReached() if number == signal.SIGALRM else TerminationRequested()
        raise self.received
