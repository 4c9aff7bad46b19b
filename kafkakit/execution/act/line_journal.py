"""A journal open for writing: append one line, fsync, and only then act."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.journal_lines import Grammar, Line, RecordKind, encode_line, line_hash, read_lines
from kafkakit.execution.act.journal_file import LineFile
from kafkakit.ports.clock import Clock

W = TypeVar("W", bound=StrEnum)
S = TypeVar("S")


class LineJournal(Generic[W, S]):
    """The lines of one journal; `state` is always what the lines so far mean (`fold`, from `start` on).

    `damage` says what is wrong with a file of which only the beginning is used; the next line is written behind that,
    and the damaged file is kept under another name. `on_line` gets each line that this process wrote, with the state
    after it. Raises `InputError` for a damaged file that is not salvaged, `OperationFailedError` when a line cannot be
    written.
    """

    def __init__(
        self,
        file: LineFile,
        clock: Clock,
        grammar: Grammar[W],
        fold: Callable[[S, Line[W]], S],
        start: S,
        on_line: Callable[[S, Line[W]], None] = lambda *_: None,
    ) -> None:
        self._file, self._clock, self._grammar, self._fold, self._start = file, clock, grammar, fold, start
        self._on_line = on_line
        self.name = file.name
        self.state, self.damage = start, ""
        self._seq, self._prev, self._size, self._is_torn = 0, "", 0, False
        self.reload()

    def reload(self) -> None:
        """Read the file again: after an interrupt, what is on disk counts and not what was being done."""
        data = self._file.read()
        text, self.state = read_lines(data, self.name, self._start, self._fold, self._grammar)
        self.damage = text.damage
        self._seq, self._prev, self._size = len(text.records), text.last_hash, text.whole_bytes
        self._is_torn = self._size != len(data)

    @property
    def is_empty(self) -> bool:
        """True before the first line."""
        return self._seq == 0

    def intent(self, what: W, data: Mapping[str, Any]) -> int:
        """Record what is about to be done; returns the number that the effect refers to."""
        return self._write(RecordKind.INTENT, what, data).seq

    def check(self, what: W, data: Mapping[str, Any]) -> Line[W]:
        """Record something found or decided; returns the line."""
        return self._write(RecordKind.CHECK, what, data)

    def _write(self, kind: RecordKind, what: W, data: Mapping[str, Any], of: int | None = None) -> Line[W]:
        if self.damage:
            self._file.set_aside()
            self.damage = ""
        if self._is_torn:
            self._file.cut(self._size)
            self._is_torn = False
        line = Line(seq=self._seq, time=self._clock.now(), prev=self._prev, kind=kind, what=what, of=of, data=data)
        text = encode_line(line, self._grammar)
        try:
            self._file.append(text)
        except OperationFailedError:
            self._is_torn = True  # a full disk takes part of a line; what is written next must not join it
            raise
        self.state = self._fold(self.state, line)
        self._seq, self._prev, self._size = self._seq + 1, line_hash(text), self._size + len(text)
        self._on_line(self.state, line)
        return line
