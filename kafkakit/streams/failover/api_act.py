"""What other tools use of `streams failover`: planning one operation, and running it under its stream's lease."""

from kafkakit.streams.failover.act.operations import (
    OperationPorts,
    PutEvents,
    StreamLease,
    StreamOperation,
    no_events,
    plan_operation,
)
