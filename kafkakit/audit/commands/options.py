"""The options of `kafkakit audit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kafkakit.audit.decide.request import ALL, DEFAULT_DAYS, JOBS, AuditRequest
from kafkakit.audit.decide.schedule import Schedule
from kafkakit.audit.decide.scope import ScopeRequest
from kafkakit.cli.common_options import absolute
from kafkakit.cli.completion import BROKER_CHOICE, TOPIC_CHOICE
from kafkakit.cli.context import CliContext
from kafkakit.cli.option_groups import option
from kafkakit.cli.output import OutputFormat
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
    date: str | None = option(None, "--date", metavar="DATE", help="The snapshots' day; the newest when not given.")
    days: int = option(
        DEFAULT_DAYS, "--days", min=1, max=3660, metavar="N", help="Days of history, the snapshots' among them."
    )
    segments: list[str] | None = option(
        None, "--segments", metavar="DIR", help="Scan this tree of log segments, too. Repeatable."
    )
    parameters: list[str] | None = option(
        None, "--set", metavar="JOB.PARAMETER=VALUE", help="Set a threshold of a job. Repeatable."
    )

    clusters: str | None = option(
        None,
        "--clusters",
        metavar="NAME,...|where QUERY",
        help="Look at these clusters of the store only, such as 'where env = prod'.",
    )
    topics: str | None = option(
        None,
        "--topics",
        **TOPIC_CHOICE,
        help="Of findings about topics, only those about these, such as 'where tier = hot'.",
    )
    brokers: str | None = option(
        None,
        "--brokers",
        **BROKER_CHOICE,
        help="Of findings about brokers, only those about these, such as 'where rack = a'.",
    )

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
            scope=ScopeRequest(clusters=self.clusters, topics=self.topics, brokers=self.brokers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMode:
    """How the run is followed."""

    dry_run: bool = option(False, "--dry-run", help="Print what would be started, and start nothing.")
    detach: bool = option(False, "--detach", help="Print the run's folder and leave it running.")
    again: bool = option(False, "--again", help="Run even where the same run has a result.")
    fail_on: FailOn = option(FailOn.WARNING, "--fail-on", help="Exit 1 with findings of this severity or worse.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFormat:
    """The format of the result; `--output` is where the run's results go."""

    format: OutputFormat | None = option(
        None, "-o", "--format", envvar="KAFKAKIT_OUTPUT", help="Format of the result; text when not given."
    )

    def take_over(self, cli: CliContext) -> None:
        """Write the result in this format."""
        if self.format is not None:
            cli.take("output", self.format.value, "flag -o")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """What is collected and audited each day, and where it goes."""

    store: Annotated[str, typer.Option("--store", metavar="DIR|URI", help="The store of snapshots.")]
    results: Annotated[str, typer.Option("--results", metavar="DIR|URI", help="Where folders of runs are made.")]
    fleet: str | None = option(None, "--fleet", metavar="FILE", help="The clusters, as a fleet file.")
    profiles: str | None = option(None, "--profiles", metavar="A,B", help="The clusters, as names of profiles.")
    at: str = option("03:30", "--at", metavar="HH:MM", help="Time of day in UTC; with cron in that of the machine.")
    job: str = option(ALL, "--job", metavar="NAME", help="The audit, or all.")
    metrics_file: str | None = option(
        None, "--metrics-file", metavar="FILE", help="Write the figures for Prometheus here."
    )
    name: str = option("kafkakit-audits", "--name", metavar="NAME", help="What it is called.")
    program: str = option(
        "/usr/local/bin/kafkakit", "--program", metavar="PATH", help="The program as the scheduler finds it."
    )
    image: str | None = option(
        None, "--image", metavar="IMAGE", help="With k8s: an image with kafkakit[spark] and Java."
    )
    namespace: str = option("default", "--namespace", metavar="NAME", help="With k8s: the namespace.")
    secret: str | None = option(
        None, "--secret", metavar="NAME", help="With k8s: a secret whose keys become environment variables."
    )

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
