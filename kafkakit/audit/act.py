"""Runs of audits: submitted to a Spark driver and waited for, looked after, stopped, and read.

A driver's run locks its folder, gets the code, and its log is followed. A run's folder holds the spec, the summary,
findings and tables; with it is read what earlier runs tell: the one before, the first dates, numbers over the days. Of
a store is read what choosing clusters, topics and brokers needs.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kafkakit.audit.decide.launch import Backend, DriverFiles, EngineFacts, SparkChoice, launch_of, settle_choice
from kafkakit.audit.decide.request import (
    AuditRequest,
    AuditScope,
    Rows,
    ScopeRequest,
    chosen_brokers,
    chosen_clusters,
    chosen_topics,
    snapshot_date,
    spec_of_request,
    tables_for_brokers,
    tables_for_topics,
)
from kafkakit.audit.decide.runs import (
    LOG,
    RUN_DOCUMENT,
    STATE,
    AuditState,
    DirForecast,
    JobProgress,
    Key,
    RunPhase,
    RunRecord,
    RunResults,
    compare,
    key_of,
    progress_of,
    state_of,
    with_since,
)
from kafkakit.audit.report.page import DISTRIBUTIONS
from kafkakit.audit.report.results import AuditView, Columns, worst_first
from kafkakit.core.errors import InputError, InterruptedRunError, OperationFailedError, RefusedError, UsageError
from kafkakit.core.findings import AuditFinding
from kafkakit.core.fleet_tables import (
    MANIFESTS,
    STORE_LINKS,
    TABLES,
    JobResult,
    JobSpec,
    Manifest,
    manifest_of,
    results_of,
    spec_data,
    spec_of,
)
from kafkakit.core.lease import Holder, Life
from kafkakit.core.programs import Launch, SparkTools
from kafkakit.core.text import shell_command
from kafkakit.ports.acting import Clock, wait_without_limit
from kafkakit.ports.services import SparkDrivers
from kafkakit.ports.stores import RunStore

MAIN = "main.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverJob:
    """A run of the driver, whose program lies beside the job code; `arguments` are its own.

    `folder` is the run's folder on this host. With `whole_package` executors get all of kafkakit, for what talks to
    clusters; its dependencies must be where they run.
    """

    run: str
    folder: str
    arguments: tuple[str, ...]
    whole_package: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTask:
    """A run to submit: `location` is its folder, `folder` where its state and log lie on this host.

    `why` says why the backend of `choice` runs it.
    """

    spec: JobSpec
    choice: SparkChoice
    why: str = ""
    location: str
    folder: str
    again: bool = False
    detach: bool = False

    @property
    def job(self) -> DriverJob:
        """The driver's program."""
        return DriverJob(run=self.spec.run_id, folder=self.folder, arguments=("--spec", str(Path(self.folder) / SPEC)))


def earlier_state(task: SubmitTask, store: RunStore) -> AuditState | None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPorts:
    """What driving needs of this host."""

    drivers: SparkDrivers
    clock: Clock
    write_file: Callable[[Path, bytes], None]


def submit(
    task: SubmitTask,
    store: RunStore,
    ports: DriverPorts,
    watch: Callable[[JobProgress], None],
    say: Callable[[str], None],
) -> AuditState:
    """Run the driver and read its result; the state of the run where it failed, or runs on with `detach`.

    `say` hears what runs it and why, once nothing else does.
    """

    is_ours = False

    def prepare() -> None:
        nonlocal is_ours
        is_ours = True
        # First the summary, then what it was made of: what is there without a summary is not whole.
        store.delete(SUMMARY)
        _delete_results(task.spec, store)
        data = spec_bytes(task.spec)
        store.write(SPEC, data)
        if task.folder != task.location:
            ports.write_file(Path(task.folder) / SPEC, data)
        say(f"runs on {task.choice.backend}: {task.why}")

    try:
        code = run_driver(task.job, task.choice, ports, prepare=prepare, watch=watch, detach=task.detach)
    except BaseException:
        if is_ours:
            with suppress(OperationFailedError):
                _delete_results(task.spec, store)
        raise
    if code is None:
        return AuditState(run=task.spec.run_id, location=task.location, phase=RunPhase.RUNNING, reason="detached")
    state = state_of(task.location, task.spec.run_id, read_results(store), None, None)
    if state.phase is not RunPhase.SUBMITTED:
        return state
    _delete_results(task.spec, store)
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    tail = " | ".join(log_tail(task.folder))
    return AuditState(
        run=state.run,
        location=task.location,
        phase=RunPhase.FAILED,
        reason=f"the driver ended with {ended} and without a result; the log ends: {tail}",
    )


