"""What is kept of operations: drain certificates, how operations ended, the audit log of a stream, and its rehearsals.

A drain certificate is evidence that everything in old segments was read, which can be checked again later. The
document holds a SHA-256 over its own bytes with that field empty, and is valid only in the one form that kafkakit
writes: a change of any byte shows. The hash also stands in the operation's journal, which chains its lines.

The audit log has each command that could change the stream, its operator, its plan and its outcome. A rehearsal keeps
what was asked, what came of it, and how ready the stream is by that.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256

import msgspec

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.documents import DocumentKind, decode_document, decoded_json, encode_document
from kafkakit.core.errors import InputError, RefusedError, UsageError
from kafkakit.core.journal_lines import RecordKind
from kafkakit.core.rpc import Event
from kafkakit.streams.failover.decide.drain_proof import AckKind, ack_of, letters_left
from kafkakit.streams.failover.decide.evidence import Evidence, References, letters_in
from kafkakit.streams.failover.decide.operation import Failover, Line, LineSubject, LostRange, OperationRecord, Step
from kafkakit.streams.model.route import DLQ, SHADOW, Lane, PartitionSeal, Route, Segment, SegmentState, check_stream

CERTIFICATE_KIND = "stream-drain-certificate"
LIMIT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvidence:
    """Where a group stood: the committed offset of each sealed partition in its order, -1 for none.

    Without a commit a group has read everything where the log held nothing: it begins at its start.

    `acknowledged` says how its members showed that they read the new segments.
    """

    group: str
    committed: tuple[int, ...]
    acknowledged: AckKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEvidence:
    """One old segment: its identity, its seal, where its logs started, and what required groups had committed."""

    lane: str
    segment: int
    cluster: str
    cluster_id: str
    topic: str
    topic_id: str
    sealed_at_ms: int
    partitions: tuple[PartitionSeal, ...]
    starts: tuple[int, ...]
    groups: tuple[GroupEvidence, ...]

    def as_segment(self) -> Segment:
        """The segment as it was sealed."""
        return Segment(
            id=self.segment,
            cluster=self.cluster,
            cluster_id=self.cluster_id,
            topic=self.topic,
            topic_id=self.topic_id,
            partitions=len(self.partitions),
            state=SegmentState.DRAINING,
            seal=self.partitions,
            sealed_at_ms=self.sealed_at_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterEvidence:
    """Dead letters of one old segment: how many it holds, and how many records references lead to, or are `gone`.

    `copied` were written to the new topic of the lane `dlq`, `passed` were not, as a replay had written them before.
    With `is_left` the topic stays readable.
    """

    segment: int
    letters: int
    references: int
    gone: int
    copied: int
    passed: int
    is_left: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainCertificate:
    """What was proven about an operation, when, by which version, and on what basis the topics counted as quiet.

    `unready` are groups that had not acknowledged when producers moved (an emergency alone allows any). `lost` were
    deleted before a group read them, `late` counts seals that were void because a writer came late.
    """

    stream: str
    operation: str
    version: str
    at_ms: int
    routed_epoch: int
    basis: str
    window_s: float
    fences: tuple[str, ...]
    segments: tuple[SegmentEvidence, ...]
    unready: tuple[str, ...] = ()
    lost: tuple[LostRange, ...] = ()
    late: int = 0
    sha256: str = ""
    letters: tuple[LetterEvidence, ...] = ()


def make_certificate(record: OperationRecord, evidence: Evidence, version: str) -> tuple[DrainCertificate, bytes]:
    """The certificate of an operation for which nothing is missing, with its bytes."""
    epoch = record.routed_epoch or 0
    segments = []
    for lane, segment in record.operation.old_segments(evidence.route):
        facts = evidence.old[segment.id]
        spans = facts.whole_spans or {}
        groups = tuple(
            GroupEvidence(
                group=name,
                committed=tuple(
                    _offset(facts.groups[name].commits.get(seal.partition)) if name in facts.groups else -1
                    for seal in segment.seal
                ),
                acknowledged=ack_of(name, facts.groups.get(name), evidence, epoch)[0],
            )
            for name in record.operation.readers_of(segment.id)
        )
        segments.append(
            SegmentEvidence(
                lane=lane.name,
                segment=segment.id,
                cluster=segment.cluster,
                cluster_id=segment.cluster_id,
                topic=segment.topic,
                topic_id=segment.topic_id,
                sealed_at_ms=segment.sealed_at_ms,
                partitions=segment.seal,
                starts=tuple(spans[seal.partition].start for seal in segment.seal),
                groups=groups,
            )
        )
    body = DrainCertificate(
        stream=record.operation.stream,
        operation=record.operation.id,
        version=version,
        at_ms=evidence.now_ms,
        routed_epoch=epoch,
        basis=record.basis,
        window_s=record.window_s,
        fences=tuple(sorted({each.kind.value for each in record.fences})),
        segments=tuple(segments),
        unready=record.unready,
        lost=record.lost,
        late=record.late,
        letters=tuple(_letters(record, evidence)),
    )
    whole = replace(body, sha256=_hash(body))
    return whole, _encode_certificate(whole)


def _letters(record: OperationRecord, evidence: Evidence) -> Iterator[LetterEvidence]:
    """What is known of the dead letters of each old segment that has any, or had."""
    left = letters_left(record, evidence)
    for lane, segment in record.operation.old_segments(evidence.route):
        letters = (letters_in(segment, evidence.old.get(segment.id)) or 0) if lane.name == DLQ else 0
        references, copies = evidence.rejects.get(segment.id, References()), record.copies.get(segment.id)
        if letters or any(references) or copies is not None:
            yield LetterEvidence(
                segment=segment.id,
                letters=letters,
                references=references.held,
                gone=references.gone + (0 if copies is None else copies.gone),
                copied=0 if copies is None else copies.records + copies.references,
                passed=0 if copies is None else copies.passed,
                is_left=segment.id in left,
            )


def decode_certificate(data: bytes, source: str) -> DrainCertificate:
    """Read a certificate; `InputError` for one that is damaged, was changed, or proves less than it claims."""
    if len(data) > LIMIT_BYTES:
        raise InputError(source, f"has {len(data):,} bytes, a certificate has at most {LIMIT_BYTES:,}")
    found = decode_document(data, CERTIFICATE_KIND, DrainCertificate, source)
    if found.sha256 != _hash(replace(found, sha256="")) or _encode_certificate(found) != data:
        raise InputError(source, "was changed after it was written: its hash does not match its content")
    faults = tuple(claims_too_much(found))
    if faults:
        raise InputError(source, f"does not prove that anything was drained: {faults[0]}")
    return found


def claims_too_much(certificate: DrainCertificate) -> Iterator[str]:
    """What in a certificate contradicts its claim: an offset below the end that it says was reached."""
    for segment in certificate.segments:
        for seal in segment.partitions:
            if seal.stable_end != seal.end or seal.effective_end > seal.end:
                yield f"partition {seal.partition} of {segment.topic} was sealed with an open transaction"
        for group in segment.groups:
            if not len(group.committed) == len(segment.partitions) == len(segment.starts):
                yield f"group {group.group} has {len(group.committed)} offsets for {segment.topic}"
                continue
            for seal, start, offset in zip(segment.partitions, segment.starts, group.committed, strict=True):
                if (start if offset < 0 else offset) < seal.effective_end:
                    yield f"group {group.group} was at {offset} of {seal.effective_end} in {segment.topic}"


def _offset(commit: object) -> int:
    return -1 if commit is None or isinstance(commit, ItemError) else int(getattr(commit, "offset", -1))


def _hash(certificate: DrainCertificate) -> str:
    return sha256(_encode_certificate(certificate)).hexdigest()


def _encode_certificate(certificate: DrainCertificate) -> bytes:
    """The one form of a certificate; without dead letters it is the one that it had before they were counted."""
    leave_out = () if certificate.letters else ("letters",)
    return encode_document(CERTIFICATE_KIND, certificate, leave_out=leave_out)


class EndKind(StrEnum):
    """How a run ended, for programs."""

    DONE = "done"
    WAITING = "waiting"
    REFUSED = "refused"
    LATE = "late-writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended: at which step the operation is, and why it does not continue; `reason` is for programs."""

    kind: EndKind
    step: Step
    record: OperationRecord
    reason: str = ""
    lines: tuple[str, ...] = ()
    records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateCheck:
    """What a check found: `late` partitions grew after the seal, `short` groups stand below an end that they reached.

    `recovered` partitions also grew, and what they grew by was copied to current topics. `unread` says what could not
    be compared, `gone` are topics that were deleted since. `is_anchored` tells whether the journal of the operation
    names the certificate's hash; None where there is no journal.
    """

    certificate: DrainCertificate
    late: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    is_anchored: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingResult:
    """What became of the topics of an operation, by name and in words; `kept` says why some are not deleted yet.

    `copied` records came after the seal, or were dead letters that had been left, and are in the current topics now.
    """

    record: OperationRecord
    results: tuple[tuple[str, str], ...]
    check: CertificateCheck | None = None
    kept: tuple[str, ...] = ()
    copied: int = 0

    @property
    def is_late(self) -> bool:
        """Whether records came after the seal, or offsets went back."""
        return self.check is not None and bool(self.check.late or self.check.short)


