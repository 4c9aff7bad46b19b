"""A run as gauges, for Prometheus and for Datadog, and the names that dashboards may use."""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite

from kafkakit.audit.show.view import RunView, severities
from kafkakit.report import MetricFamily, Report, exposition, gauge, records, single

PREFIX = "kafkakit_audit_"
_COLUMNS = ("name", "labels", "value")
HELP: Mapping[str, str] = {
    "findings": "Findings of a rule in a cluster.",
    "cluster_findings": "Findings of a severity in a cluster; 0 where a job looked and found none.",
    "score": "Sum of the scores of a cluster's findings: their weight times what depends on each.",
    "new_findings": "Findings that the last run of an earlier date did not have.",
    "gone_findings": "Findings of that run that are gone.",
    "fact": "Single numbers of a job, such as the rows that it read.",
    "clusters": "Clusters that a job looked at.",
    "skipped": "What a job did not look at, in sentences of its result.",
    "job_success": "1 where a job came to its end, 0 where it failed.",
    "job_seconds": "How long a job took.",
    "last_success_timestamp_seconds": "Time of the data of a job that came to its end.",
    "snapshot_timestamp_seconds": "Time of the data that the run looked at.",
}
"""The metrics, without the prefix, and their help. The label of a job is `audit`: Prometheus sets `job` itself."""


def families(view: RunView) -> tuple[MetricFamily, ...]:
    """The gauges of a run: a series for each job, cluster, rule and severity that has findings; linear in these."""
    return tuple(_families(view))


def metrics_report(view: RunView) -> Report:
    """The gauges as the report of a command: its text is Prometheus', its rows a sample each."""
    found = families(view)
    samples = [(PREFIX + family.name, dict(own), value) for family in found for own, value in family.samples]
    return Report(
        command="audit metrics",
        data={"run": view.run.spec.run_id, "metrics": records(_COLUMNS, samples)},
        text=exposition(found, PREFIX),
        columns=_COLUMNS,
        rows=tuple((name, [f"{k}={v}" for k, v in own.items()], value) for name, own, value in samples),
    )


def datadog_series(found: tuple[MetricFamily, ...], time_s: int) -> list[dict[str, object]]:
    """The gauges as series of Datadog's API v2, named `kafkakit.audit.*`."""
    return [
        {
            "metric": f"kafkakit.audit.{family.name}",
            "type": 3,
            "points": [{"timestamp": time_s, "value": value}],
            "tags": [f"{name}:{text}" for name, text in labels],
        }
        for family in found
        for labels, value in family.samples
    ]


def _families(view: RunView) -> Iterator[MetricFamily]:
    run, now_s = view.run, view.run.spec.now_ms / 1000
    by_rule = Counter((f.job, f.cluster, f.rule, f.severity) for f in run.findings)
    labels = ("audit", "cluster", "rule", "severity")
    yield _gauge("findings", ((dict(zip(labels, key, strict=True)), n) for key, n in sorted(by_rule.items())))
    in_cluster: Counter[tuple[str, str, str]] = Counter()
    score: Counter[str] = Counter()
    for f in run.findings:
        in_cluster[f.job, f.cluster, f.severity] += 1
        score[f.cluster] += f.score  # type: ignore[assignment]
    looked = {(r.job, cluster) for r in run.results for cluster in r.clusters} | {key[:2] for key in in_cluster}
    yield _gauge(
        "cluster_findings",
        (
            ({"audit": job, "cluster": cluster, "severity": severity}, in_cluster[job, cluster, severity])
            for job, cluster in sorted(looked)
            for severity in severities(())
        ),
    )
    yield _gauge("score", (({"cluster": name}, score[name]) for name in view.clusters))
    if view.comparison is not None:
        for name, found in (("new_findings", view.comparison.new), ("gone_findings", view.comparison.gone)):
            yield _gauge(name, (({"severity": severity}, n) for severity, n in severities(found).items()))
    done = [r for r in run.results if not r.error]
    yield _gauge(
        "fact",
        (
            ({"audit": r.job, "fact": name}, value)
            for r in done
            for name, value in sorted(r.facts.items())
            if isinstance(value, int | float) and isfinite(value)
        ),
    )
    yield _gauge("clusters", (({"audit": r.job}, len(r.clusters)) for r in done))
    yield _gauge("skipped", (({"audit": r.job}, len(r.skipped)) for r in done))
    yield _gauge("job_success", (({"audit": r.job}, not r.error) for r in run.results))
    yield _gauge("job_seconds", (({"audit": r.job}, r.seconds) for r in run.results))
    yield _gauge("last_success_timestamp_seconds", (({"audit": r.job}, now_s) for r in done))
    yield single("snapshot_timestamp_seconds", HELP["snapshot_timestamp_seconds"], now_s)


def _gauge(name: str, samples: Iterator[tuple[dict[str, str], float]]) -> MetricFamily:
    return gauge(name, HELP[name], *((tuple(labels.items()), float(value)) for labels, value in samples))
