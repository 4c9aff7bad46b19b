"""What other tools use of `status`: the judgement of what was read of a cluster."""

from kafkakit.status.decide.judgement import ClusterReading, judge_cluster
