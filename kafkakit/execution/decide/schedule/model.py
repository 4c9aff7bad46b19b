"""The model that the scheduler works on: a partition's steps, copies as flows, free space, and the least time.

* A partition's way to its target: which list to send next, and what each request brings and frees.
* A copy on its way is a flow from one end to another; an end shares its rate among its flows.
* Free space in log dirs: what is promised to copies on their way, and what comes back when old copies are deleted.
  Every copy is booked with the size that it will have at the end of the run (`horizon_s`), so a dir that is within
  its limit here is within it at every moment until then.
* A run takes at least the busiest broker's bytes over its rate, the time of its largest copy, or that of its
  requests.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.work import (
    Bottleneck,
    BrokerRates,
    DirTask,
    Disk,
    LogDirPlace,
    PartitionTask,
    Speeds,
    StepKind,
)

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
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

    def next_leg(self) -> PartitionRequest:
        """The request that this job sends next when nothing is in its way."""
        if self.dir_broker is not None:
            return self.inside_leg(self.dir_broker, self.dir_target)
        adds = tuple(b for b in self.target if b not in self.current)
        if self.singly and len(adds) > 1 and not self.running:
            return self.part_leg(adds[0], None, "one new copy at a time")
        removes = tuple(b for b in self.current if b not in self.target)
        kind = StepKind.PART if self.legs_done else StepKind.MOVE
        why = "the last of several requests" if kind is StepKind.PART else ""
        return PartitionRequest(kind=kind, target=self.target, adds=adds, removes=removes, why=why)

    def part_leg(self, add: int, free: Callable[[int], float] | None, why: str) -> PartitionRequest:
        """A request that brings one copy only, and sends one home unless the list has to grow.

        The copy that goes is the one for which `free` is highest; of equals the leader's goes last, so that the source
        stays.
        """
        removes = [b for b in self.current if b not in self.target]
        grows = len(self.current) < len(self.target) and free is None
        if grows or not removes:
            return PartitionRequest(kind=StepKind.PART, target=(*self.current, add), adds=(add,), removes=(), why=why)
        gone = min(removes, key=lambda b: (-(free(b) if free else 0.0), b == self.leader))
        if gone == self.leader and len(self.current) < len(self.target):
            return PartitionRequest(kind=StepKind.PART, target=(*self.current, add), adds=(add,), removes=(), why=why)
        after = tuple(add if b == gone else b for b in self.current)
        return PartitionRequest(kind=StepKind.PART, target=after, adds=(add,), removes=(gone,), why=why)

    def detour_leg(self, gone: int, spare: int, why: str) -> PartitionRequest:
        """A request that takes one copy to a broker outside the target."""
        after = tuple(spare if b == gone else b for b in self.current)
        return PartitionRequest(kind=StepKind.DETOUR, target=after, adds=(spare,), removes=(gone,), why=why)

    def inside_leg(self, broker: int, to_dir: str, why: str = "") -> PartitionRequest:
        """A copy changes its dir inside a broker."""
        return PartitionRequest(
            kind=StepKind.INSIDE, target=self.current, adds=(broker,), removes=(), to_dir=to_dir, why=why
        )

    def arrive(self, leg: PartitionRequest, dirs: tuple[str, ...]) -> None:
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


def job_of(task: PartitionTask, where: dict[int, str], *, singly: bool, indivisible: bool) -> Job:
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


ROUNDS = 8  # more change the shares by less than the rates are known


class Ends:
    """What brokers can do, one number each for sending, taking in and copying inside, and a last that is not limited.

    `rate` is bytes per second by end, `slots` how many copies may use it at a time.
    """

    def __init__(self, brokers: Sequence[int], limits: ScheduleLimits, rates: BrokerRates, speeds: Speeds) -> None:
        self._index = {b: n for n, b in enumerate(brokers)}
        count = len(brokers)
        self.count = 3 * count + 1
        self.nowhere = 3 * count
        reached = speeds.efficiency
        out = [_rate(rates.out_of_broker(b), speeds.line_bytes_per_s, reached) for b in brokers]
        into = [_rate(rates.into_broker(b), speeds.line_bytes_per_s, reached) for b in brokers]
        inside = [_rate(rates.inside, speeds.disk_bytes_per_s, reached)] * count
        self.rate: list[float] = [*out, *into, *inside, float("inf")]
        endless = 1 << 60
        self.slots = [limits.out_each] * count + [limits.into_each] * count + [limits.inside_each] * count + [endless]

    def out(self, broker: int) -> int:
        """The end at which a broker sends."""
        return self._index[broker]

    def into(self, broker: int) -> int:
        """The end at which a broker takes in."""
        return len(self._index) + self._index[broker]

    def inside(self, broker: int) -> int:
        """The end at which a broker copies between its own dirs."""
        return 2 * len(self._index) + self._index[broker]


def _rate(throttle: int | None, line: float, efficiency: float) -> float:
    return line if throttle is None else min(line, throttle * efficiency)


def fair_rates(sources: "np.ndarray", sinks: "np.ndarray", rate: "np.ndarray") -> "np.ndarray":
    """Bytes per second of each flow: nearly max-min fair, never above an end's rate, nothing left that both ends have.

    Each round gives a flow the smaller of its ends' even shares of what is left; after `ROUNDS` the rest stays
    unused. O(rounds x (flows + ends)).
    """
    import numpy as np

    left = rate.copy()
    got = np.zeros(len(sources))
    active = np.arange(len(sources))
    ends = len(rate)
    for _ in range(ROUNDS):
        at, to = sources[active], sinks[active]
        users = np.bincount(at, minlength=ends) + np.bincount(to, minlength=ends)
        share = left / np.maximum(users, 1)
        more = np.minimum(share[at], share[to])
        got[active] += more
        left -= np.bincount(at, more, minlength=ends) + np.bincount(to, more, minlength=ends)
        spent = left <= 1e-9 * rate
        spent[-1] = False  # the last end is not limited
        active = active[~(spent[at] | spent[to])]
        if not len(active):
            break
    return got


class FreeSpace:
    """Free space by slot: the dirs first, then `anywhere` (never limited), then one for each broker's best open dir.

    `free` is an array of bytes, infinite where nothing is known; a closed dir has none (minus infinity).
    """

    def __init__(self, disks: Sequence[Disk], brokers: Sequence[int], limits: ScheduleLimits, horizon_s: float) -> None:
        import numpy as np

        self._horizon_s = horizon_s
        self._brokers = tuple(brokers)
        self.disks = sorted(disks, key=lambda d: d.place)
        self._slot = {d.place: n for n, d in enumerate(self.disks)}
        self.anywhere = len(self.disks)
        self._best = {b: self.anywhere + 1 + n for n, b in enumerate(brokers)}
        self._of_broker: dict[int, list[int]] = {b: [] for b in brokers}
        for n, disk in enumerate(self.disks):
            self._of_broker[disk.place.broker].append(n)
        self._growth = [d.growth_bytes_per_s for d in self.disks]
        self.limit = [_limit(d, limits) for d in self.disks]
        free_bytes = [self._free_at_start(n, d) for n, d in enumerate(self.disks)]
        self.free: np.ndarray = np.array([*free_bytes, float("inf"), *[0.0] * len(brokers)])
        for broker in brokers:
            self._refresh(broker)

    def weight(self, size: float, ingest: float) -> float:
        """What a copy takes at the end of the run, in bytes."""
        return size + ingest * self._horizon_s

    def slot_for(self, broker: int, log_dir: str | None) -> int:
        """Where a new copy goes: the named dir, the only one, or the slot that stands for the best one."""
        if log_dir:
            return self._slot.get(LogDirPlace(broker, log_dir), self.anywhere)
        own = self._of_broker.get(broker, ())
        if not own:
            return self.anywhere
        return own[0] if len(own) == 1 else self._best[broker]

    def slot_of_copy(self, broker: int, log_dir: str | None) -> int | None:
        """Where a copy lies that is there now; None when that is not known."""
        slot = self.slot_for(broker, log_dir)
        return slot if slot < self.anywhere else None

    def settle(self, slot: int) -> int:
        """The dir behind a slot: for a broker's best one the open dir with most free space (the first of equals)."""
        if slot <= self.anywhere:
            return slot
        own = self._of_broker[self._brokers[slot - self.anywhere - 1]]
        return max(own, key=lambda n: (self.free[n], -n))

    def choices(self, slot: int) -> list[int]:
        """The dirs that a slot may come to stand for: for a broker's best one all of its open dirs."""
        if slot <= self.anywhere:
            return [slot]
        own = self._of_broker[self._brokers[slot - self.anywhere - 1]]
        return [n for n in own if self.free[n] > -float("inf")]

    def place(self, slot: int, broker: int, log_dir: str | None) -> LogDirPlace:
        """The log dir of a slot, named as far as it is known."""
        return self.disks[slot].place if slot < self.anywhere else LogDirPlace(broker, log_dir or "")

    def others(self, slot: int) -> list[int]:
        """The broker's other dirs."""
        return [n for n in self._of_broker[self.disks[slot].place.broker] if n != slot]

    def take(self, slot: int, size: float, ingest: float) -> None:
        """Promise space to a new copy."""
        if slot < self.anywhere:
            self.free[slot] -= self.weight(size, ingest)
            self._growth[slot] += ingest
            self._refresh(self.disks[slot].place.broker)

    def give(self, slot: int, size: float, ingest: float) -> None:
        """An old copy is deleted: its bytes come back, and what it would have grown by."""
        if slot < self.anywhere:
            ingest = min(ingest, self._growth[slot])
            self._growth[slot] -= ingest
            self.free[slot] += self.weight(size, ingest)
            self._refresh(self.disks[slot].place.broker)

    def _free_at_start(self, slot: int, disk: Disk) -> float:
        if disk.closed:
            return -float("inf")
        used = (disk.total_bytes or 0) - (disk.usable_bytes or 0)
        return self.limit[slot] - used - disk.growth_bytes_per_s * self._horizon_s

    def _refresh(self, broker: int) -> None:
        own = self._of_broker[broker]
        self.free[self._best[broker]] = max((self.free[n] for n in own), default=float("inf"))


