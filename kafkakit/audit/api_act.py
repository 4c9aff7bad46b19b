"""What other tools may use of audits where they act: running a driver of Spark in a locked folder."""

from kafkakit.audit.act.driver import CODE, DriverJob, DriverPorts, launch_for, log_tail, run_driver

__all__ = ["CODE", "DriverJob", "DriverPorts", "launch_for", "log_tail", "run_driver"]
