"""The only writer to stdout and stderr: one result in the chosen format on stdout, everything else on stderr.

Names and messages come from clusters and files: what would move a cursor or reorder a line is written escaped.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, TextIO, cast

from kafkakit.core.errors import KafkakitError, OperationFailedError, RefusedError
from kafkakit.core.text import plain_value, printable_lines, tsv_lines
from kafkakit.ports.acting import ProgressBar, Screen
from kafkakit.report.report import Report

RESULT_SCHEMA = 1
CONSENT_HINT = "pass --yes to do it, or --dry-run to see what would be done"


class OutputFormat(StrEnum):
    """How the result is written; text is for people and may change, the others are versioned."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    TSV = "tsv"


class ColorChoice(StrEnum):
    """When to colour the lines on stderr."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Output:
    """Writes one invocation's output; `animate` and `color` are settled by the caller from the terminal's facts.

    `called` gives a text with its commands as they are to be called for the cluster of this invocation.
    """

    def __init__(
        self,
        *,
        output_format: OutputFormat = OutputFormat.TEXT,
        output_file: Path | None = None,
        page_file: Path | None = None,
        color: bool = False,
        animate: bool = False,
        input_allowed: bool = False,
        called: Callable[[str], str] = str,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.output_format, self._called = output_format, called
        self.output_file, self.page_file = output_file, page_file
        self.color = color
        self.animate = animate
        self.input_allowed = input_allowed
        self._result_written = self._page_written = False
        self.page_failed, self._now = False, now

    @property
    def plain_stdout(self) -> bool:
        """True when the result goes to a stdout that cannot show block characters."""
        if self.output_file is not None or sys.stdout is None:
            return False
        return "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()

    def result(self, result: Report) -> None:
        """Write the command's one result to stdout, or atomically to `--output-file` (`-` is stdout).

        Then its page, where one is wanted.
        """
        to_terminal = self.output_file is None and sys.stdout is not None and sys.stdout.isatty()
        text = format_result(result, self.output_format, to_terminal=to_terminal)
        if result.colored and to_terminal and self.color and self.output_format is OutputFormat.TEXT:
            text = colored_text(text)
        if self.output_file is None:
            self._result_written = True
            write_out(text)
            if to_terminal and self.output_format is OutputFormat.TEXT:
                self._offer_page(result, text.count("\n"))
        else:
            from kafkakit.adapters.files import write_file

            write_file(self.output_file, text.encode(), 0o600 if result.is_private else 0o644)
            self._result_written = True
        self._write_page(result)

    def _offer_page(self, result: Report, lines: int) -> None:
        """Say how a table that is longer than the screen becomes a page, to who sits at it."""
        if not self.animate or self.page_file is not None or result.table is None:
            return
        import shutil

        if lines >= shutil.get_terminal_size().lines:
            self.say(f"{lines} lines: with --html FILE they are a page as well")

    def _write_page(self, result: Report) -> None:
        """Write the page, if one is wanted; where that fails the command still ends as it would."""
        if self.page_file is None:
            return
        from kafkakit.adapters.files import write_file
        from kafkakit.report.pages import sections_page

        self._page_written, at = True, self._now() if self._now else None
        try:
            page = result.page() if result.page else sections_page(result, self._called, at)
            write_file(self.page_file, page, 0o600 if result.is_private else 0o644)
        except KafkakitError as error:
            self.page_failed = True
            self.warn(f"no page is written: {error.message}")
        else:
            self.say(f"page: {self.page_file}")

    def failure(self, command: str, error: Mapping[str, object]) -> None:
        """Write a failure as one object on stdout for `-o json|yaml`, unless a result is already there.

        A page of an earlier run is replaced by one that says so.
        """
        self._end(command, {"error": error})
        if not self._page_written and self.page_file is not None:
            hint = error.get("hint")
            failed = OperationFailedError(str(error["message"]), hint=str(hint) if hint else None)
            self._write_page(Report(command=command, data={}, sections=(), failure=failed))

    def stopped(self, command: str, stop: Mapping[str, object]) -> None:
        """Write the usual end of a service as `failure` writes a failure, under a key of its own."""
        self._end(command, {"stopped": stop})

    def _end(self, command: str, body: Mapping[str, object]) -> None:
        if self._result_written or self.output_format not in (OutputFormat.JSON, OutputFormat.YAML):
            return
        self._result_written = True
        write_out(_encode(command, body, self.output_format))

    def say(self, line: str) -> None:
        """Print one line on stderr."""
        _write_stderr(f"{printable_lines(line)}\n")

    def warn(self, line: str) -> None:
        """Print one warning on stderr, with its commands for the same cluster."""
        _write_stderr(f"{self._paint('warning:', '33')} {printable_lines(self._called(line))}\n")

    def error(self, message: str, hint: str | None) -> None:
        """Print a failure on stderr in one line, and the hint below it; commands in a hint have lines of their own."""
        _write_stderr(f"{self._paint('error:', '31')} {_one_line(message)}\n")
        if hint:
            lines = "\n".join(_one_line(part) for part in re.split(r"\n(?=kafkakit )", hint))
            _write_stderr(f"{self._paint('hint:', '36')} {lines}\n")

    @contextmanager
    def progress(self, label: str) -> Iterator[ProgressBar]:
        """A bar on a terminal; elsewhere one line when the phase begins."""
        if not self.animate:
            self.say(label)
            yield _SilentScreen()
            return
        with _bar(label, self.color) as bar:
            yield bar

    @contextmanager
    def screen(self, *, colored: bool = False) -> Iterator[Screen]:
        """On a terminal a text that is replaced in place; elsewhere one line each time. `colored` as of `Report`."""
        if not self.animate:
            yield _Lines(self)
            return
        with _show_live(self.color, colored) as screen:
            yield screen

    def ask_typed(self, question: str, expected: str = "yes") -> bool:
        """Ask on stderr; True only when the typed answer is `expected`.

        Raises `RefusedError` where no input is possible.
        """
        if not self.input_allowed:
            raise RefusedError(f"confirmation needed, but no input is possible here: {question}", hint=CONSENT_HINT)
        _write_stderr(f"{printable_lines(question)} Type {expected!r} to continue: ")
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            _write_stderr("\n")
        return answer.strip() == expected

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color else text


_COLORS = {"error": "31", "warning": "33", "note": "36", "unknown": "35", "ok": "32"}
_SEVERITY = re.compile(r"\A(\S+  )(OK|WARNING|ERROR|UNKNOWN)\b|^()(error|warning|note|unknown)\b", re.MULTILINE)


def colored_text(text: str) -> str:
    """Text with the word for health in its first line, and severities at the beginning of lines, in their colours."""

    def colored(found: re.Match[str]) -> str:
        before, word = found[1] or "", found[2] or found[4]
        return f"{before}\x1b[{_COLORS[word.lower()]}m{word}\x1b[0m"

    return _SEVERITY.sub(colored, text)


def format_result(result: Report, output_format: OutputFormat, *, to_terminal: bool = False) -> str:
    """The result as text that ends with a line end; JSON and YAML carry the versioned header first.

    A document is left as it is for programs, and escaped on a terminal as all text is.
    """
    if output_format is OutputFormat.TEXT:
        text = result.text if result.is_document and not to_terminal else printable_lines(result.text)
        return text if text.endswith("\n") or not text else f"{text}\n"
    if output_format is OutputFormat.TSV:
        return tsv_lines(result.rows)
    return _encode(result.command, result.data, output_format)


def _encode(command: str, data: Mapping[str, object], output_format: OutputFormat) -> str:
    body = plain_value({"kafkakit": {"command": command, "schema": RESULT_SCHEMA}, **data})
    if output_format is OutputFormat.YAML:
        import yaml

        def written(plain: bool) -> str:
            return yaml.safe_dump(body, sort_keys=False, allow_unicode=plain, width=10_000)

    else:
        from kafkakit.core.documents import json_text

        def written(plain: bool) -> str:
            return json_text(body, ascii_only=not plain) + "\n"

    text = written(True)
    # Both formats can write any character escaped, so that a terminal is safe and a program reads the same.
    return text if text == printable_lines(text) else written(False)


def _one_line(text: str) -> str:
    return printable_lines(" ".join(text.split()))


def write_out(text: str) -> None:
    """Write to stdout; `OperationFailedError` when it is closed or its disk is full."""
    if sys.stdout is None:  # closed by the caller (>&-)
        raise OperationFailedError("cannot write the result: stdout is closed")
    try:
        _write(sys.stdout, text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OperationFailedError(f"cannot write the result: {error.strerror}") from None


def _write_stderr(text: str) -> None:
    # A stderr that takes nothing (a full disk under a log file, closed) must not stop the command.
    with suppress(OSError, AttributeError):
        _write(sys.stderr, text)


def _write(stream: TextIO, text: str) -> None:
    # A lone surrogate (a file name that is not UTF-8) must not end in a traceback.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


class _SilentScreen:
    def update(self, done: float, total: float, note: str = "") -> None:
        pass


class _Lines:
    def __init__(self, output: Output) -> None:
        self._output = output

    def show(self, text: str, line: str) -> None:
        del text
        self._output.say(line)


class _TolerantStderr:
    """stderr for bars: a terminal that is gone must not keep a run from its last steps."""

    def write(self, text: str) -> int:
        _write_stderr(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, AttributeError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def _stderr_for_rich() -> IO[str]:
    return cast("IO[str]", _TolerantStderr())


@contextmanager
def _show_live(color: bool, colored: bool) -> Iterator[Screen]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=_stderr_for_rich(), no_color=not color, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="ellipsis") as live:

        class _InPlace:
            def show(self, text: str, line: str) -> None:
                del line
                # A line that wraps would push others out of the screen.
                shown = printable_lines(text).rstrip("\n")
                styled = Text.from_ansi(colored_text(shown)) if color and colored else Text(shown)
                styled.no_wrap, styled.overflow = True, "ellipsis"
                live.update(styled, refresh=True)

        yield _InPlace()


@contextmanager
def _bar(label: str, color: bool) -> Iterator[ProgressBar]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    console = Console(file=_stderr_for_rich(), no_color=not color)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    notes = TextColumn("{task.fields[note]}", markup=False)
    with RichProgress(*columns, notes, TimeElapsedColumn(), console=console) as shown:
        task = shown.add_task(printable_lines(label), total=1.0, note="")

        class _Live:
            def update(self, done: float, total: float, note: str = "") -> None:
                shown.update(task, completed=done, total=total or 1.0, note=printable_lines(note))

        yield _Live()
