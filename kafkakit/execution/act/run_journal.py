"""The runs of this host: their journals, their plans, and where journals and locks of a cluster are kept.

A plan is kept like its journal: a run outlives its plan file, which may be changed or deleted. The start of a run is
recorded a second time beside its plan until the run ends, which tells of runs whose journal is lost. Runs of a
cluster are known from journals and plan files, which are read again only when they changed.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkakit.core.documents import PLAN_LIMIT_BYTES, decode_plan, encode_plan
from kafkakit.core.errors import InputError, OperationFailedError, RefusedError
from kafkakit.core.journal_lines import FIRST_PREV, Line, RecordKind, encode_line, line_hash, read_lines
from kafkakit.core.plan import Plan, identity_of
from kafkakit.core.text import shell_command
from kafkakit.execution.act.journal_files import DiskFile, LineFile, LineJournal, write_whole
from kafkakit.execution.decide.journal import (
    DAMAGED_HINT,
    ENDED,
    GRAMMAR,
    JournalSubject,
    Record,
    RunState,
    decode_journal,
    fold,
    run_id_of,
)
from kafkakit.execution.decide.runs import RecoveredThrottles, choose_run
from kafkakit.execution.decide.status_looks import KnownRun
from kafkakit.ports.acting import Clock


class RunJournal(LineJournal[JournalSubject, RunState]):
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

    def adopt(self, found: RecoveredThrottles, plan_path: str) -> None:
        """Record what was found on the cluster of a run whose lines are missing."""
        problem = self.state.salvaged or ("the journal is lost" if not self.state.runs else "its last lines are lost")
        self.check(JournalSubject.SALVAGED, {"problem": problem, "plan_path": plan_path, **found.as_data()})

    def check(self, what: JournalSubject, data: Mapping[str, Any]) -> Record:
        """Record something found or decided; the start of a run is kept a second time until the run ended."""
        if what is JournalSubject.END and data["verdict"] in ENDED:
            forget_begun(self._file)
        if what is not JournalSubject.START or not isinstance(self._file, DiskFile):
            return super().check(what, data)
        line = super().check(what, {**data, "copied": True})
        keep_begun(self._file, self._identity, line)
        return line

    def effect(self, of: int, data: Mapping[str, Any]) -> None:
        """Record that the intent was carried out, with the per-item answers in `data`."""
        self._write(RecordKind.EFFECT, self.state.open_intents[of].what, data, of)

    def _write(self, kind: RecordKind, what: JournalSubject, data: Mapping[str, Any], of: int | None = None) -> Record:
        damage = self.damage
        if self.is_empty and what is not JournalSubject.OPEN:
            self.check(JournalSubject.OPEN, self._identity)
        if damage and what not in (JournalSubject.OPEN, JournalSubject.SALVAGED):
            self.check(JournalSubject.SALVAGED, {"problem": damage, **RecoveredThrottles().as_data()})
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


def foreign_journal(state_dir: Path, cluster_id: str, clock: Clock) -> RunJournal:
    """The journal of what was done to moves and throttles of others; it is of no plan, and runs do not read it."""
    file = DiskFile(state_dir / "foreign" / cluster_id / "foreign.journal")
    return RunJournal(file, clock, cluster_id=cluster_id, fingerprint="foreign")


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
    return run_id_of(identity, 20)


def plan_path(state_dir: Path, cluster_id: str, identity: str) -> Path:
    """The file that the plan of a run is kept in."""
    return state_dir / "plans" / cluster_id / f"{_stem(identity)}.json"


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


def begun_path(journal: Path) -> Path:
    """Where the start of the run is kept."""
    return journal.parents[2] / "plans" / journal.parent.name / f"{journal.stem}.begun"


def keep_begun(file: LineFile, identity: Mapping[str, Any], start: Record) -> None:
    """Keep the start of a run, as a journal of two lines; raises `OperationFailedError`."""
    if not isinstance(file, DiskFile):
        return
    check = RecordKind.CHECK
    opening = encode_line(
        Line(seq=0, time=start.time, prev=FIRST_PREV, kind=check, what=JournalSubject.OPEN, data=identity), GRAMMAR
    )
    line = Line(seq=1, time=start.time, prev=line_hash(opening), kind=check, what=JournalSubject.START, data=start.data)
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
    return next((r for r in records if r.what is JournalSubject.START), None)


def keep_plan(plan: Plan, state_dir: Path) -> None:
    """Write the plan into the state directory, unless it is there; raises `OperationFailedError`."""
    path = _kept_plan(journal_path(state_dir, plan.cluster_id, identity_of(plan)))
    data = encode_plan(plan)
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    write_whole(path, data)


def plan_of(journal: Path, state: RunState) -> Plan | None:
    """The plan of a journal: the one that was kept, else the file it came from while that is still the same plan."""
    sources = [_kept_plan(journal), *([Path(state.plan_path)] if state.plan_path not in ("", "-") else [])]
    return next((plan for path in sources if (plan := _plan_in(path, state.fingerprint)) is not None), None)


def existing_journal(file: LineFile, clock: Clock) -> RunJournal:
    """The journal of whichever plan `file` is of; raises `InputError` for one that does not tell, and has no plan."""
    state = read_run_state(file)
    identity = state.fingerprint
    if state.salvaged and isinstance(file, DiskFile) and (plan := plan_of(file.path, state)) is not None:
        identity = identity_of(plan)
    elif state.salvaged and not state.runs:
        raise InputError(file.name, state.salvaged.removeprefix(f"{file.name}: "), hint=DAMAGED_HINT)
    return RunJournal(file, clock, cluster_id=state.cluster_id, fingerprint=identity)


def find_run(
    state_dir: Path, cluster_id: str, wanted: str, token: int | None, command: str
) -> tuple[DiskFile, RunState]:
    """The journal of the run that is meant, see `choose_run`; raises `UsageError` when none is."""
    files = {f: read_run_state(f) for f in journal_files(state_dir, cluster_id)}
    state = choose_run(tuple(files.values()), wanted, token, command)
    return next((f, s) for f, s in files.items() if s is state)


def require_no_unfinished(path: Path, state_dir: Path, program: str) -> None:
    """Raise `RefusedError` when the file holds the plan of an unfinished run: it must not be overwritten."""
    try:
        plan = decode_plan(path.read_bytes(), str(path)) if path.stat().st_size <= PLAN_LIMIT_BYTES else None
    except (OSError, InputError):
        return
    if plan is None:
        return
    state = read_run_state(DiskFile(journal_path(state_dir, plan.cluster_id, identity_of(plan))))
    if state.unsettled:
        lines = [
            str(shell_command(f"reassign {verb}", program=program, run=state.run_id))
            for verb in ("resume", "abort", "close")
        ]
        raise RefusedError(
            f"{path} is the plan of an unfinished run, {state.run_id}, and is not overwritten",
            hint="\n".join(("name another file, or end the run:", *lines)),
        )


def _kept_plan(journal: Path) -> Path:
    cluster_id = journal.parent.name
    return plan_path(journal.parents[2], cluster_id, journal.stem)


def _plan_in(path: Path, identity: str) -> Plan | None:
    try:
        if path.stat().st_size > PLAN_LIMIT_BYTES:
            return None
        plan = decode_plan(path.read_bytes(), str(path))
    except (OSError, InputError):
        return None
    return plan if identity and identity_of(plan).startswith(identity) else None


class KnownRuns:
    """The runs of one cluster; `damaged` says what cannot be read, and why."""

    def __init__(self, state_dir: Path, cluster_id: str) -> None:
        self._state_dir, self._cluster_id = state_dir, cluster_id
        self._known: dict[str, tuple[tuple[int, int], KnownRun]] = {}
        self.damaged: tuple[str, ...] = ()

    def read(self) -> tuple[KnownRun, ...]:
        """All runs by journal name; one that is damaged is left out and named in `damaged`."""
        found: list[KnownRun] = []
        damaged: list[str] = []
        for file in journal_files(self._state_dir, self._cluster_id):
            try:
                stamp = _stamp(file.path)
                earlier = self._known.get(file.name)
                state = earlier[1].state if earlier is not None and earlier[0] == stamp else read_run_state(file)
            except InputError as error:
                damaged.append(error.message)
                continue
            plan = earlier[1].plan if earlier is not None else None
            if plan is None and state.unsettled:
                plan = plan_of(file.path, state)
            if state.salvaged:
                damaged.append(state.salvaged)
            run = KnownRun(journal=file.name, state=state, plan=plan)
            self._known[file.name] = (stamp, run)
            found.append(run)
        self.damaged = tuple(damaged)
        return tuple(found)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:  # a journal that is lost
        return 0, 0
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    return found.st_mtime_ns, found.st_size
