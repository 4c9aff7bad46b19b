"""The watch over a search: what is informed of how it goes, may end it early, and holds the budget of its work.

A command has one budget. Whatever searches asks for work before a solver's call and says what it used, so what is asked
first gets it first: a plan, its proof, then hints and other bands. The budget is of work and not of time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkakit.placement.by_size.attempt import Attempt


STOPPED_BEFORE = "interrupted before a plan was found; nothing was written"


class SearchWatch(Protocol):
    """What is informed of how the search goes, and may end it early."""

    def phase(self, text: str) -> None:
        """Say what is done now."""
        ...

    def stopped(self) -> bool:
        """True when the search should end with what it has."""
        ...

    def solving(self, end: Callable[[], None] | None) -> None:
        """Hear how to end the solver's call that begins now, from any thread and more than once; None: it is over."""
        ...

    def tried(self, max_deviation: int, found: "Attempt") -> None:
        """Hear of a plan that was made for this deviation, whether it is used or not."""
        ...

    def grant(self, wanted: float) -> float:
        """How much of the wanted work there is; 0: none."""
        ...

    def spend(self, used: float) -> None:
        """Take off work that was done."""
        ...


class SilentWatch:
    """A watch that shows nothing and stops nothing."""

    def phase(self, text: str) -> None:
        """Say nothing."""

    def stopped(self) -> bool:
        """Never."""
        return False

    def solving(self, end: Callable[[], None] | None) -> None:
        """Let it run."""

    def tried(self, max_deviation: int, found: "Attempt") -> None:
        """Forget it."""

    def grant(self, wanted: float) -> float:
        """All of it."""
        return wanted

    def spend(self, used: float) -> None:
        """Forget it."""


UNWATCHED = SilentWatch()

COMMAND_WORK = 1.5
"""What the searches of one command may do, in CP-SAT's deterministic time: two to three seconds of a processor."""
_LEAST = 0.01  # less is not worth a solver's call


class PassingWatch:
    """A watch that passes everything on, for those that do one thing beside."""

    def __init__(self, watch: SearchWatch) -> None:
        self._watch = watch

    def phase(self, text: str) -> None:
        self._watch.phase(text)

    def stopped(self) -> bool:
        return self._watch.stopped()

    def solving(self, end: Callable[[], None] | None) -> None:
        self._watch.solving(end)

    def tried(self, max_deviation: int, found: "Attempt") -> None:
        self._watch.tried(max_deviation, found)

    def grant(self, wanted: float) -> float:
        return self._watch.grant(wanted)

    def spend(self, used: float) -> None:
        self._watch.spend(used)


class BudgetedWatch(PassingWatch):
    """A watch with a budget of work."""

    def __init__(self, watch: SearchWatch, work: float = COMMAND_WORK) -> None:
        super().__init__(watch)
        self.left = work

    def grant(self, wanted: float) -> float:
        """No more than is left, here and in the budget that this one is part of."""
        most = min(wanted, self.left)
        return self._watch.grant(most) if most >= _LEAST else 0.0

    def spend(self, used: float) -> None:
        """Take it off, here and in the budget that this one is part of."""
        self.left -= used
        self._watch.spend(used)

    def part(self, of: int) -> "BudgetedWatch":
        """A watch with one of so many equal parts of what is left."""
        return BudgetedWatch(self, max(0.0, self.left) / max(1, of))


def with_budget(watch: SearchWatch) -> BudgetedWatch:
    """The watch with a command's budget of work; one that has a budget keeps it."""
    return watch if isinstance(watch, BudgetedWatch) else BudgetedWatch(watch)
