"""What came of a request to a run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """What came of a request: a line for people, the run that took it (empty: none is active), the next commands."""

    words: str
    run: str = ""
    next_commands: tuple[str, ...] = ()
