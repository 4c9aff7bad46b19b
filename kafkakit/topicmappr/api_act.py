"""What other tools use of the planner's look at a cluster."""

from kafkakit.topicmappr.act.planning import ObservingSession, observe
