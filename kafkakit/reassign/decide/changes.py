"""What commands change beside a run: other rates, requests to it, and the removal of what runs left behind.

A change of throttles says which rates hold from now on, and for which run. OtherRuns are judged item by item. Ours is
what the journals say and the cluster still shows; everything else is not touched.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.cluster_facts import BrokerLogDirs, PartitionState, ResourceKind
from kafkakit.core.errors import RefusedError
from kafkakit.core.journal_lines import RecordKind
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import Plan
from kafkakit.execution.decide.journal import ConfigKey, JournalSubject, RateHold, Record, RunState
from kafkakit.execution.decide.plan_state import LiveState, MoveGoal
from kafkakit.execution.decide.runs import RecoveredThrottles, moves_sent, moves_under
from kafkakit.execution.decide.schedule.work import BrokerRates, RateRequest
from kafkakit.execution.decide.throttle import INSIDE_RATE, LIST_KEYS, RATE_KEYS, WILDCARD, Configs, split_list
from kafkakit.reassign.decide.foreign import ForeignMoves, ForeignSelection, ForeignThrottle


class LeftoverStatus(StrEnum):
    """What is to become of an item of ours; see `find_leftovers`."""

    RESTORE = "earlier value comes back"
    REMOVE = "entries go"
    SETTLED = "nothing of ours is there any more"
    FOREIGN = "changed by another client since, not reverted"
    DEAD = "broker is not alive, owed"
    SILENT = "broker does not answer, owed"


OWED = frozenset({LeftoverStatus.DEAD, LeftoverStatus.SILENT})
WORK = frozenset({LeftoverStatus.RESTORE, LeftoverStatus.REMOVE}) | OWED


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRate:
    """A broker rate of ours; `now` and `earlier` are None where nothing is set."""

    key: ConfigKey
    now: str | None
    earlier: str | None
    fate: LeftoverStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftList:
    """A topic's throttle list with the entries of ours that are in it now."""

    key: ConfigKey
    entries: tuple[str, ...]
    fate: LeftoverStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftByRun:
    """What one journal's runs, or the pacer, left; `running` names what still moves under it."""

    journal: str
    plan_path: str
    direction: str
    rates: tuple[LeftRate, ...] = ()
    lists: tuple[LeftList, ...] = ()
    running: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last run, or what else kept the journal (`autothrottle`)."""
        return f"{self.direction} of {self.plan_path}" if self.direction else self.plan_path

    @property
    def is_work(self) -> bool:
        """True when something of ours has to go."""
        return any(r.fate in WORK for r in self.rates) or any(i.fate in WORK for i in self.lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnownedThrottle:
    """A rate, or entries of a list, that no journal of this host accounts for."""

    key: ConfigKey
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One look: what is ours by run, what is not ours, and journals that cannot be read.

    `recovered` is what was recognised as left by runs whose journals are not whole, `plans` those that it was held
    against, both by journal. `others` are the unowned ones that the operator named; `silent` are brokers whose
    rates could not be read.
    """

    cluster_id: str
    runs: tuple[LeftByRun, ...] = ()
    unowned: tuple[UnownedThrottle, ...] = ()
    damaged: tuple[str, ...] = ()
    recovered: Mapping[str, RecoveredThrottles] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)
    others: tuple[ForeignThrottle, ...] = ()
    silent: tuple[int, ...] = ()

    @property
    def work(self) -> tuple[LeftByRun, ...]:
        """The runs with something that has to go."""
        return tuple(r for r in self.runs if r.is_work)

    @property
    def free(self) -> tuple[LeftByRun, ...]:
        """Those of them under which nothing moves any more."""
        return tuple(r for r in self.work if not r.running)

    @property
    def busy(self) -> tuple[LeftByRun, ...]:
        """Those of them under which something still moves."""
        return tuple(r for r in self.work if r.running)


def find_leftovers(
    states: Mapping[str, RunState],
    live: LiveState,
    brokers: Configs,
    topics: Configs,
    changing_dirs: Mapping[int, int],
    damaged: Sequence[str] = (),
) -> Leftover:
    """Hold journals (by name) against the cluster.

    `brokers` are the configurations of those that answered, `topics` of all topics; `changing_dirs` counts the copies
    that change their log dir now, by broker.
    """
    throttled = {name: s for name, s in sorted(states.items()) if s.throttled}
    return Leftover(
        cluster_id=live.cluster_id,
        runs=tuple(_by_run(name, s, live, brokers, topics, changing_dirs) for name, s in throttled.items()),
        unowned=_unowned_throttles(tuple(throttled.values()), brokers, topics),
        damaged=tuple(damaged),
    )


def _by_run(
    name: str, state: RunState, live: LiveState, brokers: Configs, topics: Configs, changing_dirs: Mapping[int, int]
) -> LeftByRun:
    rates = tuple(_rate(key, hold, live, brokers) for key, hold in sorted(state.rates.items()))
    lists = tuple(_list(key, entries, topics) for key, entries in sorted(state.entries.items()))
    inside = {int(k.name) for k in state.rates if k.key == INSIDE_RATE}
    return LeftByRun(
        journal=name,
        plan_path=state.plan_path or state.fingerprint,
        direction=state.direction,
        rates=rates,
        lists=lists,
        running=(
            *(str(k) for k in moves_under(state, live)),
            *(f"copies between log dirs of broker {b}" for b in sorted(inside) if changing_dirs.get(b)),
        ),
    )


