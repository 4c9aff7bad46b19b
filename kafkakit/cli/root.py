"""The root command: assembles the groups lazily and turns every failure into one line and an exit code.

Every command and option is also printed as JSON (`kafkakit --help-json`). The signals that stop a command are
exceptions.
"""

import errno
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib import import_module
from types import FrameType
from typing import Any, TextIO

import typer
from typer.core import TyperCommand

from kafkakit import __version__
from kafkakit.cli.command_classes import MAX_WIDTH, CliCommand, CliContext, CliGroup, new_group, shared_option_names
from kafkakit.cli.output import write_out
from kafkakit.core.errors import (
    EXIT_CODE_MEANING,
    DeadlineReached,
    ExitCode,
    InfeasibleError,
    InterruptedRunError,
    KafkakitError,
    ServiceStoppedError,
    StopRequested,
    TerminationRequested,
)
from kafkakit.ports.acting import pause, wait_until

PROGRAM = "kafkakit"
ROOT_HELP = """Plan, carry out and verify changes of a Kafka cluster.

Examples:

\b
kafkakit sandbox up --brokers 6 --racks 3
kafkakit --profile sandbox topicmappr rebuild --topics '.*' --brokers -2 --plan p.json
kafkakit --profile sandbox reassign apply p.json --throttle 20MB
kafkakit --profile sandbox reassign verify p.json
"""


@dataclass(frozen=True, slots=True)
class CommandSource:
    """A command; `module` holds it as `app`: a typer app, which is a group unless `is_group` is False, or a function.

    `also` are commands of the group that other modules have.
    """

    name: str
    module: str
    help: str = ""
    is_group: bool = True
    app: str = "app"
    also: "tuple[CommandSource, ...]" = ()


_OBJECTS = "kafkakit.status.commands.objects"

ENTRIES: tuple[CommandSource, ...] = (
    CommandSource(
        "status", "kafkakit.status.commands.status", "Show at a glance what is wrong with a cluster.", is_group=False
    ),
    CommandSource("ui", "kafkakit.status.commands.ui", "Serve one read-only page for all of it.", is_group=False),
    CommandSource(
        "topicmappr", "kafkakit.topicmappr.commands.app", "Plan where replicas go, with a proof and a rollback."
    ),
    CommandSource(
        "reassign",
        "kafkakit.reassign.commands.app",
        "Carry out a plan: forecast, apply, watch, throttle, resume, undo.",
    ),
    CommandSource(
        "config",
        "kafkakit.rollout.commands.app",
        "Change configuration step by step: rehearsed, watched, taken back.",
    ),
    CommandSource(
        "autothrottle", "kafkakit.autothrottle.commands.app", "Throttle the moves of any tool while they run."
    ),
    CommandSource("topic", _OBJECTS, "List, describe, create, alter and delete topics.", app="topic_app"),
    CommandSource("partition", _OBJECTS, "List and describe partitions.", app="partition_app"),
    CommandSource("group", _OBJECTS, "List and describe consumer groups.", app="group_app"),
    CommandSource(
        "record", "kafkakit.streams.records.commands", "Show the newest records of a topic.", app="record_app"
    ),
    CommandSource("acl", _OBJECTS, "List access control lists.", app="acl_app"),
    CommandSource("quota", _OBJECTS, "List client quotas.", app="quota_app"),
    CommandSource("cluster", _OBJECTS, "Describe the cluster.", app="cluster_app"),
    CommandSource(
        "broker",
        "kafkakit.broker.commands",
        "List, describe, drain, replace, decommission and rejoin brokers.",
        also=(
            CommandSource("list", _OBJECTS, "List brokers.", is_group=False, app="broker_list_app"),
            CommandSource("describe", _OBJECTS, "Show one broker.", is_group=False, app="broker_describe_app"),
        ),
    ),
    CommandSource(
        "metricsfetcher",
        "kafkakit.metricsfetcher.commands",
        "Collect partition sizes and free storage for topicmappr.",
    ),
    CommandSource("registry", "kafkakit.registry.commands.app", "Serve and tag topics and brokers over HTTP and gRPC."),
    CommandSource("streams", "kafkakit.streams.commands", "Inspect and edit committed offsets, measure lag in time."),
    CommandSource(
        "lint",
        "kafkakit.lint.commands",
        "Find mistakes in Kafka's configuration, in files and live.",
        is_group=False,
    ),
    CommandSource("audit", "kafkakit.audit.commands", "Audit whole fleets with Spark: submit jobs, follow runs."),
    CommandSource("snapshot", "kafkakit.snapshot.commands", "Read a cluster's state into a file.", is_group=False),
    CommandSource("fleet", "kafkakit.fleet.commands", "Collect snapshots of many clusters."),
    CommandSource("sandbox", "kafkakit.sandbox.commands", "Run a real local Kafka cluster to try things on."),
    CommandSource("profile", "kafkakit.cli.profile", "List, show, choose and check cluster profiles."),
    CommandSource(
        "doctor", "kafkakit.doctor.commands", "Check versions, configuration, reachability and rights.", is_group=False
    ),
    CommandSource("version", "kafkakit.cli.version", "Print the versions of kafkakit and its parts.", is_group=False),
    CommandSource(
        "completion",
        "kafkakit.cli.version",
        "Print a script that completes commands and names in a shell.",
        is_group=False,
        app="completion_app",
    ),
)
"""Name, module and one line of help of each command, so that `--help` imports none of them."""