MOST_COMMANDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """A line of the log: the beginning of a command, or its end with the outcome (`done`, `failed`).

    `id` is random, the same in both. `plan_sha256` is that of the operation that the command worked on, empty where it
    worked on none.
    """

    time: str
    id: str
    by: str
    command: str
    outcome: str
    operation: str = ""
    plan_sha256: str = ""
    step: str = ""
    result: str = ""
    reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedCommand:
    """A command: when it began and ended, and its last line; `ended` is empty for one that was cut, or still runs."""

    began: str
    ended: str
    line: AuditLine

    @property
    def outcome(self) -> str:
        """How it ended, in one word."""
        return "cut or running" if not self.ended else self.line.result or self.line.outcome


def audit_root(stream: str) -> str:
    """Where the audit log of a stream is kept."""
    return f"streams/{check_stream(stream)}/audit"


def plan_sha256(operation: Failover) -> str:
    """The hash of an operation as it was planned, with the limits that it has now."""
    return sha256(json.dumps(msgspec.to_builtins(operation, str_keys=True), sort_keys=True).encode()).hexdigest()


def read_commands(data: bytes) -> tuple[tuple[AuditedCommand, ...], int]:
    """The newest commands of a log, oldest first, and how many lines cannot be read."""
    found: dict[str, AuditedCommand] = {}
    damaged = 0
    for text in data.splitlines():
        try:
            line = decoded_json(text, AuditLine)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            damaged += 1
            continue
        began = found[line.id].began if line.id in found else line.time
        found[line.id] = AuditedCommand(began=began, ended="" if line.outcome == "begun" else line.time, line=line)
    return tuple(found.values())[-MOST_COMMANDS:], damaged


