"""Reading a KKM1 payload: any text, never an error, and never more done than its writer said; and the layers around it.

The envelope is version, flags, and the word that binds a payload to what it is for. zstd is a tie-breaker: it wins over
Rice codes for dense or regular patterns, and only then it is used. Sections are read back trusting nothing.

Alphabet `j` is a payload as JSON, for people and tests; the same content, written in one way only. The bind is that of
the binary payload whose done set is packed as runs, so nothing can be changed by hand unseen.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from typing import TypeVar

from kafkakit.streams.model.binary import crc32c, unzigzag
from kafkakit.streams.model.commit import (
    DIGEST_BYTES,
    MAX_OFFSET,
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    PayloadProblem,
    Reading,
    ReplayWindow,
    RouteMark,
    Spill,
    StateDocument,
    Watermark,
    Writer,
    state_data,
    state_from,
)
from kafkakit.streams.model.compressed_sizes import DamagedError, zstd_size
from kafkakit.streams.model.inflate import BombError, inflate_zstd
from kafkakit.streams.model.kkm1.sections import (
    MAX_DEFERRED_S,
    Encoding,
    Tag,
    body_of,
    clean_state,
    is_real,
    pack_runs,
    runs_of,
    unpack,
    without_contradictions,
)
from kafkakit.streams.model.kkm1.text import (
    MARK,
    MAX_CHARS,
    Alphabet,
    BadBodyError,
    BadTextError,
    Cursor,
    TooLargeError,
    from_text,
    utf16_units,
)


class UnknownSectionError(ValueError):
    """A section that a reader must understand, of a newer writer."""


class UnknownVersionError(ValueError):
    """A payload of a version that this reader does not know."""


NAME = "kkm1"
"""The dialect's name."""
_PROBLEMS: dict[type[ValueError], PayloadProblem] = {
    BadTextError: PayloadProblem.BAD_TEXT,
    BadBodyError: PayloadProblem.BAD_BODY,
    UnknownVersionError: PayloadProblem.UNKNOWN_VERSION,
    UnknownSectionError: PayloadProblem.UNKNOWN_SECTION,
    TooLargeError: PayloadProblem.TOO_LARGE,
}
_FOREIGN = "its checksum does not match this cluster, topic, partition and group: it was copied, or damaged"
_ALPHABETS = frozenset(alphabet.value for alphabet in Alphabet)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedBody:
    """What a body says; `ignored` tells of sections that were left out, each for a reason. None loses a record."""

    state: CommitState
    encoding: Encoding | None
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPayload:
    """A text taken apart as far as the bind: what to check it with, and how to read on."""

    alphabet: Alphabet
    raw_bytes: int
    bind: int
    signed: bytes
    flags: int
    parsed: ParsedBody | ValueError

    def is_bound_to(self, identity: CommitIdentity) -> bool:
        """True when it was written for this identity and is undamaged. Cost: a checksum of its bytes."""
        return self.bind == bind_of(identity, self.signed)


def read_kkm1(text: str, offset: int, identity: CommitIdentity | None) -> Reading:
    """What metadata beginning with `~` means for the offset that it was committed with; never raises.

    Without an identity nothing proves the payload (`is_bound` is None): show it, but never continue from it. Work is
    bounded by `MAX_CHARS` of text and 64 KiB of body; runs are never expanded into offsets.
    """
    opened = open_text(text, offset)
    empty = CommitState(base=offset)
    chars = utf16_units(text)
    if not isinstance(opened, OpenedPayload):
        why = _PROBLEMS[type(opened)]
        return Reading(dialect=NAME, state=empty, chars=chars, problem=why, reason=str(opened))
    parsed = opened.parsed
    is_bound = opened.is_bound_to(identity) if identity else None
    state, encoding = empty, ""
    claimed: CommitState | None = None
    problem: PayloadProblem | None = None
    if not isinstance(parsed, ParsedBody):
        problem, reason = _PROBLEMS[type(parsed)], str(parsed)
    else:
        state, reason = parsed.state, "; ".join(parsed.ignored)
        encoding = parsed.encoding.word if parsed.encoding is not None else ""
        if state.base != offset:
            problem = PayloadProblem.BASE_MISMATCH
            reason = f"it was written for offset {state.base}, and committed with {offset}"
            state, claimed = empty, state
    if is_bound is False:
        problem, reason, state = PayloadProblem.FOREIGN, _FOREIGN, empty
        claimed = parsed.state if isinstance(parsed, ParsedBody) else None
    return Reading(
        dialect=NAME,
        state=state,
        chars=chars,
        problem=problem,
        reason=reason,
        claimed=claimed,
        encoding=encoding,
        alphabet=opened.alphabet.value,
        raw_bytes=opened.raw_bytes,
        is_lossy=bool(opened.flags & Flag.LOSSY),
        is_compressed=bool(opened.flags & Flag.ZSTD),
        is_bound=is_bound,
    )


