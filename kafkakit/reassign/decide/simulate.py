"""A plan played on a simulated cluster, to compare throttles and orders of moves under faults.

The cluster, and what the scheduler must know of it, come from a plan and a snapshot. Each case starts moves by the
schedule, by the plan's order, or all at once, lets time and faults pass, and notes rates, disks and in-sync replicas.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.findings import least_in_sync, min_isr_of, stops_above_replicas, usual_min_isr_words
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import DirMove, Move, Plan
from kafkakit.core.quantities import count_of
from kafkakit.execution.decide.progress import RunPosition, startable_steps
from kafkakit.execution.decide.run_rules import Fault, FaultKind, Order, ScheduleLimits, SimulateRequest
from kafkakit.execution.decide.schedule.scheduler import plan_schedule
from kafkakit.execution.decide.schedule.work import (
    Bottleneck,
    BrokerRates,
    DirTask,
    Disk,
    LogDirPlace,
    PartitionTask,
    Schedule,
    ScheduleStep,
    Speeds,
    StepKind,
)
from kafkakit.simulator.cluster import DiskSeen, QuotaModel, SimBroker, SimCluster, SimDisk, SimMove, SimPartition
from kafkakit.simulator.simulation import Simulation

LOOKS = 600  # about so many looks at a case
LONGEST_LOOK_S = 60
HANG_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSample:
    """One look: bytes per second copied since the last one, and the fullest log dir with its share in use."""

    at_s: int
    bytes_per_s: float
    fullest: LogDirPlace | None
    use: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DirPeak:
    """The most that a log dir held at any look, and when it went offline because it was full (None: never)."""

    place: LogDirPlace
    peak_bytes: int
    total_bytes: int | None
    filled_at_s: int | None = None

    @property
    def use(self) -> float:
        """Share of the dir at its peak; 0 when its size is unknown."""
        return self.peak_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What came of one order under one throttle; `eta_s` and `bound_s` are the scheduler's, before the first byte.

    `duration_s` is None when it did not end: `hanging` then names partitions that still move or never could.
    """

    order: Order
    throttle: int | None
    duration_s: int | None
    eta_s: float
    bound_s: float
    bottleneck: Bottleneck | None
    copied_bytes: int
    peaks: tuple[DirPeak, ...]
    under_replicated_s: int
    under_min_isr_s: int
    offline_s: int
    hanging: tuple[TopicPartition, ...]
    immovable: Mapping[TopicPartition, str]
    detours: int
    samples: tuple[SimulationSample, ...]

    @property
    def filled(self) -> tuple[DirPeak, ...]:
        """Log dirs that went offline."""
        return tuple(p for p in self.peaks if p.filled_at_s is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationScene:
    """What all cases share: the cluster, the moves still to make as tasks, their disks, racks, and remarks."""

    cluster: SimCluster
    tasks: tuple[PartitionTask, ...]
    dir_tasks: tuple[DirTask, ...]
    disks: tuple[Disk, ...]
    racks: dict[int, str | None]
    notes: tuple[str, ...]


def play(scene: SimulationScene, request: SimulateRequest, order: Order, throttle: int | None) -> Case:
    """Simulate one case to its end, until nothing has moved for an hour, or until `most_s`.

    Cost: the schedule's, then about a millisecond a tick (see `Simulation.advance`).
    """
    schedule = plan_schedule(
        scene.tasks,
        scene.dir_tasks,
        scene.disks,
        request.limits,
        BrokerRates(into=throttle, out=throttle, inside=throttle),
        Speeds(line_bytes_per_s=float(request.line_rate), efficiency=float(request.efficiency)),
        racks=scene.racks,
    )
    player = _CasePlayer(scene, request, schedule, order, throttle)
    duration = player.run()
    return Case(
        order=order,
        throttle=throttle,
        duration_s=duration,
        eta_s=schedule.makespan_s,
        bound_s=schedule.bound_s,
        bottleneck=schedule.bottleneck,
        copied_bytes=round(player.simulation.copied_bytes),
        peaks=tuple(player.peaks[place] for place in sorted(player.peaks)),
        under_replicated_s=player.simulation.under_replicated_s,
        under_min_isr_s=player.simulation.under_min_isr_s,
        offline_s=player.simulation.offline_s,
        hanging=() if duration is not None else tuple(sorted(player.unfinished)),
        immovable=schedule.immovable if order is Order.SCHEDULE else {},
        detours=len(schedule.detours) if order is Order.SCHEDULE else 0,
        samples=tuple(player.samples),
    )


class _CasePlayer:
    def __init__(
        self, scene: SimulationScene, request: SimulateRequest, schedule: Schedule, order: Order, throttle: int | None
    ) -> None:
        self.simulation = Simulation(scene.cluster)
        for broker in scene.cluster.brokers:
            self.simulation.set_rates(broker.id, into=throttle, out=throttle)
            self.simulation.set_inside_rate(broker.id, throttle)
        self.samples: list[SimulationSample] = []
        self.peaks: dict[LogDirPlace, DirPeak] = {}
        self._starter = Starter(schedule, scene, order, request.limits)
        self._targets = {t.key: t.target for t in scene.tasks}
        self._faults: list[Fault] = list(request.faults)
        self._most_s = request.most_s
        self._look_s = max(1, min(LONGEST_LOOK_S, round(schedule.bound_s / LOOKS)))
        self._failed_before = {LogDirPlace(d.broker, d.path) for d in self.simulation.disks if d.failed}

    @property
    def unfinished(self) -> list[TopicPartition]:
        """Partitions that are not where the plan wants them."""
        lists = self.simulation.lists
        moving = set(self.simulation.in_flight)
        lists_left = [k for k, target in self._targets.items() if k in moving or lists[k] != target]
        return lists_left or self._starter.waiting_keys

    def run(self) -> int | None:
        """Seconds until all was done; None when it was not."""
        simulation = self.simulation
        moved_at = 0
        while simulation.now_s < self._most_s:
            self._break_things()
            going = self._starter.next_steps(simulation)
            simulation.submit(going.moves)
            for replica, path in going.dir_moves:
                simulation.move_dir(replica, path)
            if self._starter.is_done:
                break
            before = self._progress()
            seconds = self._look_s
            if self._faults:
                seconds = max(1, min(seconds, self._faults[0].at_s - simulation.now_s))
            simulation.advance(seconds)
            self._note((simulation.copied_bytes - before[0]) / seconds)
            if self._progress() != before or self._faults:
                moved_at = simulation.now_s
            if simulation.now_s - moved_at >= HANG_S:
                break
        if self.unfinished:
            return None
        return max([*simulation.finished.values(), *simulation.finished_dirs.values()], default=0)

    def _progress(self) -> tuple[float, float, int]:
        simulation = self.simulation
        ended = len(simulation.finished) + len(simulation.finished_dirs)
        return simulation.copied_bytes, simulation.copied_inside_bytes, ended

    def _break_things(self) -> None:
        while self._faults and self._faults[0].at_s <= self.simulation.now_s:
            fault = self._faults.pop(0)
            (self.simulation.kill if fault.kind is FaultKind.KILL else self.simulation.revive)(fault.broker)

    def _note(self, rate: float) -> None:
        fullest: tuple[float, LogDirPlace | None] = (0.0, None)
        for disk in self.simulation.disks:
            place = LogDirPlace(disk.broker, disk.path)
            use = disk.used_bytes / disk.total_bytes if disk.total_bytes else 0.0
            if use > fullest[0]:
                fullest = (use, place)
            self._peak(place, disk)
        self.samples.append(
            SimulationSample(at_s=self.simulation.now_s, bytes_per_s=rate, fullest=fullest[1], use=fullest[0])
        )

    def _peak(self, place: LogDirPlace, disk: DiskSeen) -> None:
        old = self.peaks.get(place)
        newly = disk.failed and place not in self._failed_before
        if old is not None and old.peak_bytes >= disk.used_bytes and not (newly and old.filled_at_s is None):
            return
        filled = old.filled_at_s if old is not None else None
        self.peaks[place] = DirPeak(
            place=place,
            peak_bytes=max(disk.used_bytes, old.peak_bytes if old is not None else 0),
            total_bytes=disk.total_bytes,
            filled_at_s=self.simulation.now_s if newly and filled is None else filled,
        )


def build_scene(plan: Plan, snapshot: ClusterSnapshot, request: SimulateRequest) -> SimulationScene:
    """Set the plan's partitions apart and sum all others up to disk use, growth and traffic. O(replicas).

    Raises `RefusedError` when the snapshot is of another cluster, or lacks a broker that the plan needs.
    """
    if plan.cluster_id != snapshot.cluster_id:
        raise RefusedError(
            f"the plan is for cluster {plan.cluster_id}, the snapshot is of {snapshot.cluster_id}",
            hint="give a snapshot of the plan's cluster",
        )
    tally = _CopyTally(plan, snapshot, request)
    known = {b.id for b in snapshot.brokers}
    missing = sorted({b for t in tally.tasks for b in t.target} - known)
    if missing:
        raise RefusedError(
            f"broker {missing[0]} is not in the snapshot", hint="take a new snapshot, or make a new plan"
        )
    members = [b for b in snapshot.brokers if b.state is not BrokerState.MISSING]
    brokers = tuple(_broker(b, tally, request) for b in sorted(members, key=lambda b: b.id))
    return SimulationScene(
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
        notes=(*_notes(plan, tally), *filter(None, [usual_min_isr_words(snapshot.min_isr)])),
    )


def check_faults(scene: SimulationScene, request: SimulateRequest) -> None:
    """Raise `UsageError` for a fault of a broker that is not in the cluster."""
    known = {b.id for b in scene.cluster.brokers}
    for fault in request.faults:
        if fault.broker not in known:
            raise UsageError(f"--{fault.kind.value}: broker {fault.broker} is not in the cluster")


class _CopyTally:
    """One pass over the snapshot's partitions."""

    def __init__(self, plan: Plan, snapshot: ClusterSnapshot, request: SimulateRequest) -> None:
        moves = {m.key: m for m in plan.moves}
        self._dir_moves: dict[TopicPartition, list[DirMove]] = defaultdict(list)
        for item in plan.dir_moves:
            self._dir_moves[TopicPartition(item.topic, item.partition)].append(item)
        self.dir_tasks: list[DirTask] = []
        everything = sum(p.known_bytes or 0 for _, p in snapshot.partitions())
        self.tasks: list[PartitionTask] = []
        self.partitions: list[SimPartition] = []
        self.growth: dict[LogDirPlace, float] = defaultdict(float)
        self.other_growth: dict[LogDirPlace, float] = defaultdict(float)
        self.into: dict[int, float] = defaultdict(float)
        self.out: dict[int, float] = defaultdict(float)
        self.held: dict[LogDirPlace, int] = defaultdict(int)
        self.done = self.unknown = 0
        self._registered = {b.id for b in snapshot.brokers if b.state is not BrokerState.MISSING}
        self._alive = {b.id for b in snapshot.brokers if b.is_alive}
        self._stops = stops_above_replicas(snapshot.kafka_version)
        self._usual = snapshot.usual_min_isr
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
            place = LogDirPlace(broker, partition.replica_dirs.get(broker, ""))
            self.held[place] += partition.replica_bytes.get(broker, size)
            self.growth[place] += ingest
            self.other_growth[place] += ingest
            self.into[broker] += ingest
        leader = partition.leader if partition.leader is not None else partition.replicas[0]
        self.out[leader] += ingest * (len(partition.replicas) - 1)

    def _take_moving(
        self,
        key: TopicPartition,
        partition: Partition,
        move: Move | None,
        size: int,
        ingest: float,
        configs: Mapping[str, str],
    ) -> None:
        holders = tuple(b for b in self._holders(partition) if b in self._registered)
        dirs = {b: d for b, d in partition.replica_dirs.items() if b in holders}
        for broker in holders:
            self.held[LogDirPlace(broker, dirs.get(broker, ""))] += partition.replica_bytes.get(broker, size)
            self.growth[LogDirPlace(broker, dirs.get(broker, ""))] += ingest
        in_sync = tuple(b for b in (partition.isr or holders) if b in holders and b in self._alive)
        leader = partition.leader if partition.leader in in_sync else next(iter(in_sync), None)
        self.partitions.append(
            SimPartition(
                key=key,
                replicas=holders,
                size_bytes=size,
                ingest_bytes_per_s=ingest,
                leader=leader,
                isr=in_sync,
                min_isr=least_in_sync(min_isr_of(configs, self._usual), len(partition.replicas), stops=self._stops),
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
                PartitionTask(
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


def _broker(broker: Broker, tally: _CopyTally, request: SimulateRequest) -> SimBroker:
    paths = [d.path for d in broker.log_dirs] or [""]
    disks = []
    for path in paths:
        found = next((d for d in broker.log_dirs if d.path == path), None)
        total = found.total_bytes if found else None
        usable = found.usable_bytes if found else None
        used = total - usable if total is not None and usable is not None else tally.held[LogDirPlace(broker.id, path)]
        disks.append(
            SimDisk(
                path=path,
                total_bytes=total if usable is not None else None,
                used_bytes=used,
                growth_bytes_per_s=tally.other_growth[LogDirPlace(broker.id, path)],
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


def _disks(brokers: Iterable[Broker], tally: _CopyTally) -> Iterable[Disk]:
    for broker in brokers:
        for found in broker.log_dirs:
            yield Disk(
                place=LogDirPlace(broker.id, found.path),
                total_bytes=found.total_bytes if found.usable_bytes is not None else None,
                usable_bytes=found.usable_bytes,
                growth_bytes_per_s=tally.growth[LogDirPlace(broker.id, found.path)],
                closed=bool(found.error) or found.cordoned,
            )


def _notes(plan: Plan, tally: _CopyTally) -> Iterable[str]:
    if tally.done:
        yield f"{count_of(tally.done, 'move')} of the plan done already"
    if tally.gone:
        yield f"{count_of(tally.gone, 'partition')} of the plan not in the snapshot"
    if tally.unknown:
        yield f"{count_of(tally.unknown, 'partition')} of unknown size, taken as empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartableMoves:
    """What is to be sent now: moves, and copies with the dir of their broker that they change to."""

    moves: tuple[SimMove, ...]
    dir_moves: tuple[tuple[TopicPartitionReplica, str], ...]


class Starter:
    """Hands out steps as they may start: by `startable_steps`, as the executor does.

    The plan's order is the same without any sight of disks, `all-at-once` without any limit.
    """

    def __init__(self, schedule: Schedule, scene: SimulationScene, order: Order, limits: ScheduleLimits) -> None:
        self._order = order
        self._limits = limits
        steps = schedule.steps
        if order is not Order.SCHEDULE:
            steps = (*(_plain_step(t) for t in scene.tasks), *(_inside_step(t) for t in scene.dir_tasks))
        self._schedule = Schedule(steps=steps, makespan_s=schedule.makespan_s, bound_s=schedule.bound_s)
        self._done: frozenset[int] = frozenset()
        self._running: set[int] = set()
        self._dirs = {t.key: t.wanted_dirs for t in scene.tasks}

    @property
    def is_done(self) -> bool:
        """True when every step has been started and has ended."""
        return len(self._done) == len(self._schedule.steps)

    @property
    def waiting_keys(self) -> list[TopicPartition]:
        """Partitions with steps that have not ended."""
        left = (s.key for k, s in enumerate(self._schedule.steps) if k not in self._done)
        return list(dict.fromkeys(left))

    def next_steps(self, simulation: Simulation) -> StartableMoves:
        """What to submit now, given what has ended since and what the log dirs hold. O(steps not ended)."""
        steps = self._schedule.steps
        ended = {k for k in self._running if _has_ended(steps[k], simulation)}
        self._done |= ended
        self._running -= ended
        chosen = self._chosen(simulation.disks)
        self._running.update(chosen)
        picked = [steps[k] for k in chosen]
        return StartableMoves(
            moves=tuple(self._move(s) for s in picked if s.kind is not StepKind.INSIDE),
            dir_moves=tuple((_replica(s), s.adding[0].log_dir) for s in picked if s.kind is StepKind.INSIDE),
        )

    def _chosen(self, disks: Sequence[DiskSeen]) -> Sequence[int]:
        if self._order is Order.ALL:
            count = len(self._schedule.steps)
            return [k for k in range(count) if k not in self._running and k not in self._done]
        known = [d for d in disks if d.total_bytes is not None] if self._order is Order.SCHEDULE else []
        standing = RunPosition(
            finished=self._done,
            in_flight=frozenset(self._running),
            usable={_place(d): (d.total_bytes or 0) - d.used_bytes for d in known},
            arriving_bytes_left={_place(d): d.arriving_bytes for d in known},
        )
        return startable_steps(self._schedule, standing, self._limits, {_place(d): d.total_bytes for d in known})

    def _move(self, step: ScheduleStep) -> SimMove:
        dirs = {p.broker: p.log_dir for p in step.adding if p.log_dir} or self._dirs.get(step.key, {})
        return SimMove(key=step.key, target=step.target, dirs=dirs)


def _has_ended(step: ScheduleStep, simulation: Simulation) -> bool:
    if step.kind is StepKind.INSIDE:
        return _replica(step) in simulation.finished_dirs
    return step.key in simulation.finished


def _replica(step: ScheduleStep) -> TopicPartitionReplica:
    return TopicPartitionReplica(step.key.topic, step.key.partition, step.adding[0].broker)


def _place(disk: DiskSeen) -> LogDirPlace:
    return LogDirPlace(disk.broker, disk.path)


def _plain_step(task: PartitionTask) -> ScheduleStep:
    return ScheduleStep(
        key=task.key,
        kind=StepKind.MOVE,
        target=task.target,
        leader=task.leader,
        adding=tuple(LogDirPlace(b, task.wanted_dirs.get(b, "")) for b in task.adding),
        removing=tuple(LogDirPlace(b, task.dirs.get(b, "")) for b in task.removing),
        size_bytes=task.size_bytes,
        start_s=0.0,
        end_s=0.0,
    )


def _inside_step(task: DirTask) -> ScheduleStep:
    return ScheduleStep(
        key=task.key,
        kind=StepKind.INSIDE,
        target=(),
        leader=None,
        adding=(LogDirPlace(task.broker, task.target_dir),),
        removing=(LogDirPlace(task.broker, task.source_dir),),
        size_bytes=task.size_bytes,
        start_s=0.0,
        end_s=0.0,
    )