def _delete_results(spec: JobSpec, store: RunStore) -> None:
    """Delete what jobs wrote into the run's folder: without a summary it is not whole."""
    for name in (*spec.jobs, STORE_LINKS):
        store.delete(name)


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


CODE = "kafkakit-code.zip"
LOOK_S = 0.2
TAIL_LINES = 5
_TAIL_BYTES = 64 * 1024


def launch_for(job: DriverJob, choice: SparkChoice, tools: SparkTools) -> Launch:
    """The process that `run_driver` starts."""
    main = str(Path(tools.code_folder) / MAIN)
    code = str(Path(job.folder) / CODE)
    files = DriverFiles(name=f"kafkakit-{job.run}", main=main, arguments=job.arguments, code=code)
    return launch_of(choice, tools, files)


def tools_for(choice: SparkChoice, drivers: SparkDrivers) -> SparkTools:
    """What the chosen backend needs of this host."""
    return drivers.tools(needs_java=choice.backend is not Backend.SAIL)


def run_driver(
    job: DriverJob,
    choice: SparkChoice,
    ports: DriverPorts,
    *,
    prepare: Callable[[], None],
    watch: Callable[[JobProgress], None],
    detach: bool = False,
) -> int | None:
    """Run a driver to its end and return its exit code, or None at once with `detach`.

    `prepare` writes what the driver reads, once the run's lock is held; the driver inherits the lock.
    `TryLaterError` while another process runs it. Ctrl-C stops the driver with all its processes and raises
    `InterruptedRunError`.
    """
    tools, folder = tools_for(choice, ports.drivers), Path(job.folder)
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


def _follow(driver: Holder, log: Path, ports: DriverPorts, watch: Callable[[JobProgress], None]) -> int:
    with log.open("rb") as stream:
        begun = b""

        def look() -> int | None:
            nonlocal begun
            code = ports.drivers.exit_code(driver)  # before the read, so that the last lines are seen
            *lines, begun = (begun + stream.read()).split(b"\n")
            for line in lines:
                progress = progress_of(line.decode("utf-8", "replace"))
                if progress is not None:
                    watch(progress)
            return code

        return wait_without_limit(ports.clock, LOOK_S, look)


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
    host = ports.drivers.engine_host()
    facts = EngineFacts(
        rows=sum(sum(manifest.rows.values()) for manifest in manifests) * len(spec.dates),
        is_here="://" not in request.input and "://" not in request.output,
        has_sail=host.has_sail,
        free_bytes=host.free_bytes,
        parameters=tuple(spec.parameters),
    )
    choice, why = settle_choice(choice, facts)
    return SubmitTask(spec=spec, choice=choice, why=why, location=place.location, folder=place.folder)


def read_state(place: RunPlace, store: RunStore, ports: DriverPorts) -> AuditState:
    """The state of a run; `InputError` where there is none."""
    run = read_run(store)
    record = _record(place)
    life = ports.drivers.life(record.driver) if record is not None and record.driver is not None else None
    # Once more: the driver may have ended between the two looks.
    results = run.results if run.results is not None else read_results(store)
    tail = log_tail(place.folder, is_progress=True) if life is Life.ALIVE else log_tail(place.folder)
    return state_of(place.location, place.run, results, record, life, tail)


def look_all(output: str, open_store: OpenStore, ports: DriverPorts, state_dir: Path) -> tuple[AuditState, ...]:
    """The states of all runs below an output, by name; what is not a run is left out. Some reads for each.

    Raises `UsageError` for a folder of this host that does not exist.
    """
    found = []
    names = open_store(output).names()
    if not names and "://" not in output and not Path(output).is_dir():
        raise UsageError(f"{output} is not a folder", hint="name what audits were given as --output")
    for name in names:
        place = place_of(f"{output.rstrip('/')}/{name}", state_dir)
        store = open_store(place.location)
        if SPEC in store.names():
            found.append(read_state(place, store, ports))
    return tuple(found)


