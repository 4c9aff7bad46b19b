"""Ending an operation: aborting it before producers have moved, and deleting what it left after they have."""

from kafkakit.core.durations import epoch_ms, format_span
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.streams.failover.act.journals import Journal, OperationJournals, state_of
from kafkakit.streams.failover.act.run import RunParts
from kafkakit.streams.failover.act.verification import check_certificate
from kafkakit.streams.failover.decide.certificate import DrainCertificate
from kafkakit.streams.failover.decide.journal import OperationRecord, Word
from kafkakit.streams.failover.decide.operation import Operation, Step
from kafkakit.streams.failover.decide.outcome import Closing
from kafkakit.streams.failover.decide.route_edits import withdrawn
from kafkakit.streams.model.route import Route, Segment, SegmentState
from kafkakit.streams.routes.api_act import OpenCluster, find_topics


def newest(journals: OperationJournals, route: Route) -> OperationRecord | None:
    """The operation that the route names, or the newest that was ever begun."""
    if route.operation is not None:
        return journals.record(route.operation.id)
    found = (journals.record(name) for name in reversed(journals.names()))
    return next((record for record in found if record is not None and record.reached_ms), None)


def newest_certificate(journals: OperationJournals, operation: str = "") -> tuple[DrainCertificate, bytes]:
    """The certificate of an operation, or the newest that counts; `RefusedError` where there is none."""
    if operation and operation not in journals.names():
        raise RefusedError(f"the stream has no operation {operation}", hint="kafkakit streams failover history STREAM")
    for name in (operation,) if operation else reversed(journals.names()):
        record = journals.record(name)
        if record is not None and record.certificate:
            found, data = journals.certificate(name)
            if found.sha256 != record.certificate:
                raise RefusedError(f"the certificate of operation {name} is not the one that its journal names")
            return found, data
    words = f"operation {operation} has no certificate" if operation else "no operation of the stream has a certificate"
    raise RefusedError(words, hint="kafkakit streams failover certify")


def hash_in_journal(journals: OperationJournals, operation: str) -> str | None:
    """The hash of the certificate that counts, by the operation's journal; None where the store has no journal."""
    record = journals.record(operation) if operation in journals.names() else None
    return None if record is None else record.certificate


def abortable(parts: RunParts, stream: str, open_cluster: OpenCluster) -> Closing:
    """What an abort would delete; `RefusedError` where nothing can be aborted."""
    journal = _to_abort(parts, stream)
    made = _made(state_of(journal).operation, open_cluster)
    return Closing(
        record=state_of(journal), results=tuple((each.topic, "would be deleted if empty") for each in made.values())
    )


def abort(parts: RunParts, open_cluster: OpenCluster, stream: str) -> Closing:
    """Take an operation back whose producers have not moved: the route first, then its empty topics.

    May be repeated after a crash; raises `RefusedError` once producers were sent to the target.
    """
    journal = _to_abort(parts, stream)
    operation = state_of(journal).operation
    route = parts.routes.existing(stream).route
    if route.operation is not None:
        journal.intent(Word.ABORT, {"epoch": route.epoch})
        parts.require_held()
        parts.routes.change(
            stream,
            lambda found: withdrawn(operation, found),
            by=parts.operator,
            what=f"operation {operation.id}: abort",
            at_ms=epoch_ms(parts.clock.now()),
        )
    made = _made(operation, open_cluster)
    results = tuple((each.topic, parts.effects.delete(each, only_empty=True)) for each in made.values())
    left = parts.routes.existing(stream).route
    for lane, each in made.items():
        parts.effects.drop_quota(left, lane, each)
    journal.check(Word.STEP, {"step": Step.ABORTED, "epoch": route.epoch})
    return Closing(record=state_of(journal), results=results)


