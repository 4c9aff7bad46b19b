"""The audit log: a line of JSON on disk before each change and after it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from kafkakit.execution.act.journal_file import LineFile
from kafkakit.ports.clock import Clock


class AuditLog:
    """Appends to a file, which may be rotated at any time; safe for several threads.

    Raises `OperationFailedError` where a line cannot be written: then nothing is to be changed.
    """

    def __init__(self, file: LineFile, clock: Clock) -> None:
        self._file, self._clock, self._lock = file, clock, Lock()

    def record(self, what: Mapping[str, object]) -> None:
        """One line, on disk when this returns."""
        line = json.dumps({"time": self._clock.now().isoformat(), **what}, separators=(",", ":"), default=str)
        with self._lock:
            self._file.append(f"{line}\n".encode())

    @contextmanager
    def around(self, what: Mapping[str, object]) -> Iterator[None]:
        """A line before the block, which makes a change, and one after it with the outcome."""
        self.record({**what, "outcome": "begun"})
        try:
            yield
        except Exception as error:
            self.record({**what, "outcome": "failed", "error": str(error)[:500]})
            raise
        self.record({**what, "outcome": "done"})
