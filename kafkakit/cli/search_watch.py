"""The operator's side of a long search: progress on stderr; Ctrl-C, SIGTERM and `--timeout` end it with a plan."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from kafkakit.core.errors import ExitCode, TerminationRequested
from kafkakit.placement.watch import Unwatched

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.output import Output
    from kafkakit.ports.acting import ProgressBar

GRACE_S = 0.3
"""How long the main thread may take to answer Ctrl-C; a solver that has it cannot."""
_AGAIN_S = 0.05  # how often a solver is told to end: one that has not begun yet does not listen


class PhaseWatch(Unwatched):
    """Shows the phases of a search beside a bar; the search runs to its end."""

    def __init__(self, bar: "ProgressBar") -> None:
        self._bar = bar

    def phase(self, text: str) -> None:
        """Show the phase that begins."""
        self._bar.update(0, 0, text)


_SEARCHING = 0.7  # the part of --timeout for searching; the rest is for the report and the files


class StoppableWatch(PhaseWatch):
    """Shows phases and handles Ctrl-C and SIGTERM: the first asks the search to stop, the second ends the program.

    A solver's call that runs then is ended.
    """

    def __init__(self, output: "Output", bar: "ProgressBar") -> None:
        super().__init__(bar)
        self._output = output
        self._phases = 0
        self._stopped = self._answered = self._printed = False
        self._end: Callable[[], None] | None = None
        self._over = threading.Event()

    def phase(self, text: str) -> None:
        """Show the phase beside the bar on a terminal, else on a line of its own."""
        self._phases += 1
        if self._output.animate:
            # How many phases there will be is unknown: the bar gets closer to its end and never reaches it.
            self._bar.update(self._phases, self._phases + 3, text)
        else:
            self._output.say(f"planning: {text}")

    def stopped(self) -> bool:
        """True after the first signal, or once most of the time is over."""
        if self._stopped:
            self.print_stop()
        return self._stopped

    def solving(self, end: Callable[[], None] | None) -> None:
        """Keep how to end the solver's call that begins; None: it is over."""
        self._end = end

    def stop(self) -> None:
        """Ask the search to stop and end the solver's call that runs, from any thread."""
        if not self._stopped:
            self._stopped = True
            threading.Thread(target=self._end_calls, daemon=True).start()

    def run_out(self) -> None:
        """Stop as most of the time is over; the next signal ends the program."""
        self._answered = True
        self.stop()

    def leave(self) -> None:
        """The search is over."""
        self._over.set()

    def _end_calls(self) -> None:
        while not self._over.wait(_AGAIN_S):
            if (end := self._end) is not None:
                end()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT or SIGTERM."""
        if self._answered:
            raise KeyboardInterrupt if number == signal.SIGINT else TerminationRequested
        self._answered = True
        self.stop()
        self.print_stop()

    def print_stop(self) -> None:
        """Print what Ctrl-C will do, once."""
        if self._printed:
            return
        # The signal may arrive while a phase is being written, and stderr cannot be entered twice: then print it later.
        with suppress(RuntimeError):
            self._output.say("stopping: the best plan found so far will be used; press Ctrl-C again to end at once")
            self._printed = True


@contextmanager
def showing_phases(output: "Output", label: str) -> Iterator[PhaseWatch]:
    """Watch a search that runs to its end; Ctrl-C ends the program at once."""
    with output.progress(label) as bar, answered_at_once(None):
        yield PhaseWatch(bar)


@contextmanager
def watching(cli: "CliContext") -> Iterator[StoppableWatch]:
    """Watch a search that may be stopped; signals have their earlier meaning again as soon as the search is over."""
    limit_s = cli.timeout_s
    with cli.output.progress("planning") as bar:
        watch = StoppableWatch(cli.output, bar)
        timer = threading.Timer(_SEARCHING * (limit_s or 0.0), watch.run_out)
        timer.daemon = True
        earlier = {number: _take_over(number, watch) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            if limit_s is not None:
                timer.start()
            with answered_at_once(watch):
                yield watch
        finally:
            timer.cancel()
            watch.leave()
            for number, handler in earlier.items():
                if handler is not None:
                    signal.signal(number, handler)


@contextmanager
def answered_at_once(watch: StoppableWatch | None) -> Iterator[None]:
    """Answer Ctrl-C and SIGTERM also while a solver has the main thread, where Python's handlers wait for its return.

    The first has `watch` stop the search; without a watch, the first ends the process, and with one the second,
    unless the main thread does so itself. Nothing is written while a plan is made, so nothing is left half done.
    """
    if (
        signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    left = threading.Event()
    listener = threading.Thread(target=_listen, args=(reading, left, watch), daemon=True)
    earlier = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(earlier)
        left.set()
        os.close(writing)
        listener.join()
        os.close(reading)


_ENDED = {
    int(signal.SIGINT): (b"error: interrupted\n", ExitCode.INTERRUPTED),
    int(signal.SIGTERM): (b"error: terminated\n", ExitCode.TERMINATED),
}


def _listen(reading: int, left: threading.Event, watch: StoppableWatch | None) -> None:
    """Take the numbers of signals from a pipe until it is closed."""
    presses = 0
    while number := os.read(reading, 1):
        if number[0] not in (signal.SIGINT, signal.SIGTERM):
            continue
        presses += 1
        if watch is not None:
            watch.stop()
        if left.wait(GRACE_S):
            return
        if watch is None or presses > 1:
            words, code = _ENDED[number[0]]
            with suppress(OSError):  # stderr may be closed; the signal ends the program in any case
                os.write(2, words)
            os._exit(int(code))
        watch.print_stop()


def _take_over(number: int, watch: StoppableWatch) -> Any:
    """Handle the signal and return its handler until now; None where it is ignored, or off the main thread."""
    if signal.getsignal(number) in (signal.SIG_IGN, None):
        return None
    try:
        return signal.signal(number, watch.interrupt)
    except ValueError:
        return None
