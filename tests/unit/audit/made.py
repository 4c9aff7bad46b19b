"""Runs for tests of what is shown of them."""

from collections.abc import Mapping
from typing import Any

from kafkakit.audit.decide.runs import RunResults
from kafkakit.core.findings import AuditFinding, Rule, Severity, audit_finding
from kafkakit.core.fleet_tables import JobResult, JobSpec

NOW_MS = 1_795_219_200_000
SEVERITY = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE}
EVIL = "<script>alert(1)</script>\"'&\x1b[31m\u202e"
KINDS = ("brokers", "partitions")


def a_finding(
    topic: str, *, job: str = "drift", cluster: str = "c1", severity: str = "warning", code: str = "KKT001", **more: Any
) -> AuditFinding:
    rule = Rule(f"name-of-{code.lower()}", SEVERITY[severity], "", repair="see the manual", code=code)
    found = rule.finding(f"topic {topic} of {cluster}", f"{topic} is wrong")
    made = audit_finding(job, cluster, found, blast=more.pop("blast", 1.0), repair=more.pop("repair", ""))
    return AuditFinding(**{**{name: getattr(made, name) for name in AuditFinding.__slots__}, **more})


def a_run(
    *findings: AuditFinding,
    date: str = "2026-11-20",
    jobs: tuple[str, ...] = ("drift",),
    clusters: Mapping[str, tuple[str, ...]] | None = None,
    failed: Mapping[str, str] | None = None,
    skipped: tuple[str, ...] = (),
    left_out: tuple[str, ...] = (),
    facts: Mapping[str, int | float | str] | None = None,
    **spec: Any,
) -> RunResults:
    looked = {"c1": KINDS, "c2": KINDS} if clusters is None else clusters
    results = []
    for job in jobs:
        own = [f for f in findings if f.job == job]
        if failed and job in failed:
            results.append(JobResult(job=job, error=failed[job], seconds=1.5))
            continue
        results.append(
            JobResult(
                job=job,
                findings={s: n for s in SEVERITY if (n := sum(f.severity == s for f in own))},
                rules={r: sum(f.rule == r for f in own) for r in sorted({f.rule for f in own})},
                clusters=looked,
                skipped=skipped,
                left_out=left_out,
                seconds=2.0,
                facts=facts or {},
            )
        )
    made = JobSpec(
        jobs=jobs, input=spec.pop("input", "/store"), output="/out", snapshot_date=date, dates=(date,),
        now_ms=spec.pop("now_ms", NOW_MS), version=spec.pop("version", "1"), **spec,
    )  # fmt: skip
    return RunResults(spec=made, results=tuple(results), findings=findings)
