"""Which throttle entries and rates moves need, and how to take exactly those away again.

Lists are exact (`partition:broker`), never `*`: a wildcard counts in-sync traffic too and can hold the
move at zero. What others put there stays.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.journal import ConfigKey, RateHold, change_of
from kafkakit.execution.decide.plan_state import LIST_LIMIT, MoveGoal, list_items
from kafkakit.execution.decide.schedule.work import BrokerRates

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
INSIDE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
RATE_KEYS = (LEADER_RATE, FOLLOWER_RATE, INSIDE_RATE)
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
LIST_KEYS = (LEADER_LIST, FOLLOWER_LIST)
WILDCARD = "*"

Configs = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCapacity:
    """Which goals' entries fit into their topics' lists now, in the order given; the rest waits.

    `blocked` are those that cannot fit while others' entries stay, with the reason.
    """

    fits: tuple[MoveGoal, ...] = ()
    blocked: Mapping[TopicPartition, str] = field(default_factory=dict)


def wanted_rates(goals: Iterable[MoveGoal], rates: BrokerRates) -> dict[ConfigKey, int]:
    """The limits on brokers that the goals' data passes through: sources lead, destinations follow."""
    found: dict[ConfigKey, int] = {}
    for goal in goals:
        if goal.adding:
            sides = ((LEADER_RATE, goal.holders, rates.out_of_broker), (FOLLOWER_RATE, goal.adding, rates.into_broker))
            for name, brokers, limit_of in sides:
                limits = {b: limit_of(b) for b in brokers}
                found |= {_rate_key(b, name): limit for b, limit in limits.items() if limit is not None}
    return found


def inside_rates(brokers: Iterable[int], rates: BrokerRates) -> dict[ConfigKey, int]:
    """The limits on brokers whose copies change dirs."""
    return {} if rates.inside is None else {_rate_key(b, INSIDE_RATE): rates.inside for b in brokers}


def rate_changes(
    wanted: Mapping[ConfigKey, int],
    held: Mapping[ConfigKey, RateHold],
    brokers: Configs,
    under: Mapping[ConfigKey, RateHold],
) -> tuple[dict[ConfigChange, str | None], list[ConfigKey]]:
    """(changes that set the wanted rates, each with the value it replaces; keys that others changed since we set them).

    A rate that is there already needs no change. What others changed is theirs and is left alone. Of a rate `under`
    ours, the pacer's, the value before it is the earlier one: the pacer may be gone when ours goes.
    """
    changes: dict[ConfigChange, str | None] = {}
    foreign: list[ConfigKey] = []
    for key, rate in sorted(wanted.items()):
        now, hold = brokers.get(key.name, {}).get(key.key), held.get(key)
        if hold is not None and now != hold.earlier and now not in hold.ours:
            foreign.append(key)
        elif now != str(rate):
            below = under.get(key)
            earlier = below.earlier if below is not None and now in below.ours else now
            changes[change_of(key, str(rate))] = earlier
    return changes, foreign


def wanted_entries(goals: Iterable[MoveGoal], rates: BrokerRates) -> dict[ConfigKey, tuple[str, ...]]:
    """The list entries for the goals' copies, on those sides of a move that have a rate.

    A side without a rate of ours gets no entry: it would fall under a rate that another process set on that broker.
    """
    found: dict[ConfigKey, list[str]] = {}
    for goal in sorted(goals, key=lambda g: g.key):
        led = goal.holders if goal.adding else ()
        for name, brokers, limit_of in (
            (LEADER_LIST, led, rates.out_of_broker),
            (FOLLOWER_LIST, goal.adding, rates.into_broker),
        ):
            entries = [f"{goal.key.partition}:{b}" for b in brokers if limit_of(b) is not None]
            if entries:
                found.setdefault(ConfigKey(ResourceKind.TOPIC, goal.key.topic, name), []).extend(entries)
    return {k: tuple(v) for k, v in sorted(found.items())}


def entry_changes(wanted: Mapping[ConfigKey, Sequence[str]], topics: Configs) -> list[ConfigChange]:
    """APPEND changes for the wanted entries that are not there yet, in pieces Kafka accepts.

    A list that is `*` already covers everything and is left alone.
    """
    changes: list[ConfigChange] = []
    for key, entries in sorted(wanted.items()):
        there = set(split_list(topics.get(key.name, {}).get(key.key)))
        if WILDCARD not in there:
            missing = [e for e in entries if e not in there]
            changes += [_change(key, ConfigOp.APPEND, piece) for piece in pieces(missing)]
    return changes


def list_capacity_for(
    goals: Iterable[MoveGoal], rates: BrokerRates, topics: Configs, held: Mapping[ConfigKey, Collection[str]]
) -> ListCapacity:
    """Cut goals to those whose entries fit under `LIST_LIMIT` bytes beside what the lists hold now.

    `held` are our own entries: where a list has any, a goal that does not fit waits until they go.
    """
    lists: dict[ConfigKey, set[str]] = {}
    used: dict[ConfigKey, int] = {}
    fits: list[MoveGoal] = []
    blocked: dict[TopicPartition, str] = {}
    started: set[ConfigKey] = {k for k, entries in held.items() if entries}
    for goal in goals:
        need: dict[ConfigKey, int] = {}
        for key, entries in wanted_entries([goal], rates).items():
            if key not in lists:
                value = topics.get(key.name, {}).get(key.key) or ""
                lists[key], used[key] = set(split_list(value)), len(value) + 1
            if WILDCARD not in lists[key]:
                need[key] = _length([e for e in entries if e not in lists[key]])
        full = [k for k, more in need.items() if more and used[k] + more > LIST_LIMIT]
        if not full:
            fits.append(goal)
            for key, more in need.items():
                used[key] += more
                started.add(key)
        elif closed := [k for k in full if k not in started]:
            blocked[goal.key] = f"{closed[0].key} of topic {closed[0].name} is full with entries of another process"
    return ListCapacity(fits=tuple(fits), blocked=blocked)


