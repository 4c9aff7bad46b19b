"""Copying all tags from one store to another: what is to be written, and whether both hold the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from kafkakit.registry.decide.tags import Kind, Tags, encode_tags

TagTables = Mapping[Kind, Mapping[str, Tags]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreContent:
    """How many objects of each kind have tags in a store, and the SHA-256 of all of them in hex."""

    brokers: int
    topics: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What to write, by kind and name; `others` are objects that only the target has, or with other tags."""

    writes: tuple[tuple[Kind, str, Tags], ...]
    same: int
    others: tuple[str, ...]


def content_of(tables: TagTables) -> StoreContent:
    """What a store holds; records without tags do not count. O(tags)."""
    digest = sha256()
    counts = dict.fromkeys(Kind, 0)
    for kind in Kind:
        for name, tags in sorted(tables[kind].items()):
            if tags:
                counts[kind] += 1
                line = b"\0".join((str(kind).encode(), name.encode(), encode_tags(tags)))
                digest.update(b"%d:%s" % (len(line), line))
    return StoreContent(brokers=counts[Kind.BROKER], topics=counts[Kind.TOPIC], digest=digest.hexdigest())


def plan_migration(source: TagTables, target: TagTables) -> MigrationPlan:
    """What the target lacks: where it has an object already, the source's tags go over the target's."""
    writes: list[tuple[Kind, str, Tags]] = []
    others: list[str] = []
    same = 0
    for kind in Kind:
        for name in sorted({*source[kind], *target[kind]}):
            ours, theirs = source[kind].get(name) or {}, target[kind].get(name) or {}
            if theirs and theirs != ours:
                others.append(f"{kind} {name}")
            if ours and theirs == ours:
                same += 1
            elif ours and {**theirs, **ours} != theirs:
                writes.append((kind, name, ours))
    return MigrationPlan(writes=tuple(writes), same=same, others=tuple(others))
