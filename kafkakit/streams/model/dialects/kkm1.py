"""The dialect of kafkakit's own client: everything that a `CommitState` holds, bound to one commit."""

from dataclasses import replace

from kafkakit.streams.model.commit import PayloadProblem, Reading, amount
from kafkakit.streams.model.dialects.dialect import (
    Binding,
    CommitFacts,
    Dialect,
    EncodedMetadata,
    EncodeRequest,
    MetadataText,
)
from kafkakit.streams.model.kkm1.decode import NAME, OpenedPayload, open_text, read_kkm1
from kafkakit.streams.model.kkm1.encode import CLOSE_HOLES_AT, encode_commit
from kafkakit.streams.model.kkm1.text import MARK, Alphabet


def _read(source: MetadataText, data: bytes) -> Reading:
    del data
    return replace(read_kkm1(source.text, source.offset, source.identity), chars=source.chars)


def _write(request: EncodeRequest) -> EncodedMetadata:
    """In the alphabet that is asked for; without one in base64, and in the wider one where the group uses that."""
    if request.identity is None:
        raise ValueError("KKM1 is bound to an identity")
    alphabets = (request.form,) if request.form else _alphabets_like(request.replaced)
    encoded = encode_commit(request.state, request.identity, limit_chars=request.limit_chars, alphabets=alphabets)
    lost = (amount(encoded.lost_marks, "mark"),) if encoded.lost_marks else ()
    return EncodedMetadata(
        text=encoded.text,
        fits=bool(encoded.text) or not request.form,
        forgotten=encoded.forgotten,
        left_out=(*lost, *encoded.left_out),
    )


def _alphabets_like(replaced: Reading | None) -> tuple[str, ...]:
    is_wide = replaced is not None and replaced.alphabet == Alphabet.WIDE
    return (Alphabet.BASE64.value, Alphabet.WIDE.value) if is_wide else (Alphabet.BASE64.value,)


def _read_binding(text: str) -> Binding | None:
    opened = open_text(text)
    return Binding(checksum=opened.bind, signed=opened.signed) if isinstance(opened, OpenedPayload) else None


def _effect_of_size(facts: CommitFacts) -> str:
    return (
        "; its writer gets rid of repeat offenders" if facts.fill >= CLOSE_HOLES_AT else "; its writer fetches no more"
    )


KKM1 = Dialect(
    name=NAME,
    mark=MARK,
    decode=_read,
    encode=_write,
    word="kkm1",
    forms=tuple(alphabet.value for alphabet in Alphabet),
    about_forms="b, w or j for kafkakit's own in that alphabet",
    spare_chars=1,  # for the NUL, which librdkafka's clients add when they write the same again
    ends_with_nul=True,
    reader="kafkakit's client",
    noun="KKM1 payload",
    holds_done=True,
    holds_details=True,
    newer_problems=frozenset({PayloadProblem.UNKNOWN_VERSION, PayloadProblem.UNKNOWN_SECTION}),
    find_binding=_read_binding,
    effect_of_size=_effect_of_size,
)
