"""YAML as located trees, from the events of the parser: no node objects, limits on depth, values and aliases.

The C parser is used where PyYAML has it; a million values take about 4 s and 200 MB.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn, Protocol

import yaml

from kafkakit.lint.decide.documents.tree import (
    MAX_ALIASED,
    MAX_DEPTH,
    MAX_VALUES,
    UNPARSABLE,
    CommentAt,
    Document,
    Entry,
    Mapping,
    Node,
    Problem,
    Scalar,
    Sequence,
    duplicate_key,
)

_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#[^\r\n]*", re.MULTILINE)
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*\s+)+")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MERGE = "<<"
# Named tuples without the call of their own `__new__`, which takes as long as all the rest of an event.
_scalar: Callable[[type[Scalar], tuple[str, int, int, bool]], Scalar] = tuple.__new__
_entry: Callable[[type[Entry], tuple[Scalar, Node]], Entry] = tuple.__new__


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


def read_yaml(path: str, text: str) -> Document:
    """Read all documents of a YAML text; what cannot be read is a problem with its place, never an exception."""
    builder = _Builder(text)
    try:
        builder.run()
    except yaml.MarkedYAMLError as error:
        builder.problems.append(_syntax_problem(error, text))
    except (yaml.YAMLError, UnicodeEncodeError):
        found = _FORBIDDEN.search(text)
        at = found.start() if found else 0
        shown = f" {text[at : at + 1]!r}" if found else ""
        builder.problems.append(Problem(UNPARSABLE, f"a character{shown} that YAML does not allow", at))
    except _StopError:
        pass
    return Document(
        path, text, "yaml", tuple(builder.roots), tuple(builder.problems), tuple(_comments(text, builder.hashed))
    )


class _Builder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.roots: list[Node] = []
        self.problems: list[Problem] = []
        self.hashed: list[tuple[int, int]] = []
        """Ranges of quoted and block scalars that contain a number sign, which begins no comment there."""
        self._stack: list[_Frame] = []
        self._keys: dict[str, str] = {}
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._values = 0
        self._aliased = 0

    def run(self) -> None:
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
        is_plain = not event.style and event.tag is None
        if event.style and "#" in value:
            # The line of a block scalar's indicator may end with a comment.
            body = self.text.find("\n", start, end) if event.style in "|>" else start
            self.hashed.append((body, end))
        self._values += 1
        if self._values > MAX_VALUES:
            self._stop(f"more than {MAX_VALUES:,} values", start)
        frame = self._stack[-1] if self._stack else None
        is_key = frame is not None and frame.is_mapping and frame.key is None
        node = _scalar(Scalar, (self._keys.setdefault(value, value) if is_key else value, start, end, is_plain))
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 1)
        if is_key and frame is not None:
            frame.key = node
        else:
            self._put(node)

    def _mapping(self, event: _Event) -> None:
        self._open(event, Mapping({}, event.start_mark.index, bool(event.flow_style)))

    def _sequence(self, event: _Event) -> None:
        self._open(event, Sequence([], event.start_mark.index, bool(event.flow_style)))

    def _open(self, event: _Event, node: Mapping | Sequence) -> None:
        at = event.start_mark.index
        stack = self._stack
        if len(stack) >= MAX_DEPTH:
            self._stop(f"nested deeper than {MAX_DEPTH} levels", at)
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
        found = self._anchors.get(event.anchor or "")
        if found is None:
            self._stop(f"the alias *{event.anchor:.60} has no anchor before it", at)
        node, size = found
        self._aliased += size
        self._values += size
        if self._aliased > MAX_ALIASED:
            self._stop(f"aliases repeat more than {MAX_ALIASED:,} values", at)
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
            owner.entries[key.text] = _entry(Entry, (key, node))
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
        self.problems.append(Problem(UNPARSABLE, message, at))
        raise _StopError


def _syntax_problem(error: yaml.MarkedYAMLError, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    at = min(mark.index, len(text)) if mark is not None else 0
    what = " ".join(part for part in (error.context, error.problem) if part) or "cannot be parsed"
    if text[at : at + 1] == "\t":
        what = "a tab character, which YAML does not allow as indentation"
    return Problem(UNPARSABLE, f"not valid YAML: {what}"[:300], at)


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
