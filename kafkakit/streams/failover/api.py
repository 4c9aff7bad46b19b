"""What other tools use of `streams failover`: requests, plans and how operations end."""

from kafkakit.streams.failover.decide.journal import lease_of
from kafkakit.streams.failover.decide.operation import (
    FailoverRequest,
    FenceChoice,
    OperationKind,
    ReadOrder,
    Step,
)
from kafkakit.streams.failover.decide.outcome import EndKind, RunEnd
from kafkakit.streams.failover.decide.plan import FailoverPlan
from kafkakit.streams.failover.decide.preconditions import Level
