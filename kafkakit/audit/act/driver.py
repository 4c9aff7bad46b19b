"""Runs a driver of Spark: locks its run's folder, ships the code, follows its log, stops it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kafkakit.audit.decide.launch import DriverFiles, SparkChoice, launch_of
from kafkakit.audit.decide.progress import Progress, progress_of
from kafkakit.audit.decide.run_state import LOG, RUN_DOCUMENT, STATE, RunRecord
from kafkakit.core.errors import InterruptedRunError, OperationFailedError
from kafkakit.core.lease import Holder
from kafkakit.core.programs import Launch, SparkTools
from kafkakit.ports.acting import Clock
from kafkakit.ports.services import SparkDrivers

CODE = "kafkakit-code.zip"
LOOK_S = 0.2
TAIL_LINES = 5
_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverJob:
    """A program for Spark: `main` lies beside the job code, `arguments` are its own.

    `folder` is the run's folder on this host. With `whole_package` executors get all of kafkakit, for what talks to
    clusters; its dependencies must be where they run.
    """

    run: str
    folder: str
    arguments: tuple[str, ...]
    main: str = "main.py"
    whole_package: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPorts:
    """What driving needs of this host."""

    drivers: SparkDrivers
    clock: Clock
    write_file: Callable[[Path, bytes], None]


def launch_for(job: DriverJob, choice: SparkChoice, tools: SparkTools) -> Launch:
    """The process that `run_driver` starts."""
    main = str(Path(tools.code_folder) / job.main)
    code = str(Path(job.folder) / CODE)
    files = DriverFiles(name=f"kafkakit-{job.run}", main=main, arguments=job.arguments, code=code)
    return launch_of(choice, tools, files)


def run_driver(
    job: DriverJob,
    choice: SparkChoice,
    ports: DriverPorts,
    *,
    prepare: Callable[[], None],
    watch: Callable[[Progress], None],
    detach: bool = False,
) -> int | None:
    """Run a driver to its end and return its exit code, or None at once with `detach`.

    `prepare` writes what the driver reads, once the run's lock is held; the driver inherits the lock.
    `TryLaterError` while another process runs it. Ctrl-C stops the driver with all its processes and raises
    `InterruptedRunError`.
    """
    tools, folder = ports.drivers.tools(), Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with ports.drivers.lock(job.folder, f"run {job.run}") as lock:
        (folder / STATE).unlink(missing_ok=True)
        (folder / LOG).unlink(missing_ok=True)
        prepare()
        ports.drivers.write_code(str(folder / CODE), whole_package=job.whole_package)
        launch = launch_for(job, choice, tools)
        driver = ports.drivers.start(launch, str(folder / LOG), lock, job.run)
        started_ms = int(ports.clock.now().timestamp() * 1000)
        record = RunRecord(run=job.run, backend=choice.backend, started_ms=started_ms, driver=driver)
        try:
            write_record(job.folder, record, ports)
            return None if detach else _follow(driver, folder / LOG, ports, watch)
        except BaseException as error:
            ports.drivers.stop(driver)
            with suppress(OperationFailedError):
                write_record(job.folder, replace(record, stopped="interrupted"), ports)
            if not isinstance(error, KeyboardInterrupt):
                raise
            raise InterruptedRunError(
                f"run {job.run} was stopped before its end; it has no result", hint="the same command runs it again"
            ) from None


def write_record(folder: str, record: RunRecord, ports: DriverPorts) -> None:
    """Keep who runs a run, and how it was stopped."""
    ports.write_file(Path(folder) / STATE, RUN_DOCUMENT.encode(record))


def log_tail(folder: str, lines: int = TAIL_LINES, *, is_progress: bool = False) -> tuple[str, ...]:
    """The last lines of a driver's log, at most 64 KiB, or those of progress alone; lines of progress in words."""
    try:
        with (Path(folder) / LOG).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ()
    found = [line for line in text.splitlines() if line.strip() and (not is_progress or progress_of(line))][-lines:]
    return tuple(str(progress_of(line) or line.strip()) for line in found)


def _follow(driver: Holder, log: Path, ports: DriverPorts, watch: Callable[[Progress], None]) -> int:
    with log.open("rb") as stream:
        begun = b""
        while True:
            code = ports.drivers.exit_code(driver)  # before the read, so that the last lines are seen
            *lines, begun = (begun + stream.read()).split(b"\n")
            for line in lines:
                progress = progress_of(line.decode("utf-8", "replace"))
                if progress is not None:
                    watch(progress)
            if code is not None:
                return code
            ports.clock.sleep(LOOK_S)
