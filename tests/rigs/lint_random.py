"""Random configurations, half of them refused, for comparing lint with what brokers say."""

from collections.abc import Mapping, Sequence
from random import Random

from kafkakit.rules.config_defs import ConfigDef, ConfigTable, ConnectorKey, UpdateMode, ValueType

_WHOLE = {ValueType.SHORT: 2**15, ValueType.INT: 2**31, ValueType.LONG: 2**63}
_ODD_NUMBERS = ("", "7d", "1e3", "0x10", "1_000", " 42 ", "+5", "-", "5.0", "１２", "NaN", "null", "--1", "\t7\n")
_ODD_DOUBLES = ("0.5", "1d", "1.5f", ".5", "5.", "NaN", "-NaN", "Infinity", "1e-3", "0x1p-2", "0,5", "inf", "1e400", "")
_ODD_BOOLEANS = ("TRUE", " false ", "yes", "1", "", "truE", "f")
_ODD_LISTS = ("", ",", " , ", "a,,b", "a,a", "*", "0:1,1:2", "0:1,*", " 0:1 , 2:3 ", "0:-1")
# What a file cannot tell: classes and files on the broker's machine, and its listeners with their secrets.
UNKNOWABLE = (
    "listener", "ssl.", "sasl.", "class", "config.providers", "metric.reporters", "cordoned.log.dirs", "log.dir",
    "quorum", "assignors", "metrics.reporters",
)  # fmt: skip
# Kept near each other, so that checks between keys are met.
_NEAR = ("-2", "-1", "0", "1", "3600000", "7200000", "86400000", "604800000")


def random_topics(table: ConfigTable, number: int, random: Random, tiered: float) -> list[dict[str, str]]:
    """Overrides of topics: one to four keys each, now and then one that does not exist; a share of them is tiered."""
    keys = [definition for definition in table.topic.values() if not definition.internal]
    found = []
    for _ in range(number):
        config = {d.name: random_value(d, random) for d in random.sample(keys, random.choice((1, 1, 2, 3, 4)))}
        if random.random() < 0.04:
            config[random.choice(("retention", "log.retention.ms", "segment.byte", "message.format.version"))] = "1"
        if random.random() < tiered:
            config |= _tiering(random)
        found.append(config)
    return found


def _tiering(random: Random) -> dict[str, str]:
    config = {"remote.storage.enable": random.choice(("true", "TRUE", "false"))}
    for key in ("retention.ms", "local.retention.ms", "retention.bytes", "local.retention.bytes"):
        if random.random() < 0.5:
            config[key] = random.choice(_NEAR)
    for key, values in (
        ("cleanup.policy", ("delete", "compact", "compact,delete", "delete,delete", "")),
        ("remote.log.copy.disable", ("true", "false")),
    ):
        if random.random() < 0.3:
            config[key] = random.choice(values)
    return config


def random_dynamic(
    table: ConfigTable, number: int, random: Random, current: Mapping[str, str]
) -> list[tuple[bool, dict[str, str]]]:
    """Dynamic broker configurations, each with whether it is meant as the cluster's default."""
    dynamic = [d for d in table.broker.values() if d.update_mode is not UpdateMode.READ_ONLY and _is_knowable(d)]
    static = [d for d in table.broker.values() if d.update_mode is UpdateMode.READ_ONLY and _is_knowable(d)]
    found = []
    for _ in range(number):
        chosen = random.sample(dynamic, random.choice((1, 1, 2, 3)))
        config = {d.name: _broker_value(d, random, current) for d in chosen}
        if random.random() < 0.08:
            definition = random.choice(static)
            config[definition.name] = definition.default or "1"
        if random.random() < 0.04:
            config["some.plugin.key"] = "anything"
        if random.random() < 0.04:
            config[random.choice(("ssl.keystore.type", "ssl.truststore.type"))] = "PKCS12"
        found.append((random.random() < 0.5, config))
    return found


