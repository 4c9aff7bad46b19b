"""Runs by their journals: which one is meant where no plan file is named, and what it has in flight."""

from collections.abc import Sequence

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.journal_state import RunState
from kafkakit.execution.decide.precheck import Live

_OF_FINISHED = ("apply", "rollback", "verify")
"""What can be done with a run that is finished."""


def choose_run(states: Sequence[RunState], wanted: str, token: int | None, command: str) -> RunState:
    """The run whose id begins with `wanted`; without that the active run, by its token, else the only unfinished one.

    `command` is the command line up to the run, for the hints. Raises `UsageError` when no run, or several, are meant.
    """
    begun = sorted((s for s in states if s.runs or s.is_lost), key=lambda s: (str(s.began_at), s.run_id))
    unfinished = [s for s in begun if s.unsettled]
    if wanted:
        found = [s for s in begun if s.run_id.startswith(wanted)]
        problem = f"no run on this host has the id {wanted}" if not found else f"{len(found)} runs have the id {wanted}"
    else:
        found = [s for s in unfinished if token is not None and s.token == token] or unfinished
        problem = "no unfinished run was begun on this host"
        if found:
            problem = f"{len(found)} runs are unfinished: {'; '.join(s.name for s in found)}"
    if len(found) == 1:
        return found[0]
    known = found or unfinished or begun
    if not known:
        raise UsageError(problem, hint=f"name the plan file: {command} PLAN")
    last = f"the last one was {known[-1].name}"
    if known is begun and (wanted or command.rpartition(" ")[2] not in _OF_FINISHED):
        raise UsageError(problem, hint=f"{last}; it is finished")
    raise UsageError(problem, hint=f"{last}:\n{command} --run {known[-1].run_id}")


def moves_sent(state: RunState, live: Live) -> tuple[TopicPartition, ...]:
    """The running moves that a journal's runs sent."""
    running = sorted(live.running.items())
    return tuple(k for k, r in running if r.target in (state.submitted.get(k), *state.trail.get(k, ())))


def moves_under(state: RunState, live: Live) -> tuple[TopicPartition, ...]:
    """The running moves that a journal's runs sent, or that its throttle entries name."""
    named = {TopicPartition(k.name, int(e.split(":")[0])) for k, entries in state.entries.items() for e in entries}
    return tuple(sorted((named & set(live.running)) | set(moves_sent(state, live))))
