"""The sections of a payload read back into a `CommitState`, trusting nothing."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kafkakit.streams.commit import CommitState, Mark, MarkState, ReplayWindow, RouteMark, Spill, Watermark, Writer
from kafkakit.streams.kkm1.envelope import Envelope, Flag
from kafkakit.streams.kkm1.packing import Encoding, unpack
from kafkakit.streams.kkm1.sections import Tag
from kafkakit.streams.kkm1.varint import MAX_OFFSET, BadBodyError, Cursor, unzigzag
from kafkakit.streams.kkm1.writable import DIGEST_BYTES, MAX_DEFERRED_S, is_real, without_contradictions


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
    state, encoding = CommitState(base=offset), None
    cursor = _cursor(envelope, Tag.RANGES)
    if cursor:
        state, encoding = _ranges(cursor)
    ignored: list[str] = []
    for tag, read in _READERS:
        cursor = _cursor(envelope, tag)
        if cursor:
            try:
                state = read(cursor, state)
            except BadBodyError as error:
                ignored.append(f"section {tag.name} is ignored: {error}")
    if not envelope.flags & Flag.LOSSY:
        state = replace(state, forgotten=0) if state.forgotten else state
    if bool(envelope.flags & Flag.SPILLED) != (state.spill is not None):
        ignored.append("the spill is ignored: flag and section do not agree")
        state = replace(state, spill=None)
    marks = without_contradictions(state.marks, state.done)
    if len(marks) < len(state.marks):
        ignored.append(f"{len(state.marks) - len(marks)} marks are ignored: they disagree with the done set")
        state = replace(state, marks=marks)
    return Parsed(state=state, encoding=encoding, ignored=tuple(ignored))


def _cursor(envelope: Envelope, tag: Tag) -> Cursor | None:
    place = envelope.sections.get(tag)
    return Cursor(envelope.body, *place) if place else None


def _ranges(cursor: Cursor) -> tuple[CommitState, Encoding | None]:
    base, span = cursor.uvarint(), cursor.uvarint()
    if base > MAX_OFFSET:
        raise BadBodyError("its offsets do not fit 63 bits")
    if span == 0:
        if cursor.take(cursor.left).strip(b"\0"):
            raise BadBodyError("bytes follow its empty span")
        return CommitState(base=base), None
    encoding = cursor.byte()
    done = unpack(encoding, cursor, base, span)
    return CommitState(base=base, done=done), Encoding(encoding)


def _watermark(cursor: Cursor, state: CommitState) -> CommitState:
    oldest = cursor.uvarint()
    mark = Watermark(oldest_ms=oldest, newest_done_ms=oldest + unzigzag(cursor.uvarint()))
    if not is_real(mark):
        raise BadBodyError("its times are not of this era")
    return replace(state, watermark=mark)


def _route(cursor: Cursor, state: CommitState) -> CommitState:
    return replace(state, route=RouteMark(epoch=cursor.uvarint(), segment=cursor.uvarint()))


def _disposition(cursor: Cursor, state: CommitState) -> CommitState:
    marks: list[Mark] = []
    at = state.base
    while cursor.left:
        start = at + cursor.uvarint()
        at = start + cursor.uvarint()
        kind, count = divmod(cursor.byte(), 16)
        if kind not in MarkState._value2member_map_ or start == at or at > MAX_OFFSET:
            raise BadBodyError("an entry cannot be")
        late = cursor.uvarint() if kind == MarkState.DEFERRED else 0
        if late > MAX_DEFERRED_S:
            raise BadBodyError("an entry is deferred for ever")
        marks.append(Mark(start=start, end=at, state=MarkState(kind), count=count, deferred_s=late))
    return replace(state, marks=tuple(marks))


def _spill(cursor: Cursor, state: CommitState) -> CommitState:
    partition, offset = cursor.uvarint(), cursor.uvarint()
    if offset > MAX_OFFSET:
        raise BadBodyError("its offset does not fit 63 bits")
    return replace(state, spill=Spill(partition=partition, offset=offset, digest=cursor.take(DIGEST_BYTES)))


def _writer(cursor: Cursor, state: CommitState) -> CommitState:
    member = int.from_bytes(cursor.take(4), "little")
    return replace(state, writer=Writer(member_hash=member, generation=cursor.uvarint()))


def _replay(cursor: Cursor, state: CommitState) -> CommitState:
    start = state.base + cursor.uvarint()
    end = start + cursor.uvarint()
    if start == end or end > MAX_OFFSET:
        raise BadBodyError("its window cannot be")
    return replace(state, replay=ReplayWindow(start=start, end=end, request_id=cursor.uvarint()))


def _forgotten(cursor: Cursor, state: CommitState) -> CommitState:
    return replace(state, forgotten=cursor.uvarint())


_READERS: tuple[tuple[Tag, Callable[[Cursor, CommitState], CommitState]], ...] = (
    (Tag.WATERMARK, _watermark),
    (Tag.EPOCH, _route),
    (Tag.DISPOSITION, _disposition),
    (Tag.SPILL, _spill),
    (Tag.WRITER, _writer),
    (Tag.REPLAY, _replay),
    (Tag.FORGOTTEN, _forgotten),
)
