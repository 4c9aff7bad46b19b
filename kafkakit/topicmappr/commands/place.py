"""`kafkakit topicmappr place`: where the partitions of a new topic should go."""

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.topicmappr.commands.flow import observed
from kafkakit.topicmappr.commands.options import ConstraintOptions, OutPath, Snapshot
from kafkakit.topicmappr.commands.request_options import NewTopicOptions


@with_option_groups
def place(
    ctx: typer.Context,
    new: NewTopicOptions,
    tags: ConstraintOptions,
    snapshot: Snapshot = None,
    out_path: OutPath = "",
) -> int:
    """Choose the brokers of a new topic's partitions.

    Spreads replicas and leaders over racks and brokers, under the rack rule, then evens out the load of all topics.
    Writes the assignment as a map file and
    prints the kafka-topics command that creates the topic; there is no plan, since nothing has to move.
    """
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish
    from kafkakit.topicmappr.act.places import MapDestination
    from kafkakit.topicmappr.act.saving import save_maps
    from kafkakit.topicmappr.decide.place import decide_place
    from kafkakit.topicmappr.show.place import place_report
    from kafkakit.wiring import write_files

    cli, request, destination = cli_context(ctx), new.request(tags.constraints), MapDestination(out_path=out_path)
    destination.check()
    state, request = observed(ctx, snapshot, request, tags)
    with cli.output.progress("placing"), answered_at_once(None):
        placed = decide_place(state, request)
    (saved,) = save_maps((placed.as_map(),), destination, write_files)
    address = None if snapshot is not None else cli.settings.bootstrap_servers
    return finish(cli, place_report(placed, saved.path, address))
