"""What a commit says about its offsets: counts by state, duplicates on a restart, changes, and explanations.

A consumer starts at the committed offset and leaves out what the metadata says is done, if it reads that metadata.
Counts are offsets: if a topic is compacted or has transactions, some offsets hold no record, so a count of duplicates
is then the most that can come.

A difference between two commits of one partition lists offsets that became done, pending or rejected. An explanation
says in plain words why an offset is where it is: since when, and what a restart does to it.
"""

from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.quantities import format_rough_time
from kafkakit.streams.model.commit import (
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    Reading,
    age_text,
    amount,
    interval_text,
)
from kafkakit.streams.model.dialects.dialect import CommitFacts, TimeSpan
from kafkakit.streams.model.dialects.registry import dialect_named


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTally:
    """How many offsets are in each state, from the committed one up to the highest done one.

    `done` leaves out rejected and skipped ones, `pending` retrying and deferred ones. `untouched` counts offsets from
    there to the end of the log, None where that is not known.
    """

    done: int = 0
    rejected: int = 0
    skipped: int = 0
    pending: int = 0
    retrying: int = 0
    deferred: int = 0
    untouched: int | None = None

    @property
    def span(self) -> int:
        """All offsets that the payload describes."""
        return self.done + self.rejected + self.skipped + self.pending + self.retrying + self.deferred


def tally_of(state: CommitState, log_end: int | None = None) -> OffsetTally:
    """Count a state's offsets; marks above the highest done offset count too, and shift where `untouched` begins."""
    marked = dict.fromkeys(MarkState, 0)
    for mark in state.marks:
        marked[mark.state] += mark.end - mark.start
    reach = reach_of(state)
    done = state.done.count
    pending = reach - state.base - done
    return OffsetTally(
        done=max(0, done - marked[MarkState.REJECTED] - marked[MarkState.SKIPPED]),
        rejected=marked[MarkState.REJECTED],
        skipped=marked[MarkState.SKIPPED],
        pending=max(0, pending - marked[MarkState.RETRYING] - marked[MarkState.DEFERRED]),
        retrying=marked[MarkState.RETRYING],
        deferred=marked[MarkState.DEFERRED],
        untouched=None if log_end is None else max(0, log_end - reach),
    )


def reach_of(state: CommitState) -> int:
    """One past the highest offset that the payload describes."""
    return max([state.end, *(mark.end for mark in state.marks)])


def marked_offsets(state: CommitState, kind: MarkState) -> OffsetRanges:
    """The offsets that carry this mark."""
    return OffsetRanges.of((mark.start, mark.end) for mark in state.marks if mark.state is kind)


def dialect_words(reading: Reading) -> str:
    """The dialect with its packing, for people: `kkm1, runs, alphabet b`."""
    words = [reading.dialect]
    if reading.encoding:
        words.append(reading.encoding)
    if reading.alphabet:
        words.append(f"alphabet {reading.alphabet}")
    if reading.is_compressed:
        words.append("zstd")
    if reading.is_lossy:
        words.append("coarsened")
    return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """Records that were done and come again: to a reader of the metadata, and to a client that ignores it.

    `low` and `high` bound the first; `high` is None where nothing bounds it. `why` explains the numbers, a sentence
    each. What was finished after the commit was made comes again too, and only the member has that number.
    """

    reader: str
    low: int
    high: int | None
    ignoring: int | None
    why: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        """True when the number for the reader is one number."""
        return self.low == self.high


