"""Topics and brokers as version 2 shows them, and the fields of them that are wanted."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from kafkakit.core.printable import printable
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.facts import BrokerFacts, TopicFacts
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.history import etag_of
from kafkakit.registry.decide.inventory import NO_TAGS, Inventory
from kafkakit.registry.decide.tags import Kind
from kafkakit.registry.decide.v2.messages import BrokerView, PartitionReplicas, TopicView

MAX_FIELDS = 100
_MAPS = ("tags", "configs")
_VIEWS: Mapping[Kind, type[TopicView | BrokerView]] = {Kind.TOPIC: TopicView, Kind.BROKER: BrokerView}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMask:
    """The fields that are wanted, and of maps the keys where not all are."""

    names: frozenset[str]
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def cut(self, name: str, value: Mapping[str, str]) -> Mapping[str, str]:
        """The wanted entries of a map."""
        keys = self.keys.get(name)
        return value if keys is None else {key: text for key, text in value.items() if key in keys}


def parse_mask(kind: Kind, fields: Iterable[str]) -> FieldMask:
    """The mask of `fields`: names, and `tags.KEY` or `configs.NAME`; all but replicas without any. `RpcError`."""
    known, names, keys = _VIEWS[kind].__struct_fields__, set[str](), dict[str, set[str]]()
    for number, text in enumerate(fields):
        name, dot, key = text.partition(".")
        if number >= MAX_FIELDS or name not in known or (dot and name not in _MAPS):
            raise invalid(f"a {kind} has no field {printable(text[:60])!r}: the fields are {', '.join(known)}")
        if not dot:
            keys.pop(name, None)
        elif name not in names or name in keys:
            keys.setdefault(name, set()).add(key)
        names.add(name)
    wanted = frozenset(names) or frozenset(known) - {"replicas"}
    return FieldMask(names=wanted, keys={name: frozenset(of) for name, of in keys.items()})


def topic_view(facts: TopicFacts, inventory: Inventory, mask: FieldMask) -> TopicView:
    """The wanted fields of a topic."""
    return TopicView(**dict(_chosen(_topic_fields(facts, inventory, mask), mask)))


def broker_view(facts: BrokerFacts, inventory: Inventory, mask: FieldMask) -> BrokerView:
    """The wanted fields of a broker."""
    tags = inventory.tags[Kind.BROKER].get(str(facts.id), NO_TAGS)
    return BrokerView(
        **dict(
            _chosen(
                (
                    ("id", facts.id),
                    ("host", facts.host),
                    ("port", facts.port),
                    ("rack", facts.rack),
                    ("interbrokerprotocolversion", facts.protocol_version),
                    ("logmessageformat", facts.message_format),
                    ("tags", mask.cut("tags", tags)),
                    ("etag", etag_of(tags) if "etag" in mask.names else UNSET),
                ),
                mask,
            )
        )
    )


def view_of(kind: Kind, name: str, inventory: Inventory, mask: FieldMask) -> TopicView | BrokerView | None:
    """An object by kind and name; None where it does not exist."""
    if kind is Kind.TOPIC:
        topic = inventory.topics.get(name)
        return None if topic is None else topic_view(topic, inventory, mask)
    broker = inventory.brokers.get(int(name)) if name.isascii() and name.isdigit() else None
    return None if broker is None else broker_view(broker, inventory, mask)


def missing(kind: Kind, name: str) -> RpcError:
    """The refusal for an object that does not exist."""
    return RpcError(RpcCode.NOT_FOUND, f"{kind} {printable(name[:80])} does not exist")


def _topic_fields(facts: TopicFacts, inventory: Inventory, mask: FieldMask) -> Iterator[tuple[str, Any]]:
    tags = inventory.tags[Kind.TOPIC].get(facts.name, NO_TAGS)
    yield "name", facts.name
    yield "partitions", len(facts.replicas)
    yield "replication", facts.replication
    yield "under_replicated", facts.is_under_replicated
    yield "reassigning", facts.is_reassigning
    yield "internal", facts.name.startswith("__")
    yield "configs", mask.cut("configs", facts.configs)
    if "replicas" in mask.names:
        yield "replicas", tuple(PartitionReplicas(partition=number, brokers=row) for number, row in facts.replicas)
    yield "tags", mask.cut("tags", tags)
    if "etag" in mask.names:
        yield "etag", etag_of(tags)


def _chosen(fields: Iterable[tuple[str, Any]], mask: FieldMask) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in fields if name in mask.names)
