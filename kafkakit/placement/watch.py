"""The watch over a search: what is informed of how it goes, and may end it early."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkakit.placement.by_size.attempt import Attempt


STOPPED_BEFORE = "interrupted before a plan was found; nothing was written"


class Watch(Protocol):
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


class Unwatched:
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


UNWATCHED = Unwatched()
