"""`kafkakit version` and `kafkakit completion`, which kafka-kit's programs have as well."""

from enum import StrEnum
from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.session import finish
from kafkakit.report.report import Report, ResultTable, attributes, lines_from

app = new_group("Print the versions of kafkakit and its parts.")
completion_app = new_group("Print a script that completes commands, options and names in a shell.")


class Shell(StrEnum):
    """A shell with completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command("version", cls=CliCommand)
def show_version(ctx: typer.Context) -> int:
    """Print the versions of kafkakit, Python, the Kafka clients and the file formats, for a bug report.

    Examples:

    \b
    kafkakit version
    kafkakit version -o json
    """
    from kafkakit.wiring import installed_versions

    versions = installed_versions()
    rows = versions.rows()
    data = {
        "version": versions.kafkakit,
        **attributes(versions, "python librdkafka packages schemas"),
    }
    return finish(
        cli_context(ctx),
        Report(
            command="version",
            data=data,
            sections=(ResultTable(("name", "version"), rows),),
        ),
    )


@completion_app.command("completion", cls=CliCommand)
def print_completion(
    ctx: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]
) -> int:
    """Print a script that completes commands, options, profiles, topics, brokers and groups in a shell.

    Examples:

    \b
    source <(kafkakit completion bash)
    kafkakit completion zsh > ~/.zfunc/_kafkakit
    kafkakit completion fish > ~/.config/fish/completions/kafkakit.fish
    """
    from kafkakit.cli.completion import completion_script

    script = completion_script(ctx.find_root().command, shell.value)
    report = Report(
        command="completion",
        data={"shell": shell.value, "script": script},
        sections=lines_from(script),
        table=ResultTable(("script",), ()),
    )
    return finish(cli_context(ctx), report)


def add_kafka_kit_commands(group: typer.Typer) -> None:
    """Give a program of kafka-kit's its `version` and `completion`, without a place in help."""
    group.command("version", cls=CliCommand, hidden=True)(show_version)
    group.command("completion", cls=CliCommand, hidden=True)(print_completion)
