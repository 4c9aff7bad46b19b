"""Three ways to write a done set as bytes: run lengths, Rice codes, a bitmap; and the smallest of them.

All of them tell of the offsets from `base` (which is pending) to the highest done one. Bits are taken lowest first.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from kafkakit.streams.formats.kkm1.varint import BadBodyError, Cursor, uvarint, uvarint_size
from kafkakit.streams.formats.offset_ranges import MAX_OFFSET, OffsetRanges, Range

FEW_BYTES = 8
_MAX_PARAMETER = 63
_ONES = re.compile("1+")


class Encoding(IntEnum):
    """How the runs are packed; the numbers are those of the payload."""

    RUNS = 0
    RICE = 1
    BITMAP = 2

    @property
    def word(self) -> str:
        """The name in lower case, as readings tell it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Packed:
    """A done set as bytes, and how to read them."""

    encoding: Encoding
    data: bytes


def runs_of(base: int, done: OffsetRanges) -> list[int]:
    """Lengths of pending and done runs by turns, the first pending, the last done."""
    runs: list[int] = []
    at = base
    for start, end in done.ranges:
        runs += (start - at, end - start)
        at = end
    return runs


def pack_runs(runs: list[int]) -> Packed:
    """Each length as a number of seven bits a byte."""
    out = bytearray()
    for run in runs:
        # As `uvarint` does; a call for each of thousands of runs would take most of the time.
        while run > 127:
            out.append(run & 127 | 128)
            run >>= 7  # noqa: PLW2901
        out.append(run)
    return Packed(Encoding.RUNS, bytes(out))


def pack_rice(runs: list[int]) -> Packed:
    """Rice codes of the lengths less one, with parameters of their own for pending and for done runs.

    A code is the quotient by 2**k as ones and a zero, then the remainder in k bits. Source: R. F. Rice, JPL 79-22.
    """
    (pending, _), (done, _) = rice_parameter(runs[::2]), rice_parameter(runs[1::2])
    codes: list[str] = []
    for at, run in enumerate(runs):
        k = done if at & 1 else pending
        # Highest bit first: the whole is turned round once.
        rest = f"{(run - 1) & ((1 << k) - 1):0{k}b}" if k else ""
        codes.append(f"{rest}0{'1' * ((run - 1) >> k)}")
    bits = "".join(reversed(codes))
    data = int(bits, 2).to_bytes((len(bits) + 7) // 8, "little")
    return Packed(Encoding.RICE, bytes((pending, done)) + uvarint(len(runs)) + data)


def rice_parameter(runs: list[int]) -> tuple[int, int]:
    """The parameter with which these lengths take the fewest bits (the lower one of equals), and those bits.

    The bits fall, then rise with it, so the walk from the logarithm of the mean ends at the least.
    """

    def bits(k: int) -> int:
        return sum([(run - 1) >> k for run in runs]) + (k + 1) * len(runs)

    k = max(0, (sum(runs) // len(runs)).bit_length() - 1)
    best = bits(k)
    while k and (lower := bits(k - 1)) <= best:
        k, best = k - 1, lower
    while k < _MAX_PARAMETER and (higher := bits(k + 1)) < best:
        k, best = k + 1, higher
    return k, best


def pack_bitmap(runs: list[int]) -> Packed:
    """One bit for each offset, 1 for done. Cost: the span, so ask for its size first."""
    bits = "".join(["1" * run if at & 1 else "0" * run for at, run in enumerate(runs)])
    return Packed(Encoding.BITMAP, int(bits[::-1], 2).to_bytes((len(bits) + 7) // 8, "little"))


def pack_smallest(runs: list[int]) -> Packed:
    """The smallest of the three, the first of equals; a few runs stay runs, which people can read without a tool.

    Cost: the runs; the offsets only where a bitmap of them is smaller than those.
    """
    packed = pack_runs(runs)
    if len(packed.data) <= FEW_BYTES:
        return packed
    bits = rice_parameter(runs[::2])[1] + rice_parameter(runs[1::2])[1]
    rice = 2 + uvarint_size(len(runs)) + (bits + 7) // 8
    bitmap = (sum(runs) + 7) // 8
    if bitmap < min(rice, len(packed.data)):
        return pack_bitmap(runs)
    return pack_rice(runs) if rice < len(packed.data) else packed


def unpack(encoding: int, data: Cursor, base: int, span: int) -> OffsetRanges:
    """The done set that was packed; raises `BadBodyError` unless it fills `span` exactly and uses every byte."""
    if base + span - 1 > MAX_OFFSET:
        raise BadBodyError("its offsets do not fit 63 bits")
    if encoding == Encoding.RUNS:
        return _from_runs(_unpack_runs(data), base, span)
    if encoding == Encoding.RICE:
        return _from_runs(_unpack_rice(data), base, span)
    if encoding == Encoding.BITMAP:
        return _unpack_bitmap(data, base, span)
    raise BadBodyError(f"it packs offsets in way {encoding}, which is not known")


def _unpack_runs(data: Cursor) -> list[int]:
    runs: list[int] = []
    while data.left:
        runs.append(data.uvarint())
    return runs


def _unpack_rice(data: Cursor) -> list[int]:
    parameters = data.byte(), data.byte()
    count = data.uvarint()
    raw = data.take(data.left)
    if max(parameters) > _MAX_PARAMETER or count > 8 * len(raw):
        raise BadBodyError("its Rice codes cannot be")
    # Highest bit first, so the codes are read from the end of the string towards its start.
    bits = f"{int.from_bytes(raw, 'little'):0{8 * len(raw)}b}" if raw else ""
    at = len(bits)
    runs: list[int] = []
    for number in range(count):
        k = parameters[number & 1]
        zero = bits.rfind("0", 0, at)
        if zero < k:
            raise BadBodyError("its Rice codes end too early")
        rest = int(bits[zero - k : zero], 2) if k else 0
        runs.append((((at - zero - 1) << k) | rest) + 1)
        at = zero - k
    if at > 7 or "1" in bits[:at]:
        raise BadBodyError("bytes follow its Rice codes")
    return runs


def _from_runs(runs: list[int], base: int, span: int) -> OffsetRanges:
    if len(runs) % 2 or not all(runs):
        raise BadBodyError("its runs cannot be")
    ranges: list[Range] = []
    at = base
    for pending, done in zip(runs[::2], runs[1::2], strict=True):
        start = at + pending
        at = start + done
        ranges.append((start, at))
    if at != base + span:
        raise BadBodyError("its runs do not fill its span")
    return OffsetRanges(tuple(ranges))


def _unpack_bitmap(data: Cursor, base: int, span: int) -> OffsetRanges:
    raw = data.take(data.left)
    if len(raw) != (span + 7) // 8 or raw[0] & 1:
        raise BadBodyError("its bitmap does not fill its span")
    # The highest bit that is set must be that of the highest done offset.
    bits = f"{int.from_bytes(raw, 'little'):b}"[::-1]
    if len(bits) != span:
        raise BadBodyError("its bitmap does not fill its span")
    return OffsetRanges(tuple([(base + ones.start(), base + ones.end()) for ones in _ONES.finditer(bits)]))
