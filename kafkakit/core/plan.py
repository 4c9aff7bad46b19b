"""The plan: what a planner decided, the proof that goes with it, and how to undo it.

A `Plan` is self-contained: `reassign apply` needs the plan file and a cluster, nothing else.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import filterfalse
from operator import attrgetter

from kafkakit.core.certificate import Certificate, PlacementRules, TagConstraint
from kafkakit.core.model import PartitionMap, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """Replica and leader counts of one broker within the plan's scope; bytes only where all sizes are known.

    `used_bytes`, `free_bytes` and `capacity_bytes` are of the whole broker, other topics too; None when unknown.
    """

    broker: int
    rack: str | None
    replicas: int
    leaders: int
    bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    capacity_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementStats:
    """The scope's placement, before or after: per broker, sorted by id."""

    brokers: tuple[BrokerLoad, ...]
    replicas_min: int
    replicas_max: int
    leaders_min: int
    leaders_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition whose replica list changes; `bytes_moved` is None when its size is unknown.

    `dirs` names the log dir for new copies where the plan chose one, keyed by broker.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int | None = None
    bytes_moved: int | None = None
    topic_id: str | None = None
    dirs: Mapping[int, str] = field(default_factory=dict)

    @property
    def key(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.topic, self.partition)

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy, in target order."""
        return tuple(filterfalse(self.before.__contains__, self.after))

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose their copy, in the old order."""
        return tuple(filterfalse(self.after.__contains__, self.before))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirMove:
    """One copy that changes its log dir inside a broker; `size_bytes` is None when unknown."""

    topic: str
    partition: int
    broker: int
    source_dir: str
    target_dir: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDir:
    """A log dir of a broker that has several: what its known copies take before and after the plan.

    `is_open` says that it takes new copies (not cordoned, not broken, its size known).
    """

    broker: int
    path: str
    capacity_bytes: int | None
    used_before_bytes: int
    used_after_bytes: int
    is_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFacts:
    """Where the sizes and free bytes behind a plan come from: `source` in words, and when they were taken.

    `age_s` is their age in seconds when the plan was made.
    """

    source: str
    taken_at: datetime
    age_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeEntry:
    """A partition the plan looked at, with its replica list at plan time (the fingerprint covers all)."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBroker:
    """A broker the plan relies on: the targets, with their racks at plan time."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A decided change of placement, with certificate, statistics, map and rollback map.

    `profile` is the one that was in use when the plan was written. `request` holds the operator's words (flag ->
    value) for the record. `moves` are the partitions whose list changes, sorted; `dir_moves` stay inside a broker,
    `dirs` are the log dirs of brokers that have several, where these are known. `scope` are all partitions considered;
    with `brokers` and `cluster_id` they give `fingerprint` (see `fingerprint_of`). `constraints` by tags bind
    new copies.
    """

    cluster_id: str
    profile: str | None = None
    created_at: datetime
    snapshot_taken_at: datetime
    snapshot_source: str
    fingerprint: str
    request: Mapping[str, str]
    certificate: Certificate
    before: PlacementStats
    after: PlacementStats
    brokers: tuple[PlanBroker, ...]
    scope: tuple[ScopeEntry, ...]
    moves: tuple[Move, ...]
    reassignment: PartitionMap
    rollback: PartitionMap
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    rules: PlacementRules | None = None
    storage: StorageFacts | None = None
    dir_moves: tuple[DirMove, ...] = ()
    dirs: tuple[PlanDir, ...] = ()
    constraints: tuple[TagConstraint, ...] = ()


def fingerprint_of(cluster_id: str, brokers: Iterable[PlanBroker], scope: Iterable[ScopeEntry]) -> str:
    """Hash what a plan relies on: cluster id, target brokers with racks, every scope partition's list.

    SHA-256 over compact JSON, hex, prefixed `sha256:`; sizes, leaders and ISR are left out because
    they change by themselves. O(partitions), 0.2 s for 200,000.
    """
    head = [cluster_id, sorted((b.id, b.rack or "") for b in brokers)]
    rows = [json.dumps(head, separators=(",", ":"))]
    named: tuple[str, str | None] | None = None
    start = ""
    for entry in sorted(scope, key=attrgetter("topic", "partition")):
        if named != (entry.topic, entry.topic_id):  # names repeat, and encoding them is what costs
            named = (entry.topic, entry.topic_id)
            start = json.dumps([entry.topic, entry.topic_id or ""], separators=(",", ":"))[:-1]
        rows.append(f"{start},{entry.partition},[{','.join(map(str, entry.replicas))}]]")
    return f"sha256:{hashlib.sha256(''.join(rows).encode()).hexdigest()}"


def identity_of(plan: Plan) -> str:
    """Hash a plan's fingerprint and moves, hex, prefixed `sha256:`; what a run of it is remembered under.

    Two plans made from one snapshot have the same fingerprint and different identities. O(moves).
    """
    rows = [plan.fingerprint, *(f"{m.topic} {m.partition} {','.join(map(str, m.after))}" for m in plan.moves)]
    rows += [f"{m.topic} {m.partition} {b} {path}" for m in plan.moves for b, path in sorted(m.dirs.items())]
    rows += [f"{m.topic} {m.partition} {m.broker} {m.source_dir} {m.target_dir}" for m in plan.dir_moves]
    text = "\n".join(rows)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
