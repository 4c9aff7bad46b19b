"""How long `kafkakit sandbox up` takes with cached jars, from command to every broker unfenced.

Run: python bench/sandbox_up.py [--brokers 3 6] [--rounds 3] [--secure none] [--mode kraft]
Prints one JSON object with the machine's shape, each round's seconds, and the medians.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from machine import shape


def kafkakit(*words: str, env: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", "kafkakit", "sandbox", *words], check=True, env=env, capture_output=True)


def measure(brokers: int, options: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds of one `up` and one `down`."""
    began = time.perf_counter()
    try:
        kafkakit("up", "--brokers", str(brokers), "--log-dirs", "2", "--name", "bench", *options, env=env)
        up = time.perf_counter() - began
    finally:
        began = time.perf_counter()
        kafkakit("down", "--name", "bench", env=env)
    return round(up, 2), round(time.perf_counter() - began, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, nargs="+", default=[3, 6])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--secure", default="none")
    parser.add_argument("--mode", default="kraft")
    given = parser.parse_args()
    home = tempfile.mkdtemp(prefix="kafkakit-bench-")
    env = os.environ | {"XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config"}
    options = ["--secure", given.secure, "--mode", given.mode]
    figures = {}
    try:
        # One round that is not counted: it may download.
        measure(1, options, env)
        for brokers in given.brokers:
            rounds = [measure(brokers, options, env) for _ in range(given.rounds)]
            figures[str(brokers)] = {
                "up_s": [up for up, _ in rounds],
                "median_up_s": statistics.median(up for up, _ in rounds),
                "median_down_s": statistics.median(down for _, down in rounds),
            }
    finally:
        shutil.rmtree(home, ignore_errors=True)
    report = {"bench": "sandbox_up", "machine": shape(), "mode": given.mode, "secure": given.secure}
    print(json.dumps(report | {"brokers": figures}))


if __name__ == "__main__":
    main()
