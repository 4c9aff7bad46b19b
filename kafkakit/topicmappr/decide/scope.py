"""Which topics a request is about, their partitions in a snapshot, and those that are pinned; and its constraints.

Queries (`where ...` in the place of names) are answered on the cluster that was read. Constraints by tags are kept as
they are asked for, and read on a cluster. A broker set is brokers that only the topics of the set are put on, and that
these topics keep to.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar

from kafkakit.core.errors import InputError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, Partition, PartitionMap, TagSet, TopicPartition
from kafkakit.core.options import REPEATED, options_given, parsed_option
from kafkakit.core.plan import TagConstraint
from kafkakit.core.query import (
    BROKER_KEYS,
    TOPIC_KEYS,
    broker_table,
    brokers_where,
    require_tags,
    tag_keys,
    topic_table,
    topics_where,
    why_none,
)
from kafkakit.core.query_text import Node, key_text, parse_query, parse_rules, text_of
from kafkakit.core.selection import (
    BrokerList,
    TopicSelection,
    matching_topics,
    parse_broker_list,
    parse_patterns,
    query_of,
    select_topics,
)
from kafkakit.core.text import abort_command, few_of
from kafkakit.placement.broker_disks import failed_copies
from kafkakit.placement.group_rule import TagRules
from kafkakit.placement.problem import PlannedPartition


def pinned_indices(
    partitions: Sequence[PlannedPartition], pinned: Sequence[str], stranded: Collection[PlannedPartition]
) -> list[int]:
    """Indices of partitions named by `topic`, a topic pattern or `topic/partition`, and of stranded ones.

    Raises `UsageError` for a name that fits nothing.
    """
    keys = {(p.key.topic, p.key.partition): i for i, p in enumerate(partitions)}
    chosen = {keys[p.key.topic, p.key.partition] for p in stranded}
    patterns = []
    for word in pinned:
        topic, slash, number = word.rpartition("/")
        if slash and number.isdecimal() and number.isascii():
            found = keys.get((topic, int(number)))
            if found is None:
                raise UsageError(f"--pin: there is no partition {word} among those selected")
            chosen.add(found)
        else:
            patterns.append(word)
    if patterns:
        names = sorted({p.key.topic for p in partitions})
        try:
            topics = frozenset(select_topics(names, tuple(patterns), ()).selected)
        except UsageError as error:
            raise UsageError(f"--pin: {error.message} among those selected", hint=error.hint) from None
        chosen.update(i for i, p in enumerate(partitions) if p.key.topic in topics)
    return sorted(chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScope:
    """The topics that a request names, by patterns or by a partition `map`.

    `replication` is the factor wanted, 0 leaves it as it is. With `sized` every partition must have a known size.
    """

    topics: tuple[str, ...] = ()
    topics_exclude: tuple[str, ...] = ()
    map: PartitionMap | None = None
    replication: int = 0
    sized: bool = False

    def __post_init__(self) -> None:
        if self.map is None and not self.topics:
            raise UsageError("must specify either --topics or --map-string")


@dataclass(frozen=True, slots=True)
class Scope:
    """Partitions sorted by key with the topic ids they belong to, and the topics chosen and excluded."""

    partitions: tuple[PlannedPartition, ...]
    topic_ids: dict[str, str | None]
    selection: TopicSelection


def scope_of(snapshot: ClusterSnapshot, requested: TopicScope) -> Scope:
    """Select the partitions that are asked for, with the replicas wanted of each.

    Raises `TryLaterError` when a selected partition is being reassigned (`RefusedError` if that cannot end),
    `UsageError` when nothing is left or when a size that is needed is unknown. O(partitions).
    """
    if requested.map is not None:
        known = {p.topic for p in requested.map.partitions}
        selection = select_topics(known, sorted(known), requested.topics_exclude) if known else None
    else:
        names = [t.name for t in snapshot.topics]
        selection = select_topics(names, requested.topics, requested.topics_exclude)
    if selection is None or not selection.selected:
        raise UsageError("no partitions left to place", hint="check --topics, --topics-exclude and --map-string")
    chosen = frozenset(selection.selected)
    listed = [
        (TopicPartition(topic.name, p.partition), p)
        for topic in snapshot.topics
        if topic.name in chosen
        for p in topic.partitions
    ]
    _refuse_moving(snapshot, listed)
    failed = failed_copies(snapshot)
    if requested.map is None:
        listed.sort(key=itemgetter(0))
        partitions = tuple(_planned_partition(key, p.replicas, p, requested.replication, failed) for key, p in listed)
    else:
        facts = dict(listed)
        lists = sorted(
            (TopicPartition(e.topic, e.partition), e.replicas) for e in requested.map.partitions if e.topic in chosen
        )
        partitions = tuple(
            _planned_partition(key, replicas, facts.get(key), requested.replication, failed) for key, replicas in lists
        )
    if requested.sized:
        _refuse_unknown_sizes(partitions)
    ids = {t.name: t.topic_id for t in snapshot.topics if t.name in chosen}
    return Scope(partitions, ids, selection)


def _planned_partition(
    key: TopicPartition,
    replicas: tuple[int, ...],
    fact: Partition | None,
    replication: int,
    failed: Mapping[TopicPartition, frozenset[int]],
) -> PlannedPartition:
    if len(set(replicas)) != len(replicas):
        raise InputError(str(key), f"names a broker twice: {list(replicas)}")
    return PlannedPartition(
        key=key,
        current=replicas,
        wanted=replication or len(replicas),
        size_bytes=fact.known_bytes if fact else None,
        # Nothing can be copied from a dir that is offline, whatever its broker was last known to have.
        in_sync=frozenset(fact.isr) - failed.get(key, frozenset()) if fact and fact.isr is not None else None,
    )


def _refuse_moving(snapshot: ClusterSnapshot, listed: Sequence[tuple[TopicPartition, Partition]]) -> None:
    running = {TopicPartition(r.topic, r.partition) for r in snapshot.reassignments}
    moving = sorted(key for key, p in listed if key in running or p.adding or p.removing)
    refuse_endless(snapshot, moving)
    if moving:
        more = f" and {len(moving) - 3} more" if len(moving) > 3 else ""
        raise TryLaterError(
            f"{', '.join(map(str, moving[:3]))}{more} are being reassigned, so their replica lists are transitional",
            hint="wait for them (kafkakit reassign status --watch) and plan again, or exclude these topics",
        )


def refuse_endless(snapshot: ClusterSnapshot, moving: Collection[TopicPartition]) -> None:
    """Raise `RefusedError` when one of these moves copies to a broker that is not alive: waiting does not end it."""
    known, wanted = snapshot.broker_by_id(), frozenset(moving)
    adding = {TopicPartition(r.topic, r.partition): r.adding for r in snapshot.reassignments}
    for topic, partition in snapshot.partitions() if wanted else ():
        adding.setdefault(TopicPartition(topic, partition.partition), partition.adding)
    away = {k: tuple(b for b in adding.get(k, ()) if b not in known or not known[b].is_alive) for k in wanted}
    dead = {key: brokers for key, brokers in away.items() if brokers}
    if dead:
        brokers = sorted({b for found in dead.values() for b in found})
        raise RefusedError(
            f"the moves of {few_of(sorted(dead))} cannot end: "
            f"broker {few_of(brokers)}, which they copy to, is not alive",
            hint=f"start it, or cancel them:\n{abort_command('kafkakit', dead)}",
        )


def _refuse_unknown_sizes(partitions: tuple[PlannedPartition, ...]) -> None:
    unknown = [str(p.key) for p in partitions if p.size_bytes is None]
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise UsageError(
            f"--minimize bytes needs every size, and {', '.join(unknown[:3])}{more} have none",
            hint="take a snapshot with sizes, or use --minimize moves",
        )


R = TypeVar("R")


def tags_needed(request: object) -> bool:
    """True where the request has a query or a constraint that looks at tags."""
    for _, value in _values(request):
        if isinstance(value, TagConstraints) and value.tag_keys:
            return True
        if _is_request(value) and tags_needed(value):
            return True
        if isinstance(value, BrokerList) and value.where is not None and tag_keys(value.where, BROKER_KEYS):
            return True
        if isinstance(value, tuple) and any(tag_keys(parse_query(q), TOPIC_KEYS) for q in _queries(value)):
            return True
    return False


def resolve_queries(request: R, snapshot: ClusterSnapshot) -> R:
    """The request with the names that match in the place of its queries; as it is without any.

    Recorded words keep the ids of brokers, since a plan is replanned by them, with the query beside. Raises
    `UsageError` where nothing matches, or where tags are needed and not known.
    """
    changes: dict[str, Any] = {}
    words: dict[str, str] = {}
    for name, value in _values(request):
        if isinstance(value, BrokerList) and value.where is not None:
            ids = tuple(sorted(brokers_where(snapshot, value.where)))
            if not ids:
                raise _nothing_error("broker", value.text, why_none(value.where, broker_table(snapshot)))
            changes[name] = BrokerList(ids=ids)
            words[value.text] = ",".join(map(str, ids))
        elif isinstance(value, tuple) and any(_queries(value)):
            changes[name] = tuple(_expand_patterns(snapshot, value, may_be_empty=name in ("topics_exclude", "pinned")))
        elif _is_request(value):
            inner = resolve_queries(value, snapshot)
            if inner is not value:
                changes[name] = inner
    if words and isinstance(recorded := getattr(request, "words", None), dict):
        changes["words"] = {
            key: found
            for name, text in recorded.items()
            for key, found in (((name, words[text]), (f"{name}-query", text)) if text in words else ((name, text),))
        }
    return replace(request, **changes) if changes else request  # type: ignore[type-var]


def _nothing_error(noun: str, text: str, lines: tuple[str, ...]) -> UsageError:
    error = UsageError(f"no {noun} matches {text!r:.200}")
    error.lines = lines
    return error


def _values(request: object) -> Iterator[tuple[str, Any]]:
    for each in fields(request) if is_dataclass(request) else ():
        yield each.name, getattr(request, each.name)


def _is_request(value: object) -> bool:
    """True for a request inside a request."""
    return is_dataclass(value) and not isinstance(value, type) and hasattr(value, "topics")


def _queries(patterns: tuple[object, ...]) -> list[str]:
    return [found for p in patterns if isinstance(p, str) and (found := query_of(p)) is not None]


def _expand_patterns(snapshot: ClusterSnapshot, patterns: tuple[str, ...], *, may_be_empty: bool) -> Iterator[str]:
    for pattern in patterns:
        query = query_of(pattern)
        if query is None:
            yield pattern
            continue
        found = topics_where(snapshot, parse_query(query))
        if not found and not may_be_empty:
            raise _nothing_error("topic", pattern, why_none(parse_query(query), topic_table(snapshot)))
        yield from found


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


def _keys(given: list[str] | None) -> tuple[str, ...]:
    keys = (key.strip() for text in given or () for key in text.split(","))
    return tuple(dict.fromkeys(key for key in keys if key))


def _join_texts(given: list[str] | None) -> str:
    return "; ".join(given or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class TagConstraints:
    """What a request asks for: spread over the values of keys, rules on topics and brokers, and broker sets.

    `sets` are those that are listed; `sets_by` is the tag whose values are sets, empty for none. `given` are the
    options, for the commands that hints name.
    """

    spread_by: tuple[str, ...] = parsed_option(
        None,
        "--spread-by",
        parse=_keys,
        typed=REPEATED,
        metavar="KEY,...",
        help="Spread the replicas of each partition over the values of each tag, in addition to racks. Repeatable.",
        recorded=lambda keys: ",".join(keys or ()),
    )
    affinity: tuple[TopicRule, ...] = parsed_option(
        None,
        "--affinity",
        parse=lambda given: tuple(r for text in given or () for r in parse_topic_rules(text, "--affinity")),
        typed=REPEATED,
        metavar="RULE",
        help="Put copies of topics only on matching brokers: 'topics where tier = hot: brokers where disk = nvme'. "
        "Repeatable.",
        recorded=_join_texts,
    )
    anti_affinity: tuple[TopicRule, ...] = parsed_option(
        None,
        "--anti-affinity",
        parse=lambda given: tuple(r for text in given or () for r in parse_topic_rules(text, "--anti-affinity")),
        typed=REPEATED,
        metavar="RULE",
        help="Put copies of topics on no matching broker. Repeatable.",
        recorded=_join_texts,
    )
    sets: tuple[BrokerSet, ...] = parsed_option(
        None,
        "--broker-set",
        parse=lambda given: tuple(parse_broker_set(text) for text in given or ()),
        typed=REPEATED,
        metavar="TOPICS: BROKERS",
        help="Put copies of these topics only on these brokers, and no other topic there. Repeatable.",
        recorded=_join_texts,
    )
    sets_by: str = parsed_option(
        "",
        "--broker-sets-by",
        parse=str.strip,
        metavar="KEY",
        help="A --broker-set for each value of a tag that brokers and topics have.",
        recorded=True,
    )
    given: tuple[tuple[str, str | None], ...] = options_given()

    @property
    def rules(self) -> tuple[TopicRule, ...]:
        """All rules on topics and brokers."""
        return (*self.affinity, *self.anti_affinity)

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
        found = [_spread_constraint(snapshot, key) for key in self.spread_by]
        found += [_rule(snapshot, rule, frozenset(topics)) for rule in self.rules]
        found += constraints_of(snapshot, self.sets, self.sets_by, frozenset(topics))
        return TagRules(found) if found else None


def _spread_constraint(snapshot: ClusterSnapshot, key: str) -> TagConstraint:
    table, open_to = broker_table(snapshot), {b.id for b in snapshot.brokers if b.is_alive} - snapshot.leaving
    column = table.column(key)
    values = {} if column is None else {int(name): column.value(i) for i, name in enumerate(table.names)}
    known = {b: v for b, v in values.items() if v and b in open_to}
    if not known:
        raise UsageError(f"--spread-by {key}: none of the {len(open_to)} live brokers has it")
    return TagConstraint(text=f"spread-by {key_text(key)}", values=known)


def _rule(snapshot: ClusterSnapshot, rule: TopicRule, topics: frozenset[str]) -> TagConstraint:
    brokers = tuple(sorted(brokers_where(snapshot, rule.brokers, missing=True)))
    if not brokers:
        known = few_of(sorted(b.id for b in snapshot.brokers))
        raise UsageError(f"--{rule.text}: no broker matches", hint=f"the brokers are {known}")
    bound = tuple(sorted(topics.intersection(topics_where(snapshot, rule.topics))))
    return TagConstraint(
        text=rule.text,
        topics=bound,
        only=None if rule.apart else brokers,
        never=brokers if rule.apart else (),
    )


FLAG, BY_FLAG = "--broker-set", "--broker-sets-by"


def constraints_of(
    snapshot: ClusterSnapshot, sets: Collection[BrokerSet], by: str, topics: frozenset[str]
) -> list[TagConstraint]:
    """The sets on a cluster: their topics go nowhere else, and other topics go on none of their brokers.

    Raises `UsageError` for sets without brokers, and for a broker or a topic in two sets.
    """
    found = [_set_constraint(snapshot, each, topics) for each in sets] + (
        list(_tag_constraints(snapshot, by, topics)) if by else []
    )
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


def _set_constraint(snapshot: ClusterSnapshot, each: BrokerSet, topics: frozenset[str]) -> TagConstraint:
    known = frozenset(b.id for b in snapshot.brokers)  # also those that are gone: what stands there is in its place
    if each.brokers.where is not None:
        brokers = tuple(sorted(brokers_where(snapshot, each.brokers.where, missing=True)))
    else:
        holding = frozenset(b for _, p in snapshot.partitions() for b in p.replicas)
        brokers = each.brokers.resolve(holding, known)
    if not brokers or not known.issuperset(brokers):
        wrong = f"{few_of(sorted(set(brokers) - known))} not in this cluster" if brokers else "no broker matches"
        raise UsageError(f"{FLAG} '{each.text}': {wrong}", hint=f"the brokers are {few_of(sorted(known))}")
    bound: set[str] = set()
    for pattern in each.topics:
        query = query_of(pattern)
        matched = matching_topics(topics, (pattern,)) if query is None else topics_where(snapshot, parse_query(query))
        bound.update(topics.intersection(matched))
    return TagConstraint(text=f"broker-set '{each.text}'", topics=tuple(sorted(bound)), only=brokers)


def _tag_constraints(snapshot: ClusterSnapshot, key: str, topics: frozenset[str]) -> Iterator[TagConstraint]:
    tags = snapshot.tags or TagSet()
    of_broker, of_topic = _by_value(tags.brokers, key), _by_value(tags.topics, key)
    if not of_broker:
        raise UsageError(f"{BY_FLAG} {key}: no broker has this tag")
    known = {b.id for b in snapshot.brokers}
    for value in sorted({*of_broker, *of_topic}):
        brokers = tuple(sorted(known.intersection(of_broker.get(value, ()))))
        bound = tuple(sorted(topics.intersection(of_topic.get(value, ()))))
        if bound and not brokers:
            raise UsageError(f"{BY_FLAG} {key}: no broker has {key} = {value}, and topic {few_of(bound)} does")
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


NO_CONSTRAINTS = TagConstraints()


def parse_broker_set(text: str) -> BrokerSet:
    """Read `TOPICS: BROKERS`; `UsageError` for what is not."""
    topics, mark, brokers = text.rpartition(":")
    patterns = parse_patterns(topics.strip()) if mark else ()
    if not patterns or not brokers.strip():
        raise UsageError(f"{FLAG}: {text[:80]!r} is not TOPICS: BROKERS", hint=f"such as {FLAG} 'orders.*: 1001,1002'")
    return BrokerSet(patterns, parse_broker_list(brokers.strip(), FLAG), text.strip())
