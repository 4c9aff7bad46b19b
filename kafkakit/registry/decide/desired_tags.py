"""Which tags objects are to have, by a file or by Kubernetes' labels, and what has to change for that.

    topics:
      - names: [orders, payments]
        tags: {team: pay}
      - where: name like "log-*"
        tags: {tier: cold}
    brokers:
      - where: rack = "a"
        tags: {zone: eu-1a}

Topics and brokers are those that the registry's replies give; a command selects them by names, regular expressions of
topics, or `where QUERY`. Labels are what `kubectl get pods,nodes -o json` or `-o yaml` prints: fields are those of
Kubernetes' API (`v1` List, Pod and Node); all others are ignored. A change is what an object has, and what it is to
have.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kafkakit.config.keys import did_you_mean
from kafkakit.core.documents import decode_tree, decoded_json
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, UsageError
from kafkakit.core.query import (
    ADDRESSED,
    NAMED,
    REPLICATION,
    Makers,
    names_matching,
    number_column,
    object_table,
    unknown_keys,
)
from kafkakit.core.query_text import parse_query
from kafkakit.core.rpc import RpcError
from kafkakit.core.selection import ALL, EXISTING, is_topic_name, matching_topics, query_of
from kafkakit.core.text import few_of, sanitize
from kafkakit.core.yaml_json import ANY_FILE, sound_document
from kafkakit.kubernetes.objects import KubernetesNode, KubernetesObjects, Pod, broker_id
from kafkakit.registry.decide.tags import (
    MARK,
    ObjectKind,
    Tags,
    changed_keys,
    is_broker_id,
    merge_tags,
    remove_tags,
    tags_to_set,
)

MAX_FILE_BYTES = 16 << 20
MAX_RULES = 10_000


class TagRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tags for the objects that `names` lists or that match the query `where`."""

    tags: dict[str, str | int]
    names: tuple[str | int, ...] = ()
    where: str = ""


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topics: tuple[TagRule, ...] | None = None
    brokers: tuple[TagRule, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTags:
    """The rules by kind, checked; a kind that the file does not name is absent. `source` is for errors."""

    source: str
    rules: Mapping[ObjectKind, tuple[TagRule, ...]]


@dataclass(frozen=True, slots=True)
class _WantedTags:
    tags: dict[str, str] = field(default_factory=dict)
    rule_of: dict[str, str] = field(default_factory=dict)


def read_desired(data: bytes, source: str) -> DesiredTags:
    """The rules of a YAML or JSON file; `InputError` names the rule that cannot be used."""
    document = decode_tree(sound_document(data, source, ANY_FILE), _Document, prefix="is not a tags file: ")
    given = {ObjectKind.TOPIC: document.topics, ObjectKind.BROKER: document.brokers}
    rules = {kind: found for kind, found in given.items() if found is not None}
    if not rules:
        raise InputError(source, "names neither topics nor brokers")
    if sum(map(len, rules.values())) > MAX_RULES:
        raise InputError(source, f"has more than {MAX_RULES:,} rules")
    for kind, found in rules.items():
        for number, rule in enumerate(found, 1):
            _check(kind, number, rule, source)
    return DesiredTags(source=source, rules=rules)


def brokers_named(desired: DesiredTags) -> frozenset[int]:
    """The brokers that rules name by id."""
    rules = desired.rules.get(ObjectKind.BROKER, ())
    return named_brokers(str(name) for rule in rules for name in rule.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagChange:
    """The tags of one object before and after; keys of neither are not touched by name."""

    kind: ObjectKind
    name: str
    before: Tags
    after: Tags

    @property
    def lines(self) -> tuple[str, ...]:
        """`+ key: value`, `- key: value` and `~ key: old -> new`, sorted by key."""
        put, removed = changed_keys(self.before, self.after)
        return tuple(_line(key, self.before.get(key), put.get(key)) for key in sorted({*put, *removed}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChanges:
    """What has to change, by kind and name, and what is to be said about it."""

    changes: tuple[TagChange, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaList:
    """The brokers of a partition, the preferred leader first."""

    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """A topic with its tags; `replicas` by partition only where they were asked for."""

    name: str
    partitions: int = 0
    replication: int = 0
    tags: Tags = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[int, ReplicaList] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEntry:
    """A live broker with its tags."""

    id: int
    host: str = ""
    port: int = 0
    rack: str = ""
    interbrokerprotocolversion: str = ""
    logmessageformat: str = ""
    tags: Tags = field(default_factory=dict)


def plan_desired(
    desired: DesiredTags,
    topics: Mapping[str, TopicEntry],
    brokers: Mapping[int, BrokerEntry],
    down: Mapping[int, BrokerEntry],
    prune: Sequence[str],
) -> PlannedChanges:
    """The changes to make; keys that begin with one of `prune` and that no rule asks for are removed.

    Only from objects of the kinds that the file names; queries do not match brokers that are `down`. A rule
    that matches nothing is a warning. Raises `InputError` for a name that does not exist, and where two rules ask for
    different values of one key.
    """
    changes: list[TagChange] = []
    warnings = [*not_live(down)]
    for kind, rules in desired.rules.items():
        live: Entries = topics if kind is ObjectKind.TOPIC else brokers
        entries: Entries = topics if kind is ObjectKind.TOPIC else {**brokers, **down}
        wanted, unmatched = _wanted_tags(kind, rules, entries, live, desired.source)
        warnings += unmatched
        for name, before in tags_of(entries).items():
            asked = wanted[name].tags if name in wanted else {}
            kept = {k: v for k, v in before.items() if k in asked or k == MARK or not k.startswith(tuple(prune))}
            after = merge_tags(kind, name, kept, asked)
            if after != before:
                changes.append(TagChange(kind=kind, name=name, before=before, after=after))
    return PlannedChanges(changes=tuple(changes), warnings=tuple(warnings))


MAX_NAMES = 10_000
Entries = Mapping[str, TopicEntry] | Mapping[int, BrokerEntry]
_OWN: Mapping[ObjectKind, Makers] = {
    ObjectKind.TOPIC: {
        **NAMED,
        "partitions": lambda topics: number_column([t.partitions for t in topics]),
        **dict.fromkeys(REPLICATION, lambda topics: number_column([t.replication for t in topics])),
    },
    ObjectKind.BROKER: ADDRESSED,
}
# What planning can ask of a cluster, and what the registry does not know.
_ELSEWHERE = {
    ObjectKind.TOPIC: frozenset({"bytes", "under_replicated"}),
    ObjectKind.BROKER: frozenset({"state", "is_alive", "free_bytes", "total_bytes", "replicas", "leaders"}),
}


def _wanted_tags(
    kind: ObjectKind, rules: Sequence[TagRule], entries: Entries, live: Entries, source: str
) -> tuple[dict[str, _WantedTags], list[str]]:
    wanted: dict[str, _WantedTags] = {}
    unmatched: list[str] = []
    for number, rule in enumerate(rules, 1):
        names = _names(kind, number, rule, live if rule.where else entries, source)
        if not names:
            unmatched.append(f"{source}: {_title(kind, number)} matches no {kind}: {sanitize(rule.where[:100])}")
        for name in names:
            own = wanted.setdefault(name, _WantedTags())
            for key, value in _texts(rule).items():
                if own.tags.setdefault(key, value) != value:
                    problem = f"and {_title(kind, number)} ask for different values of {key} of {kind} {name}"
                    raise InputError(source, f"{own.rule_of[key]} {problem}")
                own.rule_of.setdefault(key, _title(kind, number))
    return wanted, unmatched


def _names(kind: ObjectKind, number: int, rule: TagRule, entries: Entries, source: str) -> tuple[str, ...]:
    try:
        if rule.where:
            return matching_names(kind, rule.where, entries)
        return exact_names(kind, [str(name) for name in rule.names], entries)
    except UsageError as error:
        raise InputError(source, f"{_title(kind, number)}: {error.message}", hint=error.hint) from None


def _check(kind: ObjectKind, number: int, rule: TagRule, source: str) -> None:
    if bool(rule.names) == bool(rule.where):
        raise InputError(source, f"{_title(kind, number)} needs either names or where")
    try:
        tags_to_set(kind, tuple(f"{key}:{value}" for key, value in _texts(rule).items()))
    except RpcError as error:
        raise InputError(source, f"{_title(kind, number)}: {error.message}") from None


def _texts(rule: TagRule) -> Tags:
    return {key: str(value) for key, value in rule.tags.items()}


def _title(kind: ObjectKind, number: int) -> str:
    return f"rule {number} of {kind}s"


def rules_of_brokers(tags: Mapping[int, Tags]) -> Iterator[TagRule]:
    """Rules that name brokers, those with equal tags together."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for broker, own in sorted(tags.items()):
        groups.setdefault(tuple(sorted(own.items())), []).append(broker)
    for own_tags, ids in groups.items():
        yield TagRule(names=tuple(ids), tags=dict(own_tags))


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelImport:
    """Which label becomes which tag, and how a pod's broker is known: by a label, or by its ordinal plus `first_id`."""

    tag_of: Mapping[str, str]
    id_label: str | None = None
    first_id: int = 0


def parse_label_map(given: Sequence[str]) -> dict[str, str]:
    """`label=tag` texts, or `label` alone for a tag of the same name; `UsageError` for others."""
    found: dict[str, str] = {}
    for text in given:
        label, _, tag = text.partition("=")
        if not label.strip() or label in found:
            raise UsageError(f"--map: {sanitize(text[:80])!r} names no label of its own", hint="write LABEL=TAG")
        found[label.strip()] = tag.strip() or label.strip()
    return found


def import_labels(found: KubernetesObjects, request: LabelImport) -> DesiredTags:
    """The tags of brokers: labels of a pod, and those of its node below them, where both are given.

    Without pods each node is a broker, known by `id_label`. Raises `InputError` for a pod or node whose broker is not
    known, and for two of one broker.
    """
    source = found.source
    objects: Sequence[Pod | KubernetesNode] = found.pods or tuple(found.nodes.values())
    if not objects:
        raise InputError(source, "holds no pods or nodes")
    tags_by_broker: dict[int, Tags] = {}
    names: dict[int, str] = {}
    for each in objects:
        node = found.nodes.get(each.node or "") if isinstance(each, Pod) else None
        labels = {**(node.labels if node is not None else {}), **each.labels}
        broker = _broker_of(each, labels, request, source)
        if broker in tags_by_broker:
            problem = f"{names[broker]} and {each.name} are both broker {broker}"
            raise InputError(source, problem, hint="choose pods with kubectl get pods -l, or give --id-label")
        tags = {tag: labels[label] for label, tag in request.tag_of.items() if labels.get(label)}
        tags_by_broker[broker], names[broker] = tags, sanitize(each.name[:200])
    rules = tuple(rules_of_brokers({broker: tags for broker, tags in tags_by_broker.items() if tags}))
    if not rules:
        raise InputError(source, f"no pod or node has a label of {', '.join(request.tag_of)}")
    return DesiredTags(source=source, rules={ObjectKind.BROKER: rules})


def _broker_of(each: Pod | KubernetesNode, labels: Mapping[str, str], request: LabelImport, source: str) -> int:
    name = sanitize(each.name[:200])
    if request.id_label is not None:
        broker, problem = (
            broker_id(labels.get(request.id_label, "")),
            f"has no broker id in the label {request.id_label}",
        )
    elif isinstance(each, Pod):
        broker, problem = broker_id(each.ordinal, request.first_id), "has no ordinal at the end of its name"
    else:
        raise InputError(source, f"node {name} names no broker", hint="give --id-label")
    if broker is None:
        kind = "pod" if isinstance(each, Pod) else "node"
        raise InputError(source, f"{kind} {name} {problem}", hint="give --id-label")
    return broker


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOutcome:
    """What became of a change: `done`, or `conflict` or `failed` with the reason."""

    change: TagChange
    state: str
    reason: str = ""


def changes_setting(
    kind: ObjectKind, names: Iterable[str], tags: Mapping[str, Tags], given: Tags
) -> tuple[TagChange, ...]:
    """Tags set on each object beside its own; those that have them already are left out. `RpcError` for too many."""
    made = ((name, tags.get(name, {})) for name in names)
    return _changes(kind, ((name, before, merge_tags(kind, name, before, given)) for name, before in made))


def changes_deleting(
    kind: ObjectKind, names: Iterable[str], tags: Mapping[str, Tags], keys: Collection[str]
) -> tuple[TagChange, ...]:
    """Keys taken from each object; those without them are left out."""
    made = ((name, tags.get(name, {})) for name in names)
    return _changes(kind, ((name, before, remove_tags(before, keys)) for name, before in made))


def failed_outcome(change: TagChange, state: str, error: KafkakitError) -> ChangeOutcome:
    """A change that was not made."""
    return ChangeOutcome(change=change, state=state, reason=error.message)


def named_brokers(names: Iterable[str]) -> frozenset[int]:
    """The ids among names; what is no id is left to the search for names."""
    return frozenset(int(name) for each in names if is_broker_id(name := each.strip()))


def not_live(brokers: Iterable[int]) -> tuple[str, ...]:
    """A line on brokers that are tagged although they are down; none without any."""
    found = [str(broker) for broker in sorted(brokers)]
    if not found:
        return ()
    return (f"broker {found[0]} is not live" if len(found) == 1 else f"brokers {few_of(found)} are not live",)


def changed_meanwhile(kind: ObjectKind, name: str) -> ConflictError:
    """The error where tags are not those that a change was made from."""
    return ConflictError(f"the tags of {kind} {name} were changed by another process")


def _changes(kind: ObjectKind, found: Iterable[tuple[str, Tags, Tags]]) -> tuple[TagChange, ...]:
    return tuple(TagChange(kind=kind, name=n, before=b, after=a) for n, b, a in found if a != b)


def _line(key: str, old: str | None, new: str | None) -> str:
    if old is None:
        return f"+ {key}: {new}"
    return f"- {key}: {old}" if new is None else f"~ {key}: {old} -> {new}"


def choose_names(kind: ObjectKind, text: str, entries: Entries) -> tuple[str, ...]:
    """The names that a text means: a list with commas, or a query; sorted as the entries are.

    A list of topics may hold regular expressions, and -2 among brokers means all of them. Raises `UsageError` for a
    name that does not exist, with the nearest, and where nothing is meant.
    """
    query = query_of(text)
    if query is not None:
        found = matching_names(kind, query, entries)
    else:
        listed = [name for word in text.split(",") for name in _names_of_word(kind, word.strip(), entries)]
        found = exact_names(kind, listed, entries)
    if not found:
        raise UsageError(f"no {kind} matches {sanitize(text.strip()[:200])!r}")
    return found


def is_exact(kind: ObjectKind, text: str) -> bool:
    """Whether every object is named, so that no more of them can be meant than the text shows."""
    words = [word.strip() for word in text.split(",")]
    all_named = all(is_topic_name(word) or not word for word in words)
    return query_of(text) is None and all_named and (kind is ObjectKind.TOPIC or str(ALL) not in words)


def _names_of_word(kind: ObjectKind, word: str, entries: Entries) -> Iterable[str]:
    if kind is ObjectKind.BROKER and word == str(ALL):
        return map(str, entries)
    if kind is ObjectKind.BROKER and word == str(EXISTING):
        raise UsageError("-1 is not taken here: which brokers hold replicas is not known", hint="-2: all brokers")
    if kind is ObjectKind.BROKER or is_topic_name(word):
        return (word,)
    names = frozenset(map(str, entries))
    return sorted(matching_topics(names, (word,))) or (word,)


def exact_names(kind: ObjectKind, given: Collection[str], entries: Entries) -> tuple[str, ...]:
    """The names, each of which must exist; `UsageError` names one that does not, and the nearest that does."""
    known = {str(name) for name in entries}
    names = list(dict.fromkeys(name.strip() for name in given if name.strip()))
    if len(names) > MAX_NAMES:
        raise UsageError(f"{len(names):,} names are given, at most {MAX_NAMES:,} are taken: use a query")
    missing = [name for name in names if name not in known]
    if missing:
        also = f", nor {len(missing) - 1:,} others of the list" if len(missing) > 1 else ""
        what = "live broker" if kind is ObjectKind.BROKER else "topic"
        guess = did_you_mean(missing[0], known)
        hint = "topics that the user may not describe are not seen" if kind is ObjectKind.TOPIC else None
        raise UsageError(f"there is no {what} {sanitize(missing[0][:100])}{also}{guess}", hint=hint)
    return tuple(names)


def matching_names(kind: ObjectKind, query: str, entries: Entries) -> tuple[str, ...]:
    """The names of the entries that match; raises `QueryError`, and `UsageError` for keys that cannot be known."""
    node, own = parse_query(query), _OWN[kind]
    objects: list[Any] = list(entries.values())
    configs = (lambda each: each.configs) if kind is ObjectKind.TOPIC else None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPair:
    """An offset in the upstream cluster and the one that stands for it here; 64-bit numbers are texts in JSON."""

    upstreamOffset: int = 0  # noqa: N815 - the name in the reply
    localOffset: int = 0  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntries:
    """TopicResponse."""

    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEntries:
    """BrokerResponse."""

    brokers: Mapping[int, BrokerEntry] = field(default_factory=dict)
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntries:
    """TranslateOffsetResponse."""

    offsets: Mapping[str, OffsetPair] = field(default_factory=dict)


def decoded_reply(data: bytes, shape: type[T]) -> T:
    """A reply as a value; `InputError` for what is none."""
    try:
        return decoded_json(data, shape, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            "the registry", f"gives an answer that is not a registry response: {str(error)[:200]}"
        ) from None
