"""What the operator asked `topicmappr drain` for, validated."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.placement.choices import PlaceBy
from kafkakit.placement.group_rule import refuse_both_rules
from kafkakit.topicmappr.decide.budget import NO_BUDGET, Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """Empty the brokers `leaving` of the chosen topics; `receiving` may take the replicas (None: all others).

    `spread` is the even spread over racks, in place of `min_rack_ids`. `placement` says what comes out even among
    those receivers: counts of replicas, or free bytes.
    `pinned` are topics or topic/partition that stay as they are, `budget` what one run may copy.
    `words` are the flags as given, for the plan's record. Raises `UsageError` for contradictions.
    """

    leaving: BrokerList
    receiving: BrokerList | None = None
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    min_rack_ids: int = 0
    spread: bool = False
    placement: PlaceBy = PlaceBy.COUNT
    pinned: tuple[str, ...] = ()
    budget: Budget = NO_BUDGET
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        for flag, listed in (("--brokers", self.leaving), ("--to", self.receiving)):
            if listed is not None and (listed.existing or listed.everything):
                raise UsageError(f"{flag}: name the brokers, -1 and -2 mean all of them")
        if self.receiving is not None:
            both = sorted({*self.leaving.ids} & {*self.receiving.ids})
            if both:
                raise UsageError(f"broker {both[0]} is named by both --brokers and --to")
        if self.min_rack_ids < 0:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is below 0")
        refuse_both_rules(self.min_rack_ids, self.spread)
