"""Reading records of topics that two clusters hold, for the comparison of both."""

from collections.abc import Collection, Mapping
from contextlib import closing

from kafkakit.core.errors import TryLaterError
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.records import Record
from kafkakit.fleet.act.snapshot_writer import SnapshotWriter
from kafkakit.fleet.decide.record_columns import record_columns
from kafkakit.fleet.decide.snapshot_columns import Spans
from kafkakit.ports.clock import Clock
from kafkakit.ports.data import DataPlane
from kafkakit.ports.log import LogReader

ROWS_OF_FILE = 500_000
RECORDS_OF_POLL = 10_000
STALLED_S = 60.0


def write_records(
    topics: Collection[str],
    spans: Spans,
    positions: Mapping[str, int],
    since_ms: int,
    log: LogReader,
    data: DataPlane,
    writer: SnapshotWriter,
    clock: Clock,
) -> dict[str, int]:
    """Write what the topics hold up to the ends in `spans`; returns the positions where the next snapshot continues.

    Partitions are read from their position on, without one from `since_ms` on. Raises `TryLaterError` when nothing
    comes for a minute.
    """
    ends = {p: s.end for p, s in spans.items() if p.topic in topics and isinstance(s, LogSpan)}
    begin = {p: positions[str(p)] for p in ends if str(p) in positions}
    for place, found in log.offsets_at({p: since_ms for p in ends if p not in begin}).items():
        begin[place] = found if isinstance(found, int) else ends[place]
    left = {p for p, at in begin.items() if at < ends[p]}
    held: list[Record] = []
    heard_s = clock.monotonic()
    with closing(data.consumer(left, {p: begin[p] for p in left})) as consumer:
        while left:
            writer.check()
            records = consumer.poll(1.0, RECORDS_OF_POLL)
            held += [record for record in records if record.offset < ends[record.partition]]
            left -= {r.partition for r in records if r.offset >= ends[r.partition] - 1}
            left -= set(consumer.ended())
            heard_s = clock.monotonic() if records else heard_s
            if left and clock.monotonic() - heard_s > STALLED_S:
                raise TryLaterError(f"{min(left)} gives no records")
            if len(held) >= ROWS_OF_FILE or not left:
                writer.add("records", record_columns(held))
                held.clear()
    return {str(p): end for p, end in ends.items()}
