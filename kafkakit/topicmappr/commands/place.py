"""`kafkakit topicmappr place`: where the partitions of a new topic should go."""

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.cli.completion import complete_topic_names
from kafkakit.topicmappr.commands.options import MinRackIds, OutPath, Snapshot
from kafkakit.topicmappr.commands.planning import observe

NewName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the new topic; it must not exist.")]
Partitions = Annotated[int | None, typer.Option(help="How many partitions.")]
Factor = Annotated[int | None, typer.Option(help="How many replicas each partition has.")]
On = Annotated[
    str, typer.Option(help="Broker ids, comma separated; all live brokers if not given (-1: those in use, -2: all).")
]
PartitionBytes = Annotated[
    str, typer.Option(metavar="SIZE", help="Expected size of a partition (5GiB): fill brokers by bytes, not by counts.")
]
Like = Annotated[
    str,
    typer.Option(
        help="Take partitions, replication and size, where not given, from these topics (names or patterns).",
        autocompletion=complete_topic_names,
    ),
]


def place(
    ctx: typer.Context,
    topic: NewName,
    partitions: Partitions = None,
    replication: Factor = None,
    brokers: On = "",
    topics_like: Like = "",
    partition_bytes: PartitionBytes = "",
    snapshot: Snapshot = None,
    min_rack_ids: MinRackIds = 0,
    out_path: OutPath = "",
) -> int:
    """Say where the partitions of a new topic should go.

    Evens out what brokers carry of all topics, under the rack rule. Writes the assignment as a map file and
    prints the kafka-topics command that creates the topic; there is no plan, since nothing has to move.
    """
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.quantities import parse_size
    from kafkakit.core.topic_selection import parse_patterns
    from kafkakit.report.report import Report
    from kafkakit.topicmappr.act.cluster import Destination
    from kafkakit.topicmappr.decide.map_files import map_files
    from kafkakit.topicmappr.decide.place.decision import decide_place
    from kafkakit.topicmappr.decide.place.request import PlaceRequest
    from kafkakit.topicmappr.show.place import COLUMNS, place_data, place_rows, place_text
    from kafkakit.wiring import write_file

    kit = kit_of(ctx)
    request = PlaceRequest(
        topic=topic,
        partitions=partitions,
        replication=replication,
        partition_bytes=parse_size(partition_bytes) if partition_bytes else None,
        like=parse_patterns(topics_like),
        brokers=parse_broker_list(brokers) if brokers else None,
        min_rack_ids=min_rack_ids,
    )
    Destination(out_path=out_path).check()
    state = observe(kit, snapshot)
    with kit.output.progress("placing"):
        placed = decide_place(state, request)
    ((name, data, _),) = map_files(placed.as_map(), "")
    path = Path(out_path) / name
    write_file(path, data)
    address = None if snapshot is not None else kit.settings.bootstrap_servers
    kit.output.result(
        Report(
            command="topicmappr place",
            data=place_data(placed, str(path)),
            text=place_text(placed, str(path), address),
            columns=COLUMNS,
            rows=place_rows(placed),
        )
    )
    return 0