def random_static(table: ConfigTable, number: int, random: Random) -> list[dict[str, str]]:
    """Settings for a broker's file: one to three keys each, dynamic ones too."""
    keys = [d for d in table.broker.values() if _is_knowable(d) and not d.name.startswith(_FIXED)]
    return [
        {d.name: random_value(d, random) for d in random.sample(keys, random.choice((1, 2, 3)))} for _ in range(number)
    ]


# Keys of the broker's identity and of ZooKeeper, which every test gives itself or leaves out.
_FIXED = (
    "broker.id", "node.id", "process.roles", "zookeeper.", "inter.broker.", "control.plane.", "advertised.",
    "log.message.format.version", "remote.log.storage.system.enable", "security.",
)  # fmt: skip


def random_value(definition: ConfigDef, random: Random) -> str:
    """A text for a key: often the default or at an edge of its range, sometimes odd."""
    if random.random() < 0.08:
        return random.choice((*_ODD_NUMBERS, *_ODD_DOUBLES, *_ODD_BOOLEANS, *_ODD_LISTS))
    kind = definition.type
    if kind in _WHOLE:
        return random.choice(_whole_numbers(definition, _WHOLE[kind]))
    if kind is ValueType.DOUBLE:
        return random.choice((*_ODD_DOUBLES, definition.default or "1", "0", "1", "1.0000001", "-0.1"))
    if kind is ValueType.BOOLEAN:
        return random.choice(("true", "false", "true", "false", *_ODD_BOOLEANS))
    if kind is ValueType.LIST:
        return random.choice(_lists(definition))
    texts = (*definition.one_of[:8], definition.default or "x", "x", "Producer", "")
    return random.choice(texts)


def _whole_numbers(definition: ConfigDef, bound: int) -> Sequence[str]:
    edges: list[str] = [definition.default or "1", *_NEAR]
    for limit in (definition.minimum, definition.maximum):
        if limit is not None:
            edges += [str(int(limit) + step) for step in (-1, 0, 1)]
    return (*edges, *edges, str(bound - 1), str(bound), str(-bound), str(-bound - 1), f" {definition.default or 1} ")


def _lists(definition: ConfigDef) -> Sequence[str]:
    items = definition.one_of or ("a", "b")
    joined = (",".join(items), ", ".join(reversed(items)), items[0], f"{items[0]},{items[0]}", f"{items[0]},")
    return (*joined, definition.default or "", *_ODD_LISTS)


def _broker_value(definition: ConfigDef, random: Random, current: Mapping[str, str]) -> str:
    now = current.get(definition.name)
    if definition.name.endswith("threads") and now is not None and random.random() < 0.8:
        return str(random.choice((int(now) // 2, int(now), int(now) * 2, int(now) * 2 + 1, int(now) // 2 - 1, 0)))
    return random_value(definition, random)


def _is_knowable(definition: ConfigDef) -> bool:
    return not definition.internal and not any(part in definition.name for part in UNKNOWABLE)


_ODD_WORDS = ("zz", "Initial", "INITIAL ", " none", "never ever", "true", "0")


def random_connectors(keys: Mapping[str, ConnectorKey], number: int, random: Random) -> list[dict[str, str]]:
    """Settings for a connector of Debezium: up to three of those whose values are checked, two thirds of them sound."""
    checked = [key for key, check in sorted(keys.items()) if check.one_of or check.least is not None]
    found = []
    for _ in range(number):
        chosen = random.sample(checked, random.choice((1, 1, 2, 3)))
        found.append({key: _connector_value(keys[key], random) for key in chosen})
    return found


def _connector_value(check: ConnectorKey, random: Random) -> str:
    is_sound = random.random() < 0.6
    if check.one_of:
        word = random.choice(check.one_of)
        return random.choice((word, word, word.upper(), f" {word} ")) if is_sound else random.choice(_ODD_WORDS)
    least = max(check.least or 0, -5)
    numbers = (str(least), str(least + 1), "5000", "70000", f" {least + 7} ")
    return random.choice(numbers) if is_sound else random.choice((str(least - 1), "x", "1.5", "1e3", "7d", "+5", "-"))
