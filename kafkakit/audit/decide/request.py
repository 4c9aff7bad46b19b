"""From what was asked for to a job spec."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from kafkakit.audit.decide.scope import EVERYTHING, AuditScope, ScopeRequest
from kafkakit.core.errors import UsageError
from kafkakit.core.fleet_tables import JobSpec

ALL = "all"
JOBS: Mapping[str, str] = {
    "segments": "Audit log segments: rolling, retention, times, offsets, epochs, indexes, checksums, dead files.",
    "retention": "Audit how long data really stays, and what handles and maps that costs.",
    "drift": "Audit configuration against files, brokers, peers, mirrors, yesterday and other versions.",
    "capacity": "Audit when disks are full, and what the loss of a broker or a zone needs.",
    "hotspots": "Audit partitions and brokers that carry far more than their peers.",
    "bombs": "Audit batches that expand beyond what clients can decode.",
    "lag": "Audit the history of consumer lag in time.",
    "mirror": "Audit topics that two clusters hold for records that one lacks.",
}
"""The jobs with their help, in the order of `audit all`; `kafkakit_spark.runner` has the same names."""
DEFAULT_DAYS = 30
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """One command line: `jobs` are names, `parameters` `JOB.NAME=VALUE`; `date` is ISO 8601, None for the newest."""

    jobs: tuple[str, ...]
    input: str
    output: str
    date: str | None = None
    days: int = DEFAULT_DAYS
    segments: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    scope: ScopeRequest = EVERYTHING


def snapshot_date(request: AuditRequest, known: Collection[str], today: str) -> str:
    """The day that is looked at; `known` are the dates of which the store has manifests.

    Trees of segments alone need no snapshot: then it is `today`. `UsageError` where there is nothing to look at.
    """
    if request.date is not None:
        try:
            wanted = date.fromisoformat(request.date).isoformat()
        except ValueError:
            raise UsageError(f"--date {request.date!r:.40} is no date", hint="write it as 2026-11-20") from None
        if wanted not in known and not request.segments:
            newest = f"the newest is {max(known)}" if known else "it has none"
            raise UsageError(f"{request.input} has no snapshot of {wanted}; {newest}", hint="kafkakit fleet collect")
        return wanted
    if not known and not request.segments:
        raise UsageError(
            f"{request.input} has no snapshot", hint="collect some: kafkakit fleet collect --profiles NAME,... --to DIR"
        )
    return max(known, default=today)


def spec_of_request(
    request: AuditRequest,
    *,
    known: Collection[str],
    wanted: str,
    taken_ms: int | None,
    now_ms: int,
    version: str,
    scope: AuditScope | None = None,
) -> JobSpec:
    """The spec: the same one for the same request and store.

    `wanted` is the snapshot's date and `taken_ms` when the last cluster of it was read. Without one, the end of
    that day, or `now_ms` while the day lasts. `scope` are the names that the request's scope stands for.
    """
    scope = scope or AuditScope()
    first = (date.fromisoformat(wanted) - (request.days - 1) * _DAY).isoformat()
    end = datetime.fromisoformat(wanted).replace(tzinfo=UTC) + _DAY
    return JobSpec(
        jobs=request.jobs,
        input=request.input,
        output=request.output,
        snapshot_date=wanted,
        dates=tuple(sorted({day for day in known if first <= day <= wanted} | {wanted})),
        now_ms=taken_ms if taken_ms is not None else min(now_ms, int(end.timestamp() * 1000)),
        parameters=parameters_of(request.parameters, request.jobs),
        segments=request.segments,
        version=version,
        scope=request.scope.texts,
        clusters=scope.clusters,
        topics=scope.topics,
        brokers=scope.brokers,
    )


def parameters_of(texts: Collection[str], jobs: Collection[str]) -> dict[str, str | int | float]:
    """Thresholds by `job.name`; `UsageError` for what is none, or for a job that does not run."""
    found: dict[str, str | int | float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        job, dot, parameter = name.partition(".")
        if not (equals and dot and parameter and value):
            raise UsageError(f"--set {text!r:.80} is not JOB.PARAMETER=VALUE")
        if job not in jobs:
            raise UsageError(f"--set {text!r:.80}: {job} is not among the jobs of this run ({', '.join(jobs)})")
        found[name] = _number(value)
    return found


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
