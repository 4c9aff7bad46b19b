"""What the operator asked `topicmappr audit` for, validated."""

from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.placement.group_rule import refuse_both_rules
from kafkakit.topicmappr.decide.constraints import NO_CONSTRAINTS, TagConstraints
from kafkakit.topicmappr.decide.rebuild.request import MAX_REPLICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """How to judge a map.

    `brokers` are those whose loads should be even (None: the live ones that hold the topics afterwards), `topics`
    what another plan might move instead (empty: the topics of the map). `spread` is the even spread over racks, in
    place of `min_rack_ids`. `band` or `free_range_bytes` is the balance that was wanted; without them a map
    is held against the range of free bytes that it reaches. Without `compared` no other plan is made to hold the map
    against.
    """

    brokers: BrokerList | None = None
    topics: tuple[str, ...] = ()
    constraints: TagConstraints = NO_CONSTRAINTS
    min_rack_ids: int = 0
    spread: bool = False
    max_disk_use: Fraction = Fraction(9, 10)
    band: Fraction | None = None
    free_range_bytes: int | None = None
    compared: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")
        refuse_both_rules(self.min_rack_ids, self.spread)
        if self.band is not None and self.free_range_bytes is not None:
            raise UsageError("--band and --free-range contradict each other", hint="give one of them")
