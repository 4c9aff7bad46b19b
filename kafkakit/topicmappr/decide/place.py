"""`topicmappr place` as a pure function: where the partitions of a new topic should go."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, Partition, PartitionAssignment, PartitionMap, Topic, TopicPartition
from kafkakit.core.quantities import count_of
from kafkakit.core.selection import select_topics
from kafkakit.core.text import few_of
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import ClosedBrokers, SpreadRule
from kafkakit.placement.log_dirs_balance import HomelessCopy
from kafkakit.placement.openings import BrokerPool, group_openings, place_new_topic, pool_of
from kafkakit.placement.problem import PlacementProblem, PlannedPartition, rackless_note
from kafkakit.topicmappr.decide.dirs import fit_dirs, homeless_of
from kafkakit.topicmappr.decide.plain_requests import PlaceRequest
from kafkakit.topicmappr.decide.rebalance_goal import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.storage import explain_unplaced, infeasible_error


@dataclass(frozen=True, slots=True)
class Shape:
    """Partitions, replicas of each, and the expected bytes of one; None when load is counted in replicas."""

    partitions: int
    replication: int
    partition_bytes: int | None


def shape_of(snapshot: ClusterSnapshot, request: PlaceRequest) -> Shape:
    """Settle the shape; raises `UsageError` when the topics to imitate differ in what was not given."""
    models: list[Topic] = []
    if request.like:
        names = set(select_topics([t.name for t in snapshot.topics], request.like).selected)
        models = [t for t in snapshot.topics if t.name in names]
    for flag, value in (("--partitions", request.partitions), ("--replication", request.replication)):
        if value is None and not models:
            raise UsageError(f"{flag} is missing", hint="give it, or name a topic to imitate with --topics-like")
    partitions = request.partitions or _require_same("--partitions", {t.name: len(t.partitions) for t in models})
    replication = request.replication or _require_same(
        "--replication", {t.name: max(len(p.replicas) for p in t.partitions) for t in models if t.partitions}
    )
    size = request.partition_bytes
    if size is None and models:
        known = [b for t in models for p in t.partitions if (b := p.known_bytes) is not None]
        size = max(1, -(-sum(known) // len(known))) if known else None
    return Shape(partitions, replication, size)


def _require_same(flag: str, found: dict[str, int]) -> int:
    values = sorted(set(found.values()))
    if len(values) != 1 or not values[0]:
        raise UsageError(f"--topics-like: the topics differ ({flag[2:]} {few_of(values)})", hint=f"give {flag}")
    return values[0]


_MOST_LEVELS = 10**12


@dataclass(frozen=True, slots=True)
class BytesHeld:
    """Bytes on each broker; `guessed` partitions have no known size and count with the mean of the others."""

    by_broker: Mapping[int, int]
    guessed: int


def bytes_held(snapshot: ClusterSnapshot, brokers: Sequence[int]) -> BytesHeld:
    """Add up the replicas of every topic; raises `UsageError` when no size is known at all. O(replicas)."""
    held = dict.fromkeys(brokers, 0)
    unsized: list[tuple[int, ...]] = []
    total = count = 0
    for _, partition in snapshot.partitions():
        size = partition.known_bytes
        if size is None:
            unsized.append(partition.replicas)
            continue
        total, count = total + size, count + 1
        for broker in partition.replicas:
            if broker in held:
                held[broker] += partition.replica_bytes.get(broker, size)
    if unsized and not count:
        raise UsageError(
            "no size of any partition is known, so nothing can be filled by bytes",
            hint="take a snapshot with sizes, or leave --partition-bytes out",
        )
    for replicas in unsized:
        for broker in replicas:
            if broker in held:
                held[broker] += total // count
    return BytesHeld(held, len(unsized))


def as_levels(held: Mapping[int, int], partition_bytes: int) -> dict[int, int]:
    """Bytes as whole partitions of the new topic, so that one more copy is one level more.

    Where one partition is less than a million-millionth of a broker, the step is that much.
    """
    step = max(partition_bytes, -(-max(held.values(), default=0) // _MOST_LEVELS))
    return {broker: size // step for broker, size in held.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShare:
    """What a broker carries of all topics before, and what it gets of the new one; bytes None where not asked."""

    broker: int
    rack: str | None
    replicas: int
    leaders: int
    new_replicas: int
    new_leaders: int
    bytes: int | None = None
    new_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """Replica lists of new partitions, the leader first, and what each broker ends with.

    They are numbered from the end of `present`, the lists of the partitions that the topic has; none for a new topic.
    """

    topic: str
    shape: Shape
    lists: tuple[tuple[int, ...], ...]
    shares: tuple[BrokerShare, ...]
    present: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def numbered(self) -> list[tuple[int, tuple[int, ...]]]:
        """The number and list of each new partition."""
        return list(enumerate(self.lists, len(self.present)))

    def as_map(self) -> PartitionMap:
        """The assignment in Kafka's JSON."""
        return PartitionMap(
            partitions=tuple(
                PartitionAssignment(topic=self.topic, partition=n, replicas=row) for n, row in self.numbered
            )
        )

    @property
    def argument(self) -> str:
        """The value of `kafka-topics --replica-assignment`.

        `--alter` wants an entry of this many replicas for each partition, and passes over those that are there.
        """
        present = (row if len(row) == self.shape.replication else self.lists[0] for row in self.present)
        return ",".join(":".join(map(str, row)) for row in (*present, *self.lists))


