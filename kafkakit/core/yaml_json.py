"""YAML and JSON that people write, read into trees with the place of every key and value.

Positions are offsets in characters of the text, which take little memory; a document turns them into lines and columns,
which count from 1. Lines end with LF, CR LF or CR, as in editors.

YAML is read from the events of the parser: no node objects, limits on depth, values and aliases; the C parser is used
if PyYAML has it. JSON is read by a scanner that finds repeated keys, without recursion. A million values take about 4 s
and 200 MB as YAML, about 2 s as JSON.

`read_yaml` and `read_json` report what is wrong as problems. `sound_document` is for files with settings: one document
in UTF-8 within limits, without problems; what it returns is walked with its own methods, or decoded into a type by
`decode_tree` of `kafkakit.core.documents`, which names the place of a value that does not fit.
"""

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

from kafkakit.core.errors import InputError
from kafkakit.core.findings import Place

if TYPE_CHECKING:
    import yaml

UNPARSABLE = "KKL006"
DUPLICATE_KEY = "KKV011"
MAX_LINES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """What one text may hold: bytes, levels, values (keys count), and values that aliases repeat.

    `aliased` is None where there may be no anchors and aliases at all.
    """

    size: int = 64 << 20
    depth: int = 100
    values: int = 2_000_000
    aliased: int | None = 200_000


ANY_FILE = TreeLimits()
SETTINGS_FILE = TreeLimits(depth=16, values=20_000, aliased=None)
"""Without aliases a file of one mebibyte cannot become more than one mebibyte of values."""

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


class MappingEntry(NamedTuple):
    """A key with its value."""

    key: Scalar
    value: "Node"


class Mapping(NamedTuple):
    """Keys and values in the order of the text; of a repeated key the last value."""

    entries: dict[str, MappingEntry]
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


