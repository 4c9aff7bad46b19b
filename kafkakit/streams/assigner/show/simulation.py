"""The report of a simulation."""

from collections.abc import Sequence

from kafkakit.core.quantities import counted
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.assigner.decide.simulation import FleetShape, SimulatedEvent

COLUMNS = ("event", "dead workers had", "moved", "unserved", "steps", "fullest", "emptiest")


def simulation_report(shape: FleetShape, events: Sequence[SimulatedEvent]) -> Report:
    """What each event led to; `fullest` and `emptiest` are parts of a worker's share."""
    rows = tuple(
        (each.what, each.share, each.moved, each.unserved, each.steps, round(each.fullest, 2), round(each.emptiest, 2))
        for each in events
    )
    lines = [
        f"{shape.streams * shape.partitions:,} partitions of {shape.streams:,} streams on {shape.clusters:,} clusters, "
        f"{shape.workers:,} workers in {counted(shape.pools, 'pool')}, seed {shape.seed}"
    ]
    lines += section("Events:", text_table(COLUMNS, rows).splitlines())
    return Report(
        command="streams assigner simulate",
        data={"fleet": plain_value(shape), "events": plain_value(tuple(events))},
        text=text_of(lines),
        columns=COLUMNS,
        rows=rows,
    )
