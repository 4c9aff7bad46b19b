"""The audit log of a stream: each command that could change it, its operator, its plan and its outcome."""

import json
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from kafkakit.core.documents import decoded_json
from kafkakit.core.event import Event
from kafkakit.core.journal_lines import RecordKind
from kafkakit.streams.failover.decide.journal import Line, OperationRecord, Word
from kafkakit.streams.failover.decide.operation import Operation
from kafkakit.streams.model.route import check_stream

MOST_COMMANDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """A line of the log: the beginning of a command, or its end with the outcome (`done`, `failed`).

    `id` is random, the same in both. `plan_sha256` is that of the operation that the command worked on, empty where it
    worked on none.
    """

    time: str
    id: str
    by: str
    command: str
    outcome: str
    operation: str = ""
    plan_sha256: str = ""
    step: str = ""
    result: str = ""
    reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedCommand:
    """A command: when it began and ended, and its last line; `ended` is empty for one that was cut, or still runs."""

    began: str
    ended: str
    line: AuditLine

    @property
    def outcome(self) -> str:
        """How it ended, in one word."""
        return "cut or running" if not self.ended else self.line.result or self.line.outcome


def audit_root(stream: str) -> str:
    """Where the audit log of a stream is kept."""
    return f"streams/{check_stream(stream)}/audit"


def plan_sha256(operation: Operation) -> str:
    """The hash of an operation as it was planned, with the limits that it has now."""
    return sha256(json.dumps(msgspec.to_builtins(operation, str_keys=True), sort_keys=True).encode()).hexdigest()


def read_commands(data: bytes) -> tuple[tuple[AuditedCommand, ...], int]:
    """The newest commands of a log, oldest first, and how many lines cannot be read."""
    found: dict[str, AuditedCommand] = {}
    damaged = 0
    for text in data.splitlines():
        try:
            line = decoded_json(text, AuditLine)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            damaged += 1
            continue
        began = found[line.id].began if line.id in found else line.time
        found[line.id] = AuditedCommand(began=began, ended="" if line.outcome == "begun" else line.time, line=line)
    return tuple(found.values())[-MOST_COMMANDS:], damaged


def event_of(record: OperationRecord, line: Line) -> Event | None:
    """What a line of a journal tells people; None for one that only matters to the machine."""
    operation = record.operation
    match line.kind, line.what:
        case RecordKind.CHECK, Word.PLAN:
            what, more = (
                f"{operation.request.kind.noun} begun",
                f"by {operation.operator}, plan {plan_sha256(operation)[:16]}",
            )
        case RecordKind.CHECK, Word.STEP:
            what, more = str(line.data["step"]), f"epoch {line.data['epoch']}"
        case RecordKind.INTENT, Word.FENCE:
            what, more = f"fence {line.data['kind']}", f"segment {line.data['segment']}"
        case RecordKind.CHECK, Word.UNFENCE:
            what, more = "fence down", f"segment {line.data['segment']}"
        case RecordKind.CHECK, Word.LATE:
            what, more = "late writer", f"partitions that grew after the seal: {len(line.data['grown'])}"
        case RecordKind.CHECK, Word.LOST:
            what, more = "records lost", f"deleted before they were read: {sum(each.count for each in record.lost)}"
        case RecordKind.CHECK, Word.CERTIFIED:
            what, more = "certified", f"certificate {line.data['sha256']}"
        case _:
            return None
    return Event(
        title=f"[kafkakit] stream {operation.stream}: {what}",
        text=f"operation {operation.id} to {operation.request.to}: {more}",
    )
