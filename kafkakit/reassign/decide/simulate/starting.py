"""Which steps start at a look at the simulated cluster: by the schedule, by the plan's order, or all at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.schedule.window import Standing, startable
from kafkakit.execution.decide.schedule.work import DirTask, Limits, Place, Schedule, Step, StepKind, Task
from kafkakit.reassign.decide.simulate.request import Order
from kafkakit.reassign.decide.simulate.scene import Scene
from kafkakit.simulator.cluster import SimMove
from kafkakit.simulator.disks import DiskSeen
from kafkakit.simulator.simulation import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """What is to be sent now: moves, and copies with the dir of their broker that they change to."""

    moves: tuple[SimMove, ...]
    dir_moves: tuple[tuple[TopicPartitionReplica, str], ...]


class Starter:
    """Hands out steps as they may start: by `startable`, as the executor does.

    The plan's order is the same without any sight of disks, `all-at-once` without any limit.
    """

    def __init__(self, schedule: Schedule, scene: Scene, order: Order, limits: Limits) -> None:
        self._order = order
        self._limits = limits
        steps = schedule.steps
        if order is not Order.SCHEDULE:
            steps = (*(_plain(t) for t in scene.tasks), *(_inside(t) for t in scene.dir_tasks))
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

    def next_steps(self, simulation: Simulation) -> Going:
        """What to submit now, given what has ended since and what the log dirs hold. O(steps not ended)."""
        steps = self._schedule.steps
        ended = {k for k in self._running if _has_ended(steps[k], simulation)}
        self._done |= ended
        self._running -= ended
        chosen = self._chosen(simulation.disks)
        self._running.update(chosen)
        picked = [steps[k] for k in chosen]
        return Going(
            moves=tuple(self._move(s) for s in picked if s.kind is not StepKind.INSIDE),
            dir_moves=tuple((_replica(s), s.adding[0].log_dir) for s in picked if s.kind is StepKind.INSIDE),
        )

    def _chosen(self, disks: Sequence[DiskSeen]) -> Sequence[int]:
        if self._order is Order.ALL:
            count = len(self._schedule.steps)
            return [k for k in range(count) if k not in self._running and k not in self._done]
        known = [d for d in disks if d.total_bytes is not None] if self._order is Order.SCHEDULE else []
        standing = Standing(
            finished=self._done,
            in_flight=frozenset(self._running),
            usable={_place(d): (d.total_bytes or 0) - d.used_bytes for d in known},
            arriving_bytes_left={_place(d): d.arriving_bytes for d in known},
        )
        return startable(self._schedule, standing, self._limits, {_place(d): d.total_bytes for d in known})

    def _move(self, step: Step) -> SimMove:
        dirs = {p.broker: p.log_dir for p in step.adding if p.log_dir} or self._dirs.get(step.key, {})
        return SimMove(key=step.key, target=step.target, dirs=dirs)


def _has_ended(step: Step, simulation: Simulation) -> bool:
    if step.kind is StepKind.INSIDE:
        return _replica(step) in simulation.finished_dirs
    return step.key in simulation.finished


def _replica(step: Step) -> TopicPartitionReplica:
    return TopicPartitionReplica(step.key.topic, step.key.partition, step.adding[0].broker)


def _place(disk: DiskSeen) -> Place:
    return Place(disk.broker, disk.path)


def _plain(task: Task) -> Step:
    return Step(
        key=task.key,
        kind=StepKind.MOVE,
        target=task.target,
        leader=task.leader,
        adding=tuple(Place(b, task.wanted_dirs.get(b, "")) for b in task.adding),
        removing=tuple(Place(b, task.dirs.get(b, "")) for b in task.removing),
        size_bytes=task.size_bytes,
        start_s=0.0,
        end_s=0.0,
    )


def _inside(task: DirTask) -> Step:
    return Step(
        key=task.key,
        kind=StepKind.INSIDE,
        target=(),
        leader=None,
        adding=(Place(task.broker, task.target_dir),),
        removing=(Place(task.broker, task.source_dir),),
        size_bytes=task.size_bytes,
        start_s=0.0,
        end_s=0.0,
    )
