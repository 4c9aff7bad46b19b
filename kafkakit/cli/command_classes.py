"""The command classes that carry the shared options and fill the invocation's `CliContext` with them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kafkakit.cli.context import CliContext, cli_context
from kafkakit.cli.help_text import plain_usage, write_options
from kafkakit.cli.output import write_out
from kafkakit.cli.shared_options import shared_params
from kafkakit.config.merge import parse_overrides
from kafkakit.config.read.settings import key_rows
from kafkakit.core.text import text_table
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


class _AtFirstValue:
    """Converts the values of a parameter like typer does, but loads what checks them with the first value.

    typer builds the check of every parameter that is not given, too, which takes longer than printing help.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The converted value; an empty tuple for a repeatable option that is not given."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_AT_FIRST_VALUE = _AtFirstValue()


def _before_parsing(command: Any, ctx: Any, args: list[str]) -> None:
    """Print help at once where it is the first word."""
    for param in command.get_params(ctx):
        if param._runtime_param is None:
            param._runtime_param = _AT_FIRST_VALUE
    if args[:1] == ["--help"] and not ctx.resilient_parsing:
        write_out(ctx.get_help() + "\n")
        raise typer.Exit


class CliCommand(TyperCommand):
    """A command with the shared options added to its own; its own win where names clash."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **kwargs: Any) -> None:
        kwargs["rich_markup_mode"] = None
        own = list(params or [])
        self._own_names = frozenset(param.name for param in own)
        super().__init__(*args, params=_add_shared(own), **kwargs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then hand the shared options to the `CliContext` instead of the function."""
        _before_parsing(self, ctx, args)
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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments as in the manuals of git and kubectl: NAME, and [NAME] where it may be left out."""
        return [plain_usage(piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the command's own options in their sections, then the shared ones."""
        write_options(self, ctx, formatter, shared_option_names(self))


class CliGroup(TyperGroup):
    """A group that takes the shared options before the command's name."""

    def __init__(self, *, params: list[Any] | None = None, **kwargs: Any) -> None:
        kwargs["rich_markup_mode"] = None
        own = list(params or [])
        self._own_names = frozenset(param.name for param in own)
        super().__init__(params=_add_shared(own), **kwargs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then hand the shared options to the `CliContext`."""
        _before_parsing(self, ctx, args)
        rest = super().parse_args(ctx, args)
        _take_shared(ctx, self._own_names)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the commands first; a reader of a group's help wants those."""
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter, shared_option_names(self))


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
