"""The text of configuration files: YAML read with limits, each key with its line, and a profile put into it.

Scalars stay text (nothing is guessed to be a number, a date or a switch), and anchors and aliases are
refused, so that a file of one mebibyte cannot become more than one mebibyte of values.

Comments, order and line ends stay where a profile is written: the text is changed at one place, which the positions of
nodes give, and read again. Everything else in it must read as before.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from yaml import YAMLError, compose, parse, safe_dump
from yaml.events import AliasEvent, Event, MappingStartEvent, NodeEvent, SequenceStartEvent
from yaml.loader import BaseLoader
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kafkakit.config.keys import KEY_BY_NAME, PROFILE_NAME_HINT, ValueKind, did_you_mean, is_profile_name
from kafkakit.core.errors import InputError

MAX_DEPTH = 16
_SECTIONS = frozenset(name.rpartition(".")[0] for name in KEY_BY_NAME if "." in name) | {"security"}
_KNOWN = (*(name for name, key in KEY_BY_NAME.items() if key.kind is not ValueKind.SECRET), *_SECTIONS)
MAX_VALUES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedValue:
    """A value and its line."""

    value: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """What one file holds: profiles by name, the profile to use, and warnings about unknown keys.

    `trusted_folders` are those whose project file may set what a connection is made of.
    """

    default_profile: LocatedValue | None = None
    trusted_folders: tuple[str, ...] = ()
    profiles: dict[str, dict[str, LocatedValue]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def parse_config(data: bytes, source: str) -> ConfigFile:
    """Read a top-level file: `profile`, `trusted_folders` and `profiles: {NAME: {...}}`; `InputError` for a bad one."""
    root = yaml_root(data, source)
    default: LocatedValue | None = None
    trusted: tuple[str, ...] = ()
    profiles: dict[str, dict[str, LocatedValue]] = {}
    warnings: list[str] = []
    for name, line, node in yaml_items(root, source, ""):
        if name == "profile":
            default = LocatedValue(value=yaml_scalar(node, source, name), line=line)
        elif name == "trusted_folders":
            trusted = _folders(node, source)
        elif name == "profiles":
            for profile, _, body in yaml_items(node, source, "profiles"):
                if not is_profile_name(profile):
                    raise InputError(
                        f"{source}:{line}", f"{profile[:60]!r} cannot name a profile", hint=PROFILE_NAME_HINT
                    )
                profiles[profile] = _flatten(body, source, warnings)
        else:
            guess = did_you_mean(name, ("profile", "profiles", "trusted_folders"))
            warnings.append(f"{source}:{line}: unknown key {name[:60]!r}{guess}")
    return ConfigFile(default_profile=default, trusted_folders=trusted, profiles=profiles, warnings=tuple(warnings))


def parse_profile(data: bytes, source: str, name: str) -> ConfigFile:
    """Read a file of `profiles.d`, which is one profile's mapping."""
    warnings: list[str] = []
    values = _flatten(yaml_root(data, source), source, warnings)
    return ConfigFile(profiles={name: values}, warnings=tuple(warnings))


