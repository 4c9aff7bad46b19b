"""What comes a second time when a consumer restarts from a commit, counted before it happens.

A consumer starts at the committed offset and leaves out what the metadata says is done, if it reads that metadata.
Counts are offsets: where a topic is compacted or has transactions, some offsets hold no record, so a count is then
the most that can come.
"""

from dataclasses import dataclass

from kafkakit.streams.commits.decide.tally import tally_of
from kafkakit.streams.model.commit import OffsetRanges, amount
from kafkakit.streams.model.dialects.dialect import CommitFacts
from kafkakit.streams.model.dialects.registry import dialect_named


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
        return _unusable(facts, reader)
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
    low, high = _forgotten(facts, why)
    if facts.span is not None and facts.offset < facts.span.start:
        why.append(f"the log begins at {facts.span.start}: a restart begins there")
    return Duplicates(reader=reader, low=low, high=high, ignoring=done + high, why=tuple(why))


def _forgotten(facts: CommitFacts, why: list[str]) -> tuple[int, int]:
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


def _unusable(facts: CommitFacts, reader: str) -> Duplicates:
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