def event_of(record: OperationRecord, line: Line) -> Event | None:
    """What a line of a journal tells people; None for one that only matters to the machine."""
    operation = record.operation
    match line.kind, line.what:
        case RecordKind.CHECK, LineSubject.PLAN:
            what, more = (
                f"{operation.request.kind.noun} begun",
                f"by {operation.operator}, plan {plan_sha256(operation)[:16]}",
            )
        case RecordKind.CHECK, LineSubject.STEP:
            what, more = str(line.data["step"]), f"epoch {line.data['epoch']}"
        case RecordKind.INTENT, LineSubject.FENCE:
            what, more = f"fence {line.data['kind']}", f"segment {line.data['segment']}"
        case RecordKind.CHECK, LineSubject.UNFENCE:
            what, more = "fence down", f"segment {line.data['segment']}"
        case RecordKind.CHECK, LineSubject.LATE:
            what, more = "late writer", f"partitions that grew after the seal: {len(line.data['grown'])}"
        case RecordKind.CHECK, LineSubject.LOST:
            what, more = "records lost", f"deleted before they were read: {sum(each.count for each in record.lost)}"
        case RecordKind.CHECK, LineSubject.CERTIFIED:
            what, more = "certified", f"certificate {line.data['sha256']}"
        case _:
            return None
    return Event(
        title=f"[kafkakit] stream {operation.stream}: {what}",
        text=f"operation {operation.id} to {operation.request.to}: {more}",
    )


