"""Runs and schedules for other programs: gauges, SARIF, repairs as cluster files, and what schedulers need.

Gauges are for Prometheus and for Datadog, with the names that dashboards may use. SARIF is for code scanning services.
Cluster files (`docs/lint.md` describes them) hold settings, and command lines as comments. A schedule is a systemd
timer, a line for cron, or a CronJob of Kubernetes; one run is a SparkApplication.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from inspect import cleandoc
from math import isfinite

import yaml

from kafkakit.audit.decide.launch import DailySchedule, Scheduler, SparkChoice
from kafkakit.audit.decide.runs import BROKER, CLUSTER, TOPIC, AuditRepairs
from kafkakit.audit.report.results import AuditView, severities, worst_first
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import AuditFinding, Rule, Severity
from kafkakit.core.fleet_tables import JobSpec
from kafkakit.core.quantities import count_of
from kafkakit.core.text import sanitize
from kafkakit.report.exports import (
    MOST_RESULTS,
    MetricFamily,
    SarifResult,
    SarifRule,
    cron_line,
    exposition,
    files_report,
    folder_of,
    gauge,
    group_items,
    sarif_log,
    service_text,
    single_gauge,
    timer_text,
)
from kafkakit.report.kubernetes import CONFIG_FOLDER, SECRET_FOLDER, CommandPod, manifest, volume_claims
from kafkakit.report.kubernetes import cron_job as kubernetes_cron_job
from kafkakit.report.report import Report, ResultTable, attributes, lines_from, records
from kafkakit.rules.audits import capacity, delivery, drift, segments
from kafkakit.rules.catalogue import all_rules

RULES: tuple[tuple[Rule, ...], ...] = (
    capacity.CAPACITY_RULES, drift.RULES, capacity.HOTSPOT_RULES, delivery.LAG_RULES, delivery.MIRROR_RULES,
    segments.RULES,
)  # fmt: skip
"""All rules that only audits of a fleet have; those that lint has too keep its codes, pages and thresholds."""
PREFIX = "kafkakit_audit_"
_COLUMNS = ("name", "labels", "value")
HELP: Mapping[str, str] = {
    "findings": "Findings of a rule in a cluster.",
    "cluster_findings": "Findings of a severity in a cluster; 0 if a job looked and found none.",
    "score": "Sum of the scores of a cluster's findings: their weight times what depends on each.",
    "new_findings": "Findings that the last run of an earlier date did not have.",
    "gone_findings": "Findings of that run that are gone.",
    "fact": "Single numbers of a job, such as the rows that it read.",
    "clusters": "Clusters that a job looked at.",
    "skipped": "What a job does not look at with what it was given, in sentences of its result.",
    "left_out": "What a job should have looked at and could not, in sentences of its result.",
    "job_success": "1 for a job that finished, 0 for one that failed.",
    "job_seconds": "How long a job took.",
    "last_success_timestamp_seconds": "Time of the data of a job that came to its end.",
    "snapshot_timestamp_seconds": "Time of the data that the run looked at.",
}
"""The metrics, without the prefix, and their help. The label of a job is `audit`: Prometheus sets `job` itself."""


def audit_rules() -> Mapping[str, Rule]:
    """The rules that only audits have, by code."""
    return {rule.code: rule for rules in RULES for rule in rules}


def families(view: AuditView) -> tuple[MetricFamily, ...]:
    """The gauges of a run: a series for each job, cluster, rule and severity that has findings; linear in these."""
    return tuple(_families(view))


def metrics_report(view: AuditView) -> Report:
    """The gauges as the report of a command: its text is Prometheus', its rows a sample each."""
    found = families(view)
    samples = [(PREFIX + family.name, dict(own), value) for family in found for own, value in family.samples]
    return Report(
        command="audit metrics",
        data={"run": view.run.spec.run_id, "metrics": records(_COLUMNS, samples)},
        sections=lines_from(exposition(found, PREFIX)),
        table=ResultTable(
            _COLUMNS, tuple((name, [f"{k}={v}" for k, v in own.items()], value) for name, own, value in samples)
        ),
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


def _families(view: AuditView) -> Iterator[MetricFamily]:
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
    yield _gauge("left_out", (({"audit": r.job}, len(r.left_out)) for r in done))
    yield _gauge("job_success", (({"audit": r.job}, not r.error) for r in run.results))
    yield _gauge("job_seconds", (({"audit": r.job}, r.seconds) for r in run.results))
    yield _gauge("last_success_timestamp_seconds", (({"audit": r.job}, now_s) for r in done))
    yield single_gauge("snapshot_timestamp_seconds", HELP["snapshot_timestamp_seconds"], now_s)


def _gauge(name: str, samples: Iterator[tuple[dict[str, str], float]]) -> MetricFamily:
    return gauge(name, HELP[name], *((tuple(labels.items()), float(value)) for labels, value in samples))


def audit_sarif(findings: tuple[AuditFinding, ...], version: str, most: int = MOST_RESULTS) -> str:
    """A SARIF log with one run, worst first; above `most` findings those of one rule and cluster become one."""
    groups = group_items(worst_first(findings), lambda f: (f.rule, f.cluster), most)
    first = {f.rule: f for f, _ in reversed(groups)}
    rules = [rule_of(code, first[code]) for code in sorted(first)]
    return sarif_log(version, rules, [_result(*group) for group in groups])


def _result(f: AuditFinding, number: int) -> SarifResult:
    owner = f" [owner: {f.owner}]" if f.owner else ""
    return SarifResult(
        code=f.rule,
        severity=Severity(f.severity),
        message=f"{f.message}{owner}",
        where=f.where,
        fingerprint=f.fingerprint,
        number=number,
    )


def rule_of(code: str, finding: AuditFinding) -> SarifRule:
    """The rule of an audit, or of lint, or what a finding tells of one that neither has."""
    own = audit_rules().get(code)
    if own is not None:
        parts = own.about or own.name, own.risk, own.repair
    else:
        page = next((cleandoc(rule.page) for rule in all_rules() if rule.code == code), finding.hint)
        parts = page.partition("\n")[0], "", page
    summary, why, text = (part.strip() for part in parts)
    summary = summary or finding.name or code
    return SarifRule(
        code=code,
        name=finding.name or code,
        severity=own.severity if own is not None else Severity(finding.severity),
        summary=summary,
        why=why,
        text=text or summary,
        markdown=text or summary,
        family=code[:3],
    )


def fixes_report(repairs: AuditRepairs, run: str) -> Report:
    """The text is a file of kind `kafkakit`, one document a cluster, that lint reads; `rows` has a row a setting."""
    rows = tuple(
        (cluster, kind, name, key, value, repairs.rules[cluster, kind, name])
        for cluster, resources in sorted(repairs.settings.items())
        for (kind, name), settings in sorted(resources.items())
        for key, value in sorted(settings.items())
    )
    head = [
        f"repairs of the findings of run {run}: {count_of(len(rows), 'setting')} "
        f"of {count_of(len(repairs.settings), 'cluster')}, {count_of(len(repairs.commands), 'command')}",
        *repairs.commands,
    ]
    documents = [_document(cluster, resources) for cluster, resources in sorted(repairs.settings.items())]
    text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=10_000) if documents else ""
    return Report(
        command="audit fixes",
        data={
            "run": run,
            "clusters": documents,
            **attributes(repairs, "commands left_out"),
        },
        sections=(*(f"# {sanitize(line)}" for line in head), *lines_from(text)),
        table=ResultTable(("cluster", "resource", "name", "key", "value", "rules"), rows),
        warnings=tuple(sanitize(sentence) for sentence in repairs.left_out),
    )


