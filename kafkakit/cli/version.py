"""`kafkakit version`."""

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.session import finish
from kafkakit.core.text import text_table
from kafkakit.report import Report

app = new_group("Print the versions of kafkakit and its parts.")


@app.command("version", cls=CliCommand)
def show_version(ctx: typer.Context) -> int:
    """Print the versions of kafkakit, Python, the Kafka clients and the file formats, for a bug report."""
    from kafkakit.wiring import installed_versions

    versions = installed_versions()
    rows = versions.rows()
    data = {
        "version": versions.kafkakit,
        "python": versions.python,
        "librdkafka": versions.librdkafka,
        "packages": versions.packages,
        "schemas": versions.schemas,
    }
    return finish(
        cli_context(ctx),
        Report(
            command="version",
            data=data,
            text=text_table(("name", "version"), rows),
            columns=("name", "version"),
            rows=rows,
        ),
    )
