"""What a plain request was turned into: the plan, and what the report shows besides."""

from dataclasses import dataclass

from kafkakit.core.plan import Plan
from kafkakit.topicmappr.decide.budget import NOTHING_LEFT, LeftForLater


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A decided request. `title` is its summary; `reasons` are why some partitions cannot be served.

    `left_alone` counts those partitions. The plan serves all others, and is written with them left out
    only when the operator asks for that. `later` is what a budget left for another run.
    """

    title: str
    topics: tuple[str, ...]
    topics_excluded: tuple[str, ...]
    plan: Plan
    reasons: tuple[str, ...] = ()
    left_alone: int = 0
    later: LeftForLater = NOTHING_LEFT
