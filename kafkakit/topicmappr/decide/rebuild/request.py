"""What the operator asked `topicmappr rebuild` for, validated."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from kafkakit.core.broker_list import MAX_BROKER_ID, BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.core.model import PartitionMap, TopicPartition
from kafkakit.placement.problem import Minimize, OptimizeFor, PlaceBy
from kafkakit.topicmappr.decide.constraints import NO_CONSTRAINTS, TagConstraints
from kafkakit.topicmappr.decide.scope import TopicScope

MAX_REPLICATION = 32_767
MAX_FACTOR = 1000


def parse_factor(value: float) -> Fraction:
    """The exact fraction that a decimal number stands for; `UsageError` for infinity and for what is no number."""
    if not isfinite(value):
        raise UsageError(f"--partition-size-factor: {value:g} is not a number to multiply sizes with")
    return Fraction(str(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildRequest:
    """A rebuild: which partitions, onto which brokers, under which rules.

    `map` replaces topic lookup when given; `replication` 0 leaves the factor alone. `leader_evac_brokers` must
    not lead `leader_evac_topics` (patterns) afterwards. `chunk_step` brokers change at a time (0: all at once).
    Without `use_meta` racks and liveness of brokers are not looked at. `optimize` and `partition_size_factor` (what
    a new copy reserves, against its size) are for placement by storage, which spends bytes. `untouched` partitions
    keep their lists, and count where counts come out even. Brokers that are `closed` take no new copies in a rebuild
    that moves as little as possible. `words` are the flags as given, for the plan's record.
    """

    brokers: BrokerList
    topics: tuple[str, ...] = ()
    topics_exclude: tuple[str, ...] = ()
    map: PartitionMap | None = None
    replication: int = 0
    force_rebuild: bool = False
    sub_affinity: bool = False
    min_rack_ids: int = 0
    skip_no_ops: bool = False
    optimize_leadership: bool = False
    phased: bool = False
    constraints: TagConstraints = NO_CONSTRAINTS
    leader_evac_brokers: tuple[int, ...] = ()
    leader_evac_topics: tuple[str, ...] = ()
    chunk_step: int = 0
    use_meta: bool = True
    minimize: Minimize = Minimize.MOVES
    placement: PlaceBy = PlaceBy.COUNT
    optimize: OptimizeFor = OptimizeFor.DISTRIBUTION
    partition_size_factor: Fraction = Fraction(1)
    untouched: frozenset[TopicPartition] = frozenset()
    closed: frozenset[int] = frozenset()
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        _ = self.scope  # raises where no topics are named
        if self.by_storage and not self.use_meta:
            raise UsageError("--placement=storage requires --use-meta=true")
        if not 0 < self.partition_size_factor <= MAX_FACTOR:
            raise UsageError(
                f"--partition-size-factor: {float(self.partition_size_factor):g} is not above 0 and up to {MAX_FACTOR}"
            )
        if bool(self.leader_evac_brokers) != bool(self.leader_evac_topics):
            raise UsageError(
                "--leader-evac-topics and --leader-evac-brokers must both be specified for leadership evacuation"
            )
        if self.phased and self.chunk_step:
            raise UsageError(
                "--phased-reassignment and --chunk-step-size exclude each other",
                hint="the first phase makes all new copies at once, which is what chunks are to avoid",
            )
        if not 0 <= self.chunk_step <= MAX_BROKER_ID:
            raise UsageError(f"--chunk-step-size: {self.chunk_step} is not a number of brokers")
        if not 0 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"--replication: {self.replication} is not between 0 and {MAX_REPLICATION}")
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")

    @property
    def scope(self) -> TopicScope:
        """The topics asked for."""
        return TopicScope(
            topics=self.topics,
            topics_exclude=self.topics_exclude,
            map=self.map,
            replication=self.replication,
            sized=self.minimize is Minimize.BYTES,
        )

    @property
    def by_storage(self) -> bool:
        """True when free bytes are evened out instead of counts."""
        return self.placement is PlaceBy.STORAGE

    @property
    def spends(self) -> Minimize:
        """What the plan's cost is counted in."""
        return Minimize.BYTES if self.by_storage else self.minimize
