"""Java properties files: the text format (java.util.Properties, method load) as keys and values, with positions."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from kafkakit.core.errors import InputError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_NAME = re.compile(r"((?:[^\\=: \t\f]|\\.)*+\\?)[ \t\f]*(?:[=:][ \t\f]*)?", re.DOTALL)
_BAD_ESCAPE = "\\u must be followed by four hexadecimal digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One entry and the line it begins on."""

    name: str
    value: str
    line: int


class Range(NamedTuple):
    """A half-open range of the text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedProperty:
    """One entry as written: its line, and where its name and its value stand; `problem` tells what is wrong with it."""

    name: str
    value: str
    line: int
    name_at: Range
    value_at: Range
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedProperties:
    """All entries of a text in order, repeated ones too, and its comments."""

    entries: tuple[LocatedProperty, ...]
    comments: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class _LogicalLine:
    """One entry's text, joined from natural lines, each piece with its offset in the file."""

    line: int
    text: str
    starts: tuple[int, ...]
    """Index in the text at which each piece begins."""
    offsets: tuple[int, ...]

    def offset(self, index: int) -> int:
        if len(self.starts) == 1:
            return self.offsets[0] + index
        piece = bisect_right(self.starts, index) - 1
        return self.offsets[piece] + index - self.starts[piece]

    def range(self, start: int, end: int) -> Range:
        first = self.offset(start)
        return Range(first, self.offset(end - 1) + 1 if end > start else first)


def parse_properties(data: bytes, source: str) -> tuple[Property, ...]:
    """Read a properties file in UTF-8; of a repeated key the last one counts, as in Java.

    Raises `InputError` for bytes that are not UTF-8, a bad escape and control characters.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(source, f"not valid UTF-8 text (byte {error.start})") from None
    if "\x00" in text:
        raise InputError(source, "contains a zero byte; is this a properties file?")
    found: dict[str, Property] = {}
    for entry in locate_properties(text).entries:
        if entry.problem is not None:
            raise InputError(f"{source}:{entry.line}", entry.problem)
        found.pop(entry.name, None)
        found[entry.name] = Property(name=entry.name, value=entry.value, line=entry.line)
    return tuple(found.values())


def locate_properties(text: str) -> LocatedProperties:
    """Every entry and comment of a text with its place; never raises."""
    comments: list[Range] = []
    entries = []
    for logical in _logical_lines(text, comments):
        name_end, value_start = _split(logical.text)
        name, name_is_good = _unescape(logical.text[:name_end])
        value, value_is_good = _unescape(logical.text[value_start:])
        entries.append(
            LocatedProperty(
                name=name,
                value=value,
                line=logical.line,
                name_at=logical.range(0, name_end),
                value_at=logical.range(value_start, len(logical.text)),
                problem=None if name_is_good and value_is_good else _BAD_ESCAPE,
            )
        )
    return LocatedProperties(entries=tuple(entries), comments=tuple(comments))


def _logical_lines(text: str, comments: list[Range]) -> Iterator[_LogicalLine]:
    pieces: list[str] = []
    offsets: list[int] = []
    first = 0
    for number, natural in enumerate(_LINE.finditer(text), start=1):
        content = natural.group(1).lstrip(_BLANKS)
        offset = natural.end(1) - len(content)
        if not offsets:
            if content[:1] in ("#", "!"):
                comments.append(Range(offset, natural.end(1)))
            if not content or content[0] in "#!":
                continue
            first = number
        continues = _ends_with_odd_backslash(content)
        pieces.append(content[:-1] if continues else content)
        offsets.append(offset)
        if not continues:
            yield _joined(first, pieces, offsets)
            pieces, offsets = [], []
    if offsets:
        yield _joined(first, pieces, offsets)


def _joined(line: int, pieces: list[str], offsets: list[int]) -> _LogicalLine:
    starts = (0, *accumulate(len(piece) for piece in pieces[:-1]))
    return _LogicalLine(line, "".join(pieces), starts, tuple(offsets))


def _ends_with_odd_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(logical: str) -> tuple[int, int]:
    """Where the name ends and where the value begins."""
    found = _NAME.match(logical)
    return (found.end(1), found.end()) if found is not None else (0, 0)


def _unescape(text: str) -> tuple[str, bool]:
    """The text that is meant, and whether all of its escapes are right."""
    if "\\" not in text:
        return text, True
    out: list[str] = []
    position = 0
    is_good = True
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
                out.append(chr(int(digits, 16)))
                position += 4
            else:
                is_good = False
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Java writes characters beyond the basic plane as two escapes; join them, and keep a lone half out.
    joined = "".join(out)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), is_good
