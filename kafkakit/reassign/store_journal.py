"""The journal on disk: append one line, fsync, and only then act."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from kafkakit.errors import InputError, OperationFailedError
from kafkakit.ports import Clock
from kafkakit.reassign.journal import (
    Record,
    RecordKind,
    What,
    decode_journal,
    encode_record,
    line_hash,
)
from kafkakit.reassign.journal_state import RunState, fold, replay

LIMIT_BYTES = 1 << 30


class LineFile(Protocol):
    """Where journal lines are kept."""

    name: str

    def read(self) -> bytes:
        """All bytes, empty when there is no file yet."""
        ...

    def append(self, line: bytes) -> None:
        """Add one line and return once it is on disk."""
        ...

    def cut(self, size: int) -> None:
        """Drop everything after the first `size` bytes (a torn line)."""
        ...


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


class DiskFile:
    """Journal lines in a file of mode 0600; the folder is made with the first line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def read(self) -> bytes:
        """All bytes; raises `InputError` for a file that cannot be read or is absurdly large."""
        try:
            if self.path.stat().st_size > LIMIT_BYTES:
                raise InputError(self.name, f"is larger than {LIMIT_BYTES} bytes", hint="move the file away")
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(self.name, f"cannot be read: {error.strerror}") from None

    def append(self, line: bytes) -> None:
        """Write, fsync, and fsync the folder when the file is new; raises `OperationFailedError`."""
        try:
            new = not self.path.exists()
            if new:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _write_all(fd, line)
                os.fsync(fd)
            finally:
                os.close(fd)
            if new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise OperationFailedError(
                f"the journal {self.name} cannot be written: {error.strerror}", hint="nothing is done without a journal"
            ) from None

    def cut(self, size: int) -> None:
        """Truncate and fsync; raises `OperationFailedError`."""
        try:
            if self.path.exists():
                with self.path.open("r+b") as file:
                    file.truncate(size)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise OperationFailedError(f"the journal {self.name} cannot be written: {error.strerror}") from None


def journal_path(state_dir: Path, cluster_id: str, identity: str) -> Path:
    """The file that a plan's journal is kept in; the cluster id was checked, `identity` is `plan.identity_of`."""
    return state_dir / "journals" / cluster_id / f"{identity.removeprefix('sha256:')[:20]}.journal"


def lock_path(state_dir: Path, cluster_id: str) -> Path:
    """The file whose lock makes a run the only one on this host that changes the cluster."""
    return state_dir / "locks" / f"{cluster_id}.lock"


def journal_files(state_dir: Path, cluster_id: str) -> tuple[DiskFile, ...]:
    """All journals of a cluster on this host, by file name."""
    return tuple(DiskFile(p) for p in sorted((state_dir / "journals" / cluster_id).glob("*.journal")))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
