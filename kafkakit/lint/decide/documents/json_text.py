"""JSON as located trees: a scanner with positions that finds repeated keys, without recursion.

A million values take about 2 s.
"""

import json
import re
from dataclasses import dataclass
from typing import NoReturn

from kafkakit.lint.decide.documents.tree import (
    MAX_DEPTH,
    MAX_VALUES,
    UNPARSABLE,
    Document,
    Entry,
    Mapping,
    Node,
    Problem,
    Scalar,
    Sequence,
    duplicate_key,
)

_SPACE = r"[ \t\n\r]*"
_STRING = r'"((?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+)"'
_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?"
_BLANK = re.compile(_SPACE)
_KEY = re.compile(rf"{_STRING}({_SPACE}:{_SPACE})")
_VALUE = re.compile(rf"(?:{_STRING}|({_NUMBER}|true|false|null)(?![\w.])|([\[{{]))({_SPACE})")


_NO_VALUE = {
    "": "a value is missing",
    '"': "a text without end, or with a line break, a control character or a wrong escape in it",
    "'": "texts stand in double quotes",
    "]": "a value is missing before the bracket",
    "}": "a value is missing before the brace",
}


class _StopError(Exception):
    """Reading ends here, with a problem."""


@dataclass(slots=True)
class _Open:
    node: Mapping | Sequence
    key: Scalar | None = None


def read_json(path: str, text: str) -> Document:
    """Read a JSON text; what cannot be read is a problem with its place, never an exception."""
    scanner = _Scanner(text)
    try:
        roots: tuple[Node, ...] = (scanner.run(),)
    except _StopError:
        roots = ()
    return Document(path, text, "json", roots, tuple(scanner.problems))


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._keys: dict[str, str] = {}
        self._values = 0

    def run(self) -> Node:
        at = self._skip(0)
        while True:
            at, done = self._value(at)
            while done is not None:
                if not self._stack:
                    if at < len(self.text):
                        self._stop("something stands after the end of the document", at)
                    return done
                at, done = self._after_value(at, done)

    def _value(self, at: int) -> tuple[int, Node | None]:
        """Read the value that begins here: the offset behind it and the value, None when a container was opened."""
        found = _VALUE.match(self.text, at)
        if found is None:
            self._stop(_NO_VALUE.get(self.text[at : at + 1], "this is no JSON value"), at)
        self._values += 1
        if self._values > MAX_VALUES:
            self._stop(f"more than {MAX_VALUES:,} values", at)
        if found.group(3) is None:
            return found.end(), _scalar(found)
        node: Mapping | Sequence = Mapping({}, at, True) if found.group(3) == "{" else Sequence([], at, True)
        if len(self._stack) >= MAX_DEPTH:
            self._stop(f"nested deeper than {MAX_DEPTH} levels", at)
        at = found.end()
        if self.text[at : at + 1] == ("}" if isinstance(node, Mapping) else "]"):
            return self._skip(at + 1), node
        self._stack.append(_Open(node))
        return (self._key(at) if isinstance(node, Mapping) else at), None

    def _key(self, at: int) -> int:
        found = _KEY.match(self.text, at)
        if found is None:
            self._stop("a key in double quotes and a colon are expected here", at)
        text = _unescaped(found.group(1))
        self._stack[-1].key = Scalar(self._keys.setdefault(text, text), at, found.start(2), False)
        return found.end()

    def _after_value(self, at: int, value: Node) -> tuple[int, Node | None]:
        """Put a value into its container: the offset of the next value, or the container when that ends here."""
        owner = self._stack[-1]
        node = owner.node
        if isinstance(node, Sequence):
            node.items.append(value)
        elif owner.key is not None:
            before = node.entries.get(owner.key.text)
            if before is not None:
                self.problems.append(duplicate_key(owner.key, before.value, value))
            node.entries[owner.key.text] = Entry(owner.key, value)
        sign = self.text[at : at + 1]
        if sign == ",":
            at = self._skip(at + 1)
            return (self._key(at) if isinstance(node, Mapping) else at), None
        if sign == ("}" if isinstance(node, Mapping) else "]"):
            self._stack.pop()
            return self._skip(at + 1), node
        return self._stop("a comma or the end of the list or object is expected here", at)

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def _stop(self, message: str, at: int) -> NoReturn:
        self.problems.append(Problem(UNPARSABLE, f"not valid JSON: {message}", min(at, len(self.text))))
        raise _StopError


def _scalar(found: re.Match[str]) -> Scalar:
    plain = found.group(2)
    if plain is not None:
        return Scalar(plain, found.start(2), found.end(2))
    return Scalar(_unescaped(found.group(1)), found.start(1) - 1, found.end(1) + 1, False)


def _unescaped(raw: str) -> str:
    if "\\" not in raw:
        return raw
    text: str = json.loads(f'"{raw}"')
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