def entries_of(goals: Iterable[MoveGoal], held: Mapping[ConfigKey, Sequence[str]]) -> dict[ConfigKey, tuple[str, ...]]:
    """Those of the held entries that belong to the goals' partitions."""
    partitions = {g.key for g in goals}
    found: dict[ConfigKey, tuple[str, ...]] = {}
    for key, entries in held.items():
        own = tuple(e for e in entries if TopicPartition(key.name, int(e.split(":")[0])) in partitions)
        if own:
            found[key] = own
    return found


def surplus_entries(
    held: Mapping[ConfigKey, Sequence[str]], wanted: Mapping[ConfigKey, Sequence[str]]
) -> dict[ConfigKey, tuple[str, ...]]:
    """Those of the held entries that are not wanted any more."""
    found: dict[ConfigKey, tuple[str, ...]] = {}
    for key, entries in held.items():
        kept = set(wanted.get(key, ()))
        if left := tuple(e for e in entries if e not in kept):
            found[key] = left
    return found


def removal_changes(held: Mapping[ConfigKey, Sequence[str]], topics: Configs) -> list[ConfigChange]:
    """SUBTRACT changes for our entries; a topic that is gone, or lost them all, needs none.

    Kafka ignores entries that are not there, and a read may lag: where one of ours is seen, or the list is there and
    empty, all are taken out.
    """
    changes: list[ConfigChange] = []
    for key, entries in sorted(held.items()):
        value = topics.get(key.name, {}).get(key.key)
        if value == "" or set(split_list(value)).intersection(entries):
            changes += [_change(key, ConfigOp.SUBTRACT, piece) for piece in pieces(entries)]
    return changes


def empty_list_changes(keys: Iterable[ConfigKey], topics: Configs) -> list[ConfigChange]:
    """DELETE changes for lists that are set but hold nothing: SUBTRACT of all entries leaves that behind."""
    return [change_of(k, None) for k in sorted(keys) if topics.get(k.name, {}).get(k.key) == ""]


def restore_changes(
    held: Mapping[ConfigKey, RateHold], brokers: Configs
) -> tuple[list[ConfigChange], list[ConfigKey], list[ConfigKey]]:
    """How to give broker rates back: (changes, keys that have their earlier value, keys others changed since).

    A value that is not one we set is another process's by now and is left alone. Brokers absent from
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
            changes.append(change_of(key, hold.earlier))
        elif now == hold.earlier:
            settled.append(key)
        else:
            foreign.append(key)
    return changes, settled, foreign


def owed_words(
    rates: Collection[ConfigKey], lists: Collection[ConfigKey], dead: Collection[int], reasons: Mapping[ConfigKey, str]
) -> list[str]:
    """What of ours is still set, in sentences; `reasons` say why, as far as the cluster told."""
    found = []
    for inside, what in ((False, "the replication rate on broker"), (True, "the rate between log dirs on broker")):
        keys = sorted(k for k in rates if (k.key == INSIDE_RATE) is inside)
        gone = sorted({int(k.name) for k in keys} & set(dead))
        alive = sorted({int(k.name) for k in keys} - set(dead))
        if gone:
            names = ", ".join(map(str, gone))
            found.append(f"{what} {names}, which is not alive, can only be removed once it is back")
        if alive:
            found.append(f"{what} {', '.join(map(str, alive))}" + _reasons_text(keys, reasons))
    if lists:
        found.append(
            f"throttle lists of topics {list_items(sorted({k.name for k in lists}))}" + _reasons_text(lists, reasons)
        )
    return found


def _reasons_text(keys: Iterable[ConfigKey], reasons: Mapping[ConfigKey, str]) -> str:
    reported = sorted({reasons[k] for k in keys if k in reasons})
    return f" ({list_items(reported)})" if reported else ""


def shows(change: ConfigChange, value: str | None, is_same: Callable[[str | None, str | None], bool] = eq) -> bool:
    """True when the value that was read is one after the change (reads lag behind writes by a moment)."""
    match change.op:
        case ConfigOp.SET:
            return is_same(value, change.value)
        case ConfigOp.DELETE:
            return value is None
        case ConfigOp.APPEND:
            return set(split_list(change.value)) <= set(split_list(value))
        case ConfigOp.SUBTRACT:
            return not set(split_list(change.value)) & set(split_list(value))


def is_to_repeat(
    change: ConfigChange,
    replaced: str | None,
    value: str | None,
    is_same: Callable[[str | None, str | None], bool] = eq,
) -> bool:
    """Whether a change whose answer was lost is made again where `value` is read; one over another's value is not."""
    if shows(change, value, is_same):
        return False
    return change.op in (ConfigOp.APPEND, ConfigOp.SUBTRACT) or is_same(value, replaced)


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


def _length(entries: Iterable[str]) -> int:
    return sum(len(e) + 1 for e in entries)


def _rate_key(broker: int, name: str) -> ConfigKey:
    return ConfigKey(ResourceKind.BROKER, str(broker), name)


def _change(key: ConfigKey, op: ConfigOp, value: str | None) -> ConfigChange:
    return ConfigChange(kind=key.kind, name=key.name, key=key.key, op=op, value=value)
