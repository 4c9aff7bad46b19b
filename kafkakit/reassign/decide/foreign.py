"""Moves and throttles that others began: which are meant, and what may be done with each.

Foreign is what the journals of this host do not account for. A running move keeps its throttles, unless the operator
says otherwise. A rate of a broker limits all topics, so a choice of topics takes it only if no throttle list that
stays names the broker.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.errors import UsageError
from kafkakit.core.model import Reassignment, TopicPartition
from kafkakit.core.text import few_of, option_word, quote
from kafkakit.execution.decide.journal import ConfigKey, change_of
from kafkakit.execution.decide.plan_state import LiveState
from kafkakit.execution.decide.status import owner_of
from kafkakit.execution.decide.status_looks import KnownRun
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    INSIDE_RATE,
    LEADER_LIST,
    LEADER_RATE,
    LIST_KEYS,
    WILDCARD,
    Configs,
    pieces,
    split_list,
)

_LIST_OF = {LEADER_RATE: LEADER_LIST, FOLLOWER_RATE: FOLLOWER_LIST}
Hosts = Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSelection:
    """What of others is meant: everything, or partitions and whole topics.

    `mapped` are partitions of a map, which need not exist any more, and `brokers` those that it names. `words` are the
    options as typed, for the next command.
    """

    everything: bool = False
    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()
    mapped: frozenset[TopicPartition] = frozenset()
    brokers: frozenset[int] = frozenset()
    words: tuple[str, ...] = ()

    def covers(self, key: TopicPartition) -> bool:
        """True when the partition is meant."""
        return self.everything or key.topic in self.topics or key in self.partitions or key in self.mapped

    def covers_topic(self, topic: str, hosts: Hosts) -> bool:
        """True when every partition of the topic is meant; one without partitions is not."""
        if self.everything or topic in self.topics:
            return True
        keys = [key for key in hosts if key.topic == topic]
        return bool(keys) and all(map(self.covers, keys))

    @property
    def named_topics(self) -> frozenset[str]:
        """The topics that have to be read to tell whether what is named exists."""
        return self.topics | {key.topic for key in self.partitions}


def read_selection(
    topics: Sequence[str], partitions: Sequence[str], *, everything: bool = False
) -> ForeignSelection | None:
    """The options as a selection, None if none was given; raises `UsageError` for texts that cannot be read."""
    names = [name for text in topics for name in text.split(",")]
    keys = [name for text in partitions for name in text.split(",")]
    if everything and (names or keys):
        raise UsageError("--all excludes --topic and --partition", hint="give one of them")
    if any(not name for name in names):
        raise UsageError("--topic has an empty name", hint="--topic NAME[,NAME...]")
    if not (names or keys or everything):
        return None
    found = frozenset(_partition(name) for name in keys)
    words = ["--all"] if everything else [option_word("--topic", name) for name in sorted(set(names))]
    words += [option_word("--partition", str(key)) for key in sorted(found)]
    return ForeignSelection(everything=everything, topics=frozenset(names), partitions=found, words=tuple(words))


def partition_words(key: TopicPartition) -> str:
    """The option that names one partition."""
    return option_word("--partition", str(key))


def map_selection(entries: Iterable[tuple[TopicPartition, Sequence[int]]], source: str) -> ForeignSelection:
    """The partitions of a map with the lists that it gives them; `source` is how a command line names it."""
    lists = dict(entries)
    brokers = frozenset(broker for replicas in lists.values() for broker in replicas)
    # What was on stdin is not there for the next command.
    words = tuple(map(partition_words, sorted(lists))) if source == "-" else (quote(source),)
    return ForeignSelection(mapped=frozenset(lists), brokers=brokers, words=words)


def require_existing(selection: ForeignSelection, keys: Collection[TopicPartition], names: Collection[str]) -> None:
    """Raise `UsageError` for topics and partitions that were named and do not exist; `names` are those that do."""
    if gone := sorted(selection.named_topics - set(names)):
        raise UsageError(f"topic {few_of(gone)} does not exist in this cluster", hint="check the name")
    if absent := sorted(selection.partitions - set(keys)):
        raise UsageError(f"partition {few_of(list(map(str, absent)))} does not exist", hint="write TOPIC-PARTITION")


def _partition(text: str) -> TopicPartition:
    topic, mark, number = _last_split(text)
    if not mark or not topic or not number.isascii() or not number.isdigit():
        raise UsageError(f"'{text}' is not a partition", hint="write TOPIC-PARTITION, such as --partition orders-3")
    return TopicPartition(topic, int(number))


def _last_split(text: str) -> tuple[str, str, str]:
    """The text cut at the last of the marks that tools write between topic and partition."""
    place = max(text.rfind(mark) for mark in "-:/")
    return (text[:place], text[place], text[place + 1 :]) if place >= 0 else (text, "", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignMoves:
    """Running moves that are meant: foreign ones, and those of unfinished runs of this host, by the id of the run.

    `dead` are brokers that moves wait for and that are not alive.
    """

    cluster_id: str
    moves: tuple[Reassignment, ...] = ()
    ours: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    dead: frozenset[int] = frozenset()


def choose_moves(selection: ForeignSelection, live: LiveState, runs: Sequence[KnownRun]) -> ForeignMoves:
    """The running moves that the selection means. A move of a run that has ended counts as foreign."""
    moves: list[Reassignment] = []
    ours: dict[str, list[TopicPartition]] = {}
    for key, move in sorted(live.running.items()):
        if selection.covers(key):
            owner = owner_of(move, runs)
            if owner is not None and owner.state.unsettled:
                ours.setdefault(owner.state.run_id, []).append(key)
            else:
                moves.append(move)
    dead = frozenset(b for m in moves for b in m.adding if not live.is_alive(b))
    found = {run: tuple(keys) for run, keys in sorted(ours.items())}
    return ForeignMoves(cluster_id=live.cluster_id, moves=tuple(moves), ours=found, dead=dead)


class ForeignFate(StrEnum):
    """What is to become of a throttle that others set."""

    REMOVE = "is removed"
    RUNNING = "stays, a running move needs it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignThrottle:
    """A rate, or entries of a list (`value`, joined by commas), that no journal of this host accounts for."""

    key: ConfigKey
    value: str
    fate: ForeignFate


def choose_throttles(
    unowned: Iterable[tuple[ConfigKey, str]],
    selection: ForeignSelection,
    running: Mapping[TopicPartition, Reassignment],
    hosts: Hosts,
    topics: Configs,
    changing_dirs: Mapping[int, int],
    *,
    unthrottle_running: bool = False,
) -> tuple[ForeignThrottle, ...]:
    """Those of the foreign throttles that the selection means, each with its fate; O(entries + replicas).

    `hosts` has the replicas of all partitions, `topics` the configuration of all topics, ours included;
    `changing_dirs` counts the copies between log dirs, by broker.
    """
    found: list[ForeignThrottle] = []
    going: dict[ConfigKey, set[str]] = {}
    rates: list[tuple[ConfigKey, str]] = []
    moving = set() if unthrottle_running else set(running)
    for key, value in unowned:
        if key.kind is ResourceKind.BROKER:
            rates.append((key, value))
            continue
        fates: dict[ForeignFate, list[str]] = {}
        for entry in split_list(value):
            if _covers_entry(selection, key.name, entry, hosts):
                is_needed = _is_needed(key.name, entry, moving)
                fates.setdefault(ForeignFate.RUNNING if is_needed else ForeignFate.REMOVE, []).append(entry)
        going[key] = set(fates.get(ForeignFate.REMOVE, ()))
        found += [ForeignThrottle(key=key, value=",".join(e), fate=fate) for fate, e in sorted(fates.items())]
    concerned = _concerned_brokers(selection, running, hosts, found)
    staying = _staying_brokers(topics, going, hosts)
    taking_part = {b for key in moving for b in running[key].replicas}
    copying = set() if unthrottle_running else {b for b, copies in changing_dirs.items() if copies}
    for key, value in rates:
        broker = int(key.name)
        chosen = broker in concerned and broker not in staying.get(key.key, ())
        if selection.everything or chosen:
            needed = broker in (copying if key.key == INSIDE_RATE else taking_part)
            fate = ForeignFate.RUNNING if needed else ForeignFate.REMOVE
            found.append(ForeignThrottle(key=key, value=value, fate=fate))
    return tuple(sorted(found, key=lambda item: (item.key, item.fate)))


def _covers_entry(selection: ForeignSelection, topic: str, entry: str, hosts: Hosts) -> bool:
    number = entry.partition(":")[0]
    if number.isdigit():
        return selection.covers(TopicPartition(topic, int(number)))
    return selection.covers_topic(topic, hosts)  # `*`, and what Kafka does not understand


def _is_needed(topic: str, entry: str, moving: Collection[TopicPartition]) -> bool:
    number = entry.partition(":")[0]
    if number.isdigit():
        return TopicPartition(topic, int(number)) in moving
    return any(key.topic == topic for key in moving)


def _concerned_brokers(
    selection: ForeignSelection,
    running: Mapping[TopicPartition, Reassignment],
    hosts: Hosts,
    lists: Iterable[ForeignThrottle],
) -> set[int]:
    """The brokers that the selection is about: of its partitions, of their moves, of their entries, of the map."""
    found = {b for key, replicas in hosts.items() if selection.covers(key) for b in replicas}
    found |= {b for key, move in running.items() if selection.covers(key) for b in move.replicas}
    for item in lists:
        found |= {int(b) for e in split_list(item.value) if (b := e.partition(":")[2]).isdigit()}
    return found | selection.brokers


def _staying_brokers(topics: Configs, going: Mapping[ConfigKey, Collection[str]], hosts: Hosts) -> dict[str, set[int]]:
    """The brokers that lists still throttle once these entries are gone, by the key of the rate."""
    holders: dict[str, set[int]] = {}
    wide = {t for t, values in topics.items() if any(WILDCARD in split_list(values.get(k)) for k in LIST_KEYS)}
    for key, replicas in hosts.items():
        if key.topic in wide:
            holders.setdefault(key.topic, set()).update(replicas)
    found: dict[str, set[int]] = {}
    for rate, place in _LIST_OF.items():
        brokers = found.setdefault(rate, set())
        for topic, values in topics.items():
            gone = going.get(ConfigKey(ResourceKind.TOPIC, topic, place), ())
            for entry in split_list(values.get(place)):
                if entry in gone:
                    continue
                broker = entry.partition(":")[2]
                brokers |= (
                    {int(broker)} if broker.isdigit() else holders.get(topic, set()) if entry == WILDCARD else set()
                )
    return found


def split_unchanged(
    now: Iterable[ForeignThrottle], shown: Mapping[ConfigKey, Collection[str]]
) -> tuple[tuple[ForeignThrottle, ...], tuple[ConfigKey, ...]]:
    """(what may be removed now, keys that changed since they were `shown`): nobody agreed to remove another value."""
    agreed: list[ForeignThrottle] = []
    changed: list[ConfigKey] = []
    for item in now:
        if item.fate is not ForeignFate.REMOVE:
            continue
        if item.key.kind is ResourceKind.BROKER:
            values = [item.value] if item.value in shown.get(item.key, ()) else []
        else:
            values = [e for e in split_list(item.value) if e in shown.get(item.key, ())]
        if values:
            agreed.append(ForeignThrottle(key=item.key, value=",".join(values), fate=item.fate))
        if len(values) < len(split_list(item.value)):
            changed.append(item.key)
    return tuple(agreed), tuple(changed)


def foreign_changes(items: Iterable[ForeignThrottle]) -> dict[ConfigChange, str | None]:
    """The changes that remove them, each with the value that it removes; lists that this empties are still set."""
    found: dict[ConfigChange, str | None] = {}
    for item in items:
        kind, name, key = item.key
        if kind is ResourceKind.BROKER:
            found[change_of(item.key, None)] = item.value
        else:
            parts = pieces(split_list(item.value))
            found |= {ConfigChange(kind=kind, name=name, key=key, op=ConfigOp.SUBTRACT, value=p): p for p in parts}
    return found
