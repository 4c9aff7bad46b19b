"""The options of `kafkakit fleet synth`."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kafkakit.cli.option_groups import option
from kafkakit.fleet.decide.synth_shape import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFleet:
    """What fleet is made."""

    tier: Tier = option(Tier.XS, "--tier", help="XS 3, S 10, M 100, L 300 clusters.")
    seed: int = option(1, "--seed", min=0, help="The same seed makes the same files.")
    defects: str = option(
        "", "--defects", metavar="FILE", help="A JSON object of counts by defect; `default` for all of them."
    )
    date: datetime | None = option(None, "--date", formats=["%Y-%m-%d"], help="The last day; today when not given.")
    days: int = option(10, "--days", min=1, max=400, help="Days of snapshots, for drift.")
    skew: bool = option(False, "--skew", help="Put half of all partitions into one cluster.")
    segment_rows: int | None = option(
        None, "--segment-rows", min=0, help="About how many rows of segments; the tier's own number when not given."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePlaces:
    """Where it is written."""

    to: Path | None = option(None, "--to", metavar="DIR", help="Write snapshots into this folder.")
    segments: Path | None = option(
        None, "--segments", metavar="DIR", help="Write a log directory with real segment files."
    )
    large_mib: int = option(
        0, "--large-mib", min=0, help="Write this much of further segments there, of one batch repeated."
    )
    sparse: bool = option(
        False, "--sparse", help="The further segments are holes between headers, for sizes beyond the disk."
    )
