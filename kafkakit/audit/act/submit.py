"""Submits a run of audits and waits for its result."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkakit.audit.act.driver import CODE, DriverJob, DriverPorts, log_tail, run_driver
from kafkakit.audit.act.results import SPEC, SUMMARY, read_results, read_run
from kafkakit.audit.decide.launch import Backend, SparkChoice
from kafkakit.audit.decide.progress import Progress
from kafkakit.audit.decide.run_state import STATE, RunPhase, RunState, state_of
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.fleet_tables import JobSpec, spec_data
from kafkakit.ports.stores import RunStore

MAIN = "main.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTask:
    """A run to submit: `location` is its folder, `folder` where its state and log lie on this host."""

    spec: JobSpec
    choice: SparkChoice
    location: str
    folder: str
    again: bool = False
    detach: bool = False

    @property
    def job(self) -> DriverJob:
        """The driver's program."""
        return DriverJob(run=self.spec.run_id, folder=self.folder, arguments=("--spec", str(Path(self.folder) / SPEC)))


def earlier_state(task: SubmitTask, store: RunStore) -> RunState | None:
    """The state of a run of the very same spec whose jobs all came to their end; None for none, or with `--again`.

    A snapshot that was collected anew makes another spec of the same run: then it runs again.
    """
    if task.again:
        return None
    try:
        run = read_run(store)
    except InputError:
        return None
    if run.spec != task.spec or run.results is None or any(result.error for result in run.results):
        return None
    return state_of(task.location, task.spec.run_id, run.results, None, None)


def submit(task: SubmitTask, store: RunStore, ports: DriverPorts, watch: Callable[[Progress], None]) -> RunState:
    """Run the driver and read its result; the state of the run where it failed, or runs on with `detach`."""

    def prepare() -> None:
        # First the summary, then what it was made of: what is there without a summary is not whole.
        store.delete(SUMMARY)
        data = spec_bytes(task.spec)
        store.write(SPEC, data)
        if task.folder != task.location:
            ports.write_file(Path(task.folder) / SPEC, data)

    code = run_driver(task.job, task.choice, ports, prepare=prepare, watch=watch, detach=task.detach)
    if code is None:
        return RunState(run=task.spec.run_id, location=task.location, phase=RunPhase.RUNNING, reason="detached")
    state = state_of(task.location, task.spec.run_id, read_results(store), None, None)
    if state.phase is not RunPhase.SUBMITTED:
        return state
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    tail = " | ".join(log_tail(task.folder))
    return RunState(
        run=state.run,
        location=task.location,
        phase=RunPhase.FAILED,
        reason=f"the driver ended with {ended} and without a result; the log ends: {tail}",
    )


def upload(task: SubmitTask, store: RunStore, ports: DriverPorts) -> None:
    """Put into the run's folder what a cluster of Kubernetes reads there: spec, program and code.

    `UsageError` when the output is a folder of this host.
    """
    if task.folder == task.location:
        raise UsageError(f"--backend {Backend.K8S} needs an --output that its pods can reach, such as s3a://BUCKET/DIR")
    folder = Path(task.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STATE).unlink(missing_ok=True)  # an earlier driver of this host is not that of the run
    ports.drivers.write_code(str(folder / CODE), whole_package=False)
    store.delete(SUMMARY)
    store.write(SPEC, spec_bytes(task.spec))
    store.write(CODE, (folder / CODE).read_bytes())
    store.write(MAIN, (Path(ports.drivers.code_folder()) / MAIN).read_bytes())


def spec_bytes(spec: JobSpec) -> bytes:
    """The file of a spec."""
    return (json.dumps(spec_data(spec), indent=1) + "\n").encode()
