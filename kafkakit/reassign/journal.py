"""The journal's records: one JSON line each, chained by SHA-256, written before and after each effect.

A line holds `seq`, `time`, `prev` (hash of the line before), `kind`, `what`, `of` (the intent an effect
answers) and `data`. Nothing in it is secret. Reading and writing the file is `store_journal.py`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from kafkakit.errors import InputError

HEADER = {"kind": "journal", "schema": 1}
FIRST_PREV = hashlib.sha256(b"").hexdigest()


class RecordKind(StrEnum):
    """`intent` is written before an effect, `effect` after it, `check` tells what was found."""

    INTENT = "intent"
    EFFECT = "effect"
    CHECK = "check"


class What(StrEnum):
    """What a record is about; the first six are effects on the cluster, the rest are checks."""

    THROTTLE = "throttle"
    RESTORE = "restore"
    REASSIGN = "reassign"
    CANCEL = "cancel"
    ELECT = "elect"
    DIRS = "dirs"
    OPEN = "open"
    START = "start"
    SCHEDULE = "schedule"
    PAUSE = "pause"
    CONTINUE = "continue"
    RATES = "rates"
    RELEASED = "released"
    OWED = "owed"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One journal line; `prev` is the hash of the line before it."""

    seq: int
    time: datetime
    prev: str
    kind: RecordKind
    what: What
    of: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalText:
    """A decoded journal: its records, the hash to chain on, and how many bytes of the file are whole lines."""

    records: tuple[Record, ...] = ()
    last_hash: str = FIRST_PREV
    whole_bytes: int = 0


def encode_record(record: Record) -> bytes:
    """One line with a final newline."""
    body: dict[str, Any] = {"kafkakit": HEADER} if record.seq == 0 else {}
    body |= {
        "seq": record.seq,
        "time": record.time.isoformat(),
        "prev": record.prev,
        "kind": record.kind.value,
        "what": record.what.value,
    }
    if record.of is not None:
        body["of"] = record.of
    body["data"] = dict(record.data)
    return json.dumps(body, separators=(",", ":"), sort_keys=False).encode() + b"\n"


def line_hash(line: bytes) -> str:
    """The hash that the next line carries as `prev`: SHA-256 of the line without its newline, hex."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def decode_journal(data: bytes, source: str) -> JournalText:
    """Read a journal; a torn last line (crash while writing) is left out, any other damage is refused.

    A torn line is harmless: an intent is on disk as a whole before its effect is made. Raises `InputError`.
    """
    records: list[Record] = []
    prev, whole = FIRST_PREV, 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1]):  # what follows the last newline is torn or empty
        try:
            record = _decode_line(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            if number == len(lines) - 2 and not lines[-1]:
                break
            raise _damaged(source, number, "cannot be read") from None
        if record.seq != number or record.prev != prev:
            raise _damaged(source, number, "does not continue the line before it")
        records.append(record)
        prev, whole = line_hash(line), whole + len(line) + 1
    return JournalText(records=tuple(records), last_hash=prev, whole_bytes=whole)


def _decode_line(line: bytes) -> Record:
    body = json.loads(line)
    seq, of, data = body["seq"], body.get("of"), body["data"]
    if not isinstance(seq, int) or not isinstance(of, int | None) or not isinstance(data, dict):
        raise TypeError
    if seq == 0 and body["kafkakit"] != HEADER:
        raise ValueError
    return Record(
        seq=seq,
        time=datetime.fromisoformat(body["time"]),
        prev=body["prev"],
        kind=RecordKind(body["kind"]),
        what=What(body["what"]),
        of=of,
        data=data,
    )


def _damaged(source: str, line: int, problem: str) -> InputError:
    return InputError(
        source,
        f"journal line {line + 1} {problem}",
        hint="the journal was changed; check throttles with `kafkakit reassign status`, then move the file away",
    )
