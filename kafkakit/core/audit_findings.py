"""Findings of fleet audits: those of every check, with the job, the cluster, how much depends on it, and a repair."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from kafkakit.core.findings import Finding, Severity

JOB_COLUMNS = "job string, cluster string, rule string, name string, severity string, where string, message string, " \
    "hint string, fingerprint string, count bigint, score double, key string, observed string, expected string, " \
    "owner string, repair string, since string"  # fmt: skip
"""The columns of `findings.parquet`, as Spark's DDL. `since` is the first day that a finding of this fingerprint was
seen on, as far as the store's earlier results tell; null where that is not looked up."""

NAMED_IN_WHERE: Mapping[str, str] = {
    "topics": r"^(?:topic (\S+)|partition (\S+)-[0-9]+) of ",
    "brokers": r"^(?:(?:log dirs of )?(?:broker|controller) ([0-9]+)|log dir ([0-9]+):.*) of ",
}
"""What a finding is about, by the beginning of its `where`: patterns whose first or second group is the name."""

SEVERITY_WEIGHTS: Mapping[Severity, float] = {Severity.ERROR: 9.0, Severity.WARNING: 3.0, Severity.NOTE: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One row of `findings.parquet`; see `JOB_COLUMNS`.

    `score` is the weight of the severity times what depends on it (partitions, or MB/s where rates are known), for
    sorting. `repair` is a command line of kafkakit, or a change of configuration as `KEY=VALUE` lines, empty where
    only people can tell.
    """

    job: str
    cluster: str
    rule: str
    severity: str
    where: str
    message: str
    fingerprint: str
    name: str = ""
    hint: str = ""
    count: int = 1
    score: float = 0.0
    key: str | None = None
    observed: str | None = None
    expected: str | None = None
    owner: str | None = None
    repair: str = ""
    since: str | None = None


def audit_finding(job: str, cluster: str, finding: Finding, *, blast: float = 1.0, repair: str = "") -> AuditFinding:
    """A finding of any rule as a row of an audit; `blast` is how many partitions (or MB/s) depend on it."""
    setting = finding.setting
    return AuditFinding(
        job=job,
        cluster=cluster,
        rule=finding.rule,
        name=finding.name,
        severity=finding.severity.value,
        where=finding.where,
        message=finding.message,
        hint=finding.hint,
        fingerprint=finding.fingerprint,
        count=finding.count,
        score=SEVERITY_WEIGHTS[finding.severity] * max(blast, 1.0),
        key=setting.key if setting is not None else None,
        observed=setting.observed if setting is not None else None,
        expected=setting.expected if setting is not None else None,
        owner=finding.owner,
        repair=repair,
    )


def finding_row(finding: AuditFinding) -> dict[str, object]:
    """The row of a finding, by column."""
    return asdict(finding)
