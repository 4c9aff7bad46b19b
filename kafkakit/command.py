"""The command classes that carry the shared options, and the per-invocation context they fill."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kafkakit.config_merge import parse_overrides
from kafkakit.durations import parse_duration
from kafkakit.output import ColorChoice, Output, OutputFormat, Result
from kafkakit.settings import Given, Settings, key_rows, load_settings
from kafkakit.settings_environment import Terminal, read_environment
from kafkakit.shared_options import SHARED_TITLE, shared_params
from kafkakit.tables import text_table


class Kit:
    """One invocation: what the shared options gave, and from it settings, output and limits, each made on first use."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[Any, str]] = {}
        self.command_path = ""
        self.start_deadline: Callable[[float], None] = _no_deadline

    def take(self, name: str, value: Any, source: str) -> None:
        """Record a shared option; the command line beats the environment, later beats earlier, `-X` adds up."""
        if name == "override":
            value = [*self._value(name, []), *value]
        elif name in self._given and source == "env" and self._given[name][1] != "env":
            return
        self._given[name] = (value, source)

    def use_bootstrap_server(self, addresses: str, origin: str) -> None:
        """Take the Kafka address from a command's own option, unless a shared option gave one on the command line."""
        if self._given.get("bootstrap_server", ("", "env"))[1] == "env":
            self._given["bootstrap_server"] = (addresses, origin)

    @cached_property
    def terminal(self) -> Terminal:
        """What is known of the streams and the environment that matters to output."""
        return Terminal.now()

    @cached_property
    def input_allowed(self) -> bool:
        """True when a person can be asked: stdin is a terminal, no `--no-input`, no CI."""
        return self.terminal.stdin_is_terminal and not self.terminal.is_ci and not self._value("no_input", False)

    @cached_property
    def output(self) -> Output:
        """The writer for this invocation."""
        return self._output(OutputFormat(self._value("output", OutputFormat.TEXT)))

    @cached_property
    def timeout_s(self) -> float | None:
        """`--timeout` in seconds; the whole command is stopped at that time whether or not it looks at this."""
        text = self._value("timeout", None)
        return None if text is None else parse_duration(text, "--timeout")

    @cached_property
    def settings(self) -> Settings:
        """The merged configuration; raises `UsageError` or `InputError` when it cannot be used."""
        return self.load_settings()

    def load_settings(self, profile: str | None = None) -> Settings:
        """Merge the configuration anew, for the named profile when one is given."""
        given = self.given
        if profile is not None:
            given = given.for_profile(profile)
        return load_settings(given, read_environment(), warn=self.output.warn, input_allowed=self.input_allowed)

    @property
    def given(self) -> Given:
        """What the command line and the environment of the shared options gave, for the settings."""
        address, source = self._given.get("bootstrap_server", (None, ""))
        return Given(
            flags={} if address is None or source == "env" else {"bootstrap_server": (address, source)},
            overrides=tuple(self._value("override", ())),
            profile=self._value("profile", None),
            profile_origin=self._given.get("profile", ("", ""))[1],
            config=self._value("config", None),
            command_config=self._value("command_config", None),
        )

    def wants_key_list(self) -> bool:
        """True for `-X list`."""
        return "list" in self._value("override", ())

    def output_without_options(self, output_format: str) -> Output:
        """A writer for failures that come before the options are read."""
        known = {str(item) for item in OutputFormat}
        return self._output(OutputFormat(output_format) if output_format in known else OutputFormat.TEXT)

    def _output(self, output_format: OutputFormat) -> Output:
        terminal = self.terminal
        return Output(
            output_format=output_format,
            output_file=self._value("output_file", None),
            color=terminal.wants_color(str(self._value("color", ColorChoice.AUTO))),
            animate=terminal.stderr_is_terminal and not terminal.is_ci and not terminal.is_dumb,
            input_allowed=self.input_allowed,
        )

    def _value(self, name: str, default: Any) -> Any:
        return self._given[name][0] if name in self._given else default


def kit_of(ctx: typer.Context) -> Kit:
    """The invocation that a command belongs to."""
    kit = ctx.find_object(Kit)
    if kit is None:
        raise TypeError("the command is not a KitCommand")
    return kit


def _no_deadline(seconds: float) -> None:
    """Where no one can stop the command, there is no deadline."""


def _key_list() -> Result:
    rows = key_rows()
    columns = ("key", "default", "about")
    keys = [dict(zip(columns, row, strict=True)) for row in rows]
    return Result(command="-X list", data={"keys": keys}, text=text_table(columns, rows), columns=columns, rows=rows)


def _add_shared(params: list[Any]) -> list[Any]:
    taken = {option for param in params for option in param.opts} | {param.name for param in params}
    free = [p for p in shared_params() if p.name not in taken and not taken.intersection(p.opts)]
    return [*params, *free]


def _take_shared(ctx: Any, own: frozenset[str]) -> None:
    if not isinstance(ctx.obj, Kit):
        ctx.obj = ctx.find_object(Kit) or Kit()
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


class KitCommand(TyperCommand):
    """A command with the shared options added to its own; its own win where names clash."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **kwargs: Any) -> None:
        kwargs["rich_markup_mode"] = None
        own = list(params or [])
        self._own_names = frozenset(param.name for param in own)
        super().__init__(*args, params=_add_shared(own), **kwargs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then hand the shared options to the `Kit` instead of the function."""
        rest = super().parse_args(ctx, args)
        _take_shared(ctx, self._own_names)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command under its time limit."""
        kit = ctx.find_object(Kit)
        parse_overrides(kit.given.overrides)
        if kit.timeout_s is not None:
            kit.start_deadline(kit.timeout_s)
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the command's own options first, then the shared ones."""
        _format_options(self, ctx, formatter, self._own_names)


class KitGroup(TyperGroup):
    """A group that takes the shared options before the command's name."""

    def __init__(self, *, params: list[Any] | None = None, **kwargs: Any) -> None:
        kwargs["rich_markup_mode"] = None
        own = list(params or [])
        self._own_names = frozenset(param.name for param in own)
        super().__init__(params=_add_shared(own), **kwargs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then hand the shared options to the `Kit`."""
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
    """A typer group with the kit's manners: plain errors, shared options, no invented completion options."""
    return typer.Typer(
        cls=KitGroup,
        help=help,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