def reclaimable(parts: RunParts, open_cluster: OpenCluster, operation: str = "") -> Closing:
    """What a reclaim would delete, with the check of its certificate; `RefusedError` for one that is not retired."""
    certificate, _ = newest_certificate(parts.journals, operation)
    record = parts.journals.record(certificate.operation)
    route = parts.routes.existing(certificate.stream).route
    if record is None:
        raise RefusedError(f"operation {certificate.operation} has no journal")
    _require_retired(record, route)
    check = check_certificate(certificate, open_cluster, record.certificate)
    results = tuple((each.topic, "would be deleted") for each in certificate.segments)
    return Closing(record=record, results=results, check=check)


def reclaim(parts: RunParts, open_cluster: OpenCluster, operation: str, *, grace_s: float, keep: bool) -> Closing:
    """Delete the old topics of a retired operation by their ids, once the grace is over and nothing came late.

    With `keep` they stay as they are, and the operation is closed. Raises `TryLaterError` within the grace and while a
    cluster cannot be read, so that a late record is not deleted.
    """
    found = reclaimable(parts, open_cluster, operation)
    journal, check = parts.journals.open(operation), found.check
    record, route = state_of(journal), parts.routes.existing(found.record.operation.stream).route
    if check is None or check.late or check.short:
        return Closing(record=record, results=(), check=check)
    if Step.RETIRED not in record.reached_ms:
        journal.check(Word.STEP, {"step": Step.RETIRED, "epoch": route.epoch})
        record = state_of(journal)
    left_s = grace_s - (epoch_ms(parts.clock.now()) - record.reached_ms[Step.RETIRED]) / 1000
    if left_s > 0 and not keep:
        words = f"the grace of operation {operation} ends in {format_span(left_s)}"
        raise TryLaterError(words, hint="--grace 0 ends it now")
    if check.unread and not keep:
        raise TryLaterError(f"not every old topic can be checked: {check.unread[0]}")
    results = []
    for each in check.certificate.segments:
        journal.intent(Word.RECLAIM, {"topic": each.topic, "topic_id": each.topic_id, "keep": keep})
        # A store that fails over may lose its newest write: behind the intent, the retirement is not the newest.
        _require_retired(record, parts.routes.existing(record.operation.stream).route)
        segment = each.as_segment()
        result = "kept" if keep else parts.effects.delete(segment, only_empty=False)
        if result in ("deleted", "does not exist"):
            fences = [fence for fence in record.fences if fence.segment == each.segment]
            parts.effects.drop_bindings(segment, tuple(b for fence in fences for b in fence.bindings))
            parts.effects.drop_quota(route, each.lane, segment)
        results.append((each.topic, result))
    journal.check(Word.STEP, {"step": Step.RECLAIMED, "epoch": route.epoch})
    return Closing(record=state_of(journal), results=tuple(results), check=check)


def _require_retired(record: OperationRecord, route: Route) -> None:
    if record.operation.old_segments(route):
        raise RefusedError(f"operation {record.operation.id} is not retired", hint="kafkakit streams failover retire")


def _to_abort(parts: RunParts, stream: str) -> Journal:
    """The journal of the operation that is open, or whose abort was cut after the route was changed."""
    route = parts.routes.existing(stream).route
    names = (route.operation.id,) if route.operation is not None else reversed(parts.journals.names())
    for name in names:
        journal = parts.journals.open(name)
        record = journal.state
        if record is None:
            continue
        if Step.ROUTED in record.reached_ms:
            raise RefusedError(f"operation {name} has sent producers to its target, and cannot be aborted")
        if route.operation is not None:
            withdrawn(record.operation, route)
            return journal
        if record.is_aborting and record.end is None:
            return journal
        break
    raise RefusedError(f"stream {stream} has no operation that could be aborted")


def _made(operation: Operation, open_cluster: OpenCluster) -> dict[str, Segment]:
    """By lane the topics of the target that are there: their names hold the operation's epoch, so they are its own."""
    cluster = open_cluster(operation.request.to)
    cluster_id = cluster.admin.cluster().cluster_id
    if cluster_id != operation.cluster_id:
        raise RefusedError(f"profile {operation.request.to} reaches cluster {cluster_id}, not {operation.cluster_id}")
    found = find_topics(cluster.admin, {move.topic for move in operation.moves})
    return {
        move.lane: Segment(
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
    }
