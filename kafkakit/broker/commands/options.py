"""The options that commands of `kafkakit broker` share."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.placement.choices import PlaceBy

Ids = Annotated[str, typer.Argument(metavar="ID[,ID...]", help="The brokers that are to be emptied; they may be dead.")]
Old = Annotated[str, typer.Argument(metavar="OLD", help="The broker that goes; it may be dead.")]
New = Annotated[str, typer.Option("--with", metavar="NEW", help="The broker that takes every replica, in its place.")]
To = Annotated[
    str,
    typer.Option(metavar="IDS", help="The brokers that may take the replicas; all other live ones if not given."),
]
Place = Annotated[
    PlaceBy | None,
    typer.Option(
        help="What comes out even: free bytes, or counts; by storage where all sizes are known, if not given."
    ),
]
MinRackIds = Annotated[
    int,
    typer.Option(
        min=0,
        help="Let racks repeat in a replica set once it spans this many; 0: every replica needs a rack of its own.",
    ),
]
Spread = Annotated[
    bool, typer.Option("--spread", help="Keep a partition's replicas per rack within one of each other instead.")
]
Replan = Annotated[
    bool,
    typer.Option(
        "--replan", help="Cancel what an interrupted operation has in flight, and plan the rest anew from there."
    ),
]
IgnoreWarns = Annotated[
    bool, typer.Option("--ignore-warns", help="Carry out what can be, although some replicas will stay.")
]
Comers = Annotated[str, typer.Argument(metavar="ID[,ID...]", help="The brokers that came back.")]
Restore = Annotated[
    str,
    typer.Option(
        metavar="RECORD",
        help="Take back the operation of this record, the file that `drain` named at its end; `last`: the last one on "
        "just these brokers.",
    ),
]
Wait = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to wait for the brokers, and then for their copies.")
]
LeadersAtOnce = Annotated[int, typer.Option(min=1, max=5000, help="Leaderships that pass at the same time.")]
LeadersPause = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to wait between such groups of leaderships; 0: not at all.")
]
