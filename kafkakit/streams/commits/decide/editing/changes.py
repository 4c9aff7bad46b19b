"""What each verb makes of the state of one partition, and the new state as commit metadata.

A state is looked at as everything that is done from offset 0 on (`all_done`): verbs add to that set and take from it,
and the new base is its first hole. So base never passes a pending offset, whatever the verb. This arithmetic knows
nothing of metadata or clusters. A state is written in the dialect that the group's clients read, or there is a reason
why that cannot be.

`GroupObservation` is what an edit looks at before it is decided: one group, its commits, and their logs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from kafkakit.core.cluster_facts import CommittedOffset, GroupDescription, LogSpan
from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of
from kafkakit.streams.commits.decide.editing.edit import (
    Delete,
    EditRequest,
    Reject,
    Replay,
    Reset,
    ResetTarget,
    Skip,
    Translate,
    Unack,
)
from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    Reading,
    ReplayWindow,
    Watermark,
    ranges_text,
)
from kafkakit.streams.model.dialects.dialect import NUL, Dialect, EncodedMetadata, EncodeRequest
from kafkakit.streams.model.dialects.registry import DIALECTS, WITHOUT_METADATA, dialect_named


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedState:
    """A verb's answer for one partition; `may_pass` are the offsets that it was told to count as done."""

    state: CommitState
    may_pass: OffsetRanges = field(default_factory=OffsetRanges)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPartition:
    """One partition: its commit as the broker stores it (None: none), what that means, and its log.

    `offset_at` holds the first offset at or after each time in ms that was asked for (None: no such record), and
    `time_at` record times in ms by offset, as far as they were read. `is_gone`: the topic or the partition does not
    exist any more; its log is empty then.
    """

    partition: TopicPartition
    identity: CommitIdentity
    span: LogSpan
    committed: CommittedOffset | None = None
    reading: Reading | None = None
    offset_at: Mapping[int, int | None] = field(default_factory=dict)
    time_at: Mapping[int, int] = field(default_factory=dict)
    is_gone: bool = False

    @property
    def state(self) -> CommitState | None:
        """What may be relied upon; None without a commit."""
        return None if self.reading is None else self.reading.state

    @property
    def has_nul(self) -> bool:
        """The metadata ends with a NUL, which some clients add and some cannot read."""
        return self.committed is not None and self.committed.metadata.endswith(NUL)

    @property
    def dialect(self) -> str:
        """The dialect of its metadata."""
        return WITHOUT_METADATA.name if self.reading is None else self.reading.dialect


def apply_verb(seen: SeenPartition, request: EditRequest) -> WantedState:
    """Carry the verb out on the partition's state; raises `RefusedError` where it makes no sense there."""
    verb = request.verb
    if isinstance(verb, Delete):
        raise ValueError("a deletion leaves no state")
    if isinstance(verb, Reset):
        return _reset(seen, verb, request)
    state = seen.state
    if state is None:
        raise RefusedError(
            f"{seen.partition}: the group committed nothing there", hint="commits reset gives it a first offset"
        )
    if isinstance(verb, Translate):
        return WantedState(state=state)
    if isinstance(verb, Replay):
        return _replay(seen, state, verb, request)
    _check_inside(seen, verb.offsets, request)
    if isinstance(verb, Unack):
        return _unack(state, verb.offsets)
    return _finish(seen, state, verb)


def _finish(seen: SeenPartition, state: CommitState, verb: Skip | Reject) -> WantedState:
    done = all_done(state)
    acted = verb.offsets.minus(done)
    notes = []
    if idle := verb.offsets.intersection(done):
        notes.append(f"{ranges_text(idle)}: done already, nothing to do for {_pronoun(idle)}")
    if not acted:
        return WantedState(state=state, notes=tuple(notes))
    kind = MarkState.REJECTED if isinstance(verb, Reject) else MarkState.SKIPPED
    marks = mark_offsets(state.marks, acted, kind)
    held = held_back(done.union(acted), marks)
    if held.given_up is not None:
        if held.given_up < seen.span.start:
            raise RefusedError(
                f"{seen.partition}: the log has no offset before the rejected one to commit, and base may not pass it",
                hint="no ledger exists yet that would remember it: use skip",
            )
        notes.append(
            f"base stays at {held.given_up}, below a rejected offset, since no ledger records it yet: "
            f"the record at {held.given_up} will be delivered again"
        )
    after = state_of(held.done, state, marks)
    return WantedState(
        state=replace(after, forgotten=_still_forgotten(seen, state, after)), may_pass=acted, notes=tuple(notes)
    )


