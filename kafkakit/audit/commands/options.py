"""The options of `kafkakit audit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kafkakit.audit.decide.request import ALL, DEFAULT_DAYS, JOBS, AuditRequest
from kafkakit.audit.decide.schedule import Schedule
from kafkakit.cli.context import CliContext
from kafkakit.cli.output import OutputFormat
from kafkakit.cli.spark_options import absolute
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import FailOn

RunFolderArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's folder, as audit printed it: a path or a URI.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditInputs:
    """What is audited, and where results go."""

    input: Annotated[str, typer.Option("--input", metavar="DIR|URI", help="The store of snapshots.")]
    output: Annotated[str, typer.Option("--output", metavar="DIR|URI", help="Where the folder of the run is made.")]
    date: Annotated[
        str | None, typer.Option("--date", metavar="DATE", help="The snapshots' day; the newest when not given.")
    ] = None
    days: Annotated[
        int, typer.Option("--days", min=1, max=3660, metavar="N", help="Days of history, the snapshots' among them.")
    ] = DEFAULT_DAYS
    segments: Annotated[
        list[str] | None,
        typer.Option("--segments", metavar="DIR", help="Scan this tree of log segments, too. Repeatable."),
    ] = None
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="JOB.PARAMETER=VALUE", help="Set a threshold of a job. Repeatable."),
    ] = None

    def request(self, name: str) -> AuditRequest:
        """What was asked for; paths of this host as absolute ones."""
        return AuditRequest(
            jobs=tuple(JOBS) if name == ALL else (name,),
            input=absolute(self.input),
            output=absolute(self.output),
            date=self.date,
            days=self.days,
            segments=tuple(absolute(folder) for folder in self.segments or ()),
            parameters=tuple(self.parameters or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMode:
    """How the run is followed."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be started, and start nothing.")] = False
    detach: Annotated[bool, typer.Option("--detach", help="Print the run's folder and leave it running.")] = False
    again: Annotated[bool, typer.Option("--again", help="Run even where the same run has a result.")] = False
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 with findings of this severity or worse.")] = (
        FailOn.WARNING
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFormat:
    """The format of the result; `--output` is where the run's results go."""

    format: Annotated[
        OutputFormat | None,
        typer.Option("-o", "--format", envvar="KAFKAKIT_OUTPUT", help="Format of the result; text when not given."),
    ] = None

    def take_over(self, cli: CliContext) -> None:
        """Write the result in this format."""
        if self.format is not None:
            cli.take("output", self.format.value, "flag -o")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """What is collected and audited each day, and where it goes."""

    store: Annotated[str, typer.Option("--store", metavar="DIR|URI", help="The store of snapshots.")]
    results: Annotated[str, typer.Option("--results", metavar="DIR|URI", help="Where folders of runs are made.")]
    fleet: Annotated[str | None, typer.Option("--fleet", metavar="FILE", help="The clusters, as a fleet file.")] = None
    profiles: Annotated[
        str | None, typer.Option("--profiles", metavar="A,B", help="The clusters, as names of profiles.")
    ] = None
    at: Annotated[
        str, typer.Option("--at", metavar="HH:MM", help="Time of day in UTC; with cron in that of the machine.")
    ] = "03:30"
    job: Annotated[str, typer.Option("--job", metavar="NAME", help="The audit, or all.")] = ALL
    metrics_file: Annotated[
        str | None, typer.Option("--metrics-file", metavar="FILE", help="Write the figures for Prometheus here.")
    ] = None
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What it is called.")] = "kafkakit-audits"
    program: Annotated[
        str, typer.Option("--program", metavar="PATH", help="The program as the scheduler finds it.")
    ] = "/usr/local/bin/kafkakit"
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="With k8s: an image with kafkakit[spark] and Java.")
    ] = None
    namespace: Annotated[str, typer.Option("--namespace", metavar="NAME", help="With k8s: the namespace.")] = "default"
    secret: Annotated[
        str | None,
        typer.Option("--secret", metavar="NAME", help="With k8s: a secret whose keys become environment variables."),
    ] = None

    def schedule(self) -> Schedule:
        """What was asked for; `UsageError` where no clusters are named, or for an unknown audit."""
        chosen = (("--fleet", self.fleet), ("--profiles", self.profiles))
        collect = tuple(word for flag, value in chosen if value is not None for word in (flag, value))
        if not collect:
            raise UsageError("no clusters are named", hint="--fleet FILE or --profiles NAME,...")
        if self.job != ALL and self.job not in JOBS:
            raise UsageError(f"there is no audit {self.job!r:.40}", hint=f"one of {', '.join(JOBS)}, or {ALL}")
        return Schedule(
            collect=collect,
            store=self.store,
            results=self.results,
            at=self.at,
            job=self.job,
            metrics_file=self.metrics_file,
            name=self.name,
            program=self.program,
            image=self.image,
            namespace=self.namespace,
            secret=self.secret,
        )