def yaml_root(data: bytes, source: str) -> Node:
    """The nodes of a YAML text within the limits; `InputError` for any other text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(source, f"not valid UTF-8 text (byte {error.start})") from None
    try:
        _check_limits(text, source)
        root = compose(text, Loader=BaseLoader)
    except YAMLError as error:
        raise InputError(source, f"not valid YAML: {_reason(error)}") from None
    except RecursionError:
        raise InputError(source, "nested too deeply") from None
    return MappingNode("", []) if root is None else root


def _check_limits(text: str, source: str) -> None:
    depth = 0
    for values, event in enumerate(parse(text, Loader=BaseLoader)):
        if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor is not None):
            raise InputError(
                yaml_place(source, event), "anchors and aliases (& and *) are not supported", hint="repeat the value"
            )
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            depth += 1
        elif type(event).__name__.endswith("EndEvent"):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InputError(source, f"nested more than {MAX_DEPTH} levels deep")
        if values > MAX_VALUES:
            raise InputError(source, f"holds more than {MAX_VALUES} values")


def yaml_items(node: Node, source: str, where: str) -> Iterator[tuple[str, int, Node]]:
    """The keys of a mapping with their lines and values; an empty value has none. `where` names it in `InputError`."""
    if isinstance(node, ScalarNode) and node.value == "":
        return
    if not isinstance(node, MappingNode):
        what = f"{where} must be" if where else "must hold"
        raise InputError(yaml_place(source, node), f"{what} a mapping (key: value), found {_kind_of(node)}")
    seen: set[str] = set()
    for key_node, value_node in node.value:
        name = yaml_scalar(key_node, source, "a key")
        if name in seen:
            raise InputError(yaml_place(source, key_node), f"the key {name[:60]!r} is given twice")
        seen.add(name)
        yield name, key_node.start_mark.line + 1, value_node


def _flatten(node: Node, source: str, warnings: list[str], prefix: str = "") -> dict[str, LocatedValue]:
    values: dict[str, LocatedValue] = {}
    for part, line, child in yaml_items(node, source, prefix.rstrip(".") or "a profile"):
        name = prefix + part
        key = KEY_BY_NAME.get(name)
        if key is None and isinstance(child, MappingNode) and name in _SECTIONS:
            values |= _flatten(child, source, warnings, f"{name}.")
        elif key is None and not (name in _SECTIONS and isinstance(child, ScalarNode) and child.value == ""):
            if name in _SECTIONS:
                raise InputError(f"{source}:{line}", f"{name} must be a mapping (key: value), found {_kind_of(child)}")
            warnings.append(f"{source}:{line}: unknown key {name[:80]!r}{did_you_mean(name, _KNOWN)}")
        elif key is not None and key.kind is ValueKind.SECRET:
            raise InputError(
                f"{source}:{line}",
                f"{name} holds a secret; a config file must not",
                hint=f"use {name}_file, {name}_env, {name}_credential or {name}_prompt",
            )
        elif key is not None:
            values[name] = LocatedValue(value=_value(child, source, name), line=line)
    return values


def _folders(node: Node, source: str) -> tuple[str, ...]:
    listed = yaml_list(node)
    folders = tuple(yaml_scalar(item, source, "trusted_folders") for item in listed)
    for folder, item in zip(folders, listed, strict=True):
        # A relative path would mean another folder in each working folder.
        if folder and not folder.startswith(("/", "~/")):
            raise InputError(
                yaml_place(source, item), f"trusted_folders must hold absolute paths, found {folder[:60]!r}"
            )
    return tuple(folder for folder in folders if folder)


def _value(node: Node, source: str, name: str) -> str:
    if name == "bootstrap_server" and isinstance(node, SequenceNode):
        return ",".join(yaml_scalar(item, source, name) for item in node.value)
    return yaml_scalar(node, source, name)


def yaml_list(node: Node) -> list[Node]:
    """The items of a list; anything else is the only item of one."""
    return list(node.value) if isinstance(node, SequenceNode) else [node]


def yaml_scalar(node: Node, source: str, name: str) -> str:
    """The text of a scalar; `InputError` for a mapping or a list."""
    if not isinstance(node, ScalarNode):
        raise InputError(yaml_place(source, node), f"{name} must be a text, found {_kind_of(node)}")
    value: str = node.value
    return value


def _kind_of(node: Node) -> str:
    return {"MappingNode": "a mapping", "SequenceNode": "a list"}.get(type(node).__name__, "a text")


def yaml_place(source: str, node: Node | Event) -> str:
    """`source` with the line of a node."""
    mark = getattr(node, "start_mark", None)
    return source if mark is None else f"{source}:{mark.line + 1}"


def _reason(error: YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or str(error).splitlines()[0])
    return f"{problem[:200]} in line {mark.line + 1}" if mark is not None else problem[:200]


Document: TypeAlias = "str | list[Document] | dict[str, Document]"
KeyPath: TypeAlias = "tuple[str, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedDocument:
    """A file as plain data: texts, lists and mappings; with the line of each key, by its path."""

    source: str
    content: dict[str, Document]
    lines: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """The line of a key, or of what it stands in; 0 when none is known."""
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 0)

    def fail(self, path: KeyPath, problem: str, hint: str | None = None) -> InputError:
        """What to raise about a key: its line, its name and the problem."""
        line = self.line(path)
        return InputError(f"{self.source}:{line}" if line else self.source, f"{'.'.join(path)} {problem}", hint=hint)

    def text(self, value: Document, path: KeyPath) -> str:
        if not isinstance(value, str):
            raise self.fail(path, "must be a text")
        return value

    def mapping(self, value: Document, path: KeyPath) -> dict[str, Document]:
        if value == "":
            return {}
        if not isinstance(value, dict):
            raise self.fail(path, "must be a mapping of keys to values")
        return value


_TOML_HEAD = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?")
_TOML_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TOML_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def locate_toml(text: str, source: str) -> LocatedDocument:
    """A TOML text; the lines are those of keys that begin a line. `InputError` with the line for a broken one."""
    import tomllib

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, _, place = str(error).partition(" (at ")
        named = re.search(r"line (\d+)", place)
        line = int(named[1]) if named else text.count("\n") + 1
        raise InputError(f"{source}:{line}", f"not valid TOML: {problem}") from None
    except RecursionError:
        raise InputError(source, "nested too deeply") from None
    lines: dict[KeyPath, int] = {}
    section: KeyPath = ()
    for number, line_text in enumerate(text.split("\n"), start=1):
        head, key = _TOML_HEAD.fullmatch(line_text), _TOML_KEY.match(line_text)
        if head:
            section = _toml_path(head[1])
            lines.setdefault(section, number)
        elif key:
            lines.setdefault((*section, *_toml_path(key[1])), number)
    return LocatedDocument(source=source, content={key: _plain(value) for key, value in content.items()}, lines=lines)


def _toml_path(text: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in _TOML_PART.findall(text))


def _plain(value: object) -> Document:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def locate_yaml(data: bytes, source: str) -> LocatedDocument:
    """Keys in small letters below the names of contexts, since kafkactl does not tell them apart."""
    try:
        root = yaml_root(data, source)
    except InputError as error:
        line = re.search(r" in line (\d+)$", error.problem)
        raise InputError(f"{source}:{line[1]}" if line else source, error.problem) from None
    lines: dict[KeyPath, int] = {}
    content = dict(_yaml_entries(root, source, (), lines))
    return LocatedDocument(source=source, content=content, lines=lines)


def _yaml_entries(node: Node, source: str, path: KeyPath, lines: dict[KeyPath, int]) -> Iterator[tuple[str, Document]]:
    for name, line, child in yaml_items(node, source, ".".join(path)):
        key = name if len(path) == 1 else name.lower()
        lines[(*path, key)] = line
        yield key, _yaml_value(child, source, (*path, key), lines)


def _yaml_value(node: Node, source: str, path: KeyPath, lines: dict[KeyPath, int]) -> Document:
    if isinstance(node, MappingNode):
        return dict(_yaml_entries(node, source, path, lines))
    if isinstance(node, SequenceNode):
        return [_yaml_value(item, source, path, lines) for item in node.value]
    if not isinstance(node, ScalarNode):
        raise InputError(yaml_place(source, node), "cannot be read")
    return str(node.value)


Tree: TypeAlias = "dict[str, str | Tree]"
_STEP = 2
# What every reader of YAML takes for a text; the rest is quoted.
_PLAIN = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./-]*")


@dataclass(frozen=True, slots=True)
class _Splice:
    """The text between two places, replaced."""

    start: int
    end: int
    text: str


def with_profile(data: bytes, source: str, name: str, values: Mapping[str, str]) -> bytes:
    """The file with this profile, in place of one of its name; `values` by dotted key.

    `InputError` for a file that cannot be read, and for one whose layout allows no change at one place.
    """
    parse_config(data, source)
    root = yaml_root(data, source)
    tree = nested_values(values)
    text = data.decode("utf-8-sig")
    splice = _splice(text, root, name, tree)
    added = splice.text.replace("\n", "\r\n" if "\r\n" in text else "\n")
    changed = f"{text[: splice.start]}{added}{text[splice.end :]}".encode()
    if data.startswith(codecs.BOM_UTF8):
        changed = codecs.BOM_UTF8 + changed
    top, profiles = _contents(root)
    try:
        parse_config(changed, source)
        is_as_meant = _contents(yaml_root(changed, source)) == (top, profiles | {name: _shape(tree)})
    except InputError:
        is_as_meant = False
    if not is_as_meant:
        lines = "; ".join(f"{key}: {value}" for key, value in values.items())
        raise InputError(
            source,
            f"its layout does not allow adding profile {name} without rewriting the rest",
            hint=f"add it by hand: {lines}",
        )
    return changed


def nested_values(values: Mapping[str, str]) -> Tree:
    """Dotted keys as the sections of a configuration file."""
    tree: Tree = {}
    for name, value in values.items():
        *sections, key = name.split(".")
        inner = tree
        for section in sections:
            below = inner.setdefault(section, {})
            if isinstance(below, str):
                raise TypeError(f"{section} of {name} has a value of its own")
            inner = below
        inner[key] = value
    return tree


def _splice(text: str, root: Node, name: str, tree: Tree) -> _Splice:
    if not isinstance(root, MappingNode) or root.start_mark is None:  # nothing, or only comments
        return _behind(text, len(text), _block({"profiles": {name: tree}}, 0, _STEP))
    profiles = next((pair for pair in root.value if pair[0].value == "profiles"), None)
    if profiles is None:
        return _new_entry(text, root, {"profiles": {name: tree}})
    key, value = profiles
    if not isinstance(value, MappingNode) or not value.value:
        return _first_entry(text, root, key, value, {name: tree})
    old = next((pair for pair in value.value if pair[0].value == name), None)
    return _new_entry(text, value, {name: tree}) if old is None else _entry_replaced(text, value, old, tree)


def _new_entry(text: str, mapping: MappingNode, entry: Tree) -> _Splice:
    """Behind the last entry of a mapping."""
    if not mapping.value:
        at = mapping.start_mark.index + 1
        return _Splice(at, at, _flow(entry, quoted=False)[1:-1])
    key, value = mapping.value[-1]
    if mapping.flow_style:
        at, quoted = value.end_mark.index, _is_quoted(key)
        return _Splice(at, at, f", {_flow(entry, quoted=quoted)[1:-1]}")
    column = mapping.value[0][0].start_mark.column
    return _behind(text, _content_end(text, value, column), _block(entry, column, _step_of(mapping)))


def _first_entry(text: str, root: MappingNode, key: Node, value: Node, entry: Tree) -> _Splice:
    """Into `profiles:` or `profiles: {}`; a comment behind it stays there."""
    start, end = value.start_mark.index, value.end_mark.index
    if root.flow_style:
        return _Splice(start, end, f" {_flow(entry, quoted=_is_quoted(key))}")
    line_end = _line_end(text, end)
    tail = text[end:line_end].rstrip("\r\n")
    while not tail.strip() and text[start - 1] == " ":
        start -= 1
    column = key.start_mark.column + _STEP
    return _Splice(start, line_end, f"{tail.rstrip()}\n{_block(entry, column, _STEP)}")


def _entry_replaced(text: str, mapping: MappingNode, old: tuple[Node, Node], tree: Tree) -> _Splice:
    key, value = old
    if mapping.flow_style:
        written = _flow({key.value: tree}, quoted=_is_quoted(key))[1:-1]
        return _Splice(key.start_mark.index, value.end_mark.index, written)
    column = key.start_mark.column
    end = _content_end(text, value, column)
    return _Splice(key.start_mark.index - column, end, _block({key.value: tree}, column, _step_of(mapping)))


def _is_quoted(key: Node) -> bool:
    """True for a key as JSON writes it, beside which the new ones are written so."""
    return getattr(key, "style", None) == '"'


def _behind(text: str, at: int, lines: str) -> _Splice:
    return _Splice(at, at, lines if not at or text[at - 1] in "\r\n" else f"\n{lines}")


def _content_end(text: str, node: Node, column: int) -> int:
    """Where the line behind a node begins, comments that are indented deeper than its key taken with it."""
    last = node
    while isinstance(last, MappingNode | SequenceNode) and last.value and not last.flow_style:
        item = last.value[-1]
        last = item[1] if isinstance(last, MappingNode) else item
    at = last.end_mark.index
    if getattr(last, "style", None) not in ("|", ">") or text[at - 1] not in "\r\n":
        at = _line_end(text, at)
    comment = re.compile(rf" {{{column + 1},}}#")
    while comment.match(text, at):
        at = _line_end(text, at)
    return at


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _step_of(mapping: MappingNode) -> int:
    """By how much the file indents what a profile holds."""
    for key, value in mapping.value:
        if isinstance(value, MappingNode) and value.value and not value.flow_style:
            step: int = value.value[0][0].start_mark.column - key.start_mark.column
            return step
    return _STEP


def _block(tree: Tree, column: int, step: int) -> str:
    return "".join(f"{line}\n" for line in _block_lines(tree, column, step))


def _block_lines(tree: Tree, column: int, step: int) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, str):
            yield f"{' ' * column}{key}: {_scalar(value)}"
        else:
            yield f"{' ' * column}{key}:"
            yield from _block_lines(value, column + step, step)


def _flow(tree: Tree, *, quoted: bool) -> str:
    items = (
        f"{_scalar(key, quoted)}: {_scalar(value, quoted) if isinstance(value, str) else _flow(value, quoted=quoted)}"
        for key, value in tree.items()
    )
    return f"{{{', '.join(items)}}}"


def _scalar(value: str, quoted: bool = False) -> str:
    if not quoted and _PLAIN.fullmatch(value):
        return value
    return str(safe_dump(value, default_style='"', allow_unicode=True, width=1 << 30)).rstrip("\n")


def _contents(root: Node) -> tuple[dict[str, object], dict[str, object]]:
    """What a file holds beside its profiles, and the profiles."""
    top = {key.value: value for key, value in root.value} if isinstance(root, MappingNode) else {}
    profiles = top.pop("profiles", None)
    held = profiles.value if isinstance(profiles, MappingNode) else ()
    return {key: _shape(value) for key, value in top.items()}, {key.value: _shape(value) for key, value in held}


def _shape(node: Node | Tree | str) -> object:
    if isinstance(node, str):
        return node
    if isinstance(node, dict):
        return tuple((key, _shape(value)) for key, value in node.items())
    if isinstance(node, MappingNode):
        return tuple((_shape(key), _shape(value)) for key, value in node.value)
    if isinstance(node, SequenceNode):
        return [_shape(item) for item in node.value]
    return node.value if isinstance(node, ScalarNode) else None
