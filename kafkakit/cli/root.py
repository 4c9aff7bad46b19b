"""The root command: assembles the groups lazily and turns every failure into one line and an exit code."""

import errno
import os
import sys
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, TextIO

import typer
from typer.core import TyperCommand

from kafkakit import __version__
from kafkakit.cli.command_classes import CliContext, CliGroup, new_group
from kafkakit.cli.groups import ENTRIES, Entry
from kafkakit.cli.help_text import MAX_WIDTH
from kafkakit.cli.output import write_out
from kafkakit.cli.stop_signals import StopSignals
from kafkakit.core.errors import DeadlineReached, ExitCode, InfeasibleError, KafkakitError, StopRequested

PROGRAM = "kafkakit"
ROOT_HELP = """Plan, carry out and verify changes of a Kafka cluster.

Examples:

\b
kafkakit sandbox up --brokers 6 --racks 3
kafkakit --profile sandbox topicmappr rebuild --topics '.*' --brokers -2 --plan p.json
kafkakit --profile sandbox reassign apply p.json --throttle 20MB
kafkakit --profile sandbox reassign verify p.json
"""


class _Unloaded(TyperCommand):
    """Stands for a top-level command until it is invoked."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, help=entry.help, short_help=entry.help, rich_markup_mode=None)
        self.entry = entry


class LazyRoot(CliGroup):
    """The root group; a command's module is imported when the command is resolved."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs["commands"] = {entry.name: _Unloaded(entry) for entry in ENTRIES}
        super().__init__(**kwargs)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(command.entry) if isinstance(command, _Unloaded) else command, rest

    def loaded(self) -> dict[str, Any]:
        """Every top-level command by name, imported."""
        return {entry.name: load(entry) for entry in ENTRIES}


def load(entry: Entry) -> Any:
    """Import a top-level command and give it the shared options, however its app was made."""
    return _built(entry, import_module(entry.module).app)


@cache  # building the commands of a group takes longer than most of them run; tests run many in one process
def _built(entry: Entry, app: typer.Typer) -> Any:
    holder = new_group("")
    if entry.is_group:
        holder.add_typer(app, name=entry.name, cls=app.info.cls or CliGroup, help=app.info.help or entry.help)
    else:
        (only,) = app.registered_commands
        only.name = entry.name
        holder.registered_commands.append(only)
    return typer.main.get_group(holder).commands[entry.name]


def _print_version(value: bool) -> None:
    if value:
        write_out(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


def _print_reference(ctx: typer.Context, value: bool) -> None:
    if value:
        from kafkakit.cli.command_reference import reference_json

        write_out(reference_json(ctx.command))
        raise typer.Exit


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
    stops.last_words = lambda: _last_words(cli)
    stops.install()
    cli.start_deadline = partial(
        stops.start_timer, report=lambda error: _report_stop(cli, list(arguments), error, stops)
    )
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
    if isinstance(error, KafkakitError):
        return _report_failure(cli, arguments, error.message, error.hint, stops.code_for(error), error)
    message, hint = cli.stop_words or (_stop_message(error, cli), None)
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
    return _report_failure(
        cli, arguments, message[:1].lower() + message[1:], f"{path} --help lists what can be given", ExitCode.USAGE
    )


def _report_unexpected(cli: CliContext, arguments: list[str], error: Exception) -> int:
    from kafkakit.config.read.crash_record import write_crash_report

    secrets = cli.__dict__["settings"].known_secrets() if "settings" in cli.__dict__ else ()
    summary, path = write_crash_report(error, secrets)
    where = f"the traceback is in {path}" if path else "the traceback could not be written"
    return _report_failure(
        cli, arguments, f"unexpected {summary}", f"this is a fault of kafkakit; {where}", ExitCode.FAILED
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


def _last_words(cli: CliContext) -> str:
    """What a second Ctrl-C prints."""
    message, hint = cli.stop_words or ("interrupted", None)
    show_cursor = "\x1b[?25h\r\x1b[K" if cli.output.animate else ""
    return f"{show_cursor}error: {message}\n" + (f"hint: {hint}\n" if hint else "")


def _stop_message(stop: BaseException, cli: CliContext) -> str:
    if isinstance(stop, DeadlineReached):
        return f"stopped after --timeout ({cli.timeout_s:g} s)"
    return "terminated" if isinstance(stop, StopRequested) else "interrupted"


def _stop_code(stop: BaseException) -> int:
    return int(stop.exit_code) if isinstance(stop, StopRequested) else int(ExitCode.INTERRUPTED)
