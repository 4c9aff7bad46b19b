"""Located trees: what a YAML, JSON or properties file holds, with the place of every key and value.

Positions are offsets in characters of the text, which take little memory; a document turns them into lines and
columns, which count from 1. Lines end with LF, CR LF or CR, as in editors.
"""

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kafkakit.core.findings import Place

UNPARSABLE = "KKL006"
DUPLICATE_KEY = "KKV011"
MAX_DEPTH = 100
MAX_VALUES = 2_000_000
MAX_LINES = 2_000_000
MAX_ALIASED = 200_000
"""How many values aliases of YAML may repeat in one file."""

_LINE_END = re.compile(r"\r\n|\r|\n")
NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Scalar(NamedTuple):
    """One value as text, with the half-open range of the text that it stands in, quotes included.

    `is_plain` is True for what was written without quotes: numbers, true, null and bare words.
    """

    text: str
    start: int
    end: int
    is_plain: bool = True

    @property
    def is_null(self) -> bool:
        """True for no value."""
        return self.is_plain and self.text in NULLS


class Entry(NamedTuple):
    """A key with its value."""

    key: Scalar
    value: "Node"


class Mapping(NamedTuple):
    """Keys and values in the order of the text; of a repeated key the last value."""

    entries: dict[str, Entry]
    start: int
    is_flow: bool = False

    def get(self, key: str) -> "Node | None":
        """The value of a key, None where it is absent or null."""
        found = self.entries.get(key)
        if found is None or (isinstance(found.value, Scalar) and found.value.is_null):
            return None
        return found.value

    def mapping(self, *path: str) -> "Mapping | None":
        """The mapping below a path of keys, None where there is none."""
        found: Node | None = self
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else None

    def sequence(self, key: str) -> "tuple[Node, ...]":
        """The items below a key, none where it is absent or no sequence."""
        found = self.get(key)
        return tuple(found.items) if isinstance(found, Sequence) else ()

    def text(self, key: str) -> str | None:
        """The text below a key, None where it is absent, null or no scalar."""
        found = self.get(key)
        return found.text if isinstance(found, Scalar) else None


class Sequence(NamedTuple):
    """Items in order."""

    items: list["Node"]
    start: int
    is_flow: bool = False


Node = Scalar | Mapping | Sequence


class Problem(NamedTuple):
    """What is wrong with a text at an offset: `rule` is the code of the file rule that reports it."""

    rule: str
    message: str
    at: int
    key: str | None = None
    is_repeated_value: bool = False
    """The repeated key has the same value as before, so that one of the two can go."""


class Comment(NamedTuple):
    """A comment with its `#`; `own_line` is False where a key or value stands before it."""

    text: str
    line: int
    column: int
    own_line: bool


class CommentAt(NamedTuple):
    """The range of a comment in the text."""

    start: int
    end: int


@dataclass(frozen=True)
class Document:
    """One file: its text, the trees in it (several for multi-document YAML), problems and comments.

    `format` is `yaml`, `json` or `properties`.
    """

    path: str
    text: str
    format: str
    roots: tuple[Node, ...] = ()
    problems: tuple[Problem, ...] = ()
    comments_at: tuple[CommentAt, ...] = field(default=(), repr=False)

    @cached_property
    def line_starts(self) -> "array[int]":
        """The offset at which each line begins."""
        starts = array("q", [0])
        starts.extend(end.end() for end in _LINE_END.finditer(self.text))
        return starts

    def place(self, offset: int) -> Place:
        """The place of an offset."""
        if offset == 0:
            return Place(self.path, 1)
        starts = self.line_starts
        line = bisect_right(starts, offset)
        return Place(self.path, line, offset - starts[line - 1] + 1)

    def offset(self, line: int, column: int = 1) -> int:
        """The offset of a line and column, both kept within the text."""
        starts = self.line_starts
        line = min(max(line, 1), len(starts))
        return min(starts[line - 1] + max(column, 1) - 1, len(self.text))

    @property
    def has_broken_syntax(self) -> bool:
        """True when the file could not be read to its end."""
        return any(problem.rule == UNPARSABLE for problem in self.problems)

    @cached_property
    def comments(self) -> tuple[Comment, ...]:
        """All comments, in order."""
        found = []
        for start, end in self.comments_at:
            _, line, column = self.place(start)
            before = self.text[self.line_starts[line - 1] : start]
            found.append(Comment(self.text[start:end], line, column, not before.strip()))
        return tuple(found)


def duplicate_key(key: Scalar, before: Node, value: Node) -> Problem:
    """The problem of a key that stands in a mapping for the second time."""
    same = isinstance(before, Scalar) and isinstance(value, Scalar) and before.text == value.text
    how = "with the same value" if same else "and the last value counts"
    return Problem(DUPLICATE_KEY, f"{key.text:.200} is set more than once, {how}", key.start, key.text, same)
