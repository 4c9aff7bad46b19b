"""The journals of series in the control store; the newest of a key counts."""

from typing import TypeAlias

from kafkakit.core.journal_lines import line_data
from kafkakit.execution.act.line_journal import LineJournal
from kafkakit.execution.act.store_lines import StoreLines
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.moves.decide.journal import GRAMMAR, SeriesRecord, Word, fold
from kafkakit.streams.moves.decide.series import Series

Journal: TypeAlias = LineJournal[Word, SeriesRecord | None]


def series_lease(key: str) -> str:
    """Where the lease of a series is kept."""
    return f"moves/{key}/lease"


class SeriesJournals:
    """The series of one key. Reading one costs a request for each 60 kB."""

    def __init__(self, store: ControlStore, clock: Clock, key: str) -> None:
        self._store, self._clock, self._root = store, clock, f"moves/{key}"

    def newest(self) -> Journal | None:
        """The newest series whose plan was written down whole; `InputError` for a damaged one."""
        for number in reversed(self._numbers()):
            journal = self._open(number)
            if journal.state is not None:
                return journal
        return None

    def begin(self, series: Series) -> Journal:
        """The journal of a new series, with its plan."""
        journal = self._open(max(self._numbers(), default=0) + 1)
        journal.check(Word.PLAN, line_data(series))
        return journal

    def _numbers(self) -> list[int]:
        return sorted(int(name) for name in self._store.children(self._root) if name.isascii() and name.isdigit())

    def _open(self, number: int) -> Journal:
        lines = StoreLines(self._store, f"{self._root}/{number:06d}")
        return LineJournal(lines, self._clock, GRAMMAR, fold, None)


def record_of(journal: Journal) -> SeriesRecord:
    """What a journal that has begun says."""
    if journal.state is None:
        raise ValueError("the journal has not begun")
    return journal.state
