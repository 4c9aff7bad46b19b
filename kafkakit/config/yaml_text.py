"""Reading configuration files: YAML with limits, flattened to dotted keys, each with its line.

Scalars stay text (nothing is guessed to be a number, a date or a switch), and anchors and aliases are
refused, so that a file of one mebibyte cannot become more than one mebibyte of values.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from yaml import YAMLError, compose, parse
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
    may_be_list = name == "bootstrap_server" or KEY_BY_NAME[name].kind is ValueKind.LIST
    if may_be_list and isinstance(node, SequenceNode):
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
