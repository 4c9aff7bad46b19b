"""The journal of a plan's runs, and where journals and locks of a cluster are kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkakit.core.errors import InputError
from kafkakit.core.journal_lines import RecordKind
from kafkakit.core.plan import Plan, identity_of
from kafkakit.execution.act.journal_file import DiskFile, LineFile
from kafkakit.execution.act.line_journal import LineJournal
from kafkakit.execution.decide.journal import GRAMMAR, What, decode_journal
from kafkakit.execution.decide.journal_state import RunState, fold, replay
from kafkakit.ports.clock import Clock


class RunJournal(LineJournal[What, RunState]):
    """One plan's journal; its first line names the plan."""

    def __init__(self, file: LineFile, clock: Clock, *, cluster_id: str, fingerprint: str) -> None:
        self._identity = {"cluster_id": cluster_id, "fingerprint": fingerprint}
        super().__init__(file, clock, GRAMMAR, fold, RunState())

    def reload(self) -> None:
        """Read the file again; raises `InputError` for the journal of another plan."""
        super().reload()
        if not self.is_empty and (self.state.cluster_id, self.state.fingerprint) != tuple(self._identity.values()):
            raise InputError(self.name, "is the journal of another plan", hint="move the file away")

    def effect(self, of: int, data: Mapping[str, Any]) -> None:
        """Record that the intent was carried out, with the per-item answers in `data`."""
        self._write(RecordKind.EFFECT, self.state.open_intents[of].what, data, of)

    def _write(self, kind: RecordKind, what: What, data: Mapping[str, Any], of: int | None = None) -> int:
        if self.is_empty and what is not What.OPEN:
            self.check(What.OPEN, self._identity)
        return super()._write(kind, what, data, of)


def plan_journal(plan: Plan, state_dir: Path, clock: Clock) -> tuple[RunJournal, tuple[DiskFile, ...]]:
    """The journal of a plan on this host, and those of other plans for the same cluster."""
    identity = identity_of(plan)
    file = DiskFile(journal_path(state_dir, plan.cluster_id, identity))
    others = tuple(f for f in journal_files(state_dir, plan.cluster_id) if f.path != file.path)
    return RunJournal(file, clock, cluster_id=plan.cluster_id, fingerprint=identity), others


def existing_journal(file: LineFile, clock: Clock) -> RunJournal:
    """The journal of whichever plan `file` is of; raises `InputError` for a damaged one."""
    state = read_run_state(file)
    return RunJournal(file, clock, cluster_id=state.cluster_id, fingerprint=state.fingerprint)


def read_run_state(file: LineFile) -> RunState:
    """What the journal in `file` means; raises `InputError` for a damaged one."""
    return replay(decode_journal(file.read(), file.name).records, file.name)


def journal_path(state_dir: Path, cluster_id: str, identity: str) -> Path:
    """The file that a plan's journal is kept in; the cluster id was checked, `identity` is `plan.identity_of`."""
    return state_dir / "journals" / cluster_id / f"{identity.removeprefix('sha256:')[:20]}.journal"


def plan_path(state_dir: Path, cluster_id: str, identity: str) -> Path:
    """The file that the plan of a run is kept in."""
    return state_dir / "plans" / cluster_id / f"{identity.removeprefix('sha256:')[:20]}.json"


def lock_path(state_dir: Path, cluster_id: str) -> Path:
    """The file whose lock makes a run the only one on this host that changes the cluster."""
    return state_dir / "locks" / f"{cluster_id}.lock"


def journal_files(state_dir: Path, cluster_id: str) -> tuple[DiskFile, ...]:
    """All journals of a cluster on this host, by file name."""
    return tuple(DiskFile(p) for p in sorted((state_dir / "journals" / cluster_id).glob("*.journal")))
