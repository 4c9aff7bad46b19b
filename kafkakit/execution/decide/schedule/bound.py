"""How long a run takes at least: the busiest broker's bytes over its rate, the largest copy, or so many requests."""

from collections import Counter
from collections.abc import Collection, Sequence

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.schedule.flow import Ends
from kafkakit.execution.decide.schedule.work import Bottleneck, DirTask, Limits, Rates, Speeds, Task


def lower_bound(
    tasks: Sequence[Task],
    dir_tasks: Sequence[DirTask],
    rates: Rates,
    speeds: Speeds,
    limits: Limits,
    *,
    served_elsewhere: Collection[TopicPartition] = (),
) -> tuple[float, Bottleneck | None]:
    """Seconds that no order beats, and which bytes they come from (None: requests take longer, or none are). O(copies).

    Every new copy enters its broker and leaves its leader, at most at the rate that the broker reaches; and one copy
    alone takes its bytes over the slower of both; then comes `step_s`. Requests: see `_of_requests`. What the logs
    take in meanwhile only adds to that. Partitions in `served_elsewhere` change their leader on the way, so that what
    their first leader sends is not known.
    """
    brokers = sorted({b for t in tasks for b in (*t.adding, *_served(t))} | {d.broker for d in dir_tasks})
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


def _of_requests(tasks: Sequence[Task], dir_tasks: Sequence[DirTask], limits: Limits, speeds: Speeds) -> float:
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


def _served(task: Task) -> tuple[int, ...]:
    return () if task.leader is None else (task.leader,)


def _one_copy(broker: int, source: int, count: float, ends: Ends) -> Bottleneck:
    into, out = ends.rate[ends.into(broker)], ends.rate[ends.out(source)]
    slow, direction = (source, "out") if out < into else (broker, "into")
    return Bottleneck(broker=slow, direction=direction, bytes=int(count), bytes_per_s=min(into, out))
