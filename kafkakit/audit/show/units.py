"""A schedule of audits as a systemd timer, a line for cron, or a CronJob of Kubernetes."""

import yaml

from kafkakit.audit.decide.schedule import Schedule, Scheduler
from kafkakit.core.errors import UsageError
from kafkakit.report.report import Report
from kafkakit.report.scheduler_files import cron_line, files_report, folder_of, service_text, timer_text


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
