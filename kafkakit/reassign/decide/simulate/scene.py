"""From a plan and a snapshot to a cluster that can be simulated, and to what the scheduler must know of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, TopicPartition
from kafkakit.core.plan import DirMove, Move, Plan
from kafkakit.core.quantities import counted
from kafkakit.execution.decide.schedule.work import DirTask, Disk, Place, Task
from kafkakit.reassign.decide.simulate.request import SimulateRequest
from kafkakit.simulator.cluster import QuotaModel, SimBroker, SimCluster, SimDisk, SimPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What all cases share: the cluster, the moves still to make as tasks, their disks, racks, and remarks."""

    cluster: SimCluster
    tasks: tuple[Task, ...]
    dir_tasks: tuple[DirTask, ...]
    disks: tuple[Disk, ...]
    racks: dict[int, str | None]
    notes: tuple[str, ...]


def build_scene(plan: Plan, snapshot: ClusterSnapshot, request: SimulateRequest) -> Scene:
    """Set the plan's partitions apart and sum all others up to disk use, growth and traffic. O(replicas).

    Raises `RefusedError` when the snapshot is of another cluster, or lacks a broker that the plan needs.
    """
    if plan.cluster_id != snapshot.cluster_id:
        raise RefusedError(
            f"the plan is for cluster {plan.cluster_id}, the snapshot is of {snapshot.cluster_id}",
            hint="give a snapshot of the plan's cluster",
        )
    tally = _Tally(plan, snapshot, request)
    known = {b.id for b in snapshot.brokers}
    missing = sorted({b for t in tally.tasks for b in t.target} - known)
    if missing:
        raise RefusedError(
            f"broker {missing[0]} is not in the snapshot", hint="take a new snapshot, or make a new plan"
        )
    members = [b for b in snapshot.brokers if b.state is not BrokerState.MISSING]
    brokers = tuple(_broker(b, tally, request) for b in sorted(members, key=lambda b: b.id))
    return Scene(
        cluster=SimCluster(
            brokers=brokers,
            partitions=tuple(tally.partitions),
            quota=QuotaModel(window_num=request.quota_window, efficiency=float(request.efficiency)),
            deletion_delay_s=round(request.limits.deletion_delay_s),
        ),
        tasks=tuple(tally.tasks),
        dir_tasks=tuple(tally.dir_tasks),
        disks=tuple(_disks(snapshot.brokers, tally)),
        racks={b.id: b.group for b in snapshot.brokers},
        notes=tuple(_notes(plan, tally)),
    )


def check_faults(scene: Scene, request: SimulateRequest) -> None:
    """Raise `UsageError` for a fault of a broker that is not in the cluster."""
    known = {b.id for b in scene.cluster.brokers}
    for fault in request.faults:
        if fault.broker not in known:
            raise UsageError(f"--{fault.kind.value}: broker {fault.broker} is not in the cluster")


