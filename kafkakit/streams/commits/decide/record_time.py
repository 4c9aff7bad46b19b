"""The time of the record at an offset, out of a raw read, in the words of the inspector."""

from kafkakit.streams.model.dialects.dialect import TimeSpan
from kafkakit.streams.model.log_batches import RecordTime, TimeKind, record_at

_SOURCES = {
    TimeKind.RECORD: "its record in the log",
    TimeKind.APPEND: "the broker's clock",
    TimeKind.HEADER: "its batch in the log",
}


def time_at(records: bytes, offset: int) -> TimeSpan | None:
    """When the record at this offset, or the next one that the log still has, was written; None when it is not here."""
    found = record_at(records, offset)
    if not isinstance(found, RecordTime) or found.low_ms < 0 or found.high_ms < 0:
        return None
    return TimeSpan(
        low_ms=found.low_ms,
        high_ms=found.high_ms,
        source=_SOURCES[found.kind],
        record_offset=found.offset if found.is_offset_exact else None,
    )
