"""From routed to sealed: fences, transactions, and the window in which the ends of old topics stay the same."""

from kafkakit.streams.failover.decide.actions import (
    Action,
    ChangeRoute,
    LowerFence,
    RaiseFence,
    Refuse,
    RouteEdit,
    Wait,
)
from kafkakit.streams.failover.decide.drained import Item, waiting_producers
from kafkakit.streams.failover.decide.evidence import Evidence, TopicFacts
from kafkakit.streams.failover.decide.fences import choose_fence, judge_fences
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import FenceChoice, FenceKind
from kafkakit.streams.failover.decide.quiet import Basis, window_s
from kafkakit.streams.model.route import Segment, SegmentState

FENCE_AFTER_S = 5.0
"""How long registered producers have to move before an automatic fence goes up, which fails their sends."""


def strand(record: OperationRecord, evidence: Evidence) -> Action | None:
    """Mark what cannot be reached, in an emergency; None: there is nothing to mark."""
    gone = [segment for _, segment in record.operation.old_segments(evidence.route) if _is_away(segment, evidence)]
    if record.request.is_emergency and any(segment.state is not SegmentState.STRANDED for segment in gone):
        return ChangeRoute(edit=RouteEdit.STRAND)
    return None


def quiesce(record: OperationRecord, evidence: Evidence) -> Action:
    """Old topics until they can be sealed."""
    old = [segment for _, segment in record.operation.old_segments(evidence.route)]
    away = [segment for segment in old if _is_away(segment, evidence)]
    if away:
        lines = tuple(f"{each.topic}: {_problem(each, evidence)}" for each in away)
        reason = "stranded" if record.request.is_emergency else "source-unreachable"
        lines = (*lines, "producers have moved; the old topics are sealed and drained once their cluster answers")
        return strand(record, evidence) or Wait(reason=reason, lines=lines)
    differing = refuse_others(record, evidence)
    if differing is not None:
        return differing
    fence = _fence(record, evidence, old)
    if fence is not None:
        return fence
    open_in = [each.topic for each in old if _has_open(evidence.old[each.id])]
    if open_in:
        return Wait(reason=Item.TRANSACTIONS, lines=tuple(f"{topic}: a transaction is open" for topic in open_in))
    quiet = evidence.quiet
    if quiet is None:
        return Wait(reason="quiet", lines=("not every end of an old log could be read",))
    wanted = window_s(record.request, Basis(quiet.basis), evidence)
    if quiet.seconds < wanted:
        behind = waiting_producers(evidence, record.routed_epoch or evidence.route.epoch)
        words = f"the ends of old logs must stay the same for {wanted:g} s (basis: {quiet.basis})"
        moving = tuple(f"producer {each} has not moved yet" for each in behind[:5])
        return Wait(reason="quiet", lines=(words, *moving), seconds=wanted - quiet.seconds)
    if any(len(evidence.old[each.id].effective) < each.partitions for each in old):
        return Wait(reason="effective-ends", lines=("the last records of old logs could not be found yet",))
    return ChangeRoute(edit=RouteEdit.SEAL)


def refuse_others(record: OperationRecord, evidence: Evidence) -> Refuse | None:
    """Refuse where a cluster that answers is another one, or has another topic under the name; None: all are meant."""
    found = ((segment, evidence.old.get(segment.id)) for _, segment in record.operation.old_segments(evidence.route))
    lines = tuple(
        f"{segment.topic}: {facts.problem}"
        for segment, facts in found
        if facts is not None and facts.is_reachable and facts.problem
    )
    return Refuse(reason="source-differs", lines=lines) if lines else None


def _fence(record: OperationRecord, evidence: Evidence, old: list[Segment]) -> Action | None:
    """Raise a fence where one is wanted and can be used; take one away that holds up a transaction."""
    choice, epoch = record.request.fence, record.routed_epoch or evidence.route.epoch
    for segment in old:
        writers = evidence.writers.get(segment.id)
        if writers is None or choice is FenceChoice.NONE:
            continue
        if writers.problem and choice is not FenceChoice.AUTO:
            return Wait(reason="fence-unknown", lines=(f"{segment.topic}: {writers.problem}",))
        raised = [each.kind for each in record.fences if each.segment == segment.id]
        if FenceKind.CONFIG in raised and writers.open_transactions:
            return LowerFence(segment=segment, transactions=writers.open_transactions)
        is_early = waiting_producers(evidence, epoch) and evidence.routed_for_s < FENCE_AFTER_S
        if segment.id in evidence.fenced | evidence.delayed or (choice is FenceChoice.AUTO and is_early):
            continue
        verdicts = judge_fences(record.operation, segment, evidence.old[segment.id], writers)
        kind = raised[0] if raised else choose_fence(choice, verdicts)
        if kind is not FenceKind.NONE:
            return RaiseFence(segment=segment, kind=kind)
    return None


def _is_away(segment: Segment, evidence: Evidence) -> bool:
    facts = evidence.old.get(segment.id)
    return facts is None or not facts.is_reachable


def _problem(segment: Segment, evidence: Evidence) -> str:
    facts = evidence.old.get(segment.id)
    return "it was not looked at" if facts is None else facts.problem


def _has_open(facts: TopicFacts) -> bool:
    return any(span.stable < span.end for span in (facts.whole_spans or {}).values())
