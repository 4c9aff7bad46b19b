"""The per-invocation context: what the shared options gave, and what is made from it.

The options that stood on a command line are also words of a line to paste.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from kafkakit.cli.output import ColorChoice, Output, OutputFormat
from kafkakit.config.keys import Rank
from kafkakit.config.read.environment import Folders, Terminal, find_folders, read_environment
from kafkakit.config.read.settings import GivenSettings, Settings, load_settings
from kafkakit.core.errors import KafkakitError, UsageError
from kafkakit.core.quantities import parse_duration
from kafkakit.core.text import called_by, option_word, quote


class CliContext:
    """One invocation: what the shared options gave, and from it settings, output and limits, each made on first use."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[Any, str]] = {}
        self.command_path = ""
        self.operation_words: tuple[str, str] | None = None
        self._stop_words: tuple[str, str] | None = None
        self.is_service = False
        self.cluster_id: str | None = None
        """The cluster that the command looked at, for the first lines of its text; empty where it does not answer."""
        self._zookeeper: tuple[str, str] | None = None
        self.start_deadline: Callable[[float], None] = _no_deadline
        self.spent_s: Callable[[], float] = float
        """How long the command has been running, where it has a time limit."""
        self.end_later: Callable[[float, int], None] = _no_end
        """Raise a stop once more after so many seconds, for a signal that a search has answered."""
        self.written: list[str] = []
        """The files that the command has written, for what is said where it is stopped."""
        self.sources: Mapping[str, Mapping[str, str]] = {}
        """What printed commands need to read what this one reads, see `sources_of`."""

    def take(self, name: str, value: Any, source: str) -> None:
        """Record a shared option; the command line beats the environment, later beats earlier, `-X` adds up."""
        if name == "override":
            value = [*self._value(name, []), *value]
        elif name in self._given and source == "env" and self._given[name][1] != "env":
            return
        self._given[name] = (value, source)

    def begin_service(self) -> None:
        """The command runs until it is stopped: that is its usual end. Its threads find what they use imported.

        Raises `UsageError` for a file that the result is to go to: it has none.
        """
        from kafkakit.wiring import load_clients

        given = [flag for flag in ("output_file", "html") if str(self._value(flag, None) or "-") != "-"]
        if given:
            flag = "--" + given[0].replace("_", "-")
            told = f"{flag}: this command runs until it is stopped and has no result"
            raise UsageError(told, hint=f"leave out {flag}")
        self.is_service = True
        load_clients()

    @property
    def stop_words(self) -> tuple[str, str] | None:
        """What to say, and the hint, where the command is stopped and cannot look any more; None: nothing is begun."""
        return self._stop_words or self.operation_words

    def noting(self, write: Callable[[Iterable[tuple[Path, bytes]]], None]) -> Callable[..., None]:
        """`write`, where the context hears of each file that was replaced, also if it is stopped between two."""

        def write_noted(files: Iterable[tuple[Path, bytes]]) -> None:
            earlier: dict[Path, int | None] = {}

            def passed() -> Iterator[tuple[Path, bytes]]:
                for path, data in files:
                    earlier[path] = _file_number(path)
                    yield path, data

            try:
                write(passed())
            finally:
                self.written += [str(path) for path, number in earlier.items() if _file_number(path) != number]

        return write_noted

    def note_stop_words(self, words: tuple[str, str] | None) -> None:
        """Keep what to say from now on; None once a run is over."""
        self._stop_words = words

    def use_bootstrap_server(self, addresses: str, origin: str) -> None:
        """Take the Kafka address from a command's own option, unless a shared option gave one on the command line."""
        if self._given.get("bootstrap_server", ("", "env"))[1] == "env":
            self._given["bootstrap_server"] = (addresses, origin)

    def use_zookeeper(self, addresses: str, origin: str) -> None:
        """Note that kafka-kit's option or variable names a ZooKeeper."""
        self._zookeeper = (addresses, origin)

    def set_key(self, name: str, value: str) -> None:
        """Take a configuration key from a command's own option, as `-X` does; before the settings are in use."""
        self.take("override", [f"{name}={value}"], "flag")
        self.__dict__.pop("settings", None)

    def refuse_default_profile_beside_zookeeper(self) -> None:
        """Raise `UsageError` where a ZooKeeper is named, but what is weaker decides on the Kafka cluster.

        A default profile is weaker than any option or variable, and `KAFKAKIT_PROFILE` than an option.
        """
        settings, given, named = self.settings, self.given, self._zookeeper
        if named is None or settings.profile is None or named[0] == settings.zookeeper_addr:
            return
        if given.profile is None or (given.profile_origin == "env" and named[1].startswith("flag")):
            raise UsageError(
                f"ZooKeeper {named[0]} is named ({named[1]}), but the Kafka cluster would come from profile "
                f"{settings.profile} (from {settings.choice.origin})",
                hint=f"pass --bootstrap-server HOST:PORT or --profile NAME (--profile {settings.profile} to keep it)",
            )

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
        """Merge the configuration again, for the named profile when one is given."""
        return self.settings_of(self.given if profile is None else self.given.for_profile(profile))

    def settings_of(self, given: GivenSettings) -> Settings:
        """Merge the configuration with these values from the command line."""
        return load_settings(given, read_environment(), warn=self.output.warn, input_allowed=self.input_allowed)

    @cached_property
    def folders(self) -> Folders:
        """Where configuration, state and caches lie."""
        return find_folders(read_environment())

    @property
    def given(self) -> GivenSettings:
        """What the command line and the environment of the shared options gave, for the settings."""
        address, source = self._given.get("bootstrap_server", (None, ""))
        return GivenSettings(
            flags={} if address is None or source == "env" else {"bootstrap_server": (address, source)},
            overrides=tuple(self._value("override", ())),
            profile=self._value("profile", None),
            profile_origin=self._given.get("profile", ("", ""))[1],
            config=self._value("config", None),
            command_config=self._value("command_config", None),
        )

    def require_replaceable(self, plan_file: Path) -> None:
        """Raise `RefusedError` for the plan file of an unfinished run, which `--plan` must not overwrite."""
        if plan_file.exists():
            from kafkakit.execution.act.run_journal import require_no_unfinished

            require_no_unfinished(plan_file, self.settings.state_dir, self.program)

    def program_for(self, profile: str) -> str:
        """How to call kafkakit for the cluster of another profile, as a shell line."""
        config = self.given.config
        return shlex.join(["kafkakit", *(() if config is None else ("--config", str(config))), "--profile", profile])

    @property
    def program(self) -> str:
        """How to call kafkakit again for the same cluster, as a shell line; secrets are never on a command line."""
        given, settings = self.given, self.settings
        words = ["kafkakit"]
        if given.config is not None:
            words += ["--config", str(given.config)]
        if settings.profile is not None:
            words += ["--profile", settings.profile]
        words += [word for item in given.overrides for word in ("-X", item)]
        address = settings.entries.get("bootstrap_server")
        if address is not None and address.rank in (Rank.FLAG, Rank.ENVIRONMENT):
            words += ["--bootstrap-server", settings.bootstrap_servers]
        if given.command_config is not None:
            words += ["--command-config", str(given.command_config)]
        return shlex.join(words)

    def called(self, text: str) -> str:
        """The text with its commands for the same cluster, reading the same file and the same sizes."""
        return called_by(text, self.program, self.sources)

    def called_in_error(self, text: str) -> str:
        """The hint of an error with its commands called so; it may come before the settings were read, or from them."""
        given = self.given
        named = (given.profile, given.flags, given.overrides, given.config, given.command_config)
        if "kafkakit " in text and any(named):
            with suppress(KafkakitError):
                return self.called(text)
        return called_by(text, self.program if "settings" in self.__dict__ else "kafkakit", self.sources)

    def wants_key_list(self) -> bool:
        """True for `-X list`."""
        return "list" in self._value("override", ())

    def take_format(self, name: str) -> None:
        """Take the format of a command with more of them than the kit has: the others are text to it."""
        self.take("output", known_format(name).value, "flag -o")

    def output_without_options(self, output_format: str) -> Output:
        """A writer for failures that come before the options are read."""
        return self._output(known_format(output_format))

    def _output(self, output_format: OutputFormat) -> Output:
        terminal, output_file = self.terminal, self._value("output_file", None)
        return Output(
            output_format=output_format,
            output_file=None if str(output_file) == "-" else output_file,
            page_file=self._value("html", None),
            color=terminal.wants_color(str(self._value("color", ColorChoice.AUTO))),
            animate=terminal.stderr_is_terminal and not terminal.is_ci and not terminal.is_dumb,
            input_allowed=self.input_allowed,
            called=self._called_in_warning,
            now=_time_now,
        )

    def _called_in_warning(self, text: str) -> str:
        """The text called so once the settings were read; those that reading them brings are of no cluster yet."""
        return self.called(text) if "kafkakit " in text and "settings" in self.__dict__ else text

    def _value(self, name: str, default: Any) -> Any:
        return self._given[name][0] if name in self._given else default


