"""A judged map as a plan: the lists are the map's, the way back is what the cluster has now."""

import hashlib
from collections.abc import Mapping

from kafkakit.core.certificate import Proof, ProofKind, certificate
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import DirMove, Plan
from kafkakit.core.topic_selection import TopicSelection
from kafkakit.placement.problem import PlannedPartition
from kafkakit.topicmappr.decide.assembly import Decision, assemble
from kafkakit.topicmappr.decide.audit.case import AuditedPartition, case_of
from kafkakit.topicmappr.decide.audit.decision import Audit
from kafkakit.topicmappr.decide.audit.reading import MapReading
from kafkakit.topicmappr.decide.audit.request import AuditRequest
from kafkakit.topicmappr.decide.scope import Scope

MAP_DIGEST = "map-digest"
ANY_DIR = "any"
IMPOSSIBLE = frozenset(
    {
        "unreadable",
        "version",
        "listed-twice",
        "unknown-partition",
        "empty-list",
        "repeated-broker",
        "unknown-broker",
        "dead-broker",
        "closed-broker",
        "no-source",
        "log-dirs",
        "unknown-log-dir",
    }
)
"""What Kafka refuses or can never finish; a run would be incomplete."""
ARGUABLE = frozenset({"below-min-isr", "rack-rule-broken"})
"""Errors of a map that Kafka takes; full disks are not among them, since the schedule of a run keeps them free."""


def digest_of(reading: MapReading) -> str:
    """What tells this map from others, however its file is written: SHA-256 over its entries by partition, hex."""
    rows = sorted(f"{e.key.topic} {e.key.partition} {e.replicas} {e.dirs}" for e in reading.entries)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def plan_of_map(
    snapshot: ClusterSnapshot, reading: MapReading, audit: Audit, words: Mapping[str, str], *, allow_findings: bool
) -> Plan:
    """The plan that brings every partition of the map to its list there; its scope are these partitions.

    Raises `RefusedError` for findings that cannot be carried out, and without `allow_findings` for those that should
    not be; `TryLaterError` while a partition of the map is being reassigned. O(partitions).
    """
    _refuse(audit, allow_findings=allow_findings)
    case = case_of(snapshot, reading, AuditRequest())
    rows = sorted((row for row in case.rows if row.entry is not None), key=lambda row: row.key)
    if moving := [row.name for row in rows if row.moving]:
        raise TryLaterError(
            f"partitions of the map are being reassigned, there is no list to go back to: {some(moving)}",
            hint="wait for them: kafkakit reassign status --watch",
        )
    copies = sum(len(row.adding) for row in rows)
    argument = f"the map names every list, and the copies that are not there have to be made: {copies}"
    topics = tuple(sorted({row.topic.name for row in rows}))
    scope = Scope(
        tuple(
            PlannedPartition(row.key, row.before, len(row.after), size_bytes=row.partition.known_bytes) for row in rows
        ),
        {row.topic.name: row.topic.topic_id for row in rows},
        TopicSelection(topics, ()),
    )
    decision = Decision(
        replicas=[row.after for row in rows],
        certificate=certificate("replicas", copies, copies, argument, Proof(kind=ProofKind.COUNTING)),
        targets=sorted({b for row in rows for b in row.after}),
        storage_facts=audit.storage,
        dirs={i: {b: path for b, path in _dirs(row).items() if b in row.adding} for i, row in enumerate(rows)},
        dir_moves=tuple(move for row in rows for move in _dir_moves(row)),
        notes=audit.notes,
    )
    return assemble(snapshot, words, scope, decision)


def _refuse(audit: Audit, *, allow_findings: bool) -> None:
    broken = dict.fromkeys(f.rule for f in audit.findings)
    if impossible := [rule for rule in broken if rule in IMPOSSIBLE]:
        raise RefusedError(
            f"the map cannot be carried out, its audit found: {', '.join(impossible)}",
            hint="correct the map; `kafkakit topicmappr audit` names every entry",
        )
    arguable = [rule for rule in broken if rule in ARGUABLE]
    if arguable and not allow_findings:
        raise RefusedError(
            f"the audit of the map found errors: {', '.join(arguable)}",
            hint="correct the map, or carry it out as it is with --allow-findings",
        )


def _dirs(row: AuditedPartition) -> dict[int, str]:
    """The log dirs that the map names, by broker."""
    entry = row.entry
    named = zip(entry.replicas, entry.dirs, strict=True) if entry and entry.dirs else ()
    return {broker: path for broker, path in named if path != ANY_DIR}


def _dir_moves(row: AuditedPartition) -> list[DirMove]:
    """Copies that stay on their broker and change the log dir there."""
    moves = []
    for broker, path in _dirs(row).items():
        now = row.partition.replica_dirs.get(broker)
        if broker in row.adding or now == path:
            continue
        if now is None:
            raise RefusedError(
                f"the map names a log dir for {row.name} on broker {broker}, and where it is now is unknown",
                hint="write any in its place, or try again when the broker answers",
            )
        size = row.partition.replica_bytes.get(broker)
        moves.append(DirMove(topic=row.key.topic, partition=row.key.partition, broker=broker, source_dir=now,
                             target_dir=path, size_bytes=size))  # fmt: skip
    return moves
