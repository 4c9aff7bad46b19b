"""`python -m tests.made_fleet FOLDER`: a store of snapshots with one of each defect, and `truth.json` with these."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from tests.made_fleet.cluster import SIZES, Tier
from tests.made_fleet.defects import DEFECTS
from tests.made_fleet.fleet import FleetRequest, one_of_each
from tests.made_fleet.write import write_fleet

DAYS = 10
"""Enough for drift."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.made_fleet", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tier", type=Tier, choices=Tier, default=Tier.XS, help="XS 3, S 10, M 100, L 300 clusters")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same files")
    parser.add_argument("--date", type=date.fromisoformat, default=datetime.now(UTC).date(), help="last day; today")
    given = parser.parse_args(words)
    healthy = FleetRequest(size=SIZES[given.tier], seed=given.seed, last_day=given.date, days=DAYS)
    defects = one_of_each(DEFECTS, healthy)
    write_fleet(given.folder, replace(healthy, defects=defects))
    print(f"{healthy.size.clusters} clusters on {DAYS} days up to {given.date}, {len(defects)} defects: {given.folder}")


if __name__ == "__main__":
    main()
