"""What other tools use of `status`: the judgement of what was read of a cluster."""

from kafkakit.status.decide.judgement import ClusterReading, Part, PartName, judge_cluster
