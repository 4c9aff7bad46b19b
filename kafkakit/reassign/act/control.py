"""Telling a run to pause, to go on, or to end."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.durations import format_duration
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError
from kafkakit.execution.act.control_requests import Wishes
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.journal_state import RunState
from kafkakit.execution.decide.outcome import Request
from kafkakit.execution.decide.precheck import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of it: a line for people, which run was told (empty: none is at work), commands to go on with."""

    words: str
    run: str = ""
    next_commands: tuple[str, ...] = ()


def ask(
    wishes: Wishes,
    token: int,
    by: str,
    holder: str,
    wait_s: float,
    *,
    paused: bool | None = None,
    abort: bool | None = None,
) -> Told:
    """Leave the wish for the run with that fencing token and wait for its answer.

    Raises `TryLaterError` when none comes in time, `OperationFailedError` when the run refuses.
    """
    version = wishes.ask(token, by, paused=paused, abort=abort)
    answer = wishes.wait_for_answer(token, version, wait_s)
    if answer is None:
        raise TryLaterError(
            f"the run did not answer within {format_duration(wait_s)}: {holder}",
            hint="the wish stays; it is taken up when the run looks again",
        )
    if answer.refused:
        raise OperationFailedError(f"the run refuses: {answer.refused}")
    if abort:
        return Told(words=f"told to end: {holder}", run=holder)
    if paused:
        return Told(words=f"paused: {holder}; what is in flight goes on", run=holder)
    return Told(words=f"goes on: {holder}", run=holder)


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


def note_pause(journal: RunJournal, request: Request, *, paused: bool) -> Told:
    """Mark an unfinished run as paused, or take the mark away, while no run is at work.

    Raises `RefusedError` when there is no such run.
    """
    state = journal.state
    commands = request.commands
    if not state.unsettled:
        raise RefusedError("no unfinished run of this plan was begun here", hint=f"begin one: {commands.line('apply')}")
    if state.paused != paused:
        journal.check(What.PAUSE if paused else What.CONTINUE, {"by": "no run at work"})
    if paused:
        words = "paused: no run is at work, and none goes on; what is on the cluster still moves"
        return Told(words=words, next_commands=(commands.line("continue"),))
    return Told(words="no longer paused; no run is at work", next_commands=(commands.line("resume", "--yes"),))
