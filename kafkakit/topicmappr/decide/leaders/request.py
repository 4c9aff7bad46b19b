"""What the operator asked `topicmappr leaders` for, validated."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.topicmappr.decide.budget import NO_BUDGET, Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersRequest:
    """Even out preferred leaders of the chosen topics.

    `brokers` may lead (None: every live broker), `evacuated` may not. `pinned` are topics or topic/partition that
    keep their order, `budget` how many partitions one run may change. `words` are the flags as given, for the plan's
    record. Raises `UsageError` for contradictions.
    """

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    brokers: BrokerList | None = None
    evacuated: BrokerList | None = None
    pinned: tuple[str, ...] = ()
    budget: Budget = NO_BUDGET
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.evacuated is None:
            return
        if self.evacuated.existing or self.evacuated.everything:
            raise UsageError("--leader-evac-brokers: name the brokers, -1 and -2 mean all of them")
        both = sorted({*self.evacuated.ids} & {*(self.brokers.ids if self.brokers else ())})
        if both:
            raise UsageError(f"broker {both[0]} is named by both --brokers and --leader-evac-brokers")
