"""How long a run takes at least: the busiest broker's bytes over its rate, or the largest single copy."""

from collections.abc import Collection, Sequence

from kafkakit.model import TopicPartition
from kafkakit.reassign.schedule.flow import Ends
from kafkakit.reassign.schedule.work import Bottleneck, DirTask, Limits, Rates, Speeds, Task


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
    return busiest


def _served(task: Task) -> tuple[int, ...]:
    return () if task.leader is None else (task.leader,)


def _one_copy(broker: int, source: int, count: float, ends: Ends) -> Bottleneck:
    into, out = ends.rate[ends.into(broker)], ends.rate[ends.out(source)]
    slow, direction = (source, "out") if out < into else (broker, "into")
    return Bottleneck(broker=slow, direction=direction, bytes=int(count), bytes_per_s=min(into, out))
