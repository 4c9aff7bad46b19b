"""The forms that a payload can take: bytes in the alphabets `b` and `w`, and JSON."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from kafkakit.streams.formats.commit import CommitState
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.coarsen import islands, ranges_size
from kafkakit.streams.formats.kkm1.compress import MIN_BODY, compressed
from kafkakit.streams.formats.kkm1.envelope import HEADER_BYTES, MAX_BODY_BYTES, Flag, seal
from kafkakit.streams.formats.kkm1.json_text import flags_of, to_json
from kafkakit.streams.formats.kkm1.packing import Packed, pack_bitmap, pack_runs, pack_smallest, runs_of
from kafkakit.streams.formats.kkm1.sections import base_section, body_of, forgotten_section, state_sections
from kafkakit.streams.formats.kkm1.text import MAX_CHARS, Alphabet, chars_of, to_text
from kafkakit.streams.formats.kkm1.writable import without_contradictions

if TYPE_CHECKING:
    from kafkakit.streams.formats.kkm1.coarsen import Longs

# Characters of a payload with these islands, as first and past-the-last offsets, and so many acknowledgements missing.
Measure = Callable[["Longs", "Longs", int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A state written down; `encoding` is "" where its done set is empty or stands as text."""

    text: str
    encoding: str
    raw_bytes: int
    is_compressed: bool


class Form(Protocol):
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


@dataclass(frozen=True, slots=True)
class BinaryForm:
    """Payloads of bytes: the smallest packing, or zstd where that is smaller still."""

    alphabet: Alphabet
    identity: CommitIdentity

    @property
    def most_chars(self) -> int:
        """See `Form`."""
        # Wide text may be read back with one zero byte more, which has to fit the reader's limit too.
        return chars_of(self.alphabet, HEADER_BYTES + MAX_BODY_BYTES - 1)

    def render(self, state: CommitState, limit_chars: int) -> Payload | None:
        """See `Form`. Cost: the runs, and compressing at most 64 KiB twice."""
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
            frame = compressed(body_of(state, packed), None if best is None else len(best))
            if frame is not None:
                best, flag, encoding = frame, Flag.ZSTD, packed.encoding.word
        if best is None:
            return None
        raw = seal(self.identity, flags_of(state) | flag, best)
        text = to_text(self.alphabet, raw)
        return Payload(text=text, encoding=encoding, raw_bytes=len(raw), is_compressed=bool(flag))

    def measure(self, state: CommitState) -> Measure:
        """See `Form`. Cost of each call: a few passes over the islands."""
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
        """See `Form`."""
        return Alphabet.JSON

    @property
    def most_chars(self) -> int:
        """See `Form`."""
        return MAX_CHARS

    def render(self, state: CommitState, limit_chars: int) -> Payload | None:
        """See `Form`."""
        if 4 * len(state.done.ranges) > limit_chars:
            return None
        text = to_json(state, self.identity)
        return Payload(text=text, encoding="", raw_bytes=len(text), is_compressed=False)

    def measure(self, state: CommitState) -> Measure:
        """See `Form`. Cost of each call: writing the text."""

        def chars(starts: "Longs", ends: "Longs", missing: int) -> int:
            done = islands(starts, ends)
            marks = without_contradictions(state.marks, done)
            part = replace(state, done=done, marks=marks, forgotten=state.forgotten + missing)
            return len(to_json(part, self.identity))

        return chars


def form_of(alphabet: Alphabet, identity: CommitIdentity) -> Form:
    """The form of an alphabet."""
    return JsonForm(identity) if alphabet is Alphabet.JSON else BinaryForm(alphabet, identity)


def _compressible(runs: list[int]) -> Iterator[Packed]:
    """The packings that zstd may shorten: a bitmap, and runs; Rice codes have no pattern left that it could see."""
    if runs and sum(runs) <= 8 * MAX_BODY_BYTES:
        yield pack_bitmap(runs)
    if runs and len(runs) <= MAX_BODY_BYTES:
        yield pack_runs(runs)
