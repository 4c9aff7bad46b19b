"""The options that commands of `kafkakit reassign` share."""

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
PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking; needed where nobody can be asked.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Run every check and show the changes, with a client that cannot write.")
]
Throttle = Annotated[
    str | None,
    typer.Option(
        "--throttle",
        metavar="RATE",
        help="Limit the copying on each broker to this many bytes a second (20MB, 20MiB, 500kB), on the moved "
        "replicas only; `none` drops a throttle that an interrupted run left. Without it an interrupted run's is kept.",
    ),
]
MaxIn = Annotated[
    int, typer.Option("--max-in", min=1, max=1000, help="New copies that a broker takes in at the same time.")
]
MaxOut = Annotated[
    int, typer.Option("--max-out", min=1, max=1000, help="New copies that a broker sends at the same time.")
]
MaxMoves = Annotated[
    int,
    typer.Option(
        "--max-moves-in-flight",
        "--batch-size",
        min=1,
        max=5000,
        help="Partitions that move at the same time in the whole cluster.",
    ),
]
OneReplica = Annotated[
    bool, typer.Option("--one-replica-at-a-time", help="Give a partition one new copy after the other.")
]
MaxDiskUse = Annotated[
    str,
    typer.Option(
        "--max-disk-use",
        metavar="PERCENT",
        help="Never fill a log dir above this share of its size (95%), on the way either.",
    ),
]
DiskHeadroom = Annotated[
    str, typer.Option("--disk-headroom", metavar="SIZE", help="Leave this much free in each log dir in any case.")
]
IngestSample = Annotated[
    str,
    typer.Option(
        "--ingest-sample",
        metavar="DURATION",
        help="Measure for this long what the logs take in, for the times and the disks; 0: count with no growth.",
    ),
]
Others = Annotated[
    bool,
    typer.Option(
        "--wait-for-others/--refuse-others",
        help="Wait while somebody else moves planned partitions, or refuse; such a move is never overwritten.",
    ),
]
AllowDrift = Annotated[
    bool, typer.Option("--allow-drift", help="Go on although other partitions or racks changed since the plan.")
]
StallTimeout = Annotated[
    str, typer.Option("--stall-timeout", metavar="DURATION", help="Stop when no byte was copied for this long.")
]
