"""What came of a request to an active run, and which run is meant where no plan is named."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.execution.decide.journal_state import RunState
from kafkakit.execution.decide.precheck import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """What came of a request: a line for people, the run that took it (empty: none is active), the next commands."""

    words: str
    run: str = ""
    next_commands: tuple[str, ...] = ()


def plan_meant(states: Sequence[RunState], token: int | None) -> tuple[str | None, str]:
    """The plan file of the run with that fencing token, else of the only unfinished run; or None, and why."""
    unsettled = [s for s in states if s.unsettled]
    meant = [s for s in unsettled if token is not None and s.token == token] or unsettled
    paths = sorted({s.plan_path for s in meant})
    if not paths:
        return None, "no unfinished run was begun on this host"
    if len(paths) > 1:
        return None, f"{len(paths)} runs are unfinished: {listed(paths)}"
    if paths[0] in ("", "-"):
        return None, "the unfinished run's plan came from stdin, and its file is not known"
    return paths[0], ""
