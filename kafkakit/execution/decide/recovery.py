"""What runs of a plan left on a cluster, recognised without their journal: it is lost, or a part of it is.

A throttle entry names a partition and a broker. Where all entries of a planned partition name brokers that the plan
moves it between, they are the plan's. A rate is, where only such entries name its broker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted
from kafkakit.execution.decide import throttle as keys
from kafkakit.execution.decide.journal_state import ConfigKey, RateHold, RunState, change_to_data
from kafkakit.execution.decide.precheck import Live, listed
from kafkakit.execution.decide.rates import rates_to_data
from kafkakit.execution.decide.schedule.work import Rates

Lists = Mapping[TopicPartition, tuple[int, ...]]
_LIST_OF = {keys.LEADER_RATE: keys.LEADER_LIST, keys.FOLLOWER_RATE: keys.FOLLOWER_LIST}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Throttles, and the lists of planned partitions that a run must have sent; what the journal knows is left out.

    `earlier` has the values that stood before, as far as they are known.
    """

    rates: Mapping[ConfigKey, str] = field(default_factory=dict)
    entries: Mapping[ConfigKey, tuple[str, ...]] = field(default_factory=dict)
    lists: Lists = field(default_factory=dict)
    earlier: Mapping[ConfigKey, str] = field(default_factory=dict)

    @property
    def wanted(self) -> Rates | None:
        """The rates for the rest of the run, the lowest that is set; None where none is."""
        values = {
            name: [int(v) for k, v in self.rates.items() if k.key == name and v.isdigit()] for name in keys.RATE_KEYS
        }
        into, out, inside = (
            min(values[n], default=None) for n in (keys.FOLLOWER_RATE, keys.LEADER_RATE, keys.INSIDE_RATE)
        )
        return Rates(into=into, out=out, inside=inside) if self.rates else None

    @property
    def throttled(self) -> bool:
        """True when there are throttles."""
        return bool(self.rates or self.entries)

    def as_data(self) -> dict[str, Any]:
        """The fields of a journal's record; rates whose earlier value is not known are to be unset."""
        values = [(k, ConfigOp.SET, v) for k, v in sorted(self.rates.items())]
        values += [(k, ConfigOp.APPEND, ",".join(v)) for k, v in sorted(self.entries.items())]
        changes = [ConfigChange(kind=k.kind, name=k.name, key=k.key, op=op, value=v) for k, op, v in values]
        return {
            "changes": [change_to_data(c, self.earlier.get(ConfigKey(c.kind, c.name, c.key))) for c in changes],
            "rates": None if self.wanted is None else rates_to_data(self.wanted),
            "targets": [[*k, list(v)] for k, v in sorted(self.lists.items())],
        }


def sent_lists(plan: Plan, live: Live) -> Lists:
    """Present lists, and targets of running moves, that are neither end of a move but only have brokers of it."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for move in plan.moves:
        now, running = live.states.get(move.key), live.running.get(move.key)
        replicas = running.target if running else now.replicas if now else ()
        is_ours = bool(replicas) and set(replicas) <= {*move.before, *move.after}
        if is_ours and (running or replicas not in (move.before, move.after)):
            found[move.key] = replicas
    return found


def plan_entries(plan: Plan, state: RunState, topics: keys.Configs) -> dict[ConfigKey, tuple[str, ...]]:
    """The throttle entries on `topics` that are the plan's and not in the journal; O(moves + entries)."""
    brokers = {m.key: {*m.before, *m.after}.union(*state.trail.get(m.key, ())) for m in plan.moves}
    found: dict[ConfigKey, tuple[str, ...]] = {}
    for topic in sorted({m.topic for m in plan.moves} & topics.keys()):
        for name in keys.LIST_KEYS:
            groups: dict[int, dict[str, int]] = {}
            for entry in keys.split_list(topics[topic].get(name)):
                partition, _, broker = entry.partition(":")
                if partition.isdigit() and broker.isdigit():
                    groups.setdefault(int(partition), {})[entry] = int(broker)
            key = ConfigKey(ResourceKind.TOPIC, topic, name)
            held = {*state.entries.get(key, ()), *keys.split_list((state.baseline or {}).get(key))}
            ours = [
                e
                for partition, named in groups.items()
                if set(named.values()) <= brokers.get(TopicPartition(topic, partition), set())
                for e in named
                if e not in held
            ]
            if ours:
                found[key] = tuple(ours)
    return found


