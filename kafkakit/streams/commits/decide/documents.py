"""Commits without a cluster: read from strings and JSON, and written as metadata in the form that was asked for.

The JSON is what `decode -o json` and `show -o json` print; it is read back with every rule checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InfeasibleError, InputError, UsageError
from kafkakit.streams.model.commit import (
    MAX_OFFSET,
    CommitIdentity,
    CommitState,
    StateDocument,
    amount,
    state_from,
    topic_id_bytes,
)
from kafkakit.streams.model.dialects.dialect import KAFKA_LIMIT, CommitFacts, Dialect, EncodeRequest
from kafkakit.streams.model.dialects.registry import dialect_of_form, is_dialect_name, read_metadata
from kafkakit.streams.model.kkm1.text import utf16_units

READ_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityDocument:
    """An `commit.CommitIdentity` with its topic id as text."""

    cluster_id: str
    topic_id: str
    partition: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderDocument:
    """The header of what a command printed; of a file made by hand it may be absent."""

    schema: int
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDocument:
    """One commit: its offset and what was committed with it; what `decode -o json` prints holds more, all told."""

    offset: int
    state: StateDocument
    kafkakit: HeaderDocument | None = None
    dialect: str | None = None
    identity: IdentityDocument | None = None
    topic: str | None = None
    partition: int | None = None
    stream_time_ms: int | None = None
    processor: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """What `show -o json` prints of a group, as far as a comparison needs it."""

    group: str
    cluster_id: str
    kafkakit: HeaderDocument
    commits: tuple[CommitDocument, ...]


def read_commit(data: bytes, source: str) -> CommitDocument:
    """One commit out of JSON; `InputError` names what is wrong."""
    document = decode_json(data, CommitDocument, source)
    _check_header(document.kafkakit, source)
    state_of(document, source)
    return document


def read_shown(data: bytes, source: str) -> ShownDocument:
    """A saved `show -o json`; `InputError` names what is wrong."""
    document = decode_json(data, ShownDocument, source)
    _check_header(document.kafkakit, source)
    for commit in document.commits:
        state_of(commit, f"{source}: {commit.topic}-{commit.partition}")
    return document


def identity_of(document: CommitDocument, source: str) -> CommitIdentity | None:
    """What the document says that the commit belongs to."""
    given = document.identity
    if given is None:
        return None
    _refuse_unless(0 <= given.partition < 1 << 31, source, f"{given.partition} is not a partition")
    return CommitIdentity(
        cluster_id=given.cluster_id,
        topic_id=topic_id_bytes(given.topic_id),
        partition=given.partition,
        group=given.group,
    )


def state_of(document: CommitDocument, source: str) -> CommitState:
    """The state in a document, if it makes sense: in order, within its bounds, marks in agreement with what is done."""
    given = document.state
    is_known = document.dialect is None or is_dialect_name(document.dialect)
    _refuse_unless(is_known, source, f"{document.dialect!r:.40} is not a dialect")
    _refuse_unless(0 <= given.base <= MAX_OFFSET, source, f"base {given.base} is not an offset")
    _refuse_unless(
        given.base == document.offset, source, f"the state is for base {given.base}, the commit for {document.offset}"
    )
    end = given.base
    for start, stop in given.done:
        _refuse_unless(
            end < start < stop <= MAX_OFFSET, source, f"done range [{start}, {stop}] is out of order or empty"
        )
        end = stop
    try:
        state = state_from(given)
    except ValueError as error:
        raise InputError(source, str(error)) from None
    _check_marks(state, source)
    _check_numbers(state, source)
    return state


def _check_header(header: HeaderDocument | None, source: str) -> None:
    if header is not None and header.schema != READ_SCHEMA:
        raise InputError(
            source, f"has schema {header.schema}, this kafkakit reads {READ_SCHEMA}", hint="use a newer kafkakit"
        )


def _check_marks(state: CommitState, source: str) -> None:
    end = state.base
    for mark in state.marks:
        _refuse_unless(0 <= mark.count <= 15, source, f"a mark counts {mark.count} tries: 15 stands for 15 or more")
        _refuse_unless(mark.deferred_s >= 0, source, "a mark is deferred for less than no time")
        _refuse_unless(
            end <= mark.start < mark.end <= MAX_OFFSET, source, f"mark [{mark.start}, {mark.end}] is out of order"
        )
        covered = state.done.within(mark.start, mark.end).count
        want = mark.end - mark.start if mark.state.is_done else 0
        _refuse_unless(
            covered == want,
            source,
            f"mark [{mark.start}, {mark.end}] {mark.state.name.lower()} does not agree with what is done",
        )
        end = mark.end


def _check_numbers(state: CommitState, source: str) -> None:
    numbers = {
        "forgotten": state.forgotten,
        "watermark.oldest_ms": 0 if state.watermark is None else state.watermark.oldest_ms,
        "route.epoch": 0 if state.route is None else state.route.epoch,
        "route.segment": 0 if state.route is None else state.route.segment,
        "spill.partition": 0 if state.spill is None else state.spill.partition,
        "spill.offset": 0 if state.spill is None else state.spill.offset,
        "writer.member_hash": 0 if state.writer is None else state.writer.member_hash,
        "writer.generation": 0 if state.writer is None else state.writer.generation,
        "replay.request_id": 0 if state.replay is None else state.replay.request_id,
    }
    for name, number in numbers.items():
        _refuse_unless(0 <= number <= MAX_OFFSET, source, f"{name} is {number}")
    if state.writer is not None:
        _refuse_unless(state.writer.member_hash < 1 << 32, source, "writer.member_hash has more than 32 bits")
    if state.replay is not None:
        _refuse_unless(state.base <= state.replay.start < state.replay.end, source, "the replay window is out of order")


def _refuse_unless(condition: bool, source: str, problem: str) -> None:
    if not condition:
        raise InputError(source, problem)


def text_of_stdin(data: bytes) -> str:
    """Metadata without the line end that a shell adds; bytes that are no UTF-8 are replaced."""
    return data.decode("utf-8", "replace").rstrip("\r\n")


def facts_of(
    text: str, offset: int, *, limit_chars: int | None, identity: CommitIdentity | None, at_ms: int
) -> CommitFacts:
    """What is known of metadata that was committed with `offset`; no limit given stands for Kafka's default."""
    return CommitFacts(
        offset=offset,
        metadata=text,
        reading=read_metadata(text, offset, identity),
        at_ms=at_ms,
        group=identity.group if identity else None,
        identity=identity,
        limit_chars=limit_chars or KAFKA_LIMIT,
        is_limit_known=limit_chars is not None,
    )


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
