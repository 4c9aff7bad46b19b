"""What a placement planner is asked, and what it answers: plain values without file or client shapes.

Partitions without a live copy in sync are set apart, since nothing can copy them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.core.certificate import Proof
from kafkakit.core.model import TopicPartition
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import GroupRule


class Minimize(StrEnum):
    """What a plan spends: copies of replicas, or the bytes in them."""

    MOVES = "moves"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A partition to place: `current` in preference order, `wanted` replicas, size of one copy in bytes.

    `in_sync` are the brokers known to hold a full copy; None when unknown.
    """

    key: TopicPartition
    current: tuple[int, ...]
    wanted: int
    size_bytes: int | None = None
    in_sync: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class PlacementProblem:
    """Partitions sorted by key, usable target brokers sorted by id, and the rack of every known broker.

    `standing` counts replicas of other partitions by broker, where these are to come out even with the rest. Targets
    that are `closed` keep their copies and take none (minimal movement alone looks at them).
    """

    partitions: tuple[PlannedPartition, ...]
    targets: tuple[int, ...]
    racks: Mapping[int, str | None]
    rule: GroupRule
    minimize: Minimize = Minimize.MOVES
    standing: Mapping[int, int] = field(default_factory=dict)
    closed: frozenset[int] = frozenset()

    @property
    def taking(self) -> tuple[int, ...]:
        """The targets that take new copies."""
        return tuple(b for b in self.targets if b not in self.closed)

    def rack_of(self, broker: int) -> str | None:
        """The broker's rack; None for rackless and unknown brokers."""
        return self.racks.get(broker) or None

    @property
    def grouping(self) -> Grouping:
        """The rule on these racks, the targets that are not closed taking copies."""
        return Grouping.of(self.rule, self.racks, self.taking, [p.key.topic for p in self.partitions])

    def staying(self) -> list[tuple[int, ...]]:
        """Of each partition the replicas that may stay: those on targets that its tags leave to it."""
        tags, targets = self.rule.tags, frozenset(self.targets)
        return [
            tuple(b for b in p.current if b in targets and (tags is None or tags.may_hold(p.key.topic, b)))
            for p in self.partitions
        ]


@dataclass(frozen=True, slots=True)
class Placement:
    """Replica lists in the order of the problem's partitions.

    `unplaced[i]` is how many wanted replicas of partition i found no broker. `bound` is a proven lower
    bound on the new copies (or their bytes), `argument` says why and `proof` lets a program check it. `notes`
    are for the operator.
    """

    replicas: tuple[tuple[int, ...], ...]
    unplaced: tuple[int, ...]
    bound: int
    argument: str
    notes: tuple[str, ...] = ()
    proof: Proof | None = None


Partitions = tuple[PlannedPartition, ...]


def set_stranded_apart(partitions: Partitions, live: frozenset[int]) -> tuple[Partitions, Partitions]:
    """Split into (movable, stranded); stranded ones have replicas, and none of those in sync is on a live broker.

    Where the in-sync set is unknown, any live replica counts. A move of a stranded partition would wait for ever
    (Kafka accepts it and has no leader to copy from), and dropping its dead copies would lose the data.
    """
    stranded = tuple(p for p in partitions if p.current and not _sources(p) & live)
    if not stranded:
        return partitions, ()
    apart = {p.key for p in stranded}
    return tuple(p for p in partitions if p.key not in apart), stranded


def _sources(partition: PlannedPartition) -> frozenset[int]:
    return frozenset(partition.current) if partition.in_sync is None else partition.in_sync


def stranded_warning(partition: PlannedPartition) -> str:
    """The overridable warning about one of them."""
    sources = ", ".join(map(str, sorted(_sources(partition)))) or "none"
    key = partition.key
    return f"{key.topic} p{key.partition}: no live copy in sync (brokers {sources}), left where it is"


def with_stranded(placement: Placement, placed: Sequence[PlannedPartition], every: Partitions) -> Placement:
    """Put the stranded partitions back into a placement of the others, unchanged; `every` gives the order."""
    if len(placed) == len(every):
        return placement
    lists = {p.key: replicas for p, replicas in zip(placed, placement.replicas, strict=True)}
    missing = {p.key: n for p, n in zip(placed, placement.unplaced, strict=True)}
    return replace(
        placement,
        replicas=tuple(lists.get(p.key, p.current) for p in every),
        unplaced=tuple(missing.get(p.key, 0) for p in every),
    )
