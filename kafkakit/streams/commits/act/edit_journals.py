"""Where the journals of edits are kept: one file an edit, in the order of their names."""

from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.journal_lines import RecordKind, line_data
from kafkakit.core.model import TopicPartition
from kafkakit.core.printable import printable
from kafkakit.execution.act.journal_file import DiskFile, LineFile
from kafkakit.execution.act.line_journal import LineJournal
from kafkakit.ports.clock import Clock
from kafkakit.streams.commits.decide.editing.journal import (
    GRAMMAR,
    CommitChange,
    CommitStanding,
    EditRecord,
    Opening,
    Verdict,
    What,
    change_data,
    fold,
)

SUFFIX = ".journal"
OpenFile = Callable[[Path], LineFile]


class EditJournal(LineJournal[What, EditRecord | None]):
    """One edit's journal, open for writing."""

    def __init__(self, file: LineFile, clock: Clock) -> None:
        super().__init__(file, clock, GRAMMAR, fold, None)

    @property
    def record(self) -> EditRecord | None:
        """What the lines so far mean; None before the first."""
        return self.state

    def open(self, opening: Opening) -> None:
        """Record whose edit it is; the first line."""
        self.check(What.OPEN, line_data(opening))

    def intend(self, changes: Collection[CommitChange]) -> int:
        """Record what is about to be written, with what it replaces; returns the number that `answered` refers to."""
        return self.intent(What.WRITE, {"changes": [change_data(change) for change in changes]})

    def answered(self, intent: int, answers: Mapping[TopicPartition, ItemError | str | None]) -> None:
        """Record the brokers' answers (None: accepted)."""
        rows = [[*key, None if error is None else str(error)] for key, error in sorted(answers.items())]
        self._write(RecordKind.EFFECT, What.WRITE, {"answers": rows}, intent)

    def found(self, standings: Mapping[TopicPartition, CommitStanding]) -> None:
        """Record which commits stand."""
        rows = [[*key, standing.value] for key, standing in sorted(standings.items())]
        self.check(What.FOUND, {"partitions": rows})

    def end(self, verdict: Verdict) -> None:
        """Record how it came out."""
        self.check(What.END, {"verdict": verdict.value})


class Edits:
    """The edits of one cluster on this host."""

    def __init__(self, folder: Path, clock: Clock, open_file: OpenFile = DiskFile) -> None:
        self._folder, self._clock, self._open_file = folder, clock, open_file

    def begin(self, verb: str, group: str) -> EditJournal:
        """A journal for a new edit, not on disk yet; names sort by time. Only one edit of a group may begin at once."""
        stamp = self._clock.now().strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        number = 0
        while True:
            tail = f".{number}" if number else ""
            path = self._folder / f"{stamp}{tail}-{verb}-{short_name(group)}{SUFFIX}"
            if not path.exists():
                return EditJournal(self._open_file(path), self._clock)
            number += 1

    def named(self, name: str) -> EditJournal:
        """The journal of a file, by path or by name in the folder; `UsageError` when there is none."""
        for path in (Path(name), self._folder / name, self._folder / f"{name}{SUFFIX}"):
            if path.is_file():
                journal = EditJournal(self._open_file(path.absolute()), self._clock)  # other journals name it
                if journal.record is None:
                    raise InputError(str(path), "holds no edit: it was stopped before its first line was written")
                return journal
        raise UsageError(f"there is no journal {name!r:.80}", hint=f"those of this host are in {self._folder}")

    def records(self) -> tuple[tuple[str, EditRecord], ...]:
        """Every edit with the path of its journal, oldest first; empty and damaged journals are passed over."""
        found = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")) if self._folder.is_dir() else ():
            try:
                record = EditJournal(self._open_file(path), self._clock).record
            except InputError:
                continue
            if record is not None:
                found.append((str(path), record))
        return tuple(found)

    def last(self, group: str | None = None) -> EditJournal:
        """The newest edit that can be undone: no undo itself, and not undone yet; `UsageError` when there is none."""
        records = self.records()
        undone = _undone(records)
        for path, record in reversed(records):
            is_asked = group is None or record.opening.group == group
            may_have_written = record.changes and record.verdict is not Verdict.NOTHING
            if is_asked and record.opening.undoes is None and may_have_written and Path(path).name not in undone:
                return self.named(path)
        raise self._none(group, "undone")

    def in_doubt(self, since: EditJournal, group: str | None = None) -> tuple[str, bool] | None:
        """The newest edit or undo after that one that did not get to write everything, or whose journal is damaged.

        Its path, and whether it is damaged; None when there is none. Where one is, `last` may not be the edit meant. An
        undo of that very edit is not in doubt: it is repeated.
        """
        undone = _undone(self.records())
        for path in sorted(self._folder.glob(f"*{SUFFIX}"), reverse=True):
            if path.name <= Path(since.name).name:
                return None
            try:
                record = EditJournal(self._open_file(path), self._clock).record
            except InputError:
                if group is None or path.stem.endswith(short_name(group)):
                    return str(path), True
                continue
            if record is None or path.name in undone or group not in (None, record.opening.group):
                continue
            if record.opening.undoes is not None and Path(record.opening.undoes).name == Path(since.name).name:
                continue
            if record.is_open or record.verdict is Verdict.INCOMPLETE:
                return str(path), False
        return None

    def last_unfinished(self, group: str | None = None) -> EditJournal:
        """The newest edit, or undo, that did not get to write everything; `UsageError` when there is none."""
        records = self.records()
        undone = _undone(records)
        for path, record in reversed(records):
            is_asked = group is None or record.opening.group == group
            is_unfinished = record.is_open or record.verdict is Verdict.INCOMPLETE
            if is_asked and is_unfinished and Path(path).name not in undone:
                return self.named(path)
        raise self._none(group, "finished")

    def interrupted(self, group: str) -> tuple[str, ...]:
        """The journals of edits of a group that may have written and did not end, oldest first."""
        records = self.records()
        undone = _undone(records)
        return tuple(
            path
            for path, record in records
            if record.opening.group == group and record.is_open and Path(path).name not in undone
        )

    def _none(self, group: str | None, what: str) -> UsageError:
        of_group = "" if group is None else f" of group {printable(group)}"
        return UsageError(f"no edit{of_group} is on record here that could be {what}", hint=f"looked in {self._folder}")


def _undone(records: Iterable[tuple[str, EditRecord]]) -> frozenset[str]:
    """The file names of edits that were taken back, whether or not their own journals got to say so."""
    names = set()
    for path, record in records:
        if record.verdict is Verdict.UNDONE:
            names.add(Path(path).name)
        elif record.opening.undoes is not None and record.verdict is Verdict.COMPLETE:
            names.add(Path(record.opening.undoes).name)
    return frozenset(names)


def short_name(group: str) -> str:
    """A few characters that tell groups apart in the names of files, whatever characters the groups' names have."""
    return sha256(group.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def edits_folder(state_dir: Path, cluster_id: str) -> Path:
    """Where the journals of a cluster's edits are; the cluster id was checked."""
    return state_dir / "commit-edits" / cluster_id


def edit_lock(state_dir: Path, cluster_id: str, group: str) -> Path:
    """The file that an edit of a group locks, so that another one on this host waits."""
    return state_dir / "locks" / f"{cluster_id}.commits-{short_name(group)}.lock"
