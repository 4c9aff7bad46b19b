"""One partition's way to its target: which list to send next, and what each request brings and frees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.schedule.work import DirTask, StepKind, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """The next request of a job: the list after it, the brokers that get and lose a copy, and why it is no plain move.

    `to_dir` is where a copy goes that changes its dir inside `adds[0]` (then `target` is the list as it is).
    """

    kind: StepKind
    target: tuple[int, ...]
    adds: tuple[int, ...]
    removes: tuple[int, ...]
    to_dir: str | None = None
    why: str = ""


@dataclass(slots=True, kw_only=True)
class Job:
    """A task on its way: what it looks like now. `where` (the dir of each copy) is shared by all jobs of a partition.

    `indivisible` jobs are never cut into several requests to break a deadlock: an earlier try led nowhere.
    `served_elsewhere` says that a later copy came from another leader than the first.
    """

    key: TopicPartition
    current: tuple[int, ...]
    target: tuple[int, ...]
    where: dict[int, str]
    wanted: Mapping[int, str] = field(default_factory=dict)
    leader: int | None
    size: int
    ingest: float = 0.0
    urgent: bool = False
    running: bool = False
    copied: int = 0
    singly: bool = False
    indivisible: bool = False
    detoured: bool = False
    served_elsewhere: bool = False
    dir_broker: int | None = None
    dir_target: str = ""
    last_step: int | None = None
    legs_done: int = 0

    @property
    def is_done(self) -> bool:
        """True when nothing is left to send."""
        if self.dir_broker is not None:
            return self.where.get(self.dir_broker) == self.dir_target
        return self.current == self.target

    def next_leg(self) -> Leg:
        """The request that this job sends next when nothing is in its way."""
        if self.dir_broker is not None:
            return self.inside_leg(self.dir_broker, self.dir_target)
        adds = tuple(b for b in self.target if b not in self.current)
        if self.singly and len(adds) > 1 and not self.running:
            return self.part_leg(adds[0], None, "one new copy at a time")
        removes = tuple(b for b in self.current if b not in self.target)
        kind = StepKind.PART if self.legs_done else StepKind.MOVE
        why = "the last of several requests" if kind is StepKind.PART else ""
        return Leg(kind=kind, target=self.target, adds=adds, removes=removes, why=why)

    def part_leg(self, add: int, free: Callable[[int], float] | None, why: str) -> Leg:
        """A request that brings one copy only, and sends one home unless the list has to grow.

        The copy that goes is the one for which `free` is highest; of equals the leader's goes last, so that the source
        stays.
        """
        removes = [b for b in self.current if b not in self.target]
        grows = len(self.current) < len(self.target) and free is None
        if grows or not removes:
            return Leg(kind=StepKind.PART, target=(*self.current, add), adds=(add,), removes=(), why=why)
        gone = min(removes, key=lambda b: (-(free(b) if free else 0.0), b == self.leader))
        if gone == self.leader and len(self.current) < len(self.target):
            return Leg(kind=StepKind.PART, target=(*self.current, add), adds=(add,), removes=(), why=why)
        after = tuple(add if b == gone else b for b in self.current)
        return Leg(kind=StepKind.PART, target=after, adds=(add,), removes=(gone,), why=why)

    def detour_leg(self, gone: int, spare: int, why: str) -> Leg:
        """A request that takes one copy to a broker outside the target."""
        after = tuple(spare if b == gone else b for b in self.current)
        return Leg(kind=StepKind.DETOUR, target=after, adds=(spare,), removes=(gone,), why=why)

    def inside_leg(self, broker: int, to_dir: str, why: str = "") -> Leg:
        """A copy changes its dir inside a broker."""
        return Leg(kind=StepKind.INSIDE, target=self.current, adds=(broker,), removes=(), to_dir=to_dir, why=why)

    def arrive(self, leg: Leg, dirs: tuple[str, ...]) -> None:
        """Take note that a request is carried out; `dirs` are where its new copies landed."""
        for broker, path in zip(leg.adds, dirs, strict=True):
            self.where[broker] = path
        for broker in leg.removes:
            self.where.pop(broker, None)
        self.running, self.copied = False, 0
        self.legs_done += 1
        if leg.kind is StepKind.INSIDE:
            return
        self.current = leg.target
        if self.leader not in leg.target and leg.target:
            self.leader = leg.target[0]
            self.served_elsewhere |= leg.target != self.target


def job_of(task: Task, where: dict[int, str], *, singly: bool, indivisible: bool) -> Job:
    """The way of one partition's task from its start."""
    where.update({b: d for b, d in task.dirs.items() if b in task.holders})
    return Job(
        key=task.key,
        current=task.holders,
        target=task.target,
        where=where,
        wanted=task.wanted_dirs,
        leader=task.leader,
        size=task.size_bytes,
        ingest=task.ingest_bytes_per_s,
        urgent=task.urgent,
        running=task.running,
        copied=task.copied_bytes,
        singly=singly,
        indivisible=indivisible,
    )


def dir_job_of(task: DirTask, where: dict[int, str], *, indivisible: bool) -> Job:
    """The way of one copy from dir to dir."""
    where[task.broker] = task.source_dir
    return Job(
        key=task.key,
        current=(task.broker,),
        target=(task.broker,),
        where=where,
        leader=task.broker,
        size=task.size_bytes,
        ingest=task.ingest_bytes_per_s,
        running=task.running,
        copied=task.copied_bytes,
        indivisible=indivisible,
        dir_broker=task.broker,
        dir_target=task.target_dir,
    )