def _document(cluster: str, resources: dict[tuple[str, str], dict[str, str]]) -> dict[str, object]:
    found: dict[str, list[tuple[str, dict[str, str]]]] = {TOPIC: [], BROKER: [], CLUSTER: []}
    for (kind, name), settings in sorted(resources.items()):
        found[kind].append((name, dict(sorted(settings.items()))))
    defaults = found[CLUSTER][0][1] if found[CLUSTER] else {}
    brokers = [{"id": int(name), "dynamic": config} for name, config in found[BROKER]]
    topics = [{"name": name, "config": config} for name, config in found[TOPIC]]
    parts: dict[str, object] = {"defaults": defaults, "brokers": brokers, "topics": topics}
    return {"kafkakit": "cluster", "cluster": cluster, **{name: part for name, part in parts.items() if part}}


SPARK_VERSION = "4.0.0"
_USER = 185  # the user of Spark's own images
_NAME_LIMIT = 63
_POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def spark_application(spec: JobSpec, choice: SparkChoice, location: str, code: str) -> str:
    """The manifest as YAML; program, code and spec are read from the run's folder, credentials by the service account.

    A run is never repeated by the operator: it would hide the reason of its failure.
    """
    pod = {"cores": 1, "memory": "3g", "serviceAccount": "spark", "securityContext": _POD_SECURITY}
    body = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {
            "name": re.sub(r"[^a-z0-9-]+", "-", f"kafkakit-{spec.run_id}".lower())[:_NAME_LIMIT].rstrip("-"),
            "namespace": choice.namespace,
            "labels": {"app.kubernetes.io/name": "kafkakit", "app.kubernetes.io/component": "audit"},
        },
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": SPARK_VERSION,
            "image": choice.image,
            "mainApplicationFile": f"{location}/main.py",
            # Files land in the driver's working folder.
            "arguments": ["--spec", "spec.json"],
            "deps": {"pyFiles": [f"{location}/{code}"], "files": [f"{location}/spec.json"]},
            "sparkConf": {"spark.ui.showConsoleProgress": "false", **choice.settings()},
            "restartPolicy": {"type": "Never"},
            "driver": pod,
            "executor": {**{k: v for k, v in pod.items() if k != "serviceAccount"}, "instances": 2},
        },
    }
    return yaml.safe_dump(body, sort_keys=False)


