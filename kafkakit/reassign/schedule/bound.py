"""How long a run takes at least: the busiest broker's bytes over its rate, or the largest single copy."""

from collections.abc import Collection, Sequence

from kafkakit.model import TopicPartition
from kafkakit.reassign.schedule.work import Bottleneck, DirTask, Limits, Rates, Speeds, Task
from kafkakit.reassign.schedule.flow import Ends


def lower_bound(
    tasks: Sequence[Task],
    dir_tasks: Sequence[DirTask],
    rates: Rates,
    speeds: Speeds,
    *,
    served_elsewhere: Collection[TopicPartition] = (),
) -> tuple[float, Bottleneck | None]:
    """Seconds that no order beats, and what they come from (None when nothing is to copy). O(copies).

    Every new copy enters its broker and leaves its leader, at most at the rate that the broker reaches; and one copy
    alone takes its bytes over the slower of both. What the logs take in meanwhile only adds to that. Partitions in
    `served_elsewhere` change their leader on the way, so that what their first leader sends is not known.
    """
    brokers = sorted({b for t in tasks for b in (*t.adding, *_served(t))} | {d.broker for d in dir_tasks})
    ends = Ends(brokers, Limits(), rates, speeds)
    loads: dict[tuple[int, str], int] = {}
    longest: tuple[float, Bottleneck | None] = (0.0, None)

    def add(broker: int, direction: str, count: int) -> None:
        loads[broker, direction] = loads.get((broker, direction), 0) + count

    for task in tasks:
        if task.leader is None or not task.adding:
            continue
        left = max(0, task.size_bytes * len(task.adding) - task.copied_bytes)
        each = left // len(task.adding)
        for broker in task.adding:
            add(broker, "into", each)
            source = None if task.key in served_elsewhere else task.leader
            longest = max(longest, _one_copy(broker, source, each, ends), key=lambda x: x[0])
        if task.key not in served_elsewhere:
            add(task.leader, "out", each * len(task.adding))
    for item in dir_tasks:
        add(item.broker, "inside", max(0, item.size_bytes - item.copied_bytes))
    busiest = longest
    for (broker, direction), count in sorted(loads.items()):
        rate = ends.rate[{"into": ends.into, "out": ends.out, "inside": ends.inside}[direction](broker)]
        found = Bottleneck(broker=broker, direction=direction, bytes=count, bytes_per_s=rate)
        if found.seconds >= busiest[0] and count:
            busiest = (found.seconds, found)
    return busiest


def _served(task: Task) -> tuple[int, ...]:
    return () if task.leader is None else (task.leader,)


def _one_copy(broker: int, source: int | None, count: int, ends: Ends) -> tuple[float, Bottleneck]:
    into = ends.rate[ends.into(broker)]
    out = float("inf") if source is None else ends.rate[ends.out(source)]
    slow, direction = (source, "out") if source is not None and out < into else (broker, "into")
    found = Bottleneck(broker=slow, direction=direction, bytes=count, bytes_per_s=min(into, out))
    return found.seconds, found
