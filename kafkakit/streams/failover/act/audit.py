"""Writing the audit log of a stream into the control store, around every command that may change the stream."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kafkakit.core.event import Event
from kafkakit.execution.act.audit_log import AuditLog
from kafkakit.execution.act.store_lines import SharedStoreLines
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.failover.decide.audit import AuditedCommand, audit_root, event_of, plan_sha256, read_commands
from kafkakit.streams.failover.decide.journal import Line, OperationRecord, Word
from kafkakit.streams.failover.decide.outcome import RunEnd


class CommandAudit:
    """What one command does to a stream: for the audit log, and for a service of events, which `put` sends to."""

    def __init__(self, put: Callable[[Sequence[Event]], object] = lambda _: None) -> None:
        self._put = put
        self._more: dict[str, object] = {}

    @contextmanager
    def around(
        self, store: ControlStore, clock: Clock, stream: str, what: dict[str, object], warn: Callable[[str], None]
    ) -> Iterator[None]:
        """A line before the command and one after it; raises where the first cannot be written: nothing is done then.

        `what` has a random `id`, `by` and `command`.
        """
        log = AuditLog(SharedStoreLines(store, audit_root(stream)), clock)
        with log.around(what, warn) as self._more:
            yield

    def see(self, record: OperationRecord | None, line: Line) -> None:
        """Take a line that the command wrote into a journal."""
        if record is None:
            return
        self._about(record)
        if line.what is Word.STEP:
            self._more["step"] = str(line.data["step"])
        event = event_of(record, line)
        if event is not None:
            self._put((event,))

    def note(self, end: RunEnd) -> None:
        """Take the end of a run."""
        self._about(end.record)
        self._more |= {"step": end.step, "result": end.kind, "reason": end.reason}

    def note_not_begun(self, refused_by: str) -> None:
        """Take that nothing was begun: by a precondition that was refused, or by the operator's answer."""
        self._more |= {"result": "refused", "reason": refused_by} if refused_by else {"result": "not confirmed"}

    def _about(self, record: OperationRecord) -> None:
        self._more |= {"operation": record.operation.id, "plan_sha256": plan_sha256(record.operation)}


def commands_of(store: ControlStore, stream: str) -> tuple[tuple[AuditedCommand, ...], int]:
    """The commands in the audit log of a stream, oldest first, and how many lines cannot be read."""
    return read_commands(SharedStoreLines(store, audit_root(stream)).read())