ALIASES: Mapping[str, str | Mapping[str, str]] = {
    "health": "status",
    "get": {
        "topics": "topic list",
        "partitions": "partition list",
        "brokers": "broker list",
        "groups": "group list",
        "acls": "acl list",
        "quotas": "quota list",
    },
    "describe": {
        "topic": "topic describe",
        "partition": "partition describe",
        "broker": "broker describe",
        "group": "group describe",
    },
}
"""Words that hands know from other tools, and the commands that they run; no help and no reference names them."""


class _UnloadedCommand(TyperCommand):
    """Stands for a top-level command until it is invoked."""

    def __init__(self, name: str, about: str = "") -> None:
        super().__init__(name, help=about, short_help=about, rich_markup_mode=None, hidden=name in ALIASES)


class LazyRoot(CliGroup):
    """The root group; a command's module is imported when the command is resolved."""

    def __init__(self, **kwargs: Any) -> None:
        named = {entry.name: _UnloadedCommand(entry.name, entry.help) for entry in ENTRIES}
        kwargs["commands"] = {**named, **{name: _UnloadedCommand(name) for name in ALIASES}}
        super().__init__(**kwargs)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, _named_command(str(name)) if isinstance(command, _UnloadedCommand) else command, rest

    def loaded(self) -> dict[str, Any]:
        """Every top-level command by name, imported."""
        return {entry.name: load(entry) for entry in ENTRIES}


class LazyCommands(Mapping[str, Any]):
    """Commands by name; each is made when it is first asked for, all when they are listed."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> Any:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _named_command(words: str) -> Any:
    """The command of these words after the program's name, or what an alias stands for."""
    first, _, rest = words.partition(" ")
    meant = ALIASES.get(first)
    if isinstance(meant, str):
        return _named_command(meant)
    if meant is not None:
        makers = {name: partial(_named_command, target) for name, target in meant.items()}
        return CliGroup(name=first, help="", commands=LazyCommands(makers))
    command = load(next(entry for entry in ENTRIES if entry.name == first))
    return command.commands[rest] if rest else command


def lazy_group(help: str, entries: Sequence[CommandSource]) -> typer.Typer:  # noqa: A002 - typer's own word
    """A group as `new_group` makes them that imports a command when it is resolved; its help imports all."""

    class LazyGroup(CliGroup):
        def __init__(self, **kwargs: Any) -> None:
            makers = {entry.name: partial(load, entry) for entry in entries}
            super().__init__(**{**kwargs, "commands": LazyCommands(makers)})

    app = new_group(help)
    app.info.cls = LazyGroup
    return app


def load(entry: CommandSource) -> Any:
    """Import a command and give it the shared options, however it was made."""
    return _build_command(entry, getattr(import_module(entry.module), entry.app))


