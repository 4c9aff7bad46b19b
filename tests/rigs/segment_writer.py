"""Segments as golden files: batches by kafka-python's builder, with offsets, epochs and attributes patched in."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONTROL, TRANSACTIONAL = 32, 16


def batch(
    base_offset: int,
    values: Sequence[bytes] = (b"v",),
    *,
    ms: int = 1_000,
    codec: str = "none",
    epoch: int = 0,
    producer: int = -1,
    attributes: int = 0,
    deltas: Sequence[int] | None = None,
    last_delta: int | None = None,
) -> bytes:
    """One batch of format 2, times a millisecond apart; lz4 and snappy (in xerial's blocks) are Arrow's."""
    number = CODECS.index(codec)
    own = 0 if codec in ("lz4", "snappy") else number
    builder = DefaultRecordBatchBuilder(2, own, False, producer, 0 if producer >= 0 else -1, 0, 1 << 30)
    for n, value in enumerate(values):
        assert builder.append(n if deltas is None else deltas[n], ms + n, None, value, []) is not None
    made = bytearray(builder.build())
    if codec == "lz4":
        made[61:] = pa.compress(bytes(made[61:]), "lz4", asbytes=True)
    elif codec == "snappy":
        block = pa.compress(bytes(made[61:]), "snappy", asbytes=True)
        made[61:] = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
    (bits,) = struct.unpack_from(">h", made, 21)
    struct.pack_into(">qii", made, 0, base_offset, len(made) - 12, epoch)
    struct.pack_into(">h", made, 21, bits | number | attributes)
    if last_delta is not None:
        struct.pack_into(">i", made, 23, last_delta)
    struct.pack_into(">I", made, 17, calc_crc32c(memoryview(made)[21:]))
    return bytes(made)


def legacy(base_offset: int, value: bytes = b"old") -> bytes:
    """A message of format 1."""
    body = struct.pack(">bbqi", 1, 0, 1_000, -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", base_offset, len(body) + 4, 0) + body


@dataclass
class WrittenSegment:
    """A segment that was written, and where its batches begin."""

    path: Path
    positions: list[int]


def write_segment(
    folder: Path, base: int, batches: Iterable[bytes], *, tail: bytes = b"", every: int = 1
) -> WrittenSegment:
    """The files of a segment: log, offset index and time index, an entry for each `every`-th batch but the first."""
    folder.mkdir(parents=True, exist_ok=True)
    log, index, times = bytearray(), bytearray(), bytearray()
    positions, newest = [], -1
    for n, data in enumerate(batches):
        positions.append(len(log))
        if data[16] == 2 and n and n % every == 0:
            (start,), (last,) = struct.unpack_from(">q", data), struct.unpack_from(">i", data, 23)
            (ms,) = struct.unpack_from(">q", data, 35)
            index += struct.pack(">ii", start + last - base, len(log))
            if ms > newest:
                times += struct.pack(">qi", ms, start + last - base)
                newest = ms
        log += data
    name = f"{base:020d}"
    (folder / f"{name}.log").write_bytes(bytes(log) + tail)
    (folder / f"{name}.index").write_bytes(bytes(index) + bytes(80))
    (folder / f"{name}.timeindex").write_bytes(bytes(times) + bytes(120))
    return WrittenSegment(folder / f"{name}.log", positions)


def txn_entry(producer: int, first: int, last: int) -> bytes:
    """An entry of a `.txnindex`."""
    return struct.pack(">hqqqq", 0, producer, first, last, last + 1)
