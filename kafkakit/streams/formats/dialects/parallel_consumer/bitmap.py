"""Bitmaps of offsets, lowest bit first and 1 for done, read in time linear in the bitmap."""

from re import finditer

from kafkakit.streams.formats.offset_ranges import OffsetRanges


def done_in_bitmap(bits: bytes, base: int, max_ranges: int) -> OffsetRanges | None:
    """The offsets whose bit is set, bit 0 being `base`; None for more than `max_ranges` ranges."""
    value = int.from_bytes(bits, "little")
    # Every run has two edges, at which a bit differs from the one below it.
    if (value ^ value << 1).bit_count() > 2 * max_ranges:
        return None
    runs = finditer("1+", format(value, "b")[::-1])
    return OffsetRanges(tuple((base + run.start(), base + run.end()) for run in runs))


def has_bits_from(bits: bytes, length: int) -> bool:
    """True when any bit at `length` or above is set."""
    whole, rest = divmod(length, 8)
    return any(bits[whole + 1 :]) or (whole < len(bits) and bool(bits[whole] >> rest))