@cache  # building the commands of a group takes longer than most of them run; tests run many in one process
def _build_command(entry: CommandSource, app: typer.Typer | Callable[..., Any]) -> Any:
    holder = new_group("")
    if not isinstance(app, typer.Typer):
        holder.command(entry.name, cls=CliCommand, short_help=entry.help)(app)
    elif entry.is_group:
        holder.add_typer(app, name=entry.name, cls=app.info.cls or CliGroup, help=app.info.help or entry.help)
    else:
        (only,) = app.registered_commands
        only.name = entry.name
        holder.registered_commands.append(only)
    built: Any = typer.main.get_group(holder).commands[entry.name]
    for one in entry.also:
        built.commands[one.name] = load(one)
    return built


def _print_version(value: bool) -> None:
    if value:
        write_out(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


def _print_reference(ctx: typer.Context, value: bool) -> None:
    if value:
        write_out(reference_json(ctx.command))
        raise typer.Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionEntry:
    """One option or argument as help shows it."""

    names: tuple[str, ...]
    value: str | None
    help: str
    env: tuple[str, ...]
    default: str | None
    required: bool
    repeatable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEntry:
    """One command: its words after the program's name, its help, and its own parameters."""

    words: str
    help: str
    arguments: tuple[OptionEntry, ...]
    options: tuple[OptionEntry, ...]


def commands(root: Any) -> tuple[CommandEntry, ...]:
    """All commands of the root in the order of the table of groups; imports every group."""
    found: list[CommandEntry] = []
    for name, command in root.loaded().items():
        found += _walk(command, name)
    return tuple(found)


def root_options(root: Any) -> tuple[OptionEntry, ...]:
    """The options of the program itself, shared ones included."""
    return tuple(_entry(param) for param in root.params if not param.hidden)


def reference_json(root: Any) -> str:
    """The whole reference as one JSON object with a versioned header."""
    body = {
        "kafkakit": {"command": "--help-json", "schema": 1},
        "commands": [asdict(command) for command in commands(root)],
        "shared_options": [asdict(option) for option in root_options(root)],
        "exit_codes": {str(int(code)): meaning for code, meaning in EXIT_CODE_MEANING.items()},
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _walk(command: Any, words: str) -> Iterator[CommandEntry]:
    children = getattr(command, "commands", None)
    if children is not None:
        for name in sorted(children):
            yield from _walk(children[name], f"{words} {name}")
        return
    if command.hidden:
        return
    shared = shared_option_names(command)
    own = [param for param in command.params if param.name not in shared and not param.hidden]
    yield CommandEntry(
        words=words,
        help=(command.help or "").replace("\b\n", "").strip(),
        arguments=tuple(_entry(param) for param in own if param.param_type_name == "argument"),
        options=tuple(_entry(param) for param in own if param.param_type_name == "option"),
    )


def _entry(param: Any) -> OptionEntry:
    env = param.envvar or ()
    is_flag = getattr(param, "is_flag", False)
    default = param.default
    # Only asked for a token normaliser, which kafkakit does not have.
    context: Any = typer.Context(typer.core.TyperCommand("reference"))
    shown = None if callable(default) or default in (None, False, (), []) or is_flag else str(default)
    return OptionEntry(
        names=(*param.opts, *param.secondary_opts)
        if param.param_type_name == "option"
        else (param.metavar or param.name,),
        value=None if is_flag else param.metavar or param.display_type(context).strip("<>"),
        help=param.help or "",
        env=(env,) if isinstance(env, str) else tuple(env),
        default=shown,
        required=bool(param.required),
        repeatable=bool(param.multiple or param.nargs == -1),
    )


def _root_options(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
    ),
    help_json: bool = typer.Option(
        False, "--help-json", is_eager=True, callback=_print_reference, help="Print all commands and options as JSON."
    ),
) -> None:
    """Hold the options of the root alone."""


def build_root() -> Any:
    """Make the root command; cheap, since no group is imported."""
    root = typer.Typer(cls=LazyRoot, help=ROOT_HELP, rich_markup_mode=None, pretty_exceptions_enable=False)
    root.callback(cls=LazyRoot, help=ROOT_HELP)(_root_options)
    return typer.main.get_command(root)


def run(arguments: Sequence[str], *, started_s: float | None = None) -> int:
    """Run one invocation and give its exit code; nothing but `SystemExit` of shell completion leaves it.

    A program hands in when it began, on the monotonic clock; its process is ended soon after the time limit.
    """
    cli = CliContext()
    stops = StopSignals(started_s)
    stops.last_words = lambda: _last_words(cli, list(arguments))
    stops.install()
    cli.start_deadline = partial(
        stops.start_timer, report=lambda error: _report_stop(cli, list(arguments), error, stops)
    )
    cli.end_later, cli.spent_s = stops.raise_later, stops.spent_s
    try:
        code = stops.code = _invoke(cli, list(arguments), stops)
    except BrokenPipeError:
        code = int(ExitCode.FAILED)
    except DeadlineReached as stop:  # once more, while the first was reported
        code = int(stop.exit_code)
    finally:
        stops.restore()
    _flush(sys.stderr)
    return code if _flush(sys.stdout) else code or int(ExitCode.FAILED)


def _flush(stream: TextIO | None) -> bool:
    """Flush a stream; where its reader is gone (head) or the disk is full, keep the exit from trying again."""
    if stream is None:
        return True
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


class StopSignals:
    """Turns SIGTERM, SIGHUP and the time limit into exceptions, once, so that `finally` blocks run undisturbed.

    Only the time limit comes again, when a command is not done 0.4 s after it. In a program, which has begun at
    `started_s` of the monotonic clock, what then still waits is ended with the process 0.7 s after the limit, and a
    Ctrl-C after a first stop ends the process at once, wherever it is, with the `last_words`, unless why the command
    ends `is_said`, or being printed.
    """

    def __init__(self, started_s: float | None = None) -> None:
        self.received: StopRequested | None = None
        self.code: int | None = None
        self.last_words: Callable[[], str] = str
        self.is_said = self._is_waived = False
        self._earlier: dict[int, Any] = {}
        self._started_s = time.monotonic() if started_s is None else started_s
        self._is_program, self._is_cut, self._was_interrupted = started_s is not None, False, False
        self._is_over = False
        self._later: threading.Timer | None = None

    def install(self) -> None:
        """Take over the signals that the caller of the program did not ignore."""
        handlers = dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGALRM), self._raise)
        for number, handler in {**handlers, signal.SIGINT: self._interrupt}.items():
            try:
                # nohup ignores SIGHUP on purpose.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._earlier[number] = signal.signal(number, handler)
            except ValueError:  # not the main thread, as in some tests
                return

    def start_timer(self, seconds: float, report: Callable[[BaseException], int]) -> None:
        """Raise `DeadlineReached` so long after the program began; `report` prints why it ended and gives the code."""
        if signal.SIGALRM in self._earlier:
            left_s = max(0.001, self._started_s + seconds - time.monotonic())
            signal.setitimer(signal.ITIMER_REAL, left_s, CUT_AFTER_S)
            if self._is_program:
                ending = threading.Timer(left_s + END_AFTER_S, self._end_process, (report,))
                ending.daemon = True
                ending.start()

    def raise_later(self, seconds: float, number: int) -> None:
        """Raise a stop for this signal after so many seconds, unless the command is over by then."""
        main = threading.main_thread().ident
        if main is None or number not in self._earlier or not self._is_program:
            return

        def send() -> None:
            if not self._is_over:
                signal.pthread_kill(main, number)

        self._later = threading.Timer(seconds, send)
        self._later.daemon = True
        self._later.start()

    def spent_s(self) -> float:
        """How long the program has been running."""
        return time.monotonic() - self._started_s

    def restore(self) -> None:
        """Give the signals back to their earlier handlers."""
        self._is_over = True
        if self._later is not None:
            self._later.cancel()
        for number, handler in self._earlier.items():
            if number != signal.SIGINT or not self._is_program:  # Ctrl-C while Python ends prints a traceback
                signal.signal(number, handler)
        if self._earlier:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def code_for(self, error: KafkakitError) -> int:
        """The error's code; a run that was stopped reports the stop that arrived, not always Ctrl-C."""
        if isinstance(error, InterruptedRunError) and self.received is not None:
            return int(self.received.exit_code)
        return int(error.exit_code)

    def _end_process(self, report: Callable[[BaseException], int]) -> None:
        """End what does not end by itself, with the words of the error that is on its way through the main thread.

        Does nothing for a command that was done in time, though it may have been stopped otherwise. Where the main
        thread could not take the signal of the time limit yet, it gets its time once it has.
        """

        def is_ending() -> bool:
            return self.received is not None or self.code is not None or self._was_interrupted or self._is_over

        if not is_ending():
            wait_until(time, float("inf"), is_ending, POLL_S)
            pause(time, END_AFTER_S)
        if not isinstance(self.received, DeadlineReached):
            return
        if self.code is None:
            found: BaseException | None = _error_of_main_thread()
            while found is not None and not isinstance(found, KafkakitError):
                found = found.__context__
            # Not here: the main thread may hold the stream, and wait for its reader.
            said = threading.Thread(target=report, args=(found or self.received,), daemon=True)
            said.start()
            said.join(REPORT_S)
        os._exit(int(self.received.exit_code) if self.code is None else self.code)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        is_first = not self._was_interrupted and self.received is None
        self._was_interrupted = True
        if not self._is_program or (is_first and not self.is_said):
            raise KeyboardInterrupt
        if self.is_said and self.code is None and not self._is_waived:
            self._is_waived = True  # the words are being printed; only where that hangs is there a next time
            return
        self._leave()

    def _leave(self) -> None:
        """End the process at once; what is on the cluster stays as after a kill, and the journal knows it."""
        if not self.is_said:
            os.write(2, self.last_words().encode(errors="backslashreplace"))
        code = ExitCode.INTERRUPTED if self.received is None else self.received.exit_code
        os._exit(int(code) if self.code is None else self.code)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        if self._was_interrupted and self._is_program and number != signal.SIGALRM:
            self._leave()
        if self.received is None:
            self.received = DeadlineReached() if number == signal.SIGALRM else TerminationRequested()
            self.received.signal_name = signal.Signals(number).name
        elif self._is_cut or number != signal.SIGALRM or not isinstance(self.received, DeadlineReached):
            return
        else:
            self._is_cut = True
        raise self.received


