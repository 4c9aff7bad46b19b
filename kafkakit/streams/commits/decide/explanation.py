"""Why an offset is where it is, in plain words: done, pending, since when, and what a restart does to it."""

from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.quantities import format_rough_time
from kafkakit.streams.commits.decide.duplicates import duplicates_of
from kafkakit.streams.commits.decide.tally import reach_of
from kafkakit.streams.model.commit import CommitState, Mark, MarkState, age_text, interval_text
from kafkakit.streams.model.dialects.dialect import CommitFacts, TimeSpan
from kafkakit.streams.model.dialects.registry import dialect_named


class OffsetStanding(StrEnum):
    """What an offset is to a group."""

    EXPIRED = "expired"
    DONE = "done"
    REJECTED = "rejected"
    SKIPPED = "skipped"
    PENDING = "pending"
    RETRYING = "retrying"
    DEFERRED = "deferred"
    UNTOUCHED = "untouched"
    UNWRITTEN = "unwritten"
    UNKNOWN = "unknown"


_OF_MARK = {
    MarkState.REJECTED: OffsetStanding.REJECTED,
    MarkState.SKIPPED: OffsetStanding.SKIPPED,
    MarkState.RETRYING: OffsetStanding.RETRYING,
    MarkState.DEFERRED: OffsetStanding.DEFERRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What one offset is, with the sentences that say why."""

    offset: int
    standing: OffsetStanding
    sentences: tuple[str, ...]


def standing_of(facts: CommitFacts, offset: int) -> OffsetStanding:
    """What an offset is to the group, by its commit and the log's ends."""
    state, span = facts.state, facts.span
    if span is not None and offset >= span.end:
        return OffsetStanding.UNWRITTEN
    if span is not None and offset < span.start and offset >= state.base:
        return OffsetStanding.EXPIRED
    if offset < state.base:
        return OffsetStanding.DONE
    mark = _mark_at(state, offset)
    if mark is not None:
        return _OF_MARK[mark.state]
    if offset in state.done:
        return OffsetStanding.DONE
    if offset > state.base and not dialect_named(facts.reading.dialect).is_understood:
        return OffsetStanding.UNKNOWN
    if offset == state.base or offset < reach_of(state):
        return OffsetStanding.PENDING
    return OffsetStanding.UNTOUCHED


def explain(facts: CommitFacts, offset: int | None = None, written: TimeSpan | None = None) -> Explanation:
    """Say what an offset is and why; without one, the committed offset, which is the oldest that is not done.

    `written` is when the record at that offset was written, where the log was asked.
    """
    at = facts.first_pending if offset is None else offset
    standing = standing_of(facts, at)
    sentences = [_what(facts, at, standing), *_since(facts, at, standing, written)]
    sentences += _held_up(facts, at, standing)
    sentences += _restart(facts, at, standing)
    sentences += _who(facts, standing)
    return Explanation(offset=at, standing=standing, sentences=tuple(sentences))


def _mark_at(state: CommitState, offset: int) -> Mark | None:
    return next((mark for mark in state.marks if mark.start <= offset < mark.end), None)


def _what(facts: CommitFacts, at: int, standing: OffsetStanding) -> str:
    state, span = facts.state, facts.span
    if standing is OffsetStanding.DONE:
        if at < state.base:
            return f"Offset {at} is done: it lies below the committed offset {state.base}."
        return f"Offset {at} is done, out of order, by the metadata; {state.base} is not done yet."
    if standing is OffsetStanding.PENDING:
        return _why_pending(state, at)
    if standing is OffsetStanding.UNTOUCHED:
        return f"Offset {at} is backlog: nothing from {reach_of(state)} on was done yet."
    if standing is OffsetStanding.UNWRITTEN:
        return f"Offset {at} does not exist yet: the log ends at {at if span is None else span.end}."
    if standing is OffsetStanding.EXPIRED:
        start = at if span is None else span.start
        return f"Offset {at} was not done when retention took it: the log begins at {start} now. It is lost."
    if standing is OffsetStanding.UNKNOWN:
        return f"Offset {at} lies above the committed {state.base}, and what the metadata says of it is unknown."
    return _what_is_marked(state, at, standing)


def _why_pending(state: CommitState, at: int) -> str:
    if at != state.base:
        return f"Offset {at} is pending: others after it are done, it is not."
    if state.end > state.base:
        return f"Offset {at} is pending: it is the oldest record that is not done, and others after it are done."
    return f"Offset {at} is pending: it is the next record that the group will take."


def _what_is_marked(state: CommitState, at: int, standing: OffsetStanding) -> str:
    mark = _mark_at(state, at)
    tries, wait_s = (0, 0) if mark is None else (mark.count, mark.deferred_s)
    counted = "15 times or more" if tries >= 15 else "once" if tries == 1 else f"{tries} times"
    if standing is OffsetStanding.REJECTED:
        return f"Offset {at} was rejected{f' after it was tried {counted}' if tries else ''}: it counts as done."
    if standing is OffsetStanding.SKIPPED:
        return f"Offset {at} was skipped by an operator: it counts as done."
    if standing is OffsetStanding.DEFERRED:
        wait = format_rough_time(wait_s)
        return f"Offset {at} is pending: the member deferred it for {wait} after the oldest record."
    return f"Offset {at} is pending: it was tried {counted} and failed, and will be tried again."


def _since(facts: CommitFacts, at: int, standing: OffsetStanding, written: TimeSpan | None) -> list[str]:
    if standing in (OffsetStanding.UNWRITTEN, OffsetStanding.EXPIRED):
        return []
    span = written if written is not None else facts.oldest_time if at == facts.first_pending else None
    if span is None:
        return []
    age = "" if facts.at_ms is None else f", {age_text(span.low_ms, facts.at_ms)}"
    when = f"was written {interval_text(span.low_ms, span.high_ms)}{age} (by {span.source})"
    if span.record_offset is not None and span.record_offset > at:
        return [
            f"The log has no record at {at}: compaction took it, or it is a transaction's marker. "
            f"The next one is at {span.record_offset} and {when}."
        ]
    return [f"Its record {when}."]


def _held_up(facts: CommitFacts, at: int, standing: OffsetStanding) -> list[str]:
    state = facts.state
    if standing not in (OffsetStanding.PENDING, OffsetStanding.RETRYING, OffsetStanding.DEFERRED):
        return []
    done_after = state.done.within(at, 1 << 63).count
    if at != state.base:
        return [f"The committed offset waits for {state.base}, which is older."]
    if done_after:
        return [f"The committed offset cannot pass it; the {done_after:,} done after it are kept in the metadata."]
    return []


def _restart(facts: CommitFacts, at: int, standing: OffsetStanding) -> list[str]:
    reading, reader = facts.reading, dialect_named(facts.reading.dialect).reader
    if standing in (OffsetStanding.EXPIRED, OffsetStanding.UNWRITTEN, OffsetStanding.UNKNOWN):
        return []
    if standing in (OffsetStanding.PENDING, OffsetStanding.RETRYING, OffsetStanding.DEFERRED, OffsetStanding.UNTOUCHED):
        words = [
            f"On a restart {reader} gets it again."
            if standing is not OffsetStanding.UNTOUCHED
            else "A restart changes nothing."
        ]
        if reading.is_lossy and standing is OffsetStanding.PENDING and at != facts.state.base:
            words.append("It may have been done: the payload was coarsened to fit, and forgot some.")
    elif at < facts.state.base:
        words = ["A restart does not bring it back."]
    else:
        words = [f"On a restart {reader} leaves it out; a client that ignores metadata gets it again."]
    again = duplicates_of(facts)
    if reading.problem is not None:
        words.append(again.why[0][:1].upper() + again.why[0][1:] + ".")
    return words


def _who(facts: CommitFacts, standing: OffsetStanding) -> list[str]:
    if standing in (OffsetStanding.EXPIRED, OffsetStanding.DONE, OffsetStanding.REJECTED, OffsetStanding.SKIPPED):
        return []
    if facts.holder is not None:
        member = facts.holder
        return [f"The partition is held by {member.client_id} on {member.host} (member {member.member_id})."]
    return ["No member of the group holds the partition."] if facts.group and facts.span is not None else []
