"""The text of configuration files: YAML read with limits, each key with its line, and a profile put into it.

Scalars stay text (nothing is guessed to be a number, a date or a switch).

Comments, order and line ends stay where a profile is written: the text is changed at one place, which the positions of
nodes give, and read again. Everything else in it must read as before, and every comment outside a profile that is
replaced must still be there.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kafkakit.config.keys import KEY_BY_NAME, PROFILE_NAME_HINT, ValueKind, did_you_mean, is_profile_name
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.yaml_json import (
    NULLS,
    Document,
    Mapping,
    MappingEntry,
    Node,
    Scalar,
    Sequence,
    kind_of,
    list_of,
    plain_value,
    sound_document,
)

_SECTIONS = frozenset(name.rpartition(".")[0] for name in KEY_BY_NAME if "." in name) | {"security"}
_KNOWN = (*(name for name, key in KEY_BY_NAME.items() if key.kind is not ValueKind.SECRET), *_SECTIONS)


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
    document = sound_document(data, source)
    default: LocatedValue | None = None
    trusted: tuple[str, ...] = ()
    profiles: dict[str, dict[str, LocatedValue]] = {}
    warnings: list[str] = []
    for name, line, node in document.items(document.root, ""):
        if name == "profile":
            default = LocatedValue(value=document.scalar_text(node, name), line=line)
        elif name == "trusted_folders":
            trusted = _folders(node, document)
        elif name == "profiles":
            for profile, _, body in document.items(node, "profiles"):
                if not is_profile_name(profile):
                    raise InputError(
                        f"{source}:{line}", f"{profile[:60]!r} cannot name a profile", hint=PROFILE_NAME_HINT
                    )
                profiles[profile] = _flatten(body, document, warnings)
        else:
            guess = did_you_mean(name, ("profile", "profiles", "trusted_folders"))
            warnings.append(f"{source}:{line}: unknown key {name[:60]!r}{guess}")
    return ConfigFile(default_profile=default, trusted_folders=trusted, profiles=profiles, warnings=tuple(warnings))


def parse_profile(data: bytes, source: str, name: str) -> ConfigFile:
    """Read a file of `profiles.d`, which is one profile's mapping."""
    warnings: list[str] = []
    document = sound_document(data, source)
    values = _flatten(document.root, document, warnings)
    return ConfigFile(profiles={name: values}, warnings=tuple(warnings))


def _flatten(node: Node, document: Document, warnings: list[str], prefix: str = "") -> dict[str, LocatedValue]:
    values: dict[str, LocatedValue] = {}
    source = document.path
    for part, line, child in document.items(node, prefix.rstrip(".") or "a profile"):
        name = prefix + part
        key = KEY_BY_NAME.get(name)
        if key is None and isinstance(child, Mapping) and name in _SECTIONS:
            values |= _flatten(child, document, warnings, f"{name}.")
        elif key is None and not (name in _SECTIONS and isinstance(child, Scalar) and child.is_null):
            if name in _SECTIONS:
                raise InputError(f"{source}:{line}", f"{name} must be a mapping (key: value), found {kind_of(child)}")
            warnings.append(f"{source}:{line}: unknown key {name[:80]!r}{did_you_mean(name, _KNOWN)}")
        elif key is not None and key.kind is ValueKind.SECRET:
            raise InputError(
                f"{source}:{line}",
                f"{name} holds a secret; a config file must not",
                hint=f"use {name}_file, {name}_env, {name}_credential or {name}_prompt",
            )
        elif key is not None:
            values[name] = LocatedValue(value=_value(child, document, name), line=line)
    return values


def _folders(node: Node, document: Document) -> tuple[str, ...]:
    listed = list_of(node)
    folders = tuple(document.scalar_text(item, "trusted_folders") for item in listed)
    for folder, item in zip(folders, listed, strict=True):
        # A relative path would mean another folder in each working folder.
        if folder and not folder.startswith(("/", "~/")):
            raise InputError(document.line_of(item), f"trusted_folders must hold absolute paths, found {folder[:60]!r}")
    return tuple(folder for folder in folders if folder)


def _value(node: Node, document: Document, name: str) -> str:
    may_be_list = name == "bootstrap_server" or KEY_BY_NAME[name].kind is ValueKind.LIST
    if may_be_list and isinstance(node, Sequence):
        return ",".join(document.scalar_text(item, name) for item in node.items)
    return document.scalar_text(node, name)


_TOML_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
# The head of a section, or a key before its value.
_TOML_LINE = re.compile(
    rf"^[ \t]*(\[\[?)?[ \t]*({_TOML_PART}(?:[ \t]*\.[ \t]*{_TOML_PART})*)[ \t]*(?(1)\]\]?[ \t\r]*(?:#.*)?$|=)",
    re.MULTILINE,
)


