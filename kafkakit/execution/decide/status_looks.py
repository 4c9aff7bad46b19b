"""What looks at moves show: what was read from the cluster, how fast copies grow, and why a copy does not catch up.

Samples are the sizes of copies as one look after another found them. Reasons of a stall are ordered: the certain ones
first, each with what to do about it. Throttled copies come in lumps, and after a rate was lowered nothing comes for 8
to 9 s; a copy that shares a throttle with many others waits longer for its turn. So only what is certain is told at
once, and the rest after a while.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.findings import least_in_sync, min_isr_of, stops_above_replicas
from kafkakit.core.model import ClusterSnapshot, Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import format_bytes, format_rate, format_rough_time
from kafkakit.core.text import few_of
from kafkakit.execution.decide.journal import RunState
from kafkakit.execution.decide.plan_state import LiveState
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    INSIDE_RATE,
    LEADER_LIST,
    LEADER_RATE,
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

    live: LiveState
    dirs: Mapping[int, BrokerLogDirs]
    at: datetime
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentThrottles:
    """Replication throttles as they are set: rates by broker, lists by topic, only keys that are set."""

    brokers: Configs = field(default_factory=dict)
    topics: Configs = field(default_factory=dict)

    def over(self, earlier: "CurrentThrottles", brokers: Iterable[int], topics: Iterable[str]) -> "CurrentThrottles":
        """This newer look at some brokers and topics laid over an earlier one at more."""
        seen, named = {str(b) for b in brokers}, set(topics)
        return CurrentThrottles(
            brokers={**{b: v for b, v in earlier.brokers.items() if b not in seen}, **self.brokers},
            topics={**{t: v for t, v in earlier.topics.items() if t not in named}, **self.topics},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCounts:
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
            had = _held_bytes(before, broker, key) or 0
            if now is None and state is not None and state.replicas == move.target:
                landed += max(0, size - had)
            elif now is not None and broker in now.adding:
                landed += max(0, (_held_bytes(after, broker, key) or had) - had)
    for key, move in after.live.running.items():
        was = before.live.running.get(key)
        landed += sum(_held_bytes(after, b, key) or 0 for b in move.adding if was is None or b not in was.adding)
    return landed


def ended_between(before: StatusLook, after: StatusLook) -> int:
    """Bytes that moves had to copy in all which ended in their target between two looks."""
    ended = 0
    for key, move in before.live.running.items():
        state = after.live.states.get(key)
        if key not in after.live.running and state is not None and state.replicas == move.target:
            answers = ((b, a.replicas.get(key)) for b, a in before.dirs.items() if b not in move.adding)
            ended += max((copy.size_bytes for _, copy in answers if copy is not None), default=0) * len(move.adding)
    return ended


def _held_bytes(look: StatusLook, broker: int, key: TopicPartition) -> int | None:
    answer = look.dirs.get(broker)
    copy = answer.replicas.get(key) if answer is not None else None
    return None if copy is None else copy.size_bytes


def throttled_of(brokers: Configs, topics: Configs) -> CurrentThrottles:
    """What is set of throttles in configurations."""
    return CurrentThrottles(brokers=_pick_keys(brokers, RATE_KEYS), topics=_pick_keys(topics, LIST_KEYS))


def without_moves(throttled: CurrentThrottles, running: Iterable[Reassignment], inside: Collection[int] = ()) -> str:
    """Throttles that are set although nothing moves under them, in words; empty where there are none.

    `inside` are the brokers with copies between log dirs. O(moves + entries).
    """
    moves = tuple(running)
    moving = {f"{m.topic} {m.partition}" for m in moves} | {f"{m.topic} {WILDCARD}" for m in moves}
    taking_part = {str(b) for m in moves for b in m.replicas}
    copying = {str(b) for b in inside}
    brokers = {
        name: idle
        for name, values in sorted(throttled.brokers.items(), key=lambda item: int(item[0]))
        if (idle := [key for key in values if name not in (copying if key == INSIDE_RATE else taking_part)])
    }
    topics = {
        name: idle
        for name, values in sorted(throttled.topics.items())
        if (
            idle := [
                k
                for k, v in values.items()
                if any(f"{name} {e.partition(':')[0]}" not in moving for e in split_list(v))
            ]
        )
    }
    kinds = (("broker", brokers), ("topic", topics))
    return " and ".join(
        f"{kind} {few_of([*found])} ({', '.join(sorted({key for keys in found.values() for key in keys}))})"
        for kind, found in kinds
        if found
    )


def entries_of(throttled: CurrentThrottles, topic: str, *, led: bool) -> frozenset[str]:
    """The entries of a topic's throttle list, of the sources (`led`) or of the destinations."""
    values = throttled.topics.get(topic, {})
    return frozenset(split_list(values.get(LEADER_LIST if led else FOLLOWER_LIST)))


