"""The command classes that carry the shared options, fill the invocation's `CliContext`, and print help in sections.

Shared options are declared once and turned into parameters once; a command's help folds them to one line. A table says
which section an option stands in; a command that is not named there has one section. Further classes take the command
lines of kafka-kit's scripts: flags before the command, Go's switches, single dashes.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from kafkakit import __version__
from kafkakit.cli.completion import GRAMMAR, complete_config_keys, complete_profile_names
from kafkakit.cli.context import CliContext, cli_context, sources_of
from kafkakit.cli.output import ColorChoice, OutputFormat, write_out
from kafkakit.config.keys import parse_overrides
from kafkakit.config.read.settings import key_rows
from kafkakit.core.errors import UsageError
from kafkakit.report.report import Report, ResultTable, records

__all__ = ["CliCommand", "CliContext", "CliGroup", "cli_context", "new_group", "shared_option_names"]


def _key_list() -> Report:
    rows = key_rows()
    columns = ("key", "default", "about")
    return Report(
        command="-X list",
        data={"keys": records(columns, rows)},
        sections=(ResultTable(columns, rows),),
    )


def _add_shared(params: list[Any]) -> list[Any]:
    taken = {option for param in params for option in param.opts} | {param.name for param in params}
    free = [p for p in shared_params() if p.name not in taken and not taken.intersection(p.opts)]
    return [*params, *free]


def _take_shared(ctx: Any, own: frozenset[str]) -> None:
    if not isinstance(ctx.obj, CliContext):
        ctx.obj = ctx.find_object(CliContext) or CliContext()
    ctx.obj.command_path = ctx.command_path
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
        if param.name in ("output_file", "html"):
            _check_place(value, param.opts[0])
        ctx.obj.take(param.name, value, flag)
    if ctx.obj.wants_key_list():
        ctx.obj.output.result(_key_list())
        raise typer.Exit


def _check_place(path: Path, flag: str) -> None:
    """Refuse a place where no file can be before the command does anything."""
    if str(path) == "-":
        if flag == "--html":
            raise UsageError("--html needs a file")
        return
    try:
        if path.is_dir():
            raise UsageError(f"{flag}: {path} is a folder")
        above = next(place for place in path.absolute().parents if place.exists())
        is_folder = above.is_dir()
    except OSError as error:
        raise UsageError(f"{flag}: {path}: {error.strerror}") from None
    if not is_folder:
        raise UsageError(f"{flag}: {above} is not a folder")
    if not os.access(above, os.W_OK):
        raise UsageError(f"{flag}: nothing can be written to {above}")


class _AtFirstValue:
    """Converts the values of a parameter like typer does, but loads what checks them with the first that needs it.

    typer builds the check of every parameter that is not given, too, which takes longer than printing help. What it
    checks texts and choices with takes longer to load than lint takes for a file. What is wrong is left to typer,
    which words it.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The converted value; an empty tuple for a repeatable option that is not given."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        wanted, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if isinstance(value, str) and (wanted is str or (isinstance(wanted, type) and issubclass(wanted, StrEnum))):
            with contextlib.suppress(ValueError):
                return wanted(value)
        if wanted == list[str] and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return list(value)
        if wanted in (int, float) and type(value) is wanted:
            return value  # a default: the command line has texts
        if wanted is int and isinstance(value, str) and _DIGITS.fullmatch(value):
            number = int(value)
            if (info.min is None or number >= info.min) and (info.max is None or number <= info.max):
                return number
        if wanted is Path and isinstance(value, str) and _is_plain_path(value, info):
            return Path(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_AT_FIRST_VALUE = _AtFirstValue()
_DIGITS = re.compile("[0-9]{1,15}")


def _is_plain_path(path: str, info: Any) -> bool:
    """True for a path of which a parameter asks no more than that it can be read if it is there."""
    asks_more = info.exists or info.writable or info.resolve_path or info.allow_dash or info.path_type
    is_any = info.file_okay and info.dir_okay and not asks_more
    return is_any and (not os.path.exists(path) or os.access(path, os.R_OK))


def _before_parsing(command: Any, ctx: Any, args: list[str]) -> None:
    """Print help at once if it is the first word."""
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
        cli.sources = sources_of(ctx)
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
        """Parse, then hand the shared options to the `CliContext`; `help COMMAND` is `COMMAND --help`."""
        if args[:1] == ["help"] and "help" not in self.commands:
            args = [*args[1:], "--help"]
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


# What Go's strconv.ParseBool takes.
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")

# kafka-kit's flags of the root command, which may stand before the command's name; all but the last take a value.
_PERSISTENT = ("--kafka-addr", "--zk-addr", "--zk-prefix", "--zk-metrics-prefix", "--ignore-warns")

FOLDED = "Every command takes --profile, -B, -o, --timeout and more: see --help-all."
MAX_WIDTH = 10_000
"""Help is as wide as the terminal, however wide that is."""


def write_options(command: Any, ctx: Any, formatter: Any, shared: Collection[str]) -> None:
    """Write the arguments, then the command's own options by section, then the shared ones or a line about them."""
    _, *words = ctx.command_path.split()
    sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *SECTIONS, SHARED_TITLE)}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is None:
            continue
        if param.param_type_name == "argument":
            sections["Arguments"].append(record)
        elif param.name in shared:
            sections[SHARED_TITLE].append(record)
        else:
            sections[section_of(words, param.name)].append(record)
    folded = () if shows_all(ctx) else sections.pop(SHARED_TITLE)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
    taken = {param.metavar for param in command.params}
    notes = [f"{name}: {meaning}." for name, meaning in GRAMMAR.items() if name in taken]
    for note in (*notes, *([FOLDED] if folded else ())):
        formatter.write_paragraph()
        formatter.write_text(note)