LONGEST_NAME = 200 - len(SHADOW)
MOST_KEPT = 100
LEAST_PER_S, MOST_PER_S = 1.0, 50_000.0
DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFigures:
    """What a load did: records with an answer and with an error, those that were handled, and how often again.

    `open` were answered and are not handled yet; `longest_pause_ms` is the longest time without an answer, by lane.
    """

    acknowledged: int = 0
    failed: int = 0
    handled: int = 0
    handled_again: int = 0
    open: int = 0
    longest_pause_ms: int = 0
    per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOutcome:
    """What came of a rehearsal. `result` is how the failover ended, or `failed`; `reason` and `lines` say why.

    `steps_ms` are times since the beginning of the failover. `budget` is the number of records that the plan said may
    come twice, None where nothing bounded it.
    """

    ended_ms: int
    result: str
    reason: str = ""
    lines: tuple[str, ...] = ()
    steps_ms: Mapping[Step, int] = field(default_factory=dict)
    basis: str = ""
    budget: int | None = 0
    load: LoadFigures = field(default_factory=LoadFigures)
    is_verified: bool = False

    @property
    def seconds(self) -> float:
        """How long the failover took."""
        return max(self.steps_ms.values(), default=0) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A rehearsal as it is kept; without an outcome it runs, or was cut.

    `profiles` are the clusters that may hold topics of its shadow stream.
    """

    id: str
    stream: str
    to: str
    by: str
    started_ms: int
    per_s: float
    record_bytes: int
    load_s: float
    profiles: tuple[str, ...]
    outcome: RehearsalOutcome | None = None

    @property
    def shadow(self) -> str:
        """The name of the shadow stream, which is also its group."""
        return shadow_of(self.stream)


def shadow_of(stream: str) -> str:
    """The reserved name of a stream's shadow; `UsageError` for a name that is too long, or a shadow's own."""
    check_stream(stream)
    if stream.startswith(SHADOW):
        raise UsageError(f"stream {stream} is the shadow of another one")
    if len(stream) > LONGEST_NAME:
        raise UsageError(f"a stream that is rehearsed has a name of at most {LONGEST_NAME} characters")
    return SHADOW + stream


REHEARSAL_DOCUMENT = DocumentKind("stream-rehearsal", Rehearsal)


def rehearsals_folder(stream: str) -> str:
    """Where the rehearsals of a stream are kept."""
    return f"streams/{check_stream(stream)}/rehearsals"


def lanes_to_rehearse(route: Route) -> tuple[Lane, ...]:
    """The lanes that are written; `UsageError` where there is none."""
    found = tuple(lane for lane in route.lanes if lane.active is not None)
    if not found:
        raise UsageError(f"stream {route.stream} has no active segment that could be rehearsed")
    return found


def readiness(rehearsal: Rehearsal) -> int:
    """The score of a rehearsal, 0 to 100.

    0 unless the failover ended retired, its certificate held, and every answered record was handled. Otherwise 100,
    less 2 for each second of the failover above 10 s (40 at most), less 10 for each second above 1 s of the longest
    time that a lane's producers got no answer (30 at most), less 20 where more records came again than the plan said,
    and less 20 times the share of the asked rate that was not written.
    """
    found = rehearsal.outcome
    if found is None or found.result != "done" or not found.is_verified or found.load.open or found.load.failed:
        return 0
    late = min(40.0, 2 * max(0.0, found.seconds - 10))
    paused = min(30.0, 10 * max(0.0, found.load.longest_pause_ms / 1000 - 1))
    again = 20.0 if found.budget is not None and found.load.handled_again > found.budget else 0.0
    unwritten = 20 * max(0.0, 1 - found.load.per_s / rehearsal.per_s)
    return max(0, round(100 - late - paused - again - unwritten))


def readiness_at(rehearsal: Rehearsal, now_ms: int) -> int:
    """The score now: less one for each whole day since the rehearsal."""
    days = max(0, now_ms - rehearsal.started_ms) // DAY_MS
    return max(0, readiness(rehearsal) - days)


def stated_rate(per_s: float) -> float:
    """A rate of the command line; `UsageError` outside of what one process can write."""
    if not LEAST_PER_S <= per_s <= MOST_PER_S:
        raise UsageError(f"a rehearsal writes {LEAST_PER_S:g} to {MOST_PER_S:,.0f} records a second")
    return per_s


def measured_rate(before: int, after: int, seconds: float) -> float:
    """Records a second between two sums of ends, within the limits."""
    return min(MOST_PER_S, max(LEAST_PER_S, (after - before) / seconds))


def home_of(route: Route, lanes: Collection[str]) -> str:
    """The profile of the cluster that the first of these lanes is written on; `UsageError` for one that is absent."""
    for name in lanes:
        lane = route.lane(name)
        if lane is None or lane.active is None:
            raise UsageError(f"stream {route.stream} has no lane {name} that is written")
        return lane.active.cluster
    raise UsageError("no lane is named")


def left_cluster(route: Route, history: Sequence[Route], lanes: Collection[str] = ()) -> str:
    """The profile of the cluster that the lanes were written on before the present one; without names all lanes.

    `history` are the routes that came into effect, oldest first. Raises `RefusedError` where no lane was ever on
    another cluster, or lanes came from different ones.
    """
    found: dict[str, list[str]] = {}
    for lane in route.lanes:
        if lane.active is None or (lanes and lane.name not in lanes):
            continue
        for earlier in reversed(history):
            before = earlier.lane(lane.name)
            active = None if before is None else before.active
            if active is not None and active.cluster_id != lane.active.cluster_id:
                found.setdefault(active.cluster, []).append(lane.name)
                break
    if not found:
        raise RefusedError(
            f"stream {route.stream} has not left a cluster", hint="kafkakit streams move STREAM --to CLUSTER"
        )
    if len(found) > 1:
        words = "; ".join(f"{', '.join(names)}: {profile}" for profile, names in sorted(found.items()))
        raise RefusedError(f"lanes of stream {route.stream} came from different clusters: {words}", hint="--lane LANE")
    return next(iter(found))


def routed_at(operation: Failover, routes: Iterable[Route]) -> int | None:
    """The first epoch in which an operation's targets were active, from the routes that came into effect."""
    for route in sorted(routes, key=lambda each: each.epoch):
        targets = [operation.target_in(lane) for lane in route.lanes if operation.move_of(lane.name) is not None]
        if targets and all(each is not None and each.state is SegmentState.ACTIVE for each in targets):
            return route.epoch
    return None


def end_by_route(record: OperationRecord, route: Route) -> Step | None:
    """How an operation that the route does not name any more ended; None where its journal says so already, or the
    route is still its own. One that was cut before it began counts as aborted."""
    if record.end is not None or (route.operation is not None and route.operation.id == record.operation.id):
        return None
    if record.reached_ms and record.unretired(route) and Step.ROUTED in record.reached_ms:
        return Step.SUPERSEDED
    is_active = bool(record.reached_ms) and routed_at(record.operation, [route]) is not None
    return Step.RETIRED if is_active and not record.unretired(route) else Step.ABORTED