def _rate(key: ConfigKey, hold: RateHold, live: LiveState, brokers: Configs) -> LeftRate:
    now = brokers.get(key.name, {}).get(key.key)
    if not live.is_alive(int(key.name)):
        fate = LeftoverStatus.DEAD
    elif key.name not in brokers:
        fate = LeftoverStatus.SILENT
    elif now == hold.earlier:
        fate = LeftoverStatus.SETTLED
    else:
        fate = LeftoverStatus.RESTORE if now in hold.ours else LeftoverStatus.FOREIGN
    return LeftRate(key=key, now=now, earlier=hold.earlier, fate=fate)


def _list(key: ConfigKey, entries: Sequence[str], topics: Configs) -> LeftList:
    value = topics.get(key.name, {}).get(key.key)
    there = set(split_list(value))
    ours = tuple(e for e in entries if e in there)
    # An empty list is what a run leaves that was cut between taking its entries away and deleting the list.
    fate = LeftoverStatus.REMOVE if ours or value == "" else LeftoverStatus.SETTLED
    return LeftList(key=key, entries=ours, fate=LeftoverStatus.FOREIGN if WILDCARD in there else fate)


def _unowned_throttles(states: Collection[RunState], brokers: Configs, topics: Configs) -> tuple[UnownedThrottle, ...]:
    """Rates with values that are not ours, and list entries that are not."""
    ours: dict[ConfigKey, set[str]] = {}
    for state in states:
        for key, hold in state.rates.items():
            ours.setdefault(key, set()).update(hold.ours)
        for key, entries in state.entries.items():
            ours.setdefault(key, set()).update(entries)
    found: list[UnownedThrottle] = []
    for key, value in _values(brokers, topics):
        mine = ours.get(key, set())
        theirs = [v for v in split_list(value) if v not in mine]
        if theirs:
            found.append(UnownedThrottle(key=key, value=",".join(theirs)))
    return tuple(sorted(found, key=lambda s: s.key))


def _values(brokers: Configs, topics: Configs) -> Iterable[tuple[ConfigKey, str]]:
    for kind, configs, names in ((ResourceKind.BROKER, brokers, RATE_KEYS), (ResourceKind.TOPIC, topics, LIST_KEYS)):
        for name, values in configs.items():
            for key in names:
                if key in values:
                    yield ConfigKey(kind, name, key), values[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleResult:
    """Rates that hold from now on: `by` a running executor, or set from the journal of an interrupted run.

    `problems` says what could not be done. With `is_plan` nothing was done, and the rates would hold.
    """

    cluster_id: str
    by: str
    rates: BrokerRates
    moves: int | None = None
    problems: tuple[str, ...] = ()
    is_plan: bool = False


def rates_for(request: RateRequest, present: BrokerRates | None) -> BrokerRates:
    """What is asked for, laid over the present rates (None: not known here); `RefusedError` where those are needed."""
    if present is None and not request.given:
        raise RefusedError(
            "the rates of the running executor are not known on this host",
            hint="also give a rate for all brokers, such as 20MB",
        )
    return request.over(present or BrokerRates())


def present_rates(states: Iterable[RunState], token: int) -> BrokerRates | None:
    """The rates of the run with that fencing token, by this host's journals; None when they do not know it."""
    for state in states:
        if state.token == token and state.unsettled:
            return state.wanted or BrokerRates()
    return None


def choose_run(states: Mapping[str, RunState], live: LiveState, changing: Mapping[str, Collection[int]]) -> str:
    """The one journal whose moves are under way; `changing` are brokers with copies between dirs, by journal."""
    found = [name for name, s in sorted(states.items()) if moves_sent(s, live) or changing.get(name)]
    if not found:
        raise RefusedError(
            "no run is active here, and no moves of an interrupted run are in flight",
            hint="give the rate to the next run: kafkakit reassign apply PLAN --throttle RATE",
        )
    if len(found) > 1:
        plans = ", ".join(sorted(states[name].plan_path for name in found))
        raise RefusedError(f"moves of several interrupted runs are in flight: {plans}", hint="name the plan file")
    return found[0]


def goals_in_flight(state: RunState, live: LiveState) -> tuple[MoveGoal, ...]:
    """The running moves of a journal, with the brokers that have a full copy."""
    goals = []
    for key in moves_sent(state, live):
        now = live.states.get(key)
        running = live.running[key]
        if now is not None:
            goals.append(MoveGoal(key=key, target=running.target, holders=_holders(now, running.adding), running=True))
    return tuple(goals)


def assigned_dirs(records: Iterable[Record]) -> dict[TopicPartitionReplica, str]:
    """The log dir that a journal's runs named last for each copy."""
    found: dict[TopicPartitionReplica, str] = {}
    for record in records:
        if record.kind is RecordKind.INTENT and record.what is JournalSubject.DIRS:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """What came of a request: a line for people, the run that took it (empty: none is active), the next commands."""

    words: str
    run: str = ""
    next_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignAbort:
    """What became of moves that others began: `cancelled`, `planned`, `declined`, `incomplete`, or `nothing to abort`.

    `problems` says which were not cancelled, and why; `throttled` that throttles of them are still set.
    """

    found: ForeignMoves
    verdict: str
    selection: ForeignSelection
    cancelled: tuple[TopicPartition, ...] = ()
    problems: tuple[str, ...] = ()
    throttled: bool = False
    journal: str = ""