def cancel(place: RunPlace, store: RunStore, ports: DriverPorts) -> AuditState:
    """Stop the driver of a run; `RefusedError` where none runs on this host."""
    record, before = _record(place), read_state(place, store, ports)
    if before.phase is not RunPhase.RUNNING or record is None or record.driver is None:
        raise RefusedError(f"run {place.run} cannot be stopped from here: {before.phase}; {before.reason}".rstrip("; "))
    ports.drivers.stop(record.driver)
    write_record(place.folder, replace(record, stopped="cancelled"), ports)
    run = read_run(store)
    if run.results is None:
        _delete_results(run.spec, store)
    return read_state(place, store, ports)


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


SPEC, SUMMARY = "spec.json", "summary.json"
_FIELDS = tuple(field.name for field in fields(AuditFinding))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRun:
    """A run: its spec, and the result of each job; `results` is None while the run has not come to its end."""

    location: str
    spec: JobSpec
    results: tuple[JobResult, ...] | None


def read_run(store: RunStore) -> AuditRun:
    """The run of a folder; `InputError` when it holds none, or one of another version. Two reads."""
    data = store.read(SPEC)
    if data is None:
        raise InputError(
            store.location, f"is not an audit run (no {SPEC})", hint="list runs with: kafkakit audit list OUTPUT-DIR"
        )
    try:
        spec = spec_of(json.loads(data))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{store.location}/{SPEC}", str(error)) from None
    return AuditRun(location=store.location, spec=spec, results=read_results(store))


def read_results(store: RunStore) -> tuple[JobResult, ...] | None:
    """The results of a run's summary; None where there is none, which means that the run is not whole."""
    summary = store.read(SUMMARY)
    if not summary:
        return None
    try:
        return results_of(json.loads(summary))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{store.location}/{SUMMARY}", str(error)) from None


def finished_run(store: RunStore) -> AuditRun:
    """The run of a folder, which must have come to its end: a part of a result is never read as the whole."""
    run = read_run(store)
    if run.results is None:
        raise InputError(
            store.location,
            "the run has no result yet",
            hint=f"see its state with: {shell_command('audit status', store.location)}",
        )
    return run


def read_findings(store: RunStore, run: AuditRun, limit: int | None = None) -> tuple[AuditFinding, ...]:
    """The findings of all jobs that did not fail, jobs in their order, each from the highest score; `limit` a job."""
    found: list[AuditFinding] = []
    for result in run.results or ():
        if not result.error:
            columns = store.columns(f"{result.job}/findings.parquet", limit)
            rows = zip(*(columns[name] for name in _FIELDS), strict=True) if columns else ()
            found += (AuditFinding(**dict(zip(_FIELDS, row, strict=True))) for row in rows)
    return tuple(found)


def read_table(
    store: RunStore, job: str, table: str, only: tuple[str, ...] = (), limit: int | None = None
) -> Mapping[str, list[Any]]:
    """A table of a job by column, of all or of `only` some, at most `limit` rows; empty where the job wrote none."""
    return store.columns(f"{job}/{table}.parquet", limit, only)


MOST_EARLIER = 30
MOST_ROWS = 5_000_000
"""Rows of a table that the page draws: 160 MB a column as numbers of Python."""
_RUN_NAME = re.compile(r"(.+)-(\d{4}-\d\d-\d\d)-[0-9a-f]{8}")


def read_whole(store: RunStore) -> RunResults:
    """A run that came to its end, with its findings; `InputError` where there is none."""
    run = finished_run(store)
    return RunResults(spec=run.spec, results=run.results or (), findings=read_findings(store, run))


def run_location(open_store: OpenStore, location: str) -> str:
    """The run's own folder; of a folder of runs that of the newest one that is done, by date and then by data."""
    names = open_store(location).names()
    if SPEC in names:
        return location
    found = []
    for match in filter(None, map(_RUN_NAME.fullmatch, names)):
        try:
            run = read_run(open_store(f"{location}/{match[0]}"))
        except InputError:
            continue
        if run.results is not None:
            found.append((run.spec.snapshot_date, run.spec.now_ms, match[0]))
    return f"{location}/{max(found)[2]}" if found else location


def read_view(open_store: OpenStore, location: str, *, with_tables: bool = False) -> AuditView:
    """A run against the last one of the same jobs and store on an earlier date, in the folder that holds both.

    Reads the findings of both, the fingerprints of up to 30 runs before, one a date, and with `with_tables` the
    columns that the page draws.
    """
    store = open_store(location)
    run = read_whole(store)
    earlier = _read_earlier_runs(open_store, location, run)
    first_seen: dict[Key, str] = {}
    own = {key_of(f) for f in run.findings}
    for past_store, past in earlier:
        for key in _keys(past_store, past) & own:
            first_seen.setdefault(key, past.spec.snapshot_date)
    findings = worst_first(with_since(run.findings, first_seen, run.spec.snapshot_date))
    dated = RunResults(spec=run.spec, results=run.results, findings=findings)
    return AuditView(
        run=dated,
        comparison=compare(read_whole(earlier[-1][0]), dated) if earlier else None,
        history=tuple(RunResults(spec=past.spec, results=past.results or ()) for _, past in earlier),
        tables=_tables(store, run) if with_tables else {},
    )


