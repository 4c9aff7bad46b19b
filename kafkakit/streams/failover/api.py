"""What other tools use of `streams failover`: requests, plans and how operations end."""

from kafkakit.streams.failover.decide.history import EndKind, RunEnd
from kafkakit.streams.failover.decide.operation import (
    DeadLetterChoice,
    FailoverRequest,
    FenceChoice,
    OperationKind,
    ReadOrder,
    Step,
    dead_letters_option,
    lease_of,
)
from kafkakit.streams.failover.decide.plan import FailoverPlan, Level
