"""Which topics and brokers a command means: exact names, or `where QUERY`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from kafkakit.config.keys import did_you_mean, nearest
from kafkakit.core.errors import UsageError
from kafkakit.core.printable import printable
from kafkakit.core.query.columns import Column, ObjectTable, flag_column, number_column, tag_column, text_column
from kafkakit.core.query.evaluate import names_matching
from kafkakit.core.query.nodes import keys_of
from kafkakit.core.query.parser import parse_query
from kafkakit.core.topic_selection import query_of
from kafkakit.registry.decide.entries import BrokerEntry, TopicEntry
from kafkakit.registry.decide.tags import Kind, Tags

CONFIG = "config."
MAX_NAMES = 10_000
Entries = Mapping[str, TopicEntry] | Mapping[int, BrokerEntry]
_TOPICS: Mapping[str, Callable[[Sequence[TopicEntry]], Column]] = {
    "name": lambda topics: text_column([t.name for t in topics]),
    "partitions": lambda topics: number_column([t.partitions for t in topics]),
    "replication": lambda topics: number_column([t.replication for t in topics]),
    "internal": lambda topics: flag_column([t.name.startswith("__") for t in topics]),
}
_BROKERS: Mapping[str, Callable[[Sequence[BrokerEntry]], Column]] = {
    "id": lambda brokers: number_column([b.id for b in brokers]),
    "host": lambda brokers: text_column([b.host or None for b in brokers]),
    "port": lambda brokers: number_column([b.port for b in brokers]),
    "rack": lambda brokers: text_column([b.rack or None for b in brokers]),
}
# What planning can ask of a cluster, and what the registry does not know.
_ELSEWHERE = {
    Kind.TOPIC: frozenset({"bytes", "under_replicated"}),
    Kind.BROKER: frozenset({"state", "is_alive", "free_bytes", "total_bytes", "replicas", "leaders"}),
}


def chosen(kind: Kind, text: str, entries: Entries) -> tuple[str, ...]:
    """The names that a text means: a list with commas, or a query; sorted as the entries are.

    Raises `UsageError` for a name that does not exist, with the nearest, and where nothing is meant.
    """
    query = query_of(text)
    found = exact_names(kind, text.split(","), entries) if query is None else matching_names(kind, query, entries)
    if not found:
        raise UsageError(f"no {kind} matches {printable(text.strip()[:200])!r}")
    return found


def exact_names(kind: Kind, given: Collection[str], entries: Entries) -> tuple[str, ...]:
    """The names, each of which must exist; `UsageError` names one that does not, and the nearest that does."""
    known = {str(name) for name in entries}
    names = list(dict.fromkeys(name.strip() for name in given if name.strip()))
    if len(names) > MAX_NAMES:
        raise UsageError(f"{len(names):,} names are given, at most {MAX_NAMES:,} are taken: use a query")
    missing = [name for name in names if name not in known]
    if missing:
        also = f", nor {len(missing) - 1:,} others of the list" if len(missing) > 1 else ""
        what = "live broker" if kind is Kind.BROKER else "topic"
        guess = did_you_mean(missing[0], known)
        raise UsageError(f"there is no {what} {printable(missing[0][:100])}{also}{guess}")
    return tuple(names)


def matching_names(kind: Kind, query: str, entries: Entries) -> tuple[str, ...]:
    """The names of the entries that match; raises `QueryError`, and `UsageError` for keys that cannot be known."""
    node = parse_query(query)
    own = _TOPICS if kind is Kind.TOPIC else _BROKERS
    table = ObjectTable(tuple(map(str, entries)), partial(_column, kind, entries))
    for key in sorted(keys_of(node) - own.keys()):
        if table.column(key) is not None:
            continue
        if key in _ELSEWHERE[kind]:
            raise UsageError(f"the registry does not know {key}", hint=f"it knows {', '.join(own)} and tags")
        near = nearest(key, own, closeness=0.75)
        if near:
            raise UsageError(f"nothing here has {key}", hint=f"did you mean {near}?")
    return tuple(names_matching(node, table))


def tags_of(entries: Entries) -> dict[str, Tags]:
    """The tags of each entry, by its name as text."""
    return {str(name): entry.tags for name, entry in entries.items()}


def _column(kind: Kind, entries: Entries, key: str) -> Column | None:
    objects: Sequence[Any] = list(entries.values())
    own: Mapping[str, Callable[[Sequence[Any]], Column]] = _TOPICS if kind is Kind.TOPIC else _BROKERS
    if key in own:
        return own[key](objects)
    if kind is Kind.TOPIC and key.startswith(CONFIG):
        return tag_column([t.configs for t in objects], key.removeprefix(CONFIG))
    return tag_column([each.tags for each in objects], key)
