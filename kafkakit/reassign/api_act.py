"""What other tools use of `reassign`: a run of a plan."""

from kafkakit.reassign.act.run import prepare_run