def _read_earlier_runs(open_store: OpenStore, location: str, run: RunResults) -> list[tuple[RunStore, AuditRun]]:
    """The runs to compare with, oldest first: of each date the one with the newest data, of the same scope."""
    parent = location.rstrip("/").rpartition("/")[0]
    own = _RUN_NAME.fullmatch(run.spec.run_id)
    if not parent or own is None:
        return []
    names = [m for name in open_store(parent).names() if (m := _RUN_NAME.fullmatch(name)) and m[1] == own[1]]
    by_date: dict[str, tuple[RunStore, AuditRun]] = {}
    for match in sorted(names, key=lambda m: m[2], reverse=True):
        if match[2] >= run.spec.snapshot_date or (match[2] not in by_date and len(by_date) == MOST_EARLIER):
            continue
        store = open_store(f"{parent}/{match[0]}")
        try:
            past = read_run(store)
        except InputError:
            continue
        same = ("jobs", "input", "scope")
        if past.results is None or any(getattr(past.spec, name) != getattr(run.spec, name) for name in same):
            continue
        known = by_date.get(match[2])
        if known is None or known[1].spec.now_ms < past.spec.now_ms:
            by_date[match[2]] = store, past
    return [found for _, found in sorted(by_date.items(), key=lambda item: item[0])]


def _keys(store: RunStore, run: AuditRun) -> set[Key]:
    done = [result.job for result in run.results or () if not result.error]
    return {
        (job, fingerprint)
        for job in done
        for fingerprint in read_table(store, job, "findings", ("fingerprint",)).get("fingerprint", [])
    }


def _tables(store: RunStore, run: RunResults) -> dict[tuple[str, str], Columns]:
    wanted: dict[tuple[str, str], tuple[str, ...]] = {}
    for one in DISTRIBUTIONS:
        result = run.result(one.job)
        if result is not None and one.table in result.tables:
            wanted[one.job, one.table] = (*wanted.get((one.job, one.table), ()), one.column)
    return {place: read_table(store, *place, only=columns, limit=MOST_ROWS) for place, columns in wanted.items()}


def read_dir_forecasts(store: RunStore, cluster: str) -> list[DirForecast]:
    """The log dirs of a cluster in the capacity audit of a run; none where that job was not part of it."""
    names = ("cluster", "broker", "path", "total_bytes", "used_bytes", "slope")
    columns = read_table(store, "capacity", "dirs", only=names)
    return [
        DirForecast(broker=broker, path=path, total_bytes=int(total), used_bytes=int(used), slope=slope)
        for own, broker, path, total, used, slope in zip(*(columns.get(name, ()) for name in names), strict=True)
        if own == cluster and total is not None and used is not None
    ]


def read_scope(wanted: ScopeRequest, store: RunStore, snapshot_date: str, clusters: Sequence[str]) -> AuditScope:
    """The names that a scope stands for on a date; `clusters` are those that were collected whole.

    Reads the tables that the queries look at, and nothing where none is given. Raises `UsageError` for what names
    nothing, and for queries over tags that were not collected.
    """

    def read(kind: str, cluster: str) -> Rows:
        return store.columns(
            f"{kind}/snapshot_date={snapshot_date}/cluster={quote(cluster, safe='')}", only=TABLES[kind].names
        )

    def tables(kinds: Sequence[str]) -> Mapping[str, Mapping[str, Rows]]:
        return {cluster: {kind: read(kind, cluster) for kind in kinds} for cluster in clusters}

    named = None
    if wanted.clusters is not None:
        named = chosen_clusters(wanted.clusters, {cluster: read("clusters", cluster) for cluster in clusters})
        clusters = named
    topics = wanted.topics
    brokers = wanted.brokers
    return AuditScope(
        clusters=named,
        topics=None if topics is None else chosen_topics(topics, tables(tables_for_topics(topics))),
        brokers=None if brokers is None else chosen_brokers(brokers, tables(tables_for_brokers(brokers))),
    )
