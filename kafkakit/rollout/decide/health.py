"""The health of a cluster while configuration changes: what one look shows, as numbers by signal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.cluster_facts import PartitionState
from kafkakit.core.model import TopicPartition


class Signal(StrEnum):
    """What is watched; a look has those that its source tells."""

    OFFLINE = "offline partitions"
    UNDER_MIN_ISR = "partitions under min ISR"
    UNDER_REPLICATED = "under-replicated partitions"
    SHRINKS = "ISR shrinks"
    EXPANDS = "ISR expands"
    LEADER_CHANGES = "leader changes"
    CLIENT_ERRORS = "client errors"
    REQUEST_MS = "ms of produce requests (p99)"
    METADATA_MS = "ms of a metadata answer"


GAUGES = frozenset({Signal.OFFLINE, Signal.UNDER_MIN_ISR, Signal.UNDER_REPLICATED})
EVENTS = frozenset({Signal.SHRINKS, Signal.EXPANDS, Signal.LEADER_CHANGES, Signal.CLIENT_ERRORS})


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLook:
    """One look: the signals that were told, events since the look before; `problem` says why some are missing."""

    at_ms: int
    values: Mapping[Signal, float] = field(default_factory=dict)
    problem: str = ""
    worst: tuple[str, ...] = ()
    """Partitions that are offline or under min ISR, a few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """The partitions of a cluster at one moment, and how many copies of each topic must be in sync."""

    at_ms: int
    states: Mapping[TopicPartition, PartitionState]
    min_isr: Mapping[str, int]
    answer_ms: float


def look_between(before: PartitionView | None, now: PartitionView) -> HealthLook:
    """What the partitions show now, and what happened since the view before; O(partitions).

    Copies that come and go between two views are not seen.
    """
    offline = [key for key, s in now.states.items() if s.leader is None]
    under = [
        key for key, s in now.states.items() if s.leader is not None and len(s.isr) < now.min_isr.get(key.topic, 1)
    ]
    lacking = sum(1 for s in now.states.values() if not set(s.replicas) <= set(s.isr))
    values: dict[Signal, float] = {
        Signal.OFFLINE: len(offline),
        Signal.UNDER_MIN_ISR: len(under),
        Signal.UNDER_REPLICATED: lacking,
        Signal.METADATA_MS: now.answer_ms,
    }
    if before is not None:
        both = [(before.states[key], s) for key, s in now.states.items() if key in before.states]
        values |= {
            Signal.SHRINKS: sum(len(set(old.isr) - set(new.isr)) for old, new in both),
            Signal.EXPANDS: sum(len(set(new.isr) - set(old.isr)) for old, new in both),
            Signal.LEADER_CHANGES: sum(1 for old, new in both if new.leader not in (old.leader, None)),
        }
    return HealthLook(at_ms=now.at_ms, values=values, worst=tuple(str(key) for key in (*offline, *under)[:8]))


def joined(of_brokers: HealthLook, of_metrics: HealthLook | None) -> HealthLook:
    """One look from both sources; what a metrics service tells counts before what the brokers tell."""
    if of_metrics is None:
        return of_brokers
    problem = "; ".join(filter(None, (of_brokers.problem, of_metrics.problem)))
    return HealthLook(
        at_ms=of_brokers.at_ms,
        values={**of_brokers.values, **of_metrics.values},
        problem=problem,
        worst=of_brokers.worst,
    )


def looks_in(window_s: float, every_s: float) -> int:
    """How many looks a window has."""
    return max(2, round(window_s / every_s))


def series(looks: Sequence[HealthLook], signal: Signal) -> tuple[float, ...]:
    """The values of one signal, in order of the looks that have it."""
    return tuple(look.values[signal] for look in looks if signal in look.values)
