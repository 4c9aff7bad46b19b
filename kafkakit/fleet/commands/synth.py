"""`kafkakit fleet synth`."""

from functools import partial

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.fleet.commands.synth_options import MadeFleet, MadePlaces


@with_option_groups
def synth(
    ctx: typer.Context,
    made: MadeFleet,
    places: MadePlaces,
) -> None:
    """Make a fleet with known defects, to try audits on: snapshots, real log segments, or both.

    What is wrong where is in `truth.json` beside them. A healthy fleet, without --defects, has no finding above a note.

    Examples:

    \b
    kafkakit fleet synth --tier S --defects default --seed 7 --to fleet
    echo '{"retention-overshoot": 2}' > spec.json && kafkakit fleet synth --defects spec.json --to fleet
    """
    from kafkakit.cli.session import finish
    from kafkakit.fleet.act.synth import SynthOutput, SynthPlaces, make_fleet
    from kafkakit.fleet.decide.synth_spec import asked_fleet
    from kafkakit.wiring import open_table_store, read_input, system_clock, write_file

    cli = cli_context(ctx)
    request = asked_fleet(
        made.tier,
        made.seed,
        made.defects,
        partial(read_input, limit_bytes=2**20),
        (made.date or system_clock().now()).date(),
        days=made.days,
        is_skewed=made.skew,
        segment_rows=made.segment_rows,
    )
    to_write = SynthPlaces(to=places.to, segments=places.segments, large_mib=places.large_mib, is_sparse=places.sparse)
    output = SynthOutput(open_store=open_table_store, write_file=write_file, say=cli.output.say)
    finish(cli, make_fleet(request, output, to_write))