def known_format(name: str) -> OutputFormat:
    """The format of this name; text for any other."""
    return OutputFormat(name) if name in tuple(OutputFormat) else OutputFormat.TEXT


def _time_now() -> datetime:
    from kafkakit.wiring import system_clock

    return system_clock().now()


def command_of(ctx: typer.Context) -> str:
    """The command without the program's name: `topicmappr drain`."""
    return ctx.command_path.partition(" ")[2]


def cli_context(ctx: typer.Context) -> CliContext:
    """The invocation that a command belongs to."""
    cli = ctx.find_object(CliContext)
    if cli is None:
        raise TypeError("the command is not a CliCommand")
    return cli


def _no_deadline(seconds: float) -> None:
    """Where no one can stop the command, there is no deadline."""


def _no_end(seconds: float, number: int) -> None:
    """Nothing ends a command that is called in a process of others."""


def _file_number(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


_SOURCES = ("snapshot", "sizes_from", "sizes_file", "metrics_age", "zk_addr", "zk_metrics_prefix", "zk_tags_prefix")


def sources_of(ctx: typer.Context) -> dict[str, dict[str, str]]:
    """The options that stood on the command line and say what is read (a snapshot file, sizes, tags), as typed.

    By command of the same group (`topicmappr drain`), those that it has.
    """
    given: dict[str, str] = {}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(str(param.name))
        if param.name in _SOURCES and source is not None and source.name == "COMMANDLINE":
            value = ctx.params[str(param.name)]
            given[param.opts[0]] = option_word(param.opts[0], str(getattr(value, "value", value)))
    group = ctx.parent
    if not given or group is None or group.parent is None:
        return {}
    words = " ".join(group.command_path.split()[1:])
    found: dict[str, dict[str, str]] = {}
    for name, command in getattr(group.command, "commands", {}).items():
        known = {flag for param in command.params for flag in param.opts}
        found[f"{words} {name}"] = {flag: typed for flag, typed in given.items() if flag in known}
    return found


_NOT_REPEATED = ("yes", "dry_run", "replan")


def given_words(ctx: typer.Context, leave_out: Collection[str] = ()) -> list[str]:
    """The options of this command that stood on its command line, quoted; no arguments.

    `--yes` and options that hold for one call only are left out, and so are the parameters named in `leave_out`.
    """
    words: list[str] = []
    for param in ctx.command.params:
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if param.param_type_name != "option" or name in _NOT_REPEATED or name in leave_out:
            continue
        if source is None or source.name != "COMMANDLINE" or name not in ctx.params:
            continue
        words += _option_words(param, ctx.params[name])
    return words


def _option_words(param: Any, value: Any) -> list[str]:
    if getattr(param, "is_flag", False):
        flag = param.opts[0] if value else next(iter(param.secondary_opts), None)
        return [flag] if flag else []
    values = value if isinstance(value, (list, tuple)) else [value]
    return [word for v in values for word in (param.opts[0], quote(str(getattr(v, "value", v))))]
