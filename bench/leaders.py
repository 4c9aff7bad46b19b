"""How long the fewest changes to even preferred leaders take, offline, beside kafka-kit's `--optimize-leadership`.

Run: python bench/leaders.py [--cluster m ...]
The planning call alone, in this process, on clusters made in memory. Prints one JSON object.
"""

import argparse
import json
import resource
import time
from collections import Counter

import clusters
from machine import shape as machine_shape

from kafkakit.core.columns import without_collector
from kafkakit.topicmappr.decide.leaders import decide_leaders
from kafkakit.topicmappr.decide.plain_requests import LeadersRequest

PEER = {
    "s": {"seconds": 1.19, "leaders_min_max": [16, 140]},
    "m": {"seconds": 79.34, "leaders_min_max": [44, 643]},
}
GOAL = {"m": {"seconds": 2, "aim_seconds": 0.7}}


def measure(name: str) -> dict[str, object]:
    """Plan leaders on one cluster: seconds, counts before and after, what it costs and what is proven."""
    shape = clusters.SHAPES[name]
    snapshot = clusters.make_cluster(shape)
    listed = clusters.old_brokers(shape)
    before = Counter(p.replicas[0] for _, p in snapshot.partitions())
    request = LeadersRequest(topics=(".*",), words={})
    with without_collector():
        began = time.perf_counter()
        plan = decide_leaders(snapshot, request).plan
        seconds = time.perf_counter() - began
    after = {b.broker: b.leaders for b in plan.after.brokers}
    return {
        "planning_seconds": round(seconds, 2),
        "leaders_before_min_max": [min(before[b] for b in listed), max(before[b] for b in listed)],
        "leaders_after_min_max": [min(after[b] for b in listed), max(after[b] for b in listed)],
        "leaders_mean": round(shape.partitions / shape.brokers, 1),
        "changes": plan.certificate.objective,
        "lower_bound": plan.certificate.lower_bound,
        "gap": plan.certificate.gap,
        "peak_gib_so_far": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), 2),
        "goal": GOAL.get(name),
        "kafka_kit": PEER.get(name),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", nargs="+", choices=sorted(clusters.SHAPES), default=["s", "m", "xl"])
    results = {name: measure(name) for name in parser.parse_args().cluster}
    print(json.dumps({"bench": "leaders", "results": results, "machine": machine_shape()}, indent=2))


if __name__ == "__main__":
    main()
