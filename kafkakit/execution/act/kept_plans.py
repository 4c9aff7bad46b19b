"""The plans of runs, kept like their journals: a run outlives its plan file, which may be changed or deleted."""

from pathlib import Path

from kafkakit.core.documents import PLAN_LIMIT_BYTES, decode_plan, encode_plan
from kafkakit.core.errors import InputError, RefusedError
from kafkakit.core.plan import Plan, identity_of
from kafkakit.execution.act.journal_file import DiskFile, LineFile, write_whole
from kafkakit.execution.act.run_journal import RunJournal, journal_files, journal_path, plan_path, read_run_state
from kafkakit.execution.decide.journal import DAMAGED_HINT
from kafkakit.execution.decide.journal_state import RunState
from kafkakit.execution.decide.runs import choose_run
from kafkakit.ports.clock import Clock


def keep_plan(plan: Plan, state_dir: Path) -> None:
    """Write the plan into the state directory, unless it is there; raises `OperationFailedError`."""
    path = _kept(journal_path(state_dir, plan.cluster_id, identity_of(plan)))
    data = encode_plan(plan)
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    write_whole(path, data)


def plan_of(journal: Path, state: RunState) -> Plan | None:
    """The plan of a journal: the one that was kept, else the file it came from while that is still the same plan."""
    sources = [_kept(journal), *([Path(state.plan_path)] if state.plan_path not in ("", "-") else [])]
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
        lines = [f"{program} reassign {verb} --run {state.run_id}" for verb in ("resume", "abort", "close")]
        raise RefusedError(
            f"{path} is the plan of an unfinished run, {state.run_id}, and is not overwritten",
            hint="\n".join(("name another file, or end the run:", *lines)),
        )


def _kept(journal: Path) -> Path:
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