def unit_report(schedule: DailySchedule, scheduler: Scheduler) -> Report:
    """The files of a schedule; with several of them each begins with a comment that names it."""
    match scheduler:
        case Scheduler.SYSTEMD:
            files = systemd_files(schedule)
        case Scheduler.CRON:
            files = {f"{schedule.name}.cron": cron_text(schedule)}
        case Scheduler.K8S:
            files = {f"{schedule.name}.yaml": cron_job(schedule)}
    warnings = tuple(_missing_in_pod(schedule)) if scheduler is Scheduler.K8S else ()
    return replace(files_report("audit unit", scheduler.value, files), warnings=warnings)


def systemd_files(schedule: DailySchedule) -> dict[str, str]:
    """The service and its timer by file name, for /etc/systemd/system."""
    places = [schedule.store, schedule.results]
    if schedule.metrics_file is not None:
        places.append(folder_of(schedule.metrics_file))
    return {
        f"{schedule.name}.service": service_text(
            "Snapshots of Kafka clusters, and audits of them", schedule.script, places, timeout=f"{LIMIT_S // 3600}h"
        ),
        f"{schedule.name}.timer": timer_text(
            "Snapshots and audits of Kafka clusters, each day", f"*-*-* {schedule.at}:00 UTC", delay="5min"
        ),
    }


def cron_text(schedule: DailySchedule) -> str:
    """A line for a user's crontab."""
    hour, minute = schedule.hour_and_minute
    return cron_line(f"{minute} {hour} * * *", schedule.script)


def _local_places(schedule: DailySchedule) -> list[str]:
    """The folders of the machine that runs the audits, which these write to."""
    places = [schedule.store, schedule.results]
    if schedule.metrics_file is not None:
        places.append(folder_of(schedule.metrics_file))
    return list(dict.fromkeys(place for place in places if place.startswith("/")))


def _missing_in_pod(schedule: DailySchedule) -> Iterator[str]:
    """What a pod of the schedule would not find, unless its image has it."""
    if schedule.fleet is not None and not schedule.fleet.startswith(f"{CONFIG_FOLDER}/"):
        name = f"the ConfigMap is at {CONFIG_FOLDER}, the Secret at {SECRET_FOLDER}"
        yield f"{sanitize(schedule.fleet)} must be in the image: {name}"
    for place in _local_places(schedule):
        if not _MOUNTED.fullmatch(place):
            yield f"{sanitize(place)} cannot be the place of a volume: the results are lost with the pod"


_MOUNTED = re.compile(r"(/(?!\.{1,2}(/|$))[^/:]+)+/?")
LIMIT_S = 6 * 3600
VOLUME_SIZE = "10Gi"


def cron_job(schedule: DailySchedule) -> str:
    """A CronJob of batch/v1 as YAML; places that are no URIs are on a volume, for which there is a claim.

    Raises `UsageError` without an image.
    """
    if schedule.image is None:
        raise UsageError("a CronJob needs an image", hint="--image: one with kafkakit[spark] and Java 17 or 21")
    hour, minute = schedule.hour_and_minute
    local = tuple(place for place in _local_places(schedule) if _MOUNTED.fullmatch(place))
    pod = CommandPod(
        name=schedule.name,
        component="audits",
        image=schedule.image,
        namespace=schedule.namespace,
        command=("/bin/sh", "-c", schedule.script),
        cpu="1",
        memory="4Gi",
        memory_limit="6Gi",
        config_map=schedule.config_map,
        secret=schedule.secret_files,
        variables=schedule.secret,
        volumes={schedule.name: local} if local else {},
    )
    made = kubernetes_cron_job(pod, f"{minute} {hour} * * *", start_within_s=3600, limit_s=LIMIT_S)
    return manifest(made, *volume_claims(pod, VOLUME_SIZE))