class TextProblem(NamedTuple):
    """What is wrong with a text at an offset: `rule` is the code of the file rule that reports it."""

    rule: str
    message: str
    at: int
    key: str | None = None
    is_repeated_value: bool = False
    """The repeated key has the same value as before, so that one of the two can go."""
    first_at: int = 0
    """Where a repeated key's value stood before."""


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

    `format` is `yaml`, `json`, `toml` or `properties`.
    """

    path: str
    text: str
    format: str
    roots: tuple[Node, ...] = ()
    problems: tuple[TextProblem, ...] = ()
    comments_at: tuple[CommentAt, ...] = field(default=(), repr=False)
    tags: dict[int, str] = field(default_factory=dict, repr=False)
    """The tags of YAML that are written, by the offset of their value."""

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

    def line_of(self, node: Node) -> str:
        """The path with the line of a value, for errors."""
        return f"{self.path}:{self.place(node.start).line}"

    def position(self, offset: int) -> str:
        """The path with the line and column of an offset, for errors."""
        place = self.place(offset)
        return f"{self.path}:{place.line}:{place.column or 1}"

    @property
    def root(self) -> Node:
        """The tree of a sound document; an empty text is an empty mapping."""
        return self.roots[0] if self.roots else Mapping({}, 0)

    def require_sound(self, *, several: bool = False) -> None:
        """`InputError` for the first problem, and for a second document unless there may be `several`."""
        for problem in self.problems[:1]:
            is_repeated = problem.rule == DUPLICATE_KEY
            said = f"the key {(problem.key or '')[:60]!r} is given twice" if is_repeated else problem.message
            raise InputError(self.position(problem.at), said)
        for other in self.roots[1:2] if not several else ():
            raise InputError(self.position(other.start), "not valid YAML: expected a single document")

    def items(self, node: Node, where: str) -> Iterator[tuple[str, int, Node]]:
        """The keys of a mapping with their lines and values; an empty value has none. `where` is for `InputError`."""
        if isinstance(node, Scalar) and node.is_null:
            return
        if not isinstance(node, Mapping):
            what = f"{where} must be" if where else "must hold"
            raise InputError(self.line_of(node), f"{what} a mapping (key: value), found {kind_of(node)}")
        for key, value in node.entries.values():
            yield key.text, self.place(key.start).line, value

    def scalar_text(self, node: Node, name: str) -> str:
        """The text of a scalar; `InputError` for a mapping or a list."""
        if not isinstance(node, Scalar):
            raise InputError(self.line_of(node), f"{name} must be a text, found {kind_of(node)}")
        return node.text

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


def kind_of(node: Node) -> str:
    """What a value is, for errors."""
    return "a mapping" if isinstance(node, Mapping) else "a list" if isinstance(node, Sequence) else "a text"


def list_of(node: Node) -> list[Node]:
    """The items of a list; anything else is the only item of one."""
    return node.items if isinstance(node, Sequence) else [node]


def duplicate_key(key: Scalar, before: Node, value: Node) -> TextProblem:
    """The problem of a key that stands in a mapping for the second time."""
    same = isinstance(before, Scalar) and isinstance(value, Scalar) and before.text == value.text
    how = "with the same value" if same else "and the last value counts"
    return TextProblem(
        DUPLICATE_KEY, f"{key.text:.200} is set more than once, {how}", key.start, key.text, same, before.start
    )


_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#[^\r\n]*", re.MULTILINE)
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*\s+)+")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MERGE = "<<"
# Named tuples without the call of their own `__new__`, which takes as long as all the rest of an event.
_scalar: Callable[[type[Scalar], tuple[str, int, int, bool]], Scalar] = tuple.__new__
_entry: Callable[[type[MappingEntry], tuple[Scalar, Node]], MappingEntry] = tuple.__new__


class _Mark(Protocol):
    index: int


class _Event(Protocol):
    """What the events of both parsers have, by kind of event."""

    start_mark: _Mark
    end_mark: _Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None
    flow_style: bool | None


class _StopError(Exception):
    """Reading ends here, with a problem."""


@dataclass(slots=True)
class _Frame:
    node: Mapping | Sequence
    anchor: str | None
    values_before: int
    is_mapping: bool
    key: Scalar | None = None


def read_yaml(path: str, text: str, limits: TreeLimits = ANY_FILE) -> Document:
    """Read all documents of a YAML text; what cannot be read is a problem with its place, never an exception."""
    import yaml

    builder = _Builder(text, limits)
    try:
        builder.run()
    except yaml.MarkedYAMLError as error:
        builder.problems.append(_syntax_problem(error, text))
    except (yaml.YAMLError, UnicodeEncodeError):
        found = _FORBIDDEN.search(text)
        at = found.start() if found else 0
        shown = f" {text[at : at + 1]!r}" if found else ""
        builder.problems.append(TextProblem(UNPARSABLE, f"a character{shown} that YAML does not allow", at))
    except _StopError:
        pass
    comments = tuple(_comments(text, builder.hashed))
    return Document(path, text, "yaml", tuple(builder.roots), tuple(builder.problems), comments, builder.tags)


class _Builder:
    def __init__(self, text: str, limits: TreeLimits) -> None:
        self.text = text
        self.tags: dict[int, str] = {}
        self._limits = limits
        self._max_values = limits.values
        self.roots: list[Node] = []
        self.problems: list[TextProblem] = []
        self.hashed: list[tuple[int, int]] = []
        """Ranges of quoted and block scalars that contain a number sign, which begins no comment there."""
        self._stack: list[_Frame] = []
        self._keys: dict[str, str] = {}
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._values = 0
        self._aliased = 0

    def run(self) -> None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(self.text)
        handle: dict[type, Callable[[_Event], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._mapping,
            yaml.SequenceStartEvent: self._sequence,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        get_event = loader.get_event
        try:
            while (event := get_event()) is not None:
                act = handle.get(type(event))
                if act is not None:
                    act(event)
        finally:
            loader.dispose()

    def _document(self, event: _Event) -> None:
        del event
        self._anchors.clear()

    def _scalar(self, event: _Event) -> None:
        start = event.start_mark.index
        end = event.end_mark.index
        value: str = event.value
        if event.anchor is not None or event.tag is not None:
            skipped = _PROPERTIES.match(self.text, start, end)
            start = skipped.end() if skipped else start
            self._note(event, start)
        is_plain = not event.style and event.tag is None
        if event.style and "#" in value:
            # The line of a block scalar's indicator may end with a comment.
            body = self.text.find("\n", start, end) if event.style in "|>" else start
            self.hashed.append((body, end))
        self._values += 1
        if self._values > self._max_values:
            self._stop(f"more than {self._max_values:,} values", start)
        frame = self._stack[-1] if self._stack else None
        is_key = frame is not None and frame.is_mapping and frame.key is None
        node = _scalar(Scalar, (self._keys.setdefault(value, value) if is_key else value, start, end, is_plain))
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 1)
        if is_key and frame is not None:
            frame.key = node
        else:
            self._put(node)

    def _note(self, event: _Event, at: int) -> None:
        """Keep a tag; end at an anchor where there may be none."""
        if event.anchor is not None and self._limits.aliased is None:
            self._stop("anchors and aliases (& and *) are not supported: repeat the value", event.start_mark.index)
        if event.tag is not None:
            self.tags[at] = event.tag

    def _mapping(self, event: _Event) -> None:
        self._open(event, Mapping({}, event.start_mark.index, bool(event.flow_style)))

    def _sequence(self, event: _Event) -> None:
        self._open(event, Sequence([], event.start_mark.index, bool(event.flow_style)))

    def _open(self, event: _Event, node: Mapping | Sequence) -> None:
        at = event.start_mark.index
        stack = self._stack
        if event.anchor is not None or event.tag is not None:
            self._note(event, at)
        if len(stack) >= self._limits.depth:
            self._stop(f"nested deeper than {self._limits.depth} levels", at)
        if stack and stack[-1].is_mapping and stack[-1].key is None:
            self._stop("a key that is itself a mapping or a list", at)
        self._values += 1
        stack.append(_Frame(node, event.anchor, self._values, type(node) is Mapping))

    def _close(self, event: _Event) -> None:
        del event
        frame = self._stack.pop()
        node = frame.node
        if type(node) is Mapping and _MERGE in node.entries:
            self._merge(node)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (node, self._values - frame.values_before + 1)
        self._put(node)

    def _alias(self, event: _Event) -> None:
        at = event.start_mark.index
        most = self._limits.aliased
        if most is None:
            self._stop("anchors and aliases (& and *) are not supported: repeat the value", at)
        found = self._anchors.get(event.anchor or "")
        if found is None:
            self._stop("the alias has no anchor before it; a value that begins with * needs quotes", at)
        node, size = found
        self._aliased += size
        self._values += size
        if self._aliased > most:
            self._stop(f"aliases repeat more than {most:,} values", at)
        stack = self._stack
        if stack and stack[-1].is_mapping and stack[-1].key is None:
            if not isinstance(node, Scalar):
                self._stop("a key that is itself a mapping or a list", at)
            stack[-1].key = node
            return
        self._put(node)

    def _put(self, node: Node) -> None:
        if not self._stack:
            self.roots.append(node)
            return
        frame = self._stack[-1]
        owner, key = frame.node, frame.key
        if type(owner) is Sequence:
            owner.items.append(node)
        elif type(owner) is Mapping and key is not None:
            before = owner.entries.get(key.text)
            if before is not None:
                self.problems.append(duplicate_key(key, before.value, node))
            owner.entries[key.text] = _entry(MappingEntry, (key, node))
            frame.key = None

    def _merge(self, node: Mapping) -> None:
        entry = node.entries[_MERGE]
        if not entry.key.is_plain:
            return
        sources = entry.value.items if isinstance(entry.value, Sequence) else [entry.value]
        if not all(isinstance(source, Mapping) for source in sources):
            self._stop("the merge key << takes a mapping or a list of mappings", entry.key.start)
        del node.entries[_MERGE]
        for source in sources:
            if isinstance(source, Mapping):
                for key, merged in source.entries.items():
                    node.entries.setdefault(key, merged)

    def _stop(self, message: str, at: int) -> NoReturn:
        self.problems.append(TextProblem(UNPARSABLE, message, at))
        raise _StopError


def _syntax_problem(error: "yaml.MarkedYAMLError", text: str) -> TextProblem:
    mark = error.problem_mark or error.context_mark
    at = min(mark.index, len(text)) if mark is not None else 0
    what = " ".join(part for part in (error.context, error.problem) if part) or "cannot be parsed"
    if text[at : at + 1] == "\t":
        what = "a tab character, which YAML does not allow as indentation"
    return TextProblem(UNPARSABLE, f"not valid YAML: {what}"[:300], at)


def _comments(text: str, hashed: list[tuple[int, int]]) -> Iterator[CommentAt]:
    if "#" not in text:
        return
    at = position = 0
    while (found := _COMMENT.search(text, at)) is not None:
        start = found.start()
        while position < len(hashed) and hashed[position][1] <= start:
            position += 1
        if position < len(hashed) and hashed[position][0] <= start:
            at = hashed[position][1]
        else:
            yield CommentAt(start, found.end())
            at = found.end()


_SPACE = r"[ \t\n\r]*"
_STRING = r'"((?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+)"'
_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?"
_BLANK = re.compile(_SPACE)
_KEY = re.compile(rf"{_STRING}({_SPACE}:{_SPACE})")
_VALUE = re.compile(rf"(?:{_STRING}|({_NUMBER}|true|false|null)(?![\w.])|([\[{{]))({_SPACE})")

_NO_VALUE = {
    "": "a value is missing",
    '"': "an unterminated string, or one with a line break, a control character or a wrong escape",
    "'": "strings must be in double quotes",
    "]": "a value is missing before the bracket",
    "}": "a value is missing before the brace",
}


@dataclass(slots=True)
class _OpenNode:
    node: Mapping | Sequence
    key: Scalar | None = None


def read_json(path: str, text: str, limits: TreeLimits = ANY_FILE) -> Document:
    """Read a JSON text; what cannot be read is a problem with its place, never an exception."""
    scanner = _Scanner(text, limits)
    try:
        roots: tuple[Node, ...] = (scanner.run(),)
    except _StopError:
        roots = ()
    return Document(path, text, "json", roots, tuple(scanner.problems))


class _Scanner:
    def __init__(self, text: str, limits: TreeLimits) -> None:
        self.text = text
        self.problems: list[TextProblem] = []
        self._limits = limits
        self._stack: list[_OpenNode] = []
        self._keys: dict[str, str] = {}
        self._values = 0

    def run(self) -> Node:
        at = self._skip(0)
        while True:
            at, done = self._value(at)
            while done is not None:
                if not self._stack:
                    if at < len(self.text):
                        self._stop("unexpected text after the end of the document", at)
                    return done
                at, done = self._after_value(at, done)

    def _value(self, at: int) -> tuple[int, Node | None]:
        """Read the value that begins here: the offset behind it and the value, None when a container was opened."""
        found = _VALUE.match(self.text, at)
        if found is None:
            self._stop(_NO_VALUE.get(self.text[at : at + 1], "this is not a JSON value"), at)
        self._values += 1
        if self._values > self._limits.values:
            self._stop(f"more than {self._limits.values:,} values", at)
        if found.group(3) is None:
            return found.end(), _json_scalar(found)
        node: Mapping | Sequence = Mapping({}, at, True) if found.group(3) == "{" else Sequence([], at, True)
        if len(self._stack) >= self._limits.depth:
            self._stop(f"nested deeper than {self._limits.depth} levels", at)
        at = found.end()
        if self.text[at : at + 1] == ("}" if isinstance(node, Mapping) else "]"):
            return self._skip(at + 1), node
        self._stack.append(_OpenNode(node))
        return (self._key(at) if isinstance(node, Mapping) else at), None

    def _key(self, at: int) -> int:
        found = _KEY.match(self.text, at)
        if found is None:
            self._stop("a key in double quotes and a colon are expected here", at)
        text = _unescape(found.group(1))
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
            node.entries[owner.key.text] = MappingEntry(owner.key, value)
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
        self.problems.append(TextProblem(UNPARSABLE, f"not valid JSON: {message}", min(at, len(self.text))))
        raise _StopError


def _json_scalar(found: re.Match[str]) -> Scalar:
    plain = found.group(2)
    if plain is not None:
        return Scalar(plain, found.start(2), found.end(2))
    return Scalar(_unescape(found.group(1)), found.start(1) - 1, found.end(1) + 1, False)


def _unescape(raw: str) -> str:
    if "\\" not in raw:
        return raw
    text: str = json.loads(f'"{raw}"')
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def sound_document(data: bytes, source: str, limits: TreeLimits = SETTINGS_FILE, *, several: bool = False) -> Document:
    """The document of a file, or `several`; `InputError` with the place of what cannot be read or of a repeated key."""
    if len(data) > limits.size:
        raise InputError(source, f"holds more than {limits.size:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = len(data) - len(error.object) + error.start
        raise InputError(source, f"not valid UTF-8 text (byte {byte})") from None
    document = read_json(source, text, limits) if text.lstrip()[:1] in ("{", "[") else None
    # What begins as JSON may still be YAML, in its flow style.
    if document is None or document.has_broken_syntax:
        document = read_yaml(source, text, limits)
    document.require_sound(several=several)
    return document


def plain_value(document: Document, *, is_text: bool = False, node: Node | None = None) -> object:
    """A sound document, or one `node` of it, as dictionaries, lists and scalars.

    What plain scalars mean is asked of PyYAML, once for each text; with `is_text` all are texts, but null.
    """
    return _texts(node or document.root) if is_text else _PlainValues(document).of(node or document.root)


_TAG = "tag:yaml.org,2002:"
_TAGS_OF: dict[type, frozenset[str]] = {
    Scalar: frozenset({"null", "bool", "int", "float", "binary", "timestamp", "str"}),
    Mapping: frozenset({"map"}),
    Sequence: frozenset({"seq"}),
}


class _PlainValues:
    def __init__(self, document: Document) -> None:
        import yaml

        self._document = document
        self._known: dict[str, object] = {}
        self._loader = yaml.SafeLoader("")
        self._resolve: Callable[[type, str, tuple[bool, bool]], str] = self._loader.resolve

    def of(self, node: Node) -> object:
        tag = self._document.tags.get(node.start, "!")
        if tag != "!" and tag.removeprefix(_TAG) not in _TAGS_OF[type(node)]:
            raise InputError(self._document.position(node.start), "the tag is not supported; quote text that has a !")
        if isinstance(node, Mapping):
            return {self.of(key): self.of(value) for key, value in node.entries.values()}
        if isinstance(node, Sequence):
            return [self.of(item) for item in node.items]
        if tag != "!":
            return self._constructed(node, tag)
        if not node.is_plain:
            return node.text
        if node.text not in self._known:
            self._known[node.text] = self._constructed(node)
        return self._known[node.text]

    def _constructed(self, node: Scalar, tag: str | None = None) -> object:
        import yaml

        try:
            if self._document.format == "json":
                return json.loads(node.text)
            tag = tag or self._resolve(yaml.ScalarNode, node.text, (True, False))
            return self._loader.construct_object(yaml.ScalarNode(tag, node.text))
        except (yaml.YAMLError, ValueError) as error:
            said = f"{node.text[:60]!r} cannot be read: {getattr(error, 'problem', None) or error}"
            raise InputError(self._document.position(node.start), " ".join(said.split())[:300]) from None


def _texts(node: Node) -> object:
    if isinstance(node, Scalar):
        return None if node.is_null else node.text
    if isinstance(node, Mapping):
        return {name: _texts(entry.value) for name, entry in node.entries.items()}
    return [_texts(item) for item in node.items]
