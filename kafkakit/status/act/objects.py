"""Reading what `list` and `describe` of topics, partitions, brokers and groups show; pages share their reads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, TypeVar

from kafkakit.core.cluster_facts import (
    CommittedOffset,
    GroupDescription,
    ItemError,
    LogSpan,
)
from kafkakit.core.errors import KafkakitError, OperationFailedError, TooOldError, TryLaterError, UsageError
from kafkakit.core.findings import MIN_ISR, least_in_sync, min_isr_of, stops_above_replicas
from kafkakit.core.model import TopicPartition
from kafkakit.core.text import few_of
from kafkakit.execution.decide.throttle import LIST_KEYS, split_list
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.status.decide.objects import (
    BrokerDetail,
    GroupDetail,
    GroupRow,
    PartitionDetail,
    PartitionRow,
    TopicDetail,
    TopicRow,
    chosen_topics,
    commit_rows,
    partition_row,
    replica_facts,
    state_row,
    topic_row,
    total_lag,
)

MOST_GROUPS_WITH_LAG = 500
"""More groups are listed without their lag, which the lag monitor has."""
KEPT_S, WAIT_S = 5.0, 4.0
"""So long what was read for one page is good for others; so long a page waits for what is being read."""
MOST_KEPT, MOST_AT_ONCE, MOST_SETS = 64, 8, 3
T = TypeVar("T")


def read_topics(
    admin: ClusterAdmin, clock: Clock, wanted: str, *, internal: bool, sizes: bool = True
) -> list[TopicRow]:
    """The topics that are wanted, by name."""
    snapshot = admin.snapshot(now=clock.now(), sizes=sizes)
    names = frozenset(chosen_topics(snapshot, wanted, internal=internal))
    minimum = min_isr_of_topics(admin, names)
    stops = stops_above_replicas(snapshot.kafka_version)
    return [topic_row(topic, minimum.get(topic.name), stops=stops) for topic in snapshot.topics if topic.name in names]


def read_queried_topics(admin: ClusterAdmin, clock: Clock, *, sizes: bool) -> dict[str, TopicRow]:
    """All topics with their settings, and with the sizes of their copies where those are asked for."""
    return {topic.name: topic_row(topic, None) for topic in admin.snapshot(now=clock.now(), sizes=sizes).topics}


def min_isr_of_topics(admin: ClusterAdmin, topics: Collection[str]) -> dict[str, int]:
    """`min.insync.replicas` in force of each topic."""
    found = admin.topic_settings(topics, [MIN_ISR]) if topics else {}
    known = {topic: min_isr_of(values, 0) for topic, values in found.items()}
    return {topic: number for topic, number in known.items() if number}


def read_topic(admin: ClusterAdmin, groups: GroupAdmin, clock: Clock, name: str) -> TopicDetail:
    """One topic; `UsageError` for one that does not exist."""
    snapshot = admin.snapshot(now=clock.now(), topics=[name])
    if not snapshot.topics:
        raise _no_such("topic", name, admin.topic_names())
    (topic,) = snapshot.topics
    minimum = min_isr_of_topics(admin, [name]).get(name)
    keys = [TopicPartition(name, p.partition) for p in topic.partitions]
    stops = stops_above_replicas(snapshot.kafka_version)
    return TopicDetail(
        row=topic_row(topic, minimum, stops=stops),
        partitions=tuple(
            partition_row(k, p, minimum, stops=stops) for k, p in zip(keys, topic.partitions, strict=True)
        ),
        groups=_groups_on(groups, keys),
    )


def _groups_on(groups: GroupAdmin, keys: Sequence[TopicPartition]) -> tuple[str, ...] | None:
    try:
        names = [g.group for g in groups.answered_groups().groups]
        found = groups.committed_by(names, keys) if names and len(names) <= MOST_GROUPS_WITH_LAG else {}
    except KafkakitError:
        return None
    if len(names) > MOST_GROUPS_WITH_LAG:
        return None
    return tuple(
        name for name in names if any(isinstance(c, CommittedOffset) for c in _commits(found.get(name)).values())
    )


def _commits(
    found: Mapping[TopicPartition, CommittedOffset | ItemError] | ItemError | None,
) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
    return {} if found is None or isinstance(found, ItemError) else found


def read_partitions(admin: ClusterAdmin, clock: Clock, wanted: str, broker: int | None = None) -> list[PartitionRow]:
    """The partitions of the topics that are wanted, all without a choice; `UsageError` for an unknown `broker`."""
    snapshot = admin.snapshot(now=clock.now(), sizes=False)
    known = {b.id for b in snapshot.brokers} | {b for _, p in snapshot.partitions() for b in p.replicas}
    if broker is not None and broker not in known:
        raise UsageError(f"broker {broker} is not in the cluster", hint=f"it has {few_of(sorted(known))}")
    names = frozenset(chosen_topics(snapshot, wanted, internal=True))
    minimum, stops = min_isr_of_topics(admin, names), stops_above_replicas(snapshot.kafka_version)
    return [
        partition_row(TopicPartition(topic.name, p.partition), p, minimum.get(topic.name), stops=stops)
        for topic in snapshot.topics
        if topic.name in names
        for p in topic.partitions
    ]


def read_partition(admin: ClusterAdmin, log: LogReader, key: TopicPartition) -> PartitionDetail:
    """One partition with each of its replicas; `UsageError` for one that does not exist."""
    states = admin.partition_states([key.topic])
    if not states:
        raise _no_such("topic", key.topic, admin.topic_names())
    if key not in states:
        raise UsageError(f"topic {key.topic} has no partition {key.partition}", hint=f"it has 0 to {len(states) - 1}")
    state = states[key]
    moves = {TopicPartition(m.topic, m.partition): m for m in admin.reassignments()}
    adding = moves[key].adding if key in moves else ()
    minimum = min_isr_of_topics(admin, [key.topic]).get(key.topic)
    info = admin.cluster()
    stops = stops_above_replicas(info.kafka_version)
    row = state_row(key, state, adding, minimum, stops=stops)
    staying = len(row.replicas) - len(row.adding)
    brokers = {b.id: b for b in info.brokers}
    alive = [b for b in state.replicas if b in brokers and brokers[b].is_alive]
    dirs = admin.log_dirs(alive, [key]) if alive else {}
    copies = {b: answer.replicas[key] for b, answer in dirs.items() if key in answer.replicas}
    lists = admin.topic_settings([key.topic], LIST_KEYS).get(key.topic, {})
    names = {f"{key.partition}:{b}" for b in state.replicas} | {"*"}
    try:
        producers = admin.describe_producers([key]).get(key)
    except (TooOldError, OperationFailedError):
        producers = None
    return PartitionDetail(
        row=row,
        minimum=minimum,
        needed=None if minimum is None else least_in_sync(minimum, staying, stops=stops),
        replicas=replica_facts(row, brokers, copies),
        span=log.spans([key]).get(key),
        producers=None if isinstance(producers, ItemError) else producers,
        throttled=tuple(k for k, value in sorted(lists.items()) if names.intersection(split_list(value))),
    )


def read_broker(admin: ClusterAdmin, broker: int) -> BrokerDetail:
    """One broker; without an answer the log dirs say why there is none."""
    answer = admin.log_dirs([broker])[broker]
    found = admin.broker_configs([broker])
    return BrokerDetail(dirs=answer, settings=found.get(broker))


def read_groups(groups: GroupAdmin, log: LogReader, patterns: Sequence[str] = ()) -> list[GroupRow]:
    """The groups of the cluster, or those that names or globs fit; `MOST_GROUPS_WITH_LAG` at most with their lag.

    `UsageError` for a name that fits none.
    """
    known = groups.answered_groups().groups
    for pattern in patterns:
        if not any(fnmatchcase(g.group, pattern) for g in known):
            raise _no_such("group", pattern, [g.group for g in known])
    listed = [g for g in known if not patterns or any(fnmatchcase(g.group, pattern) for pattern in patterns)]
    described = groups.describe([g.group for g in listed]) if listed else {}
    measured = {g.group: groups.committed(g.group) for g in islice(listed, MOST_GROUPS_WITH_LAG)}
    wanted = {key for found in measured.values() for key in found}
    spans = log.spans(wanted) if wanted else {}
    rows = []
    for listing in listed:
        about = described.get(listing.group)
        commits = measured.get(listing.group)
        rows.append(
            GroupRow(
                listing=listing,
                members=len(about.members) if isinstance(about, GroupDescription) else None,
                lag=None if commits is None else total_lag(commit_rows(None, commits, spans)),
                topics=None if commits is None else len({key.topic for key in commits}),
            )
        )
    return rows


def read_group(groups: GroupAdmin, log: LogReader, name: str) -> GroupDetail:
    """One group; `UsageError` for one that does not exist."""
    about = groups.describe([name])[name]
    commits = groups.committed(name)
    if isinstance(about, GroupDescription) and about.state.value == "dead" and not commits:
        raise _no_such("group", name, [g.group for g in groups.answered_groups().groups])
    description = about if isinstance(about, GroupDescription) else None
    held = {key for m in (description.members if description else ()) for key in m.partitions}
    keys = {*commits, *held}
    spans: Mapping[TopicPartition, LogSpan | ItemError] = log.spans(keys) if keys else {}
    error = str(about) if isinstance(about, ItemError) else ""
    return GroupDetail(
        group=name, description=description, commits=tuple(commit_rows(description, commits, spans)), error=error
    )


def _no_such(kind: str, name: str, existing: Collection[str]) -> UsageError:
    near = get_close_matches(name, sorted(existing), n=3)
    return UsageError(f"{kind} {name[:200]} does not exist", hint=f"is it {' or '.join(near)}?" if near else None)


@dataclass(slots=True, kw_only=True)
class _SharedRead:
    ended: threading.Event = field(default_factory=threading.Event)
    at_s: float = 0.0
    found: Any = None
    failure: BaseException | None = None


class SharedReads:
    """Reads that pages ask for: each key once at a time, in a thread of its own, and its end is good for `KEPT_S`.

    One that hangs keeps neither those who ask for it nor those who ask for something else.
    """

    def __init__(self, clock: Clock, wait_s: float = WAIT_S) -> None:
        self._clock, self._wait_s = clock, wait_s
        self._lock = threading.Lock()
        self._reads: OrderedDict[tuple[str, object], _SharedRead] = OrderedDict()

    def one(
        self, kind: str, key: object, work: Callable[[], T], *, kept_s: float = KEPT_S, wait_s: float | None = None
    ) -> T:
        """What `work` gives or raises now, or did a moment ago; `TryLaterError` while it takes longer than the wait.

        What it gives is good for `kept_s`, what it raises never for longer than `KEPT_S`.
        """
        shared, wait_s = self._shared((kind, key), work, kept_s), self._wait_s if wait_s is None else wait_s
        if not shared.ended.wait(wait_s):
            raise TryLaterError(f"this {kind} is being read; it takes longer than {wait_s:g} s")
        if shared.failure is not None:
            raise shared.failure.with_traceback(None)
        found: T = shared.found
        return found

    def _shared(self, key: tuple[str, object], work: Callable[[], object], kept_s: float) -> _SharedRead:
        with self._lock:
            shared, now_s = self._reads.get(key), self._clock.monotonic()
            if shared is not None:
                good_s = kept_s if shared.failure is None else min(kept_s, KEPT_S)
                if not shared.ended.is_set() or now_s - shared.at_s < good_s:
                    return shared
            running = sum(not one.ended.is_set() for one in self._reads.values())
            if running >= MOST_AT_ONCE:
                raise TryLaterError(f"{running} other things are being read")
            over = [k for k, one in self._reads.items() if one.ended.is_set()]
            for old in over[: max(0, len(self._reads) + 1 - MOST_KEPT)]:
                del self._reads[old]
            shared = self._reads[key] = _SharedRead()
            self._reads.move_to_end(key)
        threading.Thread(target=self._run, args=(shared, work), name=f"read {key[0]}", daemon=True).start()
        return shared

    def _run(self, shared: _SharedRead, work: Callable[[], object]) -> None:
        try:
            shared.found = work()
        except BaseException as failure:  # those who wait are told
            shared.failure = failure
        shared.at_s = self._clock.monotonic()
        shared.ended.set()


@dataclass(slots=True, kw_only=True)
class ClientSet:
    """The clients of one cluster, each opened when it is needed first; not for two threads at once."""

    open_admin: Callable[[], ClusterAdmin]
    open_groups: Callable[[], GroupAdmin]
    open_log: Callable[[], LogReader]
    _admin: ClusterAdmin | None = None
    _groups: GroupAdmin | None = None
    _log: LogReader | None = None

    @property
    def admin(self) -> ClusterAdmin:
        """The control side."""
        self._admin = self._admin or self.open_admin()
        return self._admin

    @property
    def groups(self) -> GroupAdmin:
        """Groups, their members and commits."""
        self._groups = self._groups or self.open_groups()
        return self._groups

    @property
    def log(self) -> LogReader:
        """Raw reads."""
        self._log = self._log or self.open_log()
        return self._log

    def close(self) -> None:
        """Drop all connections."""
        for client in (self._admin, self._groups, self._log):
            if client is not None:
                with suppress(KafkakitError):
                    client.close()


class ClientSets:
    """Lends each reader a set of clients that nobody else uses meanwhile; some are kept open for the next ones."""

    def __init__(self, make: Callable[[], ClientSet]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._free: list[ClientSet] = []
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[ClientSet]:
        """A set until the end of the block."""
        with self._lock:
            clients = self._free.pop() if self._free else self._make()
        try:
            yield clients
        finally:
            with self._lock:
                is_kept = not self._is_closed and len(self._free) < MOST_SETS
                if is_kept:
                    self._free.append(clients)
            if not is_kept:
                clients.close()

    def close(self) -> None:
        """Close all; a set that is lent is closed when it comes back."""
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for clients in free:
            clients.close()