OPTIONS = "Options"
TARGET, GOAL, LIMITS = "Target", "Goal", "Limits"
KAFKA_KIT, OUTPUT = "kafka-kit compatibility", "Output"
WATCH = "Watch"
SECTIONS = (TARGET, GOAL, LIMITS, WATCH, OUTPUT, KAFKA_KIT, OPTIONS)
"""In the order in which help prints them."""

_PLANNING: Mapping[str, str] = {
    TARGET: "brokers topics topics_exclude topics_like map_string to snapshot sizes_from sizes_file metrics_age "
    "partitions partition_bytes log_dir",
    GOAL: "replication force_rebuild sub_affinity minimize optimize_leadership leader_evac_brokers leader_evac_topics "
    "placement optimize band bands free_range free_ranges count_band metric balance_dirs balance_within leader_band "
    "min_rack_ids spread spread_by affinity anti_affinity broker_set broker_sets_by best_effort slack",
    LIMITS: "max_moves max_moved_bytes pin locality_scoped max_rack_violations max_disk_use head_room "
    "exclude_receivers exclude_givers max_replicas max_leaders max_topic_leaders partition_size_factor",
    OUTPUT: "plan report out_path out_file skip_no_ops phased_reassignment chunk_step_size ignore_warns exit_code "
    "fail_on verbose",
    KAFKA_KIT: "tolerance partition_limit partition_size_threshold storage_threshold storage_threshold_gb use_meta "
    "zk_addr zk_prefix zk_metrics_prefix zk_tags_prefix kafka_addr",
}
_MOVING: Mapping[str, str] = {
    TARGET: "to onto restore topic partition all",
    GOAL: "placement min_rack_ids spread exclude_receivers",
    LIMITS: "throttle throttle_broker throttle_dirs max_in max_out max_moves_in_flight one_replica_at_a_time "
    "max_disk_use disk_headroom stall_timeout wait leaders_at_once leaders_pause ingest_sample",
}
_ROLLOUT: Mapping[str, str] = {
    TARGET: "topics brokers all_brokers cluster_default delete file cluster_name finding findings steps "
    "rehearse accept_unlike restart_with leave_restarts settle",
    WATCH: "window windows every baseline metrics prometheus_url datadog_tags api_key_file app_key_file datadog_site "
    "prometheus_selector prometheus_token_file prometheus_user prometheus_password_file",
    OUTPUT: "plan exit_code",
    KAFKA_KIT: "zk_tags_prefix",
}


def _by_name(sections: Mapping[str, str]) -> dict[str, str]:
    return {name: title for title, names in sections.items() for name in names.split()}


SECTION_TABLES = {
    "topicmappr": _by_name(_PLANNING),
    "broker": _by_name(_MOVING),
    "reassign": _by_name(_MOVING),
    "config": _by_name(_ROLLOUT),
}


def section_of(words: Sequence[str], name: str) -> str:
    """The section of the parameter `name` of the command with these words after the program's name."""
    return SECTION_TABLES.get(words[0] if words else "", {}).get(name, OPTIONS)


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
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the result as a web page to this file.")
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
        bool, typer.Option("--no-input", envvar="KAFKAKIT_NO_INPUT", help="Never prompt; fail if input is needed.")
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
        typer.Option(
            "-X",
            metavar="KEY=VALUE",
            help="Set any configuration key; -X list names them. Repeatable.",
            autocompletion=complete_config_keys,
        ),
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


