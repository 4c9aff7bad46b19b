"""Finds snapshots, and looks after runs: their state, logs, copies of their results, and stopping them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kafkakit.audit.act.driver import DriverPorts, log_tail, write_record
from kafkakit.audit.act.results import SPEC, finished_run, read_results, read_run
from kafkakit.audit.act.scope import read_scope
from kafkakit.audit.act.submit import SubmitTask
from kafkakit.audit.decide.launch import SparkChoice
from kafkakit.audit.decide.request import AuditRequest, snapshot_date, spec_of_request
from kafkakit.audit.decide.run_state import RUN_DOCUMENT, STATE, RunPhase, RunRecord, RunState, state_of
from kafkakit.core.errors import InputError, RefusedError
from kafkakit.core.fleet_tables import MANIFESTS, Manifest, manifest_of
from kafkakit.core.lease import Life
from kafkakit.ports.stores import RunStore

_DATE = "snapshot_date="


def known_dates(store: RunStore) -> tuple[str, ...]:
    """The dates of which the store has a manifest, oldest first. One listing."""
    return tuple(name.removeprefix(_DATE) for name in store.names(MANIFESTS) if name.startswith(_DATE))


def complete_manifests(store: RunStore, snapshot_date: str) -> tuple[Manifest, ...]:
    """What was collected whole on a date, of each source. Reads each manifest of the date."""
    folder, found = f"{MANIFESTS}/{_DATE}{snapshot_date}", []
    for name in store.names(folder):
        try:
            found.append(manifest_of(json.loads(store.read(f"{folder}/{name}") or b"")))
        except (ValueError, AttributeError):
            continue
    return tuple(manifest for manifest in found if manifest.is_complete)


OpenStore = Callable[[str], RunStore]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Where a run is: `location` holds its results, `folder` of this host its state and log."""

    location: str
    folder: str

    @property
    def run(self) -> str:
        """The run's id."""
        return self.location.rpartition("/")[2]


def place_of(location: str, state_dir: Path) -> RunPlace:
    """A run's place: one folder on a disk, or one below a URI beside one below `state_dir`."""
    if "://" not in location:
        folder = str(Path(location).absolute())
        return RunPlace(location=folder, folder=folder)
    location = location.rstrip("/")
    return RunPlace(location=location, folder=str(state_dir / "audits" / location.rpartition("/")[2]))


def task_for(
    request: AuditRequest, choice: SparkChoice, ports: DriverPorts, open_store: OpenStore, state_dir: Path, version: str
) -> SubmitTask:
    """The run that a request asks for. Lists the dates of its store and reads the manifests of one."""
    choice.check()
    now = ports.clock.now()
    store = open_store(request.input)
    known = known_dates(store)
    wanted = snapshot_date(request, known, now.date().isoformat())
    manifests = complete_manifests(store, wanted)
    names = sorted({manifest.cluster for manifest in manifests if not manifest.source})
    spec = spec_of_request(
        request,
        known=known,
        wanted=wanted,
        taken_ms=max((manifest.ended_ms for manifest in manifests), default=None),
        now_ms=int(now.timestamp() * 1000),
        version=version,
        scope=read_scope(request.scope, store, wanted, names),
    )
    place = place_of(f"{request.output.rstrip('/')}/{spec.run_id}", state_dir)
    return SubmitTask(spec=spec, choice=choice, location=place.location, folder=place.folder)


def look(place: RunPlace, store: RunStore, ports: DriverPorts) -> RunState:
    """The state of a run; `InputError` where there is none."""
    run = read_run(store)
    record = _record(place)
    life = ports.drivers.life(record.driver) if record is not None and record.driver is not None else None
    # Once more: the driver may have ended between the two looks.
    results = run.results if run.results is not None else read_results(store)
    tail = log_tail(place.folder, is_progress=True) if life is Life.ALIVE else log_tail(place.folder)
    return state_of(place.location, place.run, results, record, life, tail)


def look_all(output: str, open_store: OpenStore, ports: DriverPorts, state_dir: Path) -> tuple[RunState, ...]:
    """The states of all runs below an output, by name; what is no run is left out. Some reads for each."""
    found = []
    for name in open_store(output).names():
        place = place_of(f"{output.rstrip('/')}/{name}", state_dir)
        store = open_store(place.location)
        if SPEC in store.names():
            found.append(look(place, store, ports))
    return tuple(found)


def cancel(place: RunPlace, store: RunStore, ports: DriverPorts) -> RunState:
    """Stop the driver of a run; `RefusedError` where none runs on this host."""
    record, before = _record(place), look(place, store, ports)
    if before.phase is not RunPhase.RUNNING or record is None or record.driver is None:
        raise RefusedError(f"run {place.run} cannot be stopped from here: {before.phase}; {before.reason}".rstrip("; "))
    ports.drivers.stop(record.driver)
    write_record(place.folder, replace(record, stopped="cancelled"), ports)
    return look(place, store, ports)


def fetch(store: RunStore, folder: Path) -> tuple[str, ...]:
    """Copy a run that has come to its end to a folder of this host; returns the paths of its files.

    The folder must be empty or new, so that two runs are never mixed.
    """
    finished_run(store)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(str(folder), "is not empty", hint="name a new folder")
    return store.copy_to(str(folder))


def _record(place: RunPlace) -> RunRecord | None:
    path = Path(place.folder) / STATE
    try:
        return RUN_DOCUMENT.decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
