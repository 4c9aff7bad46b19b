"""`kafkakit fleet segments`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.fleet.commands.options import ScanChoice, StorePlace


@with_option_groups
def segments(
    ctx: typer.Context,
    which: ScanChoice,
    place: StorePlace,
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Log dirs of a broker, or copies of them.")],
) -> int:
    """Read the log dirs of a broker on this host, headers of batches only, into a store of snapshots.

    Works on running brokers, on stopped ones and on copied trees, and writes nothing to them. No key, value or header
    of a record is read. Files that are torn, damaged, foreign or that vanish while they are read are reported and
    stored as such. Run it on the host of each broker with the cluster's name in the store: rows of other brokers stay.
    Exit codes: 0 read, 1 the store takes no more, 2 wrong folders or options, 75 another process writes this broker.

    Examples:

    \b
    kafkakit fleet segments /var/lib/kafka/data --cluster prod-a --to s3://bucket/fleet
    kafkakit fleet segments /d1 /d2 --cluster prod-a --broker 5 --to /srv/fleet --crc --jobs 4
    """
    from functools import partial

    from kafkakit.adapters.files import LOCAL_FILES
    from kafkakit.cli.session import finish
    from kafkakit.fleet.act.scan_segments import scan_segments
    from kafkakit.fleet.show import segments_report
    from kafkakit.wiring import system_clock

    cli, day = cli_context(ctx), place.snapshot_date()
    scanned = scan_segments(
        which.request(folders, day),
        LOCAL_FILES,
        place.open(),
        partial(place.lock, cli, day, which.cluster),
        system_clock(),
        cli.output,
    )
    return finish(cli, segments_report(scanned, which.cluster, place.to, day))