def duplicates_of(facts: CommitFacts) -> Duplicates:
    """Count what a restart from this commit delivers again."""
    reading = facts.reading
    dialect = dialect_named(reading.dialect)
    reader = dialect.reader
    if reading.problem is not None:
        return _unusable_duplicates(facts, reader)
    if not dialect.is_understood:
        unknown = "no client known here writes metadata like this: what is done above the committed offset is unknown"
        return Duplicates(reader=reader, low=0, high=None, ignoring=None, why=(unknown,))
    done = _in_log(facts, reading.state.done).count
    why: list[str] = []
    if done and facts.has_nul and dialect.effect_of_nul(facts):
        why.append(f"{reader} cannot read metadata that ends with a NUL: it knows of nothing done")
        return Duplicates(reader=reader, low=done, high=done, ignoring=done, why=tuple(why))
    if done:
        why.append(
            f"{amount(done, 'offset')} done above the committed one: {reader} leaves them out, "
            "a client that ignores metadata gets them again"
        )
    low, high = _forgotten_bounds(facts, why)
    if facts.span is not None and facts.offset < facts.span.start:
        why.append(f"the log begins at {facts.span.start}: a restart begins there")
    return Duplicates(reader=reader, low=low, high=high, ignoring=done + high, why=tuple(why))


def _forgotten_bounds(facts: CommitFacts, why: list[str]) -> tuple[int, int]:
    """The bounds of what coarsening gave up."""
    state = facts.reading.state
    if not facts.reading.is_lossy:
        return 0, 0
    if state.spill is not None:
        why.append(
            "the payload was coarsened to fit, but the ledger holds the exact state: with it nothing comes again; "
            f"without it {_at_most(facts):,} offsets at most"
        )
        return 0, _at_most(facts)
    if state.forgotten:
        why.append(f"{amount(state.forgotten, 'acknowledgement')} dropped so that the payload fits")
        return state.forgotten, state.forgotten
    most = _at_most(facts)
    why.append(f"the payload was coarsened to fit: of the {most:,} offsets that look pending, 1 or more are done")
    return min(1, most), most


def _at_most(facts: CommitFacts) -> int:
    """Pending offsets that may be done: neither retrying nor deferred, and not the committed one itself."""
    state = facts.reading.state
    is_marked = any(mark.start <= state.base < mark.end for mark in state.marks)
    return max(0, tally_of(state).pending - (0 if is_marked else 1))


def _unusable_duplicates(facts: CommitFacts, reader: str) -> Duplicates:
    reading = facts.reading
    head = (
        f"{reader} does not use this payload ({reading.problem}): it starts at {facts.offset} and knows of nothing done"
    )
    if reading.claimed is None:
        why = (head, "the payload cannot be read, so how much of that was done is unknown")
        return Duplicates(reader=reader, low=0, high=None, ignoring=None, why=why)
    claimed = _in_log(facts, reading.claimed.done).within(facts.offset, 1 << 63).count
    why = (
        head,
        f"the payload claims {claimed:,} offsets at or above {facts.offset} as done; if that is true they come again",
    )
    return Duplicates(reader=reader, low=0, high=claimed, ignoring=claimed, why=why)


