"""What a placement planner is asked, and what it answers: plain values without file or client shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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

    `standing` counts replicas of other partitions by broker, where these are to come out even with the rest.
    """

    partitions: tuple[PlannedPartition, ...]
    targets: tuple[int, ...]
    racks: Mapping[int, str | None]
    rule: GroupRule
    minimize: Minimize = Minimize.MOVES
    standing: Mapping[int, int] = field(default_factory=dict)

    def rack_of(self, broker: int) -> str | None:
        """The broker's rack; None for rackless and unknown brokers."""
        return self.racks.get(broker) or None

    @property
    def grouping(self) -> Grouping:
        """The rule on these racks, all targets taking copies."""
        return Grouping.of(self.rule, self.racks, self.targets)


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
