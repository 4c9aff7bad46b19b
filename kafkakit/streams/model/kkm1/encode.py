"""Writing a KKM1 payload that fits: exact where it can be, otherwise coarsened, and never with more done than is.

Its forms are bytes in the alphabets `b` and `w`, and JSON. Coarsening: some done islands become pending again so that
the rest fits, found without trying them one by one. An island is a run of done offsets between holes. Islands are given
up smallest first, those that hold a rejected or skipped offset last; where it forgets less, the highest islands are
given up instead (a bitmap is paid for by the offset). Sizes are exact, and a binary search finds how many islands may
stay.

The overflow ladder says what a consumer does as its metadata fill up, before anything must be forgotten.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from kafkakit.streams.model.binary import uvarint_size
from kafkakit.streams.model.commit import CommitIdentity, CommitState, Mark, MarkState, OffsetRanges
from kafkakit.streams.model.kkm1.decode import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    MIN_BODY,
    Flag,
    compress_body,
    flags_of,
    seal,
    to_json,
)
from kafkakit.streams.model.kkm1.sections import (
    FEW_BYTES,
    PackedSet,
    base_section,
    body_of,
    clean_state,
    disposition,
    forgotten_section,
    pack_bitmap,
    pack_runs,
    pack_smallest,
    runs_of,
    state_sections,
    without_contradictions,
)
from kafkakit.streams.model.kkm1.text import MAX_CHARS, Alphabet, chars_of, to_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]


# Marks get a byte for so many characters of a payload that overflows, about a quarter of it in base64, so that they
# never crowd out what is done.
_CHARS_TO_A_BYTE_OF_MARKS = 5
# Trials after the sizes have spoken, and the part of the limit above which none is worth its time.
_TRIALS = 6
_FULL_ENOUGH = 0.95
_NEED = {MarkState.REJECTED: 0, MarkState.RETRYING: 1, MarkState.DEFERRED: 2, MarkState.SKIPPED: 3}
_OPTIONAL = ("replay", "writer", "route", "watermark", "spill", "forgotten")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedState:
    """What to commit as metadata, and what it says.

    `written` is the state that a reader gets back. `forgotten` are acknowledgements of the state that it does not
    hold: as many records are delivered again after a restart. `is_lossy` tells that anything was left out;
    `left_out` names it (marks are counted in `lost_marks`). `fill` is the part of the limit that the exact state
    takes in this alphabet: above 1 it did not fit. `text` is "" where not even an empty payload fits.
    """

    text: str
    alphabet: str
    encoding: str
    chars: int
    raw_bytes: int
    forgotten: int
    lost_marks: int
    left_out: tuple[str, ...]
    is_compressed: bool
    written: CommitState
    fill: float

    @property
    def is_lossy(self) -> bool:
        """True when a reader does not get the whole state back."""
        return bool(self.forgotten or self.lost_marks or self.left_out)


def encode_commit(
    state: CommitState, identity: CommitIdentity, *, limit_chars: int, alphabets: Sequence[str] = ("b",)
) -> EncodedState:
    """The metadata for a commit of `state.base`, at most `limit_chars` long.

    The first alphabet whose exact payload fits is taken; where none fits, the state is coarsened in the last one.
    Raises `ValueError` for a state that cannot be (see `clean_state`) or an alphabet that is not known. Cost: the runs;
    coarsening sorts them once.
    """
    state = clean_state(state)
    forms = [form_of(Alphabet(letter), identity) for letter in alphabets]
    if not forms:
        raise ValueError("no alphabet is given")
    for form in forms:
        limit = min(limit_chars, form.most_chars)
        payload = form.render(state, limit)
        if payload is not None and len(payload.text) <= limit:
            return _encoded_state(form.alphabet, payload, state, state, len(payload.text) / limit)
    starts, ends = columns(state.done)
    needed = len(payload.text) if payload is not None else form.measure(state)(starts, ends, 0)
    fill = needed / max(limit, 1)
    for rung in _rungs(state, limit):
        kept = _coarsen_state(rung, form, limit)
        payload = form.render(kept, limit) if kept is not None else None
        if kept is not None and payload is not None and len(payload.text) <= limit:
            kept, payload = _tighten(rung, form, limit, kept, payload)
            return _encoded_state(form.alphabet, payload, state, kept, fill)
    nothing = Payload(text="", encoding="", raw_bytes=0, is_compressed=False)
    return _encoded_state(form.alphabet, nothing, state, CommitState(base=state.base), fill)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A state written down; `encoding` is "" where its done set is empty or stands as text."""

    text: str
    encoding: str
    raw_bytes: int
    is_compressed: bool


