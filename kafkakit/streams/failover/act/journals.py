"""The journals and certificates of failovers in the control store."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from kafkakit.core.errors import RefusedError
from kafkakit.core.journal_lines import line_data
from kafkakit.execution.act.line_journal import LineJournal
from kafkakit.execution.act.store_lines import StoreLines
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.failover.decide.certificate import DrainCertificate, decode_certificate
from kafkakit.streams.failover.decide.journal import (
    GRAMMAR,
    Line,
    OperationRecord,
    Word,
    certificate_root,
    fold,
    journal_root,
    operations_folder,
)
from kafkakit.streams.failover.decide.operation import Operation

Journal: TypeAlias = LineJournal[Word, OperationRecord | None]
OnLine: TypeAlias = Callable[[OperationRecord | None, Line], None]
"""What gets each line that this process writes, with what the journal says after it."""
MOST_OPERATIONS = 1000


def no_line(_record: OperationRecord | None, _line: Line) -> None:
    """Takes a line, and does nothing with it."""


class OperationJournals:
    """The operations of one stream. Reading one costs a request for each 60 kB."""

    def __init__(self, store: ControlStore, clock: Clock, stream: str, on_line: OnLine = no_line) -> None:
        self._store, self._clock, self._stream, self._on_line = store, clock, stream, on_line

    def names(self) -> tuple[str, ...]:
        """The ids of all operations, oldest first: an id begins with the epoch that it was planned for."""
        return tuple(sorted(self._store.children(operations_folder(self._stream)), key=_age))[-MOST_OPERATIONS:]

    def open(self, name: str) -> Journal:
        """The journal of an operation; `InputError` for one that is damaged, or of a newer kafkakit."""
        lines = StoreLines(self._store, journal_root(self._stream, name))
        return LineJournal(lines, self._clock, GRAMMAR, fold, None, self._on_line)

    def begin(self, operation: Operation) -> Journal:
        """The journal of a new operation, with its first line."""
        journal = self.open(operation.id)
        journal.check(Word.PLAN, line_data(operation))
        return journal

    def record(self, name: str) -> OperationRecord | None:
        """What an operation's journal says; None for one that was cut before its first line was whole."""
        return self.open(name).state

    def records(self) -> Iterator[OperationRecord]:
        """Every operation of the stream, oldest first."""
        for name in self.names():
            found = self.record(name)
            if found is not None:
                yield found

    def write_certificate(self, name: str, data: bytes) -> None:
        """Keep the newest certificate of an operation."""
        lines = StoreLines(self._store, certificate_root(self._stream, name))
        if lines.read() != data:
            lines.replace(data)

    def has_certificate(self, name: str, sha256: str) -> bool:
        """Whether the certificate of this hash is kept."""
        data = StoreLines(self._store, certificate_root(self._stream, name)).read()
        return bool(data) and decode_certificate(data, f"certificate of operation {name}").sha256 == sha256

    def certificate(self, name: str) -> tuple[DrainCertificate, bytes]:
        """The newest certificate of an operation, with its bytes; `RefusedError` without one."""
        data = StoreLines(self._store, certificate_root(self._stream, name)).read()
        if not data:
            raise RefusedError(f"operation {name} has no certificate", hint="kafkakit streams failover certify")
        return decode_certificate(data, f"certificate of operation {name}"), data


def state_of(journal: Journal) -> OperationRecord:
    """What a journal that has begun says."""
    if journal.state is None:
        raise ValueError("the journal has not begun")
    return journal.state


def _age(name: str) -> tuple[int, str]:
    head = name.partition("-")[0]
    return (int(head) if head.isascii() and head.isdigit() else 0, name)
