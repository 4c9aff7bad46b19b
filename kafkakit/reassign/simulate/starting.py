"""Which moves start at a look at the simulated cluster: by the schedule, by the plan's order, or all at once."""

from collections.abc import Mapping, Sequence

from kafkakit.model import TopicPartition
from kafkakit.reassign.schedule.window import Standing, startable
from kafkakit.reassign.schedule.work import Limits, Place, Schedule, Step, StepKind, Task
from kafkakit.reassign.simulate.request import Order
from kafkakit.simulator.cluster import SimMove
from kafkakit.simulator.observation import DiskSeen


class Starter:
    """Hands out steps as they may start: by `startable`, as the executor does.

    The plan's order is the same without any sight of disks, `all-at-once` without any limit. Steps inside a broker
    count as done: the simulation has no moves between dirs.
    """

    def __init__(self, schedule: Schedule, tasks: Sequence[Task], order: Order, limits: Limits) -> None:
        self._order = order
        self._limits = limits
        steps = schedule.steps if order is Order.SCHEDULE else tuple(_plain(t) for t in tasks)
        self._schedule = Schedule(steps=steps, makespan_s=schedule.makespan_s, bound_s=schedule.bound_s)
        self._done = frozenset(k for k, s in enumerate(steps) if s.kind is StepKind.INSIDE)
        self._running: dict[TopicPartition, int] = {}
        self._dirs = {t.key: t.wanted_dirs for t in tasks}

    @property
    def is_done(self) -> bool:
        """True when every step has been started and has ended."""
        return len(self._done) == len(self._schedule.steps)

    def next_moves(self, finished: Mapping[TopicPartition, int], disks: Sequence[DiskSeen]) -> list[SimMove]:
        """The moves to submit now, given what has ended since and what the log dirs hold. O(steps not ended)."""
        ended = [k for k in self._running if k in finished]
        self._done |= {self._running.pop(key) for key in ended}
        steps = self._schedule.steps
        flying = frozenset(self._running.values())
        if self._order is Order.ALL:
            chosen: Sequence[int] = [k for k in range(len(steps)) if k not in flying and k not in self._done]
        else:
            known = [d for d in disks if d.total_bytes is not None] if self._order is Order.SCHEDULE else []
            standing = Standing(
                finished=self._done,
                in_flight=flying,
                usable={_place(d): (d.total_bytes or 0) - d.used_bytes for d in known},
                arriving_bytes_left={_place(d): d.arriving_bytes for d in known},
            )
            chosen = startable(self._schedule, standing, self._limits, {_place(d): d.total_bytes for d in known})
        self._running |= {steps[k].key: k for k in chosen}
        return [self._move(steps[k]) for k in chosen]

    def _move(self, step: Step) -> SimMove:
        dirs = {p.broker: p.log_dir for p in step.adding if p.log_dir} or self._dirs.get(step.key, {})
        return SimMove(key=step.key, target=step.target, dirs=dirs)


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
