"""Broker sets: brokers that only the topics of the set are put on, and that these topics keep to."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList, parse_broker_list
from kafkakit.core.certificate import TagConstraint
from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.query.clusters import BROKER_KEYS, TOPIC_KEYS, brokers_where, topics_where
from kafkakit.core.query.columns import tag_keys
from kafkakit.core.query.nodes import key_text
from kafkakit.core.query.parser import parse_query
from kafkakit.core.tags import TagSet
from kafkakit.core.topic_selection import matching_topics, parse_patterns, query_of

FLAG, BY_FLAG = "--broker-set", "--broker-sets-by"


@dataclass(frozen=True, slots=True)
class BrokerSet:
    """Topics (patterns, or one query) and the brokers that are theirs, as `text` gave them."""

    topics: tuple[str, ...]
    brokers: BrokerList
    text: str

    @property
    def tag_keys(self) -> Iterator[str]:
        """The tags that its queries look at."""
        for pattern in self.topics:
            if (query := query_of(pattern)) is not None:
                yield from tag_keys(parse_query(query), TOPIC_KEYS)
        if self.brokers.where is not None:
            yield from tag_keys(self.brokers.where, BROKER_KEYS)


def parse_broker_set(text: str) -> BrokerSet:
    """Read `TOPICS: BROKERS`; `UsageError` for what is not."""
    topics, mark, brokers = text.rpartition(":")
    patterns = parse_patterns(topics.strip()) if mark else ()
    if not patterns or not brokers.strip():
        raise UsageError(f"{FLAG}: {text[:80]!r} is not TOPICS: BROKERS", hint=f"such as {FLAG} 'orders.*: 1001,1002'")
    return BrokerSet(patterns, parse_broker_list(brokers.strip(), FLAG), text.strip())


def constraints_of(
    snapshot: ClusterSnapshot, sets: Collection[BrokerSet], by: str, topics: frozenset[str]
) -> list[TagConstraint]:
    """The sets on a cluster: their topics go nowhere else, and other topics go on none of their brokers.

    Raises `UsageError` for sets without brokers, and for a broker or a topic in two sets.
    """
    found = [_listed(snapshot, each, topics) for each in sets] + (list(_tagged(snapshot, by, topics)) if by else [])
    held: dict[int, str] = {}
    owned: dict[str, str] = {}
    for c in found:
        for b in c.only or ():
            if held.setdefault(b, c.text) != c.text:
                raise UsageError(f"broker {b} is in two sets: {held[b]} and {c.text}")
        for topic in c.topics:
            if owned.setdefault(topic, c.text) != c.text:
                raise UsageError(f"topic {topic} is in two sets: {owned[topic]} and {c.text}")
    others = tuple(sorted(topics.difference(owned)))
    if found and others:
        found.append(TagConstraint(text="brokers of sets for their topics", topics=others, never=tuple(sorted(held))))
    return found


def _listed(snapshot: ClusterSnapshot, each: BrokerSet, topics: frozenset[str]) -> TagConstraint:
    live = frozenset(b.id for b in snapshot.brokers if b.is_alive)
    if each.brokers.where is not None:
        brokers = tuple(sorted(brokers_where(snapshot, each.brokers.where)))
    else:
        holding = frozenset(b for _, p in snapshot.partitions() for b in p.replicas)
        brokers = each.brokers.resolve(holding, live)
    known = {b.id for b in snapshot.brokers}
    if not brokers or not known.issuperset(brokers):
        wrong = f"{some(sorted(set(brokers) - known))} not in this cluster" if brokers else "no broker matches"
        raise UsageError(f"{FLAG} '{each.text}': {wrong}", hint=f"the brokers are {some(sorted(known))}")
    bound: set[str] = set()
    for pattern in each.topics:
        query = query_of(pattern)
        matched = matching_topics(topics, (pattern,)) if query is None else topics_where(snapshot, parse_query(query))
        bound.update(topics.intersection(matched))
    return TagConstraint(text=f"broker-set '{each.text}'", topics=tuple(sorted(bound)), only=brokers)


def _tagged(snapshot: ClusterSnapshot, key: str, topics: frozenset[str]) -> Iterator[TagConstraint]:
    tags = snapshot.tags or TagSet()
    of_broker, of_topic = _by_value(tags.brokers, key), _by_value(tags.topics, key)
    if not of_broker:
        raise UsageError(f"{BY_FLAG} {key}: no broker has this tag")
    known = {b.id for b in snapshot.brokers}
    for value in sorted({*of_broker, *of_topic}):
        brokers = tuple(sorted(known.intersection(of_broker.get(value, ()))))
        bound = tuple(sorted(topics.intersection(of_topic.get(value, ()))))
        if bound and not brokers:
            raise UsageError(f"{BY_FLAG} {key}: no broker has {key} = {value}, and topic {some(bound)} does")
        if brokers:
            yield TagConstraint(text=f"broker-sets-by {key_text(key)} = {value}", topics=bound, only=brokers)


def _by_value(
    tags: Mapping[int, Mapping[str, str]] | Mapping[str, Mapping[str, str]], key: str
) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for name, pairs in tags.items():
        if key in pairs:
            found.setdefault(pairs[key], []).append(name)
    return found
