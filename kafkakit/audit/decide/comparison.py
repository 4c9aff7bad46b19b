"""Two runs compared by fingerprint: what is new, gone and still there, and what only one of them looked at."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kafkakit.core.findings import NAMED_IN_WHERE, AuditFinding, FailOn, Severity, shown
from kafkakit.core.fleet_tables import JobResult, JobSpec

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
    gone, unseen_after = _split((f for f in earlier.findings if key_of(f) not in after), earlier, later)
    new, unseen_before = _split((f for f in later.findings if key_of(f) not in before), later, earlier)
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


def _split(
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
                    yield f"{result.job} did not look at {shown(sorted(left))} in {name}"


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
