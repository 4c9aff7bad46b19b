"""A schedule as a systemd timer, a line for cron, or a CronJob of Kubernetes; and one run as a SparkApplication."""

import re

import yaml

from kafkakit.audit.decide.launch import SparkChoice
from kafkakit.audit.decide.schedule import Schedule, Scheduler
from kafkakit.core.errors import UsageError
from kafkakit.core.fleet_tables import JobSpec
from kafkakit.report import Report, cron_line, files_report, folder_of, service_text, timer_text

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


def unit_report(schedule: Schedule, scheduler: Scheduler) -> Report:
    """The files of a schedule; with several of them each begins with a comment that names it."""
    match scheduler:
        case Scheduler.SYSTEMD:
            files = systemd_files(schedule)
        case Scheduler.CRON:
            files = {f"{schedule.name}.cron": cron_text(schedule)}
        case Scheduler.K8S:
            files = {f"{schedule.name}.yaml": cron_job(schedule)}
    return files_report("audit unit", scheduler.value, files)


def systemd_files(schedule: Schedule) -> dict[str, str]:
    """The service and its timer by file name, for /etc/systemd/system."""
    places = [schedule.store, schedule.results]
    if schedule.metrics_file is not None:
        places.append(folder_of(schedule.metrics_file))
    return {
        f"{schedule.name}.service": service_text(
            "Snapshots of Kafka clusters, and audits of them", schedule.script, places, timeout="6h"
        ),
        f"{schedule.name}.timer": timer_text(
            "Snapshots and audits of Kafka clusters, each day", f"*-*-* {schedule.at}:00 UTC", delay="5min"
        ),
    }


def cron_text(schedule: Schedule) -> str:
    """A line for a user's crontab."""
    hour, minute = schedule.hour_and_minute
    return cron_line(f"{minute} {hour} * * *", schedule.script)


def cron_job(schedule: Schedule) -> str:
    """A CronJob of batch/v1 as YAML; its store and results are best URIs, since the pod keeps no files.

    Raises `UsageError` without an image.
    """
    if schedule.image is None:
        raise UsageError("a CronJob needs an image", hint="--image: one with kafkakit[spark] and Java 17 or 21")
    hour, minute = schedule.hour_and_minute
    # Kubernetes replaces $(NAME) in commands; two dollars stand for one.
    container: dict[str, object] = {
        "name": "audits",
        "image": schedule.image,
        "command": ["/bin/sh", "-c", schedule.script.replace("$(", "$$(")],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "resources": {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "6Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if schedule.secret is not None:
        container["envFrom"] = [{"secretRef": {"name": schedule.secret}}]
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    body = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": schedule.name, "namespace": schedule.namespace},
        "spec": {
            "schedule": f"{minute} {hour} * * *",
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 3600,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
        },
    }
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=10_000)
