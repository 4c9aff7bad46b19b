"""The journal of a run: what its lines are about; `core/journal_lines.py` gives their form."""

from enum import StrEnum
from typing import TypeAlias

from kafkakit.core.journal_lines import Grammar, Line, LinesText, decode_lines

HEADER = {"kind": "journal", "schema": 1}


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
    SALVAGED = "salvaged"
    OWED = "owed"
    END = "end"


Record: TypeAlias = Line[What]
JournalText: TypeAlias = LinesText[What]

DAMAGED_HINT = "what its runs left is removed by: kafkakit reassign cleanup --plan PLAN"
GRAMMAR = Grammar(header=HEADER, words=What, damaged_hint=DAMAGED_HINT, salvaged=True)


def decode_journal(data: bytes, source: str) -> JournalText:
    """Read a journal; a torn last line is left out, any other damage raises `InputError`."""
    return decode_lines(data, source, GRAMMAR)
