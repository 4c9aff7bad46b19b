"""What other tools use of the planner: its decisions, requests and the blocks of its reports."""

from kafkakit.topicmappr.decide.assembly import Decision, PlannedChange, assemble
from kafkakit.topicmappr.decide.audit.decision import audit_map
from kafkakit.topicmappr.decide.audit.map_plan import MAP_DIGEST, digest_of, plan_of_map
from kafkakit.topicmappr.decide.audit.reading import read_map
from kafkakit.topicmappr.decide.audit.request import AuditRequest
from kafkakit.topicmappr.decide.constraints import NO_CONSTRAINTS, TagConstraints
from kafkakit.topicmappr.decide.drain.decision import decide_drain
from kafkakit.topicmappr.decide.drain.problem import DrainRequest
from kafkakit.topicmappr.decide.place import PlaceRequest, decide_place
from kafkakit.topicmappr.decide.scope import TopicScope, scope_of
from kafkakit.topicmappr.decide.selection import answered, tags_needed
from kafkakit.topicmappr.show.audit import audit_text
from kafkakit.topicmappr.show.planned_change import planned_change_text
