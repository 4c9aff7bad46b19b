"""Merging configuration: layers in order of precedence become one value a key, each with its origin."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kafkakit.config.keys import KEY_BY_NAME, KEYS, ControlStoreKind, Kind, did_you_mean
from kafkakit.config.security import Mechanism, Protocol, Secret
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import parse_duration

TRUE_WORDS = ("true", "yes", "on", "1")
FALSE_WORDS = ("false", "no", "off", "0")


class Rank(IntEnum):
    """Precedence, strongest first."""

    FLAG = 0
    OVERRIDE = 1
    PROPERTIES = 2
    ENVIRONMENT = 3
    CONFIG = 4
    PROJECT = 5
    USER = 6
    SYSTEM = 7
    DEFAULT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value of one key; `origin` names its source."""

    value: str | Secret
    origin: str
    rank: Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The values of one source, by dotted key name."""

    rank: Rank
    entries: Mapping[str, Entry] = field(default_factory=dict)


def defaults() -> Layer:
    """The layer of built-in values."""
    entries = {
        key.name: Entry(value=key.default, origin="default", rank=Rank.DEFAULT)
        for key in KEYS
        if key.default is not None
    }
    return Layer(rank=Rank.DEFAULT, entries=entries)


def from_one_source(layers: Iterable[Layer]) -> tuple[list[Layer], tuple[Entry, ...]]:
    """The files' layers with the keys of the connection kept in the strongest rank that has any, and what was left out.

    An address of one file never meets the credentials of another.
    """
    layers = list(layers)
    connection = [
        [name for name, entry in layer.entries.items() if entry.value != "" and KEY_BY_NAME[name].is_connection]
        for layer in layers
    ]
    strongest = min((layer.rank for layer, names in zip(layers, connection, strict=True) if names), default=None)
    kept: list[Layer] = []
    left_out: list[Entry] = []
    for layer, names in zip(layers, connection, strict=True):
        dropped = [] if layer.rank is strongest else names
        left_out += [layer.entries[name] for name in dropped]
        entries = {name: entry for name, entry in layer.entries.items() if name not in dropped}
        kept.append(Layer(rank=layer.rank, entries=entries))
    return kept, tuple(left_out)


def merge(layers: Iterable[Layer]) -> dict[str, Entry]:
    """The strongest value of each key, in the key table's order; layers of one rank keep their given order.

    The ways to one secret count as one key: the strongest layer that names any of them wins. Raises
    `UsageError` for two ways in one layer and for values of the wrong shape.
    """
    ordered = sorted(layers, key=lambda layer: layer.rank)
    merged: dict[str, Entry] = {}
    settled: set[str] = set()
    for layer in ordered:
        given = {name: entry for name, entry in layer.entries.items() if entry.value != ""}
        secrets = _secrets_of(given)
        for name, entry in given.items():
            secret = KEY_BY_NAME[name].secret_of
            if name not in merged and (secret is None or secret not in settled):
                check_value(name, entry)
                merged[name] = entry
        settled |= secrets
    return {key.name: merged[key.name] for key in KEYS if key.name in merged}


def check_value(name: str, entry: Entry) -> None:
    """Raise `UsageError`, naming key and origin, when a value does not have its key's shape."""
    value = entry.value
    if isinstance(value, Secret):
        return
    where = f"{name} (from {entry.origin})"
    kind = KEY_BY_NAME[name].kind
    if kind is Kind.DURATION:
        parse_duration(value, where)
    elif kind is Kind.SWITCH and value.lower() not in (*TRUE_WORDS, *FALSE_WORDS):
        raise UsageError(f"{where} must be true or false, found {value[:40]!r}")
    elif kind is Kind.PROTOCOL and value not in set(Protocol):
        raise UsageError(f"{where} must be one of {', '.join(Protocol)}, found {value[:40]!r}")
    elif kind is Kind.MECHANISM and value not in set(Mechanism):
        raise UsageError(f"{where} must be one of {', '.join(Mechanism)}, found {value[:40]!r}")
    elif kind is Kind.CONTROL_STORE and value not in set(ControlStoreKind):
        raise UsageError(f"{where} must be one of {', '.join(ControlStoreKind)}, found {value[:40]!r}")
    elif "\x00" in value or "\n" in value:
        raise UsageError(f"{where} contains a control character")


def is_true(value: str) -> bool:
    """Read a checked switch."""
    return value.lower() in TRUE_WORDS


def parse_overrides(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Read `-X key=value` items; keys may be kafkakit's or Kafka's property names.

    Raises `UsageError` for a missing `=`, an unknown key (the nearest is named) and for secrets, which
    do not belong on a command line.
    """
    from kafkakit.config.keys import KEY_BY_PROPERTY

    found: list[tuple[str, str]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        key = KEY_BY_NAME.get(name) or KEY_BY_PROPERTY.get(name)
        if not equals:
            raise UsageError(f"-X {name[:60]!r} has no value", hint="write -X key=value; -X list names the keys")
        if key is None:
            guess = did_you_mean(name, (*KEY_BY_NAME, *KEY_BY_PROPERTY))
            raise UsageError(f"-X {name[:60]!r} is not a known key{guess}", hint="-X list names the keys")
        if key.kind is Kind.SECRET:
            raise UsageError(
                f"-X {name} would show a secret to everyone on this machine",
                hint=f"use -X {key.name}_file=PATH, or the environment variable {key.env[0]}",
            )
        found.append((key.name, _as_setting(name, key.kind, value)))
    return tuple(found)


def _as_setting(name: str, kind: Kind, value: str) -> str:
    if name == "request.timeout.ms":
        return f"{value}ms"
    if name == "ssl.endpoint.identification.algorithm":
        return hostname_check(value, f"-X {name}")
    return value.strip() if kind is not Kind.FILE else value


def hostname_check(value: str, where: str) -> str:
    """Read `ssl.endpoint.identification.algorithm`; `InputError`, since a slip of the pen must not turn it off."""
    found = {"https": "true", "": "false", "none": "false"}.get(value.strip().lower())
    if found is None:
        problem = f"ssl.endpoint.identification.algorithm must be https or empty, found {value.strip()[:40]!r}"
        raise InputError(where, problem)
    return found


def _secrets_of(entries: Mapping[str, Entry]) -> set[str]:
    seen: dict[str, str] = {}
    for name, entry in entries.items():
        secret = KEY_BY_NAME[name].secret_of
        if secret is None:
            continue
        if secret in seen:
            raise UsageError(
                f"both {seen[secret]} and {name} are set (from {entry.origin})", hint="keep one of the two"
            )
        seen[secret] = name
    return set(seen)
