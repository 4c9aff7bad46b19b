"""What other tools may use of audits where they act: running a driver of Spark in a locked folder."""

from kafkakit.audit.act import DriverJob, DriverPorts, log_tail, run_driver
