"""From a commit as JSON to the metadata that holds it, in the form that was asked for."""

from dataclasses import dataclass

from kafkakit.core.errors import InfeasibleError, InputError, UsageError
from kafkakit.streams.commits.decide.document import CommitDocument, identity_of, state_of
from kafkakit.streams.model.commit import CommitIdentity, CommitState, amount
from kafkakit.streams.model.dialects.dialect import Dialect, EncodeRequest
from kafkakit.streams.model.dialects.registry import dialect_of_form
from kafkakit.streams.model.kkm1.text import utf16_units


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedCommit:
    """Metadata to commit with `offset`; `forgotten` acknowledgements did not fit, `left_out` has no place in it."""

    metadata: str
    offset: int
    form: str
    chars: int
    limit_chars: int
    forgotten: int = 0
    left_out: tuple[str, ...] = ()


def encode_document(
    document: CommitDocument, form: str, *, identity: CommitIdentity | None, limit_chars: int, source: str
) -> EncodedCommit:
    """Write a document's state; an identity given beside it takes precedence over the document's own.

    Raises `UsageError` where a part is missing that the form needs, `InfeasibleError` where nothing fits the limit.
    """
    state, dialect = state_of(document, source), dialect_of_form(form)
    owner = identity or identity_of(document, source)
    if owner is None and dialect.is_bound:
        raise UsageError(
            f"a {dialect.noun} is bound to a cluster, topic, partition and group, and none is given",
            hint="give --cluster-id, --topic-id, --partition and --group, or put them into the JSON",
        )
    request = EncodeRequest(
        state=state,
        limit_chars=limit_chars,
        identity=owner,
        form=form,
        stream_time_ms=document.stream_time_ms,
        processor=document.processor,
    )
    try:
        encoded = dialect.encode(request)
    except ValueError as error:
        raise InputError(source, str(error)) from None
    chars = utf16_units(encoded.text)
    if not encoded.fits or chars > limit_chars:
        raise InfeasibleError(
            f"no {dialect.noun} holds this state in {limit_chars} characters",
            hint="raise --limit, or complete pending records first",
        )
    return EncodedCommit(
        metadata=encoded.text,
        offset=document.offset,
        form=form,
        chars=chars,
        limit_chars=limit_chars,
        forgotten=encoded.forgotten,
        left_out=(*_without_place(state, dialect), *encoded.left_out),
    )


def _without_place(state: CommitState, dialect: Dialect) -> list[str]:
    """The parts of the state that the dialect never holds."""
    done = [amount(state.done.count, "done offset")] if state.done and not dialect.holds_done else []
    if dialect.holds_details:
        return done
    parts = {
        "marks": state.marks,
        "watermark": state.watermark,
        "route": state.route,
        "spill": state.spill,
        "writer": state.writer,
        "replay": state.replay,
    }
    return [*done, *(name for name, value in parts.items() if value)]
