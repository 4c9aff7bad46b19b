"""Looking again and again until nothing is under way; what is looked at continues without the watcher."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from kafkakit.core.errors import (
    InterruptedRunError,
    KafkakitError,
    StopRequested,
    TerminatedRunError,
    TerminationRequested,
    TryLaterError,
)
from kafkakit.execution.act.retrier import Retrier
from kafkakit.ports.clock import Clock

PATIENCE_S = 90.0


class WatchedView(Protocol):
    """What a look gives."""

    @property
    def is_idle(self) -> bool:
        """True once there is nothing left to watch."""
        ...


V = TypeVar("V", bound=WatchedView)


def watch_until_idle(
    look: Callable[[], V],
    look_again: Callable[[], V],
    clock: Clock,
    retrier: Retrier,
    *,
    what: str,
    interval_s: float,
    after_look: Callable[[V], None],
    show: Callable[[V], None],
    stopped: str,
    hint: str,
    count: int | None = None,
) -> V:
    """Look every `interval_s` until a view is idle, and `look_again` finds it so; returns the last one, not shown.

    With `count` it ends after so many looks. On Ctrl-C it raises `InterruptedRunError` with the words of `stopped`.
    """
    done = 0
    try:
        while True:
            view = retrier.call(what, look)
            after_look(view)
            if view.is_idle:
                view = retrier.call(what, look_again)
                after_look(view)
            done += 1
            if view.is_idle or done == count:
                return view
            show(view)
            clock.sleep(interval_s)
    except KeyboardInterrupt as stop:
        raise _stopped(stop, stopped, hint) from None


def _stopped(stop: KeyboardInterrupt, words: str, hint: str) -> KafkakitError:
    if isinstance(stop, TerminationRequested):
        return TerminatedRunError(f"terminated; {words}")
    if isinstance(stop, StopRequested):
        return TryLaterError(f"stopped at the time limit; {words}")
    return InterruptedRunError(f"interrupted; {words}", hint=hint)
