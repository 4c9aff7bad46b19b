"""How operations end: taken back before producers have moved, or with the old topics deleted, and the proof kept.

An operation can be aborted before producers have moved; what it left is deleted after they have: an old topic at once,
one with dead letters when they are gone or copied. A record that came after a seal keeps its topic, until it is copied
to the current one.
"""

from dataclasses import replace

from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.core.journal_lines import line_data
from kafkakit.core.quantities import count_of, epoch_ms, format_span
from kafkakit.core.text import shell_command
from kafkakit.streams.failover.act.observing import check_certificate, read_old
from kafkakit.streams.failover.act.run import FailoverParts, Journal, OperationJournals, state_of
from kafkakit.streams.failover.decide.drain_proof import late_spans, uncopied_ranges
from kafkakit.streams.failover.decide.history import CertificateCheck, ClosingResult, DrainCertificate, SegmentEvidence
from kafkakit.streams.failover.decide.operation import Failover, LineSubject, OldCopies, OperationRecord, Step
from kafkakit.streams.failover.decide.steps import withdraw_operation
from kafkakit.streams.model.route import DLQ, Route, Segment, SegmentState
from kafkakit.streams.model.route_edits import given_up
from kafkakit.streams.routes.api_act import OpenCluster, find_topics


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
    raise RefusedError(words, hint="kafkakit streams failover certify STREAM")


def check_again(
    certificate: DrainCertificate, journals: OperationJournals, open_cluster: OpenCluster
) -> CertificateCheck:
    """A certificate against what is there now, and against the journal of its operation if the store has that.

    What the journal says is copied of the records that came after a seal is not late any more.
    """
    name = certificate.operation
    record = journals.record(name) if name in journals.names() else None
    if record is None:
        return check_certificate(certificate, open_cluster, None)
    return check_certificate(certificate, open_cluster, record.certificate, record.copies)


def read_abortable(parts: FailoverParts, stream: str, open_cluster: OpenCluster) -> ClosingResult:
    """What an abort would delete; `RefusedError` where nothing can be aborted."""
    journal = _to_abort(parts, stream)
    made = _made_topics(state_of(journal).operation, open_cluster)
    return ClosingResult(
        record=state_of(journal), results=tuple((each.topic, "would be deleted if empty") for each in made.values())
    )


def abort(parts: FailoverParts, open_cluster: OpenCluster, stream: str) -> ClosingResult:
    """Take an operation back whose producers have not moved: the route first, then its empty topics.

    May be repeated after a crash; raises `RefusedError` once producers were sent to the target.
    """
    journal = _to_abort(parts, stream)
    operation = state_of(journal).operation
    route = parts.routes.existing(stream).route
    if route.operation is not None:
        journal.intent(LineSubject.ABORT, {"epoch": route.epoch})
        parts.require_held()
        parts.routes.change(
            stream,
            lambda found: withdraw_operation(operation, found),
            by=parts.operator,
            what=f"operation {operation.id}: abort",
            at_ms=epoch_ms(parts.clock.now()),
        )
    made = _made_topics(operation, open_cluster)
    results = tuple((each.topic, parts.effects.delete(each, only_empty=True)) for each in made.values())
    left = parts.routes.existing(stream).route
    for lane, each in made.items():
        parts.effects.drop_quota(left, lane, each)
    journal.check(LineSubject.STEP, {"step": Step.ABORTED, "epoch": route.epoch})
    return ClosingResult(record=state_of(journal), results=results)


def read_reclaimable(parts: FailoverParts, open_cluster: OpenCluster, operation: str = "") -> ClosingResult:
    """What a reclaim would delete, with the check of its certificate; `RefusedError` for one that is not retired."""
    record, check, kept = _examine_operation(parts, open_cluster, operation)
    results = tuple(
        (each.topic, f"would be kept: {kept[each.segment]}" if each.segment in kept else "would be deleted")
        for each in check.certificate.segments
    )
    return ClosingResult(record=record, results=results, check=check, kept=tuple(kept.values()))


