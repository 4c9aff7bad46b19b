"""Changes of tags as values: what an object has, and what it is to have."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kafkakit.core.errors import ConflictError, KafkakitError
from kafkakit.core.lists_in_words import some
from kafkakit.registry.decide.tags import Kind, Tags, changed_keys, is_broker_id, merged, without


@dataclass(frozen=True, slots=True, kw_only=True)
class TagChange:
    """The tags of one object before and after; keys of neither are not touched by name."""

    kind: Kind
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
class ChangeOutcome:
    """What became of a change: `done`, or `conflict` or `failed` with the reason."""

    change: TagChange
    state: str
    reason: str = ""


def changes_setting(kind: Kind, names: Iterable[str], tags: Mapping[str, Tags], given: Tags) -> tuple[TagChange, ...]:
    """Tags set on each object beside its own; those that have them already are left out. `RpcError` for too many."""
    made = ((name, tags.get(name, {})) for name in names)
    return _changes(kind, ((name, before, merged(kind, name, before, given)) for name, before in made))


def changes_deleting(
    kind: Kind, names: Iterable[str], tags: Mapping[str, Tags], keys: Collection[str]
) -> tuple[TagChange, ...]:
    """Keys taken from each object; those without them are left out."""
    made = ((name, tags.get(name, {})) for name in names)
    return _changes(kind, ((name, before, without(before, keys)) for name, before in made))


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
    return (f"broker {found[0]} is not live" if len(found) == 1 else f"brokers {some(found)} are not live",)


def changed_meanwhile(kind: Kind, name: str) -> ConflictError:
    """The error where tags are not those that a change was made from."""
    return ConflictError(f"the tags of {kind} {name} were changed by another process")


def _changes(kind: Kind, found: Iterable[tuple[str, Tags, Tags]]) -> tuple[TagChange, ...]:
    return tuple(TagChange(kind=kind, name=n, before=b, after=a) for n, b, a in found if a != b)


def _line(key: str, old: str | None, new: str | None) -> str:
    if old is None:
        return f"+ {key}: {new}"
    return f"- {key}: {old}" if new is None else f"~ {key}: {old} -> {new}"
