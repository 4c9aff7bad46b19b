"""The throttle options that commands of `kafkakit reassign` share."""

from __future__ import annotations

from typing import Annotated

import typer

ThrottleBroker = Annotated[
    list[str] | None,
    typer.Option(
        "--throttle-broker",
        metavar="ID:RATE|ID:in=RATE,out=RATE",
        help="Give one broker rates of its own, for what it takes in, what it sends, or both: 3:10MB, "
        "3:in=10MB,out=40MB. Repeatable.",
    ),
]
ThrottleDirs = Annotated[
    str | None,
    typer.Option(
        "--throttle-dirs",
        metavar="RATE",
        help="Limit the copying between log dirs inside each broker; `none` drops that limit.",
    ),
]
