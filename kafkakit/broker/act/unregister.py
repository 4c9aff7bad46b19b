"""Taking stopped brokers off the cluster's list, under the cluster's lease."""

from collections.abc import Sequence
from functools import partial

from kafkakit.execution.act.cluster_access import OpenAccess
from kafkakit.execution.act.retrier import Retrier
from kafkakit.ports.reporter import Reporter


class Unregister:
    """Has KRaft forget brokers; safe to repeat, so it needs no journal."""

    def __init__(self, open_access: OpenAccess, reporter: Reporter, retry_limit_s: float) -> None:
        self._open_access, self._reporter, self._retry_limit_s = open_access, reporter, retry_limit_s

    def forget(self, brokers: Sequence[int]) -> tuple[str, ...]:
        """Unregister the brokers in turn; returns what was refused, in words."""
        with self._open_access() as access:
            retrier = Retrier(access.clock, self._reporter, self._retry_limit_s)
            for broker in brokers:
                error = retrier.call("unregistering", partial(access.admin.unregister_broker, broker))
                if error is not None:
                    return (f"broker {broker} is not unregistered: {error}",)
        return ()
