"""The plan of a failover: a verdict for each precondition, the fences, the window, and the duplicate budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import msgspec

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.streams.failover.decide.backlog import BacklogRow, Pace, backlog_rows
from kafkakit.streams.failover.decide.commits import DuplicateBudget, duplicate_budget, metadata_hazards
from kafkakit.streams.failover.decide.evidence import Evidence
from kafkakit.streams.failover.decide.fences import FenceVerdict, judge_fences
from kafkakit.streams.failover.decide.operation import FailoverRequest, LaneMove, Operation
from kafkakit.streams.failover.decide.preconditions import (
    Level,
    TargetPlace,
    Verdict,
    judge_preconditions,
    known_segments,
)
from kafkakit.streams.failover.decide.quiet import Basis, window_s
from kafkakit.streams.model.route import Lane, Route, SegmentState, topic_name


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """What would be done and what speaks against it. `fences` and `topics` are by old segment id, windows by basis."""

    operation: Operation
    verdicts: tuple[Verdict, ...]
    backlog: tuple[BacklogRow, ...] = ()
    fences: Mapping[int, tuple[FenceVerdict, ...]] = field(default_factory=dict)
    topics: Mapping[int, str] = field(default_factory=dict)
    windows_s: Mapping[Basis, float] = field(default_factory=dict)
    budget: DuplicateBudget = field(default_factory=DuplicateBudget)

    @property
    def sha256(self) -> str:
        """What an approval is about: the same for the same plan of another process, and another one for any change of
        the route, the request, the topics or the groups."""
        essence = replace(self.operation, id="", operator="", started_ms=0, approval="", starts={})
        return sha256(msgspec.json.encode(essence, order="deterministic")).hexdigest()

    @property
    def refused(self) -> tuple[Verdict, ...]:
        """The verdicts that keep the operation from being begun."""
        return tuple(verdict for verdict in self.verdicts if verdict.level is Level.REFUSED)


def moves_of(request: FailoverRequest, route: Route, configs: Mapping[str, Mapping[str, str]]) -> tuple[LaneMove, ...]:
    """The lanes that move and the topics that take their writes, of the shape of those that are written now.

    Raises `UsageError` for a lane that the stream does not have, and where no lane is left to move.
    """
    unknown = sorted(set(request.lanes) - {lane.name for lane in route.lanes})
    if unknown:
        raise UsageError(f"stream {route.stream} has no lane {', '.join(unknown)}")
    chosen = [lane for lane in route.lanes if lane.active and (not request.lanes or lane.name in request.lanes)]
    opened = [lane.name for lane in chosen for each in lane.segments if each.state is SegmentState.OPENED]
    if opened:
        raise RefusedError(f"lane {opened[0]} has a segment that is opened already", hint="finish or remove it first")
    alike = [lane.name for lane in chosen if lane.active and lane.active.partitions == request.partitions]
    if alike:
        raise UsageError(f"lane {alike[0]} of stream {route.stream} has {request.partitions} partitions already")
    if not chosen:
        raise UsageError(f"stream {route.stream} has no active segment that could move")
    return tuple(_move(request, route, lane, configs.get(lane.name, {})) for lane in chosen)


def required_groups(request: FailoverRequest, route: Route, evidence: Evidence) -> tuple[str, ...]:
    """The groups that must have read the old segments: those of the route, those that are named, those that registered
    or committed for an old topic; without the ignored ones."""
    found = {rule.name for rule in route.groups} | set(request.groups)
    found |= {client.group for client in evidence.clients if not client.is_producer and client.group}
    found |= {name for facts in evidence.old.values() for name in facts.groups}
    return tuple(sorted(found - set(request.ignored)))


def make_plan(
    operation: Operation, evidence: Evidence, place: TargetPlace, sizes: Mapping[int, int | None], pace: Pace
) -> FailoverPlan:
    """Judge every precondition; `sizes` are the bytes of one copy of each old segment."""
    old, request = known_segments(operation, evidence), operation.request
    budget = duplicate_budget(old, operation.groups)
    verdicts = [*judge_preconditions(operation, evidence, place, sizes)]
    for group, topic, text in metadata_hazards(old, operation.groups):
        verdicts.append(Verdict(check="metadata", level=Level.WARNING, where=group, text=f"{topic}: {text}"))
    over = budget.problem(request.max_duplicates)
    if over:
        verdicts.append(Verdict(check="duplicates", level=Level.REFUSED, where=operation.stream, text=over))
    return FailoverPlan(
        operation=operation,
        verdicts=tuple(verdicts),
        backlog=tuple(backlog_rows(operation, old.values(), sizes, pace, evidence.now_ms)),
        fences={
            number: judge_fences(operation, segment, facts, evidence.writers[number])
            for number, (segment, facts) in old.items()
            if number in evidence.writers
        },
        topics={number: segment.topic for number, (segment, _) in old.items()},
        windows_s={basis: window_s(request, basis, evidence) for basis in Basis},
        budget=budget,
    )


def _move(request: FailoverRequest, route: Route, lane: Lane, configs: Mapping[str, str]) -> LaneMove:
    if lane.active is None:
        raise UsageError(f"lane {lane.name} has no active segment")
    return LaneMove(
        lane=lane.name,
        sources=tuple(segment.id for segment in lane.segments),
        topic=topic_name(route.stream, lane.name, route.epoch + 1),
        partitions=request.partitions or lane.active.partitions,
        replication=0,
        configs=tuple(sorted(configs.items())),
    )
