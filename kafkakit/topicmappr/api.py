"""What other tools use of the planner: its decisions, requests and the blocks of its reports."""

from kafkakit.topicmappr.decide.assembly import PlanDecision, PlannedChange, assemble
from kafkakit.topicmappr.decide.audit import MAP_DIGEST, audit_map, digest_of, plan_of_map
from kafkakit.topicmappr.decide.audit_map import read_map
from kafkakit.topicmappr.decide.drain import decide_drain
from kafkakit.topicmappr.decide.place import decide_place
from kafkakit.topicmappr.decide.plain_requests import DrainRequest, PlaceRequest
from kafkakit.topicmappr.decide.requests import MapAuditRequest
from kafkakit.topicmappr.decide.scope import (
    NO_CONSTRAINTS,
    TagConstraints,
    TopicScope,
    resolve_queries,
    scope_of,
    tags_needed,
)
from kafkakit.topicmappr.report.judgement import audit_sections
from kafkakit.topicmappr.report.page import report_page
from kafkakit.topicmappr.report.requests import planned_change_text
