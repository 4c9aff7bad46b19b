"""Emergency failovers by the operations of `streams failover`."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from kafkakit.streams.failover.api import FailoverRequest, Step
from kafkakit.streams.failover.api_act import OperationPorts, StreamOperation

WAIT_S = 60.0
"""How long one may be without progress; the Assigner tries again later."""


class OperationFailover:
    """Implements `EmergencyFailover`; each call has ports of its own, as it runs in a thread of its own.

    It ends when producers are at the target. What is stranded is drained and certified by `streams failover resume`,
    once the old cluster is back.
    """

    def __init__(self, open_ports: Callable[[], AbstractContextManager[OperationPorts]]) -> None:
        self._open_ports = open_ports

    def emergency(self, stream: str, target: str) -> str:
        """See `EmergencyFailover`."""
        with self._open_ports() as ports:
            operation = StreamOperation(ports, FailoverRequest(stream=stream, to=target, is_emergency=True))
            try:
                if operation.refused is not None:
                    why = [each.text for each in operation.refused.refused]
                    return f"refused: {'; '.join(why)}"
                end = operation.advance(Step.ROUTED, WAIT_S)
            finally:
                operation.close()
        return f"{end.kind} ({end.step}){''.join(f'; {line}' for line in end.lines)}"