def read_toml(text: str, source: str) -> Document:
    """A TOML text; the places are those of keys that begin a line. `InputError` with the line for a broken one."""
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
    starts: dict[tuple[str, ...], int] = {}
    section: tuple[str, ...] = ()
    for found in _TOML_LINE.finditer(text):
        path = tuple(part.strip("\"'") for part in re.findall(_TOML_PART, found[2]))
        section, path = (path, path) if found[1] else (section, (*section, *path))
        for end in range(1, len(path) + 1):
            starts.setdefault(path[:end], found.start(2))
    return Document(source, text, "toml", (_toml_node(content, (), 0, starts),))


def _toml_node(value: object, path: tuple[str, ...], at: int, starts: AnyMapping[tuple[str, ...], int]) -> Node:
    """`at` is the place of what the value stands in."""
    at = starts.get(path, at)
    if isinstance(value, dict):
        nodes = {str(key): _toml_node(item, (*path, str(key)), at, starts) for key, item in value.items()}
        return Mapping(
            {key: MappingEntry(Scalar(key, node.start, node.start), node) for key, node in nodes.items()}, at
        )
    if isinstance(value, list):
        return Sequence([_toml_node(item, path, at, starts) for item in value], at)
    return Scalar(str(value).lower() if isinstance(value, bool) else str(value), at, at)


Tree: TypeAlias = "dict[str, str | Tree]"
_STEP = 2
# What every reader of YAML takes for a text; the rest is quoted.
_PLAIN = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./-]*")
_CLOSE = re.compile(r"(?:[\s,]|#[^\r\n]*)*[\]}]")


@dataclass(frozen=True, slots=True)
class _Splice:
    """The text between two places, replaced."""

    start: int
    end: int
    text: str


def with_profile(data: bytes, source: str, name: str, values: AnyMapping[str, str]) -> bytes:
    """The file with this profile, in place of one of its name; `values` by dotted key.

    `InputError` for a file that cannot be read, and for one whose layout allows no change at one place; `UsageError`
    for a value that UTF-8 cannot hold.
    """
    _require_unicode(name, values)
    parse_config(data, source)
    document = sound_document(data, source)
    tree = nested_values(values)
    text = document.text
    if (lone := _LONE_CR.search(text)) is not None:
        problem = "has a line that ends with CR without LF, so no profile can be added"
        raise InputError(document.position(lone.start()), problem, hint="end all lines with LF, or all with CR LF")
    splice = _splice(document, name, tree)
    added = splice.text.replace("\n", "\r\n" if "\r\n" in text else "\n")
    changed = f"{text[: splice.start]}{added}{text[splice.end :]}".encode()
    if data.startswith(codecs.BOM_UTF8):
        changed = codecs.BOM_UTF8 + changed
    before = _mapping_of(plain_value(document, is_text=True))
    wanted = before | {"profiles": _mapping_of(before.get("profiles")) | {name: tree}}
    try:
        parse_config(changed, source)
        after = sound_document(changed, source)
        is_as_meant = plain_value(after, is_text=True) == wanted and _keeps_comments(document, after, name)
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


_LONE_CR = re.compile(r"\r(?!\n)")


def _require_unicode(name: str, values: AnyMapping[str, str]) -> None:
    """Raise `UsageError` for what came from bytes that are not UTF-8, such as those of the command line."""
    for key, value in values.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            problem = f"{key} of profile {name} is not valid UTF-8 text, which a config file must hold"
            raise UsageError(f"{problem}: {value[:80]!r}") from None


def _keeps_comments(before: Document, after: Document, name: str) -> bool:
    """True when every comment outside the profile that is replaced is in the new text as well."""
    profiles = before.root.entries.get("profiles") if isinstance(before.root, Mapping) else None
    old = profiles.value.entries.get(name) if profiles and isinstance(profiles.value, Mapping) else None
    replaced = range(0)
    if old is not None and profiles is not None and isinstance(profiles.value, Mapping):
        end = _end(before.text, old.value)
        replaced = range(old.key.start, end if profiles.value.is_flow else _rest_of_line(before.text, end))
    kept = Counter(before.text[at.start : at.end] for at in before.comments_at if at.start not in replaced)
    return kept <= Counter(after.text[at.start : at.end] for at in after.comments_at)


