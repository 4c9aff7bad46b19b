"""The options that every command has: declared once, turned into parameters once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.output import ColorChoice, OutputFormat, write_out

SHARED_TITLE = "Shared options (before or after the command)"
_ALL = "kafkakit.help_all"


def shows_all(ctx: Any) -> bool:
    """True when help is to describe the shared options, too."""
    return bool(ctx.meta.get(_ALL))


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        write_out(ctx.get_help() + "\n")
        raise typer.Exit


def _shared_options(
    output: Annotated[
        OutputFormat | None,
        typer.Option("-o", "--output", envvar="KAFKAKIT_OUTPUT", help="Format of the result; text when not given."),
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output-file", help="Write the result to this file instead of stdout.")
    ] = None,
    color: Annotated[
        ColorChoice | None,
        typer.Option("--color", envvar="KAFKAKIT_COLOR", help="Colour on stderr; auto honours NO_COLOR and TERM=dumb."),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            envvar="KAFKAKIT_TIMEOUT",
            metavar="DURATION",
            help="Stop after this long (500ms, 5s, 2m) and exit 75. Without it a command that reads once gives up "
            "when the cluster did not answer for a minute.",
        ),
    ] = None,
    no_input: Annotated[
        bool, typer.Option("--no-input", envvar="KAFKAKIT_NO_INPUT", help="Never prompt; fail where input is needed.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            envvar="KAFKAKIT_PROFILE",
            metavar="NAME",
            autocompletion=complete_profile_names,
            help="Use the cluster profile of this name.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            envvar="KAFKAKIT_CONFIG",
            help="Read only this config file instead of searching for config files.",
        ),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "-B",
            "--bootstrap-server",
            "--bootstrap-servers",
            envvar=["KAFKAKIT_BOOTSTRAP_SERVER", "KAFKAKIT_BOOTSTRAP_SERVERS"],
            metavar="HOST:PORT,...",
            help="Kafka addresses to connect to first.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("-X", metavar="KEY=VALUE", help="Set any configuration key; -X list names them. Repeatable."),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            envvar="KAFKAKIT_COMMAND_CONFIG",
            help="Read client settings from this Java properties file, as Kafka's own tools do.",
        ),
    ] = None,
    help_all: Annotated[
        bool,
        typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show this message with all options."),
    ] = False,
) -> None:
    """Hold the declarations of the shared options; `shared_params` turns them into parameters."""


@cache
def shared_params() -> tuple[Any, ...]:
    """The parameters, one object each for all commands."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_shared_options)
    return tuple(typer.main.get_command(app).params)
