"""Brokers that leave: planning leaves them out while an operation empties them; at the end they are unregistered."""

from collections.abc import Collection, Sequence
from functools import partial

from kafkakit.broker.act.operation_files import Records
from kafkakit.broker.decide.operation import leaving_words, mark_leaving
from kafkakit.core.model import ClusterSnapshot
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


def without_leaving(
    snapshot: ClusterSnapshot,
    records: Records | None,
    reporter: Reporter,
    program: str,
    *,
    subject: Collection[int] = (),
) -> ClusterSnapshot:
    """The cluster with such brokers as draining, and a warning of each; without `records` as it was read.

    Those that the request itself is about (`subject`) stay as they are.
    """
    emptied = {} if records is None else {b: o for b, o in records.emptied().items() if b not in subject}
    marked = mark_leaving(snapshot, emptied)
    for line in leaving_words(marked, emptied, program):
        reporter.warn(line)
    return marked
