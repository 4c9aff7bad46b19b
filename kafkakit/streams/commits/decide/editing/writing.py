"""A state as commit metadata in the dialect that the group's clients read, or the reason why that cannot be."""

from kafkakit.core.errors import RefusedError
from kafkakit.core.quantities import counted
from kafkakit.streams.commits.decide.editing.changes import in_state
from kafkakit.streams.commits.decide.editing.observed import Observed, SeenPartition
from kafkakit.streams.model.commit import CommitState, MarkState, Reading, ranges_text
from kafkakit.streams.model.dialects.dialect import Dialect, EncodedMetadata, EncodeRequest
from kafkakit.streams.model.dialects.registry import DIALECTS, WITHOUT_METADATA, dialect_named


def dialect_for(seen: SeenPartition, observed: Observed, requested: str) -> str:
    """The dialect to write: the one asked for, else the commit's own, else the only one that the group uses.

    An offset alone is committed by clients of every dialect, so the group's other commits count.
    """
    if requested:
        return requested
    if dialect_named(seen.dialect).has_payload:
        return seen.dialect
    others = [name for name in map(dialect_named, observed.dialects) if name.has_payload and name.is_understood]
    return others[0].name if len(others) == 1 else WITHOUT_METADATA.name


def encoded(seen: SeenPartition, observed: Observed, state: CommitState, dialect: Dialect) -> EncodedMetadata:
    """The metadata for the state; raises `RefusedError` where the dialect does not hold it, or not in its limit."""
    rejected = in_state(state.marks, MarkState.REJECTED)
    if rejected and not dialect.holds_details:
        raise RefusedError(
            f"{seen.partition}: a {dialect.noun} holds no rejected offsets ({ranges_text(rejected)})",
            hint="use skip, or --dialect kkm1 when the application reads it",
        )
    if state.done and not dialect.holds_done:
        raise RefusedError(
            f"{seen.partition}: a {dialect.noun} is one offset: from {state.base} on everything would be read, "
            f"with {counted(state.done.count, 'offset')} that should stay done ({ranges_text(state.done)})",
            hint=_one_offset_hint(seen, state, dialect),
        )
    limit = min(observed.limit_chars, dialect.client_limit_chars or observed.limit_chars) - dialect.spare_chars
    found = dialect.encode(
        EncodeRequest(
            state=state,
            limit_chars=limit,
            identity=seen.identity,
            replaces=seen.committed,
            replaced=seen.reading,
        )
    )
    if not found.fits:
        raise RefusedError(
            f"{seen.partition}: as a {dialect.noun} this state has more than {limit} characters",
            hint=dialect.when_too_large,
        )
    return found


def _one_offset_hint(seen: SeenPartition, state: CommitState, dialect: Dialect) -> str:
    back = seen.committed is None or state.base < seen.committed.offset
    instead = f"commits reset --to {state.base}" if back else f"skip everything from {state.base} on"
    if not back and state.base < seen.span.start:
        instead = f"commits reset --to {seen.span.start}, where the log begins, and then skip"
    if dialect.why_one_offset:
        return f"{dialect.why_one_offset}; what it can do is: {instead}"
    words = " or ".join(other.word for other in DIALECTS if other.word and other.holds_done)
    return f"--dialect {words}, when the application reads it; or {instead}"


def losses(reading: Reading | None, state: CommitState, dialect: Dialect) -> tuple[str, ...]:
    """What the present commit holds and the dialect cannot, in words."""
    if reading is None or reading.dialect == dialect.name:
        return ()
    lost: list[str] = []
    if not dialect.holds_details:
        lost += [
            f"{ranges_text(offsets)} {_fate(kind, dialect)}"
            for kind in (MarkState.REJECTED, MarkState.SKIPPED, MarkState.RETRYING, MarkState.DEFERRED)
            if (offsets := in_state(state.marks, kind))
        ]
        parts = (
            (state.watermark, "the times of the oldest pending and the newest done record (exact time lag)"),
            (state.route, "the route epoch and segment"),
            (state.replay, "the tag of a replay's window"),
            (state.spill, "the pointer to the ledger"),
            (state.writer, "which member wrote it"),
        )
        lost += [words for value, words in parts if value is not None]
    if reading.stream_time_ms is not None:
        lost.append("the stream time of Kafka Streams")
    if reading.processor:
        lost.append(f"processor metadata of Kafka Streams ({', '.join(sorted(reading.processor))})")
    if not dialect_named(reading.dialect).is_understood:
        lost.append(f"metadata of an unknown dialect ({counted(reading.chars, 'character')})")
    return tuple(lost)


def _fate(kind: MarkState, dialect: Dialect) -> str:
    if kind.is_done and not dialect.holds_done:
        return f"is not {kind.name.lower()} any more, and will be delivered"
    if kind.is_done:
        return f"stays done, but not as {kind.name.lower()}"
    return f"stays pending, but not as {kind.name.lower()}"
