"""The journal of a plan's runs, and where journals and locks of a cluster are kept."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkakit.core.errors import InputError
from kafkakit.core.journal_lines import RecordKind, read_lines
from kafkakit.core.plan import Plan, identity_of
from kafkakit.execution.act.begun_runs import begun_line, forget_begun, has_ended, keep_begun
from kafkakit.execution.act.journal_file import DiskFile, LineFile
from kafkakit.execution.act.line_journal import LineJournal
from kafkakit.execution.decide.journal import GRAMMAR, Record, What
from kafkakit.execution.decide.journal_state import ENDED, RunState, fold
from kafkakit.execution.decide.recovery import Recovered
from kafkakit.ports.clock import Clock


class RunJournal(LineJournal[What, RunState]):
    """One plan's journal; its first line names the plan."""

    def __init__(self, file: LineFile, clock: Clock, *, cluster_id: str, fingerprint: str) -> None:
        self._identity = {"cluster_id": cluster_id, "fingerprint": fingerprint}
        super().__init__(file, clock, GRAMMAR, fold, RunState())

    def reload(self) -> None:
        """Read the file again; raises `InputError` for the journal of another plan."""
        super().reload()
        self.state = _with_loss(self._file, self.damage, self.state, **self._identity)
        if not self.is_empty and (self.state.cluster_id, self.state.fingerprint) != tuple(self._identity.values()):
            raise InputError(self.name, "is the journal of another plan", hint="move the file away")

    @property
    def is_lost(self) -> bool:
        """True when lines are missing, or all of them: the cluster may then have more of this plan's runs."""
        return not self.state.runs or bool(self.state.salvaged)

    def adopt(self, found: Recovered, plan_path: str) -> None:
        """Record what was found on the cluster of a run whose lines are missing."""
        problem = self.state.salvaged or ("the journal is lost" if not self.state.runs else "its last lines are lost")
        self.check(What.SALVAGED, {"problem": problem, "plan_path": plan_path, **found.as_data()})

    def check(self, what: What, data: Mapping[str, Any]) -> Record:
        """Record something found or decided; the start of a run is kept a second time until the run ended."""
        if what is What.END and data["verdict"] in ENDED:
            forget_begun(self._file)
        if what is not What.START or not isinstance(self._file, DiskFile):
            return super().check(what, data)
        line = super().check(what, {**data, "copied": True})
        keep_begun(self._file, self._identity, line)
        return line

    def effect(self, of: int, data: Mapping[str, Any]) -> None:
        """Record that the intent was carried out, with the per-item answers in `data`."""
        self._write(RecordKind.EFFECT, self.state.open_intents[of].what, data, of)

    def _write(self, kind: RecordKind, what: What, data: Mapping[str, Any], of: int | None = None) -> Record:
        damage = self.damage
        if self.is_empty and what is not What.OPEN:
            self.check(What.OPEN, self._identity)
        if damage and what not in (What.OPEN, What.SALVAGED):
            self.check(What.SALVAGED, {"problem": damage, **Recovered().as_data()})
        return super()._write(kind, what, data, of)


def plan_journal(plan: Plan, state_dir: Path, clock: Clock) -> tuple[RunJournal, tuple[DiskFile, ...]]:
    """The journal of a plan on this host, and those of other plans for the same cluster."""
    identity = identity_of(plan)
    file = plan_journal_file(plan, state_dir)
    others = tuple(f for f in journal_files(state_dir, plan.cluster_id) if f.path != file.path)
    return RunJournal(file, clock, cluster_id=plan.cluster_id, fingerprint=identity), others


def plan_journal_file(plan: Plan, state_dir: Path) -> DiskFile:
    """Where the journal of a plan's runs is kept."""
    return DiskFile(journal_path(state_dir, plan.cluster_id, identity_of(plan)))


def read_run_state(file: LineFile) -> RunState:
    """What the journal in `file` means: `salvaged` where it is damaged or lost, as far as its beginning is sound."""
    text, state = read_lines(file.read(), file.name, RunState(), fold, GRAMMAR)
    *_, cluster_id, name = ("", "", *file.name.split("/"))
    return _with_loss(file, text.damage, state, cluster_id, f"sha256:{name.removesuffix('.journal')}")


def _with_loss(file: LineFile, damage: str, state: RunState, cluster_id: str, fingerprint: str) -> RunState:
    """The state with what is known of lines that are missing; cluster and plan may be told by them alone."""
    begun = begun_line(file)
    if (damage or state.unsettled) and state.copied and has_ended(file):
        # Which direction the last run had, and how it ended, stood in the lines that are missing.
        return replace(state, unsettled=False, paused=False, salvaged="", verdict="")
    if begun is not None and begun.time != state.began_at:
        damage = damage or f"{file.name}: the lines of the last run are missing"
        state = fold(state, begun)
    if not damage:
        return state
    return replace(
        state,
        salvaged=damage,
        unsettled=True,
        cluster_id=state.cluster_id or cluster_id,
        fingerprint=state.fingerprint or fingerprint,
    )


def journal_path(state_dir: Path, cluster_id: str, identity: str) -> Path:
    """The file that a plan's journal is kept in; the cluster id was checked, `identity` is `plan.identity_of`."""
    return state_dir / "journals" / cluster_id / f"{_stem(identity)}.journal"


def _stem(identity: str) -> str:
    return identity.removeprefix("sha256:")[:20]


def plan_path(state_dir: Path, cluster_id: str, identity: str) -> Path:
    """The file that the plan of a run is kept in."""
    return state_dir / "plans" / cluster_id / f"{identity.removeprefix('sha256:')[:20]}.json"


def is_journal_of(file: LineFile, plan: Plan) -> bool:
    """True when the file is where the plan's journal is kept."""
    return isinstance(file, DiskFile) and file.path.stem == _stem(identity_of(plan))


def lock_path(state_dir: Path, cluster_id: str) -> Path:
    """The file whose lock makes a run the only one on this host that changes the cluster."""
    return state_dir / "locks" / f"{cluster_id}.lock"


def journal_files(state_dir: Path, cluster_id: str) -> tuple[DiskFile, ...]:
    """All journals of a cluster on this host, by file name; those of unfinished runs even where they are gone."""
    found = {path.stem for path in (state_dir / "journals" / cluster_id).glob("*.journal")}
    begun = {path.stem for path in (state_dir / "plans" / cluster_id).glob("*.begun")}
    return tuple(DiskFile(journal_path(state_dir, cluster_id, name)) for name in sorted(found | begun))
