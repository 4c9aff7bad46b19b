"""Effective configuration: what a topic or a broker really runs with, and where each value comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from kafkakit.core.findings import Place
from kafkakit.rules.config_defs import ConfigTable
from kafkakit.rules.values import holds_placeholder, split_at_commas

UNLIMITED = 2**63 - 1
FILLED_IN = "values that are filled in elsewhere"


class ValueSource(StrEnum):
    """Which layer a value comes from, strongest first, in the words of `DescribeConfigs`."""

    TOPIC = "topic"
    DYNAMIC_BROKER = "dynamic broker"
    DYNAMIC_DEFAULT = "dynamic default"
    STATIC = "static"
    DEFAULT = "default"


class DeclaredValue(NamedTuple):
    """A value as written; `place` is None for a value read from a cluster."""

    text: str
    source: ValueSource
    place: Place | None = None


class Anchor(NamedTuple):
    """A key that stands in a file, and where: what a fix edits, or puts another key beside."""

    key: str
    place: Place


class InputMissing(Exception):  # noqa: N818  not an error: the rule is listed as skipped
    """A rule needs something that was not given; `needed` says what, in the words of the report."""

    def __init__(self, needed: str) -> None:
        super().__init__(needed)
        self.needed = needed


USUALLY_SET = frozenset(
    ("retention.ms", "retention.bytes", "cleanup.policy", "min.insync.replicas", "unclean.leader.election.enable",
     "log.retention.ms", "log.retention.bytes", "default.replication.factor", "num.partitions",
     "remote.log.storage.system.enable")
)  # fmt: skip
"""What nearly every cluster's brokers set themselves: of these Kafka's defaults are never assumed."""
Configs = Mapping[str, DeclaredValue]
NO_CONFIGS: Configs = {}

# Forms of one setting, strongest first, with the factor to milliseconds (KafkaConfig, ServerTopicConfigSynonyms).
TIME_FORMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ),
    "log.roll.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "log.roll.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "log.flush.interval.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
}


def anchor_in(configs: Configs, key: str) -> Anchor | None:
    """Where a key is set, else where another key of the same mapping is; None where no file sets any.

    Keys without a dot are left out: readers make some values of fields that are no configuration.
    """
    found = configs.get(key)
    if found is not None and found.place is not None:
        return Anchor(key, found.place)
    return next((Anchor(name, d.place) for name, d in configs.items() if d.place is not None and "." in name), None)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker's configuration in its three layers; `is_known` is False where no file and no cluster showed it.

    With `is_partial` a file shows some of its settings: what these say holds, and of all others nothing is known.
    `is_whole` says that a node starts with the static layer and nothing else: a key that is not in it is not set.
    With `assumed`, what nothing shows is Kafka's default; the defaults that were relied on are noted there by key.
    """

    table: ConfigTable
    static: Configs = field(default_factory=dict)
    dynamic_default: Configs = field(default_factory=dict)
    dynamic: Configs = field(default_factory=dict)
    is_known: bool = True
    is_partial: bool = False
    is_whole: bool = False
    assumed: dict[str, str] | None = field(default=None, compare=False, repr=False)
    is_noting: bool = False

    def given(self) -> "BrokerConfig":
        """This configuration; `InputMissing` if no file and no cluster showed it and nothing may be assumed."""
        if self.is_known or self.is_partial:
            return self
        if self.assumed is None:
            raise InputMissing("broker configuration")
        return replace(self, is_noting=True)

    def assume(self, key: str, text: str) -> None:
        """Rely on a default that nothing shows; `InputMissing` if it may not be assumed."""
        if self.assumed is None or key in USUALLY_SET:
            raise InputMissing("broker configuration")
        self.assumed[key] = text

    def declared(self, key: str) -> DeclaredValue | None:
        """The strongest value that was set for exactly this key."""
        return self.dynamic.get(key) or self.dynamic_default.get(key) or self.static.get(key)

    def value(self, key: str) -> DeclaredValue:
        """The effective value of a broker key; of a time with several forms in milliseconds.

        The text is empty where the key has no value (null), or does not exist in this version.
        """
        for form, factor in TIME_FORMS.get(key, ((key, 1),)):
            found = self.declared(form)
            if found is not None and found.text != "":
                return found if factor == 1 else found._replace(text=_times(found.text, factor))
        if self.is_partial:
            raise InputMissing("the settings that are not in the file")
        for form, factor in TIME_FORMS.get(key, ((key, 1),)):
            definition = self.table.broker.get(form)
            if definition is not None and definition.default is not None:
                text = _times(definition.default, factor)
                if self.is_noting:
                    self.assume(key, text)
                return DeclaredValue(text, ValueSource.DEFAULT)
        return DeclaredValue("", ValueSource.DEFAULT)

    def text(self, key: str) -> str:
        """The effective value as text."""
        return self.value(key).text

    def number(self, key: str) -> int | None:
        """The effective value as a whole number; None when it has none or does not parse (KKV002)."""
        return known_int(self.value(key).text)

    def is_true(self, key: str) -> bool:
        """True when the effective value is `true`."""
        return is_known_true(self.value(key).text)

    def items(self, key: str) -> tuple[str, ...]:
        """The effective value of a list key."""
        return to_items(self.value(key).text)

    def written(self, *keys: str) -> Place | None:
        """Where the first of some keys is set that is set at all; a topic's key by the broker's key of any form."""
        for key in keys:
            definition = self.table.topic.get(key)
            for name in (definition.synonyms if definition is not None else ()) or (key,):
                found = self.declared(name)
                if found is not None and found.place is not None:
                    return found.place
        return None

    def anchor(self, key: str) -> Anchor | None:
        """Where a fix edits a key: in the layer that sets it, else among the static keys."""
        layers = (self.dynamic, self.dynamic_default, self.static)
        return anchor_in(next((layer for layer in layers if key in layer), self.static), key)

    def all_declared(self) -> Iterator[tuple[str, DeclaredValue]]:
        """Every value that was set in any layer, with its key."""
        for layer in (self.static, self.dynamic_default, self.dynamic):
            yield from layer.items()


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's overrides over what it inherits from a broker."""

    overrides: Configs
    broker: BrokerConfig
    inherited: dict[str, DeclaredValue] = field(default_factory=dict)
    """Cache of inherited values, shared by the topics of a cluster."""

    def value(self, key: str) -> DeclaredValue:
        """The effective value: override, dynamic broker, dynamic default, static, default; empty text where none."""
        found = self.overrides.get(key)
        if found is not None:
            return found
        found = self.inherited.get(key)
        if found is None:
            found = self.inherited[key] = self._inherit(key)
        return found

    def _inherit(self, key: str) -> DeclaredValue:
        definition = self.broker.table.topic.get(key)
        if definition is None:
            return DeclaredValue("", ValueSource.DEFAULT)
        for synonym in definition.synonyms[:1]:
            found = self.broker.value(synonym)
            if found.source is not ValueSource.DEFAULT:
                return found
        return DeclaredValue(definition.default or "", ValueSource.DEFAULT)

    def without_overrides(self) -> "TopicConfig":
        """What the topic inherits."""
        return TopicConfig({}, self.broker, self.inherited)

    def is_set(self, key: str) -> bool:
        """True when the topic, or a broker, sets the key: it does not come from Kafka's defaults."""
        return self.value(key).source is not ValueSource.DEFAULT

    def is_sure(self, key: str) -> bool:
        """True when the value cannot depend on a broker's configuration that was not given."""
        return key in self.overrides or self.broker.is_known

    def text(self, key: str) -> str:
        """The effective value as text."""
        return self.value(key).text

    def number(self, key: str) -> int | None:
        """The effective value as a whole number; None when it has none or does not parse (KKV002)."""
        return known_int(self.value(key).text)

    def sure_text(self, key: str) -> str:
        """As `text`; `InputMissing` if a broker's configuration decides, was not given and may not be assumed."""
        if not self.is_sure(key):
            self.broker.assume(key, self.text(key))
        return self.text(key)

    def sure_number(self, key: str) -> int | None:
        """As `sure_text`, as a whole number."""
        return known_int(self.sure_text(key))

    def is_true(self, key: str) -> bool:
        """True when the effective value is `true`."""
        return is_known_true(self.value(key).text)

    def items(self, key: str) -> tuple[str, ...]:
        """The effective value of a list key."""
        return to_items(self.value(key).text)

    def anchor(self, key: str) -> Anchor | None:
        """Where a fix edits a key: among the topic's own."""
        return anchor_in(self.overrides, key)

    def all_declared(self) -> Iterator[tuple[str, DeclaredValue]]:
        """The topic's own overrides, with their keys."""
        yield from self.overrides.items()


