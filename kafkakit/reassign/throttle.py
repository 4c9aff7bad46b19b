"""Which throttle entries and rates a batch needs, and how to take exactly those away again.

Lists are exact (`partition:broker`), never `*`: a wildcard counts in-sync traffic too and can hold the
move at zero. What others put there stays.
"""

from collections.abc import Iterable, Mapping, Sequence

from kafkakit.model import TopicPartition
from kafkakit.ports import ConfigChange, ConfigOp, ResourceKind
from kafkakit.reassign.goals import LIST_LIMIT, Goal
from kafkakit.reassign.journal_state import ConfigKey, RateHold

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
LIST_KEYS = (LEADER_LIST, FOLLOWER_LIST)
WILDCARD = "*"

Configs = Mapping[str, Mapping[str, str]]


def rate_keys(goals: Iterable[Goal]) -> frozenset[ConfigKey]:
    """The broker rates that the goals' data passes through: sources lead, destinations follow."""
    keys: set[ConfigKey] = set()
    for goal in goals:
        if goal.adding:
            keys.update(ConfigKey(ResourceKind.BROKER, str(b), LEADER_RATE) for b in goal.holders)
            keys.update(ConfigKey(ResourceKind.BROKER, str(b), FOLLOWER_RATE) for b in goal.adding)
    return frozenset(keys)


def rate_changes(keys: Iterable[ConfigKey], rate: int, brokers: Configs) -> list[tuple[ConfigChange, str | None]]:
    """Changes that bring each rate to `rate`, with the value each replaces; those that have it are left out."""
    changes: list[tuple[ConfigChange, str | None]] = []
    for key in sorted(keys):
        earlier = brokers.get(key.name, {}).get(key.key)
        if earlier != str(rate):
            changes.append((_change(key, ConfigOp.SET, str(rate)), earlier))
    return changes


def entry_changes(goals: Iterable[Goal], topics: Configs) -> list[ConfigChange]:
    """APPEND changes for the goals' entries that are not there yet, in pieces Kafka accepts.

    A list that is `*` already covers everything and is left alone.
    """
    wanted: dict[ConfigKey, list[str]] = {}
    for goal in goals:
        for name, needed in ((LEADER_LIST, goal.leader_entries), (FOLLOWER_LIST, goal.follower_entries)):
            if needed:
                wanted.setdefault(ConfigKey(ResourceKind.TOPIC, goal.key.topic, name), []).extend(needed)
    changes: list[ConfigChange] = []
    for key, entries in sorted(wanted.items()):
        there = set(split_list(topics.get(key.name, {}).get(key.key)))
        if WILDCARD not in there:
            missing = [e for e in entries if e not in there]
            changes += [_change(key, ConfigOp.APPEND, piece) for piece in pieces(missing)]
    return changes


def entries_of(goals: Iterable[Goal], held: Mapping[ConfigKey, Sequence[str]]) -> dict[ConfigKey, tuple[str, ...]]:
    """Those of the held entries that belong to the goals' partitions."""
    partitions = {g.key for g in goals}
    found: dict[ConfigKey, tuple[str, ...]] = {}
    for key, entries in held.items():
        own = tuple(e for e in entries if TopicPartition(key.name, int(e.split(":")[0])) in partitions)
        if own:
            found[key] = own
    return found


def removal_changes(held: Mapping[ConfigKey, Sequence[str]], topics: Configs) -> list[ConfigChange]:
    """SUBTRACT changes for our entries; a topic that is gone, or lost the entries, needs none."""
    changes: list[ConfigChange] = []
    for key, entries in sorted(held.items()):
        there = set(split_list(topics.get(key.name, {}).get(key.key)))
        ours = [e for e in entries if e in there]
        changes += [_change(key, ConfigOp.SUBTRACT, piece) for piece in pieces(ours)]
    return changes


def empty_list_changes(keys: Iterable[ConfigKey], topics: Configs) -> list[ConfigChange]:
    """DELETE changes for lists that are set but hold nothing: SUBTRACT of all entries leaves that behind."""
    return [_change(k, ConfigOp.DELETE, None) for k in sorted(keys) if topics.get(k.name, {}).get(k.key) == ""]


def restore_changes(
    held: Mapping[ConfigKey, RateHold], brokers: Configs
) -> tuple[list[ConfigChange], list[ConfigKey], list[ConfigKey]]:
    """How to give broker rates back: (changes, keys that have their earlier value, keys others changed since).

    A value that is not one we set is somebody else's by now and is left alone. Brokers absent from
    `brokers` are not judged.
    """
    changes: list[ConfigChange] = []
    settled: list[ConfigKey] = []
    foreign: list[ConfigKey] = []
    for key, hold in sorted(held.items()):
        if key.name not in brokers:
            continue
        now = brokers[key.name].get(key.key)
        if now in hold.ours and now != hold.earlier:
            op = ConfigOp.DELETE if hold.earlier is None else ConfigOp.SET
            changes.append(_change(key, op, hold.earlier))
        elif now == hold.earlier:
            settled.append(key)
        else:
            foreign.append(key)
    return changes, settled, foreign


def taken_bytes(goals: Iterable[Goal], topics: Configs) -> dict[tuple[str, str], int]:
    """Bytes that each topic's lists hold already, for `goals.batches`."""
    names = {g.key.topic for g in goals}
    return {(t, k): len(topics.get(t, {}).get(k, "")) + 1 for t in names for k in LIST_KEYS}


def shows(change: ConfigChange, now: Configs) -> bool:
    """True when a read shows the change's effect (reads lag behind writes by a moment)."""
    value = now.get(change.name, {}).get(change.key)
    match change.op:
        case ConfigOp.SET:
            return value == change.value
        case ConfigOp.DELETE:
            return value is None
        case ConfigOp.APPEND:
            return set(split_list(change.value)) <= set(split_list(value))
        case ConfigOp.SUBTRACT:
            return not set(split_list(change.value)) & set(split_list(value))


def split_list(value: str | None) -> list[str]:
    """The entries of a throttle list value."""
    return [e.strip() for e in (value or "").split(",") if e.strip()]


def pieces(entries: Sequence[str]) -> list[str]:
    """Join entries into values of at most `LIST_LIMIT` bytes each."""
    found: list[str] = []
    current: list[str] = []
    length = 0
    for entry in entries:
        if current and length + len(entry) + 1 > LIST_LIMIT:
            found.append(",".join(current))
            current, length = [], 0
        current.append(entry)
        length += len(entry) + 1
    return [*found, ",".join(current)] if current else found


def _change(key: ConfigKey, op: ConfigOp, value: str | None) -> ConfigChange:
    return ConfigChange(kind=key.kind, name=key.name, key=key.key, op=op, value=value)
