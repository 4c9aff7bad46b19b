"""What the operator asked `topicmappr rebuild` for, validated."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.errors import UsageError
from kafkakit.model import PartitionMap
from kafkakit.topicmappr.broker_list import BrokerList
from kafkakit.topicmappr.problem import Minimize

MAX_REPLICATION = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildRequest:
    """A rebuild: which partitions, onto which brokers, under which rules.

    `map` replaces topic lookup when given; `replication` 0 leaves the factor alone; `words` are the flags
    as given, for the plan's record.
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
    minimize: Minimize = Minimize.MOVES
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.map is None and not self.topics:
            raise UsageError("must specify either --topics or --map-string")
        if not 0 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"--replication: {self.replication} is not between 0 and {MAX_REPLICATION}")
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")
