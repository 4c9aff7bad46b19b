"""Which topics and brokers match a query, kept until the inventory changes."""

from collections.abc import Mapping, Sequence

from kafkakit.core.errors import UsageError
from kafkakit.core.query.clusters import BROKER_KEYS, TOPIC_KEYS
from kafkakit.core.query.columns import (
    ADDRESSED,
    NAMED,
    Makers,
    ObjectTable,
    flag_column,
    number_column,
    object_table,
    text_column,
    unknown_keys,
)
from kafkakit.core.query.evaluate import explain, names_matching
from kafkakit.core.query.nodes import Node
from kafkakit.core.query.parser import parse_query
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.inventory import NO_TAGS, Inventory
from kafkakit.registry.decide.tags import Kind
from kafkakit.registry.decide.v2.views import missing

MAX_KEPT_QUERIES = 100
_ELSEWHERE = TOPIC_KEYS | BROKER_KEYS
"""What queries on a whole cluster know, of which the service does not have everything."""
_OWN: Mapping[Kind, Makers] = {
    Kind.TOPIC: {
        **NAMED,
        "partitions": lambda topics: number_column([len(t.replicas) for t in topics]),
        "replication": lambda topics: number_column([t.replication for t in topics]),
        "under_replicated": lambda topics: flag_column([t.is_under_replicated for t in topics]),
        "reassigning": lambda topics: flag_column([t.is_reassigning for t in topics]),
    },
    Kind.BROKER: {
        **ADDRESSED,
        "interbrokerprotocolversion": lambda brokers: text_column([b.protocol_version or None for b in brokers]),
        "logmessageformat": lambda brokers: text_column([b.message_format or None for b in brokers]),
    },
}


class Selection:
    """Answers queries on an inventory; the columns that they need are made once for each of its generations."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory, self._generation = inventory, -1
        self._tables: dict[Kind, ObjectTable] = {}
        self._found: dict[tuple[Kind, str], Sequence[str]] = {}

    def names(self, kind: Kind, query: str) -> Sequence[str]:
        """The objects that match, topics by name and brokers by id; all without a query. `RpcError` for a bad one.

        O(objects) for each key of the query, once for each generation.
        """
        if not query:
            return self._inventory.topic_names if kind is Kind.TOPIC else self._table(kind).names
        parsed, table = self._parsed(kind, query)
        found = self._found.get((kind, query))
        if found is None:
            found = names_matching(parsed, table)
            if len(self._found) < MAX_KEPT_QUERIES:
                self._found[kind, query] = found
        return found

    def among(self, kind: Kind, names: Sequence[str], query: str) -> frozenset[str]:
        """Those of a few objects that exist and match; the query was checked before. O(names)."""
        existing = [name for name in names if self._inventory.has(kind, name)]
        if not query or not existing:
            return frozenset(existing)
        return frozenset(names_matching(parse_query(query), _table_of(kind, self._inventory, existing)))

    def explain(self, kind: Kind, name: str, query: str) -> tuple[bool, tuple[str, ...]]:
        """Whether an object matches, and which parts of the query decide it; `RpcError` where it does not exist."""
        parsed, table = self._parsed(kind, query)
        if not self._inventory.has(kind, name):
            raise missing(kind, name)
        return explain(parsed, table, table.names.index(name))

    def _parsed(self, kind: Kind, query: str) -> tuple[Node, ObjectTable]:
        table = self._table(kind)
        try:
            parsed = parse_query(query)
        except UsageError as error:
            raise invalid(error.message if error.hint is None else f"{error.message} ({error.hint})") from None
        for key, near in unknown_keys(parsed, table, _OWN[kind]):
            if near is not None or key in _ELSEWHERE:
                raise invalid(f"no {kind} here has {key}" + ("" if near is None else f": did you mean {near}?"))
        return parsed, table

    def _table(self, kind: Kind) -> ObjectTable:
        if self._generation != self._inventory.generation:
            self._generation = self._inventory.generation
            self._tables.clear()
            self._found.clear()
        if kind not in self._tables:
            brokers = map(str, sorted(self._inventory.brokers))
            names = self._inventory.topic_names if kind is Kind.TOPIC else tuple(brokers)
            self._tables[kind] = _table_of(kind, self._inventory, names)
        return self._tables[kind]


def _table_of(kind: Kind, inventory: Inventory, names: Sequence[str]) -> ObjectTable:
    tags = inventory.tags[kind]
    if kind is Kind.BROKER:
        brokers = [inventory.brokers[int(name)] for name in names]
        return object_table(names, brokers, _OWN[kind], lambda b: tags.get(str(b.id), NO_TAGS))
    topics = [inventory.topics[name] for name in names]
    return object_table(names, topics, _OWN[kind], lambda t: tags.get(t.name, NO_TAGS), lambda t: t.configs)
