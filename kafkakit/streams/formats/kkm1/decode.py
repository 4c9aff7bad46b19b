"""Reading a KKM1 payload: any text, never an error, and never more done than its writer said."""

from dataclasses import dataclass

from kafkakit.streams.formats.commit import CommitState, Problem, Reading
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.envelope import BIND_BYTES, Flag, UnknownVersionError, bind_of, unseal
from kafkakit.streams.formats.kkm1.json_text import flags_of, from_json
from kafkakit.streams.formats.kkm1.parse import Parsed, UnknownSectionError, parse
from kafkakit.streams.formats.kkm1.text import MARK, MAX_CHARS, Alphabet, BadTextError, from_text, utf16_units
from kafkakit.streams.formats.kkm1.varint import BadBodyError, TooLargeError

NAME = "kkm1"
"""The dialect's name."""
_PROBLEMS: dict[type[ValueError], Problem] = {
    BadTextError: Problem.BAD_TEXT,
    BadBodyError: Problem.BAD_BODY,
    UnknownVersionError: Problem.UNKNOWN_VERSION,
    UnknownSectionError: Problem.UNKNOWN_SECTION,
    TooLargeError: Problem.TOO_LARGE,
}
_FOREIGN = "its checksum is not that of this cluster, topic, partition and group: it was copied, or damaged"
_ALPHABETS = frozenset(alphabet.value for alphabet in Alphabet)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPayload:
    """A text taken apart as far as the bind: what to check it with, and how to read on."""

    alphabet: Alphabet
    raw_bytes: int
    bind: int
    signed: bytes
    flags: int
    parsed: Parsed | ValueError

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
    problem: Problem | None = None
    if not isinstance(parsed, Parsed):
        problem, reason = _PROBLEMS[type(parsed)], str(parsed)
    else:
        state, reason = parsed.state, "; ".join(parsed.ignored)
        encoding = parsed.encoding.word if parsed.encoding is not None else ""
        if state.base != offset:
            problem = Problem.BASE_MISMATCH
            reason = f"it was written for offset {state.base}, and committed with {offset}"
            state, claimed = empty, state
    if is_bound is False:
        problem, reason, state = Problem.FOREIGN, _FOREIGN, empty
        claimed = parsed.state if isinstance(parsed, Parsed) else None
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
        return _opened(text, offset)
    except tuple(_PROBLEMS) as error:
        return error


def _opened(text: str, offset: int) -> OpenedPayload:
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
            parsed=Parsed(state=payload.state, encoding=None),
        )
    envelope = unseal(from_text(alphabet, text[2:]))
    parsed: Parsed | ValueError
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
