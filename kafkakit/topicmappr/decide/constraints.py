"""Constraints by tags as they are asked for, and read on a cluster."""

from collections.abc import Collection
from dataclasses import dataclass

from kafkakit.core.certificate import TagConstraint
from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.query.clusters import BROKER_KEYS, TOPIC_KEYS, broker_table, brokers_where, require_tags
from kafkakit.core.query.clusters import topics_where as matching_topics
from kafkakit.core.query.columns import tag_keys
from kafkakit.core.query.nodes import Node, key_text, text_of
from kafkakit.core.query.parser import parse_rules
from kafkakit.placement.group_rule import TagRules
from kafkakit.topicmappr.decide.broker_sets import BrokerSet, constraints_of


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Topics that keep to brokers, or with `apart` keep off them."""

    topics: Node
    brokers: Node
    apart: bool

    @property
    def text(self) -> str:
        """The rule as an option."""
        flag = "anti-affinity" if self.apart else "affinity"
        return f"{flag} 'topics where {text_of(self.topics)}: brokers where {text_of(self.brokers)}'"


def parse_topic_rules(text: str, flag: str) -> tuple[TopicRule, ...]:
    """Read `topics where QUERY: brokers where QUERY` of `--affinity` or `--anti-affinity`; `;` parts several."""
    rules = parse_rules(text, "topics", "brokers")
    return tuple(TopicRule(topics, brokers, flag == "--anti-affinity") for topics, brokers in rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagConstraints:
    """What a request asks for: spread over the values of keys, rules on topics and brokers, and broker sets.

    `sets` are those that are listed; `sets_by` is the tag whose values are sets, empty for none.
    """

    spread_by: tuple[str, ...] = ()
    rules: tuple[TopicRule, ...] = ()
    sets: tuple[BrokerSet, ...] = ()
    sets_by: str = ""

    @property
    def tag_keys(self) -> tuple[str, ...]:
        """The tags that must be known."""
        found = {k for k in self.spread_by if k not in BROKER_KEYS}
        for rule in self.rules:
            found.update(tag_keys(rule.topics, TOPIC_KEYS), tag_keys(rule.brokers, BROKER_KEYS))
        for each in self.sets:
            found.update(each.tag_keys)
        return tuple(sorted(found | ({self.sets_by} if self.sets_by else set())))

    def on(self, snapshot: ClusterSnapshot, topics: Collection[str]) -> TagRules | None:
        """The constraints on the brokers and on these topics of a cluster; None without any.

        Raises `UsageError` where tags are not known, no broker has a tag to spread over, or none matches a rule.
        """
        require_tags(snapshot, self.tag_keys)
        found = [_spread(snapshot, key) for key in self.spread_by]
        found += [_rule(snapshot, rule, frozenset(topics)) for rule in self.rules]
        found += constraints_of(snapshot, self.sets, self.sets_by, frozenset(topics))
        return TagRules(found) if found else None


NO_CONSTRAINTS = TagConstraints()


def _spread(snapshot: ClusterSnapshot, key: str) -> TagConstraint:
    table, open_to = broker_table(snapshot), {b.id for b in snapshot.brokers if b.is_alive} - snapshot.leaving
    column = table.column(key)
    values = {} if column is None else {int(name): column.value(i) for i, name in enumerate(table.names)}
    known = {b: v for b, v in values.items() if v and b in open_to}
    if not known:
        raise UsageError(f"--spread-by {key}: none of the {len(open_to)} live brokers has it")
    return TagConstraint(text=f"spread-by {key_text(key)}", values=known)


def _rule(snapshot: ClusterSnapshot, rule: TopicRule, topics: frozenset[str]) -> TagConstraint:
    brokers = tuple(sorted(brokers_where(snapshot, rule.brokers)))
    if not brokers:
        known = some(sorted(b.id for b in snapshot.brokers))
        raise UsageError(f"--{rule.text}: no broker matches", hint=f"the brokers are {known}")
    bound = tuple(sorted(topics.intersection(matching_topics(snapshot, rule.topics))))
    return TagConstraint(
        text=rule.text,
        topics=bound,
        only=None if rule.apart else brokers,
        never=brokers if rule.apart else (),
    )
