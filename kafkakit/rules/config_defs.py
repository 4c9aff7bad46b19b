"""Kafka's configuration definitions by minor version: types, ranges, defaults, synonyms and deprecations.

The tables are `tables/kafka-MINOR.json`, generated from the jars' own `ConfigDef` (`make config-tables`); a test
compares them with the `DescribeConfigs` of real brokers.
"""

import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from kafkakit.core.errors import UsageError

MINORS = ("3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
NEWEST = MINORS[-1]


class ValueType(StrEnum):
    """Kafka's `ConfigDef.Type`."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"


class Scope(StrEnum):
    """What a key configures."""

    TOPIC = "topic"
    BROKER = "broker"


class UpdateMode(StrEnum):
    """How a broker key may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDef:
    """One key of one version.

    `default` is the text that `DescribeConfigs` shows, None for null. `minimum` and `maximum` are inclusive;
    `one_of` holds the accepted texts (of each item, for a list). `rules` name what these do not describe:
    `required` (no default), `any-case` and `or-minus-one` (accepted besides), `non-empty`, `non-null`,
    `no-duplicates`, `non-empty-list`, `throttled-replicas`, `metadata-version`, `quorum-voters`,
    `quorum-bootstrap-servers`, and `dynamic-only` for a broker key that stands in no file.
    `synonyms` are the broker keys that a topic key inherits from, strongest first.
    """

    name: str
    scope: Scope
    type: ValueType
    default: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    one_of: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[str, ...] = ()
    deprecated: bool = False
    internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        """True when the value is a secret and is printed nowhere."""
        return self.type is ValueType.PASSWORD


@dataclass(frozen=True, slots=True)
class ConfigTable:
    """All keys of one minor version, by scope and name."""

    version: str
    topic: Mapping[str, ConfigDef]
    broker: Mapping[str, ConfigDef]

    def find(self, scope: Scope, name: str) -> ConfigDef | None:
        """The definition of a key, or None."""
        return (self.topic if scope is Scope.TOPIC else self.broker).get(name)


@cache
def config_table(minor: str) -> ConfigTable:
    """The table of a minor version (`4.3`); `UsageError` for one that is not known.

    Reads about 40 kB once for each version.
    """
    if minor not in MINORS:
        raise UsageError(f"no configuration table for Kafka {minor!r:.40}", hint=f"known: {', '.join(MINORS)}")
    data = pkgutil.get_data("kafkakit.rules", f"tables/kafka-{minor}.json")
    if data is None:  # a package without its data files
        raise UsageError(f"the configuration table of Kafka {minor} is missing from this installation")
    document = json.loads(data)
    return ConfigTable(
        version=minor,
        topic=MappingProxyType({d["name"]: _definition(d, Scope.TOPIC) for d in document["topic"]}),
        broker=MappingProxyType({d["name"]: _definition(d, Scope.BROKER) for d in document["broker"]}),
    )


def minor_of(version: str) -> str:
    """The table to use for a version, as `minor_or_none`; raises `UsageError` for a text that is no version."""
    minor = minor_or_none(version)
    if minor is None:
        raise UsageError(f"{version!r:.40} is not a Kafka version", hint="give it like 3.9, 4.0.1 or 4.3")
    return minor


def minor_or_none(version: str) -> str | None:
    """The table to use for a version: its own minor, else the nearest older one, else the oldest; None for others."""
    first, _, _ = version.strip().partition(" ")  # a client may only know "4.3 or later"
    parts = first.removeprefix("v").split("-")[0].split(".")
    if len(parts) < 2 or not all(part.isdecimal() and len(part) < 4 for part in parts[:2]):
        return None
    wanted = (int(parts[0]), int(parts[1]))
    older = [m for m in MINORS if minor_key(m) <= wanted]
    return older[-1] if older else MINORS[0]


def minor_key(minor: str) -> tuple[int, int]:
    """A minor version as numbers, for comparing."""
    major, _, rest = minor.partition(".")
    return int(major), int(rest)


def _definition(data: Mapping[str, object], scope: Scope) -> ConfigDef:
    given = dict(data)
    return ConfigDef(
        name=str(given["name"]),
        scope=scope,
        type=ValueType(str(given["type"])),
        default=_text(given.get("default")),
        minimum=_number(given.get("minimum")),
        maximum=_number(given.get("maximum")),
        one_of=_texts(given.get("one_of")),
        rules=_texts(given.get("rules")),
        update_mode=UpdateMode(str(given.get("update_mode", "read-only"))),
        synonyms=_texts(given.get("synonyms")),
        deprecated=bool(given.get("deprecated", False)),
        internal=bool(given.get("internal", False)),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
