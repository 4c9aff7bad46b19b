"""The dialect of confluentinc/parallel-consumer: which offsets above the committed one are done.

The map is relative to the offset it was committed with and bound to nothing: copied onto another offset it reads just
as well, and means something else (see `skipped_by_copy` of MirrorMaker). It is written for groups that move to that
client.

A map is base64 of one byte for the encoding, then its data, and covers `n` offsets from the committed one on. Bitmaps:
`n` (2 or 4 bytes, big endian), `ceil(n / 8)` bytes with the lowest bit first and 1 for done, and one spare zero byte;
they are read in time linear in the bitmap. Runs: lengths (2 or 4 bytes, big endian), pending and done in turn, pending
first; only the first may be 0. Source: `OffsetEncoding`, `BitSetEncoder`, `RunLengthEncoder`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from re import finditer

from kafkakit.core.findings import Severity
from kafkakit.streams.model.commit import MAX_OFFSET, CommitState, OffsetRanges, PayloadProblem, Reading, amount
from kafkakit.streams.model.compressed_sizes import DamagedError
from kafkakit.streams.model.dialects.dialect import (
    CommitFacts,
    CopiedFrom,
    Dialect,
    EncodedMetadata,
    EncodeRequest,
    Hazard,
    MetadataText,
    to_base64,
)
from kafkakit.streams.model.inflate import BombError, inflate_zstd
from kafkakit.streams.model.kkm1.sections import check_done, pack_bitmap, runs_of
from kafkakit.streams.model.mirrormaker import skipped_by_copy

PRESSURE_CHARS = 3072
"""Three quarters of what the client takes for the limit: with a larger map it takes no new records."""
MOST_STEPS = 200_000
"""Work spent on the exact number of records that a copied map skips."""
_WITHOUT_MAP = "before parallel-consumer starts here, drop the map, which gives duplicates and no loss: {}"


def _write(request: EncodeRequest) -> EncodedMetadata:
    metadata = write_parallel_consumer(request.state, limit_chars=request.limit_chars)
    if metadata is None:
        return EncodedMetadata(text="", fits=False)
    is_large = len(metadata) > PRESSURE_CHARS
    warning = f"the map has {len(metadata)} characters: above {PRESSURE_CHARS} it takes no new records"
    return EncodedMetadata(text=metadata, warnings=(warning,) if is_large else ())


def _effect_of_size(facts: CommitFacts) -> str:
    if facts.chars <= PRESSURE_CHARS:
        return ""
    return "; parallel-consumer takes no new records of this partition, and above 4,096 it drops the whole map"


def _effect_of_nul(facts: CommitFacts) -> str:
    """Java clients cannot read base64 with the NUL that librdkafka adds; the reader of this module drops it."""
    done = facts.state.done.count
    return f"parallel-consumer cannot read the map, and processes all {done:,} done records again"


def _hazards(facts: CommitFacts) -> Iterator[Hazard]:
    yield from _beyond_end(facts)
    yield from _find_copied(facts)


def _beyond_end(facts: CommitFacts) -> Iterator[Hazard]:
    """Done offsets that the log does not hold are those of another log: only a copy brings them here."""
    state, span = facts.state, facts.span
    if span is None or facts.done_beyond_end == 0:
        return
    yield _shifted_hazard(
        facts,
        f"the map calls {amount(facts.done_beyond_end, 'offset')} beyond the log's end done, so it was written for "
        f"other offsets, and a copy by MirrorMaker 2 does that: {_reader(facts)} would skip up to "
        f"{amount(state.done.within(span.start, span.end).count, 'record')} never processed, and later ones as they "
        "come",
    )


def _find_copied(facts: CommitFacts) -> Iterator[Hazard]:
    copy = facts.copied_from
    most = 0 if copy is None or not facts.state.done else skipped_at_most(facts, copy)
    if copy is not None and most:
        yield _shifted_hazard(
            facts,
            f"MirrorMaker 2 copied this map from offset {copy.upstream_offset} of {copy.source} onto offset "
            f"{facts.offset}, and it counts from the offset it is committed with: {_reader(facts)} would skip up to "
            f"{amount(most, 'record')} never processed",
        )


def _reader(facts: CommitFacts) -> str:
    return "without the NUL at its end parallel-consumer" if facts.has_nul else "parallel-consumer"


def _shifted_hazard(facts: CommitFacts, message: str) -> Hazard:
    return Hazard(
        rule="shifted-map",
        severity=Severity.ERROR,
        message=message,
        hint=_WITHOUT_MAP.format(facts.command("translate", "--to plain")),
    )


def skipped_at_most(facts: CommitFacts, copy: CopiedFrom) -> int:
    """How many pending records a copied map calls done: exact where an offset sync gives the true place, else the
    most that can be, which is all that the map calls done."""
    ceiling = facts.state.done.count
    if copy.place_low is None or copy.place_high is None:
        return ceiling
    places = range(copy.place_low, copy.place_high + 1)
    if len(places) * len(facts.state.done.ranges) > MOST_STEPS:
        return ceiling
    return min(ceiling, max(skipped_by_copy(facts.reading, place, facts.offset).count for place in places))


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
        if error.problem is PayloadProblem.BAD_BODY and not _is_surely_a_map(encoding, body):
            return source.opaque(f"no {NAME} {encoding.name}: {error.reason}")
        return source.unusable(NAME, error.problem, error.reason, encoding.name, len(data))
    is_like_text = encoding.kind is MapKind.RUNS and not encoding.is_compressed and _is_like_text(source.text, body)
    if is_like_text and (len(body) >= _LONG_TEXT or len(body) // encoding.width % 2):
        return source.opaque(f"taken for text; it would also be a map as {NAME} {encoding.name}")
    return _make_reading(
        source, encoding, done, len(data), "a map of two runs, or text by chance" if is_like_text else ""
    )


CLIENT_LIMIT_CHARS = 4096
"""What the client itself takes for the limit, whatever its brokers allow."""
SMALL_BYTES = 200
"""Below this size of the data the client does not try to compress."""
MAX_RUN = 2**31 - 1
_MAGIC = {encoding.name: bytes([encoding.magic]) for encoding in ENCODINGS.values()}

ZSTD_MAGIC = bytes.fromhex("28b52ffd")
MAX_BODY = 1 << 20
"""Bytes of an inflated map that are read, 8 million offsets as bits; what inflates to more is refused unread."""
MAX_RANGES = 1 << 17
"""Done ranges that are read from one map; more than any payload of 32,767 chars holds uncompressed."""


class MapError(Exception):
    """The data is no map of its encoding; the message says why."""

    def __init__(self, reason: str, problem: PayloadProblem = PayloadProblem.BAD_BODY) -> None:
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
        raise MapError(f"more than {MAX_RANGES} done ranges", PayloadProblem.TOO_LARGE)
    return done


def _parse_runs(body: bytes, width: int, base: int) -> OffsetRanges:
    count, rest = divmod(len(body), width)
    if rest:
        raise MapError(f"{len(body)} bytes are not a whole number of runs of {width} bytes")
    if count > 2 * MAX_RANGES:
        raise MapError(f"more than {MAX_RANGES} done ranges", PayloadProblem.TOO_LARGE)
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


def _make_reading(source: MetadataText, encoding: MapEncoding, done: OffsetRanges, size: int, reason: str) -> Reading:
    claimed = CommitState(base=source.offset, done=done)
    is_usable = source.offset not in done
    if not is_usable:
        reason = f"offset {source.offset} is done, which its writer would commit past"
    return Reading(
        dialect=NAME,
        state=claimed if is_usable else CommitState(base=source.offset),
        claimed=None if is_usable else claimed,
        problem=None if is_usable else PayloadProblem.BAD_BODY,
        reason=reason,
        chars=source.chars,
        encoding=encoding.name,
        raw_bytes=size,
        is_compressed=encoding.is_compressed,
    )


def _done_offsets(encoding: MapEncoding, body: bytes, base: int) -> OffsetRanges:
    if encoding.is_compressed:
        if not body.startswith(ZSTD_MAGIC):
            raise MapError("what follows is not a zstd frame")
        if encoding.kind is not MapKind.BYTES:
            body = _inflate(body)
    if encoding.kind is MapKind.BYTES:
        if not encoding.is_compressed and body.strip(b"\0\1"):
            raise MapError("bytes other than 0 and 1")
        raise MapError(f"the client reads no {encoding.name} maps, and writes none", PayloadProblem.UNKNOWN_VERSION)
    return parse_map(encoding.kind, encoding.width, body, base)


def _inflate(body: bytes) -> bytes:
    try:
        return inflate_zstd(body, MAX_BODY)
    except BombError as error:
        raise MapError(str(error), PayloadProblem.TOO_LARGE) from error
    except DamagedError as error:
        raise MapError(str(error)) from error


def _is_surely_a_map(encoding: MapEncoding, body: bytes) -> bool:
    """True for marks that text, and text in base64, do not have: a zstd frame, or a small number in four bytes."""
    return body.startswith(ZSTD_MAGIC) if encoding.is_compressed else encoding.width == 4 and body.startswith(b"\0")


def _is_like_text(text: str, body: bytes) -> bool:
    """True for a word such as `blue`, which is base64 of a run of 23,454 offsets as well, and for base64 of a text
    such as `nothing`, of which every two letters are a run. The client writes runs by twos, the second one done."""
    return (text.isalpha() and text[1:].islower()) or (bool(body) and all(0x20 <= byte < 0x7F for byte in body))


def write_parallel_consumer(state: CommitState, *, limit_chars: int = CLIENT_LIMIT_CHARS) -> str | None:
    """The shortest metadata that parallel-consumer reads as the same done set; None when none fits `limit_chars`.

    "" stands for a state without done offsets above its base, as that client writes it. Runs and bitmaps of version 2
    are tried, and both under zstd when neither is below 200 bytes; of equal sizes runs win. The done set is kept
    exactly, everything else of the state is left out. Cost: linear in the ranges of the done set, and in its span up
    to 8 million offsets; a set of more ranges than a reader takes is given up at once. Raises `ValueError` for
    a done set that is not above the base (a mistake of the program).
    """
    check_done(state.base, state.done)
    if not state.done:
        return ""
    if len(state.done.ranges) > MAX_RANGES:
        return None
    runs = runs_of(state.base, state.done)
    maps = {"RunLengthV2": _runs(runs), "BitSetV2": _bitmap(runs)}
    candidates = [(name, data) for name, data in maps.items() if data is not None]
    if all(len(data) >= SMALL_BYTES for _, data in candidates):
        candidates += [(f"{name}Compressed", _zstd(data)) for name, data in candidates if len(data) <= MAX_BODY]
    if not candidates:
        return None
    name, data = min(candidates, key=lambda candidate: len(candidate[1]))
    text = to_base64(_MAGIC[name] + data)
    return text if len(text) <= limit_chars else None


def _runs(runs: list[int]) -> bytes | None:
    return None if max(runs) > MAX_RUN else struct.pack(f">{len(runs)}i", *runs)


def _bitmap(runs: list[int]) -> bytes | None:
    length = sum(runs)
    return struct.pack(">i", length) + pack_bitmap(runs).data + b"\0" if length < 8 * (MAX_BODY - 8) else None


def _zstd(data: bytes) -> bytes:
    """A frame without the content's size, as the client's stream writes it."""
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=3, write_content_size=False).compress(data)


PARALLEL_CONSUMER = Dialect(
    name=NAME,
    first_bytes=frozenset(ENCODINGS),
    decode=read_parallel_consumer,
    encode=_write,
    word="pc",
    forms=("pc",),
    about_forms="pc for parallel-consumer's map",
    client_limit_chars=CLIENT_LIMIT_CHARS,
    when_too_large="that client would drop the whole map; translate --to plain forgets it knowingly",
    reader="parallel-consumer",
    noun="map of parallel-consumer",
    holds_done=True,
    counts_from_offset=True,
    effect_of_size=_effect_of_size,
    effect_of_nul=_effect_of_nul,
    hazards=_hazards,
)
