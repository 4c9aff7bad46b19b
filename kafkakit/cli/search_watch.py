"""The operator's side of a long search: progress on stderr; Ctrl-C, SIGTERM and `--timeout` end it with a plan."""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from kafkakit.core.errors import ExitCode, InterruptedRunError, TerminatedRunError, TerminationRequested, TryLaterError
from kafkakit.placement.watch import STOPPED_BEFORE, SilentWatch

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.output import Output
    from kafkakit.ports.acting import ProgressBar

GRACE_S = 0.3
"""How long the main thread may take to answer Ctrl-C; a solver that has it cannot."""
WITHIN_S = 1.4
"""How long after the first signal a command may take to end with the best plan so far; then it ends without."""
_AGAIN_S = 0.05  # how often a solver is told to end: one that has not begun yet does not listen


class PhaseWatch(SilentWatch):
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

    def __init__(
        self,
        output: "Output",
        bar: "ProgressBar",
        end_later: Callable[[float, int], None] = lambda seconds, number: None,
    ) -> None:
        super().__init__(bar)
        self._output, self._end_later = output, end_later
        self._number: int | None = None
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
        self._answered, self._number = True, number
        self.stop()
        self.print_stop()
        self._end_later(WITHIN_S, number)

    def error(self, stopped: InterruptedRunError) -> Exception:
        """What ends a command that has no plan so far: the signal's, or that of the time limit."""
        if self._number == signal.SIGTERM:
            return TerminatedRunError(stopped.message.replace("interrupted", "terminated", 1))
        if self._number is None and self._answered:
            return TryLaterError(stopped.message.replace("interrupted", "stopped by --timeout", 1))
        return stopped

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
def watch_search(cli: "CliContext") -> Iterator[StoppableWatch]:
    """Watch a search that may be stopped; signals have their earlier meaning again as soon as the search is over."""
    limit_s = cli.timeout_s
    with cli.output.progress("planning") as bar:
        watch = StoppableWatch(cli.output, bar, cli.end_later)
        # What has passed of the time, for reading the cluster, is not there for the search.
        spent_s = 0.0 if limit_s is None else cli.spent_s()
        timer = threading.Timer(max(0.0, _SEARCHING * (limit_s or 0.0) - spent_s), watch.run_out)
        timer.daemon = True
        earlier = {number: _take_over(number, watch) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            if limit_s is not None:
                timer.start()
            with answered_at_once(watch):
                yield watch
        except InterruptedRunError as error:
            raise watch.error(error) from None
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
    from kafkakit.placement.network import solving_apart

    if (
        all(signal.getsignal(number) in (signal.SIG_IGN, None) for number in _ENDED)
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
        with solving_apart(partial(_solved_apart, ended=(lambda: False) if watch is None else watch.stopped)):
            yield
    finally:
        signal.set_wakeup_fd(earlier)
        left.set()
        os.close(writing)
        listener.join()
        os.close(reading)


def _solved_apart(work: Callable[[], bytes], ended: Callable[[], bool]) -> bytes:
    """What `work` gives, from a process of its own, which is killed if a signal arrives or the search has `ended`."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:  # no room for another process
        os.close(reading)
        os.close(writing)
        return work()
    if pid == 0:
        _work_apart(work, writing)
    os.close(writing)
    parts: list[bytes] = []
    try:
        while True:
            if select.select([reading], [], [], _AGAIN_S)[0]:
                parts.append(os.read(reading, 1 << 20))
                if not parts[-1]:
                    break
            elif ended():
                raise InterruptedRunError(STOPPED_BEFORE)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    found = b"".join(parts)
    if found[-1:] != _WHOLE:  # the process was killed by something else
        return work()
    return found[:-1]


_WHOLE = b"."
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def _work_apart(work: Callable[[], bytes], writing: int) -> None:
    """Be the process that computes: signals are for its parent, with which it dies."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with suppress(OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        rest = memoryview(work() + _WHOLE)
        while rest:
            rest = rest[os.write(writing, rest) :]
        code = 0
    finally:
        os._exit(code)


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
