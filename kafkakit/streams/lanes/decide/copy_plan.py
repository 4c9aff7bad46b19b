"""When a rejected record must be copied to the DLQ lane, since its topic may delete it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRetention:
    """What takes records out of a topic; None where time, or size, does not."""

    retention_ms: int | None = None
    retention_bytes: int | None = None
    is_compacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOutcome:
    """What one look at the ledgers came to.

    `copied` records are in the DLQ lane now. `waiting` need no copy yet, the first one not before `next_at_ms` (None:
    their topics keep them for good). `lost` are gone from their topics, and `failed` could not be read this time, each
    with the reason; all of these stay in the ledger.
    """

    copied: int
    waiting: int
    next_at_ms: int | None
    lost: dict[str, str]
    failed: dict[str, str]


def copy_at_ms(at_ms: int | None, settings: SourceRetention, ahead_ms: int) -> int | None:
    """From when on to copy a record of this time: `ahead_ms` before it can be deleted; None where it stays for good.

    Time deletes a segment once the latest record in it is older than `retention.ms` (`UnifiedLog.deletableSegments`),
    so no record before its own time plus `retention.ms`. Neither the size to come nor the next key is known, so what
    size or compaction may take is copied at once (0), and so is a record without a time.
    """
    if settings.is_compacted or settings.retention_bytes is not None:
        return 0
    if settings.retention_ms is None:
        return None
    return 0 if at_ms is None else max(0, at_ms + settings.retention_ms - ahead_ms)
