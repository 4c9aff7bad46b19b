"""The body of a payload: tagged sections, written from a `CommitState`.

The table of sections is that of the format's description; FORGOTTEN (tag 14) is an addition that older readers skip.
"""

from collections.abc import Iterable
from enum import IntEnum

from kafkakit.streams.commit import CommitState, Mark, MarkState
from kafkakit.streams.kkm1.packing import Packed
from kafkakit.streams.kkm1.varint import uvarint, zigzag

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
    """The sections of a state in ascending order; `packed` is its done set, None when that is empty.

    Where nothing is done, but other sections tell offsets from base on, base is written with an empty span.
    """
    sections = (
        (Tag.RANGES, _ranges(state, packed)),
        (Tag.WATERMARK, _watermark(state)),
        (Tag.EPOCH, uvarint(state.route.epoch) + uvarint(state.route.segment) if state.route else b""),
        (Tag.DISPOSITION, disposition(state.base, state.marks)),
        (Tag.SPILL, _spill(state)),
        (Tag.WRITER, _writer(state)),
        (Tag.REPLAY, _replay(state)),
        (Tag.FORGOTTEN, uvarint(state.forgotten) if state.forgotten else b""),
    )
    return b"".join([bytes((tag,)) + uvarint(len(data)) + data for tag, data in sections if data])


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


def _ranges(state: CommitState, packed: Packed | None) -> bytes:
    if packed is not None:
        return uvarint(state.base) + uvarint(state.end - state.base) + bytes((packed.encoding,)) + packed.data
    return uvarint(state.base) + b"\0\0" if state.marks or state.replay else b""


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