def _limit(disk: Disk, limits: ScheduleLimits) -> float:
    if disk.total_bytes is None or disk.usable_bytes is None:
        return float("inf")
    return float(limits.limit_of(disk.total_bytes))


def lower_bound(
    tasks: Sequence[PartitionTask],
    dir_tasks: Sequence[DirTask],
    rates: BrokerRates,
    speeds: Speeds,
    limits: ScheduleLimits,
    *,
    served_elsewhere: Collection[TopicPartition] = (),
) -> tuple[float, Bottleneck | None]:
    """Seconds that no order beats, and which bytes they come from (None: requests take longer, or none are). O(copies).

    Every new copy enters its broker and leaves its leader, at most at the rate that the broker reaches; and one copy
    alone takes its bytes over the slower of both; then comes `step_s`. Requests: see `_of_requests`. What the logs
    take in meanwhile only adds to that. Partitions in `served_elsewhere` change their leader on the way, so that what
    their first leader sends is not known.
    """
    brokers = sorted({b for t in tasks for b in (*t.adding, *_serving_brokers(t))} | {d.broker for d in dir_tasks})
    ends = Ends(brokers, limits, rates, speeds)
    loads: dict[tuple[int, str], float] = {}
    largest: dict[tuple[int, int], float] = {}

    def add(broker: int, direction: str, count: float) -> None:
        loads[broker, direction] = loads.get((broker, direction), 0) + count

    for task in tasks:
        adding = task.adding
        if task.leader is None or not adding:
            continue
        left = max(0, task.size_bytes * len(adding) - task.copied_bytes)
        each = left / len(adding)
        for broker in adding:
            add(broker, "into", each)
            if each > largest.get((task.leader, broker), 0) and task.key not in served_elsewhere:
                largest[task.leader, broker] = each
        if task.key not in served_elsewhere:
            add(task.leader, "out", each * len(adding))
    for item in dir_tasks:
        add(item.broker, "inside", max(0, item.size_bytes - item.copied_bytes))
    busiest: tuple[float, Bottleneck | None] = (0.0, None)
    for (source, broker), count in sorted(largest.items()):
        alone = _one_copy(broker, source, count, ends)
        if count / alone.bytes_per_s > busiest[0]:
            busiest = (count / alone.bytes_per_s, alone)
    for (broker, direction), count in sorted(loads.items()):
        rate = ends.rate[{"into": ends.into, "out": ends.out, "inside": ends.inside}[direction](broker)]
        if count and count / rate >= busiest[0]:
            found = Bottleneck(broker=broker, direction=direction, bytes=int(count), bytes_per_s=rate)
            busiest = (count / rate, found)
    last = speeds.step_s if busiest[0] else 0.0
    requests = _of_requests(tasks, dir_tasks, limits, speeds)
    return (requests, None) if requests > busiest[0] + last else (busiest[0] + last, busiest[1])


