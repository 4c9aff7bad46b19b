"""The body of a KKM1 payload: tagged sections written from a `CommitState`, and its done set packed as bytes.

The table of sections is that of the format's description; FORGOTTEN (tag 14) is an addition that older readers skip.
States are brought into a form that a payload can say before they are written, and wrong ones are refused.

A done set has three forms: run lengths, Rice codes, a bitmap; the smallest is taken. All of them tell of the offsets
from `base` (which is pending) to the highest done one. Bits are taken lowest first.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from kafkakit.streams.model.binary import MAX_UVARINT, uvarint, uvarint_size, uvarints, zigzag
from kafkakit.streams.model.commit import (
    DIGEST_BYTES,
    MAX_OFFSET,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    Range,
    ReplayWindow,
    Watermark,
)
from kafkakit.streams.model.kkm1.text import BadBodyError, Cursor

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


class Encoding(IntEnum):
    """How the runs are packed; the numbers are those of the payload."""

    RUNS = 0
    RICE = 1
    BITMAP = 2

    @property
    def word(self) -> str:
        """The name in lower case, as readings tell it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class PackedSet:
    """A done set as bytes, and how to read them."""

    encoding: Encoding
    data: bytes


def body_of(state: CommitState, packed: PackedSet | None) -> bytes:
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


FEW_BYTES = 8
_MAX_PARAMETER = 63
_ONES = re.compile("1+")


def runs_of(base: int, done: OffsetRanges) -> list[int]:
    """Lengths of pending and done runs by turns, the first pending, the last done."""
    runs: list[int] = []
    at = base
    for start, end in done.ranges:
        runs += (start - at, end - start)
        at = end
    return runs


def pack_runs(runs: list[int]) -> PackedSet:
    """Each length as a number of seven bits a byte."""
    return PackedSet(Encoding.RUNS, uvarints(runs))