def open_text(text: str, offset: int = 0) -> OpenedPayload | ValueError:
    """Take a text apart without judging whose it is; an error is returned, not raised, for text that is no payload.

    To find out whose payload it is, ask `is_bound_to` of one `OpenedPayload` for each identity that it may have.
    """
    try:
        return _open_payload(text, offset)
    except tuple(_PROBLEMS) as error:
        return error


def _open_payload(text: str, offset: int) -> OpenedPayload:
    if len(text) > MAX_CHARS:
        raise TooLargeError(f"it has {len(text)} characters")
    text = text.rstrip("\0")
    if text[:1] != MARK or text[1:2] not in _ALPHABETS:
        raise BadTextError("it does not begin with ~ and the letter of an alphabet")
    alphabet = Alphabet(text[1])
    if alphabet is Alphabet.JSON:
        payload = from_json(text[2:])
        return OpenedPayload(
            alphabet=alphabet,
            raw_bytes=len(text.encode("utf-8", "surrogatepass")),
            bind=payload.bind,
            signed=payload.signed,
            flags=flags_of(payload.state),
            parsed=ParsedBody(state=payload.state, encoding=None),
        )
    envelope = unseal(from_text(alphabet, text[2:]))
    parsed: ParsedBody | ValueError
    try:
        parsed = parse(envelope, offset)
    except (BadBodyError, UnknownSectionError) as error:
        parsed = error
    return OpenedPayload(
        alphabet=alphabet,
        raw_bytes=len(envelope.signed) + BIND_BYTES,
        bind=envelope.bind,
        signed=envelope.signed,
        flags=envelope.flags,
        parsed=parsed,
    )


