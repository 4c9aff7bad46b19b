"""What other tools use of `streams failover`: planning one operation, and running it under its stream's lease."""

from kafkakit.streams.failover.act.operations import OperationPorts, StreamLease, StreamOperation, plan_operation

__all__ = ["OperationPorts", "StreamLease", "StreamOperation", "plan_operation"]
