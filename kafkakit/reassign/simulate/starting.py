"""Which moves start at a look at the simulated cluster: by the schedule, by the plan's order, or all at once."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kafkakit.model import TopicPartition
from kafkakit.reassign.schedule.work import Limits, Place, Schedule, Step, StepKind, Task
from kafkakit.reassign.simulate.request import Order
from kafkakit.simulator.cluster import SimMove
from kafkakit.simulator.observation import DiskSeen

MOST_REFUSED = 2000  # so many in a row, and the rest waits for the next look


class Starter:
    """Hands out steps in their order as places become free; a partition's next step waits for the one before.

    With the schedule's order a log dir's arrivals keep the order of the list, and a step waits until the dir really
    has room for it and for all that is on its way there.
    """

    def __init__(self, schedule: Schedule, tasks: Sequence[Task], order: Order, limits: Limits) -> None:
        self._order = order
        self._limits = limits
        self._steps = list(schedule.steps) if order is Order.SCHEDULE else [_plain(t) for t in tasks]
        self._waiting = [k for k, s in enumerate(self._steps) if s.kind is not StepKind.INSIDE]
        self._done = {k for k, s in enumerate(self._steps) if s.kind is StepKind.INSIDE}
        self._running: dict[TopicPartition, int] = {}
        self._dirs = {t.key: t.wanted_dirs for t in tasks}

    @property
    def is_done(self) -> bool:
        """True when every step has been started and has ended."""
        return not self._waiting and not self._running

    @property
    def running(self) -> int:
        """Steps under way."""
        return len(self._running)

    def next_moves(self, finished: Mapping[TopicPartition, int], disks: Sequence[DiskSeen]) -> list[SimMove]:
        """The moves to submit now, given what has ended since and what the log dirs hold. O(waiting steps)."""
        for key in [k for k in self._running if k in finished]:
            self._done.add(self._running.pop(key))
        into: Counter[int] = Counter()
        out: Counter[int] = Counter()
        coming: Counter[Place] = Counter()
        for index in self._running.values():
            self._count(self._steps[index], into, out, coming)
        seen = {Place(d.broker, d.path): d for d in disks}
        held_back: set[Place] = set()
        kept, chosen = [], []
        refused = 0
        for position, index in enumerate(self._waiting):
            if refused >= MOST_REFUSED and (chosen or self._running):
                kept += self._waiting[position:]
                break
            step = self._steps[index]
            if self._may_start(step, into, out, coming, seen, held_back):
                self._count(step, into, out, coming)
                self._running[step.key] = index
                chosen.append(self._move(step))
                refused = 0
            else:
                kept.append(index)
                refused += 1
                held_back.update(step.adding)
        self._waiting = kept
        return chosen

    def _move(self, step: Step) -> SimMove:
        dirs = {p.broker: p.log_dir for p in step.adding if p.log_dir} or self._dirs.get(step.key, {})
        return SimMove(key=step.key, target=step.target, dirs=dirs)

    def _count(self, step: Step, into: Counter[int], out: Counter[int], coming: Counter[Place]) -> None:
        for place in step.adding:
            into[place.broker] += 1
            coming[place] += step.size_bytes
        if step.leader is not None:
            out[step.leader] += len(step.adding)

    def _may_start(
        self,
        step: Step,
        into: Counter[int],
        out: Counter[int],
        coming: Counter[Place],
        seen: Mapping[Place, DiskSeen],
        held_back: set[Place],
    ) -> bool:
        if self._order is Order.ALL:
            return True
        if step.key in self._running or (step.after is not None and step.after not in self._done):
            return False
        limits = self._limits
        if len(self._running) >= limits.cluster or any(into[p.broker] >= limits.into_each for p in step.adding):
            return False
        used_out = out[step.leader] if step.leader is not None else 0
        if step.adding and used_out and used_out + len(step.adding) > limits.out_each:
            return False
        if self._order is Order.PLAN:
            return True
        return not any(p in held_back or not self._fits(step, p, coming, seen) for p in step.adding)

    def _fits(self, step: Step, place: Place, coming: Counter[Place], seen: Mapping[Place, DiskSeen]) -> bool:
        disk = seen.get(place)
        if disk is None or disk.total_bytes is None:
            return True
        # Counts what is on its way as if nothing of it were there yet: room is never promised twice.
        return disk.used_bytes + coming[place] + step.size_bytes <= self._limits.limit_of(disk.total_bytes)


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