def _still_forgotten(seen: SeenPartition, before: CommitState, after: CommitState) -> int:
    """How many acknowledgements may still be missing: at most one for each offset above base that looks pending."""
    if not before.forgotten:
        return 0
    end = max(before.end, seen.span.end)
    unsure = OffsetRanges.of([(before.base + 1, end)]).minus(before.done).minus(all_done(after))
    return min(before.forgotten, unsure.count)


def _unack(state: CommitState, offsets: OffsetRanges) -> WantedState:
    done = all_done(state)
    acted = offsets.intersection(done)
    notes: tuple[str, ...] = ()
    if idle := offsets.minus(done):
        notes = (f"{ranges_text(idle)}: pending already, nothing to do for {_pronoun(idle)}",)
    if not acted:
        return WantedState(state=state, notes=notes)
    return WantedState(state=state_of(done.minus(acted), state, mark_offsets(state.marks, acted, None)), notes=notes)


def _replay(seen: SeenPartition, state: CommitState, verb: Replay, request: EditRequest) -> WantedState:
    window, notes = _window(seen, verb)
    if verb.offsets is not None:
        _check_inside(seen, window, request)
    done = all_done(state)
    decided = in_state(state.marks, MarkState.SKIPPED, MarkState.REJECTED).intersection(window)
    if decided:
        notes.append(f"{ranges_text(decided)}: skipped or rejected, and stays so (unack opens it)")
    acted = window.intersection(done).minus(decided)
    if not acted:
        return WantedState(state=state, notes=(*notes, "nothing in the window is done, so nothing is opened"))
    after = state_of(done.minus(acted), state, state.marks)
    start, end = window.ranges[0]
    warnings = []
    if after.replay is not None:
        still = f"{after.replay.start}-{after.replay.end - 1}"
        warnings.append(f"the window {still} of an earlier replay stays pending, but is not tagged as one any more")
    return WantedState(
        state=replace(after, replay=ReplayWindow(start=max(start, after.base), end=end, request_id=verb.request_id)),
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _window(seen: SeenPartition, verb: Replay) -> tuple[OffsetRanges, list[str]]:
    if verb.offsets is not None:
        first, last = verb.offsets.first, verb.offsets.end
        return OffsetRanges.of([(first or 0, last or 0)]), []
    first, last = seen.offset_at.get(verb.from_ms), seen.offset_at.get(verb.to_ms)
    start, end = (seen.span.end if offset is None else offset for offset in (first, last))
    notes = [
        f"the window is {ranges_text(OffsetRanges.of([(start, end)]))}"
        if start < end
        else "no record has a time in the window"
    ]
    return OffsetRanges.of([(start, end)]), notes


def _reset(seen: SeenPartition, verb: Reset, request: EditRequest) -> WantedState:
    state = seen.state
    offset, notes = _reset_target(seen, verb)
    if not seen.span.start <= offset <= seen.span.end and not request.allows.outside_log:
        target = verb.targets.get(seen.partition)
        named = f"{seen.partition}" if target is None else f"{target.where}: {seen.partition}"
        raise RefusedError(
            f"{named}: offset {offset} is outside of the log ({seen.span.start} to {seen.span.end})",
            hint="consumers would fall back to their auto.offset.reset; --allow-outside-log does it anyway",
        )
    before = state or CommitState(base=offset)
    below = OffsetRanges.of([(0, offset)])
    kept = before.done if verb.keep_done else OffsetRanges()
    if not verb.keep_done and before.done.within(offset, NO_END):
        count = before.done.within(offset, NO_END).count
        notes.append(f"{count_of(count, 'done offset')} above it will be delivered again (--keep-done keeps them)")
    after = state_of(below.union(kept), before, before.marks if verb.keep_done else ())
    after = after if verb.keep_done else replace(after, forgotten=0)
    if gone := in_state(before.marks, MarkState.REJECTED).minus(in_state(after.marks, MarkState.REJECTED)):
        notes.append(f"{ranges_text(gone)}: rejected, of which no record will remain")
    return WantedState(state=after, may_pass=OffsetRanges.of([(0, NO_END)]), notes=tuple(notes))


def _reset_target(seen: SeenPartition, verb: Reset) -> tuple[int, list[str]]:
    span, state = seen.span, seen.state
    if verb.landing is ResetTarget.EARLIEST:
        return span.start, []
    if verb.landing is ResetTarget.LATEST:
        if span.stable < span.end:
            return span.stable, [f"a transaction is open: {span.end - span.stable} newer offsets will still be read"]
        return span.end, []
    if verb.landing is ResetTarget.TIME:
        found = seen.offset_at.get(verb.value)
        return (span.stable, ["no record is that new, so it goes to the end"]) if found is None else (found, [])
    if verb.landing is ResetTarget.FILE:
        return verb.targets[seen.partition].offset, []
    if verb.landing is ResetTarget.OFFSET:
        return verb.value, []
    if state is None:
        raise RefusedError(
            f"{seen.partition}: the group has no commit to count forward or back from", hint="name an offset"
        )
    aim = state.base + verb.value
    offset = min(max(aim, span.start), span.stable)
    return offset, [] if offset == aim else [f"{aim} is outside of the log, so it stops at {offset}"]


def _check_inside(seen: SeenPartition, offsets: OffsetRanges, request: EditRequest) -> None:
    outside = offsets.minus(OffsetRanges.of([(seen.span.start, seen.span.end)]))
    if outside and not request.allows.outside_log:
        raise RefusedError(
            f"{seen.partition}: the log ({seen.span.start} to {seen.span.end}) does not hold {ranges_text(outside)}",
            hint="look at the offsets again; --allow-outside-log does it anyway",
        )


def _pronoun(offsets: OffsetRanges) -> str:
    return "it" if offsets.count == 1 else "them"


NO_END = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseChange:
    """What becomes of base where rejected offsets lie below it: `given_up` is delivered again, None for nothing."""

    done: OffsetRanges
    given_up: int | None = None


def all_done(state: CommitState) -> OffsetRanges:
    """Every done offset, those below base included."""
    return OffsetRanges.of([(0, state.base), *state.done])


def first_pending(done: OffsetRanges) -> int:
    """The first offset that is not in the set."""
    return done.ranges[0][1] if done.ranges and done.ranges[0][0] == 0 else 0


def state_of(done: OffsetRanges, before: CommitState, marks: Iterable[Mark]) -> CommitState:
    """The state with just these offsets done, and of `marks` what agrees with them.

    Route, what is still pending of a replay and the count of what was forgotten are carried over; the watermark only
    where base stays, and the newest done record does. Writer and spill are left out: no member wrote this, and the
    ledger holds the state before it.
    """
    base = first_pending(done)
    above = done.within(base, NO_END)
    is_dated = base == before.base and (above.end or base) >= before.end
    return CommitState(
        base=base,
        done=above,
        watermark=before.watermark if is_dated else None,
        route=before.route,
        marks=fit_marks(marks, base, above),
        replay=open_part(before.replay, base, above),
        forgotten=before.forgotten,
    )


def open_part(window: ReplayWindow | None, base: int, done: OffsetRanges) -> ReplayWindow | None:
    """A replay's window from base on, None when nothing of it is pending."""
    if window is None:
        return None
    start = max(window.start, base)
    if start >= window.end or not done.gaps(start, window.end):
        return None
    return replace(window, start=start)


def fit_marks(marks: Iterable[Mark], base: int, done: OffsetRanges) -> tuple[Mark, ...]:
    """What of the marks lies at or above base and agrees with the done set, joined where neighbours are alike."""
    listed = sorted(marks, key=_start)
    end = max((mark.end for mark in listed), default=base)
    closed = [mark for mark in listed if mark.state.is_done]
    waiting = [mark for mark in listed if not mark.state.is_done]
    return _join_marks(
        [*_cut_marks(closed, done.within(base, end)), *_cut_marks(waiting, done.gaps(base, max(base, end)))]
    )


def mark_offsets(marks: Iterable[Mark], offsets: OffsetRanges, state: MarkState | None) -> tuple[Mark, ...]:
    """The marks with these offsets in another state; None takes their marks away."""
    listed = sorted(marks, key=_start)
    end = max((mark.end for mark in listed), default=0)
    kept = _cut_marks(listed, offsets.gaps(0, end))
    if state is not None:
        kept += [Mark(start=start, end=end, state=state) for start, end in offsets]
    return _join_marks(kept)


def in_state(marks: Iterable[Mark], *states: MarkState) -> OffsetRanges:
    """The offsets that are in one of these states."""
    return OffsetRanges.of((mark.start, mark.end) for mark in marks if mark.state in states)


def held_back(done: OffsetRanges, marks: Iterable[Mark]) -> BaseChange:
    """Keep base below the first rejected offset: without a ledger nothing else remembers it.

    A payload's base is pending, so the offset before it has to be: the nearest one that was neither rejected nor
    skipped is taken out of the done set, and will be delivered once more. `given_up` is -1 where there is none.
    """
    listed = tuple(marks)
    base = first_pending(done)
    rejected = in_state(listed, MarkState.REJECTED).within(0, base)
    if rejected.first is None:
        return BaseChange(done=done)
    decided = in_state(listed, MarkState.REJECTED, MarkState.SKIPPED)
    candidate = rejected.first - 1
    while candidate in decided:
        candidate = next(start for start, end in decided if start <= candidate < end) - 1
    if candidate < 0:
        return BaseChange(done=done, given_up=-1)
    return BaseChange(done=done.minus(OffsetRanges.of([(candidate, candidate + 1)])), given_up=candidate)


def redate(state: CommitState, before: CommitState, watermark: Watermark | None) -> CommitState:
    """The state with another watermark; deferrals, which count from its oldest record, keep their time.

    A deferral without a watermark on both sides has no time any more: its mark is dropped, the record is delivered
    sooner.
    """
    old = before.watermark
    if old is not None and watermark is not None:
        shift_s = -(-(old.oldest_ms - watermark.oldest_ms) // 1000)
        marks = tuple(
            replace(mark, deferred_s=max(0, mark.deferred_s + shift_s)) if mark.state is MarkState.DEFERRED else mark
            for mark in state.marks
        )
    else:
        marks = tuple(mark for mark in state.marks if mark.state is not MarkState.DEFERRED)
    return replace(state, watermark=watermark, marks=marks)


def _cut_marks(marks: Iterable[Mark], allowed: OffsetRanges) -> list[Mark]:
    """The parts of sorted, disjoint marks that lie in a set; costs the sum of both."""
    parts: list[Mark] = []
    ranges, at = allowed.ranges, 0
    for mark in marks:
        while at < len(ranges) and ranges[at][1] <= mark.start:
            at += 1
        look = at
        while look < len(ranges) and ranges[look][0] < mark.end:
            start, end = max(mark.start, ranges[look][0]), min(mark.end, ranges[look][1])
            parts.append(replace(mark, start=start, end=end))
            look += 1
    return parts


def _start(mark: Mark) -> int:
    return mark.start


def _join_marks(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    joined: list[Mark] = []
    for mark in sorted(marks, key=_start):
        last = joined[-1] if joined else None
        if last is not None and last.end == mark.start and replace(last, start=mark.start, end=mark.end) == mark:
            joined[-1] = replace(last, end=mark.end)
        else:
            joined.append(mark)
    return tuple(joined)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservation:
    """One group at `taken_at`. `dialects` are those of all its commits; `limit_chars` is what the brokers accept.

    `shared` counts the partitions that a share group has state for.
    """

    cluster_id: str
    taken_at: datetime
    group: GroupDescription
    partitions: tuple[SeenPartition, ...]
    dialects: frozenset[str]
    limit_chars: int
    shared: int = 0

    def with_times(self, times: Mapping[TopicPartition, Mapping[int, int]]) -> "GroupObservation":
        """Add the record times of more offsets."""
        reported = tuple(
            replace(seen, time_at={**seen.time_at, **times.get(seen.partition, {})}) for seen in self.partitions
        )
        return replace(self, partitions=reported)


def dialect_for(seen: SeenPartition, observed: GroupObservation, requested: str) -> str:
    """The dialect to write: the one asked for, else the commit's own, else the only one that the group uses.

    An offset alone is committed by clients of every dialect, so the group's other commits count.
    """
    if requested:
        return requested
    if dialect_named(seen.dialect).has_payload:
        return seen.dialect
    others = [name for name in map(dialect_named, observed.dialects) if name.has_payload and name.is_understood]
    return others[0].name if len(others) == 1 else WITHOUT_METADATA.name


def encode_state(
    seen: SeenPartition, observed: GroupObservation, state: CommitState, dialect: Dialect
) -> EncodedMetadata:
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
            f"with {count_of(state.done.count, 'offset')} that should stay done ({ranges_text(state.done)})",
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
        instead = f"commits reset --to {seen.span.start} (the log's start), and then skip"
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
            f"{ranges_text(offsets)} {_fate_text(kind, dialect)}"
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
        lost.append(f"metadata of an unknown dialect ({count_of(reading.chars, 'character')})")
    return tuple(lost)


def _fate_text(kind: MarkState, dialect: Dialect) -> str:
    if kind.is_done and not dialect.holds_done:
        return f"is not {kind.name.lower()} any more, and will be delivered"
    if kind.is_done:
        return f"stays done, but not as {kind.name.lower()}"
    return f"stays pending, but not as {kind.name.lower()}"
