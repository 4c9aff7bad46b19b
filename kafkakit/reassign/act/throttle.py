"""`reassign throttle`: ask the running executor for other rates, or set them where none runs."""

from collections.abc import Mapping

from kafkakit.core.durations import format_duration
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.execution.act.control_requests import Wishes
from kafkakit.execution.act.journal_file import DiskFile
from kafkakit.execution.act.retrier import Lookout, Patient
from kafkakit.execution.act.run_journal import existing_journal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.journal import What, decode_journal
from kafkakit.execution.decide.journal_state import RunState, replay
from kafkakit.execution.decide.precheck import Live, require_rights
from kafkakit.execution.decide.rates import RateRequest, rates_to_data, require_known
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter
from kafkakit.reassign.decide.throttle_change import (
    Retuned,
    changing_brokers,
    choose_run,
    goals_in_flight,
    plan_of_run,
    present_rates,
    rates_for,
    topics_of,
    wished_dirs,
)

PATIENCE_S = 60.0


def ask_executor(
    wishes: Wishes,
    token: int,
    by: str,
    holder: str,
    request: RateRequest,
    states: Mapping[str, RunState],
    *,
    cluster_id: str,
    journal: str | None,
    timeout_s: float,
) -> Retuned:
    """Leave the wish for the run with that fencing token, and wait until it works.

    `states` are this host's journals by name; `journal` is the one that the run must write, when a plan was named.
    What the run could not do is among the problems; `TryLaterError` when no answer comes in time.
    """
    if journal is not None and plan_of_run(states, token) != journal:
        raise RefusedError(f"the run at work is not one of this plan on this host: {holder}")
    asked = wishes.read(token)
    present = asked.wish.rates if asked is not None and asked.wish.rates is not None else None
    rates = rates_for(request, present or present_rates(states.values(), token))
    version = wishes.ask(token, by, rates=rates)
    answer = wishes.wait_for_answer(token, version, timeout_s)
    if answer is None:
        raise TryLaterError(
            f"the run did not take the rates up within {format_duration(timeout_s)}: {holder}",
            hint="the wish stays; it is taken up when the run looks again",
        )
    problems = (answer.refused,) if answer.refused else ()
    return Retuned(cluster_id=cluster_id, by=holder, rates=rates, problems=problems)


def set_rates(
    admin: ClusterAdmin,
    clock: Clock,
    files: Mapping[str, DiskFile],
    voice: Reporter,
    request: RateRequest,
    *,
    cluster_id: str,
    journal: str | None,
) -> Retuned:
    """Change the throttle of moves that an interrupted run left in flight; its resume keeps the new rates.

    The caller holds the cluster's lease. `journal` names the plan's journal, None where the cluster has only one with
    moves under way.
    """
    patient = Patient(clock, voice, PATIENCE_S)
    records = {name: decode_journal(file.read(), name).records for name, file in sorted(files.items())}
    states = {name: replay(found, name) for name, found in records.items()}
    topics = {t for s in states.values() for t in topics_of(s)}
    live = Lookout(admin, clock, patient).live(topics)
    require_known(request, live.brokers)
    require_rights(live, throttled=True)
    wished = {name: wished_dirs(found) for name, found in records.items()}
    brokers = sorted({r.broker for w in wished.values() for r in w if live.is_alive(r.broker)})
    dirs = patient.call("reading log dirs", lambda: admin.log_dirs(brokers)) if brokers else {}
    changing = {name: changing_brokers(w, dirs) for name, w in wished.items()}
    if journal is not None:
        states = {name: s for name, s in states.items() if name == journal}
    chosen = choose_run(states, live, changing)
    return _set(admin, clock, files[chosen], voice, request, live, changing[chosen], patient, cluster_id)


def _set(
    admin: ClusterAdmin,
    clock: Clock,
    file: DiskFile,
    voice: Reporter,
    request: RateRequest,
    live: Live,
    inside: tuple[int, ...],
    patient: Patient,
    cluster_id: str,
) -> Retuned:
    journal = existing_journal(file, clock)
    state = journal.state
    rates = rates_for(request, state.wanted or Rates())
    goals = goals_in_flight(state, live)
    journal.check(What.RATES, {"rates": rates_to_data(rates)})
    problems = Throttles(admin, clock, journal, voice, patient).change(rates, live, goals, inside)
    by = f"{state.direction} of {state.plan_path}"
    return Retuned(cluster_id=cluster_id, by=by, rates=rates, moves=len(goals), problems=problems)