def _invoke(cli: CliContext, arguments: list[str], stops: StopSignals) -> int:
    try:
        root = build_root()
        if os.environ.get("_KAFKAKIT_COMPLETE"):
            root.main(args=arguments, prog_name=PROGRAM)
        with root.make_context(PROGRAM, list(arguments), obj=cli, max_content_width=MAX_WIDTH) as ctx:
            answer = root.invoke(ctx)
        return answer if isinstance(answer, int) else int(ExitCode.DONE)
    except typer.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        raise
    except typer.Abort:
        return _report_failure(cli, arguments, "aborted", None, ExitCode.FAILED)
    except (KafkakitError, KeyboardInterrupt) as error:
        return _report_stop(cli, arguments, error, stops)
    except typer.TyperException as error:
        return _report_usage(cli, arguments, error)
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            return _report_unexpected(cli, arguments, error)
        # The state of the machine, not a fault of ours: a read-only or full disk, a file where a folder belongs.
        what = f"cannot use {error.filename}" if error.filename else "cannot write"
        return _report_failure(cli, arguments, f"{what}: {error.strerror}", None, ExitCode.FAILED)
    except Exception as error:
        return _report_unexpected(cli, arguments, error)


def _report_stop(cli: CliContext, arguments: list[str], error: BaseException, stops: StopSignals) -> int:
    stops.is_said = True
    if cli.is_service and isinstance(error, KeyboardInterrupt) and not isinstance(error, DeadlineReached):
        error = ServiceStoppedError(error)
    if isinstance(error, ServiceStoppedError):
        cli.output.say(error.message)
        facts = {"message": error.message, "signal": error.signal_name, "exit_code": int(error.exit_code)}
        cli.output.stopped(cli.command_path.removeprefix(PROGRAM).strip(), facts)
        return int(error.exit_code)
    if isinstance(error, KafkakitError):
        return _report_failure(cli, arguments, error.message, error.hint, stops.code_for(error), error)
    message, hint = cli.stop_words or (_stop_message(error, cli) + _files_said(cli, arguments), None)
    return _report_failure(cli, arguments, message, hint, _stop_code(error))