def _mapping_of(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def nested_values(values: AnyMapping[str, str]) -> Tree:
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


def _splice(document: Document, name: str, tree: Tree) -> _Splice:
    text, root = document.text, document.root
    if not document.roots or not isinstance(root, Mapping):  # nothing, or only comments
        return _behind(text, len(text), _block({"profiles": {name: tree}}, 0, _STEP))
    profiles = root.entries.get("profiles")
    if profiles is None:
        return _new_entry(document, root, {"profiles": {name: tree}})
    held = profiles.value
    if not isinstance(held, Mapping) or not held.entries:
        return _first_entry(document, profiles, {name: tree}, is_flow=root.is_flow)
    old = held.entries.get(name)
    return _new_entry(document, held, {name: tree}) if old is None else _entry_replaced(document, held, old, tree)


def _new_entry(document: Document, mapping: Mapping, entry: Tree) -> _Splice:
    """Behind the last entry of a mapping."""
    text = document.text
    if not mapping.entries:
        at = mapping.start + 1
        return _Splice(at, at, _flow(entry, quoted=document.format == "json")[1:-1])
    key, value = next(reversed(mapping.entries.values()))
    if mapping.is_flow:
        at, quoted = _end(text, value), _is_quoted(text, key)
        return _Splice(at, at, f", {_flow(entry, quoted=quoted)[1:-1]}")
    column = _column(document, mapping)
    return _behind(text, _line_behind(text, value, column), _block(entry, column, _step_of(document, mapping)))


def _first_entry(document: Document, profiles: MappingEntry, entry: Tree, *, is_flow: bool) -> _Splice:
    """Into `profiles:` or `profiles: {}`; a comment behind it stays there."""
    text, (key, value) = document.text, profiles
    start, end = value.start, _end(text, value)
    if is_flow:
        return _Splice(start, end, f" {_flow(entry, quoted=_is_quoted(text, key))}")
    line_end = _line_end(text, end)
    tail = text[end:line_end].rstrip("\r\n")
    while not tail.strip() and text[start - 1] == " ":
        start -= 1
    column = _column(document, key) + _STEP
    return _Splice(start, line_end, f"{tail.rstrip()}\n{_block(entry, column, _STEP)}")


def _entry_replaced(document: Document, mapping: Mapping, old: MappingEntry, tree: Tree) -> _Splice:
    text, (key, value) = document.text, old
    if mapping.is_flow:
        written = _flow({key.text: tree}, quoted=_is_quoted(text, key))[1:-1]
        return _Splice(key.start, _end(text, value), written)
    column = _column(document, key)
    lines = _block({key.text: tree}, column, _step_of(document, mapping))
    # Comments below it may be keys of it that are commented out: they stay.
    return _Splice(key.start - column, _rest_of_line(text, _end(text, value)), lines)


def _is_quoted(text: str, key: Scalar) -> bool:
    """True for a key as JSON writes it, beside which the new ones are written so."""
    return text[key.start] == '"'


def _behind(text: str, at: int, lines: str) -> _Splice:
    return _Splice(at, at, lines if not at or text[at - 1] in "\r\n" else f"\n{lines}")


def _end(text: str, node: Node) -> int:
    """Where a value ends; brackets and braces have only a start, and end behind what they hold."""
    if isinstance(node, Scalar):
        return node.end
    items = node.items if isinstance(node, Sequence) else [entry.value for entry in node.entries.values()]
    at = _end(text, items[-1]) if items else node.start + 1
    closed = _CLOSE.match(text, at) if node.is_flow else None
    return closed.end() if closed else at


def _line_behind(text: str, node: Node, column: int) -> int:
    """Where the line behind a node begins, comments that are indented deeper than its key taken with it."""
    at = _rest_of_line(text, _end(text, node))
    comment = re.compile(rf" {{{column + 1},}}#")
    while comment.match(text, at):
        at = _line_end(text, at)
    return at


def _rest_of_line(text: str, at: int) -> int:
    """Where the next line begins, seen from the end of a value, which may be the end of its line."""
    return at if text[at - 1] in "\r\n" else _line_end(text, at)


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _column(document: Document, node: Node) -> int:
    """By how much a key, or the first one of a mapping, is indented."""
    return (document.place(node.start).column or 1) - 1


def _step_of(document: Document, mapping: Mapping) -> int:
    """By how much the file indents what a profile holds."""
    for key, value in mapping.entries.values():
        if isinstance(value, Mapping) and value.entries and not value.is_flow:
            return _column(document, value) - _column(document, key)
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


# What is a line end or not allowed in YAML, and what JSON leaves as it is.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _scalar(value: str, quoted: bool = False) -> str:
    """A text as YAML holds it; in quotes it is JSON as well."""
    if not quoted and _PLAIN.fullmatch(value) and value not in NULLS:
        return value
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
