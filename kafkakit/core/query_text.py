r"""The text of a query: its parts as values, from text with errors that name the column, and canonical text again.

    or-part:     and-part { "or" and-part }
    and-part:    negation { "and" negation }
    negation:    { "not" } ( "(" or-part ")" | "exists" "(" key ")" | key test )
    test:        ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | [ "not" ] "in" "(" value { "," value } ")"
                 | ( "like" | "~" | "not" "like" | "!~" ) value

Keys and values are words, or text in double or single quotes with the escapes `\\`, `\"`, `\'`, `\n`, `\t`, `\r` and
`\u{hex}`. Words of the language may be in capitals.

`!=`, `not in` and `not like` are the negation of their opposites, as in Kubernetes' selectors: an object without the
key matches them. Equal queries have equal parts: nested `and`s are one, and two negations are none. Patterns with `*`
(any text) and `?` (one character) are matched in time linear in the text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from kafkakit.core.errors import UsageError
from kafkakit.core.text import sanitize

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
        return "the end" if self.kind == "end" else sanitize(repr(self.text[:40]))


@dataclass(frozen=True, slots=True)
class QueryLiteral:
    """A value in a query; `is_bare` where it is a number or a size without quotes, else it is text."""

    text: str
    is_bare: bool = False

    def __str__(self) -> str:
        return self.text if self.is_bare else _quote_text(self.text)


@dataclass(frozen=True, slots=True)
class ComparisonTest:
    """`key = value` and the like; `operator` is `=`, `<`, `<=`, `>` or `>=`."""

    key: str
    operator: str
    value: QueryLiteral


@dataclass(frozen=True, slots=True)
class ListTest:
    """`key in (value, ...)`."""

    key: str
    values: tuple[QueryLiteral, ...]


@dataclass(frozen=True, slots=True)
class Glob:
    """`key like "pattern"`: `*` stands for any text, `?` for one character."""

    key: str
    pattern: str


@dataclass(frozen=True, slots=True)
class ExistenceTest:
    """`exists(key)`."""

    key: str


@dataclass(frozen=True, slots=True)
class NotOf:
    """The negation of a part."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of the parts: `and`."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the parts: `or`."""

    parts: tuple["Node", ...]


KEYWORDS = frozenset({"and", "or", "not", "in", "like", "exists"})
NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,15})?", re.ASCII)
_SIZE = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?(?:[kKMGT]i?B?|B)", re.ASCII)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _quote_text(text: str) -> str:
    shown = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text)
    return f'"{"".join(shown)}"'


Node: TypeAlias = ComparisonTest | ListTest | Glob | ExistenceTest | NotOf | AllOf | AnyOf


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
        return combine_parts(AnyOf, tuple(parts))

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
        return combine_parts(AllOf, tuple(parts))

    def _negation(self, depth: int) -> Node:
        turns = 0
        while self._take_word("not"):
            turns += 1
        node = self._primary(depth)
        return negate(node) if turns % 2 else node

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
            return ExistenceTest(key)
        return self._test(self._key())

    def _test(self, key: str) -> Node:
        token = self._token
        if token.kind == "mark" and token.text in (*_ORDERS, "!="):
            self._next += 1
            if token.text == "=" == self._token.text:
                self._fail("a value after a single '='")
            value = self._value()
            return (
                negate(ComparisonTest(key, "=", value))
                if token.text == "!="
                else ComparisonTest(key, token.text, value)
            )
        if self.take_mark("!~"):
            return negate(Glob(key, self._value().text))
        if self.take_mark("~"):
            return Glob(key, self._value().text)
        denied = self._take_word("not")
        if self._take_word("in"):
            found: Node = ListTest(key, self._list())
        elif self._take_word("like"):
            found = Glob(key, self._value().text)
        else:
            self._fail("in or like" if denied else "one of = != < <= > >= ~, in, like or not in", key)
        return negate(found) if denied else found

    def _list(self) -> tuple[QueryLiteral, ...]:
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

    def _value(self) -> QueryLiteral:
        token = self._token
        if token.kind not in ("text", "word") or (token.kind == "word" and token.text.lower() in KEYWORDS):
            self._fail("a value")
        self._next += 1
        return literal_of(token.text) if token.kind == "word" else QueryLiteral(token.text)

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
        after = f" after {sanitize(repr(key[:40]))}" if key else ""
        raise QueryError(self._text, token.at, f"found {token}, expected {expected}{after}", hint=hint)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while match := _TOKEN.match(text, at):
        kind = str(match.lastgroup)
        start = match.start(kind)
        if kind == "quote":
            token, at = _quote_part(text, start)
        else:
            token, at = _Token(kind, match[kind], start), match.end()
        found.append(token)
    rest = text[at:]
    if rest.strip():
        start = at + len(rest) - len(rest.lstrip())
        problem = f"found {sanitize(repr(text[start]))}, expected a key, a value or an operator"
        raise QueryError(text, start, problem)
    return [*found, _Token("end", "", len(text.rstrip()))]


def _quote_part(text: str, start: int) -> tuple[_Token, int]:
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
            raise QueryError(text, at, f"found the escape {sanitize(repr(text[at : at + 2]))}, expected {expected}")
    raise QueryError(text, start, f"found a text without its end, expected {quote} before the end of the query")


_SHOWN = 60


def _caret(text: str, at: int) -> tuple[str, str]:
    """The text around a place on one line, and below it a caret at the place."""
    first = max(0, at - _SHOWN)
    shown = "".join(c if c.isprintable() else "?" for c in text[first : at + _SHOWN])
    return f"    {shown}", f"    {' ' * (at - first)}^"


def literal_of(word: str) -> QueryLiteral:
    """The literal that a word without quotes stands for."""
    return QueryLiteral(word, bool(NUMBER.fullmatch(word) or _SIZE.fullmatch(word)))


def negate(part: Node) -> Node:
    """The negation; that of a negation is the part itself."""
    return part.part if isinstance(part, NotOf) else NotOf(part)


def combine_parts(kind: type[AllOf] | type[AnyOf], parts: tuple[Node, ...]) -> Node:
    """The parts under `and` or `or`, those of the same kind taken in; a single one alone."""
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    return flat[0] if len(flat) == 1 else kind(flat)


def text_of(node: Node) -> str:
    """The canonical text; parsing it gives an equal node."""
    match node:
        case ComparisonTest(key, operator, value):
            return f"{key_text(key)} {operator} {value}"
        case ListTest(key, values):
            return f"{key_text(key)} in {_list(values)}"
        case Glob(key, pattern):
            return f"{key_text(key)} like {_quote_text(pattern)}"
        case ExistenceTest(key):
            return f"exists({key_text(key)})"
        case NotOf(ComparisonTest(key, "=", value)):
            return f"{key_text(key)} != {value}"
        case NotOf(ListTest(key, values)):
            return f"{key_text(key)} not in {_list(values)}"
        case NotOf(Glob(key, pattern)):
            return f"{key_text(key)} not like {_quote_text(pattern)}"
        case NotOf(part):
            return f"not {_text_inside(part, (AllOf, AnyOf, ComparisonTest))}"
        case AllOf(parts):
            return " and ".join(_text_inside(part, (AnyOf,)) for part in parts)
        case AnyOf(parts):
            return " or ".join(map(text_of, parts))


def keys_of(node: Node) -> frozenset[str]:
    """Every key that the query looks at."""
    match node:
        case NotOf(part):
            return keys_of(part)
        case AllOf(parts) | AnyOf(parts):
            return frozenset().union(*map(keys_of, parts))
        case ComparisonTest() | ListTest() | Glob() | ExistenceTest():
            return frozenset((node.key,))


def _text_inside(part: Node, enclosed: tuple[type, ...]) -> str:
    return f"({text_of(part)})" if isinstance(part, enclosed) else text_of(part)


def _list(values: tuple[QueryLiteral, ...]) -> str:
    return f"({', '.join(map(str, values))})"


def key_text(key: str) -> str:
    """A key as it is typed: in quotes where it has to be."""
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in KEYWORDS else _quote_text(key)


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a whole text fits the pattern.

    Without `?` each piece between stars is searched once, from the left; with it the states of the pattern are the
    bits of one number, moved along with each character. O(text) for a pattern of up to 64 characters or so, else
    O(text x pattern / 64); nothing is tried twice.
    """
    if "?" in pattern:
        # Most texts fail with stars in place of question marks, which is quicker to see.
        loose, exact = glob_matcher(pattern.replace("?", "*")), _by_bits(pattern)
        return lambda text: loose(text) and exact(text)
    first, *rest = pattern.split("*")
    if not rest:
        return pattern.__eq__
    *middle, last = rest
    inner = [piece for piece in middle if piece]
    least = len(first) + len(last)
    if not inner:
        return lambda text: len(text) >= least and text.startswith(first) and text.endswith(last)

    def matches(text: str) -> bool:
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for piece in inner:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True

    return matches


def _by_bits(pattern: str) -> Callable[[str], bool]:
    """The pattern as an automaton: bit i is set when the first i characters (stars aside) have matched."""
    stays = takes_any = count = 0
    takes: dict[str, int] = {}
    for char in pattern:
        if char == "*":
            stays |= 1 << count
            continue
        if char == "?":
            takes_any |= 1 << count
        else:
            takes[char] = takes.get(char, 0) | 1 << count
        count += 1
    done = 1 << count

    def matches(text: str) -> bool:
        states = 1
        for char in text:
            states = (states & stays) | (states & (takes.get(char, 0) | takes_any)) << 1
            if not states:
                return False
        return bool(states & done)

    return matches
