"""What other tools use of the planner: its decisions, requests and the blocks of its reports."""

from kafkakit.topicmappr.decide.assembly import Decision, assemble
from kafkakit.topicmappr.decide.drain.decision import decide_drain
from kafkakit.topicmappr.decide.drain.request import DrainRequest
from kafkakit.topicmappr.decide.planned_change import PlannedChange
from kafkakit.topicmappr.decide.scope import TopicScope, scope_of
from kafkakit.topicmappr.show.planned_change import planned_change_text

__all__ = [
    "Decision",
    "DrainRequest",
    "PlannedChange",
    "TopicScope",
    "assemble",
    "decide_drain",
    "planned_change_text",
    "scope_of",
]
