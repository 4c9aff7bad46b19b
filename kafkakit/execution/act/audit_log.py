"""An audit log: a line of JSON before each change and after it, in a file or in the control store."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from kafkakit.core.errors import KafkakitError
from kafkakit.execution.act.journal_file import LineFile
from kafkakit.ports.clock import Clock


class AuditLog:
    """Appends lines to a file, which may be rotated at any time; safe for several threads.

    Raises `OperationFailedError` where a line cannot be written: then nothing is to be changed.
    """

    def __init__(self, file: LineFile, clock: Clock) -> None:
        self._file, self._clock, self._lock = file, clock, Lock()

    def record(self, what: Mapping[str, object]) -> None:
        """One line, durable when this returns."""
        line = json.dumps({"time": self._clock.now().isoformat(), **what}, separators=(",", ":"), default=str)
        with self._lock:
            self._file.append(f"{line}\n".encode())

    @contextmanager
    def around(
        self, what: Mapping[str, object], warn: Callable[[str], None] | None = None
    ) -> Iterator[dict[str, object]]:
        """A line before the block, which makes a change, and one after it with the outcome and what the block added.

        With `warn` an outcome that cannot be written is a warning, so that a change that was made is no failure.
        """
        self.record({**what, "outcome": "begun"})
        more: dict[str, object] = {}
        try:
            yield more
        except (Exception, KeyboardInterrupt) as error:
            words = str(error) or type(error).__name__
            self._end({**what, **more, "outcome": "failed", "error": words[:500]}, warn)
            raise
        self._end({**what, "outcome": "done", **more}, warn)

    def _end(self, what: Mapping[str, object], warn: Callable[[str], None] | None) -> None:
        try:
            self.record(what)
        except KafkakitError as error:
            if warn is None:
                raise
            warn(f"the audit log has no outcome of this command: {error.message}")
