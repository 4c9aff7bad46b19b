"""A made log dir: healthy partitions of each codec, and one partition for each defect of files.

Record batches of format 2 and the files of a partition are written byte by byte as a broker does.
"""

import gzip
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct

import numpy as np
import zstandard

from kafkakit.streams.model.binary import (
    CHECKED_FROM,
    CRC_AT,
    HEADER_BYTES,
    MAGIC,
    PREFIX_BYTES,
    crc32c,
    header_type,
    uvarint,
    zigzag,
)
from kafkakit.streams.model.segment_rows import OFFSET_ENTRY, TIME_ENTRY
from tests.made_fleet.fleet import OF_COPY, Expected, Truth, expected_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch before it is written: its records are `values` without keys, `step_ms` apart from `first_ms` on."""

    base_offset: int
    first_ms: int
    values: Sequence[bytes]
    step_ms: int = 1_000
    codec: str = "none"
    epoch: int = 0
    producer: int = -1
    attributes: int = 0

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.base_offset + len(self.values) - 1

    @property
    def max_ms(self) -> int:
        """The time of its last record."""
        return self.first_ms + self.step_ms * (len(self.values) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFile:
    """A file to be written below a log dir."""

    path: str
    data: bytes
    mtime_ms: int


CLUSTER = "kafka-logs"
BROKER = 1
SEGMENTS = 3
BATCHES = 24
"""Of each segment."""
RECORDS = 10
BATCH_MS = 300_000
EPOCH = 3
DAY_MS = 86_400_000
BOMB_BYTES = 72 << 20
"""Larger than the last size within its limit that librdkafka tries for such a batch."""
Files = tuple[MadeFile, ...]
Batches = tuple[tuple[Batch, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDefect:
    """A defect of a partition's files: `batches` changes what is written, `files` the files afterwards."""

    name: str
    expected: tuple[Expected, ...]
    folder: str = "{topic}-0"
    batches: Callable[[Batches], Batches] | None = None
    files: Callable[[Files, str, int], Files] | None = None


def log_dir(defects: Mapping[str, int], seed: int, end_ms: int) -> tuple[MadeFile, ...]:
    """All files of a log dir; `defects` are counts by name of `FILE_DEFECTS`."""
    files: list[MadeFile] = []
    starts, points = [], []
    for topic, codec, defect in _partitions(defects):
        folder = (defect.folder if defect else "{topic}-0").format(topic=topic)
        batches = _healthy(codec, seed, end_ms)
        if defect is not None and defect.batches is not None:
            batches = defect.batches(batches)
        own: Files = ()
        for number, segment in enumerate(batches):
            own += segment_files(folder, segment, is_active=number == len(batches) - 1)
        epochs = ((EPOCH, batches[0][0].base_offset),)
        own += (MadeFile(path=f"{folder}/leader-epoch-checkpoint", data=checkpoint(epochs), mtime_ms=end_ms),)
        own += (MadeFile(path=f"{folder}/partition.metadata", data=b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n",
                         mtime_ms=end_ms),)  # fmt: skip
        if defect is not None and defect.files is not None:
            own = defect.files(own, folder, end_ms)
        files += own
        if folder == f"{topic}-0":
            starts.append((topic, 0, batches[0][0].base_offset))
            points.append((topic, 0, batches[-1][-1].last_offset + 1))
    for name, entries in (
        ("log-start-offset", starts),
        ("recovery-point-offset", points),
        ("replication-offset", points),
    ):
        files.append(MadeFile(path=f"{name}-checkpoint", data=checkpoint(entries), mtime_ms=end_ms))
    meta = f"version=1\nnode.id={BROKER}\ncluster.id={CLUSTER}\n"
    return (*files, MadeFile(path="meta.properties", data=meta.encode(), mtime_ms=end_ms))


def write_log_dir(folder: Path, defects: Mapping[str, int], seed: int, end_ms: int) -> None:
    """Write the files with the times that a broker's would have."""
    for file in log_dir(defects, seed, end_ms):
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        os.utime(path, ns=(file.mtime_ms * 1_000_000, file.mtime_ms * 1_000_000))


def file_truth(defects: Mapping[str, int], folder: str) -> Truth:
    """What audits are expected to find in the log dir that lies in `folder`."""
    rows: Truth = []
    for topic, _, defect in _partitions(defects):
        if defect is not None:
            rows += expected_rows(defect.name, defect.expected, CLUSTER, topic=topic, broker=BROKER, folder=folder)
    return rows


def _partitions(defects: Mapping[str, int]) -> Sequence[tuple[str, str, FileDefect | None]]:
    found: list[tuple[str, str, FileDefect | None]] = [(f"healthy-{codec}", codec, None) for codec in CODECS]
    for name in sorted(defects.keys() & FILE_DEFECTS.keys()):
        found += [(f"{name}.{i}", "zstd", FILE_DEFECTS[name]) for i in range(defects[name])]
    return found