def topics_held(entries: Mapping[ConfigKey, Sequence[str]], brokers: keys.Configs) -> tuple[str, ...]:
    """The topics with entries that name a broker with a rate for their side: without a rate an entry limits nothing."""
    rate_of = {place: rate for rate, place in _LIST_OF.items()}
    return tuple(
        sorted(
            {
                key.name
                for key, held in entries.items()
                if any(rate_of[key.key] in brokers.get(e.partition(":")[2], {}) for e in held)
            }
        )
    )


def recover(
    plan: Plan, live: Live, state: RunState, brokers: keys.Configs, topics: keys.Configs, *, named: bool
) -> Recovered:
    """What is on the cluster of the plan's runs; `topics` are those of the whole cluster.

    Rates are the plan's on brokers that only its entries name. Where the plan is `named` by an operator, or its run is
    known to be lost, those on all its brokers are that have a value of the run, as far as one is known: a run may have
    been cut before its entries. Lists on the way are taken for the plan's only then: another process may move a
    partition between the same brokers.
    """
    entries = plan_entries(plan, state, topics)
    ours = {(k.name, k.key, e) for source in (entries, state.entries) for k, held in source.items() for e in held}
    others: dict[str, set[str]] = {name: set() for name in keys.LIST_KEYS}
    mine: dict[str, set[str]] = {name: set() for name in keys.LIST_KEYS}
    for topic, values in topics.items():
        for name in keys.LIST_KEYS:
            for entry in keys.split_list(values.get(name)):
                side = mine if (topic, name, entry) in ours else others
                side[name].add(keys.WILDCARD if entry == keys.WILDCARD else entry.partition(":")[2])
    used = {str(b) for m in plan.moves for b in {*m.before, *m.after}}
    inside = {str(m.broker) for m in plan.dir_moves} if named or entries else set()
    known, earlier = _values_of(state), state.baseline or {}
    rates: dict[ConfigKey, str] = {}
    for broker, values in brokers.items():
        for name in keys.RATE_KEYS:
            key, place = ConfigKey(ResourceKind.BROKER, broker, name), _LIST_OF.get(name)
            if name not in values or key in state.rates or values[name] == earlier.get(key):
                continue
            among = broker in (inside if place is None else used)
            likely = named and among and (not known or values[name] in known)
            foreign = place is not None and not others[place].isdisjoint((broker, keys.WILDCARD))
            # A value of the run in place of another one that stood before it is the run's, whatever others throttle.
            replaced = state.baseline is not None and among and values[name] in known
            if replaced or (not foreign and (likely or (place is not None and broker in mine[place]))):
                rates[key] = values[name]
    return Recovered(rates=rates, entries=entries, lists=sent_lists(plan, live) if named else {}, earlier=earlier)


def with_recovered(state: RunState, found: Recovered) -> RunState:
    """The state as it is once what was found is in the journal."""
    rates = {k: RateHold(earlier=found.earlier.get(k), ours=frozenset({v})) for k, v in found.rates.items()}
    entries = {k: (*state.entries.get(k, ()), *v) for k, v in found.entries.items()}
    return replace(state, rates={**state.rates, **rates}, entries={**state.entries, **entries})


def _values_of(state: RunState) -> set[str]:
    """The values of rates that the run is known to have used."""
    wanted = state.wanted or Rates()
    given = (wanted.into, wanted.out, wanted.inside, *wanted.into_of.values(), *wanted.out_of.values())
    return {str(v) for v in given if v is not None}.union(*(hold.ours for hold in state.rates.values()))


UNACCOUNTED = "throttles cover replicas of the plan"


def unaccounted_words(topics: Sequence[str]) -> tuple[str, ...]:
    """Throttles of the plan's replicas that no journal accounts for, as something that is owed."""
    return (f"{UNACCOUNTED}, not set by a run that is recorded here: topics {listed(list(topics))}",) if topics else ()


def lost_words(state: RunState, found: Recovered) -> tuple[str, ...]:
    """What to say before a run continues without a part of its journal."""
    words = [f"a part of the journal is lost: {state.salvaged}"] if state.salvaged else []
    if found.throttled:
        brokers = ", ".join(sorted({k.name for k in found.rates}, key=int))
        words.append(
            "taken for this run's, since they name exactly its replicas: throttle entries of "
            f"{counted(len({k.name for k in found.entries}), 'topic')}"
            + (f", rates of brokers {brokers}" if brokers else "")
            + ("" if found.earlier or not brokers else ", which are unset at the end")
        )
    return tuple(words)
