"""The signals that stop a command, as exceptions."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from kafkakit.core.errors import (
    DeadlineReached,
    ExitCode,
    InterruptedRunError,
    KafkakitError,
    StopRequested,
    TerminationRequested,
)

CUT_AFTER_S = 0.4
END_AFTER_S = 0.7
REPORT_S = 2.0
POLL_S = 0.05


class StopSignals:
    """Turns SIGTERM, SIGHUP and the time limit into exceptions, once, so that `finally` blocks run undisturbed.

    Only the time limit comes again, when a command is not done 0.4 s after it. In a program, which has begun at
    `started_s` of the monotonic clock, what then still waits is ended with the process 0.7 s after the limit, and a
    Ctrl-C after a first stop ends the process at once, wherever it is, with the `last_words`, unless why the command
    ends `is_said`, or being printed.
    """

    def __init__(self, started_s: float | None = None) -> None:
        self.received: StopRequested | None = None
        self.code: int | None = None
        self.last_words: Callable[[], str] = str
        self.is_said = self._is_waived = False
        self._earlier: dict[int, Any] = {}
        self._started_s = time.monotonic() if started_s is None else started_s
        self._is_program, self._is_cut, self._was_interrupted = started_s is not None, False, False
        self._is_over = False

    def install(self) -> None:
        """Take over the signals that the caller of the program did not ignore."""
        handlers = dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGALRM), self._raise)
        for number, handler in {**handlers, signal.SIGINT: self._interrupt}.items():
            try:
                # nohup ignores SIGHUP on purpose.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._earlier[number] = signal.signal(number, handler)
            except ValueError:  # not the main thread, as in some tests
                return

    def start_timer(self, seconds: float, report: Callable[[BaseException], int]) -> None:
        """Raise `DeadlineReached` so long after the program began; `report` prints why it ended and gives the code."""
        if signal.SIGALRM in self._earlier:
            left_s = max(0.001, self._started_s + seconds - time.monotonic())
            signal.setitimer(signal.ITIMER_REAL, left_s, CUT_AFTER_S)
            if self._is_program:
                ending = threading.Timer(left_s + END_AFTER_S, self._end_process, (report,))
                ending.daemon = True
                ending.start()

    def restore(self) -> None:
        """Give the signals back to their earlier handlers."""
        self._is_over = True
        for number, handler in self._earlier.items():
            if number != signal.SIGINT or not self._is_program:  # Ctrl-C while Python ends prints a traceback
                signal.signal(number, handler)
        if self._earlier:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def code_for(self, error: KafkakitError) -> int:
        """The error's code; a run that was stopped reports the stop that arrived, not always Ctrl-C."""
        if isinstance(error, InterruptedRunError) and self.received is not None:
            return int(self.received.exit_code)
        return int(error.exit_code)

    def _end_process(self, report: Callable[[BaseException], int]) -> None:
        """End what does not end by itself, with the words of the error that is on its way through the main thread.

        Does nothing for a command that was done in time, though it may have been stopped otherwise. Where the main
        thread could not take the signal of the time limit yet, it gets its time once it has.
        """
        is_late = False
        while self.received is None and self.code is None and not (self._was_interrupted or self._is_over):
            is_late = True
            time.sleep(POLL_S)
        if is_late:
            time.sleep(END_AFTER_S)
        if not isinstance(self.received, DeadlineReached):
            return
        if self.code is None:
            found: BaseException | None = _error_of_main_thread()
            while found is not None and not isinstance(found, KafkakitError):
                found = found.__context__
            # Not here: the main thread may hold the stream, and wait for its reader.
            said = threading.Thread(target=report, args=(found or self.received,), daemon=True)
            said.start()
            said.join(REPORT_S)
        os._exit(int(self.received.exit_code) if self.code is None else self.code)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        is_first = not self._was_interrupted and self.received is None
        self._was_interrupted = True
        if not self._is_program or (is_first and not self.is_said):
            raise KeyboardInterrupt
        if self.is_said and self.code is None and not self._is_waived:
            self._is_waived = True  # the words are being printed; only where that hangs is there a next time
            return
        self._leave()

    def _leave(self) -> None:
        """End the process at once; what is on the cluster stays as after a kill, and the journal knows it."""
        if not self.is_said:
            os.write(2, self.last_words().encode(errors="backslashreplace"))
        code = ExitCode.INTERRUPTED if self.received is None else self.received.exit_code
        os._exit(int(code) if self.code is None else self.code)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        if self._was_interrupted and self._is_program and number != signal.SIGALRM:
            self._leave()
        if self.received is None:
            self.received = DeadlineReached() if number == signal.SIGALRM else TerminationRequested()
        elif self._is_cut or number != signal.SIGALRM or not isinstance(self.received, DeadlineReached):
            return
        else:
            self._is_cut = True
        raise self.received


def _error_of_main_thread() -> BaseException | None:
    """The error that the main thread handles, in an `except` or `finally` block; Python 3.11 gives a triple."""
    found: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error: BaseException | None = found[1] if isinstance(found, tuple) else found
    return error
