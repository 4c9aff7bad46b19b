"""What is requested from the active run: that it pauses, continues or ends, or that it takes other rates.

`throttle` sets rates itself if no run is active. `abort` lets the active run end, then cancels what it has in flight;
moves that others began it cancels after it has shown them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from kafkakit.core.cluster_facts import ClusterInfo, ResourceKind
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.journal_lines import read_lines
from kafkakit.core.lease import LeaseRecord
from kafkakit.core.model import Reassignment, TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import count_of, format_duration
from kafkakit.core.rights import MOVE, THROTTLED
from kafkakit.core.text import shell_command
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.journal_files import DiskFile, LineFile
from kafkakit.execution.act.leases import ClusterAccess, OpenAccess, access_or_busy, held_lease
from kafkakit.execution.act.moves import LogDirs, Moves
from kafkakit.execution.act.retrier import Retrier, RetryingReader
from kafkakit.execution.act.run_journal import (
    RunJournal,
    existing_journal,
    journal_files,
    plan_journal,
    plan_journal_file,
    read_run_state,
)
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.journal import CLOSED, GRAMMAR, JournalSubject, RunState, fold
from kafkakit.execution.decide.plan_state import LiveState, ids
from kafkakit.execution.decide.runs import Commands, Request, RunOutcome, moves_sent
from kafkakit.execution.decide.schedule.work import BrokerRates, RateRequest, rates_to_data, require_known
from kafkakit.execution.decide.status_looks import KnownRun
from kafkakit.execution.decide.throttle import LIST_KEYS, RATE_KEYS
from kafkakit.ports.acting import Clock, Reporter, repeat_every
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.stores import ControlStore
from kafkakit.reassign.act.run import prepare_run
from kafkakit.reassign.decide.changes import (
    ForeignAbort,
    RequestResult,
    ThrottleResult,
    assigned_dirs,
    changing_brokers,
    choose_run,
    goals_in_flight,
    plan_of_run,
    present_rates,
    rates_for,
    topics_of,
)
from kafkakit.reassign.decide.foreign import ForeignSelection, choose_moves, require_existing
from kafkakit.reassign.report.run import foreign_words

CLOSE_TIMEOUT_S = 90.0


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
    _require_unfinished(state, commands)
    if state.paused != paused:
        journal.check(JournalSubject.PAUSE if paused else JournalSubject.CONTINUE, {"by": "no active run"})
    if paused:
        words = "paused: no run is active; moves that are on the cluster continue"
        return RequestResult(words=words, next_commands=(commands.line("continue"),))
    return RequestResult(words="no longer paused; no run is active", next_commands=(commands.line("resume", "--yes"),))


def _require_unfinished(state: RunState, commands: Commands) -> None:
    if not state.unsettled:
        raise RefusedError(
            "no unfinished run of this plan was started on this host", hint=f"start one: {commands.line('apply')}"
        )


def plan_pause(
    plan: Plan, commands: Commands, requester: RunRequester, *, paused: bool, without_lease: bool
) -> RequestResult:
    """What `set_paused` would do, and of which run it would request it; takes no lease and writes nothing.

    Raises `RefusedError` when there is no unfinished run, `TryLaterError` when another run is active.
    """
    state = read_run_state(plan_journal_file(plan, requester.state_dir))
    lease = None if without_lease else requester.lease(plan.cluster_id)
    verb = "pause" if paused else "continue"
    if lease is not None:
        if lease.token != state.token:
            raise TryLaterError(f"another run is active on the cluster: {lease.holder}")
        return RequestResult(words=f"would {verb}: {lease.holder}", run=str(lease.holder))
    _require_unfinished(state, commands)
    mark = f"would {verb} the unfinished run of this plan" if state.paused != paused else f"nothing to {verb}"
    return RequestResult(words=f"{mark}; no run is active")


def close_run(
    file: LineFile, access: ClusterAccess, reporter: Reporter, command: str, *, dry_run: bool = False
) -> RequestResult:
    """Record that a run is not to be finished; `command` is the command line up to the verb, for hints.

    A dry run makes the same checks, and records nothing.
    Raises `RefusedError` when it is finished, has moves in flight, or throttles that are set.
    """
    journal = existing_journal(file, access.clock)
    state = journal.state
    if not state.unsettled:
        raise RefusedError("the run is finished; there is nothing to close")
    retrier = Retrier(access.clock, reporter, CLOSE_TIMEOUT_S)
    live = RetryingReader(access.admin, access.clock, retrier).live(())
    inside = LogDirs(access.admin, journal, reporter, retrier).on_the_way(state.dirs_sent, live)
    if moving := len(moves_sent(state, live)) + len(inside):
        raise RefusedError(
            f"{count_of(moving, 'move')} of {state.name} still run on the cluster",
            hint=f"end them first:\n{command} abort --run {state.run_id}\n{command} rollback --run {state.run_id}",
        )
    if state.throttled:
        raise RefusedError(f"throttles of {state.name} are still set", hint=f"remove them first: {command} cleanup")
    if dry_run:
        return RequestResult(words=f"would close {state.name}; lists that it changed stay as they are")
    journal.check(JournalSubject.END, {"verdict": CLOSED, "problems": [], "owed": []})
    return RequestResult(words=f"closed: {state.name}; lists that it changed stay as they are")


LOOK_EVERY_S = 0.5


def abort_plan(
    plan: Plan,
    request: Request,
    open_access: OpenAccess,
    requester: RunRequester,
    reporter: Reporter,
    *,
    confirm_stop: Callable[[], bool],
) -> RunOutcome:
    """Abort the plan; an active run is requested to end first, once `confirm_stop` agreed, and waited for."""
    with ExitStack() as stack:
        access = access_or_busy(stack, open_access)
        if isinstance(access, TryLaterError):
            if not confirm_stop():
                raise OperationFailedError("not confirmed, nothing was changed") from access
            requester.request(plan, access, abort=True)
            access = _access_after_run(stack, open_access, requester)
            request = replace(request, confirm=lambda: True)
        return prepare_run(plan, request, access, requester.state_dir, reporter).abort()


def _access_after_run(stack: ExitStack, open_access: OpenAccess, requester: RunRequester) -> ClusterAccess:
    """The access as soon as the run that was requested to end has given its lease back."""
    for _ in repeat_every(requester.clock, LOOK_EVERY_S, requester.wait_s):
        access = access_or_busy(stack, open_access)
        if isinstance(access, ClusterAccess):
            return access
        busy = access
    raise busy


def abort_foreign(
    access: ClusterAccess,
    selection: ForeignSelection,
    runs: Sequence[KnownRun],
    reporter: Reporter,
    *,
    program: str,
    confirm: Callable[[], bool] | None,
    open_journal: Callable[[], RunJournal],
) -> ForeignAbort:
    """Cancel running moves that no unfinished run of this host sent; `confirm` None only shows them.

    After the answer the cluster is read again, and a move that goes elsewhere by then is left alone. Raises
    `RefusedError` if only moves of unfinished runs are meant, `UsageError` for what does not exist.
    """
    retrier = Retrier(access.clock, reporter, READ_TIMEOUT_S)
    reader = RetryingReader(access.admin, access.clock, retrier)
    live = reader.live(selection.named_topics)
    require_existing(selection, live.states, {key.topic for key in live.states})
    shown = choose_moves(selection, live, runs)
    commands = [str(shell_command("reassign abort", program=program, run=run)) for run in shown.ours]
    if not shown.moves:
        if shown.ours and not selection.everything:
            count = sum(map(len, shown.ours.values()))
            raise RefusedError(f"{count_of(count, 'move')} named here belong to a run on this host", hint=commands[0])
        return ForeignAbort(found=shown, verdict="nothing to abort", selection=selection)
    reader.require_rights(MOVE, live)
    for line in foreign_words(shown):
        reporter.say(line)
    for command in commands:
        reporter.say(f"moves of an unfinished run on this host stay; abort it with: {command}")
    if confirm is None:
        return ForeignAbort(found=shown, verdict="planned", selection=selection)
    if not confirm():
        return ForeignAbort(found=shown, verdict="declined", selection=selection)
    now = choose_moves(selection, reader.live(selection.named_topics), runs)
    before = {(m.topic, m.partition): m.target for m in shown.moves}
    agreed = [m for m in now.moves if before.get((m.topic, m.partition)) == m.target]
    problems = [
        f"{m.topic}-{m.partition} goes to {ids(m.target)} by now, and is not cancelled"
        for m in now.moves
        if m not in agreed and (m.topic, m.partition) in before
    ]
    keys = tuple(TopicPartition(m.topic, m.partition) for m in agreed)
    journal = open_journal()
    if keys:
        lists = [[m.topic, m.partition, list(m.target), list(m.adding), list(m.removing)] for m in agreed]
        journal.check(JournalSubject.FOREIGN, {"moves": lists})
    try:
        refused = Moves(access.admin, access.clock, journal, retrier, reader).cancel(keys)
        problems += [f"{key} is not cancelled: {error}" for key, error in refused.items()]
    except OperationFailedError as error:
        refused = {}
        problems.append(error.message)
    return ForeignAbort(
        found=shown,
        verdict="incomplete" if problems else "cancelled",
        selection=selection,
        cancelled=tuple(key for key in keys if key not in refused),
        problems=tuple(problems),
        throttled=_are_throttled(access.admin, retrier, agreed, live),
        journal=journal.name,
    )


def _are_throttled(admin: ClusterAdmin, retrier: Retrier, moves: Sequence[Reassignment], live: LiveState) -> bool:
    """True when lists of the topics, or rates of the brokers, of these moves are set."""
    topics = sorted({m.topic for m in moves})
    brokers = sorted({str(b) for m in moves for b in m.replicas if live.is_alive(b)})
    for kind, names, keys in ((ResourceKind.TOPIC, topics, LIST_KEYS), (ResourceKind.BROKER, brokers, RATE_KEYS)):
        read = partial(admin.dynamic_configs, kind, names)
        configs = retrier.call("reading throttles", read) if names else {}
        if any(key in values for values in configs.values() for key in keys):
            return True
    return False


READ_TIMEOUT_S = 60.0


def change_throttle(
    request: RateRequest,
    open_access: OpenAccess,
    requester: RunRequester,
    admin: ClusterAdmin,
    reporter: Reporter,
    *,
    journal: str | None,
) -> ThrottleResult:
    """Request the rates from the active run; where none is, set them for moves that an interrupted run left.

    `admin` reads only. `journal` is the one that the run must write, when a plan was named; None takes the cluster's
    only run. What could not be done is among the problems; `TryLaterError` when no answer comes in time.
    """
    with ExitStack() as stack:
        access = access_or_busy(stack, open_access)
        if isinstance(access, TryLaterError):
            cluster = admin.cluster()
            if (lease := requester.lease(cluster.cluster_id)) is None:
                raise access
            return _request_rates(request, requester, cluster, lease, journal=journal)
        files = {f.name: f for f in journal_files(requester.state_dir, access.cluster_id)}
        return _set_rates(access, files, reporter, request, journal=journal)


def plan_throttle(
    request: RateRequest,
    access: ClusterAccess,
    requester: RunRequester,
    reporter: Reporter,
    *,
    journal: str | None,
    without_lease: bool,
) -> ThrottleResult:
    """What `change_throttle` would do, and for which run; `access` reads only, and nothing is requested."""
    lease = None if without_lease else requester.lease(access.cluster_id)
    if lease is not None:
        return _request_rates(request, requester, access.admin.cluster(), lease, journal=journal, dry_run=True)
    files = {f.name: f for f in journal_files(requester.state_dir, access.cluster_id)}
    return _set_rates(access, files, reporter, request, journal=journal, dry_run=True)


def _request_rates(
    request: RateRequest,
    requester: RunRequester,
    cluster: ClusterInfo,
    lease: LeaseRecord,
    *,
    journal: str | None,
    dry_run: bool = False,
) -> ThrottleResult:
    """Leave the request for the run that holds the lease, and wait until it works."""
    require_known(request, [b.id for b in cluster.brokers])
    holder = str(lease.holder)
    states = {f.name: read_run_state(f) for f in journal_files(requester.state_dir, cluster.cluster_id)}
    if journal is not None and plan_of_run(states, lease.token) != journal:
        raise RefusedError(f"the active run is not a run of this plan on this host: {holder}")
    requests = requester.requests(cluster.cluster_id)
    found = requests.read(lease.token)
    present = found.request.rates if found is not None and found.request.rates is not None else None
    rates = rates_for(request, present or present_rates(states.values(), lease.token))
    if dry_run:
        return ThrottleResult(cluster_id=cluster.cluster_id, by=holder, rates=rates, is_plan=True)
    version = requests.request(lease.token, requester.by, rates=rates)
    answer = requests.wait_for_answer(lease.token, version, requester.wait_s)
    if answer is None:
        raise TryLaterError(
            f"the run did not apply the rates within {format_duration(requester.wait_s)}: {holder}",
            hint="the request stays and is applied at the run's next tick",
        )
    problems = (answer.refused,) if answer.refused else ()
    return ThrottleResult(cluster_id=cluster.cluster_id, by=holder, rates=rates, problems=problems)


def _set_rates(
    access: ClusterAccess,
    files: Mapping[str, DiskFile],
    reporter: Reporter,
    request: RateRequest,
    *,
    journal: str | None,
    dry_run: bool = False,
) -> ThrottleResult:
    """Change the throttle of moves that an interrupted run left in flight; its resume keeps the new rates."""
    admin, clock = access.admin, access.clock
    retrier = Retrier(clock, reporter, READ_TIMEOUT_S)
    read = {name: read_lines(file.read(), name, RunState(), fold, GRAMMAR) for name, file in sorted(files.items())}
    states = {name: state for name, (_, state) in read.items()}
    topics = {t for s in states.values() for t in topics_of(s)}
    reader = RetryingReader(admin, clock, retrier)
    live = reader.live(topics)
    require_known(request, live.brokers)
    reader.require_rights(THROTTLED, live, topics)
    assigned = {name: assigned_dirs(text.records) for name, (text, _) in read.items()}
    brokers = sorted({r.broker for w in assigned.values() for r in w if live.is_alive(r.broker)})
    dirs = retrier.call("reading log dirs", lambda: admin.log_dirs(brokers)) if brokers else {}
    changing = {name: changing_brokers(w, dirs) for name, w in assigned.items()}
    if journal is not None:
        states = {name: s for name, s in states.items() if name == journal}
    chosen = choose_run(states, live, changing)
    return _set_for(access, files[chosen], reporter, request, live, changing[chosen], retrier, dry_run=dry_run)


def _set_for(
    access: ClusterAccess,
    file: DiskFile,
    reporter: Reporter,
    request: RateRequest,
    live: LiveState,
    inside: tuple[int, ...],
    retrier: Retrier,
    *,
    dry_run: bool,
) -> ThrottleResult:
    journal = existing_journal(file, access.clock)
    state = journal.state
    rates = rates_for(request, state.wanted or BrokerRates())
    goals = goals_in_flight(state, live)
    by = f"{state.direction} of {state.plan_path}"
    if dry_run:
        return ThrottleResult(cluster_id=access.cluster_id, by=by, rates=rates, moves=len(goals), is_plan=True)
    journal.check(JournalSubject.RATES, {"rates": rates_to_data(rates)})
    problems = Throttles(access.admin, access.clock, journal, reporter, retrier).change(rates, live, goals, inside)
    return ThrottleResult(cluster_id=access.cluster_id, by=by, rates=rates, moves=len(goals), problems=problems)