def to_int(text: str) -> int | None:
    """A whole number as Kafka parses it (blanks around it and any decimal digits are allowed), or None."""
    text = text.strip()
    if len(text) > 25:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isdecimal() else None


def known_int(text: str) -> int | None:
    """As `to_int`; `InputMissing` for a number that a template or the environment fills in."""
    number = to_int(text)
    if number is None and holds_placeholder(text):
        raise InputMissing(FILLED_IN)
    return number


def is_known_true(text: str) -> bool:
    """True for the text `true`; `InputMissing` for one that a template or the environment fills in."""
    if holds_placeholder(text):
        raise InputMissing(FILLED_IN)
    return text.strip().lower() == "true"


def to_items(text: str) -> tuple[str, ...]:
    """A list value as Kafka parses it: split at commas, blanks around items dropped; none for an empty text."""
    return tuple(item.strip() for item in split_at_commas(text)) if text.strip() else ()


def to_pairs(text: str) -> tuple[str, ...]:
    """The items of a map as Kafka parses it (`NAME:VALUE,...`): as of a list, but without empty ones at the end."""
    items = to_items(text)
    while items and not items[-1]:
        items = items[:-1]
    return items


def _times(text: str, factor: int) -> str:
    number = to_int(text)
    if number is None or factor == 1:
        return text
    return str(number * factor if number >= 0 else -1)
