"""What other tools use of `streams commits`: a cluster whose commits are edited."""

from kafkakit.streams.commits.act.edit_journals import edit_lock
from kafkakit.streams.commits.act.edit_observation import PartitionScope
from kafkakit.streams.commits.act.edited_cluster import EditedCluster
