"""The limits that `kafkakit streams lag check` takes, each as a warning and as critical."""

from typing import Annotated

import typer

from kafkakit.streams.lag.decide.views.thresholds import JudgedBound

WarnLag = Annotated[
    str | None,
    typer.Option(
        "--warn-lag",
        metavar="N",
        help="Warn above so many records of a group in a topic (10k, 1.5M).",
        show_default=False,
    ),
]
CritLag = Annotated[str | None, typer.Option("--crit-lag", metavar="N", help="The same, critical.", show_default=False)]
WarnTime = Annotated[
    str | None,
    typer.Option(
        "--warn-time", metavar="DURATION", help="Warn above this time lag of a partition.", show_default=False
    ),
]
CritTime = Annotated[
    str | None, typer.Option("--crit-time", metavar="DURATION", help="The same, critical.", show_default=False)
]
WarnRetention = Annotated[
    str | None,
    typer.Option(
        "--warn-retention",
        metavar="DURATION",
        help="Warn when records will be deleted undone within this time.",
        show_default=False,
    ),
]
CritRetention = Annotated[
    str | None, typer.Option("--crit-retention", metavar="DURATION", help="The same, critical.", show_default=False)
]
WarnStatus = Annotated[
    str, typer.Option("--warn-status", metavar="STATUS,...", help="Statuses to warn of; none for none.")
]
CritStatus = Annotated[
    str, typer.Option("--crit-status", metavar="STATUS,...", help="Statuses that are critical; none for none.")
]
JudgeBy = Annotated[
    JudgedBound,
    typer.Option("--judge", help="Which end of a time lag's interval counts; low never calls anybody for nothing."),
]
