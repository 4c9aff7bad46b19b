"""What other tools may use of audits: where a Spark job runs, and what its driver reports."""

from kafkakit.audit.decide.launch import Backend, SparkChoice
from kafkakit.audit.decide.progress import Progress, progress_of

__all__ = ["Backend", "Progress", "SparkChoice", "progress_of"]
