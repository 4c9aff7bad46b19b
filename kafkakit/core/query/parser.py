"""From a query's text to its parts, with errors that name the column.

    or-part:     and-part { "or" and-part }
    and-part:    negation { "and" negation }
    negation:    { "not" } ( "(" or-part ")" | "exists" "(" key ")" | key test )
    test:        ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | [ "not" ] "in" "(" value { "," value } ")"
                 | ( "like" | "~" | "not" "like" | "!~" ) value

Keys and values are words, or text in double or single quotes with the escapes `\\\\`, `\\"`, `\\'`, `\\n`, `\\t`, `\\r`
and `\\u{hex}`. Words of the language may be in capitals.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

from kafkakit.core.errors import UsageError
from kafkakit.core.printable import printable
from kafkakit.core.query.nodes import (
    KEYWORDS,
    Compare,
    Every,
    Exists,
    Glob,
    Literal,
    Member,
    Node,
    Some,
    combined,
    literal_of,
    negated,
)

MAX_LENGTH = 4096
MAX_DEPTH = 32
MAX_LIST = 1000
_TOKEN = re.compile(r"""\s*(?:(?P<mark>!=|<=|>=|!~|[()=<>~,:;])|(?P<quote>["'])|(?P<word>[^\s()"',:;=!<>~\\]+))""")
_ESCAPED = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "r": "\r"}
_CODE = re.compile(r"\{([0-9a-fA-F]{1,6})\}")
_ORDERS = frozenset({"=", "<", "<=", ">", ">="})


class QueryError(UsageError):
    """A query that cannot be read: `column` (from 1) is where, and `lines` show it with a caret."""

    def __init__(self, text: str, at: int, problem: str, *, hint: str | None = None) -> None:
        self.column, self.lines = at + 1, _caret(text, at)
        super().__init__(f"query, column {self.column}: {problem}", hint=hint)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # mark, text (quoted), word, end
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else printable(repr(self.text[:40]))


def parse_query(text: str) -> Node:
    """The parts of a query; raises `QueryError` with the column, what was found and what was expected.

    At most `MAX_LENGTH` characters, `MAX_DEPTH` nested parts and `MAX_LIST` values in a list. O(length).
    """
    return _Parser(text).whole()


def parse_rules(text: str, first: str, second: str) -> tuple[tuple[Node, Node], ...]:
    """The queries of `FIRST where QUERY: SECOND where QUERY`, such as a rule on topics and brokers; `;` parts rules."""
    parser, found = _Parser(text), list[tuple[Node, Node]]()
    while not found or parser.take_mark(";"):
        parser.expect_words(first)
        left = parser.either(0)
        parser.expect_mark(":", f"and, or, or ': {second} where ...'")
        parser.expect_words(second)
        found.append((left, parser.either(0)))
    parser.expect_end("and, or, ';' or the end")
    return tuple(found)


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise UsageError(f"the query has {len(text):,} characters, at most {MAX_LENGTH:,} are read")
        self._text, self._tokens, self._next = text, _tokens(text), 0

    def whole(self) -> Node:
        node = self.either(0)
        self.expect_end()
        return node

    def either(self, depth: int) -> Node:
        parts = [self._all(depth)]
        while self._take_word("or"):
            parts.append(self._all(depth))
        return combined(Some, tuple(parts))

    def expect_end(self, expected: str = "and, or, or the end") -> None:
        if self._token.kind != "end":
            self._fail(expected)

    def expect_words(self, noun: str) -> None:
        for word in (noun, "where"):
            if not self._take_word(word):
                self._fail(f"{word!r} (of '{noun} where ...')")

    def expect_mark(self, mark: str, expected: str) -> None:
        if not self.take_mark(mark):
            self._fail(expected)

    def _all(self, depth: int) -> Node:
        parts = [self._negation(depth)]
        while self._take_word("and"):
            parts.append(self._negation(depth))
        return combined(Every, tuple(parts))

    def _negation(self, depth: int) -> Node:
        turns = 0
        while self._take_word("not"):
            turns += 1
        node = self._primary(depth)
        return negated(node) if turns % 2 else node

    def _primary(self, depth: int) -> Node:
        token = self._token
        if self.take_mark("("):
            if depth >= MAX_DEPTH:
                raise QueryError(self._text, token.at, f"more than {MAX_DEPTH} parentheses inside each other")
            node = self.either(depth + 1)
            self.expect_mark(")", "')', and or or")
            return node
        if self._take_word("exists"):
            self.expect_mark("(", "'(' after exists")
            key = self._key()
            self.expect_mark(")", "')' after the key")
            return Exists(key)
        return self._test(self._key())

    def _test(self, key: str) -> Node:
        token = self._token
        if token.kind == "mark" and token.text in (*_ORDERS, "!="):
            self._next += 1
            if token.text == "=" == self._token.text:
                self._fail("a value after a single '='")
            value = self._value()
            return negated(Compare(key, "=", value)) if token.text == "!=" else Compare(key, token.text, value)
        if self.take_mark("!~"):
            return negated(Glob(key, self._value().text))
        if self.take_mark("~"):
            return Glob(key, self._value().text)
        denied = self._take_word("not")
        if self._take_word("in"):
            found: Node = Member(key, self._list())
        elif self._take_word("like"):
            found = Glob(key, self._value().text)
        else:
            self._fail("in or like" if denied else "one of = != < <= > >= ~, in, like or not in", key)
        return negated(found) if denied else found

    def _list(self) -> tuple[Literal, ...]:
        self.expect_mark("(", "'(' and a list of values")
        values = [self._value()]
        while self.take_mark(","):
            if len(values) >= MAX_LIST:
                raise QueryError(self._text, self._token.at, f"more than {MAX_LIST:,} values in a list")
            values.append(self._value())
        self.expect_mark(")", "',' or ')'")
        return tuple(values)

    def _key(self) -> str:
        token = self._token
        if token.kind not in ("text", "word") or (token.kind == "word" and token.text.lower() in KEYWORDS):
            self._fail("a key, not, exists or '('")
        self._next += 1
        return token.text

    def _value(self) -> Literal:
        token = self._token
        if token.kind not in ("text", "word") or (token.kind == "word" and token.text.lower() in KEYWORDS):
            self._fail("a value")
        self._next += 1
        return literal_of(token.text) if token.kind == "word" else Literal(token.text)

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take_word(self, word: str) -> bool:
        token = self._token
        taken = token.kind == "word" and token.text.lower() == word
        self._next += taken
        return taken

    def take_mark(self, mark: str) -> bool:
        token = self._token
        taken = token.kind == "mark" and token.text == mark
        self._next += taken
        return taken

    def _fail(self, expected: str, key: str = "") -> NoReturn:
        token = self._token
        hint = {"&&": "write and", "&": "write and", "||": "write or", "|": "write or"}.get(token.text)
        if token.kind == "word" and token.text.lower() in KEYWORDS:
            hint = "put a name or value that is a word of the language in quotes"
        after = f" after {printable(repr(key[:40]))}" if key else ""
        raise QueryError(self._text, token.at, f"found {token}, expected {expected}{after}", hint=hint)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while match := _TOKEN.match(text, at):
        kind = str(match.lastgroup)
        start = match.start(kind)
        if kind == "quote":
            token, at = _quoted(text, start)
        else:
            token, at = _Token(kind, match[kind], start), match.end()
        found.append(token)
    rest = text[at:]
    if rest.strip():
        start = at + len(rest) - len(rest.lstrip())
        problem = f"found {printable(repr(text[start]))}, expected a key, a value or an operator"
        raise QueryError(text, start, problem)
    return [*found, _Token("end", "", len(text.rstrip()))]


def _quoted(text: str, start: int) -> tuple[_Token, int]:
    quote, at, parts = text[start], start + 1, list[str]()
    while at < len(text):
        char = text[at]
        if char == quote:
            return _Token("text", "".join(parts), start), at + 1
        if char != "\\":
            parts.append(char)
            at += 1
            continue
        following = text[at + 1 : at + 2]
        code = _CODE.match(text, at + 2) if following == "u" else None
        if code is not None and int(code[1], 16) <= 0x10FFFF and not 0xD800 <= int(code[1], 16) <= 0xDFFF:
            parts.append(chr(int(code[1], 16)))
            at = code.end()
        elif following in _ESCAPED and following:
            parts.append(_ESCAPED[following])
            at += 2
        else:
            expected = "\\\\, \\\", \\', \\n, \\t, \\r or \\u{hex}"
            raise QueryError(text, at, f"found the escape {printable(repr(text[at : at + 2]))}, expected {expected}")
    raise QueryError(text, start, f"found a text without its end, expected {quote} before the end of the query")


_SHOWN = 60


def _caret(text: str, at: int) -> tuple[str, str]:
    """The text around a place on one line, and below it a caret at the place."""
    first = max(0, at - _SHOWN)
    shown = "".join(c if c.isprintable() else "?" for c in text[first : at + _SHOWN])
    return f"    {shown}", f"    {' ' * (at - first)}^"
