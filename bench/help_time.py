"""How long `kafkakit --help` takes: median and quartiles of 20 fresh processes, as JSON."""

import json
import os
import statistics
import subprocess
import sys
import time

from machine import shape

RUNS = 20
GOAL_MS = 150


def one_run(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000


def measure(arguments: list[str]) -> dict[str, float]:
    command = [os.path.join(os.path.dirname(sys.executable), "kafkakit"), *arguments]
    one_run(command)
    times = [one_run(command) for _ in range(RUNS)]
    low, middle, high = statistics.quantiles(times, n=4)
    return {"median_ms": round(middle, 1), "q1_ms": round(low, 1), "q3_ms": round(high, 1)}


def main() -> None:
    results = {"--help": measure(["--help"]), "topicmappr rebuild --help": measure(["topicmappr", "rebuild", "--help"])}
    print(
        json.dumps(
            {
                "bench": "help_time",
                "runs": RUNS,
                "goal_ms": GOAL_MS,
                "results": results,
                "machine": shape(),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