def decide_place(snapshot: ClusterSnapshot, request: PlaceRequest) -> NewTopic:
    """Spread the topic over brokers, racks and leaders, under the rack rule; then level the cluster.

    See `place_new_topic`. What brokers carry is replicas of all topics, or bytes when a size is expected.
    Where a size is expected, each copy fits in a log dir of its broker (`fit_dirs`).
    A topic that exists keeps its partitions; the new ones are placed so that all together come out even. Raises
    `UsageError` when it has as many already and `InfeasibleError` when a partition finds too few brokers.
    """
    _refuse_collision(snapshot, request.topic)
    return fit_dirs(snapshot, lambda closed: _decide(snapshot, request, closed))


def _decide(
    snapshot: ClusterSnapshot, request: PlaceRequest, closed: ClosedBrokers
) -> tuple[NewTopic, Sequence[HomelessCopy]]:
    pool = pool_of(snapshot).without(named_brokers(snapshot, RECEIVERS, request.exclude_receivers))
    brokers = _brokers(pool, request)
    present = _present_lists(snapshot, request)
    shape = shape_of(snapshot, _like_itself(request, present))
    notes = [*rackless_note(brokers, pool.racks)]
    loads: Mapping[int, int] = {b: pool.replicas.get(b, 0) for b in brokers}
    held: Mapping[int, int] | None = None
    if shape.partition_bytes is not None:
        measured = bytes_held(snapshot, brokers)
        held, loads = measured.by_broker, as_levels(measured.by_broker, shape.partition_bytes)
        if measured.guessed:
            notes.append(f"{measured.guessed} partitions have no known size and count with the mean of the others")
    keys = [TopicPartition(request.topic, n) for n in range(len(present), shape.partitions)]
    openings: dict[int, tuple[tuple[int, ...], int]] = dict.fromkeys(range(len(keys)), ((), shape.replication))
    tags = request.constraints.on(_with_topic(snapshot, request, shape, present), (request.topic,))
    rule = SpreadRule(request.min_rack_ids, tags=tags, closed=closed)
    rooms, unfit = group_openings(openings, Grouping.of(rule, pool.racks, brokers, [request.topic] * len(keys), keys))
    if unfit:
        first, found = min(unfit.items())
        named = pool.live if request.brokers is None else request.brokers.ids
        raise _too_few(pool, rule, shape, brokers, keys[first], found, pool.shut(named))
    lists = tuple(place_new_topic(rooms, pool.racks, loads, pool.leaders, present))
    new = [PlannedPartition(key, (), shape.replication, shape.partition_bytes) for key in keys]
    placed = NewTopic(
        topic=request.topic,
        shape=shape,
        lists=lists,
        shares=_shares(pool, brokers, lists, held, shape),
        present=present,
        notes=tuple(notes),
    )
    return placed, homeless_of(snapshot, new, lists)


