"""Text for terminals: ranges as people write them, and names from outside without anything that moves a cursor."""

from kafkakit.core.quantities import counted
from kafkakit.streams.formats.offset_ranges import OffsetRanges

SHOWN_RANGES = 6


def printable(text: str) -> str:
    """The text with everything that does not print, escapes of terminals above all, written as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def ranges_text(ranges: OffsetRanges, shown: int = SHOWN_RANGES) -> str:
    """Ranges with both ends in them: `100, 103-104 and 12 more ranges`."""
    words = [str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in ranges.ranges[:shown]]
    more = len(ranges.ranges) - shown
    return ", ".join(words) + (f" and {counted(more, 'more range')}" if more > 0 else "")


def amount(number: int, noun: str) -> str:
    """A large count with its noun: `1 record`, `49,995 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
