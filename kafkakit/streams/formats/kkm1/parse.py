"""The sections of a payload read back into a `CommitState`, trusting nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kafkakit.streams.formats.commit import (
    CommitState,
    Mark,
    MarkState,
    ReplayWindow,
    RouteMark,
    Spill,
    Watermark,
    Writer,
)
from kafkakit.streams.formats.kkm1.envelope import Envelope, Flag
from kafkakit.streams.formats.kkm1.packing import Encoding, unpack
from kafkakit.streams.formats.kkm1.sections import Tag
from kafkakit.streams.formats.kkm1.varint import BadBodyError, Cursor, unzigzag
from kafkakit.streams.formats.kkm1.writable import DIGEST_BYTES, MAX_DEFERRED_S, is_real, without_contradictions
from kafkakit.streams.formats.offset_ranges import MAX_OFFSET, OffsetRanges

T = TypeVar("T")
_MARK_STATES = frozenset(state.value for state in MarkState)


class UnknownSectionError(ValueError):
    """A section that a reader must understand, of a newer writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a body says; `ignored` tells of sections that were left out, each for a reason. None loses a record."""

    state: CommitState
    encoding: Encoding | None
    ignored: tuple[str, ...] = ()


def parse(envelope: Envelope, offset: int) -> Parsed:
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
        marks=_agreeing(read(Tag.DISPOSITION, partial(_disposition, base=base)) or (), done, ignored),
        spill=spill,
        writer=read(Tag.WRITER, _writer),
        replay=read(Tag.REPLAY, partial(_replay, base=base)),
        forgotten=(read(Tag.FORGOTTEN, Cursor.uvarint) or 0) if envelope.flags & Flag.LOSSY else 0,
    )
    return Parsed(state=state, encoding=encoding, ignored=tuple(ignored))


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


def _agreeing(marks: tuple[Mark, ...], done: OffsetRanges, ignored: list[str]) -> tuple[Mark, ...]:
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
