"""What other tools use of `streams commits`: a cluster whose commits are edited."""

from kafkakit.streams.commits.act.editing import EditedCluster, edit_lock
from kafkakit.streams.commits.act.reading import PartitionScope
