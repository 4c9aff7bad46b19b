"""What the operator asked `topicmappr rebalance` or `scale` for, validated."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.placement.group_rule import refuse_both_rules
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.constraints import NO_CONSTRAINTS, TagConstraints
from kafkakit.topicmappr.decide.rebuild.request import MAX_REPLICATION

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What loads should look like in the end; without any of these kafka-kit's thresholds and tolerance rule.

    `band` is a part of each broker's share, `free_range_bytes` the largest difference of free bytes between two
    brokers, `count_band` a part of each broker's share of replicas. The budgets limit the plan; alone they ask
    for the smallest range they can buy. `within_racks` a broker's share is of what its rack holds now; with
    `best_effort` a goal that cannot be reached is approached.
    """

    band: Fraction | None = None
    free_range_bytes: int | None = None
    count_band: Fraction | None = None
    max_moved_bytes: int | None = None
    max_moves: int | None = None
    within_racks: bool = False
    best_effort: bool = False

    @property
    def given(self) -> bool:
        """True when the request names a goal of its own."""
        return any(
            value is not None
            for value in (self.band, self.free_range_bytes, self.count_band, self.max_moved_bytes, self.max_moves)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRequest:
    """A balance of bytes: which partitions, over which brokers, to which goal, under which rules.

    Thresholds, tolerance and limits are kafka-kit's; None where the flag was not given, since kafka-kit's
    defaults hold only without a goal. With `balance_dirs` log dirs inside
    brokers are balanced to that band. `pinned` are topics or topic/partition that stay as they are. `spread` is
    the even spread over racks, in place of `min_rack_ids`. At most
    `max_rack_violations` sets may break the rack rule in the end (None: those that do may stay so). `scale` demands
    new brokers. Brokers in `exclude_receivers` get no copies, those in `exclude_givers` lose none. `max_replicas` and
    `max_leaders` are what a broker may end with of all topics, `max_topic_leaders` what it may lead of one topic.
    `words` are the flags as given, for the plan's record.
    """

    brokers: BrokerList
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    scale: bool = False
    goal: Goal = Goal()
    storage_threshold: float | None = None
    storage_threshold_gb: float | None = None
    tolerance: float = 0.0
    partition_limit: int = 30
    partition_size_threshold_mib: int | None = None
    locality_scoped: bool = False
    min_rack_ids: int = 0
    spread: bool = False
    max_rack_violations: int | None = None
    minimize: Minimize = Minimize.BYTES
    max_disk_use: Fraction = Fraction(9, 10)
    head_room_bytes: int = 0
    balance_dirs: Fraction | None = None
    pinned: tuple[str, ...] = ()
    optimize_leadership: bool = False
    exclude_receivers: BrokerList | None = None
    exclude_givers: BrokerList | None = None
    max_replicas: int | None = None
    max_leaders: int | None = None
    max_topic_leaders: int | None = None
    constraints: TagConstraints = NO_CONSTRAINTS
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.topics:
            raise UsageError("must specify --topics")
        if self.goal.band is not None and self.goal.free_range_bytes is not None:
            raise UsageError("--band and --free-range contradict each other", hint="give one of them")
        if self.goal.within_racks and self.goal.band is None:
            raise UsageError("--balance-within racks needs a --band", hint="for example --band 10%")
        if self.goal.best_effort and self.goal.band is None and self.goal.free_range_bytes is None:
            raise UsageError("--best-effort needs a goal", hint="give --band or --free-range")
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")
        refuse_both_rules(self.min_rack_ids, self.spread)
        if not 0 <= self.tolerance < 1:
            raise UsageError(f"--tolerance: {self.tolerance} is not between 0 and 1")
        if self.goal.given and self.tolerance:
            raise UsageError("--tolerance has no effect with an explicit goal", hint="leave it out")
        for flag, value in (
            ("--storage-threshold", self.storage_threshold),
            ("--storage-threshold-gb", self.storage_threshold_gb),
        ):
            if value is not None and not 0 <= value < math.inf:
                raise UsageError(f"{flag}: {value} is not a number of at least 0")
        if self.partition_limit < 1:
            raise UsageError(f"--partition-limit: {self.partition_limit} is less than 1")

    @property
    def smallest_bytes(self) -> int:
        """Partitions smaller than this stay: kafka-kit's 512 MiB, nothing where a goal is given."""
        if self.partition_size_threshold_mib is not None:
            return self.partition_size_threshold_mib * MIB
        return 0 if self.goal.given else 512 * MIB
