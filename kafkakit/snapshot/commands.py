"""`kafkakit snapshot`: a cluster's state as a file that every planning command can work from."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import TagSource
from kafkakit.cli.option_groups import with_option_groups

app = new_group("Read a cluster's state into a file.")


@app.command("snapshot", cls=CliCommand)
@with_option_groups
def snapshot(
    ctx: typer.Context,
    source: TagSource,
    sizes: Annotated[
        bool, typer.Option("--sizes/--no-sizes", help="Read the log dirs of every broker and the size of each replica.")
    ] = True,
    tags: Annotated[
        bool,
        typer.Option("--tags", help="Also read the tags of brokers and topics, so that queries work on the file."),
    ] = False,
) -> None:
    """Read brokers, topics, replicas, sizes, configurations and running moves into one JSON document.

    The document goes to --output-file (always as JSON), or to stdout; -o tsv prints a row for each broker instead.
    A broker that does not answer within the request timeout is named in the document and on stderr, and the sizes
    of its replicas are absent. Reads only. Exit codes: 0 done, 1 a permission is missing, 75 the cluster cannot be
    reached.

    Examples:

    \b
    kafkakit --profile prod snapshot --output-file prod.json
    kafkakit topicmappr rebuild --snapshot prod.json --topics '.*' --brokers -2
    """
    from dataclasses import replace
    from functools import partial

    from kafkakit.cli.output import OutputFormat
    from kafkakit.cli.session import finish, open_session
    from kafkakit.execution.act.retrier import mark_cordoned, with_usual_min_isr
    from kafkakit.snapshot.act import write_snapshot
    from kafkakit.wiring import write_file

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        taken = with_usual_min_isr(session.admin, session.admin.snapshot(now=session.clock.now(), sizes=sizes))
        taken = mark_cordoned(taken, lambda: session.control_view, cli.output.warn)
        if tags:
            taken = replace(taken, tags=source.read(session))
    as_data = cli.output.output_format in (OutputFormat.JSON, OutputFormat.YAML)
    write_snapshot(taken, cli.output.output_file, write_file, partial(finish, cli), cli.output, as_data=as_data)
