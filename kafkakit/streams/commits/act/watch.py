"""Looking at a group again and again, and showing what changed in between."""

from collections.abc import Callable

from kafkakit.core.errors import (
    InterruptedRunError,
    StopRequested,
    TerminatedRunError,
    TerminationRequested,
    TryLaterError,
)
from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter, Screen
from kafkakit.streams.commits.decide.group_look import GroupLook
from kafkakit.streams.commits.show.change_text import StateChange, change_line
from kafkakit.streams.commits.show.group_text import screen_text
from kafkakit.streams.model.commit import utc_text
from kafkakit.streams.model.dialects.dialect import CommitFacts


class Shown:
    """Looks on a terminal as a table in place, elsewhere as one line a change."""

    def __init__(self, screen: Screen, *, rows: int, in_place: bool) -> None:
        self._screen, self._rows, self._in_place = screen, rows, in_place

    def show(self, before: GroupLook | None, look: GroupLook) -> None:
        """Show a look, or what is different from the one before."""
        if self._in_place:
            self._screen.show(screen_text(look, rows=self._rows), "")
            return
        for change in changes_between(before, look):
            self._screen.show("", f"{utc_text(look.at_ms)} {change_line(change)}")


def changes_between(before: GroupLook | None, look: GroupLook) -> tuple[StateChange, ...]:
    """What changed, partition by partition; nothing before the first look."""
    if before is None:
        return ()
    old, new = _states(before), _states(look)
    changes = [
        StateChange(
            where=str(key), before=old[key].state if key in old else None, after=new[key].state if key in new else None
        )
        for key in sorted(old.keys() | new.keys())
    ]
    return tuple(change for change in changes if not change.is_empty)


def watch_group(
    look: Callable[[], GroupLook],
    clock: Clock,
    reporter: Reporter,
    shown: Shown,
    *,
    first: GroupLook,
    every_s: float,
    count: int,
) -> GroupLook:
    """Look every `every_s` seconds, `count` times or without end (0); returns the last look.

    A cluster that cannot be reached is waited for, and told once each time. Raises `InterruptedRunError` on Ctrl-C.
    """
    now, done, is_away = first, 1, False
    shown.show(None, now)
    try:
        while count == 0 or done < count:
            clock.sleep(every_s)
            try:
                before, now = now, look()
            except TryLaterError as error:
                if not is_away:
                    reporter.warn(f"{error.message}; the figures shown are of {utc_text(now.at_ms)}; trying again")
                is_away = True
                continue
            if is_away:
                reporter.warn("the cluster answers again")
            is_away = False
            shown.show(before, now)
            done += 1
    except KeyboardInterrupt as stop:
        if isinstance(stop, TerminationRequested):
            raise TerminatedRunError("terminated; nothing was changed") from None
        if isinstance(stop, StopRequested):
            raise TryLaterError("stopped at the time limit; nothing was changed") from None
        raise InterruptedRunError("interrupted; nothing was changed") from None
    return now


def _states(look: GroupLook) -> dict[TopicPartition, CommitFacts]:
    return {facts.key: facts for facts in look.commits if facts.key is not None}
