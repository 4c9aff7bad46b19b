"""Byte balance at fleet size: seconds of the planning call, bytes against their proven bound, beside the peers.

Run: python bench/rebalance.py [--cases s m xl cc] ; each case runs in a process of its own, so that its peak
memory is its own. Prints one JSON object. Load is the time to make the cluster in memory, import the time to load
numpy and OR-Tools; the planning call is decide_rebalance alone. Beside some cases stands the whole command, from a
snapshot file.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import clusters
from machine import shape as machine_shape
from whole_command import run_whole

GIB = 1 << 30
KAFKA_KIT = {
    "s/range-369": {"seconds": 14.28, "moved_gib": 2404, "range_gib": 369, "bound_gib": 1379},
    "s/spend-2404": {"seconds": 14.28, "moved_gib": 2404, "range_gib": 369},
    "s/default": {"seconds": 14.28, "moved_gib": 2404, "range_gib": 369},
    "s/scale-918": {"seconds": 10.3, "moved_gib": 4975, "range_gib": 918, "bound_gib": 392},
    "s/scale-default": {"seconds": 10.3, "moved_gib": 4975, "range_gib": 918},
    "m/range-50": {"seconds": "no answer in 300 s", "bound_gib": 23541},
    "m/default": {"seconds": "no answer in 300 s"},
    "m/scale-3106": {"seconds": 177.36, "moved_gib": 37543, "range_gib": 3106, "bound_gib": 825},
    "m/scale-default": {"seconds": 177.36, "moved_gib": 37543, "range_gib": 3106},
    "cc/band-5-count-10": {"cruise_control_seconds": 18.2 * 60, "cruise_control_regular_seconds": 95 * 60},
}
GOALS: dict[str, dict[str, object]] = {
    "s/range-369": {"free_range_bytes": 369 * GIB},
    "s/spend-2404": {"max_moved_bytes": 2404 * GIB},
    "s/default": {},
    "s/scale-918": {"free_range_bytes": 918 * GIB},
    "s/scale-default": {},
    "m/range-50": {"free_range_bytes": 50 * GIB},
    "m/default": {},
    "m/scale-3106": {"free_range_bytes": 3106 * GIB},
    "m/scale-default": {},
    "m/band-5": {"band": Fraction(5, 100)},
    "xl/band-3": {"band": Fraction(3, 100)},
    "xl/band-3-count-5": {"band": Fraction(3, 100), "count_band": Fraction(5, 100)},
    "xl/default": {},
    "cc/band-5": {"band": Fraction(5, 100)},
    "cc/band-5-count-10": {"band": Fraction(5, 100), "count_band": Fraction(10, 100)},
}
WHOLE = {
    "xl/band-3": ["--band", "3%"],
    "cc/band-5-count-10": ["--band", "5%", "--count-band", "10%"],
}
ASKED = {
    "s/range-369": {"seconds": 0.2, "moved_gib": 1388},
    "s/spend-2404": {"seconds": 0.2, "range_gib": 183},
    "s/scale-918": {"seconds": 0.2, "moved_gib": 392 * 1.02},
    "m/range-50": {"seconds": 2, "moved_gib": 23541 * 1.01},
    "m/scale-3106": {"seconds": 2, "moved_gib": 825 * 1.02},
    "xl/band-3": {"seconds": 30, "gap": 0.01, "process_seconds": 8},
    "cc/band-5-count-10": {"seconds": 180, "process_seconds": 60, "peak_gib": 6},
}


def one(case: str) -> dict[str, object]:
    """Plan one case in this process."""
    began = time.perf_counter()
    import ortools.graph.python.min_cost_flow
    import ortools.sat.python.cp_model  # noqa: F401

    from kafkakit.core.columns import without_collector
    from kafkakit.core.selection import BrokerList
    from kafkakit.topicmappr.decide.rebalance import decide_rebalance
    from kafkakit.topicmappr.decide.request_fields import LoadGoal
    from kafkakit.topicmappr.decide.requests import RebalanceRequest

    imported = time.perf_counter()
    name, _, goal = case.partition("/")
    shape = clusters.SHAPES[name]
    scale = goal.startswith("scale")
    with without_collector():
        snapshot = clusters.make_cluster(shape)
        loaded = time.perf_counter()
        ids = [*clusters.old_brokers(shape), *(clusters.new_brokers(shape) if scale else [])]
        request = RebalanceRequest(
            brokers=BrokerList(ids=tuple(ids)),
            topics=(".*",),
            goal=LoadGoal(**GOALS[case]),  # type: ignore[arg-type]
            scale=scale,
            max_disk_use=Fraction(1),
            words={},
        )
        decided = decide_rebalance(snapshot, request)
        planned = time.perf_counter()
    proof = decided.plan.certificate
    after = decided.plan.after.brokers
    free = [b.free_bytes for b in after if b.free_bytes is not None]
    counts = [b.replicas for b in after]
    return {
        "import_seconds": round(imported - began, 2),
        "load_seconds": round(loaded - imported, 2),
        "planning_seconds": round(planned - loaded, 3),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), 2),
        "moved_gib": round(proof.objective / GIB, 1),
        "bound_gib": round(proof.lower_bound / GIB, 1),
        "gap": round(proof.gap, 6),
        "replicas_moved": sum(len(m.adding) for m in decided.plan.moves),
        "free_range_gib": round((max(free) - min(free)) / GIB, 2),
        "counts_min_max": [min(counts), max(counts)],
        "replicas": sum(counts),
        "asked": ASKED.get(case),
        "peer": KAFKA_KIT.get(case),
    }


def whole(case: str) -> dict[str, float]:
    """The whole command on the same cluster, written to a snapshot file first by a process of its own."""
    made = clusters.SHAPES[case.partition("/")[0]]
    ids = ",".join(map(str, clusters.old_brokers(made)))
    with tempfile.TemporaryDirectory() as name:
        snapshot = Path(name) / "snapshot.json"
        subprocess.run([sys.executable, __file__, "--write", case.partition("/")[0], str(snapshot)], check=True)
        return run_whole(["rebalance", "--topics", ".*", "--brokers", ids, *WHOLE[case]], snapshot, Path(name))


def write_snapshot(name: str, path: Path) -> None:
    """Make a cluster and write it as a snapshot file."""
    from kafkakit.core.columns import without_collector
    from kafkakit.core.documents import encode_snapshot

    with without_collector():
        path.write_bytes(encode_snapshot(clusters.make_cluster(clusters.SHAPES[name])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=["s", "m", "xl", "cc"], help="clusters or single cases")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_snapshot(options.write[0], Path(options.write[1]))
        return
    if options.one:
        print(json.dumps(one(options.one)))
        return
    results = {}
    for case in GOALS:
        if case in options.cases or case.partition("/")[0] in options.cases:
            command = [sys.executable, __file__, "--one", case]
            results[case] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            if case in WHOLE:
                results[case]["whole_command"] = whole(case)
    print(json.dumps({"bench": "rebalance", "results": results, "machine": machine_shape()}, indent=2))


if __name__ == "__main__":
    main()
