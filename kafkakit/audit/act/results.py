"""Reads what a run of audits left in its folder: the spec, the summary, findings and tables."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kafkakit.core.errors import InputError
from kafkakit.core.findings import AuditFinding
from kafkakit.core.fleet_tables import JobResult, JobSpec, results_of, spec_of
from kafkakit.ports.stores import RunStore

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
        raise InputError(store.location, f"is no run of audits: it holds no {SPEC}", hint="kafkakit audit list")
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
            store.location, "the run has no result yet", hint=f"kafkakit audit status {store.location} shows its state"
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
