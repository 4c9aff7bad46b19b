"""Which topics and brokers match a query, kept until the inventory changes."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from kafkakit.core.errors import UsageError
from kafkakit.core.query.clusters import BROKER_KEYS, CONFIG, TOPIC_KEYS
from kafkakit.core.query.columns import Column, ObjectTable, flag_column, number_column, tag_column, text_column
from kafkakit.core.query.evaluate import explain, names_matching
from kafkakit.core.query.nodes import Node, keys_of
from kafkakit.core.query.parser import parse_query
from kafkakit.registry.decide.facts import BrokerFacts, TopicFacts
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.inventory import NO_TAGS, Inventory
from kafkakit.registry.decide.tags import Kind
from kafkakit.registry.decide.v2.views import missing

MAX_KEPT_QUERIES = 100
_ELSEWHERE = TOPIC_KEYS | BROKER_KEYS
"""What queries on a whole cluster know, of which the service does not have everything."""
_TOPIC_COLUMNS: Mapping[str, Callable[[Sequence[TopicFacts]], Column]] = {
    "name": lambda topics: text_column([t.name for t in topics]),
    "partitions": lambda topics: number_column([len(t.replicas) for t in topics]),
    "replication": lambda topics: number_column([t.replication for t in topics]),
    "under_replicated": lambda topics: flag_column([t.is_under_replicated for t in topics]),
    "reassigning": lambda topics: flag_column([t.is_reassigning for t in topics]),
    "internal": lambda topics: flag_column([t.name.startswith("__") for t in topics]),
}
_BROKER_COLUMNS: Mapping[str, Callable[[Sequence[BrokerFacts]], Column]] = {
    "id": lambda brokers: number_column([b.id for b in brokers]),
    "host": lambda brokers: text_column([b.host or None for b in brokers]),
    "port": lambda brokers: number_column([b.port for b in brokers]),
    "rack": lambda brokers: text_column([b.rack or None for b in brokers]),
    "interbrokerprotocolversion": lambda brokers: text_column([b.protocol_version or None for b in brokers]),
    "logmessageformat": lambda brokers: text_column([b.message_format or None for b in brokers]),
}
_OWN: Mapping[Kind, frozenset[str]] = {Kind.TOPIC: frozenset(_TOPIC_COLUMNS), Kind.BROKER: frozenset(_BROKER_COLUMNS)}


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
        return frozenset(names_matching(parse_query(query), _TABLES[kind](self._inventory, existing)))

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
        for key in sorted(keys_of(parsed) - _OWN[kind]):
            if not key.startswith(CONFIG) and table.column(key) is None:
                near = get_close_matches(key, _OWN[kind], 1, 0.75)
                if near or key in _ELSEWHERE:
                    raise invalid(f"no {kind} here has {key}" + (f": did you mean {near[0]}?" if near else ""))
        return parsed, table

    def _table(self, kind: Kind) -> ObjectTable:
        if self._generation != self._inventory.generation:
            self._generation = self._inventory.generation
            self._tables.clear()
            self._found.clear()
        if kind not in self._tables:
            brokers = map(str, sorted(self._inventory.brokers))
            names = self._inventory.topic_names if kind is Kind.TOPIC else tuple(brokers)
            self._tables[kind] = _TABLES[kind](self._inventory, names)
        return self._tables[kind]


def _topic_table(inventory: Inventory, names: Sequence[str]) -> ObjectTable:
    topics = [inventory.topics[name] for name in names]

    def column(key: str) -> Column | None:
        if key in _TOPIC_COLUMNS:
            return _TOPIC_COLUMNS[key](topics)
        if key.startswith(CONFIG):
            return tag_column([t.configs for t in topics], key.removeprefix(CONFIG))
        return tag_column([inventory.tags[Kind.TOPIC].get(name, NO_TAGS) for name in names], key)

    return ObjectTable(tuple(names), column)


def _broker_table(inventory: Inventory, names: Sequence[str]) -> ObjectTable:
    brokers = [inventory.brokers[int(name)] for name in names]

    def column(key: str) -> Column | None:
        if key in _BROKER_COLUMNS:
            return _BROKER_COLUMNS[key](brokers)
        return tag_column([inventory.tags[Kind.BROKER].get(name, NO_TAGS) for name in names], key)

    return ObjectTable(tuple(names), column)


_TABLES: Mapping[Kind, Callable[[Inventory, Sequence[str]], ObjectTable]] = {
    Kind.TOPIC: _topic_table,
    Kind.BROKER: _broker_table,
}
