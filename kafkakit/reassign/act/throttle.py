"""`reassign throttle`: request other rates from the active run, or set them where none is."""

from collections.abc import Mapping
from contextlib import ExitStack

from kafkakit.core.cluster_facts import ClusterInfo
from kafkakit.core.durations import format_duration
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.core.journal_lines import read_lines
from kafkakit.core.rights import THROTTLED
from kafkakit.execution.act.cluster_access import ClusterAccess, OpenAccess, access_or_busy
from kafkakit.execution.act.journal_file import DiskFile
from kafkakit.execution.act.kept_plans import existing_journal
from kafkakit.execution.act.retrier import ClusterReader, Retrier
from kafkakit.execution.act.run_journal import journal_files, read_run_state
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.journal import GRAMMAR, What
from kafkakit.execution.decide.journal_state import RunState, fold
from kafkakit.execution.decide.precheck import Live
from kafkakit.execution.decide.rates import RateRequest, rates_to_data, require_known
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.reporter import Reporter
from kafkakit.reassign.act.control import RunRequester
from kafkakit.reassign.decide.throttle_change import (
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

PATIENCE_S = 60.0


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
            return _request_rates(request, requester, admin.cluster(), access, journal=journal)
        files = {f.name: f for f in journal_files(requester.state_dir, access.cluster_id)}
        return _set_rates(access, files, reporter, request, journal=journal)


def _request_rates(
    request: RateRequest, requester: RunRequester, cluster: ClusterInfo, busy: TryLaterError, *, journal: str | None
) -> ThrottleResult:
    """Leave the request for the run that holds the lease, and wait until it works; raises `busy` when none does."""
    require_known(request, [b.id for b in cluster.brokers])
    lease = requester.lease(cluster.cluster_id)
    if lease is None:
        raise busy
    holder = str(lease.holder)
    states = {f.name: read_run_state(f) for f in journal_files(requester.state_dir, cluster.cluster_id)}
    if journal is not None and plan_of_run(states, lease.token) != journal:
        raise RefusedError(f"the active run is not one of this plan on this host: {holder}")
    requests = requester.requests(cluster.cluster_id)
    found = requests.read(lease.token)
    present = found.request.rates if found is not None and found.request.rates is not None else None
    rates = rates_for(request, present or present_rates(states.values(), lease.token))
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
) -> ThrottleResult:
    """Change the throttle of moves that an interrupted run left in flight; its resume keeps the new rates."""
    admin, clock = access.admin, access.clock
    retrier = Retrier(clock, reporter, PATIENCE_S)
    read = {name: read_lines(file.read(), name, RunState(), fold, GRAMMAR) for name, file in sorted(files.items())}
    states = {name: state for name, (_, state) in read.items()}
    topics = {t for s in states.values() for t in topics_of(s)}
    reader = ClusterReader(admin, clock, retrier)
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
    return _set_for(access, files[chosen], reporter, request, live, changing[chosen], retrier)


def _set_for(
    access: ClusterAccess,
    file: DiskFile,
    reporter: Reporter,
    request: RateRequest,
    live: Live,
    inside: tuple[int, ...],
    retrier: Retrier,
) -> ThrottleResult:
    journal = existing_journal(file, access.clock)
    state = journal.state
    rates = rates_for(request, state.wanted or Rates())
    goals = goals_in_flight(state, live)
    journal.check(What.RATES, {"rates": rates_to_data(rates)})
    problems = Throttles(access.admin, access.clock, journal, reporter, retrier).change(rates, live, goals, inside)
    by = f"{state.direction} of {state.plan_path}"
    return ThrottleResult(cluster_id=access.cluster_id, by=by, rates=rates, moves=len(goals), problems=problems)
