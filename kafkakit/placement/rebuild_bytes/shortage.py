"""Why copies found no room, in bytes: what they reserve, and how much less the brokers have that may take them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.problem import PlannedPartition
from kafkakit.placement.rebuild_bytes.task import Row, Task

_NAMED = 5


def explain_shortage(
    task: Task, lists: Sequence[Row], missing: Collection[int], factor: Fraction, *, proven: bool
) -> tuple[str, ...]:
    """One reason a topic, its worst partition first; `missing` are the partitions whose room is too small.

    `proven` says that no placement holds more copies.
    """
    room = _room_after(task, lists)
    by_topic: dict[str, list[int]] = defaultdict(list)
    for i in missing:
        by_topic[task.problem.partitions[i].key.topic].append(i)
    lines = []
    for topic, found in sorted(by_topic.items()):
        worst = max(found, key=lambda i: (task.reserve[i], -i))
        more = f" (and {counted(len(found) - 1, 'more partition')} of it)" if len(found) > 1 else ""
        lines.append(f"topic {topic} p{task.problem.partitions[worst].key.partition}{more} {_why(task, worst, room)}")
    short = sum(task.reserve[i] * (len(task.rows[i]) - len(lists[i])) for i in missing)
    tail = "no placement fits more copies" if proven else "it is not proven that nothing more fits"
    factored = f" (sizes x {float(factor):g})" if factor != 1 else ""
    lines.append(f"{format_bytes(short)}{factored} of copies do not fit, {tail}")
    return tuple(lines)


def _room_after(task: Task, lists: Sequence[Row]) -> Mapping[int, int]:
    """How many bytes each receiver can still take, at most."""
    after = task.free_after(lists)
    return {b: max(0, task.room[b] - task.free[b] + after[b]) for b in sorted(task.receivers)}


def _why(task: Task, i: int, room: Mapping[int, int]) -> str:
    need = task.reserve[i]
    partition: PlannedPartition = task.problem.partitions[i]
    others = {b: left for b, left in room.items() if b not in task.kept[i]}
    if not others:
        return f"needs {format_bytes(need)} on another broker, and no listed broker takes copies"
    best = max(others, key=lambda b: (others[b], -b))
    name = f"needs {format_bytes(need)} a copy on {counted(partition.wanted, 'broker')}"
    if others[best] < need:
        return (
            f"{name}; of the others broker {best} has the most free space, {format_bytes(others[best])}, "
            f"{format_bytes(need - others[best])} short; free space there or add a broker"
        )
    enough = [b for b, left in others.items() if left >= need]
    shown = ", ".join(map(str, enough[:_NAMED])) + (", ..." if len(enough) > _NAMED else "")
    racks = ", ".join(sorted({task.problem.rack_of(b) or "none" for b in enough})[:_NAMED])
    return (
        f"{name}; the brokers with that much free space ({shown}) are in racks that the rule excludes ({racks}); "
        "free space in other racks or add a broker there"
    )