T = TypeVar("T")
_MARK_STATES = frozenset(state.value for state in MarkState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A payload taken apart: `signed` is what the bind covers beside the identity, `body` the sections as written
    before any compression, `sections` where each tag's bytes lie in it."""

    flags: int
    bind: int
    signed: bytes
    body: bytes
    sections: dict[int, tuple[int, int]]


def parse(envelope: Envelope, offset: int) -> ParsedBody:
    """The state that the sections tell; base is `offset` where they do not tell it.

    RANGES must be right in every byte, else `BadBodyError` is raised. The other sections may be left out by any
    reader, so a damaged one is, and marks that disagree with the done set are: a mark never makes an offset done.
    Raises `UnknownSectionError` for an odd tag that is not known.
    """
    unknown = [tag for tag in envelope.sections if tag & 1 and tag != Tag.RANGES]
    if unknown:
        raise UnknownSectionError(f"section {unknown[0]} is not known, and must be")
    base, done, encoding = offset, OffsetRanges(), None
    cursor = _cursor(envelope, Tag.RANGES)
    if cursor:
        base, done, encoding = _ranges(cursor)
    ignored: list[str] = []

    def read(tag: Tag, reader: Callable[[Cursor], T]) -> T | None:
        place = envelope.sections.get(tag)
        try:
            return reader(Cursor(envelope.body, *place)) if place else None
        except BadBodyError as error:
            ignored.append(f"section {tag.name} is ignored: {error}")
            return None

    spill = read(Tag.SPILL, _spill)
    if bool(envelope.flags & Flag.SPILLED) != (spill is not None):
        ignored.append("the spill is ignored: flag and section do not agree")
        spill = None
    state = CommitState(
        base=base,
        done=done,
        watermark=read(Tag.WATERMARK, _watermark),
        route=read(Tag.EPOCH, _route),
        marks=_keep_agreeing(read(Tag.DISPOSITION, partial(_disposition, base=base)) or (), done, ignored),
        spill=spill,
        writer=read(Tag.WRITER, _writer),
        replay=read(Tag.REPLAY, partial(_replay, base=base)),
        forgotten=(read(Tag.FORGOTTEN, Cursor.uvarint) or 0) if envelope.flags & Flag.LOSSY else 0,
    )
    return ParsedBody(state=state, encoding=encoding, ignored=tuple(ignored))


def _cursor(envelope: Envelope, tag: Tag) -> Cursor | None:
    place = envelope.sections.get(tag)
    return Cursor(envelope.body, *place) if place else None


def _ranges(cursor: Cursor) -> tuple[int, OffsetRanges, Encoding | None]:
    base, span = cursor.uvarint(), cursor.uvarint()
    if base > MAX_OFFSET:
        raise BadBodyError("its offsets do not fit 63 bits")
    if span == 0:
        if cursor.take(cursor.left).strip(b"\0"):
            raise BadBodyError("bytes follow its empty span")
        return base, OffsetRanges(), None
    encoding = cursor.byte()
    return base, unpack(encoding, cursor, base, span), Encoding(encoding)


def _watermark(cursor: Cursor) -> Watermark:
    oldest = cursor.uvarint()
    mark = Watermark(oldest_ms=oldest, newest_done_ms=oldest + unzigzag(cursor.uvarint()))
    if not is_real(mark):
        raise BadBodyError("its times are not of this era")
    return mark


def _route(cursor: Cursor) -> RouteMark:
    return RouteMark(epoch=cursor.uvarint(), segment=cursor.uvarint())


def _disposition(cursor: Cursor, *, base: int) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    at = base
    while cursor.left:
        start = at + cursor.uvarint()
        at = start + cursor.uvarint()
        kind, count = divmod(cursor.byte(), 16)
        if kind not in _MARK_STATES or start == at or at > MAX_OFFSET:
            raise BadBodyError("an entry cannot be")
        late = cursor.uvarint() if kind == MarkState.DEFERRED else 0
        if late > MAX_DEFERRED_S:
            raise BadBodyError("an entry is deferred for ever")
        marks.append(Mark(start=start, end=at, state=MarkState(kind), count=count, deferred_s=late))
    return tuple(marks)


def _keep_agreeing(marks: tuple[Mark, ...], done: OffsetRanges, ignored: list[str]) -> tuple[Mark, ...]:
    agreeing = without_contradictions(marks, done)
    if len(agreeing) < len(marks):
        ignored.append(f"{len(marks) - len(agreeing)} marks are ignored: they disagree with the done set")
    return agreeing


def _spill(cursor: Cursor) -> Spill:
    partition, offset = cursor.uvarint(), cursor.uvarint()
    if offset > MAX_OFFSET:
        raise BadBodyError("its offset does not fit 63 bits")
    return Spill(partition=partition, offset=offset, digest=cursor.take(DIGEST_BYTES))


def _writer(cursor: Cursor) -> Writer:
    return Writer(member_hash=int.from_bytes(cursor.take(4), "little"), generation=cursor.uvarint())


def _replay(cursor: Cursor, *, base: int) -> ReplayWindow:
    start = base + cursor.uvarint()
    end = start + cursor.uvarint()
    if start == end or end > MAX_OFFSET:
        raise BadBodyError("its window cannot be")
    return ReplayWindow(start=start, end=end, request_id=cursor.uvarint())


VERSION = 1
BIND_BYTES = 4
HEADER_BYTES = 1 + BIND_BYTES
MAX_BODY_BYTES = 64 * 1024
_BITS_OF_FLAGS = 15


class Flag(IntEnum):
    """What the low half of the first byte tells, one bit each; RESERVED is zero in version 1."""

    NONE = 0
    ZSTD = 1
    LOSSY = 2
    SPILLED = 4
    RESERVED = 8


def identity_bytes(identity: CommitIdentity) -> bytes:
    """What the checksum begins with: cluster, topic id, partition (big-endian) and group."""
    return b"".join(
        (
            identity.cluster_id.encode("utf-8", "surrogatepass"),
            b"\0",
            identity.topic_id,
            (identity.partition & 0xFFFFFFFF).to_bytes(4, "big"),
            identity.group.encode("utf-8", "surrogatepass"),
            b"\0",
        )
    )


@lru_cache(maxsize=4096)
def _identity_crc(identity: CommitIdentity) -> int:
    return crc32c(identity_bytes(identity))


def bind_of(identity: CommitIdentity, signed: bytes) -> int:
    """The checksum of an identity and what is signed: the first byte and the body as it stands in the payload."""
    return crc32c(signed, _identity_crc(identity))


def seal(identity: CommitIdentity, flags: int, body: bytes) -> bytes:
    """The binary payload: first byte, bind, body."""
    first = bytes((VERSION << 4 | flags,))
    return first + bind_of(identity, first + body).to_bytes(BIND_BYTES, "little") + body


def unseal(raw: bytes) -> Envelope:
    """Take a payload apart; it may be followed by zero bytes.

    Raises `UnknownVersionError`, `BadBodyError` or `TooLargeError` (above `MAX_BODY_BYTES`, before or after
    inflating).
    """
    if not raw:
        raise BadBodyError("it is empty")
    if raw[0] >> 4 != VERSION or raw[0] & Flag.RESERVED:
        raise UnknownVersionError(f"its first byte is {raw[0]:#04x}, which version {VERSION} does not have")
    if len(raw) < HEADER_BYTES:
        raise BadBodyError("it ends too early")
    if len(raw) > MAX_BODY_BYTES + HEADER_BYTES:
        raise TooLargeError(f"it has {len(raw)} bytes")
    flags, wire = raw[0] & _BITS_OF_FLAGS, raw[HEADER_BYTES:]
    body, used = _inflate(wire) if flags & Flag.ZSTD else (wire, len(wire))
    sections, end = split_sections(body)
    used = used if flags & Flag.ZSTD else end
    if wire[used:].strip(b"\0") or body[end:].strip(b"\0"):
        raise BadBodyError("bytes follow its end")
    bind = int.from_bytes(raw[1:HEADER_BYTES], "little")
    return Envelope(flags=flags, bind=bind, signed=raw[:1] + wire[:used], body=body, sections=sections)


def split_sections(body: bytes) -> tuple[dict[int, tuple[int, int]], int]:
    """Where each section lies, by tag, and where they end; raises `BadBodyError` unless tags ascend."""
    cursor = Cursor(body)
    found: dict[int, tuple[int, int]] = {}
    last = 0
    while cursor.left:
        start = cursor.at
        tag = cursor.uvarint()
        if tag == 0:
            return found, start
        if tag <= last:
            raise BadBodyError(f"section {tag} follows section {last}")
        size = cursor.uvarint()
        if size > cursor.left:
            raise BadBodyError(f"section {tag} ends too early")
        found[tag] = (cursor.at, cursor.at + size)
        cursor.at += size
        last = tag
    return found, len(body)


def _inflate(wire: bytes) -> tuple[bytes, int]:
    """The body that one zstd frame holds, and the bytes that the frame takes."""
    try:
        size = zstd_size(wire, frames=1)
        return inflate_zstd(wire[: size.length], MAX_BODY_BYTES), size.length
    except BombError as error:
        raise TooLargeError(str(error)) from error
    except DamagedError as error:
        raise BadBodyError(str(error)) from error


# Below this a frame's own headers cost more than it saves.
MIN_BODY = 64
# The weakest level takes microseconds and tells whether the strongest, which takes milliseconds, has a chance.
_PROBE, _BEST = 1, 19
_CHANCE = 1.25
# Where even a body that the probe likes is long, the strongest level costs tens of milliseconds for a few bytes.
_LONG, _BEST_OF_LONG = 16 * 1024, 9


def compress_body(body: bytes, rival: int | None) -> bytes | None:
    """The body as one zstd frame of less than `rival` bytes (None: none stands), without a size or checksum.

    None where it is not smaller, or could not be read back within the reader's limits.
    """
    if not MIN_BODY <= len(body) <= MAX_BODY_BYTES:
        return None
    frame = _frame(body, _PROBE)
    if rival is not None and len(frame) > _CHANCE * rival:
        return None
    frame = min(frame, _frame(body, _BEST if len(body) < _LONG else _BEST_OF_LONG), key=len)
    if rival is not None and len(frame) >= rival:
        return None
    try:
        return frame if inflate_zstd(frame, MAX_BODY_BYTES) == body else None
    except (BombError, DamagedError):
        return None


def _frame(body: bytes, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level, write_content_size=False, write_checksum=False).compress(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPayload:
    """What JSON text says, and the bytes that its bind covers beside the identity."""

    state: CommitState
    bind: int
    signed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _JsonDocument(StateDocument):
    bind: str


def flags_of(state: CommitState) -> int:
    """The flags of an uncompressed payload."""
    return (Flag.LOSSY if state.forgotten else 0) | (Flag.SPILLED if state.spill else 0)


def to_json(state: CommitState, identity: CommitIdentity) -> str:
    """The text of a writable state: keys in fixed order, absent where there is nothing to say, no spaces."""
    facts: dict[str, object] = {"version": VERSION, "bind": f"{bind_of(identity, _signed_bytes(state)):08x}"}
    facts |= {name: value for name, value in state_data(state).items() if value or name in ("base", "done")}
    return "~j" + json.dumps(facts, separators=(",", ":"))


def from_json(text: str) -> JsonPayload:
    """Read the text without its first two characters; raises `BadBodyError` or `UnknownVersionError`."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadBodyError("it is not JSON") from error
    if not isinstance(facts, dict):
        raise BadBodyError("it is not a JSON object")
    if facts.get("version") != VERSION:
        raise UnknownVersionError(f"its version is not {VERSION}")
    import msgspec

    try:
        document = msgspec.convert(facts, _JsonDocument)
        state, bind = clean_state(state_from(document)), int(document.bind, 16)
    except (msgspec.ValidationError, ValueError) as error:
        raise BadBodyError("its fields cannot be") from error
    return JsonPayload(state=state, bind=bind, signed=_signed_bytes(state))


def _signed_bytes(state: CommitState) -> bytes:
    packed = pack_runs(runs_of(state.base, state.done)) if state.done else None
    return bytes((VERSION << 4 | flags_of(state),)) + body_of(state, packed)