def pack_rice(runs: list[int]) -> PackedSet:
    """Rice codes of the lengths less one, with parameters of their own for pending and for done runs.

    A code is the quotient by 2**k as ones and a zero, then the remainder in k bits. Source: R. F. Rice, JPL 79-22.
    """
    (pending, _), (done, _) = rice_parameter(runs[::2]), rice_parameter(runs[1::2])
    codes: list[str] = []
    for at, run in enumerate(runs):
        k = done if at & 1 else pending
        # Highest bit first: the whole is turned round once.
        rest = f"{(run - 1) & ((1 << k) - 1):0{k}b}" if k else ""
        codes.append(f"{rest}0{'1' * ((run - 1) >> k)}")
    bits = "".join(reversed(codes))
    data = int(bits, 2).to_bytes((len(bits) + 7) // 8, "little")
    return PackedSet(Encoding.RICE, bytes((pending, done)) + uvarint(len(runs)) + data)


def rice_parameter(runs: list[int]) -> tuple[int, int]:
    """The parameter with which these lengths take the fewest bits (the lower one of equals), and those bits.

    The bits fall, then rise with it, so the walk from the logarithm of the mean ends at the least.
    """

    def bits(k: int) -> int:
        return sum([(run - 1) >> k for run in runs]) + (k + 1) * len(runs)

    k = max(0, (sum(runs) // len(runs)).bit_length() - 1)
    best = bits(k)
    while k and (lower := bits(k - 1)) <= best:
        k, best = k - 1, lower
    while k < _MAX_PARAMETER and (higher := bits(k + 1)) < best:
        k, best = k + 1, higher
    return k, best


def pack_bitmap(runs: list[int]) -> PackedSet:
    """One bit for each offset, 1 for done. Cost: the span, so ask for its size first."""
    bits = "".join(["1" * run if at & 1 else "0" * run for at, run in enumerate(runs)])
    return PackedSet(Encoding.BITMAP, int(bits[::-1], 2).to_bytes((len(bits) + 7) // 8, "little"))


def pack_smallest(runs: list[int]) -> PackedSet:
    """The smallest of the three, the first of equals; a few runs stay runs, which people can read without a tool.

    Cost: the runs; the offsets only where a bitmap of them is smaller than those.
    """
    packed = pack_runs(runs)
    if len(packed.data) <= FEW_BYTES:
        return packed
    bits = rice_parameter(runs[::2])[1] + rice_parameter(runs[1::2])[1]
    rice = 2 + uvarint_size(len(runs)) + (bits + 7) // 8
    bitmap = (sum(runs) + 7) // 8
    if bitmap < min(rice, len(packed.data)):
        return pack_bitmap(runs)
    return pack_rice(runs) if rice < len(packed.data) else packed


def unpack(encoding: int, data: Cursor, base: int, span: int) -> OffsetRanges:
    """The done set that was packed; raises `BadBodyError` unless it fills `span` exactly and uses every byte."""
    if base + span - 1 > MAX_OFFSET:
        raise BadBodyError("its offsets do not fit 63 bits")
    if encoding == Encoding.RUNS:
        return _from_runs(_unpack_runs(data), base, span)
    if encoding == Encoding.RICE:
        return _from_runs(_unpack_rice(data), base, span)
    if encoding == Encoding.BITMAP:
        return _unpack_bitmap(data, base, span)
    raise BadBodyError(f"it packs offsets in way {encoding}, which is not known")


def _unpack_runs(data: Cursor) -> list[int]:
    runs: list[int] = []
    while data.left:
        runs.append(data.uvarint())
    return runs


def _unpack_rice(data: Cursor) -> list[int]:
    parameters = data.byte(), data.byte()
    count = data.uvarint()
    raw = data.take(data.left)
    if max(parameters) > _MAX_PARAMETER or count > 8 * len(raw):
        raise BadBodyError("its Rice codes cannot be")
    # Highest bit first, so the codes are read from the end of the string towards its start.
    bits = f"{int.from_bytes(raw, 'little'):0{8 * len(raw)}b}" if raw else ""
    at = len(bits)
    runs: list[int] = []
    for number in range(count):
        k = parameters[number & 1]
        zero = bits.rfind("0", 0, at)
        if zero < k:
            raise BadBodyError("its Rice codes end too early")
        rest = int(bits[zero - k : zero], 2) if k else 0
        runs.append((((at - zero - 1) << k) | rest) + 1)
        at = zero - k
    if at > 7 or "1" in bits[:at]:
        raise BadBodyError("bytes follow its Rice codes")
    return runs


def _from_runs(runs: list[int], base: int, span: int) -> OffsetRanges:
    if len(runs) % 2 or not all(runs):
        raise BadBodyError("its runs cannot be")
    ranges: list[Range] = []
    at = base
    for pending, done in zip(runs[::2], runs[1::2], strict=True):
        start = at + pending
        at = start + done
        ranges.append((start, at))
    if at != base + span:
        raise BadBodyError("its runs do not fill its span")
    return OffsetRanges(tuple(ranges))


def _unpack_bitmap(data: Cursor, base: int, span: int) -> OffsetRanges:
    raw = data.take(data.left)
    if len(raw) != (span + 7) // 8 or raw[0] & 1:
        raise BadBodyError("its bitmap does not fill its span")
    # The highest bit that is set must be that of the highest done offset.
    bits = f"{int.from_bytes(raw, 'little'):b}"[::-1]
    if len(bits) != span:
        raise BadBodyError("its bitmap does not fill its span")
    return OffsetRanges(tuple([(base + ones.start(), base + ones.end()) for ones in _ONES.finditer(bits)]))


MAX_TIME_MS = 253_402_300_799_999  # the end of the year 9999
MAX_DEFERRED_S = (1 << 32) - 1


def clean_state(state: CommitState) -> CommitState:
    """The state as a payload tells it; raises `ValueError` for one that cannot be (a mistake of the program).

    Marks and a replay window lose what lies below base, counts end at 15, and a watermark without a real time (Kafka
    has records whose time is -1) is left out. A second call changes nothing.
    """
    check_done(state.base, state.done)
    if state.forgotten < 0 or state.forgotten > MAX_UVARINT:
        raise ValueError(f"{state.forgotten} acknowledgements cannot have been forgotten")
    _check_small(state)
    marks = tuple(_marks_above(state.base, state.marks)) if state.marks else ()
    wrong = next(contradictions(marks, state.done), None)
    if wrong is not None:
        raise ValueError(f"offsets {wrong.start} to {wrong.end - 1} are not what their mark {wrong.state.name} says")
    return replace(
        state,
        marks=marks,
        watermark=state.watermark if is_real(state.watermark) else None,
        replay=_clip_window(state.base, state.replay),
    )


def check_done(base: int, done: OffsetRanges) -> None:
    """Raise `ValueError` unless the done set is sorted, joined and above base."""
    if base < 0 or (done.end or base) > MAX_OFFSET:
        raise ValueError(f"offsets from {base} to {done.end} are not offsets of a log")
    at = base
    for start, end in done.ranges:
        if start <= at or end <= start:
            raise ValueError(f"the done offsets {start} to {end - 1} do not lie above {at}, apart from the others")
        at = end


def is_real(mark: Watermark | None) -> bool:
    """True for times of this era, which everything that reads them can show."""
    return mark is not None and 0 <= mark.oldest_ms <= MAX_TIME_MS and 0 <= mark.newest_done_ms <= MAX_TIME_MS


def contradictions(marks: Iterable[Mark], done: OffsetRanges) -> Iterator[Mark]:
    """The marks that disagree with the done set: done ones that are pending there, and the other way round.

    Both are sorted; the cost is their sum.
    """
    ranges = done.ranges
    at = 0
    for mark in marks:
        while at < len(ranges) and ranges[at][1] <= mark.start:
            at += 1
        touches = at < len(ranges) and ranges[at][0] < mark.end
        inside = touches and ranges[at][0] <= mark.start and mark.end <= ranges[at][1]
        if (mark.state.is_done and not inside) or (not mark.state.is_done and touches):
            yield mark


def without_contradictions(marks: tuple[Mark, ...], done: OffsetRanges) -> tuple[Mark, ...]:
    """The marks that agree with the done set."""
    wrong = set(contradictions(marks, done)) if marks else set()
    return tuple(mark for mark in marks if mark not in wrong) if wrong else marks


def _check_small(state: CommitState) -> None:
    route, spill, writer = state.route, state.spill, state.writer
    if route and not (0 <= route.epoch <= MAX_UVARINT and 0 <= route.segment <= MAX_UVARINT):
        raise ValueError(f"{route} is not a route")
    if spill and (
        not (0 <= spill.partition <= MAX_UVARINT and 0 <= spill.offset <= MAX_OFFSET)
        or len(spill.digest) != DIGEST_BYTES
    ):
        raise ValueError(f"{spill} points nowhere")
    if writer and not (0 <= writer.member_hash < 1 << 32 and 0 <= writer.generation <= MAX_UVARINT):
        raise ValueError(f"{writer} is not a writer")


def _marks_above(base: int, marks: tuple[Mark, ...]) -> Iterator[Mark]:
    at = 0
    for mark in marks:
        late = mark.deferred_s
        if mark.start < at or mark.end <= mark.start or mark.end > MAX_OFFSET or mark.count < 0:
            raise ValueError(f"{mark} is not a run of offsets after {at}")
        if late < 0 or late > MAX_DEFERRED_S or (late and mark.state is not MarkState.DEFERRED):
            raise ValueError(f"{mark} cannot be deferred by {late} s")
        at = mark.end
        if mark.end > base:
            start, count = max(base, mark.start), min(mark.count, MAX_COUNT)
            same = start == mark.start and count == mark.count
            yield mark if same else replace(mark, start=start, count=count)


def _clip_window(base: int, window: ReplayWindow | None) -> ReplayWindow | None:
    if window is None:
        return None
    if window.end <= window.start or window.end > MAX_OFFSET or not 0 <= window.request_id <= MAX_UVARINT:
        raise ValueError(f"{window} is not a window")
    if window.end <= base:
        return None
    return window if window.start >= base else replace(window, start=base)
