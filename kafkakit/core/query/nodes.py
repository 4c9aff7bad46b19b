"""The parts of a query as values, and its canonical text.

`!=`, `not in` and `not like` are the negation of their opposites, as in Kubernetes' selectors: an object without the
key matches them. Equal queries have equal parts: nested `and`s are one, and two negations are none.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

KEYWORDS = frozenset({"and", "or", "not", "in", "like", "exists"})
NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,15})?", re.ASCII)
_SIZE = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?(?:[kKMGT]i?B?|B)", re.ASCII)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in a query; `is_bare` where it is a number or a size without quotes, else it is text."""

    text: str
    is_bare: bool = False

    def __str__(self) -> str:
        return self.text if self.is_bare else _quoted(self.text)


def literal_of(word: str) -> Literal:
    """The literal that a word without quotes stands for."""
    return Literal(word, bool(NUMBER.fullmatch(word) or _SIZE.fullmatch(word)))


@dataclass(frozen=True, slots=True)
class Compare:
    """`key = value` and the like; `operator` is `=`, `<`, `<=`, `>` or `>=`."""

    key: str
    operator: str
    value: Literal


@dataclass(frozen=True, slots=True)
class Member:
    """`key in (value, ...)`."""

    key: str
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Glob:
    """`key like "pattern"`: `*` stands for any text, `?` for one character."""

    key: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Exists:
    """`exists(key)`."""

    key: str


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a part."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class Every:
    """All of the parts: `and`."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of the parts: `or`."""

    parts: tuple["Node", ...]


Node: TypeAlias = Compare | Member | Glob | Exists | Not | Every | Some


def negated(part: Node) -> Node:
    """The negation; that of a negation is the part itself."""
    return part.part if isinstance(part, Not) else Not(part)


def combined(kind: type[Every] | type[Some], parts: tuple[Node, ...]) -> Node:
    """The parts under `and` or `or`, those of the same kind taken in; a single one alone."""
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    return flat[0] if len(flat) == 1 else kind(flat)


def text_of(node: Node) -> str:
    """The canonical text; parsing it gives an equal node."""
    match node:
        case Compare(key, operator, value):
            return f"{key_text(key)} {operator} {value}"
        case Member(key, values):
            return f"{key_text(key)} in {_list(values)}"
        case Glob(key, pattern):
            return f"{key_text(key)} like {_quoted(pattern)}"
        case Exists(key):
            return f"exists({key_text(key)})"
        case Not(Compare(key, "=", value)):
            return f"{key_text(key)} != {value}"
        case Not(Member(key, values)):
            return f"{key_text(key)} not in {_list(values)}"
        case Not(Glob(key, pattern)):
            return f"{key_text(key)} not like {_quoted(pattern)}"
        case Not(part):
            return f"not {_inside(part, (Every, Some, Compare))}"
        case Every(parts):
            return " and ".join(_inside(part, (Some,)) for part in parts)
        case Some(parts):
            return " or ".join(map(text_of, parts))


def keys_of(node: Node) -> frozenset[str]:
    """Every key that the query looks at."""
    match node:
        case Not(part):
            return keys_of(part)
        case Every(parts) | Some(parts):
            return frozenset().union(*map(keys_of, parts))
        case Compare() | Member() | Glob() | Exists():
            return frozenset((node.key,))


def _inside(part: Node, enclosed: tuple[type, ...]) -> str:
    return f"({text_of(part)})" if isinstance(part, enclosed) else text_of(part)


def _list(values: tuple[Literal, ...]) -> str:
    return f"({', '.join(map(str, values))})"


def key_text(key: str) -> str:
    """A key as it is typed: in quotes where it has to be."""
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in KEYWORDS else _quoted(key)


def _quoted(text: str) -> str:
    shown = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text)
    return f'"{"".join(shown)}"'
