"""A run of audits: its state, two runs compared, and the repairs of its findings.

The state follows from what lies in the run's folder and from whether its driver runs. Progress is lines of JSON among
those of Spark in the driver's log. Runs are compared by fingerprint: what is new, gone and still there, and what only
one of them looked at. Repairs of findings are one change: settings by cluster and resource, and command lines.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkakit.audit.decide.launch import Backend
from kafkakit.core.documents import DocumentKind
from kafkakit.core.errors import ExitCode
from kafkakit.core.findings import NAMED_IN_WHERE, AuditFinding, FailOn, Severity, shorten
from kafkakit.core.fleet_tables import JobResult, JobSpec
from kafkakit.core.lease import Holder, Life
from kafkakit.core.model import LogDir
from kafkakit.core.quantities import count_of

if TYPE_CHECKING:
    from kafkakit.kubernetes.brokers import ClusterPods

LOG, STATE = "driver.log", "state.json"
_ORDER = tuple(Severity)


class RunPhase(StrEnum):
    """Where a run is; only `done` and `failed` with results have anything to read."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    SUBMITTED = "submitted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What `state.json` holds: who runs it since when, and how it was ended from outside."""

    run: str
    backend: Backend
    started_ms: int
    driver: Holder | None = None
    stopped: str = ""


RUN_DOCUMENT = DocumentKind("audit-run", RunRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditState:
    """Where a run is, why, and what each job gave as far as that is known."""

    run: str
    location: str
    phase: RunPhase
    reason: str = ""
    results: tuple[JobResult, ...] = ()
    started_ms: int | None = None

    def exit_code(self, fail_on: FailOn) -> ExitCode:
        """0 done without findings to fail on, 75 while it runs, else 1."""
        if self.phase in (RunPhase.RUNNING, RunPhase.SUBMITTED, RunPhase.UNKNOWN):
            return ExitCode.TRY_LATER
        is_good = self.phase is RunPhase.DONE and not fails_on(self.results, fail_on)
        return ExitCode.DONE if is_good else ExitCode.FAILED


def fails_on(results: Sequence[JobResult], fail_on: FailOn) -> bool:
    """True when a job failed, could not look at a part of its day, or found something of that severity or worse."""
    if any(result.error or result.left_out for result in results):
        return True
    worst = _ORDER[: 0 if fail_on is FailOn.NEVER else _ORDER.index(Severity(fail_on.value)) + 1]
    return any(result.findings.get(severity.value) for result in results for severity in worst)


def state_of(
    location: str,
    run: str,
    results: tuple[JobResult, ...] | None,
    record: RunRecord | None,
    life: Life | None,
    log_tail: Sequence[str] = (),
) -> AuditState:
    """The state of a run; `results` are those of its summary, None while there is none.

    The summary is what makes a run whole: without it a driver that has ended has failed, whatever it wrote.
    """
    started = record.started_ms if record is not None else None
    if results is not None:
        failed = [result.job for result in results if result.error]
        reason = f"{count_of(len(failed), 'job')} failed: {', '.join(failed)}" if failed else ""
        phase, found = RunPhase.FAILED if failed else RunPhase.DONE, results
    else:
        (phase, reason), found = _unfinished_phase(record, life, log_tail), ()
    return AuditState(run=run, location=location, phase=phase, reason=reason, results=found, started_ms=started)


def _unfinished_phase(record: RunRecord | None, life: Life | None, tail: Sequence[str]) -> tuple[RunPhase, str]:
    if record is None or record.driver is None:
        return RunPhase.SUBMITTED, "no driver was started from here; its result is not there yet"
    if life is Life.ALIVE:
        return RunPhase.RUNNING, tail[-1] if tail else "starting"
    if record.stopped:
        return RunPhase.STOPPED, record.stopped
    if life is Life.UNKNOWN:
        return RunPhase.UNKNOWN, f"its driver was started on {record.driver.host}: ask there"
    last = f"; the log ends: {' | '.join(tail)}" if tail else ""
    return RunPhase.FAILED, f"the driver (process {record.driver.pid}) ended without a result{last}"


_MARK = '{"kafkakit": "progress"'


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """A job began (`start`), came to its `end`, or `failed` with an `error`; `number` counts from 1 of `total`."""

    job: str
    phase: str
    number: int = 0
    total: int = 0
    seconds: float = 0.0
    error: str = ""

    def __str__(self) -> str:
        if self.phase == "start":
            return f"job {self.number} of {self.total}: {self.job}"
        if self.error:
            return f"{self.job} failed: {self.error}"
        return f"{self.job} done in {self.seconds:.1f} s"


def progress_of(line: str) -> JobProgress | None:
    """The progress that a line reports; None for every other line."""
    if not line.startswith(_MARK):
        return None
    try:
        data = json.loads(line)
        return JobProgress(
            job=str(data["job"]),
            phase=str(data["phase"]),
            number=int(data.get("number", 0)),
            total=int(data.get("of", 0)),
            seconds=float(data.get("seconds", 0.0)),
            error=str(data.get("error", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None


_SEVERITIES = tuple(Severity)
Key = tuple[str, str]
"""What is one finding in every run: its job and its fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """A run that came to its end: what it was to do, and what it found."""

    spec: JobSpec
    results: tuple[JobResult, ...]
    findings: tuple[AuditFinding, ...] = ()

    def result(self, job: str) -> JobResult | None:
        """The result of a job that did not fail; None without one."""
        return next((r for r in self.results if r.job == job and not r.error), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The findings of two runs: `new`, `still` and `unseen_before` are all of the later one, and `gone`, `unseen_after`
    and those of the same fingerprints as `still` all of the earlier one.

    `unseen_before` are findings where the earlier run did not look, `unseen_after` those where the later one did not.
    `notes` say in sentences what else makes the runs differ.
    """

    earlier: str
    later: str
    new: tuple[AuditFinding, ...] = ()
    gone: tuple[AuditFinding, ...] = ()
    still: tuple[AuditFinding, ...] = ()
    unseen_before: tuple[AuditFinding, ...] = ()
    unseen_after: tuple[AuditFinding, ...] = ()
    notes: tuple[str, ...] = ()


def key_of(finding: AuditFinding) -> Key:
    """What is the same in every run that finds it."""
    return finding.job, finding.fingerprint


def compare(earlier: RunResults, later: RunResults) -> Comparison:
    """The comparison of two runs; linear in their findings.

    A finding is gone only where the later run looked: the job did not fail, the cluster has every table that the
    earlier run read of it, and the scope has its topic or broker. The same holds the other way round for new ones.
    """
    before, after = {key_of(f) for f in earlier.findings}, {key_of(f) for f in later.findings}
    gone, unseen_after = _split_findings((f for f in earlier.findings if key_of(f) not in after), earlier, later)
    new, unseen_before = _split_findings((f for f in later.findings if key_of(f) not in before), later, earlier)
    return Comparison(
        earlier=earlier.spec.run_id,
        later=later.spec.run_id,
        new=new,
        gone=gone,
        still=tuple(f for f in later.findings if key_of(f) in before),
        unseen_before=unseen_before,
        unseen_after=unseen_after,
        notes=tuple(_differences(earlier, later)),
    )


def with_since(findings: Iterable[AuditFinding], first_seen: Mapping[Key, str], today: str) -> tuple[AuditFinding, ...]:
    """The findings with the first date that each was seen on; `today` for those that no earlier run found."""
    return tuple(replace(f, since=f.since or first_seen.get(key_of(f), today)) for f in findings)


def fails(findings: Iterable[AuditFinding], fail_on: FailOn) -> bool:
    """True when a finding is at or above the severity to fail on."""
    if fail_on is FailOn.NEVER:
        return False
    limit = _SEVERITIES.index(Severity(fail_on.value))
    return any(_SEVERITIES.index(Severity(f.severity)) <= limit for f in findings)


def _split_findings(
    findings: Iterable[AuditFinding], found_in: RunResults, other: RunResults
) -> tuple[tuple[AuditFinding, ...], tuple[AuditFinding, ...]]:
    looked: list[AuditFinding] = []
    not_looked: list[AuditFinding] = []
    known: dict[tuple[str, str], bool] = {}
    for f in findings:
        place = (f.job, f.cluster)
        if place not in known:
            known[place] = _covers(other, found_in, *place)
        (looked if known[place] and _in_scope(f, other.spec) else not_looked).append(f)
    return tuple(looked), tuple(not_looked)


def _in_scope(finding: AuditFinding, spec: JobSpec) -> bool:
    """Whether a run reports findings about this topic or broker."""
    for kind, names in (("topics", spec.topics), ("brokers", spec.brokers)):
        about = re.match(NAMED_IN_WHERE[kind], finding.where)
        if names is not None and about and (about[1] or about[2]) not in names.get(finding.cluster, ()):
            return False
    return True


def _covers(run: RunResults, other: RunResults, job: str, cluster: str) -> bool:
    mine, its = run.result(job), other.result(job)
    if mine is None or its is None or not set(other.spec.segments) <= set(run.spec.segments):
        return False
    # A cluster that is known from segment trees alone has no tables in either run.
    if cluster in its.clusters and cluster not in mine.clusters:
        return False
    return set(its.clusters.get(cluster, ())) <= set(mine.clusters.get(cluster, ()))


def _differences(earlier: RunResults, later: RunResults) -> Iterable[str]:
    for run in (earlier, later):
        for result in run.results:
            if result.error:
                yield f"{result.job} failed in {run.spec.run_id}: its findings are not compared"
    yield from _spec_differences(earlier.spec, later.spec)
    for result in later.results:
        before = earlier.result(result.job)
        if before is not None and not result.error:
            for left, name in (
                (before.clusters.keys() - result.clusters.keys(), later.spec.run_id),
                (result.clusters.keys() - before.clusters.keys(), earlier.spec.run_id),
            ):
                if left:
                    yield f"{result.job} did not look at {shorten(sorted(left))} in {name}"


def _spec_differences(one: JobSpec, two: JobSpec) -> Iterable[str]:
    for job in sorted(set(one.jobs) ^ set(two.jobs)):
        yield f"{job} is not part of {(two if job in one.jobs else one).run_id}"
    if one.input != two.input:
        yield f"the runs read different stores: {one.input} and {two.input}"
    if one.scope != two.scope:
        yield "the runs have different scopes: findings that only one of them reports are not compared"
    changed = sorted(k for k in {*one.parameters, *two.parameters} if one.parameters.get(k) != two.parameters.get(k))
    if changed:
        yield f"the runs have different thresholds: {', '.join(changed)}"
    if one.version != two.version:
        yield f"the runs were made by different versions: {one.version or 'unknown'} and {two.version or 'unknown'}"


_SETTING = re.compile(r"([a-z][a-z0-9.]*)=(.*)")
_COMMANDS = ("kafkakit ", "kubectl ")
DAYS_TO_FULL = "KKX009"
TOPIC, BROKER, CLUSTER = "topic", "broker", "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRepairs:
    """What the repairs of findings change.

    `settings` are by cluster, then by resource (its kind and its name, empty for the cluster's defaults), then by key;
    `rules` names by the same resource the rules that ask for it. `commands` are command lines, worst first. `left_out`
    says in sentences which repairs are not part of it.
    """

    settings: dict[str, dict[tuple[str, str], dict[str, str]]] = field(default_factory=dict)
    rules: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirForecast:
    """A log dir in the capacity audit of a run; `slope` is what comes in a day, None where that is not known."""

    broker: int
    path: str
    total_bytes: int
    used_bytes: int
    slope: float | None = None

    @property
    def place(self) -> LogDir:
        """The dir as brokers tell of it."""
        usable_bytes = max(self.total_bytes - self.used_bytes, 0)
        return LogDir(path=self.path, total_bytes=self.total_bytes, usable_bytes=usable_bytes)

    @property
    def left_s(self) -> float | None:
        """After how many seconds it is full, None where it does not grow or is full."""
        left_bytes = self.total_bytes - self.used_bytes
        return left_bytes / self.slope * 86400.0 if self.slope and self.slope > 0 and left_bytes > 0 else None


def with_larger_volumes(
    findings: Iterable[AuditFinding], forecasts: Iterable[DirForecast], cluster: str, pods: "ClusterPods"
) -> Iterator[AuditFinding]:
    """The findings of runs, those of a cluster's dirs that fill up repaired by a larger volume where it may grow."""
    by_broker: dict[str, list[DirForecast]] = {}
    for each in forecasts:
        by_broker.setdefault(str(each.broker), []).append(each)
    for f in findings:
        resource = _resource(f) if f.rule == DAYS_TO_FULL and f.cluster == cluster else None
        dirs = by_broker.get(resource[1] if resource else "", ())
        found = next((each for each in dirs if f.message.startswith(f"{each.path} ")), None)
        growth = pods.growth(found.broker, found.place, found.left_s) if found is not None else None
        yield f if growth is None else replace(f, repair=f"{growth.command}  # {growth.words}")


def collect_repairs(findings: Iterable[AuditFinding], cluster: str | None = None) -> AuditRepairs:
    """The repairs of findings, worst first, of one cluster or of all; where two ask for different values, the first."""
    made = AuditRepairs()
    commands: dict[str, None] = {}
    left_out: dict[str, None] = {}
    for f in findings:
        if not f.repair or (cluster is not None and f.cluster != cluster):
            continue
        lines = [line.strip() for line in f.repair.splitlines() if line.strip()]
        if all(line.startswith(_COMMANDS) for line in lines):
            commands.update(dict.fromkeys(lines))
            continue
        resource, found = _resource(f), [_SETTING.fullmatch(line) for line in lines]
        if resource is None or not all(found):
            left_out[f"{f.rule} at {f.where}: {' '.join(lines)} does not change a topic, a broker or a cluster"] = None
            continue
        settings = made.settings.setdefault(f.cluster, {}).setdefault(resource, {})
        for key, value in (match.groups() for match in found if match):
            if settings.setdefault(key, value) != value:
                left_out[f"{f.rule} at {f.where}: {key}={value} is not taken, a worse finding asks for "
                         f"{settings[key]}"] = None  # fmt: skip
        rules = made.rules.setdefault((f.cluster, *resource), [])
        if f.rule not in rules:
            rules.append(f.rule)
    return AuditRepairs(settings=made.settings, rules=made.rules, commands=tuple(commands), left_out=tuple(left_out))


def _resource(finding: AuditFinding) -> tuple[str, str] | None:
    """The resource whose setting a finding is about; a partition's are those of its topic."""
    kind, _, name = finding.where.removesuffix(f" of {finding.cluster}").partition(" ")
    if kind == "partition":
        return TOPIC, name.partition(" ")[0].rpartition("-")[0]
    if kind == CLUSTER:
        return CLUSTER, ""
    if kind == BROKER and name.isdecimal():
        return BROKER, name
    return (TOPIC, name) if kind == TOPIC else None
