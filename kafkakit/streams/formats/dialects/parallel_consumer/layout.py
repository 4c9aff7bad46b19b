"""How confluentinc/parallel-consumer packs an offset map: base64 of one byte for the encoding, then its data.

A map covers `n` offsets from the committed one on. Bitmaps: `n` (2 or 4 bytes, big endian), `ceil(n / 8)` bytes with
the lowest bit first and 1 for done, and one spare zero byte. Runs: lengths (2 or 4 bytes, big endian), pending and
done in turn, pending first; only the first may be 0. Source: `OffsetEncoding`, `BitSetEncoder`, `RunLengthEncoder`.
"""

import struct
from dataclasses import dataclass
from enum import Enum

from kafkakit.streams.formats.commit import Problem
from kafkakit.streams.formats.dialects.parallel_consumer.bitmap import done_in_bitmap, has_bits_from
from kafkakit.streams.formats.offset_ranges import MAX_OFFSET, OffsetRanges

ZSTD_MAGIC = bytes.fromhex("28b52ffd")
MAX_BODY = 1 << 20
"""Bytes of an inflated map that are read, 8 million offsets as bits; what inflates to more is refused unread."""
MAX_RANGES = 1 << 17
"""Done ranges that are read from one map; more than any payload of 32,767 chars holds uncompressed."""


class MapKind(Enum):
    """How the data of a map is laid out."""

    BYTES = "one byte an offset"
    BITS = "bitmap"
    RUNS = "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapEncoding:
    """One row of the client's table of encodings; `width` is the bytes of a length or of a run."""

    name: str
    magic: int
    kind: MapKind
    width: int
    is_compressed: bool = False


ENCODINGS: dict[int, MapEncoding] = {
    e.magic: e
    for e in (
        MapEncoding(name="ByteArray", magic=0x4C, kind=MapKind.BYTES, width=1),
        MapEncoding(name="ByteArrayCompressed", magic=0xEE, kind=MapKind.BYTES, width=1, is_compressed=True),
        MapEncoding(name="BitSet", magic=0x6C, kind=MapKind.BITS, width=2),
        MapEncoding(name="BitSetCompressed", magic=0x61, kind=MapKind.BITS, width=2, is_compressed=True),
        MapEncoding(name="RunLength", magic=0x6E, kind=MapKind.RUNS, width=2),
        MapEncoding(name="RunLengthCompressed", magic=0x4A, kind=MapKind.RUNS, width=2, is_compressed=True),
        MapEncoding(name="BitSetV2", magic=0x6F, kind=MapKind.BITS, width=4),
        MapEncoding(name="BitSetV2Compressed", magic=0x73, kind=MapKind.BITS, width=4, is_compressed=True),
        MapEncoding(name="RunLengthV2", magic=0x65, kind=MapKind.RUNS, width=4),
        MapEncoding(name="RunLengthV2Compressed", magic=0x70, kind=MapKind.RUNS, width=4, is_compressed=True),
    )
}


class MapError(Exception):
    """The data is no map of its encoding; the message says why."""

    def __init__(self, reason: str, problem: Problem = Problem.BAD_BODY) -> None:
        super().__init__(reason)
        self.reason = reason
        self.problem = problem


def parse_map(kind: MapKind, width: int, body: bytes, base: int) -> OffsetRanges:
    """The done offsets of a map that starts at `base`; raises `MapError` for anything that the client does not write.

    Cost: linear in the body, whatever lengths it claims.
    """
    return _parse_bits(body, width, base) if kind is MapKind.BITS else _parse_runs(body, width, base)


def _parse_bits(body: bytes, width: int, base: int) -> OffsetRanges:
    if len(body) < width + 1:
        raise MapError(f"{len(body)} bytes are too few for a bitmap")
    length = int.from_bytes(body[:width], "big", signed=True)
    if length < 0:
        raise MapError(f"a length of {length} offsets")
    if len(body) != width + (length + 7) // 8 + 1:
        raise MapError(f"a bitmap of {length} offsets takes {width + (length + 7) // 8 + 1} bytes, not {len(body)}")
    if has_bits_from(body[width:], length):
        raise MapError(f"bits are set behind the last of {length} offsets")
    _check_end(base, length)
    done = done_in_bitmap(body[width:], base, MAX_RANGES)
    if done is None:
        raise MapError(f"more than {MAX_RANGES} done ranges", Problem.TOO_LARGE)
    return done


def _parse_runs(body: bytes, width: int, base: int) -> OffsetRanges:
    count, rest = divmod(len(body), width)
    if rest:
        raise MapError(f"{len(body)} bytes are no whole number of runs of {width} bytes")
    if count > 2 * MAX_RANGES:
        raise MapError(f"more than {MAX_RANGES} done ranges", Problem.TOO_LARGE)
    runs = struct.unpack(f">{count}{'h' if width == 2 else 'i'}", body)
    if any(run < 0 for run in runs):
        raise MapError(f"a run of {min(runs)} offsets")
    if 0 in runs[1:]:
        raise MapError("an empty run behind the first one")
    _check_end(base, sum(runs))
    found: list[tuple[int, int]] = []
    at = base
    for pending, done in zip(runs[::2], (*runs[1::2], 0), strict=False):
        at += pending + done
        if done:
            found.append((at - done, at))
    return OffsetRanges(tuple(found))


def _check_end(base: int, length: int) -> None:
    if base + length > MAX_OFFSET:
        raise MapError(f"{length} offsets from {base} on go past the highest offset there is")
