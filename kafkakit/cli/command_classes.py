"""The command classes that carry the shared options and fill the invocation's `CliContext` with them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kafkakit.cli.context import CliContext, cli_context
from kafkakit.cli.shared_options import SHARED_TITLE, shared_params
from kafkakit.config.merge import parse_overrides
from kafkakit.config.read.settings import key_rows
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report

__all__ = ["CliCommand", "CliContext", "CliGroup", "cli_context", "new_group", "shared_option_names"]


def _key_list() -> Report:
    rows = key_rows()
    columns = ("key", "default", "about")
    keys = [dict(zip(columns, row, strict=True)) for row in rows]
    return Report(command="-X list", data={"keys": keys}, text=text_table(columns, rows), columns=columns, rows=rows)


def _add_shared(params: list[Any]) -> list[Any]:
    taken = {option for param in params for option in param.opts} | {param.name for param in params}
    free = [p for p in shared_params() if p.name not in taken and not taken.intersection(p.opts)]
    return [*params, *free]


def _take_shared(ctx: Any, own: frozenset[str]) -> None:
    if not isinstance(ctx.obj, CliContext):
        ctx.obj = ctx.find_object(CliContext) or CliContext()
    for param in shared_params():
        if param.name in own or param.name not in ctx.params:
            continue
        value = ctx.params.pop(param.name)
        source = ctx.get_parameter_source(param.name)
        if value in (None, [], ()) or source is None or source.name == "DEFAULT":
            continue
        flag = (
            "env"
            if source.name == "ENVIRONMENT"
            else f"flag {param.opts[-1] if len(param.opts) < 3 else param.opts[1]}"
        )
        ctx.obj.take(param.name, value, flag)
    ctx.obj.command_path = ctx.command_path
    if ctx.obj.wants_key_list():
        ctx.obj.output.result(_key_list())
        raise typer.Exit


def _format_options(command: Any, ctx: Any, formatter: Any, own: frozenset[str]) -> None:
    records: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], SHARED_TITLE: []}
    shared = {param.name for param in shared_params()} - own
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            is_shared = param.param_type_name == "option" and param.name in shared
            kind = "Arguments" if param.param_type_name == "argument" else SHARED_TITLE if is_shared else "Options"
            records[kind].append(record)
    for title, rows in records.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class CliCommand(TyperCommand):
    """A command with the shared options added to its own; its own win where names clash."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **kwargs: Any) -> None:
        kwargs["rich_markup_mode"] = None
        own = list(params or [])
        self._own_names = frozenset(param.name for param in own)
        super().__init__(*args, params=_add_shared(own), **kwargs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then hand the shared options to the `CliContext` instead of the function."""
        rest = super().parse_args(ctx, args)
        _take_shared(ctx, self._own_names)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command under its time limit."""
        cli = ctx.find_object(CliContext)
        parse_overrides(cli.given.overrides)
        if cli.timeout_s is not None:
            cli.start_deadline(cli.timeout_s)
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the command's own options first, then the shared ones."""
        _format_options(self, ctx, formatter, self._own_names)


class CliGroup(TyperGroup):
    """A group that takes the shared options before the command's name."""

    def __init__(self, *, params: list[Any] | None = None, **kwargs: Any) -> None:
        kwargs["rich_markup_mode"] = None
        own = list(params or [])
        self._own_names = frozenset(param.name for param in own)
        super().__init__(params=_add_shared(own), **kwargs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then hand the shared options to the `CliContext`."""
        rest = super().parse_args(ctx, args)
        _take_shared(ctx, self._own_names)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the commands first; a reader of a group's help wants those."""
        self.format_commands(ctx, formatter)
        _format_options(self, ctx, formatter, self._own_names)


def shared_option_names(command: Any) -> frozenset[str]:
    """The names of a command's parameters that are shared options rather than its own."""
    own: frozenset[str] = getattr(command, "_own_names", frozenset())
    return frozenset(param.name for param in shared_params()) - own


def new_group(help: str) -> typer.Typer:  # noqa: A002 - typer's own word
    """A typer group as all of the program are: plain errors, shared options, no completion options."""
    return typer.Typer(
        cls=CliGroup,
        help=help,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