def _of_requests(
    tasks: Sequence[PartitionTask], dir_tasks: Sequence[DirTask], limits: ScheduleLimits, speeds: Speeds
) -> float:
    """Seconds of the requests alone: what the controller ends, and the places that each keeps for `step_s`.

    What is on the cluster already was not sent under these limits, and counts for the controller only.
    """
    requested = [t for t in tasks if t.running or t.holders != t.target]
    new = [t for t in requested if not t.running]
    into = Counter(b for t in new for b in t.adding)
    inside = Counter(d.broker for d in dir_tasks if not d.running)
    turns = max(
        1 if requested or dir_tasks else 0,
        (len(new) + sum(inside.values())) / limits.cluster,
        max(into.values(), default=0) / limits.into_each,
        max(inside.values(), default=0) / limits.inside_each,
    )
    return max(len(requested) / speeds.steps_per_s, turns * speeds.step_s)


def _serving_brokers(task: PartitionTask) -> tuple[int, ...]:
    return () if task.leader is None else (task.leader,)


def _one_copy(broker: int, source: int, count: float, ends: Ends) -> Bottleneck:
    into, out = ends.rate[ends.into(broker)], ends.rate[ends.out(source)]
    slow, direction = (source, "out") if out < into else (broker, "into")
    return Bottleneck(broker=slow, direction=direction, bytes=int(count), bytes_per_s=min(into, out))