def _healthy(codec: str, seed: int, end_ms: int) -> Batches:
    """Segments of 24 batches, five minutes each, up to a second before the end."""
    start = end_ms - 1_000 - SEGMENTS * BATCHES * BATCH_MS
    segments = []
    for segment in range(SEGMENTS):
        numbers = range(segment * BATCHES, (segment + 1) * BATCHES)
        segments.append(
            tuple(
                Batch(
                    base_offset=1_000 + n * RECORDS,
                    first_ms=start + n * BATCH_MS,
                    values=[_value(seed, n * RECORDS + i) for i in range(RECORDS)],
                    step_ms=BATCH_MS // (RECORDS - 1) - 1,
                    codec=codec,
                    epoch=EPOCH,
                )
                for n in numbers
            )
        )
    return tuple(segments)


def _value(seed: int, number: int) -> bytes:
    """About 600 bytes that compress to a third."""
    return b"".join(b"%08x-order-%06d;" % (hash_of(seed, number, i), i * 37) for i in range(28))


def hash_of(seed: int, number: int, part: int) -> int:
    """A number that looks random and is the same in every run."""
    found = (seed * 0x9E3779B1 + number * 0x85EBCA6B + part * 0xC2B2AE35) & 0xFFFFFFFF
    return (found ^ found >> 15) * 0x2C1B3C6D & 0xFFFFFFFF


def _in_second(change: Callable[[tuple[Batch, ...]], tuple[Batch, ...]]) -> Callable[[Batches], Batches]:
    """The change, made to the second segment alone."""
    return lambda batches: (batches[0], change(batches[1]), *batches[2:])


