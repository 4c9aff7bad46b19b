"""Batches that expand, made without holding what they expand to."""

import gzip
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import repeat
from typing import Any

import cramjam
import pyarrow as pa
import zstandard

from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.binary import HEADER, HEADER_BYTES
from kafkakit.streams.model.compressed_sizes import MAX_BLOCK
from kafkakit.streams.model.log_batches import Batch, Codec, batches_of
from tests.clusters.streams_batches import varint
from tests.rigs.sandbox_cluster import SandboxCluster

MIB = 1 << 20
_LEADER_S = 60.0
_NO_LEADER = frozenset({3, 5, 6})  # UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def batch_of(
    body: bytes, codec: Codec, *, base: int = 0, count: int = 1, last_delta: int | None = None, attributes: int = 0
) -> bytes:
    """A batch whose records are these bytes as they are, compressed or not."""
    delta = count - 1 if last_delta is None else last_delta
    return (
        HEADER.pack(base, HEADER_BYTES - 12 + len(body), 0, 2, 0, codec | attributes, delta, 1_758_335_260_726,
                    1_758_335_260_999, 4711, 3, 0, count)
        + body
    )  # fmt: skip


def only_batch(data: bytes) -> Batch:
    (found,) = batches_of(data)
    assert isinstance(found, Batch)
    return found


def packed(data: bytes, codec: Codec) -> bytes:
    """The bytes as clients compress them: zstd and lz4 frames without a size, snappy in xerial's framing."""
    if codec is Codec.GZIP:
        return gzip.compress(data, mtime=0)
    if codec is Codec.ZSTD:
        writer = zstandard.ZstdCompressor(level=3).compressobj()
        return writer.compress(data) + writer.flush()
    if codec is Codec.LZ4:
        return b"".join(_streamed([data], codec))
    blocks = [data[at : at + 32_768] for at in range(0, len(data), 32_768)]
    made = [bytes(pa.compress(block, "snappy", asbytes=True)) for block in blocks]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(m)) + m for m in made)


def zstd_zeros(size: int) -> bytes:
    """A streaming frame of zeros in full blocks, as an RLE block of 4 bytes each."""
    blocks = [min(MAX_BLOCK, size - at) for at in range(0, size, MAX_BLOCK)]
    headers = [(held << 3 | 1 << 1 | (n == len(blocks) - 1)).to_bytes(3, "little") for n, held in enumerate(blocks)]
    return b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(header + b"\0" for header in headers)


def gzip_zeros(mib: int) -> bytes:
    """A gzip member of so many MiB of zeros."""
    writer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(MIB)
    return b"".join(writer.compress(piece) for _ in range(mib)) + writer.flush()


def zeros_batch(records: int, value_bytes: int, *, keyed: bool = False, codec: Codec = Codec.ZSTD) -> bytes:
    """A whole batch of records whose values are zeros, as clients write it, with its checksum.

    Memory: one record and what comes out, whatever the batch holds.
    """

    body = _records(repeat(bytes(value_bytes), records), key=b"k" if keyed else None)
    return checked(batch_of(b"".join(_streamed(body, codec)), codec, count=records))


def numbered_batch(numbers: Iterable[int], value_bytes: int, codec: Codec, *, at_ms: int) -> bytes:
    """A whole batch of records of this time whose values are numbers, filled up with blanks; their keys are None."""
    values = [(b"%d" % number).ljust(value_bytes) for number in numbers]
    made = bytearray(batch_of(b"".join(_streamed(_records(values), codec)), codec, count=len(values)))
    struct.pack_into(">qq", made, 27, at_ms, at_ms)
    return checked(bytes(made))


def _records(values: Iterable[bytes], key: bytes | None = None) -> Iterator[bytes]:
    """The records of a batch in pieces, so that a value is held once."""
    framed_key = varint(-1) if key is None else varint(len(key)) + key
    for number, value in enumerate(values):
        fields = b"\0\0" + varint(number) + framed_key + varint(len(value))
        yield varint(len(fields) + len(value) + 1) + fields
        yield value
        yield b"\0"


def _streamed(pieces: Iterable[bytes], codec: Codec) -> Iterator[bytes]:
    if codec is Codec.SNAPPY:  # in blocks of 32 KiB, as Java's client frames it
        yield b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
        yield from _blocks(pieces, 32 << 10, _xerial_block)
        return
    if codec is Codec.LZ4:  # in independent blocks of 64 KiB: brokers refuse others
        yield b"\x04\x22\x4d\x18\x60\x40\x82"
        yield from _blocks(pieces, 64 << 10, _lz4_block)
        yield bytes(4)
        return
    stream = zlib.compressobj(9, zlib.DEFLATED, 31) if codec is Codec.GZIP else zstandard.ZstdCompressor().compressobj()
    for piece in pieces:
        yield stream.compress(piece)
    yield stream.flush()


def _xerial_block(block: bytes) -> bytes:
    made = bytes(cramjam.snappy.compress_raw(block))
    return struct.pack(">i", len(made)) + made


def _lz4_block(block: bytes) -> bytes:
    """A block of a frame, as it is where compressing would make it longer, which the highest bit of its size says."""
    made = bytes(cramjam.lz4.compress_block(block, store_size=False))
    if len(made) < len(block):
        return struct.pack("<I", len(made)) + made
    return struct.pack("<I", len(block) | 1 << 31) + block


def _blocks(pieces: Iterable[bytes], size: int, compress: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Each block by itself; those of zeros are compressed once."""
    plain, packed_plain, held = bytes(size), compress(bytes(size)), b""
    for piece in pieces:
        held += piece
        whole = len(held) // size * size
        for block in (held[at : at + size] for at in range(0, whole, size)):
            yield packed_plain if block == plain else compress(block)
        held = held[whole:]
    if held:
        yield compress(held)


def checked(batch: bytes) -> bytes:
    """The batch as brokers append it: without a producer that they would look for, and with its checksum."""
    from kafka.record.util import calc_crc32c

    made = bytearray(batch)
    struct.pack_into(">qhi", made, 43, -1, -1, -1)
    struct.pack_into(">I", made, 17, calc_crc32c(memoryview(made)[21:]))
    return bytes(made)


def append_batch(cluster: SandboxCluster, partition: TopicPartition, batch: bytes) -> int:
    """Send a batch as it is, which no client takes apart, to the partition's leader; the offset it got.

    Waits for a partition that has no leader yet, or another one by now; such a batch was not appended.
    """
    from kafka.protocol.producer.produce import ProduceRequest

    topic = ProduceRequest.TopicProduceData
    data = topic.PartitionProduceData(index=partition.partition, records=batch)
    request = ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=60_000, max_version=11,
        topic_data=[topic(name=partition.topic, partition_data=[data])],
    )  # fmt: skip
    with closing(cluster.open_admin()) as admin:
        deadline = time.monotonic() + _LEADER_S
        while True:
            leader = admin.partition_states([partition.topic])[partition].leader
            if leader is not None:
                answer: Any = admin._session.request_brokers({leader: request})[leader]  # type: ignore[attr-defined]
                (place,) = answer.responses[0].partition_responses
                if place.error_code == 0:
                    return int(place.base_offset)
                assert place.error_code in _NO_LEADER, place
            assert time.monotonic() < deadline, f"{partition} has no leader"
            time.sleep(0.1)
