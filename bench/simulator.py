"""The simulator at fleet size: seconds of real time for a simulated day of 600 brokers and 20,000 moves.

Run: python bench/simulator.py [--brokers 600] [--moves 20000] [--hours 24]. Prints one JSON object. Moves are given
in their order as places become free (at most five copies into and ten out of a broker), looked at once a minute;
making the cluster is not counted. In the middle one throttle is changed on every broker, and one broker dies and
comes back, so that the ticks of a second are in the figure.
"""

import argparse
import json
import random
import resource
import time

import numpy as np
from machine import shape as machine_shape

from kafkakit.core.model import TopicPartition
from kafkakit.simulator.cluster import SimBroker, SimCluster, SimDisk, SimMove, SimPartition
from kafkakit.simulator.simulation import Simulation

GB, MB = 10**9, 10**6
DIRS = 4
INTO_EACH, OUT_EACH = 5, 10
THROTTLE = 66 * MB


def make(brokers: int, moves: int) -> tuple[SimCluster, list[SimMove]]:
    """A cluster in which each partition is to move one copy; sizes so that a day suffices just about."""
    dice = random.Random(5)
    partitions, wanted = [], []
    for number in range(moves):
        key = TopicPartition(f"topic{number % 200}", number // 200)
        first, second, third, new = dice.sample(range(brokers), 4)
        size = int(dice.lognormvariate(0, 0.8) * 45 * GB)
        at = {b: f"/data{dice.randrange(DIRS)}" for b in (first, second, third)}
        partitions.append(
            SimPartition(
                key=key,
                replicas=(first, second, third),
                size_bytes=size,
                ingest_bytes_per_s=dice.choice((0.0, 0.2 * MB, MB)),
                dirs=at,
            )
        )
        wanted.append(SimMove(key=key, target=(first, second, new), dirs={new: f"/data{dice.randrange(DIRS)}"}))
    disk = [SimDisk(path=f"/data{d}", total_bytes=16_000 * GB, used_bytes=9_000 * GB) for d in range(DIRS)]
    nodes = tuple(
        SimBroker(
            id=b, disks=tuple(disk), line_into=1.25e9, line_out=1.25e9, background_into=80e6, background_out=160e6
        )
        for b in range(brokers)
    )
    curve = tuple(0.6 + 0.8 * abs(h - 12) / 12 for h in range(24))
    return SimCluster(brokers=nodes, partitions=tuple(partitions), day_curve=curve), wanted


def run(brokers: int, moves: int, hours: float) -> dict[str, object]:
    """Simulate and measure."""
    cluster, wanted = make(brokers, moves)
    began, used = time.perf_counter(), time.process_time()
    simulation = Simulation(cluster)
    for broker in range(brokers):
        simulation.set_rates(broker, into=THROTTLE, out=THROTTLE)
    leader_of = {p.key: p.replicas[0] for p in cluster.partitions}
    into, out = np.zeros(brokers, dtype=int), np.zeros(brokers, dtype=int)
    source = np.array([leader_of[m.key] for m in wanted])
    target = np.array([m.target[2] for m in wanted])
    waiting = np.ones(moves, dtype=bool)
    flying: dict[TopicPartition, int] = {}
    most = 0
    for minute in range(int(hours * 60)):
        if minute == int(hours * 30):
            for broker in range(brokers):
                simulation.set_rates(broker, into=1.2 * THROTTLE, out=1.2 * THROTTLE)
            simulation.kill(0)
        if minute == int(hours * 30) + 10:
            simulation.revive(0)
        finished = simulation.finished
        for key in [k for k in flying if k in finished]:
            done = flying.pop(key)
            into[target[done]] -= 1
            out[source[done]] -= 1
        chosen = []
        for number in np.flatnonzero(waiting & (into[target] < INTO_EACH) & (out[source] < OUT_EACH)).tolist():
            if into[target[number]] < INTO_EACH and out[source[number]] < OUT_EACH:
                into[target[number]] += 1
                out[source[number]] += 1
                waiting[number] = False
                chosen.append(wanted[number])
                flying[wanted[number].key] = number
        simulation.submit(chosen)
        most = max(most, len(flying))
        simulation.advance(60)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used, 2),
        "simulated_s": simulation.now_s,
        "moves_finished": len(simulation.finished),
        "most_in_flight": most,
        "copied_tb": round(simulation.copied_bytes / 1e12, 1),
        "last_finish_s": max(simulation.finished.values(), default=0),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=600)
    parser.add_argument("--moves", type=int, default=20_000)
    parser.add_argument("--hours", type=float, default=24)
    options = parser.parse_args()
    results = run(options.brokers, options.moves, options.hours)
    requested = {"seconds": 30, "brokers": 600, "moves": 20_000, "simulated_s": 86_400}
    print(
        json.dumps({"bench": "simulator", "results": results, "asked": requested, "machine": machine_shape()}, indent=2)
    )


if __name__ == "__main__":
    main()
