"""Drain certificates: evidence that everything in old segments was read, which can be checked again later.

The document holds a SHA-256 over its own bytes with that field empty, and is valid only in the one form that kafkakit
writes: a change of any byte shows. The hash also stands in the operation's journal, which chains its lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError
from kafkakit.streams.failover.decide.drained import AckKind, ack_of
from kafkakit.streams.failover.decide.evidence import Evidence
from kafkakit.streams.failover.decide.journal import LostRange, OperationRecord
from kafkakit.streams.model.route import PartitionSeal, Segment, SegmentState

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
            for name in record.operation.groups
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
    )
    whole = replace(body, sha256=_hash(body))
    return whole, encode_document(CERTIFICATE_KIND, whole)


def decode_certificate(data: bytes, source: str) -> DrainCertificate:
    """Read a certificate; `InputError` for one that is damaged, was changed, or proves less than it claims."""
    if len(data) > LIMIT_BYTES:
        raise InputError(source, f"has {len(data):,} bytes, a certificate has at most {LIMIT_BYTES:,}")
    found = decode_document(data, CERTIFICATE_KIND, DrainCertificate, source)
    if found.sha256 != _hash(replace(found, sha256="")) or encode_document(CERTIFICATE_KIND, found) != data:
        raise InputError(source, "was changed after it was written: its hash is not that of its content")
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
    return sha256(encode_document(CERTIFICATE_KIND, certificate)).hexdigest()
