"""A daily collection and audit of a fleet: what is asked for, checked, and the commands that it takes."""

import re
import shlex
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.errors import UsageError

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")


class Scheduler(StrEnum):
    """What starts the audits."""

    SYSTEMD = "systemd"
    CRON = "cron"
    K8S = "k8s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Collect and audit a fleet each day at a time.

    `collect` are the options that choose the clusters. Places are absolute paths or URIs, `at` is `HH:MM` in UTC (of
    the machine with cron). `metrics_file` gets the figures. `image`, `namespace` and `secret` (its keys become
    environment variables) are for Kubernetes. Raises `UsageError` for what cannot be scheduled.
    """

    collect: tuple[str, ...]
    store: str
    results: str
    at: str = "03:30"
    job: str = "all"
    metrics_file: str | None = None
    name: str = "kafkakit-audits"
    program: str = "/usr/local/bin/kafkakit"
    image: str | None = None
    namespace: str = "default"
    secret: str | None = None

    def __post_init__(self) -> None:
        texts = [*self.collect, self.store, self.results, self.program, self.metrics_file or "/"]
        if any(not text.isprintable() for text in texts):
            raise UsageError("a path or name holds a character that does not print")
        for what, place in (("store", self.store), ("results", self.results), ("metrics file", self.metrics_file)):
            if place is not None and not place.startswith("/") and "://" not in place:
                raise UsageError(f"the {what} {place:.80} is not absolute", hint="write a path that begins with /")
        if not _TIME.fullmatch(self.at):
            raise UsageError(f"{self.at!r:.40} is not a time of day", hint="write it like 03:30")
        for text in (self.name, self.namespace, self.secret or "a"):
            if not _NAME.fullmatch(text):
                raise UsageError(f"{text!r:.80} is no name", hint="use small letters, digits and - between them")
        if self.image is not None and not _IMAGE.fullmatch(self.image):
            raise UsageError(f"{self.image!r:.80} is no name of an image")

    @property
    def hour_and_minute(self) -> tuple[int, int]:
        """The time as numbers."""
        hour, _, minute = self.at.partition(":")
        return int(hour), int(minute)

    @property
    def script(self) -> str:
        """The commands for a POSIX shell, in one line.

        Clusters that could not be read (exit code 1) do not keep the others from being audited, but the run ends
        with 1. Findings do not make it fail: they are in the report.
        """
        collect = [self.program, "fleet", "collect", *self.collect, "--to", self.store]
        audit = [self.program, "audit", self.job, "--input", self.store, "--output", self.results, "--fail-on", "never"]
        steps = [shlex.join(collect), 'c=$?; [ "$c" -le 1 ] || exit "$c"', f'{shlex.join(audit)} || exit "$?"']
        if self.metrics_file is not None:
            metrics = [self.program, "audit", "metrics", self.results, "--output-file", self.metrics_file]
            steps.append(f'{shlex.join(metrics)} || exit "$?"')
        return "; ".join([*steps, 'exit "$c"'])
