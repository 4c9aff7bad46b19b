"""Offsets as people write them: `102,200-210`, both ends of a range included."""

import re

from kafkakit.core.errors import UsageError
from kafkakit.streams.model.commit import OffsetRanges

MAX_OFFSET = (1 << 62) - 1
MAX_PARTS = 10_000
_PART = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


def parse_offsets(text: str, flag: str = "--offsets") -> OffsetRanges:
    """Read a comma list of offsets and ranges; raises `UsageError` for anything else, and for nothing at all."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MAX_PARTS:
        raise UsageError(f"{flag}: {len(parts)} ranges are named, at most {MAX_PARTS} can be")
    return OffsetRanges.of(_range(part, flag) for part in parts)


def _range(part: str, flag: str) -> tuple[int, int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise UsageError(f"{flag}: {part!r:.40} is no number or range", hint="write them like 102,200-210")
    first, last = int(match[1]), int(match[2] or match[1])
    if first > last:
        raise UsageError(f"{flag}: {part} ends before it begins")
    if last > MAX_OFFSET:
        raise UsageError(f"{flag}: {part} is above the highest offset there can be")
    return first, last + 1
