"""What the operator asked `topicmappr fix-racks` for, validated."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.placement.group_rule import refuse_both_rules
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.budget import NO_BUDGET, Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRacksRequest:
    """Repair the rack rule for the chosen topics.

    The rule is `min_rack_ids` as everywhere, or with `spread` that a partition's replicas per rack differ by
    at most one. `pinned` are topics or topic/partition that stay as they are, `budget` what one run may copy. `words`
    are the flags as given, for the plan's record.
    """

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    min_rack_ids: int = 0
    spread: bool = False
    minimize: Minimize = Minimize.MOVES
    pinned: tuple[str, ...] = ()
    budget: Budget = NO_BUDGET
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.min_rack_ids < 0:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is below 0")
        refuse_both_rules(self.min_rack_ids, self.spread)
