"""The options of `kafkakit audit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kafkakit.audit.decide.request import ALL, DEFAULT_DAYS, JOBS, AuditRequest
from kafkakit.cli.context import CliContext
from kafkakit.cli.output import OutputFormat
from kafkakit.cli.spark_options import absolute
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
        """Let the kit write in this format."""
        if self.format is not None:
            cli.take("output", self.format.value, "flag -o")
