"""The options of `kafkakit fleet synth`."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from kafkakit.fleet.decide.synth_shape import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFleet:
    """What fleet is made."""

    tier: Annotated[Tier, typer.Option("--tier", help="XS 3, S 10, M 100, L 300 clusters.")] = Tier.XS
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed makes the same files.")] = 1
    defects: Annotated[
        str,
        typer.Option("--defects", metavar="FILE", help="A JSON object of counts by defect; `default` for all of them."),
    ] = ""
    date: Annotated[
        datetime | None, typer.Option("--date", formats=["%Y-%m-%d"], help="The last day; today when not given.")
    ] = None
    days: Annotated[int, typer.Option("--days", min=1, max=400, help="Days of snapshots, for drift.")] = 10
    skew: Annotated[bool, typer.Option("--skew", help="Put half of all partitions into one cluster.")] = False
    segment_rows: Annotated[
        int | None, typer.Option("--segment-rows", min=0, help="About how many rows of segments; the tier's own "
                                 "number when not given.")
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePlaces:
    """Where it is written."""

    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Write snapshots into this folder.")] = None
    segments: Annotated[
        Path | None, typer.Option("--segments", metavar="DIR", help="Write a log directory with real segment files.")
    ] = None
    large_mib: Annotated[
        int,
        typer.Option("--large-mib", min=0, help="Write this much of further segments there, of one batch repeated."),
    ] = 0
    sparse: Annotated[
        bool,
        typer.Option("--sparse", help="The further segments are holes between headers, for sizes beyond the disk."),
    ] = False
