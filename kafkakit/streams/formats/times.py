"""Times of records and how long ago they were, as text."""

from datetime import UTC, datetime, timedelta

from kafkakit.core.quantities import format_rough_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_text(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC; `ms N` where no calendar reaches, which a payload may well claim."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"ms {ms}"


def age_text(ms: int, now_ms: int) -> str:
    """How long ago that was, or how far ahead it is."""
    seconds = (now_ms - ms) / 1000
    return f"{format_rough_time(seconds)} ago" if seconds >= 0 else f"{format_rough_time(-seconds)} ahead"


def interval_text(low_ms: int, high_ms: int) -> str:
    """One time, or both ends where they differ."""
    return utc_text(low_ms) if low_ms == high_ms else f"between {utc_text(low_ms)} and {utc_text(high_ms)}"
