"""The files by which systemd, cron and Kubernetes run the pacer."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.errors import UsageError
from kafkakit.report.exports import cron_line, files_report, running_service_text, service_text, timer_text
from kafkakit.report.kubernetes import (
    CONFIG_MAP,
    SECRET,
    SECRET_FOLDER,
    CommandPod,
    deployment,
    disruption_budget,
    manifest,
)
from kafkakit.report.report import Report

NAME = "kafkakit-autothrottle"
ENVIRONMENT = "/etc/kafkakit/autothrottle.env"
WHAT = "Throttles of Kafka's replica moves"
USUAL_PROGRAM = "/usr/local/bin/kafkakit"
TOKEN_FILE = f"{SECRET_FOLDER}/autothrottle-token"
"""The token of the API in a pod, if no other file is named."""
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Runner(StrEnum):
    """What runs the pacer: a service, a timer for `once`, cron for `once`, a Deployment of Kubernetes."""

    SYSTEMD = "systemd"
    TIMER = "timer"
    CRON = "cron"
    K8S = "k8s"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesPlace:
    """What pods are made of; raises `UsageError` for what is not a name there. `port` is that of the API."""

    image: str | None = None
    config_map: str = CONFIG_MAP
    secret: str = SECRET
    port: int = 8080

    def __post_init__(self) -> None:
        for name in (self.config_map, self.secret):
            if not _OBJECT_NAME.fullmatch(name):
                raise UsageError(f"{name!r:.80} is not a valid name", hint="use small letters, digits, - and .")
        if self.image is not None and not (self.image.isprintable() and self.image.strip()):
            raise UsageError(f"{self.image!r:.80} is not an image name")


def unit_report(
    program: Sequence[str],
    options: Sequence[str],
    of_run: Sequence[str],
    runner: Runner,
    every_minutes: int,
    *,
    place: KubernetesPlace,
) -> Report:
    """The files by name; `program` is the command line up to the group, `options` those of `run` and `once`.

    `of_run` are options of `run` alone. Raises `UsageError` for them where `once` is run, for words that no unit file
    can hold, and for Kubernetes without an image (`place`).
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
            files = {f"{NAME}.yaml": _objects(place, program, ["run", *options, *of_run])}
    return files_report("autothrottle unit", runner.value, files)


def _objects(place: KubernetesPlace, program: Sequence[str], run: Sequence[str]) -> str:
    """Two pods, of which one leads; their control store must be Kafka or ZooKeeper."""
    if place.image is None:
        raise UsageError("a Deployment needs an image", hint="--image: one with kafkakit")
    pod = CommandPod(
        name=NAME,
        component="autothrottle",
        image=place.image,
        command=() if program[0] == USUAL_PROGRAM else (program[0],),
        arguments=(*program[1:], "autothrottle", *run),
        cpu="50m",
        memory="128Mi",
        memory_limit="512Mi",
        port=place.port,
        config_map=place.config_map,
        secret=place.secret,
        environment={"KAFKAKIT_CONTROL_STORE": "kafka"},
    )
    return manifest(deployment(pod, 2), disruption_budget(pod))
