"""`topicmappr place` as a pure function: where the partitions of a new topic should go."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, PartitionAssignment, PartitionMap, TopicPartition
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.leaders import pass_leaders
from kafkakit.placement.openings.broker_pool import BrokerPool, pool_of
from kafkakit.placement.openings.fill import fill_openings, group_openings
from kafkakit.placement.problem import PlacementProblem, PlannedPartition
from kafkakit.topicmappr.decide.diagnose import explain_unplaced, infeasible
from kafkakit.topicmappr.decide.place.loads import as_levels, bytes_held
from kafkakit.topicmappr.decide.place.request import PlaceRequest
from kafkakit.topicmappr.decide.place.shape import Shape, shape_of


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
    """Replica lists by partition number, the leader first, and what each broker ends with."""

    topic: str
    shape: Shape
    lists: tuple[tuple[int, ...], ...]
    shares: tuple[BrokerShare, ...]
    notes: tuple[str, ...] = ()

    def as_map(self) -> PartitionMap:
        """The assignment in Kafka's JSON."""
        return PartitionMap(
            partitions=tuple(
                PartitionAssignment(topic=self.topic, partition=n, replicas=row) for n, row in enumerate(self.lists)
            )
        )

    @property
    def argument(self) -> str:
        """The value of `kafka-topics --create --replica-assignment`."""
        return ",".join(":".join(map(str, row)) for row in self.lists)


def decide_place(snapshot: ClusterSnapshot, request: PlaceRequest) -> NewTopic:
    """Fill the least loaded brokers first, under the rack rule; leaders are as even as the sets allow.

    Loads are replicas of all topics, or bytes when a size is expected (even to within one partition).
    Raises `UsageError` when the topic exists and `InfeasibleError` when a partition finds too few brokers.
    """
    _refuse_existing(snapshot, request.topic)
    pool = pool_of(snapshot)
    brokers = _brokers(pool, request)
    shape = shape_of(snapshot, request)
    notes: list[str] = []
    loads: Mapping[int, int] = {b: pool.replicas.get(b, 0) for b in brokers}
    held: Mapping[int, int] | None = None
    if shape.partition_bytes is not None:
        measured = bytes_held(snapshot, brokers)
        held, loads = measured.by_broker, as_levels(measured.by_broker, shape.partition_bytes)
        if measured.guessed:
            notes.append(f"{measured.guessed} partitions have no known size and count with the mean of the others")
    openings: dict[int, tuple[tuple[int, ...], int]] = dict.fromkeys(range(shape.partitions), ((), shape.replication))
    rooms, unfit = group_openings(openings, Grouping.of(GroupRule(request.min_rack_ids), pool.racks, brokers))
    if unfit:
        raise _too_few(pool, request, shape, brokers, next(iter(unfit.values())))
    chosen, _ = fill_openings(rooms, loads)
    sets = [chosen[n] for n in range(shape.partitions)]
    leaders = pass_leaders(sets, pool.leaders)
    lists = tuple((leader, *(b for b in row if b != leader)) for leader, row in zip(leaders, sets, strict=True))
    return NewTopic(
        topic=request.topic,
        shape=shape,
        lists=lists,
        shares=_shares(pool, brokers, lists, held, shape),
        notes=tuple(notes),
    )


def _refuse_existing(snapshot: ClusterSnapshot, topic: str) -> None:
    flat = topic.replace(".", "_")
    for known in snapshot.topics:
        if known.name == topic:
            raise UsageError(f"topic {topic} exists already", hint="move it with rebuild or rebalance")
        if known.name.replace(".", "_") == flat:
            # Kafka refuses such a pair, because their metrics would have one name.
            raise UsageError(f"topic {topic} collides with {known.name}: Kafka takes '.' and '_' for the same")


def _brokers(pool: BrokerPool, request: PlaceRequest) -> tuple[int, ...]:
    if request.brokers is None:
        if not pool.open:
            raise UsageError("no live broker takes new replicas")
        return tuple(sorted(pool.open))
    holding = frozenset(b for b, n in pool.replicas.items() if n and b in pool.live)
    listed = request.brokers.resolve(holding, pool.open, pool.leaving)
    wrong = [b for b in listed if b not in pool.live]
    if wrong:
        raise UsageError(
            f"--brokers: {some(wrong)} not alive in this cluster", hint=f"alive: {some(sorted(pool.live))}"
        )
    closed = [b for b in listed if b in pool.closed]
    if closed:
        raise UsageError(f"--brokers: every log dir of {some(closed)} is cordoned or broken")
    return listed


def _too_few(pool: BrokerPool, request: PlaceRequest, shape: Shape, brokers: tuple[int, ...], placed: int) -> Exception:
    partition = PlannedPartition(TopicPartition(request.topic, 0), (), shape.replication)
    problem = PlacementProblem((partition,), brokers, pool.racks, GroupRule(request.min_rack_ids))
    unplaced = (shape.replication - placed,)
    error = infeasible(explain_unplaced(problem, unplaced, {b: pool.racks[b] for b in pool.live}), unplaced)
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