def _present_lists(snapshot: ClusterSnapshot, request: PlaceRequest) -> tuple[tuple[int, ...], ...]:
    """The lists of the partitions that the topic has; `UsageError` where it cannot get what is asked for."""
    topic = next((t for t in snapshot.topics if t.name == request.topic), None)
    if topic is None:
        return ()
    partitions = sorted(topic.partitions, key=lambda p: p.partition)
    rows = tuple(tuple(b for b in p.replicas if b not in p.removing) for p in partitions)
    if [p.partition for p in partitions] != list(range(len(rows))):
        raise UsageError(f"partitions of topic {topic.name} are missing in the snapshot", hint="take a new snapshot")
    if request.partitions is None or request.partitions <= len(rows):
        raise UsageError(
            f"topic {topic.name} exists already, with {count_of(len(rows), 'partition')}",
            hint=f"give --partitions above {len(rows)} to place more of them, or move it with rebuild or rebalance",
        )
    factor = max(map(len, rows), default=0)
    if request.replication not in (None, factor):
        raise UsageError(
            f"--replication: topic {topic.name} has {count_of(factor, 'replica')} a partition, and Kafka gives new "
            "partitions as many",
            hint=f"leave --replication out, or change it first: {request.set_replication()}",
        )
    return rows


def _like_itself(request: PlaceRequest, present: tuple[tuple[int, ...], ...]) -> PlaceRequest:
    """The request with the replication that a topic has."""
    return replace(request, replication=max(map(len, present))) if present else request


def _refuse_collision(snapshot: ClusterSnapshot, topic: str) -> None:
    flat = topic.replace(".", "_")
    for known in snapshot.topics:
        if known.name != topic and known.name.replace(".", "_") == flat:
            # Kafka refuses such a pair, because their metrics would have one name.
            raise UsageError(f"topic {topic} collides with {known.name}: Kafka takes '.' and '_' for the same")


def _brokers(pool: BrokerPool, request: PlaceRequest) -> tuple[int, ...]:
    if request.brokers is None:
        if not pool.open:
            raise UsageError("no live broker takes new replicas")
        return pool.receiving()
    holding = frozenset(b for b, n in pool.replicas.items() if n and b in pool.live)
    listed = request.brokers.resolve(holding, pool.open, pool.leaving)
    wrong = [b for b in listed if b not in pool.live]
    if wrong:
        raise UsageError(
            f"--brokers: {few_of(wrong)} not alive in this cluster", hint=f"alive: {few_of(sorted(pool.live))}"
        )
    pool.refuse_closed("--brokers", listed)
    return pool.receiving(listed)


def _with_topic(
    snapshot: ClusterSnapshot, request: PlaceRequest, shape: Shape, present: tuple[tuple[int, ...], ...]
) -> ClusterSnapshot:
    """The cluster with the new partitions in it, so that queries see the topic's name and size."""
    first = len(present)
    new = tuple(Partition(partition=n, replicas=(-1,) * shape.replication) for n in range(first, shape.partitions))
    if not present:
        return replace(snapshot, topics=(*snapshot.topics, Topic(name=request.topic, partitions=new)))
    return replace(
        snapshot,
        topics=tuple(
            replace(t, partitions=(*t.partitions, *new)) if t.name == request.topic else t for t in snapshot.topics
        ),
    )


def _too_few(
    pool: BrokerPool,
    rule: SpreadRule,
    shape: Shape,
    brokers: tuple[int, ...],
    key: TopicPartition,
    placed: int,
    closed: Mapping[int, str],
) -> Exception:
    partition = PlannedPartition(key, (), shape.replication, shape.partition_bytes)
    problem = PlacementProblem((partition,), brokers, pool.racks, rule, closed=closed)
    unplaced = (shape.replication - placed,)
    error = infeasible_error(
        explain_unplaced(problem, unplaced, {b: pool.racks[b] for b in pool.receiving()}), unplaced
    )
    error.hint = None
    return error


def _shares(
    pool: BrokerPool,
    brokers: tuple[int, ...],
    lists: tuple[tuple[int, ...], ...],
    held: Mapping[int, int] | None,
    shape: Shape,
) -> tuple[BrokerShare, ...]:
    replicas = Counter(b for row in lists for b in row)
    leaders = Counter(row[0] for row in lists)
    return tuple(
        BrokerShare(
            broker=b,
            rack=pool.racks.get(b),
            replicas=pool.replicas.get(b, 0),
            leaders=pool.leaders.get(b, 0),
            new_replicas=replicas[b],
            new_leaders=leaders[b],
            bytes=None if held is None else held[b],
            new_bytes=None if held is None else replicas[b] * (shape.partition_bytes or 0),
        )
        for b in brokers
    )
