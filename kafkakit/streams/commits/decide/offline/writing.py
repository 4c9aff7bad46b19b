"""From a commit as JSON to the metadata that says so, in the dialect that was asked for."""

from dataclasses import dataclass

from kafkakit.core.errors import InfeasibleError, InputError, UsageError
from kafkakit.streams.commits.decide.document import CommitDocument, identity_of, state_of
from kafkakit.streams.commits.decide.offline.form import Form
from kafkakit.streams.formats.commit import CommitState
from kafkakit.streams.formats.dialects.kafka_streams import write_kafka_streams
from kafkakit.streams.formats.dialects.parallel_consumer_write import write_parallel_consumer
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.encode import encode_commit
from kafkakit.streams.formats.kkm1.text import utf16_units


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Metadata to commit with `offset`; `forgotten` acknowledgements did not fit, `left_out` could not be said."""

    metadata: str
    offset: int
    form: Form
    chars: int
    limit_chars: int
    forgotten: int = 0
    left_out: tuple[str, ...] = ()


def write(
    document: CommitDocument, form: Form, *, identity: CommitIdentity | None, limit_chars: int, source: str
) -> Written:
    """Write a document's state; an identity given beside it goes before the document's own.

    Raises `UsageError` where a part is missing that the form needs, `InfeasibleError` where nothing fits the limit.
    """
    state = state_of(document, source)
    if form is Form.STREAMS:
        metadata = write_kafka_streams(document.stream_time_ms, document.processor)
        return _written(metadata, document, form, limit_chars, left_out=_beside_offset(state))
    if form is Form.PC:
        text = write_parallel_consumer(state, limit_chars=limit_chars)
        if text is None:
            raise InfeasibleError(
                f"no map of parallel-consumer holds this state in {limit_chars} characters",
                hint="raise --limit, or close holes first",
            )
        return _written(text, document, form, limit_chars, left_out=_beside_done(state))
    owner = identity or identity_of(document, source)
    if owner is None:
        raise UsageError(
            "KKM1 is bound to a cluster, topic, partition and group, and none is given",
            hint="give --cluster-id, --topic-id, --partition and --group, or put them into the JSON",
        )
    try:
        encoded = encode_commit(state, owner, limit_chars=limit_chars, alphabets=(form.value,))
    except ValueError as error:
        raise InputError(source, str(error)) from None
    if not encoded.text:
        raise InfeasibleError(f"not even an empty payload fits into {limit_chars} characters", hint="raise --limit")
    lost = (f"{encoded.lost_marks:,} marks",) if encoded.lost_marks else ()
    return _written(
        encoded.text, document, form, limit_chars, forgotten=encoded.forgotten, left_out=(*lost, *encoded.left_out)
    )


def _written(
    metadata: str,
    document: CommitDocument,
    form: Form,
    limit_chars: int,
    *,
    forgotten: int = 0,
    left_out: tuple[str, ...] = (),
) -> Written:
    chars = utf16_units(metadata)
    if chars > limit_chars:
        raise InfeasibleError(f"{chars} characters do not fit into {limit_chars}", hint="raise --limit")
    return Written(
        metadata=metadata,
        offset=document.offset,
        form=form,
        chars=chars,
        limit_chars=limit_chars,
        forgotten=forgotten,
        left_out=left_out,
    )


def _beside_offset(state: CommitState) -> tuple[str, ...]:
    done = (f"{state.done.count:,} done offsets",) if state.done else ()
    return (*done, *_beside_done(state))


def _beside_done(state: CommitState) -> tuple[str, ...]:
    """What only KKM1 says."""
    parts = {
        "marks": state.marks,
        "watermark": state.watermark,
        "route": state.route,
        "spill": state.spill,
        "writer": state.writer,
        "replay": state.replay,
    }
    return tuple(name for name, value in parts.items() if value)
