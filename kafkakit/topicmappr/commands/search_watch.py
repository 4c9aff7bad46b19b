"""The operator's side of a long search: progress on stderr, and Ctrl-C that asks for the best plan so far."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkakit.cli.output import Output
    from kafkakit.placement.bytes.attempt import Attempt
    from kafkakit.ports.reporter import ProgressBar


class Watcher:
    """Shows phases and hears Ctrl-C: the first asks the search to stop, the second ends the program at once."""

    def __init__(self, output: "Output", bar: "ProgressBar") -> None:
        self._output = output
        self._bar = bar
        self._phases = 0
        self._stopped = False
        self._told = False

    def phase(self, text: str) -> None:
        """Beside the bar on a terminal, else a line of its own."""
        self._phases += 1
        if self._output.animate:
            # Nobody knows how many phases there will be: the bar gets closer to its end, never there.
            self._bar.update(self._phases, self._phases + 3, text)
        else:
            self._output.say(f"planning: {text}")

    def stopped(self) -> bool:
        """True after the first Ctrl-C."""
        if self._stopped and not self._told:
            self._tell()
        return self._stopped

    def tried(self, tightness: int, found: "Attempt") -> None:
        """Nothing to show: the phases tell enough."""

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT."""
        if self._stopped:
            raise KeyboardInterrupt
        self._stopped = True
        self._tell()

    def _tell(self) -> None:
        # The signal may arrive while a phase is being written, and stderr cannot be entered twice: then say it later.
        with suppress(RuntimeError):
            self._output.say("stopping: the best plan found so far will be used; press Ctrl-C again to end at once")
            self._told = True


@contextmanager
def watching(output: "Output") -> Iterator[Watcher]:
    """Watch over a search; Ctrl-C means what it did before as soon as the search is over."""
    with output.progress("planning") as bar:
        watcher = Watcher(output, bar)
        earlier = _take_over(watcher)
        try:
            yield watcher
        finally:
            if earlier is not None:
                signal.signal(signal.SIGINT, earlier)


def _take_over(watcher: Watcher) -> Any:
    """Handle SIGINT; None where that is somebody else's: a shell that ignores it for a job, a thread."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return None
    try:
        return signal.signal(signal.SIGINT, watcher.interrupt)
    except ValueError:  # not the main thread
        return None
