"""`kafkakit fleet collect`."""

from __future__ import annotations

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.fleet.commands.options import FleetChoice, Pace, StorePlace, WhatToCollect


@with_option_groups
def collect(ctx: typer.Context, which: FleetChoice, place: StorePlace, what: WhatToCollect, pace: Pace) -> int:
    """Read clusters side by side and write a snapshot of each into a store of Parquet files, for audits.

    Reads brokers, configurations, topics, partitions, replicas, log dirs and consumer groups, and changes nothing. No
    value of a sensitive setting is stored. A cluster that is complete for the date is not read again unless --again
    is given; one that fails does not stop the others. Exit codes: 0 all clusters are in the store, 1 some are not,
    2 wrong options or files, 75 another process is writing a cluster.

    Examples:

    \b
    kafkakit fleet collect --profiles prod-a,prod-b --to /srv/fleet
    kafkakit fleet collect --fleet fleet.yaml --to s3://bucket/fleet --concurrency 16
    kafkakit fleet collect --fleet fleet.yaml --to /srv/fleet --profiles prod-a --again
    """
    from functools import partial

    from kafkakit.cli.session import finish
    from kafkakit.fleet.act.collect_fleet import collect_fleet
    from kafkakit.fleet.show import collect_report
    from kafkakit.wiring import system_clock

    cli, day = cli_context(ctx), place.snapshot_date()
    outcomes = collect_fleet(
        which.sources(cli),
        what.request(day),
        pace.limits,
        place.open(),
        partial(place.lock, cli, day),
        system_clock(),
        cli.output,
    )
    return finish(cli, collect_report(outcomes, place.to, day))