def health_of(snapshot: ClusterSnapshot, min_isr_default: int) -> HealthCounts:
    """Count over a snapshot; a topic's own `min.insync.replicas` goes before the brokers' default. O(partitions)."""
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    stops = stops_above_replicas(snapshot.kafka_version)
    total = under = below = offline = 0
    for topic in snapshot.topics:
        minimum = min_isr_of(topic.configs, min_isr_default)
        for p in topic.partitions:
            isr = len(p.isr or ())
            total += 1
            under += isr < len(p.replicas) - len(p.adding)
            below += isr < least_in_sync(minimum, len(p.replicas), stops=stops)
            offline += p.leader is None or p.leader not in alive
    return HealthCounts(
        at=snapshot.taken_at, partitions=total, under_replicated=under, under_min_isr=below, offline=offline
    )


def _pick_keys(configs: Configs, keys: tuple[str, ...]) -> dict[str, dict[str, str]]:
    picked = {name: {k: values[k] for k in keys if k in values} for name, values in sorted(configs.items())}
    return {name: values for name, values in picked.items() if values}


MAX_SAMPLES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySample:
    """What one look found, at `at_s` of a monotonic clock: bytes of each copy that a broker told of.

    `landed_bytes` are all that came since the first look, in copies that arrived and were finished meanwhile, too.
    """

    at_s: float
    bytes_of: Mapping[TopicPartitionReplica, int]
    landed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a copy did: from `first_bytes` to `last_bytes` in `seconds`; it has not grown for `quiet_s`, maybe longer."""

    first_bytes: int
    last_bytes: int
    seconds: float
    quiet_s: float

    @property
    def bytes_per_s(self) -> float:
        """The mean rate."""
        return (self.last_bytes - self.first_bytes) / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The samples kept, oldest first, and since when each copy has the size that it has now."""

    samples: tuple[CopySample, ...] = ()
    still_since_s: Mapping[TopicPartitionReplica, float] = field(default_factory=dict)


def sizes_in(dirs: Mapping[int, BrokerLogDirs], keys: Iterable[TopicPartition]) -> dict[TopicPartitionReplica, int]:
    """The bytes of every copy of the partitions that the brokers show."""
    wanted = sorted(set(keys))
    return {
        TopicPartitionReplica(k.topic, k.partition, broker): answer.replicas[k].size_bytes
        for broker, answer in sorted(dirs.items())
        for k in wanted
        if k in answer.replicas
    }


def remember(history: History, sample: CopySample, window_s: float) -> History:
    """Add a sample; those are kept that the last `window_s` seconds need, one older one included, 64 at most.

    Copies arrive in lumps under a throttle, so a rate is taken over the whole window and never over two looks.
    """
    kept = [*history.samples, sample]
    while len(kept) > 2 and sample.at_s - kept[1].at_s >= window_s:
        kept.pop(0)
    if len(kept) > MAX_SAMPLES:
        del kept[1]  # the oldest one says how long, the newest ones how lately
    before = history.samples[-1].bytes_of if history.samples else {}
    still = {
        copy: history.still_since_s[copy] if before.get(copy) == size else sample.at_s
        for copy, size in sample.bytes_of.items()
    }
    return History(samples=tuple(kept), still_since_s=still)


def window_of(history: History) -> float:
    """The seconds that the samples span."""
    samples = history.samples
    return samples[-1].at_s - samples[0].at_s if samples else 0.0


