"""DDSketch: counts of values in bins whose bounds grow by a factor, so that quantiles have a bounded relative error.

Bin `i` holds the values v with floor(ln v / ln gamma + offset) = i. Gamma and offset are those with which the Go and
Java tracers write: an error of at most 0.775 %. The lowest bins are joined once they would be more than 2,048, which
takes values that differ by 13 powers of ten.

Source: Masson, Rim, Lee: DDSketch, VLDB 2019; ddsketch.proto of https://github.com/DataDog/sketches-go.
"""

from math import exp, floor, log
from struct import pack

from kafkakit.streams.formats.kkm1.varint import uvarint, zigzag

GAMMA = 1.015625
OFFSET = 1.8761281912861705
MOST_BINS = 2048
_PER_LOG = 1 / log(GAMMA)
_MIDDLE = 2 * GAMMA / (1 + GAMMA)
"""What the lower bound of a bin is multiplied with for the value that is within the error of all others in it."""

_MAPPING, _POSITIVE, _GAMMA, _OFFSET, _COUNTS = b"\x0a", b"\x12", b"\x09", b"\x11", b"\x12"
_FIRST_INDEX, _ZEROS = b"\x18", b"\x21"
"""Tags of the fields in ddsketch.proto: number and wire type."""


class DDSketch:
    """Counts of finite values, and their `total`; those of 0 and below count as 0. At most 2,048 bins.

    Sketches merge exactly: the merged one is equal to that of all values, in whatever order they came, but for the
    rounding of `total`.
    """

    __slots__ = ("_bins", "_lowest", "_top", "count", "largest", "total", "zeros")

    def __init__(self) -> None:
        self.count = self.zeros = 0
        self.largest = self.total = 0.0
        self._bins: dict[int, int] = {}
        self._top = self._lowest = 0

    def add(self, value: float) -> None:
        """Count one value."""
        self.count += 1
        if value <= 0:
            self.zeros += 1
            return
        self.largest = max(self.largest, value)
        self.total += value
        self._put(floor(log(value) * _PER_LOG + OFFSET), 1)

    def merge(self, other: "DDSketch") -> None:
        """Count all values of another sketch, too."""
        self.count += other.count
        self.zeros += other.zeros
        self.largest = max(self.largest, other.largest)
        self.total += other.total
        for index, number in other._bins.items():
            self._put(index, number)

    def quantile(self, share: float) -> float | None:
        """The value with the rank `share * (count - 1)`, rounded down, within 0.775 %; None for an empty sketch.

        The highest is exact.
        """
        if not self.count:
            return None
        rank = int(share * (self.count - 1))
        if rank == self.count - 1:
            return self.largest
        if rank < self.zeros:
            return 0.0
        passed, value = self.zeros, 0.0
        for index in sorted(self._bins):
            passed += self._bins[index]
            value = exp((index - OFFSET) / _PER_LOG) * _MIDDLE
            if rank < passed:
                break
        return min(value, self.largest)

    def encode(self) -> bytes:
        """The DDSketch message of protobuf, its bins dense from the lowest to the highest: at most 16.5 KB."""
        mapping = _GAMMA + pack("<d", GAMMA) + _OFFSET + pack("<d", OFFSET)
        out = _MAPPING + uvarint(len(mapping)) + mapping
        if self._bins:
            span = range(self._lowest, self._top + 1)
            counts = pack(f"<{len(span)}d", *(self._bins.get(index, 0) for index in span))
            store = _COUNTS + uvarint(len(counts)) + counts + _FIRST_INDEX + uvarint(zigzag(self._lowest))
            out += _POSITIVE + uvarint(len(store)) + store
        return out + (_ZEROS + pack("<d", self.zeros) if self.zeros else b"")

    def _put(self, index: int, number: int) -> None:
        bins = self._bins
        if not bins:
            self._top = self._lowest = index
        if index > self._top:
            self._top = index
            floor_index = index - MOST_BINS + 1
            if self._lowest < floor_index:
                joined = sum(bins.pop(low) for low in [low for low in bins if low < floor_index])
                bins[floor_index] = bins.get(floor_index, 0) + joined
                self._lowest = floor_index
        index = max(index, self._top - MOST_BINS + 1)
        self._lowest = min(self._lowest, index)
        bins[index] = bins.get(index, 0) + number
