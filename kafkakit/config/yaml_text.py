"""Reading configuration files: YAML with limits, flattened to dotted keys, each with its line.

Scalars stay text (nothing is guessed to be a number, a date or a switch).
"""

from dataclasses import dataclass, field

from kafkakit.config.keys import KEY_BY_NAME, PROFILE_NAME_HINT, ValueKind, did_you_mean, is_profile_name
from kafkakit.core.errors import InputError
from kafkakit.core.yaml_json import Document, Mapping, Node, Scalar, Sequence, kind_of, list_of, sound_document

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
        elif key is None and not (name in _SECTIONS and isinstance(child, Scalar) and child.text == ""):
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
    if name == "bootstrap_server" and isinstance(node, Sequence):
        return ",".join(document.scalar_text(item, name) for item in node.items)
    return document.scalar_text(node, name)
