"""What an audit job is to do and what it did: the two documents that pass between the command line and Spark.

Standard library alone: executors and drivers get this module in a zip.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

SPEC_KIND = {"kind": "job-spec", "schema": 1}
RESULT_KIND = {"kind": "job-result", "schema": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One run of audits: immutable, and without secrets.

    `jobs` are names of `audit.decide.request.JOBS`; `input` is the store of snapshots and `output` where the run's
    folder lies, as URIs; `snapshot_date` is the day that is looked at, `now_ms` its time. `dates` are the days that
    trends and comparisons may read, oldest first, the snapshot's among them. `parameters` are thresholds, by
    `job.name`. `segments` are trees of log segments to scan beside the store, as URIs of the driver's host.

    `scope` is what the run is limited to as it was typed, by `clusters`, `topics` and `brokers`; None for everything.
    What it stands for: `clusters` are the only ones of the store that are read, and findings about other `topics` or
    `brokers` than these, by cluster, are left out.
    """

    jobs: tuple[str, ...]
    input: str
    output: str
    snapshot_date: str
    dates: tuple[str, ...]
    now_ms: int
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    segments: tuple[str, ...] = ()
    version: str = ""
    scope: Mapping[str, str] | None = None
    clusters: tuple[str, ...] | None = None
    topics: Mapping[str, tuple[str, ...]] | None = None
    brokers: Mapping[str, tuple[str, ...]] | None = None

    @property
    def run_id(self) -> str:
        """The run's folder: jobs, date, and eight digits of all else that decides over its result."""
        content = spec_data(self)
        del content["now_ms"]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
        return f"{'-'.join(self.jobs) if len(self.jobs) < 3 else 'all'}-{self.snapshot_date}-{digest}"


def spec_data(spec: JobSpec) -> dict[str, object]:
    """The document of a spec."""
    content = {"kafkakit": SPEC_KIND, **asdict(spec), "parameters": dict(sorted(spec.parameters.items()))}
    # A run without a scope is the one that it was before there were scopes.
    return {name: value for name, value in content.items() if value is not None}


def spec_of(data: Mapping[str, object]) -> JobSpec:
    """The spec of a document; `ValueError` where it is another kind or version, or lacks a part."""
    values = {name: data[name] for name in (f.name for f in fields(JobSpec)) if name in data}
    if data.get("kafkakit") != SPEC_KIND:
        raise ValueError("not a job spec of schema 1")
    for name in ("jobs", "dates", "segments"):
        values[name] = tuple(values.get(name, ()))  # type: ignore[arg-type]
    if "clusters" in values:
        values["clusters"] = tuple(values["clusters"])  # type: ignore[arg-type]
    for name in values.keys() & {"topics", "brokers"}:
        values[name] = {cluster: tuple(names) for cluster, names in values[name].items()}  # type: ignore[attr-defined]
    try:
        return JobSpec(**values)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What one job of a run found, in numbers; its findings and tables lie in files beside.

    `facts` are single numbers of the job (rows read, days until the first disk is full), `tables` the rows of each
    table it wrote, `skipped` what was not looked at and why, in sentences. A job that failed has an `error`.
    """

    job: str
    findings: Mapping[str, int] = field(default_factory=dict)
    """How many of each severity."""
    rules: Mapping[str, int] = field(default_factory=dict)
    """How many of each rule."""
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""
    clusters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The clusters looked at, each with the kinds of tables that the store holds of it on the day, of those read."""


def summary_data(spec: JobSpec, results: tuple[JobResult, ...]) -> dict[str, object]:
    """The document `summary.json` of a run."""
    return {
        "kafkakit": RESULT_KIND,
        "run": spec.run_id,
        "snapshot_date": spec.snapshot_date,
        "now_ms": spec.now_ms,
        "jobs": [asdict(result) for result in results],
    }


def results_of(data: Mapping[str, object]) -> tuple[JobResult, ...]:
    """The results of a `summary.json`; `ValueError` where it is another kind or version."""
    jobs = data.get("jobs")
    if data.get("kafkakit") != RESULT_KIND or not isinstance(jobs, list):
        raise ValueError("not a job result of schema 1")
    return tuple(
        JobResult(
            **{
                **job,
                "skipped": tuple(job.get("skipped", ())),
                "clusters": {name: tuple(kinds) for name, kinds in job.get("clusters", {}).items()},
            }
        )
        for job in jobs
    )
