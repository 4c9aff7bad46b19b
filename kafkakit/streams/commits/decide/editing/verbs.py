"""What each verb asks of one partition: the new state, what was meant to change, and what there is to say of it."""

from dataclasses import dataclass, field, replace

from kafkakit.core.errors import RefusedError
from kafkakit.core.quantities import counted
from kafkakit.streams.commits.decide.editing.changes import NO_END, all_done, held_back, in_state, marked, state_of
from kafkakit.streams.commits.decide.editing.observed import SeenPartition
from kafkakit.streams.commits.decide.editing.request import (
    Delete,
    EditRequest,
    Landing,
    Reject,
    Replay,
    Reset,
    Skip,
    Translate,
    Unack,
)
from kafkakit.streams.model.commit import CommitState, MarkState, OffsetRanges, ReplayWindow, ranges_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A verb's answer for one partition; `may_pass` are the offsets that it was told to count as done."""

    state: CommitState
    may_pass: OffsetRanges = field(default_factory=OffsetRanges)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def wanted(seen: SeenPartition, request: EditRequest) -> Wanted:
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
        return Wanted(state=state)
    if isinstance(verb, Replay):
        return _replay(seen, state, verb, request)
    _check_inside(seen, verb.offsets, request)
    if isinstance(verb, Unack):
        return _unack(state, verb.offsets)
    return _finish(seen, state, verb)


def _finish(seen: SeenPartition, state: CommitState, verb: Skip | Reject) -> Wanted:
    done = all_done(state)
    acted = verb.offsets.minus(done)
    notes = []
    if idle := verb.offsets.intersection(done):
        notes.append(f"{ranges_text(idle)}: done already, nothing to do for {_them(idle)}")
    if not acted:
        return Wanted(state=state, notes=tuple(notes))
    kind = MarkState.REJECTED if isinstance(verb, Reject) else MarkState.SKIPPED
    marks = marked(state.marks, acted, kind)
    held = held_back(done.union(acted), marks)
    if held.given_up is not None:
        if held.given_up < seen.span.start:
            raise RefusedError(
                f"{seen.partition}: the log has no offset before the rejected one to commit, and base may not pass it",
                hint="there is no ledger yet that would remember it: use skip",
            )
        notes.append(
            f"base stays at {held.given_up}, below a rejected offset, since no ledger records it yet: "
            f"the record at {held.given_up} will be delivered again"
        )
    return Wanted(state=state_of(held.done, state, marks), may_pass=acted, notes=tuple(notes))


def _unack(state: CommitState, offsets: OffsetRanges) -> Wanted:
    done = all_done(state)
    acted = offsets.intersection(done)
    notes: tuple[str, ...] = ()
    if idle := offsets.minus(done):
        notes = (f"{ranges_text(idle)}: pending already, nothing to do for {_them(idle)}",)
    if not acted:
        return Wanted(state=state, notes=notes)
    return Wanted(state=state_of(done.minus(acted), state, marked(state.marks, acted, None)), notes=notes)


def _replay(seen: SeenPartition, state: CommitState, verb: Replay, request: EditRequest) -> Wanted:
    window, notes = _window(seen, verb)
    if verb.offsets is not None:
        _check_inside(seen, window, request)
    done = all_done(state)
    decided = in_state(state.marks, MarkState.SKIPPED, MarkState.REJECTED).intersection(window)
    if decided:
        notes.append(f"{ranges_text(decided)}: skipped or rejected, and stays so (unack opens it)")
    acted = window.intersection(done).minus(decided)
    if not acted:
        return Wanted(state=state, notes=(*notes, "nothing in the window is done, so nothing is opened"))
    after = state_of(done.minus(acted), state, state.marks)
    start, end = window.ranges[0]
    warnings = []
    if after.replay is not None:
        still = f"{after.replay.start}-{after.replay.end - 1}"
        warnings.append(f"the window {still} of an earlier replay stays pending, but is not tagged as one any more")
    return Wanted(
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


def _reset(seen: SeenPartition, verb: Reset, request: EditRequest) -> Wanted:
    state = seen.state
    offset, notes = _landing(seen, verb)
    if not seen.span.start <= offset <= seen.span.end and not request.outside_log:
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
        notes.append(f"{counted(count, 'done offset')} above it will be delivered again (--keep-done keeps them)")
    after = state_of(below.union(kept), before, before.marks if verb.keep_done else ())
    after = after if verb.keep_done else replace(after, forgotten=0)
    if gone := in_state(before.marks, MarkState.REJECTED).minus(in_state(after.marks, MarkState.REJECTED)):
        notes.append(f"{ranges_text(gone)}: rejected, of which no record will remain")
    return Wanted(state=after, may_pass=OffsetRanges.of([(0, NO_END)]), notes=tuple(notes))


def _landing(seen: SeenPartition, verb: Reset) -> tuple[int, list[str]]:
    span, state = seen.span, seen.state
    if verb.landing is Landing.EARLIEST:
        return span.start, []
    if verb.landing is Landing.LATEST:
        if span.stable < span.end:
            return span.stable, [f"a transaction is open: {span.end - span.stable} newer offsets will still be read"]
        return span.end, []
    if verb.landing is Landing.TIME:
        found = seen.offset_at.get(verb.value)
        return (span.stable, ["no record is that new, so it goes to the end"]) if found is None else (found, [])
    if verb.landing is Landing.FILE:
        return verb.targets[seen.partition].offset, []
    if verb.landing is Landing.OFFSET:
        return verb.value, []
    if state is None:
        raise RefusedError(f"{seen.partition}: there is no commit to go forth or back from", hint="name an offset")
    aim = state.base + verb.value
    offset = min(max(aim, span.start), span.stable)
    return offset, [] if offset == aim else [f"{aim} is outside of the log, so it stops at {offset}"]


def _check_inside(seen: SeenPartition, offsets: OffsetRanges, request: EditRequest) -> None:
    outside = offsets.minus(OffsetRanges.of([(seen.span.start, seen.span.end)]))
    if outside and not request.outside_log:
        raise RefusedError(
            f"{seen.partition}: the log ({seen.span.start} to {seen.span.end}) does not hold {ranges_text(outside)}",
            hint="look at the offsets again; --allow-outside-log does it anyway",
        )


def _them(offsets: OffsetRanges) -> str:
    return "it" if offsets.count == 1 else "them"
