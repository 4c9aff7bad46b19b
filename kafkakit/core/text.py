"""Text of values: aligned tables for people, TSV for scripts, plain values for JSON and YAML, words to be pasted.

Short lists become parts of sentences. Text from outside is made printable before a terminal or a log shows it: nothing
in it moves a cursor or begins a line.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import cast

EMPTY_CELL = "-"
_PLAIN = frozenset({bool, float, int, str, type(None)})


def text_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Align rows under upper-case headings without spaces, two blanks apart; numbers are set to the right."""
    body = [[cell(value) for value in row] for row in rows]
    head = [name.upper().replace(" ", "-").replace("_", "-") for name in columns]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    numeric = [bool(body) and all(_is_number(line[i]) for line in body) for i in range(len(head))]

    def line_of(cells: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(line_of(cells) for cells in [head, *body])


def tsv_lines(rows: Iterable[Sequence[object]]) -> str:
    """One record a line, tabs between cells, `-` for an empty cell, tabs and line ends inside a cell become blanks."""
    return "".join("\t".join(cell(value) for value in row) + "\n" for row in rows)


def cell(value: object) -> str:
    """One value as a table cell; lists are joined with commas, times are ISO 8601."""
    if value is None or value == "" or value == ():
        return EMPTY_CELL
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ",".join(cell(item) for item in value)
    return sanitize(" ".join(str(value).split())) or EMPTY_CELL


def plain_value(value: object) -> object:
    """Reduce a value to what JSON holds; anything unknown becomes its `str`, so a `Secret` stays masked."""
    # Exact types first: a report of 200,000 rows has millions of these, and they need no call each.
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, dict):
        return {
            key if type(key) is str else str(key): item if type(item) in _PLAIN else plain_value(item)
            for key, item in value.items()
        }
    if kind is tuple or kind is list:
        return [item if type(item) in _PLAIN else plain_value(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, Enum):
        return plain_value(value.value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return [plain_value(item) for item in sorted(value)]
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain_value(item) for item in value]
    return str(value)


def _is_number(text: str) -> bool:
    return text == EMPTY_CELL or text.replace(".", "", 1).replace("-", "", 1).isdigit()


def sanitize(text: str) -> str:
    """The text with everything that does not print, escapes of terminals above all, written as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape_char(char) for char in text)


def shown_name(name: str) -> str:
    """A name in a table or a sentence: printable, and in quotes where blanks or nothing at all would not be seen."""
    return sanitize(name) if name and name == name.strip(" ") else f"'{sanitize(name)}'"


def printable_lines(text: str) -> str:
    """A text of several lines made printable: line ends stay. Quick for what is printable already."""
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join(sanitize(line) for line in text.split("\n"))


def _escape_char(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote(word: str) -> str:
    """The word for a shell, on one line whatever is in it: what does not print goes into `$'...'`.

    That form is of POSIX 2024 and known to bash, zsh and ksh; elsewhere such names have to be typed.
    """
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(_escape_for_shell(char) for char in word) + "'"


def kubectl_command(verb: str, name: str = "", namespace: str = "") -> str:
    """A command of kubectl about an object, or about all of a kind without its name."""
    within = f" -n {quote(namespace)}" if namespace else ""
    return f"kubectl {verb}{f' {quote(name)}' if name else ''}{within}"


def option_word(flag: str, value: str) -> str:
    """An option with its value as typed in a shell."""
    return " ".join(_option_with_value(flag, value, quote))


def _option_with_value(flag: str, value: str, written: Callable[[str], str]) -> tuple[str, ...]:
    """An option and its value as words; parsers take `-name` as a value only behind `=`, and `-1` anywhere."""
    if value.startswith("-") and not value[1:2].isdigit():
        return (f"{flag}={written(value)}",)
    return flag, written(value)


def _escape_for_shell(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    return char if char.isprintable() else "".join(f"\\x{b:02x}" for b in char.encode("utf-8", "surrogatepass"))


OptionValue = str | int | bool | tuple[str, ...] | None
_VERB = re.compile(r"[a-z][a-z0-9-]*( [a-z][a-z0-9-]*)*", re.ASCII)
_OPTION = re.compile(r"--[a-z][a-z0-9-]*|-X", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command of kafkakit that a message names: `str` of it can be pasted.

    `program` is how kafkakit is called, as a shell line (`kafkakit --profile prod`), `verb` the words of the command,
    `options` are flags with a value, or None for a switch; `typed` are pieces of a shell line that stood on one, such
    as options of the run that is to be continued. Tests parse every one that is made with the command line's own
    definitions, and compare each place in the source that makes one.
    """

    verb: str
    arguments: tuple[str, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()
    program: str = "kafkakit"
    typed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _VERB.fullmatch(self.verb):
            raise ValueError(f"{self.verb!r} is not a command")
        wrong = [flag for flag, _ in self.options if not _OPTION.fullmatch(flag)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not an option")

    @property
    def words(self) -> tuple[str, ...]:
        """The words after the program's name. An argument that begins with a dash stands behind `--`, last."""
        return self._in_order([word for piece in self.typed for word in shlex.split(piece)], str)

    def __str__(self) -> str:
        return " ".join([self.program, *self._in_order(self.typed, quote)])

    def _in_order(self, typed: Sequence[str], written: Callable[[str], str]) -> tuple[str, ...]:
        flags: list[str] = []
        for flag, value in self.options:
            flags += [flag] if value is None else _option_with_value(flag, value, written)
        arguments = map(written, self.arguments)
        if any(word.startswith("-") for word in self.arguments):
            return (*self.verb.split(), *flags, *typed, "--", *arguments)
        return (*self.verb.split(), *arguments, *flags, *typed)


def shell_command(verb: str, *arguments: str, program: str = "kafkakit", **options: OptionValue) -> ShellCommand:
    """A command with options named as in Python: `shell_command("topicmappr drain", brokers="3", min_rack_ids=2)`.

    True is a switch; None, False and the empty text leave an option out; several values repeat it. A name that Python
    reserves ends with `_`.
    """
    found: list[tuple[str, str | None]] = []
    for name, value in options.items():
        flag = f"--{name.rstrip('_').replace('_', '-')}"
        if value is True:
            found.append((flag, None))
        elif isinstance(value, tuple):
            found += [(flag, each) for each in value]
        elif value is not None and value is not False and value != "":
            found.append((flag, str(value)))
    return ShellCommand(verb, arguments, tuple(found), program)


_OF_A_CLUSTER = re.compile(
    r"(?<![\w/.-])kafkakit (?=(?:autothrottle|broker|config|doctor|metricsfetcher|reassign|registry|snapshot|streams"
    r"|topicmappr|lint --live)\b)"
)


def called_by(text: str, program: str, sources: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> str:
    """The text with each command of a cluster that it names called by the program: by its profile or address.

    `sources` are by command (`topicmappr drain`) the options that say what it is to read, by flag and as typed. A
    command that the text names gets those that it does not have there, so that it reads what was read here.
    """
    called = _OF_A_CLUSTER.sub(lambda _: f"{program} ", text)
    if not sources:
        return called
    verbs = "|".join(re.escape(verb) for verb in sorted(sources, key=len, reverse=True))
    named = re.compile(rf"(?<![\w/.-])(?:{re.escape(program)}|kafkakit) ({verbs})(?![\w-])")
    return named.sub(partial(_with_source, sources=sources), called)


def _with_source(found: re.Match[str], sources: Mapping[str, Mapping[str, str]]) -> str:
    rest = re.split(r"[\n`]|kafkakit ", found.string[found.end() :], maxsplit=1)[0]
    lacking = (typed for flag, typed in sources[found[1]].items() if not re.search(rf" {re.escape(flag)}[ =]", rest))
    return " ".join([found[0], *lacking])


_SHOWN = 8


def abort_command(program: str, partitions: Iterable[object]) -> str:
    """The line that cancels the running moves of these partitions, whoever began them."""
    return str(shell_command("reassign abort", program=program, partition=",".join(sorted(map(str, partitions)))))


def few_of(items: Iterable[object]) -> str:
    """The items joined with commas, at most eight of them: `1, 2, ... (12 in all)`; `none` for an empty list."""
    texts = [str(item) for item in items]
    if len(texts) > _SHOWN:
        return f"{', '.join(texts[:_SHOWN])}, ... ({len(texts)} in all)"
    return ", ".join(texts) or "none"


class ToldOnce:
    """Reports a line if it differs from the one before: a fault that stays is told once, one that comes again anew."""

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report, self._last = report, ""

    def tell(self, line: str) -> None:
        """Report it unless it was the last one."""
        if line != self._last:
            self._last = line
            self._report(line)

    def clear(self, line: str = "") -> None:
        """All is well again: what comes next is told, and `line` now if anything was told before."""
        was_told, self._last = bool(self._last), ""
        if was_told and line:
            self._report(line)
