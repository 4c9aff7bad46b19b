"""Planning leaves out brokers that an operation on record empties, or has emptied."""

from collections.abc import Collection

from kafkakit.broker.act.operation_files import Records
from kafkakit.broker.decide.operation import leaving_words, mark_leaving
from kafkakit.core.model import ClusterSnapshot
from kafkakit.ports.reporter import Reporter


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
