"""Scheduling at fleet size: seconds of the call, and the schedule's length against its proven bound.

Run: python bench/schedule.py [--cases m xl rebuild random]; each case runs in a process of its own, so that its
peak memory is its own. Prints one JSON object. Making the cluster and the plan is not counted; the call is
plan_schedule alone. `random` draws 50,000 moves between the brokers of the xl cluster, `rebuild` is a sample of a
forced rebuild, where most partitions get all their copies again.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction

import clusters
from machine import shape as machine_shape

from kafkakit.core.model import ClusterSnapshot, Partition, TopicPartition
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.scheduler import plan_schedule
from kafkakit.execution.decide.schedule.work import BrokerRates, Disk, LogDirPlace, PartitionTask, Speeds

CASES = (
    "m/band-5",
    "l/band-3",
    "xl/band-3",
    "xl/scale",
    "xl/random-50000",
    "xl/rebuild-50000",
    "m/rebuild-20000",
    "m/rebuild-singly",
)
ASKED = {"seconds": 20, "over_bound": 1.05}
THROTTLE = 50_000_000


def tasks_of(case: str, snapshot: ClusterSnapshot) -> list[PartitionTask]:
    """The moves of a case, from a real plan or drawn."""
    name, _, goal = case.partition("/")
    shape = clusters.SHAPES[name]
    if goal.startswith("random"):
        return list(_drawn(snapshot, 50_000))
    if goal.startswith("rebuild"):
        count = int(goal.split("-")[1]) if goal.split("-")[1].isdigit() else 5_000
        return _rebuilt(snapshot, shape, count)
    return _rebalanced(snapshot, shape, goal)


def _rebalanced(snapshot: ClusterSnapshot, shape: clusters.Shape, goal: str) -> list[PartitionTask]:
    from kafkakit.core.columns import without_collector
    from kafkakit.core.selection import BrokerList
    from kafkakit.topicmappr.decide.rebalance import decide_rebalance
    from kafkakit.topicmappr.decide.request_fields import LoadGoal
    from kafkakit.topicmappr.decide.requests import RebalanceRequest

    scale = goal == "scale"
    ids = [*clusters.old_brokers(shape), *(clusters.new_brokers(shape) if scale else [])]
    band = LoadGoal() if scale else LoadGoal(band=Fraction(int(goal.split("-")[1]), 100))
    request = RebalanceRequest(
        brokers=BrokerList(ids=tuple(ids)), topics=(".*",), goal=band, scale=scale, max_disk_use=Fraction(1), words={}
    )
    with without_collector():
        plan = decide_rebalance(snapshot, request).plan
    return [_task(m.key, m.before, m.after, m.size_bytes or 0) for m in plan.moves]


def _rebuilt(snapshot: ClusterSnapshot, shape: clusters.Shape, count: int) -> list[PartitionTask]:
    from kafkakit.core.columns import without_collector
    from kafkakit.core.selection import BrokerList
    from kafkakit.topicmappr.decide.rebuild import decide_rebuild
    from kafkakit.topicmappr.decide.requests import RebuildRequest

    request = RebuildRequest(
        brokers=BrokerList(ids=tuple(clusters.old_brokers(shape))), topics=(".*",), force_rebuild=True, words={}
    )
    with without_collector():
        plan = decide_rebuild(snapshot, request).plan
    sizes = {TopicPartition(t, p.partition): p.known_bytes or 0 for t, p in snapshot.partitions()}
    moves = [m for m in plan.moves if m.adding]
    random.Random(7).shuffle(moves)
    return [_task(m.key, m.before, m.after, sizes[m.key]) for m in moves[:count]]


def _drawn(snapshot: ClusterSnapshot, count: int) -> Iterator[PartitionTask]:
    """Moves of one copy each to another broker of its rack."""
    draw = random.Random(11)
    racks = {b.id: b.rack for b in snapshot.brokers}
    mates: dict[str | None, list[int]] = {}
    for broker, rack in racks.items():
        mates.setdefault(rack, []).append(broker)
    everything: list[tuple[str, Partition]] = list(snapshot.partitions())
    for topic, p in draw.sample(everything, count):
        gone = draw.choice(p.replicas)
        came = draw.choice([b for b in mates[racks[gone]] if b not in p.replicas])
        after = tuple(came if b == gone else b for b in p.replicas)
        yield _task(TopicPartition(topic, p.partition), p.replicas, after, p.known_bytes or 0)


def _task(key: TopicPartition, before: tuple[int, ...], after: tuple[int, ...], size: int) -> PartitionTask:
    dirs = dict.fromkeys(before, "/data")
    return PartitionTask(key=key, holders=before, target=after, leader=before[0], size_bytes=size, dirs=dirs)


def one(case: str) -> dict[str, object]:
    """Schedule one case in this process."""
    snapshot = clusters.make_cluster(clusters.SHAPES[case.partition("/")[0]])
    tasks = tasks_of(case, snapshot)
    disks = [
        Disk(place=LogDirPlace(b.id, d.path), total_bytes=d.total_bytes, usable_bytes=d.usable_bytes)
        for b in snapshot.brokers
        for d in b.log_dirs
    ]
    limits = ScheduleLimits(one_replica_at_a_time=case.endswith("singly"))
    racks = {b.id: b.rack for b in snapshot.brokers}
    began, began_cpu = time.perf_counter(), time.process_time()
    found = plan_schedule(tasks, (), disks, limits, BrokerRates(into=THROTTLE, out=THROTTLE), Speeds(), racks=racks)
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    assert not found.immovable
    return {
        "moves": len(tasks),
        "copies": sum(len(t.adding) for t in tasks),
        "steps": len(found.steps),
        "detours": len(found.detours),
        "scheduling_seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "makespan_h": round(found.makespan_s / 3600, 2),
        "bound_h": round(found.bound_s / 3600, 2),
        "over_bound": round(found.makespan_s / found.bound_s, 4),
        "bottleneck": f"{found.bottleneck.broker} {found.bottleneck.direction}" if found.bottleneck else None,
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), 2),
        "asked": ASKED,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=["m", "l", "xl"], help="clusters or single cases")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one)))
        return
    results = {}
    for case in CASES:
        if case in options.cases or case.partition("/")[0] in options.cases:
            command = [sys.executable, __file__, "--one", case]
            results[case] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(json.dumps({"bench": "schedule", "results": results, "machine": machine_shape()}, indent=2))


if __name__ == "__main__":
    main()