def _examine_operation(
    parts: FailoverParts, open_cluster: OpenCluster, operation: str
) -> tuple[OperationRecord, CertificateCheck, dict[int, str]]:
    """A retired operation, the check of its certificate, and its segments that must stay, with the reason in words."""
    certificate, _ = newest_certificate(parts.journals, operation)
    record = parts.journals.record(certificate.operation)
    route = parts.routes.existing(certificate.stream).route
    if record is None:
        raise RefusedError(f"operation {certificate.operation} has no journal")
    _require_retired(record, route)
    check = check_certificate(certificate, open_cluster, record.certificate, record.copies)
    return record, check, _kept_segments(parts, open_cluster, record, route, check)


def reclaim(
    parts: FailoverParts,
    open_cluster: OpenCluster,
    operation: str,
    *,
    grace_s: float,
    keep: bool,
    recover: bool = False,
) -> ClosingResult:
    """Delete the old topics of a retired operation by their ids, once the grace is over and nothing came late.

    With `keep` they stay as they are, and the operation is closed. With `recover` records that came late, and dead
    letters that were left, are copied to the current topics first; without it a topic with dead letters stays. Raises
    `TryLaterError` within the grace and while a cluster cannot be read, so that a late record is not deleted.
    """
    record, check, kept = _examine_operation(parts, open_cluster, operation)
    journal, copied = parts.journals.open(operation), 0
    if recover and (check.late or kept):
        copied = _recover(parts, open_cluster, journal, check.certificate)
        record, check, kept = _examine_operation(parts, open_cluster, operation)
    route = parts.routes.existing(record.operation.stream).route
    record = state_of(journal)
    if check.late or check.short:
        return ClosingResult(record=record, results=(), check=check, copied=copied)
    if Step.RETIRED not in record.reached_ms:
        journal.check(LineSubject.STEP, {"step": Step.RETIRED, "epoch": route.epoch})
        record = state_of(journal)
    left_s = grace_s - (epoch_ms(parts.clock.now()) - record.reached_ms[Step.RETIRED]) / 1000
    if left_s > 0 and not keep:
        words = f"the grace of operation {operation} ends in {format_span(left_s)}"
        raise TryLaterError(words, hint="--grace 0 ends it now")
    if not keep:
        _require_read(check)
    kept = {} if keep else kept
    results = []
    for each in check.certificate.segments:
        if each.segment in kept:
            results.append((each.topic, f"kept: {kept[each.segment]}"))
            continue
        if not keep:  # Kafka deletes whatever has come: as little time as can be lies between
            last = check_certificate(replace(check.certificate, segments=(each,)), open_cluster, None, record.copies)
            if last.late or last.short:
                return ClosingResult(record=state_of(journal), results=tuple(results), check=last, copied=copied)
            _require_read(last)
        journal.intent(LineSubject.RECLAIM, {"topic": each.topic, "topic_id": each.topic_id, "keep": keep})
        # A store that fails over may lose its newest write: behind the intent, the retirement is not the newest.
        route = _route_without(parts, record, each.segment)
        results.append((each.topic, "kept" if keep else _delete_topic(parts, record, route, each)))
    if not kept:
        journal.check(LineSubject.STEP, {"step": Step.RECLAIMED, "epoch": route.epoch})
    return ClosingResult(
        record=state_of(journal), results=tuple(results), check=check, kept=tuple(kept.values()), copied=copied
    )


def _require_read(check: CertificateCheck) -> None:
    if check.unread:
        raise TryLaterError(f"not every old topic can be checked: {check.unread[0]}")


def _delete_topic(parts: FailoverParts, record: OperationRecord, route: Route, each: SegmentEvidence) -> str:
    """Delete the topic of a segment that is out of the route, with what was put on it; what came of it, in words."""
    segment = each.as_segment()
    result = parts.effects.delete(segment, only_empty=False)
    if result in ("deleted", "does not exist"):
        fences = [fence for fence in record.fences if fence.segment == each.segment]
        parts.effects.drop_bindings(segment, tuple(b for fence in fences for b in fence.bindings))
        parts.effects.drop_quota(route, each.lane, segment)
    return result


