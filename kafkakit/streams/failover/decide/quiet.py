"""When old topics count as quiet: two equal readings of their ends, far enough apart, on a stated basis.

A reading that failed proves nothing and changes nothing. A change of the basis (a fence went up, the last producer
moved) begins the window again, since what was seen before it may have been written under the weaker one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from kafkakit.streams.failover.decide.evidence import Evidence, Quiet, TopicFacts
from kafkakit.streams.failover.decide.operation import (
    DEFAULT_QUIET_S,
    SHORT_WINDOW_S,
    SKEW_S,
    FailoverRequest,
    FenceKind,
    Operation,
)
from kafkakit.streams.model.route import Route

Ends: TypeAlias = Mapping[tuple[int, int], int]
"""End offsets by segment id and partition."""


class Basis(StrEnum):
    """Why the ends are not expected to grow; FENCE is the strongest."""

    FENCE = "fence"
    ACKNOWLEDGED = "acknowledged"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWatch:
    """The readings of one process: `since_s` is after the first equal one, `seen_s` before the latest equal one."""

    basis: Basis
    ends: Ends
    since_s: float
    seen_s: float

    @property
    def seconds(self) -> float:
        """How far the first and the latest equal reading are apart."""
        return max(0.0, self.seen_s - self.since_s)


def watch_ends(
    watch: QuietWatch | None, basis: Basis, ends: Ends | None, began_s: float, ended_s: float
) -> QuietWatch | None:
    """Take one more reading into account, which began and ended at these times of a clock that never goes back."""
    if ends is None:
        return watch if watch is None or watch.basis is basis else None
    if watch is None or watch.basis is not basis or watch.ends != ends:
        return QuietWatch(basis=basis, ends=ends, since_s=ended_s, seen_s=ended_s)
    return QuietWatch(basis=basis, ends=ends, since_s=watch.since_s, seen_s=began_s)


def ends_of(operation: Operation, route: Route, old: Mapping[int, TopicFacts]) -> Ends | None:
    """The ends of all old logs; None unless every one was read."""
    found: dict[tuple[int, int], int] = {}
    for _, segment in operation.old_segments(route):
        facts = old.get(segment.id)
        spans = None if facts is None or facts.problem else facts.whole_spans
        if spans is None:
            return None
        found |= {(segment.id, number): span.end for number, span in spans.items()}
    return found


def basis_of(evidence: Evidence, old: Iterable[int], epoch: int) -> Basis:
    """The strongest basis that this look shows: fences on all old topics, or every registered producer has moved."""
    if set(old) <= evidence.fenced:
        return Basis.FENCE
    producers = evidence.producers()
    silent = any(client.is_producer and client.is_silent for client in evidence.clients)
    is_moved = bool(producers) and all(client.epoch >= epoch for client in producers)
    return Basis.ACKNOWLEDGED if is_moved and not silent else Basis.TIME


def window_s(request: FailoverRequest, basis: Basis, evidence: Evidence) -> float:
    """How long the ends must stay the same: short on a proof, else as long as a producer may keep trying.

    A window of the operator is about producers that nothing is known of: one that is registered, lives and has not
    moved may still write for its delivery timeout.
    """
    if basis is not Basis.TIME:
        return SHORT_WINDOW_S
    if request.quiet_s is not None:
        behind = [each.delivery_timeout_s for each in evidence.producers() if each.epoch < evidence.route.epoch]
        return max(request.quiet_s, max(behind) + SKEW_S) if behind else request.quiet_s
    longest = max((client.delivery_timeout_s for client in evidence.clients if client.is_producer), default=0.0)
    return max(DEFAULT_QUIET_S, longest) + SKEW_S


def quiet_of(watch: QuietWatch | None, fence: FenceKind) -> Quiet | None:
    """The watch as evidence."""
    return None if watch is None else Quiet(basis=watch.basis, seconds=watch.seconds, fence=fence)