def landing_rate(history: History) -> float | None:
    """Bytes/s that came into new copies over the window, finished ones too; None before there are two looks."""
    seconds = window_of(history)
    return (history.samples[-1].landed_bytes - history.samples[0].landed_bytes) / seconds if seconds > 0 else None


def growth_of(history: History, copy: TopicPartitionReplica) -> Growth | None:
    """How a copy grew over the samples; None where fewer than two in a row have it.

    A copy that shrank was begun again (a truncation, another log dir): what was before does not count.
    """
    run: list[tuple[float, int]] = []
    for sample in reversed(history.samples):
        size = sample.bytes_of.get(copy)
        if size is None or (run and size > run[-1][1]):
            break
        run.append((sample.at_s, size))
    if len(run) < 2:
        return None
    (last_s, last), (first_s, first) = run[0], run[-1]
    if last_s <= first_s:
        return None
    quiet_s = last_s - history.still_since_s[copy]
    return Growth(first_bytes=first, last_bytes=last, seconds=last_s - first_s, quiet_s=quiet_s)


QUIET_S = 10.0
"""So long without a byte is normal under a throttle."""
TURN_S = 120.0
"""So long a copy may wait while others to the same broker are served."""


class Cause(StrEnum):
    """What keeps a copy from growing, in the order in which they are looked for."""

    DEAD_DESTINATION = "dead destination"
    SILENT_DESTINATION = "silent destination"
    DELETED = "deleted topic"
    NO_LEADER = "no leader"
    DIR_OFFLINE = "log dir offline"
    DIR_FULL = "log dir full"
    ZERO_RATE = "throttle of zero"
    BELOW_INGEST = "throttle below ingest"
    WILDCARD = "wildcard throttle"
    SILENT_LEADER = "silent leader"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStall:
    """A copy that is stalled: why, and what to do, both for people."""

    cause: Cause
    words: str
    advice: str

    def __str__(self) -> str:
        return f"{self.words}; {self.advice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A throttle that a copy is under, on one broker and side.

    `side` is `in` or `out`; `wildcard` says that the topic's list is `*`. `ingest_bytes_per_s` is what all moving
    partitions under this limit take in together.
    """

    broker: int
    side: str
    rate: int
    wildcard: bool = False
    ingest_bytes_per_s: float = 0.0

    @property
    def words(self) -> str:
        """The limit for people."""
        return f"{FOLLOWER_RATE if self.side == 'in' else LEADER_RATE} of broker {self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFacts:
    """All that is known of one new copy.

    `destination` is what the cluster says of its broker (`alive`, `fenced`, ...; empty: not registered), the two
    `answers` whether the brokers told their log dirs. `offline_dirs` are dirs in error in one of which it must be;
    `free_bytes` is what its own dir has left. `missing_bytes` are those behind the source, None when unknown.
    `quiet_s` is how long it did not grow at the end of the window (None: not watched long enough to say), `nearing`
    whether it came nearer to its source over the window. `others_grow`: other copies to the same broker do. `cancel`
    is the command that cancels the move.
    """

    key: TopicPartition
    broker: int
    destination: str = "alive"
    destination_answers: bool = True
    topic_exists: bool = True
    leader: int | None = None
    leader_answers: bool = True
    could_lead: tuple[int, ...] = ()
    offline_dirs: tuple[str, ...] = ()
    log_dir: str = ""
    free_bytes: int | None = None
    missing_bytes: int | None = None
    limits: tuple[Limit, ...] = ()
    quiet_s: float | None = None
    nearing: bool = True
    others_grow: bool = False
    cancel: str = ""


def stall_of(facts: CopyFacts) -> CopyStall | None:
    """The likely reason why a copy is stalled; None while it grows, or while its silence is still normal."""
    certain = _certain(facts)
    if certain is not None:
        return certain
    below = _below_ingest(facts)
    if below is not None and not facts.nearing and facts.quiet_s is not None:
        return below
    if facts.quiet_s is None or facts.quiet_s < QUIET_S:
        return None
    if facts.others_grow and facts.quiet_s < TURN_S:
        return None
    return (
        _full_dir_stall(facts) or below or _wildcard(facts) or _silent_leader(facts) or _unknown(facts, facts.quiet_s)
    )


def _certain(facts: CopyFacts) -> CopyStall | None:
    """What is so whether or not bytes were counted."""
    at, undo = f"broker {facts.broker}", f"or cancel the move: {facts.cancel}" if facts.cancel else "or undo the move"
    if facts.destination != "alive":
        state = f"is {facts.destination}" if facts.destination not in ("", "missing") else "is not registered"
        return CopyStall(cause=Cause.DEAD_DESTINATION, words=f"{at} {state}", advice=f"start it again, {undo}")
    if not facts.topic_exists:
        return CopyStall(
            cause=Cause.DELETED,
            words=f"topic {facts.key.topic} is deleted",
            advice="nothing to do: the cluster drops the move, a run leaves it out",
        )
    if not facts.destination_answers:
        return CopyStall(
            cause=Cause.SILENT_DESTINATION,
            words=f"{at} counts as alive but does not answer",
            advice="check whether its process hangs, and restart it",
        )
    if facts.leader is None:
        back = f"bring back broker {' or '.join(map(str, facts.could_lead))}" if facts.could_lead else "bring back one"
        return CopyStall(
            cause=Cause.NO_LEADER, words="no live broker leads the partition, nothing is copied", advice=back
        )
    if facts.offline_dirs:
        dirs = " or ".join(facts.offline_dirs)
        return CopyStall(
            cause=Cause.DIR_OFFLINE,
            words=f"log dir {dirs} of {at} is offline",
            advice=f"repair the disk and restart the broker, {undo}",
        )
    for limit in facts.limits:
        if limit.rate == 0:
            return CopyStall(cause=Cause.ZERO_RATE, words=f"{limit.words} is 0", advice=_raise(limit))
    return None


def _full_dir_stall(facts: CopyFacts) -> CopyStall | None:
    free, missing = facts.free_bytes, facts.missing_bytes
    if free is None or missing is None or free >= missing:
        return None
    return CopyStall(
        cause=Cause.DIR_FULL,
        words=f"log dir {facts.log_dir} of broker {facts.broker} has {format_bytes(free)} free, "
        f"{format_bytes(missing)} are to come",
        advice="free space there, or cancel the move before the dir goes offline"
        + (f": {facts.cancel}" if facts.cancel else ""),
    )


def _below_ingest(facts: CopyFacts) -> CopyStall | None:
    for limit in facts.limits:
        if limit.rate <= limit.ingest_bytes_per_s:
            return CopyStall(
                cause=Cause.BELOW_INGEST,
                words=f"{limit.words} is {format_rate(limit.rate)}, the partitions that move under it take in "
                f"{format_rate(limit.ingest_bytes_per_s)}",
                advice=_raise(limit),
            )
    return None


def _wildcard(facts: CopyFacts) -> CopyStall | None:
    limit = next((limit for limit in facts.limits if limit.wildcard), None)
    if limit is None:
        return None
    return CopyStall(
        cause=Cause.WILDCARD,
        words=f"{FOLLOWER_LIST if limit.side == 'in' else LEADER_LIST} of topic {facts.key.topic} is *, so replication "
        "of replicas in sync uses up the "
        f"{format_rate(limit.rate)} of broker {limit.broker}",
        advice="replace * by the copies that move, as kafkakit's own runs do",
    )


def _silent_leader(facts: CopyFacts) -> CopyStall | None:
    if facts.leader_answers:
        return None
    return CopyStall(
        cause=Cause.SILENT_LEADER,
        words=f"broker {facts.leader}, which leads the partition, does not answer",
        advice="check whether its process hangs, and restart it: another replica then leads",
    )


def _unknown(facts: CopyFacts, quiet_s: float) -> CopyStall:
    return CopyStall(
        cause=Cause.UNKNOWN,
        words=f"no bytes arrived for {format_rough_time(quiet_s)}, for no reason that is visible from outside",
        advice=f"read the log of broker {facts.broker} for its fetcher from broker {facts.leader}",
    )


def _raise(limit: Limit) -> str:
    return "raise the broker's own setting; if a kafkakit run set it: kafkakit reassign throttle RATE"