class KafkaKitGroup(CliGroup):
    """The group of kafka-kit's commands: takes its root flags before the command's name, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the version, or put root flags after the command's name and parse."""
        if args[:1] in (["--version"], ["-version"]) and not ctx.resilient_parsing:
            print_version(ctx, True)
        return super().parse_args(ctx, _flags_after_command(args, self.commands))


def given_flags(ctx: typer.Context) -> dict[str, str]:
    """What was given on the command line or by a variable: the flag or variable by the name of the parameter."""
    found: dict[str, str] = {}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name)
        if source is not None and source.name == "COMMANDLINE":
            found[param.name] = next((name for name in param.opts if name.startswith("--")), param.opts[0])
        elif source is not None and source.name == "ENVIRONMENT":
            names = [param.envvar] if isinstance(param.envvar, str) else [*(param.envvar or ())]
            found[param.name] = names[0] if names else param.name
    return found


def print_version(ctx: typer.Context, value: bool) -> None:
    """Print the program's version and end, as kafka-kit's `-version` does; the callback of such an option."""
    if value and not ctx.resilient_parsing:
        write_out(f"kafkakit {__version__}\n")
        raise typer.Exit


def kafka_kit_group(help: str) -> typer.Typer:  # noqa: A002 - typer's own word
    """A group as `new_group` makes them, for a program of kafka-kit's."""
    app = new_group(help)
    app.info.cls = KafkaKitGroup
    return app


def _flags_after_command(args: Sequence[str], commands: Collection[str]) -> list[str]:
    kept: list[str] = []
    moved: list[str] = []
    waiting = list(args)
    while waiting and waiting[0] not in commands:
        arg = waiting.pop(0)
        name, given, _ = arg.partition("=")
        if name not in _PERSISTENT:
            kept.append(arg)
            continue
        moved.append(arg)
        if not given and name != _PERSISTENT[-1] and waiting:
            moved.append(waiting.pop(0))
    if not waiting:
        return list(args)
    return [*kept, waiting[0], *moved, *waiting[1:]]


def plain_usage(piece: str) -> str:
    """A piece of a usage line without braces around what is required, and with brackets and dots once."""
    plain = re.sub(r"^\{(.*)\}", r"\1", piece).replace("......", "...")
    return re.sub(r"^\[(\[[^\[\]]+\])(?:\.\.\.)?\]", r"\1", plain)


class KafkaKitCommand(CliCommand):
    """A command of kafka-kit's: takes Go's spelling too, `--use-meta=false`, `--skip-no-ops=true` and `-min-rate 5`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite Go's spelling into plain switches, parse, and take kafka-kit's addresses for the cluster's."""
        rest = super().parse_args(ctx, _plain_switches(args, self.params))
        cli = cli_context(ctx)
        for name, take in (("kafka_addr", cli.use_bootstrap_server), ("zk_addr", cli.use_zookeeper)):
            source = ctx.get_parameter_source(name)
            if ctx.params.get(name) and source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
                is_flag = source.name == "COMMANDLINE"
                flag = f"--{name.replace('_', '-')}"
                variable = next(p.envvar for p in self.params if p.name == name)
                take(ctx.params[name], f"flag {flag}" if is_flag else f"env {variable}")
        return rest


def _plain_switches(args: Sequence[str], params: Sequence[Any]) -> list[str]:
    """Go's spelling as plain switches; `--skip-no-ops true` is one too if nothing else can stand there."""
    has_arguments = any(param.param_type_name == "argument" for param in params)
    on = {name: param for param in params if getattr(param, "is_flag", False) for name in param.opts}
    known = {name for param in params for name in param.opts if name.startswith("--")}
    plain: list[str] = []
    for position, given in enumerate(args):
        if given == "--":
            return [*plain, *args[position:]]
        before = args[position - 1].lstrip("-") if position and args[position - 1].startswith("-") else ""
        if not has_arguments and f"--{before}" in on and given in (*_TRUE, *_FALSE):
            if given in _FALSE:
                raise UsageError(
                    f"--{before} {given}: a value after a switch is not read, so kafka-kit takes this as true",
                    hint=f"write --{before}=false, or leave it out",
                )
            continue
        arg = f"-{given}" if f"-{given.partition('=')[0]}" in known else given
        name, _, value = arg.partition("=")
        if name in on and value in _TRUE:
            plain.append(name)
        elif name in on and value in _FALSE:
            plain += on[name].secondary_opts[:1]  # a switch without an opposite is off when it is not given
        else:
            plain.append(arg)
    return plain