def _report_failure(
    cli: CliContext, arguments: list[str], message: str, hint: str | None, code: int, error: KafkakitError | None = None
) -> int:
    try:
        output = cli.output
    except Exception:  # the options that decide on the output may be what is wrong
        output = cli.output_without_options(_named_format(arguments))
    if not cli.command_path:
        output = cli.output_without_options(_named_format(arguments))
    if error is not None and hint:
        hint = cli.called_in_error(hint)
    facts: dict[str, object] = {"message": message, "hint": hint, "exit_code": int(code)}
    if error is not None and error.reason:
        facts["reason"] = error.reason
    for line in error.lines if error is not None else ():
        output.say(line)
    if isinstance(error, InfeasibleError):
        facts["reasons"] = list(error.reasons)
        for reason in error.reasons:
            output.say(f"  {reason}")
    output.error(message, hint)
    output.failure(cli.command_path.removeprefix(PROGRAM).strip(), facts)
    return int(code)


_PLAIN = (
    ("Value error, ", ""),
    ("Input should be a valid integer, unable to parse string as an integer", "it is not a whole number"),
    ("Input should be a valid number, unable to parse string as a number", "it is not a number"),
    ("Input should be greater than or equal to ", "it must be at least "),
    ("Input should be less than or equal to ", "it must be at most "),
)
"""Phrases of the library that checks values, and what they mean."""


