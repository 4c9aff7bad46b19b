"""How long an exact rebuild plan takes at fleet size, offline from a snapshot file.

Run: python bench/plan_rebuild.py [--cluster xl] [--dir DIR]
Each case is one fresh `kafkakit topicmappr rebuild --snapshot ...` process, measured from outside (wall clock,
processor time and peak memory), and the planning call alone inside this process. Prints one JSON object.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import clusters
from machine import shape as machine_shape
from whole_command import run_whole

from kafkakit.core.columns import without_collector
from kafkakit.core.documents import decode_plan, decode_snapshot, encode_snapshot
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.requests import RebuildRequest

PEER = {
    "xl/replace": {"seconds": 0.62},
    "xl/force": {"seconds": 42.99, "replicas_moved": 580_748},
    "l/force": {"seconds": 12.1, "replicas_moved": 286_562},
    "m/force": {"seconds": 1.24, "replicas_moved": 56_679},
    "s/force": {"seconds": 0.08, "replicas_moved": 5_405},
}
GOAL = {"xl/force": {"process_seconds": 15, "peak_gib": 4}}


def cases(cluster: str) -> dict[str, list[str]]:
    """The command lines: replace brokers, rebuild evenly by moves, rebuild evenly by bytes."""
    made = clusters.SHAPES[cluster]
    old, new = clusters.old_brokers(made), clusters.new_brokers(made)
    leave = 10 if made.brokers >= 300 else 3
    listed = ",".join(map(str, [*old[leave:], *new[:leave]]))
    stay = ",".join(map(str, old))
    return {
        "replace": ["--brokers", listed],
        "force": ["--brokers", stay, "--force-rebuild"],
        "force-bytes": ["--brokers", stay, "--force-rebuild", "--minimize", "bytes"],
    }


def run_process(words: list[str], folder: Path, snapshot: Path) -> dict[str, object]:
    """One whole process: what it used, and what the plan says."""
    plan = folder / "plan.json"
    used = run_whole(["rebuild", "--topics", ".*", "--skip-no-ops", *words], snapshot, folder)
    decided = decode_plan(plan.read_bytes(), "plan")
    proof = decided.certificate
    return {
        **used,
        "replicas_moved": sum(len(m.adding) for m in decided.moves),
        "objective": proof.objective,
        "lower_bound": proof.lower_bound,
        "unit": proof.unit,
        "gap": proof.gap,
        "counts_min_max": [decided.after.replicas_min, decided.after.replicas_max],
        "leaders_min_max": [decided.after.leaders_min, decided.after.leaders_max],
    }


def planning_seconds(words: list[str], snapshot_file: Path) -> dict[str, float]:
    """The load and the planning call alone."""
    began = time.perf_counter()
    with without_collector():
        snapshot = decode_snapshot(snapshot_file.read_bytes(), str(snapshot_file))
    loaded = time.perf_counter()
    request = RebuildRequest(
        brokers=BrokerList(ids=tuple(map(int, words[1].split(",")))),
        topics=(".*",),
        force_rebuild="--force-rebuild" in words,
        minimize=Minimize.BYTES if "bytes" in words else Minimize.MOVES,
        words={},
    )
    with without_collector():
        decide_rebuild(snapshot, request)
    return {"load_seconds": round(loaded - began, 2), "planning_seconds": round(time.perf_counter() - loaded, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", choices=sorted(clusters.SHAPES), default="xl")
    parser.add_argument("--dir", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        folder = Path(name)
        snapshot_file = folder / "snapshot.json"
        snapshot = clusters.make_cluster(clusters.SHAPES[options.cluster])
        snapshot_file.write_bytes(encode_snapshot(snapshot))
        loads = Counter(b for _, p in snapshot.partitions() for b in p.replicas)
        results = {}
        for case, words in cases(options.cluster).items():
            key = f"{options.cluster}/{case}"
            outside = run_process(words, folder, snapshot_file)
            results[key] = {**outside, **planning_seconds(words, snapshot_file), "kafka_kit": PEER.get(key)}
        print(
            json.dumps(
                {
                    "bench": "plan_rebuild",
                    "cluster": {
                        "replicas": sum(loads.values()),
                        "counts_min_max": [min(loads.values()), max(loads.values())],
                    },
                    "goal": GOAL,
                    "results": results,
                    "machine": machine_shape(),
                },
                indent=2,
            )
        )


if __name__ == "__main__":
    main()
