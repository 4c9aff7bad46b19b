"""What runs left behind on a cluster, item by item, and what is there that no run of ours set.

Ours is what the journals say and the cluster still shows; everything else is left alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.plan import Plan
from kafkakit.execution.decide.journal_state import ConfigKey, RateHold, RunState
from kafkakit.execution.decide.precheck import Live
from kafkakit.execution.decide.recovery import Recovered
from kafkakit.execution.decide.runs import moves_under
from kafkakit.execution.decide.throttle import INSIDE_RATE, LIST_KEYS, RATE_KEYS, WILDCARD, Configs, split_list


class Fate(StrEnum):
    """What is to become of an item of ours; see `find_leftovers`."""

    RESTORE = "earlier value comes back"
    REMOVE = "entries go"
    SETTLED = "nothing of ours is there any more"
    FOREIGN = "changed by somebody else since, left alone"
    DEAD = "broker is not alive, owed"
    SILENT = "broker does not answer, owed"


OWED = frozenset({Fate.DEAD, Fate.SILENT})
WORK = frozenset({Fate.RESTORE, Fate.REMOVE}) | OWED


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRate:
    """A broker rate of ours; `now` and `earlier` are None where nothing is set."""

    key: ConfigKey
    now: str | None
    earlier: str | None
    fate: Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftList:
    """A topic's throttle list with the entries of ours that are in it now."""

    key: ConfigKey
    entries: tuple[str, ...]
    fate: Fate


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
class Stranger:
    """A rate, or entries of a list, that no journal of this host accounts for."""

    key: ConfigKey
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One look: what is ours by run, what is not ours, and journals that cannot be read.

    `recovered` is what was recognised as left by runs whose journals are not whole, `plans` those that it was held
    against, both by journal.
    """

    cluster_id: str
    runs: tuple[LeftByRun, ...] = ()
    strangers: tuple[Stranger, ...] = ()
    damaged: tuple[str, ...] = ()
    recovered: Mapping[str, Recovered] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)

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
    live: Live,
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
        strangers=_strangers(tuple(throttled.values()), brokers, topics),
        damaged=tuple(damaged),
    )


def _by_run(
    name: str, state: RunState, live: Live, brokers: Configs, topics: Configs, changing_dirs: Mapping[int, int]
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


def _rate(key: ConfigKey, hold: RateHold, live: Live, brokers: Configs) -> LeftRate:
    now = brokers.get(key.name, {}).get(key.key)
    if not live.is_alive(int(key.name)):
        fate = Fate.DEAD
    elif key.name not in brokers:
        fate = Fate.SILENT
    elif now == hold.earlier:
        fate = Fate.SETTLED
    else:
        fate = Fate.RESTORE if now in hold.ours else Fate.FOREIGN
    return LeftRate(key=key, now=now, earlier=hold.earlier, fate=fate)


def _list(key: ConfigKey, entries: Sequence[str], topics: Configs) -> LeftList:
    value = topics.get(key.name, {}).get(key.key)
    there = set(split_list(value))
    ours = tuple(e for e in entries if e in there)
    # An empty list is what a run leaves that was cut between taking its entries away and deleting the list.
    fate = Fate.REMOVE if ours or value == "" else Fate.SETTLED
    return LeftList(key=key, entries=ours, fate=Fate.FOREIGN if WILDCARD in there else fate)


def _strangers(states: Collection[RunState], brokers: Configs, topics: Configs) -> tuple[Stranger, ...]:
    """Rates with values that are not ours, and list entries that are not."""
    ours: dict[ConfigKey, set[str]] = {}
    for state in states:
        for key, hold in state.rates.items():
            ours.setdefault(key, set()).update(hold.ours)
        for key, entries in state.entries.items():
            ours.setdefault(key, set()).update(entries)
    found: list[Stranger] = []
    for key, value in _values(brokers, topics):
        mine = ours.get(key, set())
        theirs = [v for v in split_list(value) if v not in mine]
        if theirs:
            found.append(Stranger(key=key, value=",".join(theirs)))
    return tuple(sorted(found, key=lambda s: s.key))


def _values(brokers: Configs, topics: Configs) -> Iterable[tuple[ConfigKey, str]]:
    for kind, configs, names in ((ResourceKind.BROKER, brokers, RATE_KEYS), (ResourceKind.TOPIC, topics, LIST_KEYS)):
        for name, values in configs.items():
            for key in names:
                if key in values:
                    yield ConfigKey(kind, name, key), values[key]
