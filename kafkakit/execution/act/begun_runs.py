"""The start of a run, kept a second time beside its plan until the run ends: it tells of runs whose journal is lost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkakit.core.errors import InputError, OperationFailedError
from kafkakit.core.journal_lines import FIRST_PREV, Line, RecordKind, encode_line, line_hash
from kafkakit.execution.act.journal_file import DiskFile, LineFile, write_whole
from kafkakit.execution.decide.journal import GRAMMAR, Record, What, decode_journal


def begun_path(journal: Path) -> Path:
    """Where the start of the run is kept."""
    return journal.parents[2] / "plans" / journal.parent.name / f"{journal.stem}.begun"


def keep_begun(file: LineFile, identity: Mapping[str, Any], start: Record) -> None:
    """Keep the start of a run, as a journal of two lines; raises `OperationFailedError`."""
    if not isinstance(file, DiskFile):
        return
    check = RecordKind.CHECK
    opening = encode_line(
        Line(seq=0, time=start.time, prev=FIRST_PREV, kind=check, what=What.OPEN, data=identity), GRAMMAR
    )
    line = Line(seq=1, time=start.time, prev=line_hash(opening), kind=check, what=What.START, data=start.data)
    write_whole(begun_path(file.path), opening + encode_line(line, GRAMMAR))


def forget_begun(file: LineFile) -> None:
    """Remove it: from now on a journal that is gone is one of a run that ended. Raises `OperationFailedError`."""
    if isinstance(file, DiskFile):
        try:
            begun_path(file.path).unlink(missing_ok=True)
        except OSError as error:
            raise OperationFailedError(f"{begun_path(file.path)} cannot be removed: {error.strerror}") from None


def has_ended(file: LineFile) -> bool:
    """True when the start was removed and the plan is still kept: the last run ended, whatever its journal lost."""
    if not isinstance(file, DiskFile):
        return False
    path = begun_path(file.path)
    return path.with_suffix(".json").exists() and not path.exists()


def begun_line(file: LineFile) -> Record | None:
    """The start that was kept, None where there is none that can be read."""
    if not isinstance(file, DiskFile):
        return None
    path = begun_path(file.path)
    try:
        records = decode_journal(path.read_bytes(), str(path)).records
    except (OSError, InputError):
        return None
    return next((r for r in records if r.what is What.START), None)
