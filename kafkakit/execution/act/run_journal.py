"""The journal on disk: append one line, fsync, and only then act."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkakit.core.errors import InputError, OperationFailedError
from kafkakit.core.journal_lines import RecordKind, line_hash
from kafkakit.execution.act.journal_file import DiskFile, LineFile
from kafkakit.execution.decide.journal import Record, What, decode_journal, encode_record
from kafkakit.execution.decide.journal_state import RunState, fold, replay
from kafkakit.ports.clock import Clock


class Journal:
    """One plan's journal, open for writing; `state` is always what the lines so far mean."""

    def __init__(self, file: LineFile, clock: Clock, *, cluster_id: str, fingerprint: str) -> None:
        self._file, self._clock = file, clock
        self._identity = {"cluster_id": cluster_id, "fingerprint": fingerprint}
        self.name = file.name
        self.state = RunState()
        self._seq, self._prev, self._size, self._torn_at = 0, "", 0, -1
        self.reload()

    def reload(self) -> None:
        """Read the file anew: after an interrupt, what is on disk counts and not what was being done."""
        data = self._file.read()
        text = decode_journal(data, self.name)
        self.state = replay(text.records, self.name)
        self._seq, self._prev = len(text.records), text.last_hash
        self._size = text.whole_bytes
        self._torn_at = self._size if self._size != len(data) else -1
        if self._seq and (self.state.cluster_id, self.state.fingerprint) != tuple(self._identity.values()):
            raise InputError(self.name, "is the journal of another plan", hint="move the file away")

    def intent(self, what: What, data: Mapping[str, Any]) -> int:
        """Record what is about to be done; returns the number that the effect refers to."""
        return self._write(RecordKind.INTENT, what, data)

    def effect(self, of: int, data: Mapping[str, Any]) -> None:
        """Record that the intent was carried out, with the per-item answers in `data`."""
        self._write(RecordKind.EFFECT, self.state.open_intents[of].what, data, of)

    def check(self, what: What, data: Mapping[str, Any]) -> None:
        """Record something found or decided."""
        self._write(RecordKind.CHECK, what, data)

    def _write(self, kind: RecordKind, what: What, data: Mapping[str, Any], of: int | None = None) -> int:
        if self._seq == 0 and what is not What.OPEN:
            self._write(RecordKind.CHECK, What.OPEN, self._identity)
        if self._torn_at >= 0:
            self._file.cut(self._torn_at)
            self._torn_at = -1
        record = Record(seq=self._seq, time=self._clock.now(), prev=self._prev, kind=kind, what=what, of=of, data=data)
        line = encode_record(record)
        try:
            self._file.append(line)
        except OperationFailedError:
            self._torn_at = self._size  # a full disk takes part of a line; what is written next must not join it
            raise
        self.state = fold(self.state, record)
        self._seq, self._prev, self._size = self._seq + 1, line_hash(line), self._size + len(line)
        return record.seq


def journal_path(state_dir: Path, cluster_id: str, identity: str) -> Path:
    """The file that a plan's journal is kept in; the cluster id was checked, `identity` is `plan.identity_of`."""
    return state_dir / "journals" / cluster_id / f"{identity.removeprefix('sha256:')[:20]}.journal"


def lock_path(state_dir: Path, cluster_id: str) -> Path:
    """The file whose lock makes a run the only one on this host that changes the cluster."""
    return state_dir / "locks" / f"{cluster_id}.lock"


def journal_files(state_dir: Path, cluster_id: str) -> tuple[DiskFile, ...]:
    """All journals of a cluster on this host, by file name."""
    return tuple(DiskFile(p) for p in sorted((state_dir / "journals" / cluster_id).glob("*.journal")))
