"""How far `reassign apply` misses the time that it foretells, on a sandbox of real brokers under a fixed throttle.

Run: python bench/eta.py [--rounds 3] [--throttle 3MB] [--data 240MB]
Sixty partitions go to and fro between two halves of six brokers, 120 copies a round. Prints one JSON object.
Below 2 MB/s a sandbox is faster than its throttle: a broker takes up to 1 MB of each of the five partitions in flight
before it looks at its rate again, which it averages over 3 s.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from machine import shape

GOAL = {"worst_error_percent": 15}
PARTITIONS = 60
HALVES = ("1001,1002,1003", "1004,1005,1006")


def kafkakit(*words: str, env: Mapping[str, str]) -> str:
    """The standard output of a command; one that fails ends the bench with its words."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkakit", *words], env=dict(env), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"kafkakit {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def move(brokers: str, home: str, env: Mapping[str, str], *options: str) -> dict[str, object]:
    """Move everything to those brokers; returns what the run forecast and what it took."""
    plan = f"{home}/{brokers}.json"
    words = ("--topics", "eta.*", "--brokers", brokers, "--force-rebuild", "--plan", plan, "--out-path", home)
    kafkakit("--profile", "eta", "topicmappr", "rebuild", *words, env=env)
    done = json.loads(kafkakit("--profile", "eta", "reassign", "apply", plan, "--yes", *options, "-o", "json", env=env))
    assert kafkakit("--profile", "eta", "reassign", "list", env=env) == ""
    return {
        "moves": done["moves_sent"],
        "bytes_copied": done["bytes_copied"],
        "foretold_s": round(done["promised_seconds"], 1),
        "took_s": round(done["seconds"], 1),
        "error_percent": done["eta_error_percent"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--throttle", default="3MB")
    parser.add_argument("--data", default="240MB")
    given = parser.parse_args()
    home = tempfile.mkdtemp(prefix="kafkakit-bench-")
    env = os.environ | {"XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config"}
    try:
        kafkakit("sandbox", "up", "--brokers", "6", "--name", "eta", env=env)
        load = ("--topics", "1", "--partitions", str(PARTITIONS), "--data", given.data, "--replication", "2")
        kafkakit("sandbox", "load", *load, "--prefix", "eta", "--name", "eta", env=env)
        move(HALVES[0], home, env)
        runs = [move(HALVES[n % 2], home, env, "--throttle", given.throttle) for n in range(1, given.rounds + 1)]
    finally:
        kafkakit("sandbox", "down", "--name", "eta", env=env)
        shutil.rmtree(home, ignore_errors=True)
    errors = [abs(float(str(r["error_percent"]))) for r in runs]
    figures = {"worst_error_percent": max(errors), "median_error_percent": statistics.median(errors)}
    report = {"bench": "eta", "machine": shape(), "throttle": given.throttle, "goal": GOAL}
    print(json.dumps(report | figures | {"runs": runs}))


if __name__ == "__main__":
    main()
