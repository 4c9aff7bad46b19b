"""Why a partition is read where it is, from the documents of the control store."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.streams.client.api import GrantDocument, PartitionKey, WorkerDocument
from kafkakit.streams.model.route import DLQ, Route


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPartition:
    """One partition: its lane and segment, its owner (empty for none) and epoch, and why."""

    key: PartitionKey
    lane: str
    segment: int
    slot: str
    epoch: int
    why: str


def explained(
    route: Route,
    group: str,
    workers: Mapping[str, WorkerDocument],
    grants: Mapping[str, GrantDocument],
    draining: frozenset[str],
) -> tuple[ExplainedPartition, ...]:
    """All partitions that a group reads of a stream; `UsageError` where no worker handles the group."""
    serving = {
        slot: each.lanes
        for slot, document in workers.items()
        for each in document.subscriptions
        if (each.stream, each.group) == (route.stream, group)
    }
    if not serving:
        raise UsageError(f"no worker handles group {group} of stream {route.stream}")
    grouped = sorted(
        slot
        for slot in serving
        if any((s.stream, s.group, s.is_grouped) == (route.stream, group, True) for s in workers[slot].subscriptions)
    )
    owners = {key: (slot, epoch) for slot, document in grants.items() for key, epoch in document.leases()}
    counts = Counter(slot for key, (slot, _) in owners.items() if (key.stream, key.group) == (route.stream, group))
    late = sorted(slot for slot in serving if slot in grants and workers[slot].round < grants[slot].round)
    found = []
    for lane, segment in route.segments():
        able = [s for s, lanes in serving.items() if (lane.name in lanes if lanes else lane.name != DLQ)]
        for partition in range(segment.partitions):
            key = PartitionKey(route.stream, group, segment.cluster_id, segment.topic, partition)
            slot, epoch = owners.get(key, ("", 0))
            why = _why(slot, workers, draining, able, grouped, late, counts, is_paused=lane.is_paused)
            found.append(
                ExplainedPartition(key=key, lane=lane.name, segment=segment.id, slot=slot, epoch=epoch, why=why)
            )
    return tuple(found)


def _why(
    slot: str,
    workers: Mapping[str, WorkerDocument],
    draining: frozenset[str],
    able: list[str],
    grouped: list[str],
    late: list[str],
    counts: Counter[str],
    *,
    is_paused: bool,
) -> str:
    if slot and slot in workers:
        may = sorted({slot, *(each for each in able if workers[each].id not in draining)})
        state = "it has let nothing go yet" if slot in late else "it keeps what it has while loads are even"
        capacity = sum(workers[each].capacity for each in may)
        return (
            f"one of {len(may)} that may read it: it has {counts[slot]} of {counts.total()} partitions, and "
            f"{workers[slot].capacity} of their capacity of {capacity}; {state}"
        )
    if slot:
        return f"its worker {slot} is gone; another one gets it with the next step"
    if is_paused:
        return "its lane is paused"
    if grouped:
        return f"read by Kafka's group: {', '.join(grouped)} found no Assigner"
    if not able:
        return "no worker reads this lane"
    if late:
        return f"waits until {', '.join(late)} keeps to its newest grant"
    if all(workers[each].id in draining or workers[each].is_leaving for each in able):
        return "all workers that may read it are drained"
    return "granted with the next step"
