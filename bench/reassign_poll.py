"""What a look costs while a plan is carried out on a large cluster: requests and partitions read at each tick.

Run: python bench/reassign_poll.py [--partitions 200000] [--topics 2000] [--moves 300]
The cluster is one in memory; every read of the executor is counted between one sleep and the next. Prints one JSON
object: the mean and the most of each kind of read in a tick, and how many partitions' states it brought. `watch` is
the same for five minutes of `reassign status --watch`, in which the whole cluster is read once a minute.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import shape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.status_loop import StatusObserver
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.status_looks import KnownRun
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeClock, FakeCluster
from tests.rigs.reassign import Harness

MB = 1_000_000
READS = ("cluster", "snapshot", "partition_states", "log_dirs", "reassignments", "dynamic_configs", "broker_settings")


class Meter:
    """Counts reads; `ticks` are the counts between one sleep and the next."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.now: Counter[str] = Counter()
        self.ticks: list[Counter[str]] = []
        for name in READS:
            setattr(cluster, name, self.counted(name, getattr(cluster, name)))

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def read(*words: Any, **options: Any) -> Any:
            answer = call(*words, **options)
            self.now[name] += 1
            if name == "partition_states":
                self.now["partitions"] += len(answer)
            elif name == "log_dirs":
                self.now["copies"] += sum(len(a.replicas) for a in answer.values())
                self.now["brokers_asked"] += len(answer)
            return answer

        return read

    def tick(self, _: float) -> None:
        self.ticks.append(self.now)
        self.now = Counter()


def make_cluster(topics: int, partitions: int, brokers: int) -> FakeCluster:
    cluster = FakeCluster(dict.fromkeys(range(1, brokers + 1)), line_rate=100 * MB, dir_bytes=10**14)
    for number in range(topics):
        count = partitions // topics + (number < partitions % topics)
        lists = {n: ((n + number) % brokers + 1, (n + number + 1) % brokers + 1) for n in range(count)}
        cluster.add_topic(f"t{number:05d}", lists, size_bytes=200 * MB)
    return cluster


class NoRuns:
    """A host that has begun no run."""

    damaged: tuple[str, ...] = ()

    def read(self) -> tuple[KnownRun, ...]:
        return ()


def watch(cluster: FakeCluster, targets: dict[tuple[str, int], tuple[int, ...]], meter: Meter) -> dict[str, object]:
    """Five minutes of looks at the moves, 5 s apart; they make no progress."""
    clock = FakeClock()
    for key in targets:
        partition = cluster.topics[key[0]].partitions[key[1]]
        new = next(b for b in range(1, len(cluster.brokers) + 1) if b not in partition.replicas)
        cluster.reassign({TopicPartition(*key): (partition.replicas[0], new)})
    observer = StatusObserver(cluster, clock, NoRuns(), lambda: None, window_s=20.0, program="kafkakit")
    meter.now, meter.ticks = Counter(), []
    moves = 0
    for _ in range(60):
        moves = len(observer.look().moves)
        meter.tick(0.0)
        clock.advance(5.0)
    return {"moves": moves, **cost(meter)}


def cost(meter: Meter) -> dict[str, object]:
    """What the ticks read."""
    names = sorted({n for t in meter.ticks for n in t})
    return {
        "ticks": len(meter.ticks),
        "full_reads": sum(t["snapshot"] for t in meter.ticks),
        "mean": {n: round(sum(t[n] for t in meter.ticks) / max(1, len(meter.ticks)), 1) for n in names},
        "most": {n: max(t[n] for t in meter.ticks) for n in names},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--topics", type=int, default=2_000)
    parser.add_argument("--brokers", type=int, default=60)
    parser.add_argument("--moves", type=int, default=300)
    given = parser.parse_args()
    cluster = make_cluster(given.topics, given.partitions, given.brokers)
    keys = [k for k, _ in cluster.replication.partitions()][:: max(1, given.partitions // given.moves)][: given.moves]
    targets: dict[tuple[str, int], tuple[int, ...]] = {}
    for key in keys:
        first, second = cluster.topics[key.topic].partitions[key.partition].replicas
        targets[key.topic, key.partition] = ((second + 1) % given.brokers + 1, first)
    bench = Harness(cluster, make_plan(cluster, targets, topics=sorted({t for t, _ in targets})))
    # The fake walks all its partitions at each step of time; only those that move have anything to do.
    busy = [(k, cluster.topics[k.topic].partitions[k.partition]) for k in keys]
    cluster.replication.partitions = lambda: iter(busy)  # type: ignore[method-assign]
    meter = Meter(cluster)
    bench.clock.on_sleep.append(meter.tick)
    started = time.perf_counter()
    outcome = bench.apply(limits=ScheduleLimits(into_each=2, out_each=2))
    seconds = round(time.perf_counter() - started, 1)
    print(
        json.dumps(
            {
                "machine": shape(),
                "partitions": given.partitions,
                "moves": len(keys),
                "ok": outcome.ok,
                "seconds_with_the_fake": seconds,
                **cost(meter),
                "watch": watch(cluster, targets, meter),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
