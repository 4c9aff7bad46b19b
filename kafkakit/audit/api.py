"""What other tools may use of audits: where a Spark job runs, and what its driver reports."""

from kafkakit.audit.decide.launch import Backend, SparkChoice
