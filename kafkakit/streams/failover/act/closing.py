"""Ending an operation: aborting it before producers have moved, and deleting what it left after they have."""

from dataclasses import dataclass

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.streams.failover.act.journals import Journal, state_of
from kafkakit.streams.failover.act.run import RunParts
from kafkakit.streams.failover.act.verification import CertificateCheck, check_certificate
from kafkakit.streams.failover.decide.journal import OperationRecord, Word
from kafkakit.streams.failover.decide.operation import Operation, Step
from kafkakit.streams.failover.decide.route_edits import withdrawn
from kafkakit.streams.routes.api import Segment, SegmentState
from kafkakit.streams.routes.api_act import OpenCluster, find_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What became of the topics of an operation, by name and in words."""

    record: OperationRecord
    results: tuple[tuple[str, str], ...]
    check: CertificateCheck | None = None


def abort(parts: RunParts, open_cluster: OpenCluster, journal: Journal) -> Closing:
    """Take an operation back whose producers have not moved: the route first, then its empty topics.

    May be repeated after a crash; raises `RefusedError` once producers were sent to the target.
    """
    operation = state_of(journal).operation
    route = parts.routes.existing(operation.stream).route
    if route.operation is not None and route.operation.id == operation.id:
        withdrawn(operation, route)
        journal.intent(Word.ABORT, {"epoch": route.epoch})
        parts.require_held()
        parts.routes.change(
            operation.stream,
            lambda found: withdrawn(operation, found),
            by=parts.operator,
            what=f"operation {operation.id}: abort",
            at_ms=epoch_ms(parts.clock.now()),
        )
    elif not state_of(journal).is_aborting:
        raise RefusedError(f"operation {operation.id} of stream {operation.stream} is not open")
    results = tuple(
        (each.topic, parts.effects.delete(each, only_empty=True)) for each in _made(operation, open_cluster)
    )
    journal.check(Word.STEP, {"step": Step.ABORTED, "epoch": route.epoch})
    return Closing(record=state_of(journal), results=results)


def reclaim(parts: RunParts, open_cluster: OpenCluster, journal: Journal, *, grace_s: float, keep: bool) -> Closing:
    """Delete the old topics of a retired operation by their ids, once the grace is over and nothing came late.

    With `keep` they stay as they are, and the operation is closed. Raises `RefusedError` for an operation that is not
    retired, `TryLaterError` within the grace and while a cluster cannot be read, so that a late record is not deleted.
    """
    record = state_of(journal)
    operation, retired_ms = record.operation, record.reached_ms.get(Step.RETIRED)
    route = parts.routes.existing(operation.stream).route
    if retired_ms is None or operation.old_segments(route):
        raise RefusedError(f"operation {operation.id} is not retired", hint="kafkakit streams failover retire")
    left_s = grace_s - (epoch_ms(parts.clock.now()) - retired_ms) / 1000
    if left_s > 0 and not keep:
        raise TryLaterError(
            f"the grace of operation {operation.id} ends in {left_s:.0f} s", hint="--grace 0 ends it now"
        )
    certificate, _ = parts.journals.certificate(operation.id)
    check = check_certificate(certificate, open_cluster, record.certificate)
    if check.late or check.short:
        return Closing(record=record, results=(), check=check)
    if check.unread and not keep:
        raise TryLaterError(f"not every old topic can be checked: {check.unread[0]}")
    results = []
    for each in certificate.segments:
        journal.intent(Word.RECLAIM, {"topic": each.topic, "topic_id": each.topic_id, "keep": keep})
        segment = each.as_segment()
        result = "kept" if keep else parts.effects.delete(segment, only_empty=False)
        if result in ("deleted", "does not exist"):
            fences = [fence for fence in record.fences if fence.segment == each.segment]
            parts.effects.drop_bindings(segment, tuple(b for fence in fences for b in fence.bindings))
        results.append((each.topic, result))
    journal.check(Word.STEP, {"step": Step.RECLAIMED, "epoch": route.epoch})
    return Closing(record=state_of(journal), results=tuple(results), check=check)


def _made(operation: Operation, open_cluster: OpenCluster) -> tuple[Segment, ...]:
    """The topics of the target that are there: their names hold the epoch of this operation, so they are its own."""
    cluster = open_cluster(operation.request.to)
    cluster_id = cluster.admin.cluster().cluster_id
    if cluster_id != operation.cluster_id:
        raise RefusedError(f"profile {operation.request.to} reaches cluster {cluster_id}, not {operation.cluster_id}")
    found = find_topics(cluster.admin, {move.topic for move in operation.moves})
    return tuple(
        Segment(
            id=0,
            cluster=operation.request.to,
            cluster_id=cluster_id,
            topic=move.topic,
            topic_id=found[move.topic].topic_id or "",
            partitions=found[move.topic].partitions,
            state=SegmentState.OPENED,
        )
        for move in operation.moves
        if move.topic in found
    )
