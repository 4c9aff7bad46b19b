"""Writing a KKM1 payload that fits: exact where it can be, otherwise coarsened, and never with more done than is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kafkakit.streams.formats.commit import CommitState, Mark, MarkState
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.coarsen import coarsen, columns, most
from kafkakit.streams.formats.kkm1.forms import Form, Payload, form_of
from kafkakit.streams.formats.kkm1.sections import disposition
from kafkakit.streams.formats.kkm1.text import Alphabet
from kafkakit.streams.formats.kkm1.writable import without_contradictions, writable
from kafkakit.streams.formats.offset_ranges import OffsetRanges

# Marks get a byte for so many characters of a payload that overflows, about a quarter of it in base64, so that they
# never crowd out what is done.
_CHARS_TO_A_BYTE_OF_MARKS = 5
# Trials after the sizes have spoken, and the part of the limit above which none is worth its time.
_TRIALS = 6
_FULL_ENOUGH = 0.95
_NEED = {MarkState.REJECTED: 0, MarkState.RETRYING: 1, MarkState.DEFERRED: 2, MarkState.SKIPPED: 3}
_OPTIONAL = ("replay", "writer", "route", "watermark", "spill", "forgotten")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
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
) -> Encoded:
    """The metadata for a commit of `state.base`, at most `limit_chars` long.

    The first alphabet whose exact payload fits is taken; where none fits, the state is coarsened in the last one.
    Raises `ValueError` for a state that cannot be (see `writable`) or an alphabet that is not known. Cost: the runs;
    coarsening sorts them once.
    """
    state = writable(state)
    forms = [form_of(Alphabet(letter), identity) for letter in alphabets]
    if not forms:
        raise ValueError("no alphabet is given")
    for form in forms:
        limit = min(limit_chars, form.most_chars)
        payload = form.render(state, limit)
        if payload is not None and len(payload.text) <= limit:
            return _encoded(form.alphabet, payload, state, state, len(payload.text) / limit)
    starts, ends = columns(state.done)
    needed = len(payload.text) if payload is not None else form.measure(state)(starts, ends, 0)
    fill = needed / max(limit, 1)
    for rung in _rungs(state, limit):
        kept = _coarsened(rung, form, limit)
        payload = form.render(kept, limit) if kept is not None else None
        if kept is not None and payload is not None and len(payload.text) <= limit:
            kept, payload = _tightened(rung, form, limit, kept, payload)
            return _encoded(form.alphabet, payload, state, kept, fill)
    nothing = Payload(text="", encoding="", raw_bytes=0, is_compressed=False)
    return _encoded(form.alphabet, nothing, state, CommitState(base=state.base), fill)


def _encoded(alphabet: Alphabet, payload: Payload, state: CommitState, written: CommitState, fill: float) -> Encoded:
    return Encoded(
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

    count = most(len(marks), lambda some: len(disposition(state.base, first(some))) <= limit_bytes)
    lost = OffsetRanges.of((mark.start, mark.end) for mark in by_need[count:] if mark.state is MarkState.REJECTED)
    done = state.done.minus(lost)
    return replace(
        state,
        marks=tuple(first(count)),
        done=done,
        forgotten=state.forgotten + state.done.count - done.count,
    )


def _tightened(
    state: CommitState, form: Form, limit_chars: int, kept: CommitState, payload: Payload
) -> tuple[CommitState, Payload]:
    """More islands where compression made space for them, which sizes cannot foresee; found by a few trials."""
    allowed, refused = limit_chars, 0
    for _ in range(_TRIALS):
        if not payload.is_compressed or len(payload.text) > limit_chars * _FULL_ENOUGH:
            break
        trial = (allowed + refused) // 2 if refused else allowed * limit_chars // len(payload.text)
        more = _coarsened(state, form, trial)
        text = form.render(more, limit_chars) if more is not None else None
        if more is None or text is None or len(text.text) > limit_chars or more.done.count < kept.done.count:
            refused = trial
        else:
            allowed, kept, payload = trial, more, text
    return kept, payload


def _coarsened(state: CommitState, form: Form, limit_chars: int) -> CommitState | None:
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
