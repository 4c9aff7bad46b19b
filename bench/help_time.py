"""How long commands take to start, in fresh processes, as JSON: medians and quartiles.

`kafkakit --help` by the clock, and the processor time of a whole process until `streams failover run`, which is typed
in an emergency, connects to a broker for the first time. Bytecode is there, as it is where kafkakit is installed.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from machine import shape

RUNS = 20
GOAL_MS = 150
FIRST_REQUEST_GOAL_MS = 1000

UNTIL_CONNECT = """
import os, sys, time

def note(event, _):
    if event == "socket.connect":
        os.write(1, b"%f" % time.process_time())
        os._exit(0)

sys.addaudithook(note)
from kafkakit.__main__ import main
main()
"""
FAILOVER = ("streams", "failover", "run", "orders", "--to", "east", "--yes", "--timeout", "60s")
CONFIG = """
profiles:
  prod: {bootstrap_server: 127.0.0.1:9, control_store: kafka}
  east: {bootstrap_server: 127.0.0.1:9}
"""


def spread(times_ms: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(times_ms, n=4)
    return {"median_ms": round(middle, 1), "q1_ms": round(low, 1), "q3_ms": round(high, 1)}


def clock_ms(command: Sequence[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return (time.perf_counter() - start) * 1000


def processor_ms(command: Sequence[str], environment: dict[str, str]) -> float:
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return float(ran.stdout) * 1000


def main() -> None:
    program = os.path.join(os.path.dirname(sys.executable), "kafkakit")
    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "config.yaml").write_text(CONFIG)
        environment = {**os.environ, "HOME": folder, "PYTHONPYCACHEPREFIX": str(home / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        profile = ("--config", str(home / "config.yaml"), "--profile", "prod")
        failover = (sys.executable, "-c", UNTIL_CONNECT, *profile, *FAILOVER)
        measured = {
            "--help": (clock_ms, (program, "--help")),
            "topicmappr rebuild --help": (clock_ms, (program, "topicmappr", "rebuild", "--help")),
            "streams failover run, processor time until it connects": (processor_ms, failover),
        }
        results = {}
        for name, (measure, command) in measured.items():
            measure(command, environment)
            results[name] = spread([measure(command, environment) for _ in range(RUNS)])
    goals = {"help_ms": GOAL_MS, "first_request_ms": FIRST_REQUEST_GOAL_MS}
    body = {"bench": "help_time", "runs": RUNS, "goals": goals, "results": results, "machine": shape()}
    print(json.dumps(body, indent=2))


if __name__ == "__main__":
    main()
