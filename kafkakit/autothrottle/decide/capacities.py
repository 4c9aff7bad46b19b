"""What the network of brokers can do: stated by broker and by instance type, for any law."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kafkakit.autothrottle.decide.law import Decision, Law, Memory
from kafkakit.autothrottle.decide.observed import BrokerSeen, Observed
from kafkakit.config.keys import did_you_mean
from kafkakit.config.yaml_text import yaml_items, yaml_root, yaml_scalar
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.quantities import parse_rate

LIMIT_BYTES = 1 << 20
MB = 1_000_000
_MAX_MB = 10_000_000
_KEYS = ("brokers", "instance_types")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacities:
    """Bytes/s in each direction, by broker and by instance type; a broker's own goes before what was measured."""

    of_broker: Mapping[int, float] = field(default_factory=dict)
    of_type: Mapping[str, float] = field(default_factory=dict)

    def over(self, others: "Capacities") -> "Capacities":
        """Both; these count where the others state the same."""
        return Capacities(of_broker={**others.of_broker, **self.of_broker}, of_type={**others.of_type, **self.of_type})

    def known(self, seen: BrokerSeen) -> BrokerSeen:
        """The broker with the capacity of its network, as far as it is stated."""
        own, by_type = self.of_broker.get(seen.broker), self.of_type.get(seen.instance_type)
        into, out = (replace(load, capacity=own or load.capacity or by_type) for load in (seen.into, seen.out))
        return replace(seen, into=into, out=out)

    def informed(self, observed: Observed) -> Observed:
        """The observation with the capacities of all brokers."""
        return replace(observed, brokers={b: self.known(seen) for b, seen in observed.brokers.items()})


def with_capacities(law: Law, capacities: Capacities) -> Law:
    """The law, told the capacities; a broker of unknown type is named, and the law decides what that means for it."""

    def informed(observed: Observed, memory: Memory) -> Decision:
        brokers = observed.brokers
        moving = sorted({b for f in observed.flows for b in (f.source, f.destination)} & brokers.keys())
        lacking = [
            f"{b} ({brokers[b].instance_type or 'no type'})"
            for b in moving
            if brokers[b].instance_type not in capacities.of_type and b not in capacities.of_broker
        ]
        decision = law(capacities.informed(observed), memory)
        if not lacking or not capacities.of_type:
            return decision
        words = f"no capacity is stated for the instance type of broker {some(lacking)}"
        return replace(decision, warnings=(words, *decision.warnings))

    return informed


def read_cap_map(text: str) -> Capacities:
    """kafka-kit's JSON object from instance types to MB/s; `InputError` for anything else."""
    found = decode_json(text.encode("utf-8", "surrogatepass"), dict[str, float], "--cap-map")
    for name, rate in found.items():
        if not math.isfinite(rate) or not 0 < rate <= _MAX_MB:
            raise InputError("--cap-map", f"{name[:40]!r}: {rate:g} MB/s is no capacity")
    return Capacities(of_type={name: rate * MB for name, rate in found.items()})


def read_capacity_file(data: bytes, source: str) -> Capacities:
    """YAML or JSON with `brokers` (by id) and `instance_types`, each a mapping to rates (`1.25GB`).

    Raises `InputError` with the line of what cannot be read.
    """
    found: dict[str, dict[str, float]] = {}
    for section, line, node in yaml_items(yaml_root(data, source), source, ""):
        if section not in _KEYS:
            raise InputError(f"{source}:{line}", f"unknown key {section[:60]!r}{did_you_mean(section, _KEYS)}")
        found[section] = {}
        for name, at, child in yaml_items(node, source, section):
            if section == "brokers" and not _is_broker(name):
                raise InputError(f"{source}:{at}", f"{name[:60]!r} is no broker's id")
            found[section][name] = _rate(yaml_scalar(child, source, name), f"{source}:{at}")
    if not any(found.values()):
        raise InputError(source, "states no capacities", hint=f"keys: {', '.join(_KEYS)}")
    of_broker = {int(name): rate for name, rate in found.get("brokers", {}).items()}
    return Capacities(of_broker=of_broker, of_type=found.get("instance_types", {}))


def tagged_capacities(brokers: Mapping[int, Mapping[str, str]], key: str) -> Capacities:
    """The rates in the tag `key` of brokers (`1.25GB`).

    Raises `UsageError` where no broker has the tag, and `InputError` where one has another value.
    """
    found = {
        broker: _rate(tags[key], f"tag {key} of broker {broker}") for broker, tags in brokers.items() if key in tags
    }
    if not found:
        hint = f"kafkakit registry tag --brokers ID {key}:1.25GB"
        raise UsageError(f"--capacity-tag: no broker has a tag {key!r:.140}", hint=hint)
    return Capacities(of_broker=found)


def read_broker_capacity(text: str) -> tuple[int, float]:
    """`1003:1GB` as a broker and its capacity; `UsageError` for anything else."""
    broker, colon, rate = text.partition(":")
    if not colon or not _is_broker(broker):
        raise UsageError(f"--broker-capacity {text!r:.60} names no broker", hint="write 1003:1GB")
    return int(broker), float(parse_rate(rate))


def _is_broker(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31


def _rate(text: str, place: str) -> float:
    try:
        return float(parse_rate(text))
    except UsageError as error:
        raise InputError(place, error.message, hint=error.hint) from None