def _report_usage(cli: CliContext, arguments: list[str], error: Any) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else PROGRAM
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(error.format_message() + "\n")
        return int(ExitCode.USAGE)
    message = " ".join(error.format_message().split()).rstrip(".")
    for validator, plain in _PLAIN:
        message = message.replace(validator, plain)
    hint = f"see {path} --help"
    takes_names = context is not None and any(p.param_type_name == "argument" for p in context.command.params)
    if type(error).__name__ == "NoSuchOption" and takes_names and not error.option_name.startswith("--"):
        hint += f"; if {error.option_name} is a name, give it last, behind --"
    return _report_failure(cli, arguments, message[:1].lower() + message[1:], hint, ExitCode.USAGE)


def _report_unexpected(cli: CliContext, arguments: list[str], error: Exception) -> int:
    from kafkakit.config.read.environment import write_crash_report

    secrets = cli.__dict__["settings"].known_secrets() if "settings" in cli.__dict__ else ()
    summary, path = write_crash_report(error, secrets)
    where = f"the traceback is in {path}" if path else "the traceback could not be written"
    return _report_failure(
        cli, arguments, f"unexpected {summary}", f"this is a bug in kafkakit; {where}", ExitCode.FAILED
    )


def _named_format(arguments: Sequence[str]) -> str:
    """The output format that a command line names, read without parsing the rest of it."""
    for position, word in enumerate(arguments):
        if word in ("-o", "--output") and position + 1 < len(arguments):
            return arguments[position + 1]
        if word.startswith("--output="):
            return word.removeprefix("--output=")
        if word.startswith("-o") and not word.startswith("-o="):
            return word[2:]
    return os.environ.get("KAFKAKIT_OUTPUT", "text")


def _last_words(cli: CliContext, arguments: Sequence[str]) -> str:
    """What a second Ctrl-C prints."""
    message, hint = cli.stop_words or ("interrupted" + _files_said(cli, arguments), None)
    show_cursor = "\x1b[?25h\r\x1b[K" if cli.output.animate else ""
    if cli.is_service:
        return f"{show_cursor}stopped (SIGINT)\n"
    return f"{show_cursor}error: {message}\n" + (f"hint: {hint}\n" if hint else "")


def _stop_message(stop: BaseException, cli: CliContext) -> str:
    if isinstance(stop, DeadlineReached):
        return f"stopped after --timeout ({cli.timeout_s:g} s)"
    return "terminated" if isinstance(stop, StopRequested) else "interrupted"


def _files_said(cli: CliContext, arguments: Sequence[str]) -> str:
    """What a planning command has written before it was stopped: each file is whole or as it was."""
    if cli.written:
        return f"; already written: {', '.join(cli.written)}"
    is_planning = "topicmappr" in arguments and not {*arguments}.intersection(_ONLY_READING)
    return "; nothing was written" if is_planning else ""


_ONLY_READING = ("check", "explain")


def _stop_code(stop: BaseException) -> int:
    return int(stop.exit_code) if isinstance(stop, StopRequested) else int(ExitCode.INTERRUPTED)


CUT_AFTER_S = 0.4
END_AFTER_S = 0.7
REPORT_S = 2.0
POLL_S = 0.05


def _error_of_main_thread() -> BaseException | None:
    """The error that the main thread handles, in an `except` or `finally` block; Python 3.11 gives a triple."""
    found: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error: BaseException | None = found[1] if isinstance(found, tuple) else found
    return error
