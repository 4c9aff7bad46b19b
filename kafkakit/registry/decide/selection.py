"""Which topics and brokers a command means: names, regular expressions of topics, or `where QUERY`."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafkakit.config.keys import did_you_mean
from kafkakit.core.broker_list import ALL, EXISTING
from kafkakit.core.errors import UsageError
from kafkakit.core.printable import printable
from kafkakit.core.query.columns import ADDRESSED, NAMED, Makers, number_column, object_table, unknown_keys
from kafkakit.core.query.evaluate import names_matching
from kafkakit.core.query.parser import parse_query
from kafkakit.core.topic_selection import is_topic_name, matching_topics, query_of
from kafkakit.registry.decide.entries import BrokerEntry, TopicEntry
from kafkakit.registry.decide.tags import Kind, Tags

MAX_NAMES = 10_000
Entries = Mapping[str, TopicEntry] | Mapping[int, BrokerEntry]
_OWN: Mapping[Kind, Makers] = {
    Kind.TOPIC: {
        **NAMED,
        "partitions": lambda topics: number_column([t.partitions for t in topics]),
        "replication": lambda topics: number_column([t.replication for t in topics]),
    },
    Kind.BROKER: ADDRESSED,
}
# What planning can ask of a cluster, and what the registry does not know.
_ELSEWHERE = {
    Kind.TOPIC: frozenset({"bytes", "under_replicated"}),
    Kind.BROKER: frozenset({"state", "is_alive", "free_bytes", "total_bytes", "replicas", "leaders"}),
}


def chosen(kind: Kind, text: str, entries: Entries) -> tuple[str, ...]:
    """The names that a text means: a list with commas, or a query; sorted as the entries are.

    A list of topics may hold regular expressions, and -2 among brokers means all of them. Raises `UsageError` for a
    name that does not exist, with the nearest, and where nothing is meant.
    """
    query = query_of(text)
    if query is not None:
        found = matching_names(kind, query, entries)
    else:
        listed = [name for word in text.split(",") for name in _listed(kind, word.strip(), entries)]
        found = exact_names(kind, listed, entries)
    if not found:
        raise UsageError(f"no {kind} matches {printable(text.strip()[:200])!r}")
    return found


def is_exact(kind: Kind, text: str) -> bool:
    """Whether every object is named, so that no more of them can be meant than the text shows."""
    words = [word.strip() for word in text.split(",")]
    all_named = all(is_topic_name(word) or not word for word in words)
    return query_of(text) is None and all_named and (kind is Kind.TOPIC or str(ALL) not in words)


def _listed(kind: Kind, word: str, entries: Entries) -> Iterable[str]:
    if kind is Kind.BROKER and word == str(ALL):
        return map(str, entries)
    if kind is Kind.BROKER and word == str(EXISTING):
        raise UsageError("-1 is not taken here: which brokers hold replicas is not known", hint="-2: all brokers")
    if kind is Kind.BROKER or is_topic_name(word):
        return (word,)
    names = frozenset(map(str, entries))
    return sorted(matching_topics(names, (word,))) or (word,)


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
        hint = "topics that the user may not describe are not seen" if kind is Kind.TOPIC else None
        raise UsageError(f"there is no {what} {printable(missing[0][:100])}{also}{guess}", hint=hint)
    return tuple(names)


def matching_names(kind: Kind, query: str, entries: Entries) -> tuple[str, ...]:
    """The names of the entries that match; raises `QueryError`, and `UsageError` for keys that cannot be known."""
    node, own = parse_query(query), _OWN[kind]
    objects: list[Any] = list(entries.values())
    configs = (lambda each: each.configs) if kind is Kind.TOPIC else None
    table = object_table([*map(str, entries)], objects, own, lambda each: each.tags, configs)
    for key, near in unknown_keys(node, table, own):
        if key in _ELSEWHERE[kind]:
            raise UsageError(f"the registry does not know {key}", hint=f"it knows {', '.join(own)} and tags")
        if near is not None:
            raise UsageError(f"nothing here has {key}", hint=f"did you mean {near}?")
    return tuple(names_matching(node, table))


def tags_of(entries: Entries) -> dict[str, Tags]:
    """The tags of each entry, by its name as text."""
    return {str(name): entry.tags for name, entry in entries.items()}