def _route_without(parts: FailoverParts, record: OperationRecord, segment_id: int) -> Route:
    """The route, without a segment that the retirement left in it for its dead letters."""
    route = parts.routes.existing(record.operation.stream).route
    _require_retired(record, route)
    if segment_id not in {each.id for _, each in (*route.segments(), *route.left())}:
        return route
    parts.require_held()
    return parts.routes.change(
        route.stream,
        lambda found: given_up(found, (segment_id,)),
        by=parts.operator,
        what=f"operation {record.operation.id}: reclaim",
        at_ms=epoch_ms(parts.clock.now()),
    )


def _kept_segments(
    parts: FailoverParts, open_cluster: OpenCluster, record: OperationRecord, route: Route, check: CertificateCheck
) -> dict[int, str]:
    """The segments that are in the route for dead letters which are still there, and how many these are, in words."""
    there = {each.id for _, each in (*route.segments(), *route.left())}
    left = [each.as_segment() for each in check.certificate.segments if each.segment in there]
    if not left or check.unread:
        return {}
    old = {each.id: read_old(each, (), open_cluster) for each in left}
    references = parts.observer.references(left, old)
    found = {}
    for each in left:
        copies = record.copies_of(each.id)
        words = []
        if record.operation.lane_of(each.id) == DLQ:
            letters = sum(map(len, uncopied_ranges(each, old[each.id].whole_spans or {}, copies).values()))
            words += [count_of(letters, "dead letter")] if letters else []
        held = 0 if old[each.id].problem else references[each.id].held - copies.gone
        words += [count_of(held, "rejected record")] if held > 0 else []
        if words:
            found[each.id] = f"{' and '.join(words)} in {each.topic}"
    return found


def _recover(parts: FailoverParts, open_cluster: OpenCluster, journal: Journal, certificate: DrainCertificate) -> int:
    """Copy what came after the seals, and dead letters that were left, to the current topics; how many records."""
    route = parts.routes.existing(certificate.stream).route
    there = {each.id for _, each in (*route.segments(), *route.left())}
    copied = 0

    def note(copies: OldCopies) -> None:
        journal.check(LineSubject.LETTERS, line_data(copies))

    for each in certificate.segments:
        segment, operation = each.as_segment(), state_of(journal).operation
        facts = read_old(segment, (), open_cluster)
        before = state_of(journal).copies_of(each.segment)
        spans = late_spans(segment, facts, before)
        if each.segment in there and operation.lane_of(each.segment) == DLQ:
            for number, letters in uncopied_ranges(segment, facts.whole_spans or {}, before).items():
                if letters:
                    spans[number] = range(letters.start, spans.get(number, letters).stop)
        if spans:
            journal.intent(LineSubject.LETTERS, {"segment": each.segment})
            parts.records.copy(route, each.lane, segment, spans, before, note)
        copied += state_of(journal).copies_of(each.segment).records - before.records
    if any(each.segment in there for each in certificate.segments) and route.lane(DLQ) is not None:
        journal.intent(LineSubject.LETTERS, {"references": True})
        copied += parts.records.references(route).copied
    return copied


def _require_retired(record: OperationRecord, route: Route) -> None:
    if record.unretired(route):
        hint = str(shell_command("streams failover retire", route.stream))
        raise RefusedError(f"operation {record.operation.id} is not retired", hint=hint)


def _to_abort(parts: FailoverParts, stream: str) -> Journal:
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
            withdraw_operation(record.operation, route)
            return journal
        if record.is_aborting and record.end is None:
            return journal
        break
    raise RefusedError(f"stream {stream} has no operation that could be aborted")


def _made_topics(operation: Failover, open_cluster: OpenCluster) -> dict[str, Segment]:
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