class _Tally:
    """One pass over the snapshot's partitions."""

    def __init__(self, plan: Plan, snapshot: ClusterSnapshot, request: SimulateRequest) -> None:
        moves = {m.key: m for m in plan.moves}
        self._dir_moves: dict[TopicPartition, list[DirMove]] = defaultdict(list)
        for item in plan.dir_moves:
            self._dir_moves[TopicPartition(item.topic, item.partition)].append(item)
        self.dir_tasks: list[DirTask] = []
        everything = sum(p.known_bytes or 0 for _, p in snapshot.partitions())
        self.tasks: list[Task] = []
        self.partitions: list[SimPartition] = []
        self.growth: dict[Place, float] = defaultdict(float)
        self.other_growth: dict[Place, float] = defaultdict(float)
        self.into: dict[int, float] = defaultdict(float)
        self.out: dict[int, float] = defaultdict(float)
        self.held: dict[Place, int] = defaultdict(int)
        self.done = self.unknown = 0
        self._registered = {b.id for b in snapshot.brokers if b.state is not BrokerState.MISSING}
        self._alive = {b.id for b in snapshot.brokers if b.is_alive}
        seen: set[TopicPartition] = set()
        configs = {t.name: t.configs for t in snapshot.topics}
        for topic, partition in snapshot.partitions():
            key = TopicPartition(topic, partition.partition)
            size = partition.known_bytes or 0
            ingest = request.ingest * size / everything if everything else 0.0
            move = moves.get(key)
            if move is not None or key in self._dir_moves:
                seen.add(key)
                self.unknown += partition.known_bytes is None
                self._take_moving(key, partition, move, size, ingest, configs[topic])
            else:
                self._take_other(partition, size, ingest)
        self.gone = len((moves.keys() | self._dir_moves.keys()) - seen)

    def _holders(self, partition: Partition) -> tuple[int, ...]:
        return tuple(b for b in partition.replicas if b not in partition.adding)

    def _take_other(self, partition: Partition, size: int, ingest: float) -> None:
        for broker in partition.replicas:
            place = Place(broker, partition.replica_dirs.get(broker, ""))
            self.held[place] += partition.replica_bytes.get(broker, size)
            self.growth[place] += ingest
            self.other_growth[place] += ingest
            self.into[broker] += ingest
        leader = partition.leader if partition.leader is not None else partition.replicas[0]
        self.out[leader] += ingest * (len(partition.replicas) - 1)

    def _take_moving(
        self, key: TopicPartition, partition: Partition, move: Move | None, size: int, ingest: float, configs: object
    ) -> None:
        holders = tuple(b for b in self._holders(partition) if b in self._registered)
        dirs = {b: d for b, d in partition.replica_dirs.items() if b in holders}
        for broker in holders:
            self.held[Place(broker, dirs.get(broker, ""))] += partition.replica_bytes.get(broker, size)
            self.growth[Place(broker, dirs.get(broker, ""))] += ingest
        in_sync = tuple(b for b in (partition.isr or holders) if b in holders and b in self._alive)
        leader = partition.leader if partition.leader in in_sync else next(iter(in_sync), None)
        minimum = configs.get("min.insync.replicas", "1") if isinstance(configs, dict) else "1"
        self.partitions.append(
            SimPartition(
                key=key,
                replicas=holders,
                size_bytes=size,
                ingest_bytes_per_s=ingest,
                leader=leader,
                isr=in_sync,
                min_isr=int(minimum) if minimum.isdigit() else 1,
                dirs=dirs,
            )
        )
        self._take_dir_moves(key, size, dirs)
        if move is None:
            return
        if holders == move.after:
            self.done += 1
        else:
            self.tasks.append(
                Task(
                    key=key,
                    holders=holders,
                    target=move.after,
                    leader=leader,
                    size_bytes=size,
                    dirs=dirs,
                    wanted_dirs={b: d for b, d in move.dirs.items() if b not in holders},
                    ingest_bytes_per_s=ingest,
                )
            )

    def _take_dir_moves(self, key: TopicPartition, size: int, dirs: Mapping[int, str]) -> None:
        for item in self._dir_moves.get(key, ()):
            if item.broker not in dirs or dirs[item.broker] == item.target_dir:
                self.done += 1
                continue
            self.dir_tasks.append(
                DirTask(
                    key=key,
                    broker=item.broker,
                    source_dir=dirs[item.broker],
                    target_dir=item.target_dir,
                    size_bytes=size,
                )
            )


def _broker(broker: Broker, tally: _Tally, request: SimulateRequest) -> SimBroker:
    paths = [d.path for d in broker.log_dirs] or [""]
    disks = []
    for path in paths:
        found = next((d for d in broker.log_dirs if d.path == path), None)
        total = found.total_bytes if found else None
        usable = found.usable_bytes if found else None
        used = total - usable if total is not None and usable is not None else tally.held[Place(broker.id, path)]
        disks.append(
            SimDisk(
                path=path,
                total_bytes=total if usable is not None else None,
                used_bytes=used,
                growth_bytes_per_s=tally.other_growth[Place(broker.id, path)],
                failed=bool(found and found.error),
            )
        )
    return SimBroker(
        id=broker.id,
        disks=tuple(disks),
        line_into=float(request.line_rate),
        line_out=float(request.line_rate),
        background_into=tally.into[broker.id],
        background_out=tally.out[broker.id],
        alive=broker.is_alive,
    )


def _disks(brokers: Iterable[Broker], tally: _Tally) -> Iterable[Disk]:
    for broker in brokers:
        for found in broker.log_dirs:
            yield Disk(
                place=Place(broker.id, found.path),
                total_bytes=found.total_bytes if found.usable_bytes is not None else None,
                usable_bytes=found.usable_bytes,
                growth_bytes_per_s=tally.growth[Place(broker.id, found.path)],
                closed=bool(found.error) or found.cordoned,
            )


def _notes(plan: Plan, tally: _Tally) -> Iterable[str]:
    if tally.done:
        yield f"{counted(tally.done, 'move')} of the plan done already"
    if tally.gone:
        yield f"{counted(tally.gone, 'partition')} of the plan not in the snapshot"
    if tally.unknown:
        yield f"{counted(tally.unknown, 'partition')} of unknown size, taken as empty"
