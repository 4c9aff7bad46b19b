"""Requesting from the active run that it pauses, continues or ends."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from kafkakit.core.durations import format_duration
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.lease import LeaseRecord
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted
from kafkakit.execution.act.cluster_access import ClusterAccess, OpenAccess, access_or_busy
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.journal_file import LineFile
from kafkakit.execution.act.kept_plans import existing_journal
from kafkakit.execution.act.lease_reader import held_lease
from kafkakit.execution.act.log_dir_moves import LogDirs
from kafkakit.execution.act.retrier import ClusterReader, Retrier
from kafkakit.execution.act.run_journal import RunJournal, plan_journal
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.journal_state import CLOSED
from kafkakit.execution.decide.outcome import Commands
from kafkakit.execution.decide.runs import moves_sent
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.ports.reporter import Reporter
from kafkakit.reassign.decide.control import RequestResult

CLOSE_PATIENCE_S = 90.0


class RunRequester:
    """Leaves requests for runs that other processes carry out.

    `store` opens the control store on first use, `by` is who requests, `wait_s` how long an answer may take.
    """

    def __init__(
        self, store: Callable[[], ControlStore], clock: Clock, state_dir: Path, by: str, *, wait_s: float
    ) -> None:
        self._store, self.clock, self.state_dir, self.by, self.wait_s = store, clock, state_dir, by, wait_s

    def lease(self, cluster_id: str) -> LeaseRecord | None:
        """The lease of the run on a cluster, None when none is active."""
        return held_lease(self._store(), cluster_id)

    def requests(self, cluster_id: str) -> ControlRequests:
        """The requests for the run on a cluster."""
        return ControlRequests(self._store(), self.clock, cluster_id)

    def token(self, cluster_id: str) -> int | None:
        """The fencing token of the active run on a cluster, None when none is active."""
        lease = self.lease(cluster_id)
        return None if lease is None else lease.token

    def request(
        self, plan: Plan, busy: TryLaterError, *, paused: bool | None = None, abort: bool | None = None
    ) -> RequestResult:
        """Request it from the run of the plan and wait for its answer.

        Raises `busy` when another run is active or none, `TryLaterError` when no answer comes in time,
        `OperationFailedError` when the run refuses.
        """
        journal, _ = plan_journal(plan, self.state_dir, self.clock)
        lease = self.lease(plan.cluster_id)
        if lease is None or lease.token != journal.state.token:
            raise busy
        requests = self.requests(plan.cluster_id)
        return request_control(
            requests, lease.token, self.by, str(lease.holder), self.wait_s, paused=paused, abort=abort
        )


def request_control(
    requests: ControlRequests,
    token: int,
    by: str,
    holder: str,
    wait_s: float,
    *,
    paused: bool | None = None,
    abort: bool | None = None,
) -> RequestResult:
    """Leave the request for the run with that fencing token and wait for its answer.

    Raises `TryLaterError` when none comes in time, `OperationFailedError` when the run refuses.
    """
    version = requests.request(token, by, paused=paused, abort=abort)
    answer = requests.wait_for_answer(token, version, wait_s)
    if answer is None:
        raise TryLaterError(
            f"the run did not answer within {format_duration(wait_s)}: {holder}",
            hint="the request stays and is applied at the run's next tick",
        )
    if answer.refused:
        raise OperationFailedError(f"the run refuses: {answer.refused}")
    if abort:
        return RequestResult(words=f"requested to end: {holder}", run=holder)
    if paused:
        return RequestResult(words=f"paused: {holder}; what is in flight continues", run=holder)
    return RequestResult(words=f"continues: {holder}", run=holder)


def set_paused(
    plan: Plan, commands: Commands, open_access: OpenAccess, requester: RunRequester, *, paused: bool
) -> RequestResult:
    """Request it from the active run; where none is, mark the unfinished run.

    Raises `RefusedError` when there is no unfinished run, and what `RunRequester.request` raises.
    """
    with ExitStack() as stack:
        access = access_or_busy(stack, open_access)
        if isinstance(access, TryLaterError):
            return requester.request(plan, access, paused=paused)
        journal, _ = plan_journal(plan, requester.state_dir, access.clock)
        return note_pause(journal, commands, paused=paused)


def note_pause(journal: RunJournal, commands: Commands, *, paused: bool) -> RequestResult:
    """Mark an unfinished run as paused, or take the mark away, while no run is active.

    Raises `RefusedError` when there is no such run.
    """
    state = journal.state
    if not state.unsettled:
        raise RefusedError("no unfinished run of this plan was begun here", hint=f"begin one: {commands.line('apply')}")
    if state.paused != paused:
        journal.check(What.PAUSE if paused else What.CONTINUE, {"by": "no run at work"})
    if paused:
        words = "paused: no run is active; moves that are on the cluster continue"
        return RequestResult(words=words, next_commands=(commands.line("continue"),))
    return RequestResult(words="no longer paused; no run is active", next_commands=(commands.line("resume", "--yes"),))


def close_run(file: LineFile, access: ClusterAccess, reporter: Reporter, command: str) -> RequestResult:
    """Record that a run is not to be finished; `command` is the command line up to the verb, for hints.

    Raises `RefusedError` when it is finished, has moves in flight, or throttles that are set.
    """
    journal = existing_journal(file, access.clock)
    state = journal.state
    if not state.unsettled:
        raise RefusedError("the run is not unfinished, there is nothing to close")
    retrier = Retrier(access.clock, reporter, CLOSE_PATIENCE_S)
    live = ClusterReader(access.admin, access.clock, retrier).live(())
    inside = LogDirs(access.admin, journal, reporter, retrier).on_the_way(state.dirs_sent, live)
    if moving := len(moves_sent(state, live)) + len(inside):
        raise RefusedError(
            f"{counted(moving, 'move')} of {state.name} still run on the cluster",
            hint=f"end them first:\n{command} abort --run {state.run_id}\n{command} rollback --run {state.run_id}",
        )
    if state.throttled:
        raise RefusedError(f"throttles of {state.name} are still set", hint=f"remove them first: {command} cleanup")
    journal.check(What.END, {"verdict": CLOSED, "problems": [], "owed": []})
    return RequestResult(words=f"closed: {state.name}; lists that it changed stay as they are")