def _in_log(facts: CommitFacts, done: OffsetRanges) -> OffsetRanges:
    """What still lies in the log: what retention took cannot come again."""
    return done if facts.span is None else done.within(facts.span.start, facts.span.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """From one state to another; a set is empty where nothing of the kind happened.

    `became_done` leaves out what became rejected or skipped. `reopened` was done and is pending again: an operator's
    reset or replay, or a writer that forgot. `rejected` and `skipped` are new marks; `retried` are offsets whose
    count of tries grew, each with both counts.
    """

    base_before: int
    base_after: int
    became_done: OffsetRanges
    reopened: OffsetRanges
    rejected: OffsetRanges
    skipped: OffsetRanges
    deferred: OffsetRanges
    retried: tuple[tuple[int, int, int, int], ...]
    oldest_moved_ms: int | None
    newest_moved_ms: int | None

    @property
    def is_empty(self) -> bool:
        """True when both say the same of every offset."""
        sets = (self.became_done, self.reopened, self.rejected, self.skipped, self.deferred)
        return self.base_before == self.base_after and not any(sets) and not self.retried


def difference(before: CommitState, after: CommitState) -> Difference:
    """Compare two states of one partition; everything below a base counts as done. Costs the ranges of both."""
    low = min(before.base, after.base)
    done_before, done_after = _all_done(before, low), _all_done(after, low)
    # What a base passed is done, and its marks are gone with it: only marks that stand can be new.
    rejected = marked_offsets(after, MarkState.REJECTED).minus(marked_offsets(before, MarkState.REJECTED))
    skipped = marked_offsets(after, MarkState.SKIPPED).minus(marked_offsets(before, MarkState.SKIPPED))
    return Difference(
        base_before=before.base,
        base_after=after.base,
        became_done=done_after.minus(done_before).minus(rejected).minus(skipped),
        reopened=done_before.minus(done_after),
        rejected=rejected,
        skipped=skipped,
        deferred=marked_offsets(after, MarkState.DEFERRED).minus(marked_offsets(before, MarkState.DEFERRED)),
        retried=_retried_ranges(before, after),
        oldest_moved_ms=_moved_by(before, after, "oldest_ms"),
        newest_moved_ms=_moved_by(before, after, "newest_done_ms"),
    )


def _all_done(state: CommitState, low: int) -> OffsetRanges:
    return OffsetRanges.of([(low, state.base), *state.done.ranges])


def _moved_by(before: CommitState, after: CommitState, name: str) -> int | None:
    if before.watermark is None or after.watermark is None:
        return None
    return int(getattr(after.watermark, name) - getattr(before.watermark, name))


def _retried_ranges(before: CommitState, after: CommitState) -> tuple[tuple[int, int, int, int], ...]:
    """`(start, end, tries before, tries after)` where a range is retrying now and was tried less often before."""
    old = [mark for mark in before.marks if mark.state is MarkState.RETRYING]
    found: list[tuple[int, int, int, int]] = []
    at = 0
    for mark in after.marks:
        if mark.state is not MarkState.RETRYING:
            continue
        start = mark.start
        while at < len(old) and old[at].end <= start:
            at += 1
        look = at
        while start < mark.end:
            if look >= len(old) or old[look].start >= mark.end:
                stop, tries = mark.end, 0
            elif old[look].start > start:
                stop, tries = old[look].start, 0
            else:
                stop, tries = min(mark.end, old[look].end), old[look].count
                look += 1
            if tries < mark.count:
                found.append((start, stop, tries, mark.count))
            start = stop
    return tuple(found)


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
class OffsetExplanation:
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


def explain(facts: CommitFacts, offset: int | None = None, written: TimeSpan | None = None) -> OffsetExplanation:
    """Say what an offset is and why; without one, the committed offset, which is the oldest that is not done.

    `written` is when the record at that offset was written, where the log was asked.
    """
    at = facts.first_pending if offset is None else offset
    standing = standing_of(facts, at)
    sentences = [_describe_offset(facts, at, standing), *_describe_time(facts, at, standing, written)]
    sentences += _held_up(facts, at, standing)
    sentences += _restart(facts, at, standing)
    sentences += _describe_holder(facts, standing)
    return OffsetExplanation(offset=at, standing=standing, sentences=tuple(sentences))


def _mark_at(state: CommitState, offset: int) -> Mark | None:
    return next((mark for mark in state.marks if mark.start <= offset < mark.end), None)


def _describe_offset(facts: CommitFacts, at: int, standing: OffsetStanding) -> str:
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


def _describe_time(facts: CommitFacts, at: int, standing: OffsetStanding, written: TimeSpan | None) -> list[str]:
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


def _describe_holder(facts: CommitFacts, standing: OffsetStanding) -> list[str]:
    if standing in (OffsetStanding.EXPIRED, OffsetStanding.DONE, OffsetStanding.REJECTED, OffsetStanding.SKIPPED):
        return []
    if facts.holder is not None:
        member = facts.holder
        return [f"The partition is held by {member.client_id} on {member.host} (member {member.member_id})."]
    return ["No member of the group holds the partition."] if facts.group and facts.span is not None else []
