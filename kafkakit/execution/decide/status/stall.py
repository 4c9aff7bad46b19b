"""Why a copy gets no nearer to its source, and what to do about it: the likely reasons, the certain ones first.

Throttled copies come in lumps, and after a rate was lowered nothing comes for 8 to 9 s; a copy that shares a
throttle with many others waits longer for its turn. So only what is certain is told at once, the rest after a while.
"""

from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import format_bytes, format_rate, format_rough_time

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
class Stall:
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
        return f"the throttle of broker {self.broker} for {'receiving' if self.side == 'in' else 'sending'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFacts:
    """All that is known of one new copy.

    `destination` is what the cluster says of its broker (`alive`, `fenced`, ...; empty: not registered), the two
    `answers` whether the brokers told their log dirs. `offline_dirs` are dirs in error in one of which it must be;
    `free_bytes` is what its own dir has left. `missing_bytes` are those behind the source, None when unknown.
    `quiet_s` is how long it did not grow at the end of the window (None: not watched long enough to say), `nearing`
    whether it came nearer to its source over the window. `others_grow`: other copies to the same broker do.
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


def stall_of(facts: CopyFacts) -> Stall | None:
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
    return _full(facts) or below or _wildcard(facts) or _silent_leader(facts) or _unknown(facts, facts.quiet_s)


def _certain(facts: CopyFacts) -> Stall | None:
    """What is so whether or not bytes were counted."""
    at, undo = f"broker {facts.broker}", "or undo the move"
    if facts.destination != "alive":
        state = f"is {facts.destination}" if facts.destination not in ("", "missing") else "is not registered"
        return Stall(cause=Cause.DEAD_DESTINATION, words=f"{at} {state}", advice=f"start it again, {undo}")
    if not facts.topic_exists:
        return Stall(
            cause=Cause.DELETED,
            words=f"topic {facts.key.topic} is deleted",
            advice="nothing to do: the cluster drops the move, a run leaves it out",
        )
    if not facts.destination_answers:
        return Stall(
            cause=Cause.SILENT_DESTINATION,
            words=f"{at} counts as alive but does not answer",
            advice="check whether its process hangs, and restart it",
        )
    if facts.leader is None:
        back = f"bring back broker {' or '.join(map(str, facts.could_lead))}" if facts.could_lead else "bring back one"
        return Stall(cause=Cause.NO_LEADER, words="no live broker leads the partition, nothing is copied", advice=back)
    if facts.offline_dirs:
        dirs = " or ".join(facts.offline_dirs)
        return Stall(
            cause=Cause.DIR_OFFLINE,
            words=f"log dir {dirs} of {at} is offline",
            advice=f"repair the disk and restart the broker, {undo}",
        )
    for limit in facts.limits:
        if limit.rate == 0:
            return Stall(cause=Cause.ZERO_RATE, words=f"{limit.words} is 0", advice=_raise(limit))
    return None


def _full(facts: CopyFacts) -> Stall | None:
    free, missing = facts.free_bytes, facts.missing_bytes
    if free is None or missing is None or free >= missing:
        return None
    return Stall(
        cause=Cause.DIR_FULL,
        words=f"log dir {facts.log_dir} of broker {facts.broker} has {format_bytes(free)} free, "
        f"{format_bytes(missing)} are to come",
        advice="free space there, or undo the move before the dir goes offline",
    )


def _below_ingest(facts: CopyFacts) -> Stall | None:
    for limit in facts.limits:
        if limit.rate <= limit.ingest_bytes_per_s:
            return Stall(
                cause=Cause.BELOW_INGEST,
                words=f"{limit.words} is {format_rate(limit.rate)}, the partitions that move under it take in "
                f"{format_rate(limit.ingest_bytes_per_s)}",
                advice=_raise(limit),
            )
    return None


def _wildcard(facts: CopyFacts) -> Stall | None:
    limit = next((limit for limit in facts.limits if limit.wildcard), None)
    if limit is None:
        return None
    return Stall(
        cause=Cause.WILDCARD,
        words=f"the throttle list of topic {facts.key.topic} is *, so traffic in sync uses up the "
        f"{format_rate(limit.rate)} of broker {limit.broker}",
        advice="replace * by the copies that move, as kafkakit's own runs do",
    )


def _silent_leader(facts: CopyFacts) -> Stall | None:
    if facts.leader_answers:
        return None
    return Stall(
        cause=Cause.SILENT_LEADER,
        words=f"broker {facts.leader}, which leads the partition, does not answer",
        advice="check whether its process hangs, and restart it: another replica then leads",
    )


def _unknown(facts: CopyFacts, quiet_s: float) -> Stall:
    return Stall(
        cause=Cause.UNKNOWN,
        words=f"no byte came for {format_rough_time(quiet_s)}, for no reason that is visible from outside",
        advice=f"read the log of broker {facts.broker} for its fetcher from broker {facts.leader}",
    )


def _raise(limit: Limit) -> str:
    return "raise it: kafkakit reassign throttle RATE, or the broker's own setting where no run of ours set it"
