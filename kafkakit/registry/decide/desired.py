"""The tags that a file asks for, and what has to change for them.

topics:
  - names: [orders, payments]
    tags: {team: pay}
  - where: name like "log-*"
    tags: {tier: cold}
brokers:
  - where: rack = "a"
    tags: {zone: eu-1a}
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.printable import printable
from kafkakit.core.rpc import RpcError
from kafkakit.registry.decide.changes import PlannedChanges, TagChange, named_brokers, not_live
from kafkakit.registry.decide.entries import BrokerEntry, TopicEntry
from kafkakit.registry.decide.selection import Entries, exact_names, matching_names, tags_of
from kafkakit.registry.decide.tags import MARK, Kind, Tags, merged, tags_to_set

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
    rules: Mapping[Kind, tuple[TagRule, ...]]


@dataclass(frozen=True, slots=True)
class _Wanted:
    tags: dict[str, str] = field(default_factory=dict)
    rule_of: dict[str, str] = field(default_factory=dict)


def read_desired(data: bytes, source: str) -> DesiredTags:
    """The rules of a YAML or JSON file; `InputError` names the rule that cannot be used."""
    try:
        document = msgspec.yaml.decode(data, type=_Document)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InputError(source, f"is no file of tags: {' '.join(str(error).split())[:200]}") from None
    given = {Kind.TOPIC: document.topics, Kind.BROKER: document.brokers}
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
    rules = desired.rules.get(Kind.BROKER, ())
    return named_brokers(str(name) for rule in rules for name in rule.names)


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
        live: Entries = topics if kind is Kind.TOPIC else brokers
        entries: Entries = topics if kind is Kind.TOPIC else {**brokers, **down}
        wanted, unmatched = _wanted(kind, rules, entries, live, desired.source)
        warnings += unmatched
        for name, before in tags_of(entries).items():
            asked = wanted[name].tags if name in wanted else {}
            kept = {k: v for k, v in before.items() if k in asked or k == MARK or not k.startswith(tuple(prune))}
            after = merged(kind, name, kept, asked)
            if after != before:
                changes.append(TagChange(kind=kind, name=name, before=before, after=after))
    return PlannedChanges(changes=tuple(changes), warnings=tuple(warnings))


def _wanted(
    kind: Kind, rules: Sequence[TagRule], entries: Entries, live: Entries, source: str
) -> tuple[dict[str, _Wanted], list[str]]:
    wanted: dict[str, _Wanted] = {}
    unmatched: list[str] = []
    for number, rule in enumerate(rules, 1):
        names = _names(kind, number, rule, live if rule.where else entries, source)
        if not names:
            unmatched.append(f"{source}: {_title(kind, number)} matches no {kind}: {printable(rule.where[:100])}")
        for name in names:
            own = wanted.setdefault(name, _Wanted())
            for key, value in _texts(rule).items():
                if own.tags.setdefault(key, value) != value:
                    problem = f"and {_title(kind, number)} ask for different values of {key} of {kind} {name}"
                    raise InputError(source, f"{own.rule_of[key]} {problem}")
                own.rule_of.setdefault(key, _title(kind, number))
    return wanted, unmatched


def _names(kind: Kind, number: int, rule: TagRule, entries: Entries, source: str) -> tuple[str, ...]:
    try:
        if rule.where:
            return matching_names(kind, rule.where, entries)
        return exact_names(kind, [str(name) for name in rule.names], entries)
    except UsageError as error:
        raise InputError(source, f"{_title(kind, number)}: {error.message}", hint=error.hint) from None


def _check(kind: Kind, number: int, rule: TagRule, source: str) -> None:
    if bool(rule.names) == bool(rule.where):
        raise InputError(source, f"{_title(kind, number)} needs either names or where")
    try:
        tags_to_set(kind, tuple(f"{key}:{value}" for key, value in _texts(rule).items()))
    except RpcError as error:
        raise InputError(source, f"{_title(kind, number)}: {error.message}") from None


def _texts(rule: TagRule) -> Tags:
    return {key: str(value) for key, value in rule.tags.items()}


def _title(kind: Kind, number: int) -> str:
    return f"rule {number} of {kind}s"


def rules_of_brokers(tags: Mapping[int, Tags]) -> Iterator[TagRule]:
    """Rules that name brokers, those with equal tags together."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for broker, own in sorted(tags.items()):
        groups.setdefault(tuple(sorted(own.items())), []).append(broker)
    for own_tags, ids in groups.items():
        yield TagRule(names=tuple(ids), tags=dict(own_tags))
