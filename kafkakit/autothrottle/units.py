"""The files by which systemd, cron and Kubernetes run the pacer."""

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum

import yaml

from kafkakit.core.errors import UsageError
from kafkakit.report.exports import cron_line, files_report, running_service_text, service_text, timer_text
from kafkakit.report.report import Report

NAME = "kafkakit-autothrottle"
ENVIRONMENT = "/etc/kafkakit/autothrottle.env"
WHAT = "Throttles of Kafka's replica moves"


class Runner(StrEnum):
    """What runs the pacer: a service, a timer for `once`, cron for `once`, a Deployment of Kubernetes."""

    SYSTEMD = "systemd"
    TIMER = "timer"
    CRON = "cron"
    K8S = "k8s"


def unit_report(
    program: Sequence[str],
    options: Sequence[str],
    of_run: Sequence[str],
    runner: Runner,
    every_minutes: int,
    *,
    image: str | None,
) -> Report:
    """The files by name; `program` is the command line up to the group, `options` those of `run` and `once`.

    `of_run` are options of `run` alone. Raises `UsageError` for them where `once` is run, for words that no unit file
    can hold, and for Kubernetes without an image.
    """
    words = [*program, "autothrottle"]
    if not all(word.isprintable() for word in (*words, *options, *of_run)):
        raise UsageError("an option holds a character that does not print")
    if of_run and runner in (Runner.TIMER, Runner.CRON):
        hint = f"--every says how often; --format {Runner.SYSTEMD} prints the service"
        raise UsageError(f"--format {runner} runs `once`, which has no {of_run[0]}", hint=hint)
    once = shlex.join([*words, "once", *options])
    files: Mapping[str, str]
    match runner:
        case Runner.SYSTEMD:
            run = [*words, "run", *options, *of_run]
            files = {f"{NAME}.service": running_service_text(WHAT, run, environment=ENVIRONMENT)}
        case Runner.TIMER:
            files = {
                f"{NAME}.service": service_text(WHAT, once, [], timeout="10min", environment=ENVIRONMENT),
                f"{NAME}.timer": timer_text(WHAT, f"*:0/{every_minutes}", delay="5s"),
            }
        case Runner.CRON:
            files = {f"{NAME}.cron": cron_line(f"*/{every_minutes} * * * *", once)}
        case Runner.K8S:
            files = {f"{NAME}.yaml": _deployment([*words, "run", *options, *of_run], image)}
    return files_report("autothrottle unit", runner.value, files)


def _deployment(command: Sequence[str], image: str | None) -> str:
    """Two pods, of which one leads; their control store must be Kafka or ZooKeeper."""
    if image is None:
        raise UsageError("a Deployment needs an image", hint="--image: one with kafkakit")
    container = {
        "name": "autothrottle",
        "image": image,
        "command": [word.replace("$(", "$$(") for word in command],
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "KAFKAKIT_CONTROL_STORE", "value": "kafka"}],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    labels = {"app.kubernetes.io/name": NAME}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=10_000)
