"""The body of a payload: tagged sections, written from a `CommitState`.

The table of sections is that of the format's description; FORGOTTEN (tag 14) is an addition that older readers skip.
"""

from collections.abc import Iterable
from enum import IntEnum

from kafkakit.streams.formats.commit import CommitState, Mark, MarkState
from kafkakit.streams.formats.kkm1.packing import Packed
from kafkakit.streams.formats.kkm1.varint import uvarint, zigzag

MAX_COUNT = 15


class Tag(IntEnum):
    """What a section holds. A reader that does not know an odd tag must not use the payload; it skips even ones."""

    END = 0
    RANGES = 1
    WATERMARK = 2
    EPOCH = 4
    DISPOSITION = 6
    SPILL = 8
    WRITER = 10
    REPLAY = 12
    FORGOTTEN = 14


def body_of(state: CommitState, packed: Packed | None) -> bytes:
    """The sections of a state in ascending order; `packed` is its done set, None when that is empty."""
    ranges = base_section(state)
    if packed is not None:
        data = uvarint(state.base) + uvarint(state.end - state.base) + bytes((packed.encoding,)) + packed.data
        ranges = _section(Tag.RANGES, data)
    return ranges + state_sections(state) + forgotten_section(state.forgotten)


def base_section(state: CommitState) -> bytes:
    """RANGES with an empty span: written where nothing is done, but other sections tell offsets from base on."""
    return _section(Tag.RANGES, uvarint(state.base) + b"\0\0") if state.marks or state.replay else b""


def state_sections(state: CommitState) -> bytes:
    """Everything between RANGES and FORGOTTEN."""
    sections = (
        (Tag.WATERMARK, _watermark(state)),
        (Tag.EPOCH, uvarint(state.route.epoch) + uvarint(state.route.segment) if state.route else b""),
        (Tag.DISPOSITION, disposition(state.base, state.marks)),
        (Tag.SPILL, _spill(state)),
        (Tag.WRITER, _writer(state)),
        (Tag.REPLAY, _replay(state)),
    )
    return b"".join([_section(tag, data) for tag, data in sections])


def forgotten_section(count: int) -> bytes:
    """FORGOTTEN, or nothing for nothing."""
    return _section(Tag.FORGOTTEN, uvarint(count)) if count else b""


def disposition(base: int, marks: Iterable[Mark]) -> bytes:
    """The marks as gaps from the end of the one before, lengths, and states with counts."""
    out = bytearray()
    at = base
    for mark in marks:
        out += uvarint(mark.start - at) + uvarint(mark.end - mark.start)
        out.append(mark.state << 4 | mark.count)
        if mark.state is MarkState.DEFERRED:
            out += uvarint(mark.deferred_s)
        at = mark.end
    return bytes(out)


def _section(tag: Tag, data: bytes) -> bytes:
    return bytes((tag,)) + uvarint(len(data)) + data if data else b""


def _watermark(state: CommitState) -> bytes:
    mark = state.watermark
    return uvarint(mark.oldest_ms) + uvarint(zigzag(mark.newest_done_ms - mark.oldest_ms)) if mark else b""


def _spill(state: CommitState) -> bytes:
    spill = state.spill
    return uvarint(spill.partition) + uvarint(spill.offset) + spill.digest if spill else b""


def _writer(state: CommitState) -> bytes:
    writer = state.writer
    return writer.member_hash.to_bytes(4, "little") + uvarint(writer.generation) if writer else b""


def _replay(state: CommitState) -> bytes:
    replay = state.replay
    if replay is None:
        return b""
    return uvarint(replay.start - state.base) + uvarint(replay.end - replay.start) + uvarint(replay.request_id)