def _bomb(segment: tuple[Batch, ...]) -> tuple[Batch, ...]:
    zeros = [bytes(BOMB_BYTES // RECORDS)] * RECORDS
    return (*segment[:5], replace(segment[5], values=zeros), *segment[6:])


def _overlapping(batches: Batches) -> Batches:
    """From one batch on every offset is one less, so that two records have one offset."""
    moved = [tuple(replace(b, base_offset=b.base_offset - 1) for b in segment) for segment in batches[1:]]
    return (batches[0], (*batches[1][:5], *moved[0][5:]), *moved[1:])


def _future(segment: tuple[Batch, ...]) -> tuple[Batch, ...]:
    return (*segment[:5], replace(segment[5], first_ms=segment[5].first_ms + 30 * DAY_MS), *segment[6:])


def _regressed(segment: tuple[Batch, ...]) -> tuple[Batch, ...]:
    return (*segment[:5], replace(segment[5], epoch=EPOCH - 1), *segment[6:])


def _open(segment: tuple[Batch, ...]) -> tuple[Batch, ...]:
    return (*segment[:5], replace(segment[5], producer=77, attributes=TRANSACTIONAL), *segment[6:])


def _log_of(files: Files, number: int) -> int:
    return [i for i, f in enumerate(files) if f.path.endswith(".log")][number]


def _changed(files: Files, at: int, file: MadeFile) -> Files:
    return (*files[:at], file, *files[at + 1 :])


def _bad_crc(files: Files, folder: str, end_ms: int) -> Files:
    del folder, end_ms
    at = _log_of(files, 1)
    return _changed(files, at, with_flipped_crc(files[at]))


def _bad_index(files: Files, folder: str, end_ms: int) -> Files:
    """The first entry points into a batch."""
    del folder, end_ms
    at = _log_of(files, 1) + 1
    data = bytearray(files[at].data)
    data[7] ^= 1
    return _changed(files, at, replace(files[at], data=bytes(data)))


def _torn(files: Files, folder: str, end_ms: int) -> Files:
    """A closed segment without the end of its last batch."""
    del folder, end_ms
    at = _log_of(files, 1)
    return _changed(files, at, replace(files[at], data=files[at].data[:-100]))


def _foreign(files: Files, folder: str, end_ms: int) -> Files:
    return (*files, MadeFile(path=f"{folder}/notes.txt", data=b"not Kafka's\n" * 1000, mtime_ms=end_ms - 2 * DAY_MS))


def _deleted(files: Files, folder: str, end_ms: int) -> Files:
    path = f"{folder}/{0:020d}.log.deleted"
    return (*files, MadeFile(path=path, data=files[0].data, mtime_ms=end_ms - 2 * DAY_MS))


def _expected(*rules: str, where: str = "partition {topic}-0", job: str = "segments") -> tuple[Expected, ...]:
    return tuple(Expected(job, rule, f"{where} on broker {{broker}}" if rule in OF_COPY else where) for rule in rules)


CODECS = ("none", "gzip", "zstd")
_CODES = {"none": 0, "gzip": 1, "zstd": 4}
TRANSACTIONAL = 16
_INDEX_EVERY = 4096
_CRC = Struct(">I")


def with_flipped_crc(file: MadeFile) -> MadeFile:
    """The log with another checksum in its first batch."""
    data = file.data
    return replace(file, data=data[:CRC_AT] + bytes([data[CRC_AT] ^ 1]) + data[CRC_AT + 1 :])


_DIR, _TOPIC = "log dir {broker}:{folder}", "topic {topic}"
FILE_DEFECTS: Mapping[str, FileDefect] = {
    d.name: d
    for d in (
        FileDefect(name="zstd-bomb", expected=_expected("KKM409", "KKM410", where=_TOPIC, job="bombs"),
                   batches=_in_second(_bomb)),
        FileDefect(name="offset-gap", expected=_expected("KKF005"), batches=_in_second(lambda s: (*s[:5], *s[6:]))),
        FileDefect(name="offset-overlap", expected=_expected("KKF006"), batches=_overlapping),
        FileDefect(name="future-timestamps", expected=_expected("KKF013", "KKM411", where=_TOPIC),
                   batches=_in_second(_future)),
        FileDefect(name="epoch-regression", expected=_expected("KKF007", "KKF008"), batches=_in_second(_regressed)),
        FileDefect(name="hanging-transaction", expected=_expected("KKF011"), batches=_in_second(_open)),
        FileDefect(name="bad-crc", expected=_expected("KKF001"), files=_bad_crc),
        FileDefect(name="bad-index", expected=_expected("KKF009"), files=_bad_index),
        FileDefect(name="torn-tail", expected=_expected("KKF004", "KKF005", "KKF009"), files=_torn),
        FileDefect(name="foreign-file", expected=_expected("KKF023", where=_DIR), files=_foreign),
        FileDefect(name="stale-deleted", expected=_expected("KKF022", where=_DIR), files=_deleted),
        FileDefect(name="stray-dir", expected=_expected("KKF022", where=_DIR),
                   folder="{topic}-0.0123456789abcdef0123456789abcdef-stray"),
    )
}  # fmt: skip


def batch_bytes(batch: Batch) -> bytes:
    """The batch as it lies in a segment, with its checksum; 50 ns a byte."""
    records = b"".join(_record(i, batch.step_ms * i, value) for i, value in enumerate(batch.values))
    packed = _packed(records, batch.codec)
    header = np.zeros(1, header_type())
    header["base_offset"] = batch.base_offset
    header["length"] = HEADER_BYTES + len(packed) - PREFIX_BYTES
    header["leader_epoch"] = batch.epoch
    header["magic"] = MAGIC
    header["attributes"] = _CODES[batch.codec] | batch.attributes
    header["last_delta"] = len(batch.values) - 1
    header["base_ms"], header["max_ms"] = batch.first_ms, batch.max_ms
    header["producer"] = batch.producer
    header["producer_epoch"] = -1 if batch.producer < 0 else 0
    header["sequence"] = -1 if batch.producer < 0 else 0
    header["count"] = len(batch.values)
    written = header.tobytes() + packed
    return written[:CRC_AT] + _CRC.pack(crc32c(written[CHECKED_FROM:])) + written[CHECKED_FROM:]


def segment_files(folder: str, batches: Sequence[Batch], *, is_active: bool = False) -> tuple[MadeFile, ...]:
    """The log of some batches and its two indexes; those of an active segment end in zeros, as a broker's do."""
    base, data = batches[0].base_offset, [batch_bytes(b) for b in batches]
    offsets, times = np.zeros(len(batches), OFFSET_ENTRY), np.zeros(len(batches), TIME_ENTRY)
    entries = position = since = newest = 0
    for batch, one in zip(batches, data, strict=True):
        if since > _INDEX_EVERY and batch.max_ms > newest:
            offsets[entries] = (batch.last_offset - base, position)
            times[entries] = (batch.max_ms, batch.last_offset - base)
            entries, since, newest = entries + 1, 0, batch.max_ms
        position, since = position + len(one), since + len(one)
    if not is_active and batches[-1].max_ms > newest:  # a broker ends the time index of a segment that it rolls
        times[entries] = (batches[-1].max_ms, batches[-1].last_offset - base)
    padding = bytes(OFFSET_ENTRY.itemsize * TIME_ENTRY.itemsize) if is_active else b""
    ended = entries + (not is_active and batches[-1].max_ms > newest)
    name, mtime_ms = f"{folder}/{base:020d}", batches[-1].max_ms + 500
    return (
        MadeFile(path=f"{name}.log", data=b"".join(data), mtime_ms=mtime_ms),
        MadeFile(path=f"{name}.index", data=offsets[:entries].tobytes() + padding, mtime_ms=mtime_ms),
        MadeFile(path=f"{name}.timeindex", data=times[:ended].tobytes() + padding, mtime_ms=mtime_ms),
    )


def checkpoint(entries: Sequence[tuple[object, ...]]) -> bytes:
    """A checkpoint file of version 0."""
    return "".join(f"{line}\n" for line in ("0", len(entries), *(" ".join(map(str, e)) for e in entries))).encode()


def _signed(value: int) -> bytes:
    return uvarint(zigzag(value))


def _record(offset: int, delta_ms: int, value: bytes) -> bytes:
    body = b"\0" + _signed(delta_ms) + _signed(offset) + _signed(-1) + _signed(len(value)) + value + _signed(0)
    return _signed(len(body)) + body


def _packed(records: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(records, mtime=0)
    if codec == "zstd":  # without the size, as Java's writer
        return zstandard.ZstdCompressor(write_content_size=False).compress(records)
    return records
