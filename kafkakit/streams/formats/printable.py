"""Text for terminals: ranges and amounts as people write them."""

from kafkakit.core.quantities import counted
from kafkakit.streams.formats.offset_ranges import OffsetRanges

SHOWN_RANGES = 6


def ranges_text(ranges: OffsetRanges, shown: int = SHOWN_RANGES) -> str:
    """Ranges with both ends in them: `100, 103-104 and 12 more ranges`."""
    words = [str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in ranges.ranges[:shown]]
    more = len(ranges.ranges) - shown
    return ", ".join(words) + (f" and {counted(more, 'more range')}" if more > 0 else "")


def amount(number: int, noun: str) -> str:
    """A large count with its noun: `1 record`, `49,995 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
