"""Commit metadata of confluentinc/parallel-consumer: which offsets above the committed one are done.

The map is relative to the offset it was committed with and bound to nothing: copied onto another offset it reads just
as well, and means something else (see `mirrormaker.skipped_by_copy`).
"""

from kafkakit.streams.formats.commit import CommitState, Problem, Reading
from kafkakit.streams.formats.dialects.metadata_text import MetadataText
from kafkakit.streams.formats.dialects.parallel_consumer.layout import (
    ENCODINGS,
    MAX_BODY,
    ZSTD_MAGIC,
    MapEncoding,
    MapError,
    MapKind,
    parse_map,
)
from kafkakit.streams.formats.inflate import BombError, inflate_zstd
from kafkakit.streams.formats.offset_ranges import OffsetRanges
from kafkakit.streams.formats.zstd_frames import DamagedError

NAME = "parallel-consumer"
"""The dialect's name."""
_LONG_TEXT = 8
"""Bytes that are all letters in no map: four runs of two bytes above 8,000 each, or two runs above 500 million."""


def read_parallel_consumer(source: MetadataText, data: bytes) -> Reading:
    """What a map means, of bytes that begin with one of the client's encodings.

    A map that the client cannot have written is OPAQUE with a reason when it may be text by chance, and a map with a
    problem when it cannot. Only offsets that are done in the map are done in the reading.
    """
    encoding, body = ENCODINGS[data[0]], data[1:]
    try:
        done = _done_offsets(encoding, body, source.offset)
    except MapError as error:
        if error.problem is Problem.BAD_BODY and not _is_surely_a_map(encoding, body):
            return source.opaque(f"no {NAME} {encoding.name}: {error.reason}")
        return source.unusable(NAME, error.problem, error.reason, encoding.name, len(data))
    is_like_text = encoding.kind is MapKind.RUNS and not encoding.is_compressed and _is_like_text(source.text, body)
    if is_like_text and (len(body) >= _LONG_TEXT or len(body) // encoding.width % 2):
        return source.opaque(f"taken for text; as {NAME} {encoding.name} it would be a map too")
    return _reading(source, encoding, done, len(data), "a map of two runs, or text by chance" if is_like_text else "")


def _reading(source: MetadataText, encoding: MapEncoding, done: OffsetRanges, size: int, reason: str) -> Reading:
    claimed = CommitState(base=source.offset, done=done)
    is_usable = source.offset not in done
    if not is_usable:
        reason = f"offset {source.offset} is done, which its writer would commit past"
    return Reading(
        dialect=NAME,
        state=claimed if is_usable else CommitState(base=source.offset),
        claimed=None if is_usable else claimed,
        problem=None if is_usable else Problem.BAD_BODY,
        reason=reason,
        chars=source.chars,
        encoding=encoding.name,
        raw_bytes=size,
        is_compressed=encoding.is_compressed,
    )


def _done_offsets(encoding: MapEncoding, body: bytes, base: int) -> OffsetRanges:
    if encoding.is_compressed:
        if not body.startswith(ZSTD_MAGIC):
            raise MapError("what follows is no zstd frame")
        if encoding.kind is not MapKind.BYTES:
            body = _inflated(body)
    if encoding.kind is MapKind.BYTES:
        if not encoding.is_compressed and body.strip(b"\0\1"):
            raise MapError("bytes other than 0 and 1")
        raise MapError(f"the client reads no {encoding.name} maps, and writes none", Problem.UNKNOWN_VERSION)
    return parse_map(encoding.kind, encoding.width, body, base)


def _inflated(body: bytes) -> bytes:
    try:
        return inflate_zstd(body, MAX_BODY)
    except BombError as error:
        raise MapError(str(error), Problem.TOO_LARGE) from error
    except DamagedError as error:
        raise MapError(str(error)) from error


def _is_surely_a_map(encoding: MapEncoding, body: bytes) -> bool:
    """True for marks that text, and text in base64, do not have: a zstd frame, or a small number in four bytes."""
    return body.startswith(ZSTD_MAGIC) if encoding.is_compressed else encoding.width == 4 and body.startswith(b"\0")


def _is_like_text(text: str, body: bytes) -> bool:
    """True for a word such as `blue`, which is base64 of a run of 23,454 offsets as well, and for base64 of a text
    such as `nothing`, of which every two letters are a run. The client writes runs by twos, the second one done."""
    return (text.isalpha() and text[1:].islower()) or (bool(body) and all(0x20 <= byte < 0x7F for byte in body))
