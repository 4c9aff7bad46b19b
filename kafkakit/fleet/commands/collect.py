"""`kafkakit fleet collect`."""

from __future__ import annotations

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.fleet.commands.options import (
    FleetChoice,
    FleetTags,
    Pace,
    StorePlace,
    WhatToCollect,
    WhereToRun,
    task_words,
)


@with_option_groups
def collect(
    ctx: typer.Context,
    which: FleetChoice,
    place: StorePlace,
    what: WhatToCollect,
    tags: FleetTags,
    pace: Pace,
    where: WhereToRun,
) -> int:
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
    kafkakit fleet collect --fleet fleet.yaml --to s3://bucket/fleet --backend spark-submit --master yarn
    """
    from functools import partial

    from kafkakit.cli.common_options import driver_ports
    from kafkakit.cli.session import finish
    from kafkakit.fleet.act.collect_fleet import collect_fleet
    from kafkakit.fleet.act.collect_with_spark import collect_with_spark
    from kafkakit.fleet.show import collect_report
    from kafkakit.wiring import system_clock

    cli, day, spark = cli_context(ctx), place.snapshot_date(), where.spark()
    sources, request, limits, store = which.sources(cli, tags), what.request(day), pace.limits, place.open()
    if spark is not None:
        names = [source.entry.name for source in sources]
        words = task_words(cli, which, place, day, what, tags, pace)
        outcomes = collect_with_spark(
            names, words, cli.folders.state / f"fleet/collect-{day}", spark, driver_ports(cli)
        )
    else:
        lock = partial(place.lock, cli, day)
        outcomes = collect_fleet(sources, request, limits, store, lock, system_clock(), cli.output)
    return finish(cli, collect_report(outcomes, place.to, day))
