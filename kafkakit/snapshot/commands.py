"""`kafkakit snapshot`: a cluster's state as a file that every planning command can work from."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import KitCommand, kit_of, new_group
from kafkakit.cli.output import OutputFormat
from kafkakit.report.report import Report

app = new_group("Read a cluster's state into a file.")


@app.command("snapshot", cls=KitCommand)
def snapshot(
    ctx: typer.Context,
    sizes: Annotated[
        bool, typer.Option("--sizes/--no-sizes", help="Ask every broker for its log dirs and the size of each replica.")
    ] = True,
) -> None:
    """Read brokers, topics, replicas, sizes, configurations and running moves into one JSON document.

    The document goes to --output-file (always as JSON), or to stdout; -o tsv prints a row for each broker
    instead. A broker that does not answer within the request timeout is named in the document and on
    stderr, and the sizes of its replicas are absent. Reads only. Exit codes: 0 done, 1 a right is missing,
    75 the cluster cannot be reached.

    Examples:

    \b
    kafkakit --profile prod snapshot --output-file prod.json
    kafkakit topicmappr rebuild --snapshot prod.json --topics '.*' --brokers -2
    """
    from kafkakit.snapshot.act import COLUMNS, take_snapshot
    from kafkakit.wiring import open_admin, system_clock, write_file

    kit = kit_of(ctx)
    output = kit.output
    admin = open_admin(kit.settings, read_only=True)
    try:
        taken = take_snapshot(admin, system_clock(), sizes=sizes)
    finally:
        admin.close()
    for warning in taken.warnings:
        output.warn(warning)
    if output.output_file is not None:
        write_file(output.output_file, taken.document)
    else:
        data = {}
        if output.output_format in (OutputFormat.JSON, OutputFormat.YAML):
            import json

            # The document has the header of its own kind, so that planning reads what is printed here.
            data = json.loads(taken.document)
        text = taken.document.decode() if output.output_format is OutputFormat.TEXT else ""
        output.result(Report(command="snapshot", data=data, text=text, columns=COLUMNS, rows=taken.rows))
    output.say(taken.summary)
