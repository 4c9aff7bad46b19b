"""Which rates are to hold from now on, and for which run."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kafkakit.core.cluster_facts import BrokerLogDirs, PartitionState
from kafkakit.core.errors import RefusedError
from kafkakit.core.journal_lines import RecordKind
from kafkakit.core.model import TopicPartitionReplica
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.journal import Record, What
from kafkakit.execution.decide.journal_state import RunState
from kafkakit.execution.decide.precheck import Live
from kafkakit.execution.decide.rates import RateRequest
from kafkakit.execution.decide.runs import moves_sent
from kafkakit.execution.decide.schedule.work import Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleResult:
    """Rates that hold from now on: `by` a running executor, or set from the journal of an interrupted run.

    `problems` says what could not be done.
    """

    cluster_id: str
    by: str
    rates: Rates
    moves: int | None = None
    problems: tuple[str, ...] = ()


def rates_for(request: RateRequest, present: Rates | None) -> Rates:
    """What is asked for, laid over the present rates (None: not known here); `RefusedError` where those are needed."""
    if present is None and not request.given:
        raise RefusedError(
            "which rates the running executor keeps is not known on this host",
            hint="name a rate for all brokers, too, such as 20MB",
        )
    return request.over(present or Rates())


def present_rates(states: Iterable[RunState], token: int) -> Rates | None:
    """The rates of the run with that fencing token, by this host's journals; None when they do not know it."""
    for state in states:
        if state.token == token and state.unsettled:
            return state.wanted or Rates()
    return None


def choose_run(states: Mapping[str, RunState], live: Live, changing: Mapping[str, Collection[int]]) -> str:
    """The one journal whose moves are under way; `changing` are brokers with copies between dirs, by journal."""
    found = [name for name, s in sorted(states.items()) if moves_sent(s, live) or changing.get(name)]
    if not found:
        raise RefusedError(
            "no run is active here, and no moves of an interrupted run are under way",
            hint="give the rate to the next run: kafkakit reassign apply PLAN --throttle RATE",
        )
    if len(found) > 1:
        plans = ", ".join(sorted(states[name].plan_path for name in found))
        raise RefusedError(f"moves of several interrupted runs are under way: {plans}", hint="name the plan file")
    return found[0]


def goals_in_flight(state: RunState, live: Live) -> tuple[Goal, ...]:
    """The running moves of a journal, with the brokers that have a full copy."""
    goals = []
    for key in moves_sent(state, live):
        now = live.states.get(key)
        running = live.running[key]
        if now is not None:
            goals.append(Goal(key=key, target=running.target, holders=_holders(now, running.adding), running=True))
    return tuple(goals)


def assigned_dirs(records: Iterable[Record]) -> dict[TopicPartitionReplica, str]:
    """The log dir that a journal's runs named last for each copy."""
    found: dict[TopicPartitionReplica, str] = {}
    for record in records:
        if record.kind is RecordKind.INTENT and record.what is What.DIRS:
            found |= {TopicPartitionReplica(t, p, b): path for t, p, b, path in record.data["replicas"]}
    return found


def changing_brokers(
    assigned: Mapping[TopicPartitionReplica, str], dirs: Mapping[int, BrokerLogDirs]
) -> tuple[int, ...]:
    """The brokers where copies are on their way to the dir that we named."""
    return tuple(
        broker
        for broker, answer in sorted(dirs.items())
        if any(
            assigned.get(TopicPartitionReplica(k.topic, k.partition, broker)) == copy.log_dir
            for k, copy in answer.futures.items()
        )
    )


def _holders(now: PartitionState, adding: Collection[int]) -> tuple[int, ...]:
    return tuple(b for b in now.replicas if b not in adding)


def topics_of(state: RunState) -> set[str]:
    """The topics whose partitions a journal's runs moved or throttled."""
    return {k.topic for k in state.submitted} | {k.name for k in state.entries}


def plan_of_run(states: Mapping[str, RunState], token: int) -> str | None:
    """The journal of the run with that token; None when it is not on this host."""
    return next((name for name, s in sorted(states.items()) if s.token == token and s.unsettled), None)
