"""A writer of record batches (format v2) for tests: plain, transactional, control and compressed ones, and the keys
and values of `__consumer_offsets`."""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack

from kafkakit.streams.model.commit import NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class Rec:
    """A record of a batch to write; `delta_ms` is its time's difference to the batch's base time."""

    key: bytes | None
    value: bytes | None
    delta_ms: int = 0
    offset_delta: int | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def varint(value: int) -> bytes:
    """A zigzag varint of any size."""
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def batch(
    base_offset: int,
    records: Sequence[Rec],
    *,
    base_ms: int = 1_758_335_260_726,
    max_ms: int | None = None,
    codec: str = "none",
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    producer: tuple[int, int] = (-1, -1),
    last_offset_delta: int | None = None,
    count: int | None = None,
) -> bytes:
    """One batch; offsets count up from `base_offset` unless a record says otherwise."""
    deltas = [i if r.offset_delta is None else r.offset_delta for i, r in enumerate(records)]
    body = b"".join(_record(r, d) for r, d in zip(records, deltas, strict=True))
    number = ("none", "gzip", "snappy", "lz4", "zstd").index(codec)
    attributes = number | 8 * log_append_time | 16 * transactional | 32 * control
    if max_ms is None:
        max_ms = base_ms + max((r.delta_ms for r in records), default=0)
    if last_offset_delta is None:
        last_offset_delta = max(deltas, default=0)
    rest = pack(
        ">hiqqqhii", attributes, last_offset_delta, base_ms, max_ms, *producer, -1,
        len(records) if count is None else count,
    ) + packed(body, codec)  # fmt: skip
    return pack(">qiibI", base_offset, 9 + len(rest), 0, 2, 0) + rest


def packed(body: bytes, codec: str) -> bytes:
    """The records of a batch, compressed; snappy and lz4 give bytes that nobody inflates here."""
    if codec == "gzip":
        import gzip

        return gzip.compress(body, mtime=0)
    if codec == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(write_content_size=False).compress(body)
    return body


def _record(record: Rec, offset_delta: int) -> bytes:
    rest = b"\0" + varint(record.delta_ms) + varint(offset_delta) + _sized(record.key) + _sized(record.value)
    rest += varint(len(record.headers)) + b"".join(_sized(part) for pair in record.headers for part in pair)
    return varint(len(rest)) + rest


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def marker(base_offset: int, producer: tuple[int, int], *, commits: bool, base_ms: int = 1_758_335_260_726) -> bytes:
    """The control batch that ends a transaction."""
    record = Rec(pack(">hh", 0, int(commits)), pack(">hi", 0, 0))
    return batch(base_offset, [record], base_ms=base_ms, transactional=True, control=True, producer=producer)


def string(text: str | None, *, flexible: bool = False) -> bytes:
    """A string field in either encoding."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    return uvarint(len(data) + 1) + data if flexible else pack(">h", len(data)) + data


def offset_key(group: str, topic: str, partition: int, kind: int = 1) -> bytes:
    """The key of a committed offset."""
    return pack(">h", kind) + string(group) + string(topic) + pack(">i", partition)


def group_key(kind: int, group: str, *more: str) -> bytes:
    """The key of a group's record, or of one member of it."""
    return pack(">h", kind) + string(group) + b"".join(string(m) for m in more)


def offset_value(
    offset: int,
    *,
    version: int = 3,
    metadata: str = "",
    committed_ms: int = 1_758_335_260_726,
    leader_epoch: int = -1,
    topic_id: bytes = NO_TOPIC_ID,
    tags: bytes | None = None,
) -> bytes:
    """An OffsetCommitValue of any version; `tags` replaces the tagged fields of v4."""
    out = pack(">hq", version, offset)
    if version >= 3:
        out += pack(">i", leader_epoch)
    out += string(metadata, flexible=version >= 4) + pack(">q", committed_ms)
    if version == 1:
        out += pack(">q", committed_ms + 604_800_000)
    if version >= 4:
        out += tags if tags is not None else b"\0" if topic_id == NO_TOPIC_ID else b"\1\0\x10" + topic_id
    return out


def commit(group: str, topic: str, partition: int, offset: int, **fields: object) -> Rec:
    """A record that commits an offset."""
    return Rec(offset_key(group, topic, partition), offset_value(offset, **fields))  # type: ignore[arg-type]


def tombstone(group: str, topic: str, partition: int) -> Rec:
    """A record that deletes a committed offset."""
    return Rec(offset_key(group, topic, partition), None)
