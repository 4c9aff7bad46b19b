"""Commit metadata of Kafka Streams: the stream time of the partition, and what processors keep.

Base64 of a version byte, the highest record time seen (8 bytes, ms), and in version 2 a map of processor metadata:
its size (4 bytes), then for each entry the key's length (4 bytes), the key in UTF-8 and a value (8 bytes); nothing at
all for an empty map. All big endian. Source: `TopicPartitionMetadata`, `ProcessorMetadata`.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.streams.model.commit import CommitState, Reading
from kafkakit.streams.model.dialects.dialect import (
    CommitFacts,
    Dialect,
    EncodedMetadata,
    EncodeRequest,
    MetadataText,
    to_base64,
)

UNKNOWN_TIME = -1
LATEST_TIME = 253_402_300_799_999
"""The end of the year 9999 in ms; a time after it is taken for no time."""
VERSIONS = (1, 2)
_FIXED = struct.Struct(">bq")
_SMALLEST_ENTRY = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMetadata:
    """What Kafka Streams commits beside an offset; `stream_time_ms` is None before the first record."""

    version: int
    stream_time_ms: int | None
    processor: Mapping[str, int]


class _NotStreamsError(Exception):
    """The bytes are not what Kafka Streams writes; the message says why."""


def read_kafka_streams(source: MetadataText, data: bytes) -> Reading:
    """The stream time and processor metadata, of bytes that begin with a version of Kafka Streams.

    Anything that Streams does not write is OPAQUE with a reason: the whole length has to be accounted for, and the
    time has to be one before the year 10000.
    """
    try:
        found = _parse(data)
    except _NotStreamsError as error:
        return source.opaque(f"no {KAFKA_STREAMS.name} v{data[0]}: {error}")
    return Reading(
        dialect=KAFKA_STREAMS.name,
        state=CommitState(base=source.offset),
        chars=source.chars,
        encoding=f"v{found.version}",
        raw_bytes=len(data),
        stream_time_ms=found.stream_time_ms,
        processor=found.processor,
    )


def write_kafka_streams(
    stream_time_ms: int | None, processor: Mapping[str, int] | None = None, *, version: int = 2
) -> str:
    """The metadata that Kafka Streams would commit, processor metadata sorted by key.

    Raises `UsageError` for a time or version that Streams does not write, and for processor metadata in version 1.
    """
    time_ms = UNKNOWN_TIME if stream_time_ms is None else stream_time_ms
    if version not in VERSIONS:
        raise UsageError(f"Kafka Streams has no metadata version {version}", hint="the versions are 1 and 2")
    if not UNKNOWN_TIME <= time_ms <= LATEST_TIME:
        raise UsageError(f"{time_ms} is not a time in milliseconds since 1970")
    if processor and version == 1:
        raise UsageError("version 1 of Kafka Streams' metadata holds no processor metadata", hint="write version 2")
    parts = [_FIXED.pack(version, time_ms)]
    if processor:
        parts.append(struct.pack(">i", len(processor)))
    for key, value in sorted((processor or {}).items()):
        try:
            name = key.encode("utf-8")
            parts.append(struct.pack(">i", len(name)) + name + struct.pack(">q", value))
        except (UnicodeEncodeError, struct.error) as error:
            raise UsageError(f"processor metadata {key!r}: {error}") from error
    return to_base64(b"".join(parts))


def _parse(data: bytes) -> StreamsMetadata:
    if len(data) < _FIXED.size:
        raise _NotStreamsError(f"{len(data)} bytes are too few for a time")
    version, time_ms = _FIXED.unpack_from(data)
    if not UNKNOWN_TIME <= time_ms <= LATEST_TIME:
        raise _NotStreamsError(f"{time_ms} is not a time in milliseconds")
    rest = data[_FIXED.size :]
    if version == 1 and rest:
        raise _NotStreamsError(f"{len(rest)} bytes behind the time")
    return StreamsMetadata(
        version=version,
        stream_time_ms=None if time_ms == UNKNOWN_TIME else time_ms,
        processor=_processor_metadata(rest) if rest else {},
    )


def _processor_metadata(data: bytes) -> dict[str, int]:
    if len(data) < 4:
        raise _NotStreamsError(f"{len(data)} bytes behind the time")
    (count,) = struct.unpack_from(">i", data)
    if not 0 <= count <= (len(data) - 4) // _SMALLEST_ENTRY:
        raise _NotStreamsError(f"{count} entries in {len(data) - 4} bytes")
    found: dict[str, int] = {}
    at = 4
    for _ in range(count):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if size < 0 or at + 4 + size + 8 > len(data):
            raise _NotStreamsError(f"a key of {size} bytes in the {len(data) - at} that are left")
        try:
            key = data[at + 4 : at + 4 + size].decode("utf-8")
        except UnicodeDecodeError:
            raise _NotStreamsError("a key that is not UTF-8") from None
        if key in found:
            raise _NotStreamsError("a key that is there twice")
        (found[key],) = struct.unpack_from(">q", data, at + 4 + size)
        at += 4 + size + 8
    if at != len(data):
        raise _NotStreamsError(f"{len(data) - at} bytes behind the last entry")
    return found


def _write(request: EncodeRequest) -> EncodedMetadata:
    """The times asked for; in place of a commit its own metadata when it only goes forward: the time still holds."""
    if request.form:
        return EncodedMetadata(text=write_kafka_streams(request.stream_time_ms, request.processor))
    if request.replaces is None:
        return EncodedMetadata(text="")
    if request.state.base >= request.replaces.offset:
        return EncodedMetadata(text=request.replaces.metadata)
    note = f"its {KAFKA_STREAMS.name} metadata is dropped: it does not fit another offset"
    return EncodedMetadata(text="", notes=(note,))


def _effect_of_nul(facts: CommitFacts) -> str:
    del facts
    return "Kafka Streams cannot read its stream time"


KAFKA_STREAMS = Dialect(
    name="kafka-streams",
    first_bytes=frozenset(VERSIONS),
    decode=read_kafka_streams,
    encode=_write,
    forms=("streams",),
    about_forms="streams for the time that Kafka Streams commits",
    reader="Kafka Streams",
    noun="kafka-streams commit",
    why_one_offset="Kafka Streams tracks one offset",
    effect_of_nul=_effect_of_nul,
)
