"""What the looks of `status` read from a cluster, before anything is made of it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.lease import LeaseRecord, Life
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, Reassignment, TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.execution.decide.journal_state import RunState
from kafkakit.execution.decide.precheck import Live
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    INSIDE_RATE,
    LEADER_LIST,
    LIST_KEYS,
    RATE_KEYS,
    WILDCARD,
    Configs,
    split_list,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusLook:
    """One light look: running moves, the state of their topics, the log dirs of brokers that take part.

    `at_s` is of a monotonic clock, taken when the sizes were read.
    """

    live: Live
    dirs: Mapping[int, BrokerLogDirs]
    at: datetime
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled:
    """Replication throttles as they are set: rates by broker, lists by topic, only keys that are set."""

    brokers: Configs = field(default_factory=dict)
    topics: Configs = field(default_factory=dict)

    def over(self, earlier: "Throttled", brokers: Iterable[int], topics: Iterable[str]) -> "Throttled":
        """This newer look at some brokers and topics laid over an earlier one at more."""
        seen, named = {str(b) for b in brokers}, set(topics)
        return Throttled(
            brokers={**{b: v for b, v in earlier.brokers.items() if b not in seen}, **self.brokers},
            topics={**{t: v for t, v in earlier.topics.items() if t not in named}, **self.topics},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Counts over all partitions of the cluster, at one time.

    A partition is under-replicated when its ISR is smaller than its replica list without the copies that a move
    adds, as Kafka counts it.
    """

    at: datetime
    partitions: int
    under_replicated: int
    under_min_isr: int
    offline: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRun:
    """A run by its journal on this host; `plan` is None where its file is gone or another one by now."""

    journal: str
    state: RunState
    plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """The cluster's lease as the control store has it, None when it has none, and what is certain of its holder.

    `locked_by` is the process of this host that has the lock of the cluster's changes, of any user and control store.
    """

    record: LeaseRecord | None = None
    life: Life = Life.UNKNOWN
    locked_by: str = ""

    @property
    def is_held(self) -> bool:
        """True unless it was given back, or its holder ended."""
        return self.record is not None and self.record.holder is not None and self.life is not Life.GONE


def landed_between(before: StatusLook, after: StatusLook) -> int:
    """Bytes that came into new copies between two looks.

    A move that ended in its target has brought all its bytes; `after` knows the states of its topic. One that began
    and ended in between is not seen.
    """
    landed = 0
    for key, move in before.live.running.items():
        now, state = after.live.running.get(key), after.live.states.get(key)
        size = max((a.replicas[key].size_bytes for a in before.dirs.values() if key in a.replicas), default=0)
        for broker in move.adding:
            had = _held(before, broker, key) or 0
            if now is None and state is not None and state.replicas == move.target:
                landed += max(0, size - had)
            elif now is not None and broker in now.adding:
                landed += max(0, (_held(after, broker, key) or had) - had)
    for key, move in after.live.running.items():
        was = before.live.running.get(key)
        landed += sum(_held(after, b, key) or 0 for b in move.adding if was is None or b not in was.adding)
    return landed


def _held(look: StatusLook, broker: int, key: TopicPartition) -> int | None:
    answer = look.dirs.get(broker)
    copy = answer.replicas.get(key) if answer is not None else None
    return None if copy is None else copy.size_bytes


def throttled_of(brokers: Configs, topics: Configs) -> Throttled:
    """What is set of throttles in configurations."""
    return Throttled(brokers=_picked(brokers, RATE_KEYS), topics=_picked(topics, LIST_KEYS))


def without_moves(throttled: Throttled, running: Iterable[Reassignment], inside: Collection[int] = ()) -> str:
    """Throttles that are set although nothing moves under them, in words; empty where there are none.

    `inside` are the brokers with copies between log dirs. O(moves + entries).
    """
    moves = tuple(running)
    moving = {f"{m.topic} {m.partition}" for m in moves} | {f"{m.topic} {WILDCARD}" for m in moves}
    taking_part = {str(b) for m in moves for b in m.replicas}
    copying = {str(b) for b in inside}
    brokers = [
        name
        for name, values in sorted(throttled.brokers.items(), key=lambda item: int(item[0]))
        if any(name not in (copying if key == INSIDE_RATE else taking_part) for key in values)
    ]
    topics = [
        name
        for name, values in sorted(throttled.topics.items())
        if any(f"{name} {entry.partition(':')[0]}" not in moving for v in values.values() for entry in split_list(v))
    ]
    words = [f"rates of broker {some(brokers)}"] if brokers else []
    return " and ".join([*words, f"lists of topic {some(topics)}"] if topics else words)


def entries_of(throttled: Throttled, topic: str, *, led: bool) -> frozenset[str]:
    """The entries of a topic's throttle list, of the sources (`led`) or of the destinations."""
    values = throttled.topics.get(topic, {})
    return frozenset(split_list(values.get(LEADER_LIST if led else FOLLOWER_LIST)))


def health_of(snapshot: ClusterSnapshot, min_isr_default: int) -> Health:
    """Count over a snapshot; a topic's own `min.insync.replicas` goes before the brokers' default. O(partitions)."""
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    total = under = below = offline = 0
    for topic in snapshot.topics:
        own = topic.configs.get("min.insync.replicas", "")
        least = int(own) if own.isdigit() else min_isr_default
        for p in topic.partitions:
            isr = len(p.isr or ())
            total += 1
            under += isr < len(p.replicas) - len(p.adding)
            below += isr < least
            offline += p.leader is None or p.leader not in alive
    return Health(at=snapshot.taken_at, partitions=total, under_replicated=under, under_min_isr=below, offline=offline)


def _picked(configs: Configs, keys: tuple[str, ...]) -> dict[str, dict[str, str]]:
    picked = {name: {k: values[k] for k in keys if k in values} for name, values in sorted(configs.items())}
    return {name: values for name, values in picked.items() if values}
