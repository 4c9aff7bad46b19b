"""From two looks at the moves of a cluster to what a law is told."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from kafkakit.autothrottle.decide.observed import BrokerSeen, Flow, Load, Observed
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.execution.decide.observation import Dirs, intake_of
from kafkakit.execution.decide.precheck import Live
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.execution.decide.throttle import Configs, wanted_rates


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesSeen:
    """The moves of a cluster at one time, whichever program began them."""

    at_ms: int
    live: Live
    goals: tuple[Goal, ...] = ()
    dirs: Dirs = field(default_factory=dict)

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers that send or receive copies."""
        return tuple(sorted({b for g in self.goals for b in (*g.holders, *g.adding)}))

    @property
    def left_bytes(self) -> int:
        """What is still to be copied, as far as the brokers tell."""
        found = 0
        for goal in self.goals:
            size = max((_bytes(self.dirs, b, goal.key) or 0 for b in goal.holders), default=0)
            found += sum(max(0, size - (_bytes(self.dirs, b, goal.key) or 0)) for b in goal.adding)
        return found


def goals_of(live: Live) -> tuple[Goal, ...]:
    """The moves with a copy to make; one whose topic is gone by now is left out."""
    found = []
    for key, move in sorted(live.running.items()):
        state = live.states.get(key)
        if state is not None and move.adding:
            holders = tuple(b for b in state.replicas if b not in move.adding)
            found.append(Goal(key=key, target=move.target, holders=holders, running=True))
    return tuple(found)


def observed_of(before: MovesSeen, after: MovesSeen, measured: Observed | None = None) -> Observed:
    """What log dirs tell, with what a metrics source measured beside it.

    The brokers alone tell what copies take; all traffic and what a network can do come from `measured`.
    """
    seconds = (after.at_ms - before.at_ms) / 1000
    into: dict[int, float] = {}
    out: dict[int, float] = {}
    flows: dict[tuple[int, int], Flow] = {}
    ingest = intake_of(after.goals, before.dirs, after.dirs, seconds).of_partition
    for goal in after.goals:
        state = after.live.states[goal.key]
        size = max((_bytes(after.dirs, b, goal.key) or 0 for b in goal.holders), default=0)
        for broker in goal.adding:
            now, was = _bytes(after.dirs, broker, goal.key), _bytes(before.dirs, broker, goal.key)
            if now is not None and seconds > 0 and broker in before.dirs:
                grown = max(0, now - (was or 0)) / seconds
                into[broker] = into.get(broker, 0.0) + grown
                if state.leader is not None:
                    out[state.leader] = out.get(state.leader, 0.0) + grown
            if state.leader is not None and broker not in state.isr:
                flow = flows.get((state.leader, broker)) or Flow(
                    source=state.leader, destination=broker, partitions=0, left_bytes=0
                )
                flows[state.leader, broker] = replace(
                    flow,
                    partitions=flow.partitions + 1,
                    left_bytes=flow.left_bytes + max(0, size - (now or 0)),
                    ingest_per_s=flow.ingest_per_s + ingest.get(goal.key, 0.0),
                )
    base = measured or Observed(at_ms=after.at_ms, measured_ms=after.at_ms, window_ms=max(0, round(seconds * 1000)))
    brokers = {
        b: _seen(base.brokers.get(b) or BrokerSeen(broker=b), into.get(b), out.get(b), after.live.is_alive(b))
        for b in sorted({*base.brokers, *after.brokers, *after.live.brokers})
    }
    return replace(
        base,
        at_ms=after.at_ms,
        brokers=brokers,
        flows=tuple(f for _, f in sorted(flows.items())),
        problems=(*base.problems, *_silent(after)),
    )


def _seen(seen: BrokerSeen, into: float | None, out: float | None, is_alive: bool) -> BrokerSeen:
    return replace(seen, into=_load(seen.into, into), out=_load(seen.out, out), is_alive=is_alive)


def _load(load: Load, moved: float | None) -> Load:
    """A source's own figure of copies is an average of the same time as its totals, so it goes first."""
    return load if moved is None else replace(load, moved=moved if load.moved is None else load.moved, copied=moved)


def _silent(look: MovesSeen) -> tuple[str, ...]:
    return tuple(f"broker {b} does not tell its log dirs: {a.error}" for b, a in sorted(look.dirs.items()) if a.error)


def _bytes(dirs: Dirs, broker: int, key: TopicPartition) -> int | None:
    answer = dirs.get(broker)
    if answer is None or answer.error:
        return None
    copy = answer.replicas.get(key)
    return copy.size_bytes if copy else 0


def own_rates(
    goals: Collection[Goal], rates: Rates, held: Collection[ConfigKey], now: Configs
) -> tuple[Rates, tuple[str, ...]]:
    """The rates without those sides of brokers that another process throttles, and these in words.

    A rate that was there before ours is another process's: it is not replaced, and our lists do not fall under it.
    """
    wanted = wanted_rates(goals, rates)
    theirs = {k: now[k.name][k.key] for k in wanted if k not in held and k.key in now.get(k.name, {})}
    into_of, out_of = dict(rates.into_of), dict(rates.out_of)
    for key in theirs:
        (out_of if key.key.startswith("leader.") else into_of).pop(int(key.name), None)
    words = tuple(
        f"broker {k.name}: another process has set {k.key}={v}; left as it is" for k, v in sorted(theirs.items())
    )
    return replace(rates, into_of=into_of, out_of=out_of), words


def for_run(rates: Rates, inside: int | None) -> Rates:
    """The rates for a run of kafkakit, which may begin moves on other brokers: there the lowest of them holds.

    `inside` is the run's rate between log dirs, which stays.
    """
    into, out = min(rates.into_of.values(), default=rates.into), min(rates.out_of.values(), default=rates.out)
    return replace(rates, into=into, out=out, inside=inside)


def override_goals(brokers: Collection[int], replicas: Mapping[TopicPartition, tuple[int, ...]]) -> tuple[Goal, ...]:
    """Copies on brokers with an override that take part in no move: their catching up is throttled, as kafka-kit does.

    The offsets topic is left out, as there.
    """
    chosen = set(brokers)
    found = []
    for key, copies in sorted(replicas.items()):
        target = tuple(b for b in copies if b in chosen)
        if target and key.topic != "__consumer_offsets":
            found.append(Goal(key=key, target=target, holders=()))
    return tuple(found)