def _encoded_state(
    alphabet: Alphabet, payload: Payload, state: CommitState, written: CommitState, fill: float
) -> EncodedState:
    return EncodedState(
        text=payload.text,
        alphabet=alphabet.value if payload.text else "",
        encoding=payload.encoding,
        chars=len(payload.text),
        raw_bytes=payload.raw_bytes,
        forgotten=state.done.count - written.done.count,
        lost_marks=len(state.marks) - len(written.marks),
        left_out=tuple(name for name in _OPTIONAL if getattr(state, name) and not getattr(written, name)),
        is_compressed=payload.is_compressed,
        written=written,
        fill=fill,
    )


def _rungs(state: CommitState, limit_chars: int) -> Iterator[CommitState]:
    """The state with less and less beside its done set; all but the first are for limits that hardly hold anything."""
    yield _with_marks_in(state, limit_chars // _CHARS_TO_A_BYTE_OF_MARKS)
    state = _with_marks_in(state, 0)
    yield state
    yield (state := replace(state, replay=None))
    yield (state := replace(state, writer=None))
    yield (state := replace(state, route=None))
    yield (state := replace(state, watermark=None))
    yield replace(state, spill=None)


def _with_marks_in(state: CommitState, limit_bytes: int) -> CommitState:
    """The state with the marks that fit into so many bytes, the most needed first.

    A rejected offset without its mark would be done, and nothing would record that it must be kept somewhere before
    base passes it; so it becomes pending again.
    """
    marks = state.marks
    if len(disposition(state.base, marks)) <= limit_bytes:
        return state
    by_need = sorted(marks, key=lambda mark: (_NEED[mark.state], -mark.count, mark.start))

    def first(count: int) -> list[Mark]:
        return sorted(by_need[:count], key=lambda mark: mark.start)

    count = largest_fitting(len(marks), lambda some: len(disposition(state.base, first(some))) <= limit_bytes)
    lost = OffsetRanges.of((mark.start, mark.end) for mark in by_need[count:] if mark.state is MarkState.REJECTED)
    done = state.done.minus(lost)
    return replace(
        state,
        marks=tuple(first(count)),
        done=done,
        forgotten=state.forgotten + state.done.count - done.count,
    )


# Characters of a payload with these islands, as first and past-the-last offsets, and so many acknowledgements missing.
Measure = Callable[["Longs", "Longs", int], int]


class PayloadForm(Protocol):
    """One alphabet for one identity. States are writable ones."""

    @property
    def alphabet(self) -> Alphabet:
        """The alphabet of its texts."""
        ...

    @property
    def most_chars(self) -> int:
        """The longest text that readers take."""
        ...

    def render(self, state: CommitState, limit_chars: int) -> Payload | None:
        """The smallest payload, which may exceed the limit; None where it exceeds it so far that it is not made."""
        ...

    def measure(self, state: CommitState) -> Measure:
        """How long a payload becomes with a part of the state's done set and all its other sections; `render` makes
        of it a payload that is not longer."""
        ...


def _tighten(
    state: CommitState, form: PayloadForm, limit_chars: int, kept: CommitState, payload: Payload
) -> tuple[CommitState, Payload]:
    """More islands where compression made space for them, which sizes cannot foresee; found by a few trials."""
    allowed, refused = limit_chars, 0
    for _ in range(_TRIALS):
        if not payload.is_compressed or len(payload.text) > limit_chars * _FULL_ENOUGH:
            break
        trial = (allowed + refused) // 2 if refused else allowed * limit_chars // len(payload.text)
        more = _coarsen_state(state, form, trial)
        text = form.render(more, limit_chars) if more is not None else None
        if more is None or text is None or len(text.text) > limit_chars or more.done.count < kept.done.count:
            refused = trial
        else:
            allowed, kept, payload = trial, more, text
    return kept, payload


def _coarsen_state(state: CommitState, form: PayloadForm, limit_chars: int) -> CommitState | None:
    """The state with the islands that fit; None where it does not even fit without any."""
    measure = form.measure(state)
    if measure(*columns(OffsetRanges()), state.done.count) > limit_chars:
        return None
    kept = OffsetRanges.of((mark.start, mark.end) for mark in state.marks if mark.state.is_done)
    done = coarsen(
        state.done,
        kept,
        lambda starts, ends, missing: measure(starts, ends, missing) <= limit_chars,
        # A character carries at most 15 bits, and an island with its hole takes two at least.
        at_most=8 * limit_chars,
    )
    return replace(
        state,
        done=done,
        marks=without_contradictions(state.marks, done),
        forgotten=state.forgotten + state.done.count - done.count,
    )


@dataclass(frozen=True, slots=True)
class BinaryForm:
    """Payloads of bytes: the smallest packing, or zstd where that is smaller still."""

    alphabet: Alphabet
    identity: CommitIdentity

    @property
    def most_chars(self) -> int:
        # Wide text may be read back with one zero byte more, which has to fit the reader's limit too.
        return chars_of(self.alphabet, HEADER_BYTES + MAX_BODY_BYTES - 1)

    def render(self, state: CommitState, limit_chars: int) -> Payload | None:
        """See `PayloadForm`. Cost: the runs, and compressing at most 64 KiB twice."""
        runs = runs_of(state.base, state.done)
        best: bytes | None = None
        flag, encoding = Flag.NONE, ""
        if not runs:
            best = body_of(state, None)
        # A run takes a bit at least, or an offset does; a character carries less than two bytes.
        elif min(len(runs), sum(runs)) <= 16 * limit_chars:
            packed = pack_smallest(runs)
            best, encoding = body_of(state, packed), packed.encoding.word
        for packed in _compressible(runs) if best is None or len(best) >= MIN_BODY else ():
            frame = compress_body(body_of(state, packed), None if best is None else len(best))
            if frame is not None:
                best, flag, encoding = frame, Flag.ZSTD, packed.encoding.word
        if best is None:
            return None
        raw = seal(self.identity, flags_of(state) | flag, best)
        text = to_text(self.alphabet, raw)
        return Payload(text=text, encoding=encoding, raw_bytes=len(raw), is_compressed=bool(flag))

    def measure(self, state: CommitState) -> Measure:
        """See `PayloadForm`. Cost of each call: a few passes over the islands."""
        fixed = HEADER_BYTES + len(state_sections(state))
        empty = len(base_section(state))

        def chars(starts: "Longs", ends: "Longs", missing: int) -> int:
            size = fixed + len(forgotten_section(state.forgotten + missing))
            return chars_of(self.alphabet, size + (ranges_size(state.base, starts, ends) or empty))

        return chars


@dataclass(frozen=True, slots=True)
class JsonForm:
    """Payloads as JSON, for people and tests."""

    identity: CommitIdentity

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.JSON

    @property
    def most_chars(self) -> int:
        return MAX_CHARS

    def render(self, state: CommitState, limit_chars: int) -> Payload | None:
        if 4 * len(state.done.ranges) > limit_chars:
            return None
        text = to_json(state, self.identity)
        return Payload(text=text, encoding="", raw_bytes=len(text), is_compressed=False)

    def measure(self, state: CommitState) -> Measure:
        """See `PayloadForm`. Cost of each call: writing the text."""

        def chars(starts: "Longs", ends: "Longs", missing: int) -> int:
            done = islands(starts, ends)
            marks = without_contradictions(state.marks, done)
            part = replace(state, done=done, marks=marks, forgotten=state.forgotten + missing)
            return len(to_json(part, self.identity))

        return chars


def form_of(alphabet: Alphabet, identity: CommitIdentity) -> PayloadForm:
    """The form of an alphabet."""
    return JsonForm(identity) if alphabet is Alphabet.JSON else BinaryForm(alphabet, identity)


def _compressible(runs: list[int]) -> Iterator[PackedSet]:
    """The packings that zstd may shorten: a bitmap, and runs; Rice codes have no pattern left that it could see."""
    if runs and sum(runs) <= 8 * MAX_BODY_BYTES:
        yield pack_bitmap(runs)
    if runs and len(runs) <= MAX_BODY_BYTES:
        yield pack_runs(runs)


_MAX_PARAMETER = 63
_SECOND_LOOKS = 24


def coarsen(
    done: OffsetRanges,
    protected: OffsetRanges,
    fits: Callable[["Longs", "Longs", int], bool],
    at_most: int,
) -> OffsetRanges:
    """The islands that stay: at most so many, and such that `fits(starts, ends, forgotten)` holds.

    Cost: sorting the islands once, then a few passes over those that may stay.
    """
    import numpy as np

    if not done:
        return done
    starts, ends = columns(done)
    keep_last = _holding_islands(starts, ends, protected)
    total = int((ends - starts).sum())
    count = min(len(starts), max(at_most, 0))

    def forgotten(chosen: "Longs") -> int:
        return total - int((ends[chosen] - starts[chosen]).sum())

    def may_stay(chosen: "Longs") -> bool:
        return fits(starts[chosen], ends[chosen], forgotten(chosen))

    # Biggest first within protected and others; of equals the lowest, which keeps the span short.
    order = np.lexsort((starts, starts - ends, ~keep_last))[:count]
    biggest = np.sort(order[: largest_fitting(count, lambda some: may_stay(np.sort(order[:some])))])
    lowest = np.arange(largest_fitting(count, lambda some: may_stay(np.arange(some))))
    best = min((biggest, lowest), key=lambda chosen: (-int(keep_last[chosen].sum()), forgotten(chosen)))
    # What is left of the space: sizes do not grow evenly, so one of the next may fit where the very next did not.
    for at in order[~np.isin(order, best)][:_SECOND_LOOKS]:
        more = np.sort(np.append(best, at))
        best = more if may_stay(more) else best
    return islands(starts[best], ends[best])


def columns(done: OffsetRanges) -> tuple["Longs", "Longs"]:
    """A set as columns of islands: first offsets, and those past the last."""
    import numpy as np

    flat = np.fromiter(chain.from_iterable(done.ranges), dtype=np.int64, count=2 * len(done.ranges))
    return flat[::2].copy(), flat[1::2].copy()


def islands(starts: "Longs", ends: "Longs") -> OffsetRanges:
    """Columns of islands as a set."""
    return OffsetRanges(tuple(zip(starts.tolist(), ends.tolist(), strict=True)))


def ranges_size(base: int, starts: "Longs", ends: "Longs") -> int:
    """How many bytes a RANGES section with these islands takes, tag and length included; 0 for none."""
    import numpy as np

    if not len(starts):
        return 0
    pending = starts - np.concatenate((np.array([base], dtype=np.int64), ends[:-1]))
    done = ends - starts
    span = int(ends[-1]) - base
    data = _varint_bytes(pending) + _varint_bytes(done)
    if data > FEW_BYTES:  # as `pack_smallest` does it
        rice = 2 + uvarint_size(2 * len(starts)) + (_rice_bits(pending) + _rice_bits(done) + 7) // 8
        data = min(data, rice, (span + 7) // 8)
    inner = uvarint_size(base) + uvarint_size(span) + 1 + data
    return 1 + uvarint_size(inner) + inner


def largest_fitting(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number for which `fits` holds, as a binary search finds it; 0 where none does."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _holding_islands(starts: "Longs", ends: "Longs", protected: OffsetRanges) -> "NDArray[np.bool_]":
    """Which islands hold a protected offset."""
    import numpy as np

    found = np.zeros(len(starts), dtype=bool)
    for start, end in protected.ranges:
        first = int(np.searchsorted(ends, start, side="right"))
        found[first : int(np.searchsorted(starts, end, side="left"))] = True
    return found


def _varint_bytes(runs: "Longs") -> int:
    total, limit = len(runs), 7
    while limit < 63 and (longer := int((runs >> limit != 0).sum())):
        total += longer
        limit += 7
    return total


def _rice_bits(runs: "Longs") -> int:
    """The bits of the best Rice codes of these runs; the same walk as `rice_parameter`'s."""

    def bits(k: int) -> int:
        return int(((runs - 1) >> k).sum()) + (k + 1) * len(runs)

    k = max(0, (int(runs.sum()) // len(runs)).bit_length() - 1)
    best = bits(k)
    while k and (lower := bits(k - 1)) <= best:
        k, best = k - 1, lower
    while k < _MAX_PARAMETER and (higher := bits(k + 1)) < best:
        k, best = k + 1, higher
    return best


PAUSE_AT = 0.6
CLOSE_HOLES_AT = 0.8


class Fill(StrEnum):
    """How full the metadata are, and what to do about it."""

    FREE = "free"
    PAUSE = "pause"
    CLOSE_HOLES = "close-holes"
    WIDEN = "widen"
    COARSEN = "coarsen"


_ADVICE = {
    Fill.FREE: "fetch and work as you like",
    Fill.PAUSE: "fetch nothing new of this partition, and continue trying what is pending",
    Fill.CLOSE_HOLES: "fetch nothing new, and move records that keep failing to the slow lane or the reject ledger",
    Fill.WIDEN: "commit in the wide alphabet, which holds two and a half times as much, and continue closing holes",
    Fill.COARSEN: "fetch nothing new: acknowledgements are being forgotten, and are delivered again after a restart",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One rung of the ladder, for a partition and its next commit.

    `should_pause` stops new fetches, `should_close_holes` sends repeat offenders elsewhere. `duplicates` are
    acknowledged records that are delivered again if the consumer stops after this commit.
    """

    step: Fill
    fill: float
    should_pause: bool
    should_close_holes: bool
    duplicates: int

    @property
    def text(self) -> str:
        """The advice in words."""
        return _ADVICE[self.step]


def advise(encoded: EncodedState, alphabets: Sequence[str] = ("b",)) -> Advice:
    """The rung that an encoding stands on, when it was made with these alphabets.

    Below 60 % of the limit: free; below 80 %: no new fetches; above: close holes too. A payload that had to widen
    is past that, however little of the wide alphabet's space it takes: the space is for what was under way already.
    """
    if encoded.fill > 1:
        step = Fill.COARSEN
    elif encoded.alphabet and encoded.alphabet != alphabets[0]:
        step = Fill.WIDEN
    elif encoded.fill >= CLOSE_HOLES_AT:
        step = Fill.CLOSE_HOLES
    else:
        step = Fill.PAUSE if encoded.fill >= PAUSE_AT else Fill.FREE
    return Advice(
        step=step,
        fill=encoded.fill,
        should_pause=step is not Fill.FREE,
        should_close_holes=step in (Fill.CLOSE_HOLES, Fill.WIDEN, Fill.COARSEN),
        duplicates=encoded.forgotten,
    )
