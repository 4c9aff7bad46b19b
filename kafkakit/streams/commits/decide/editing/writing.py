"""A state as commit metadata in the dialect that the group's clients read, or the reason why that cannot be."""

from dataclasses import dataclass

from kafkakit.core.errors import RefusedError
from kafkakit.core.quantities import counted
from kafkakit.streams.commits.decide.editing.changes import in_state
from kafkakit.streams.commits.decide.editing.observed import Observed, SeenPartition
from kafkakit.streams.formats.commit import CommitState, Dialect, MarkState, Reading
from kafkakit.streams.formats.dialects.parallel_consumer_write import CLIENT_LIMIT_CHARS, write_parallel_consumer
from kafkakit.streams.formats.kkm1.encode import encode_commit
from kafkakit.streams.formats.printable import ranges_text

PC_BLOCKS_ABOVE = 3072  # parallel-consumer takes no new records once its map is larger


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Metadata to commit, and what there is to say of it.

    `forgotten` acknowledgements and the sections `left_out` did not fit.
    """

    metadata: str
    forgotten: int = 0
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def dialect_for(seen: SeenPartition, observed: Observed, asked: Dialect | None) -> Dialect:
    """The dialect to write: the one asked for, else the commit's own, else the only one that the group uses.

    "" is written by clients of every dialect that have nothing to say, so the group's other commits count.
    """
    if asked is not None:
        return asked
    if seen.dialect is not Dialect.PLAIN:
        return seen.dialect
    others = observed.dialects - {Dialect.PLAIN, Dialect.OPAQUE}
    return next(iter(others)) if len(others) == 1 else Dialect.PLAIN


def written(seen: SeenPartition, observed: Observed, state: CommitState, dialect: Dialect) -> Written:
    """Encode the state; raises `RefusedError` where the dialect cannot say it."""
    if dialect is Dialect.KKM1:
        return _kkm1(seen, observed, state)
    if dialect is Dialect.PARALLEL_CONSUMER:
        return _parallel_consumer(seen, observed, state)
    return _without_payload(seen, state, dialect)


def _kkm1(seen: SeenPartition, observed: Observed, state: CommitState) -> Written:
    # One short of the limit: librdkafka's clients add a NUL when they write the same again.
    wide = seen.reading is not None and seen.reading.alphabet == "w"
    encoded = encode_commit(
        state,
        seen.identity,
        limit_chars=observed.limit_chars - 1,
        alphabets=("b", "w") if wide else ("b",),
    )
    left_out = [counted(encoded.lost_marks, "mark")] if encoded.lost_marks else []
    return Written(
        metadata=encoded.text,
        forgotten=encoded.forgotten,
        left_out=(*left_out, *encoded.left_out),
    )


def _parallel_consumer(seen: SeenPartition, observed: Observed, state: CommitState) -> Written:
    if rejected := in_state(state.marks, MarkState.REJECTED):
        raise RefusedError(
            f"{seen.partition}: parallel-consumer's map has no rejected offsets ({ranges_text(rejected)})",
            hint="use skip, or --dialect kkm1 when the application reads it",
        )
    limit = min(CLIENT_LIMIT_CHARS, observed.limit_chars)
    metadata = write_parallel_consumer(state, limit_chars=limit)
    if metadata is None:
        raise RefusedError(
            f"{seen.partition}: as a map of parallel-consumer this state has more than {limit} characters",
            hint="that client would drop the whole map; translate --to plain forgets it knowingly",
        )
    warnings: tuple[str, ...] = ()
    if len(metadata) > PC_BLOCKS_ABOVE:
        warnings = (f"the map has {len(metadata)} characters: above {PC_BLOCKS_ABOVE} it takes no new records",)
    return Written(metadata=metadata, warnings=warnings)


def _without_payload(seen: SeenPartition, state: CommitState, dialect: Dialect) -> Written:
    """An offset alone. Kafka Streams keeps its metadata when it only goes forward: the time in it still holds."""
    if rejected := in_state(state.marks, MarkState.REJECTED):
        raise RefusedError(
            f"{seen.partition}: a {dialect} commit has no place for rejected offsets ({ranges_text(rejected)})",
            hint="use skip, or --dialect kkm1 when the application reads it",
        )
    if state.done:
        raise RefusedError(
            f"{seen.partition}: a {dialect} commit is one offset: from {state.base} on everything would be read, "
            f"with {counted(state.done.count, 'offset')} that should stay done ({ranges_text(state.done)})",
            hint=_without_payload_hint(seen, state, dialect),
        )
    if dialect is Dialect.PLAIN or seen.committed is None:
        return Written(metadata="")
    if dialect is Dialect.KAFKA_STREAMS and state.base >= seen.committed.offset:
        return Written(metadata=seen.committed.metadata)
    return Written(metadata="", notes=(f"its {dialect} metadata is dropped: it does not fit another offset",))


def _without_payload_hint(seen: SeenPartition, state: CommitState, dialect: Dialect) -> str:
    back = seen.committed is None or state.base < seen.committed.offset
    instead = f"commits reset --to {state.base}" if back else f"skip everything from {state.base} on"
    if not back and state.base < seen.span.start:
        instead = f"commits reset --to {seen.span.start}, where the log begins, and then skip"
    if dialect is Dialect.KAFKA_STREAMS:
        return f"Kafka Streams tracks one offset; what it can do is: {instead}"
    return f"--dialect kkm1 or pc, when the application reads it; or {instead}"


def losses(reading: Reading | None, state: CommitState, dialect: Dialect) -> tuple[str, ...]:
    """What the present commit says and the dialect cannot, in words."""
    if reading is None or reading.dialect is dialect:
        return ()
    lost: list[str] = []
    if dialect is not Dialect.KKM1:
        lost += [
            f"{ranges_text(offsets)} {_fate(kind, dialect)}"
            for kind in (MarkState.REJECTED, MarkState.SKIPPED, MarkState.RETRYING, MarkState.DEFERRED)
            if (offsets := in_state(state.marks, kind))
        ]
        said = (
            (state.watermark, "the times of the oldest pending and the newest done record (exact time lag)"),
            (state.route, "the route epoch and segment"),
            (state.replay, "the tag of a replay's window"),
            (state.spill, "the pointer to the ledger"),
            (state.writer, "which member wrote it"),
        )
        lost += [words for value, words in said if value is not None]
    if reading.stream_time_ms is not None:
        lost.append("the stream time of Kafka Streams")
    if reading.processor:
        lost.append(f"processor metadata of Kafka Streams ({', '.join(sorted(reading.processor))})")
    if reading.dialect is Dialect.OPAQUE:
        lost.append(f"metadata that nobody here knows ({counted(reading.chars, 'character')})")
    return tuple(lost)


def _fate(kind: MarkState, dialect: Dialect) -> str:
    if dialect is Dialect.PLAIN and kind.is_done:
        return f"is not {kind.name.lower()} any more, and will be delivered"
    if kind.is_done:
        return f"stays done, but not as {kind.name.lower()}"
    return f"stays pending, but not as {kind.name.lower()}"
