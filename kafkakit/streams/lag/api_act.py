"""What other tools use of `streams lag`: the reader of the commit log, topics' retention, and figures of groups."""

from kafkakit.streams.lag.act.fleet import ONCE_PACE, measure_groups
from kafkakit.streams.lag.act.monitor import MonitorContext, MonitoredCluster, StateFiles
from kafkakit.streams.lag.act.reading import OffsetsTail, read_topic_facts, topic_facts
