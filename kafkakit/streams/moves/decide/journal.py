"""The journal of a series of moves: when each began, and how it ended.

Live state decides what comes next: a line only remembers what was planned, and what the pace counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from kafkakit.core.durations import epoch_ms
from kafkakit.core.journal_lines import Grammar, read_data
from kafkakit.core.journal_lines import Line as JournalLine
from kafkakit.streams.failover.api import EndKind, FailoverRequest
from kafkakit.streams.moves.decide.series import MoveEnd, PlannedMove, Series


class Word(StrEnum):
    """What a line is about; an intent stands before a begin or a continuation."""

    PLAN = "plan"
    AMEND = "amend"
    BEGIN = "begin"
    CONTINUE = "continue"
    END = "end"


Line: TypeAlias = JournalLine[Word]
GRAMMAR = Grammar(
    header={"kind": "stream-moves", "schema": 1},
    words=Word,
    damaged_hint="the journal was changed; --replan plans anew, operations that are open continue",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRecord:
    """A journal folded up. `open` are streams whose move has begun and not ended; `most_open` of them at once."""

    series: Series
    begins_ms: tuple[int, ...] = ()
    open: frozenset[str] = frozenset()
    most_open: int = 0
    ends: Mapping[str, MoveEnd] = field(default_factory=dict)

    @property
    def todo(self) -> tuple[PlannedMove, ...]:
        """Moves that are not done, those that have begun first: they hold places already."""
        left = [move for move in self.series.moves if not self.is_done(move.stream)]
        return tuple(sorted(left, key=lambda move: move.stream not in self.open))

    def is_done(self, stream: str) -> bool:
        """Whether the move of a stream came to its end."""
        end = self.ends.get(stream)
        return end is not None and end.kind is EndKind.DONE

    @property
    def counted_ms(self) -> tuple[int, ...]:
        """The begins that the pace counts."""
        return (*self.series.earlier_ms, *self.begins_ms)


def fold(record: SeriesRecord | None, line: Line) -> SeriesRecord:
    """Take one more line into account."""
    if (record is None) != (line.what is Word.PLAN):
        raise ValueError("a journal begins with its plan, and has one")
    if record is None:
        return SeriesRecord(series=read_data(line.data, Series))
    if line.what is Word.AMEND:
        return replace(record, series=replace(record.series, template=read_data(line.data, FailoverRequest)))
    stream = str(line.data["stream"])
    if line.what is Word.END:
        end = replace(read_data(line.data["end"], MoveEnd), at_ms=epoch_ms(line.time))
        return replace(record, open=record.open - {stream}, ends={**record.ends, stream: end})
    opened = record.open | {stream}
    begins = (*record.begins_ms, epoch_ms(line.time)) if line.what is Word.BEGIN else record.begins_ms
    return replace(record, begins_ms=begins, open=opened, most_open=max(record.most_open, len(opened)))
