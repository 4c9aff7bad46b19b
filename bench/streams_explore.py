"""Explore a failover deeper than the tests do: every execution with so many deviations, in a model of Kafka.

Run: python bench/streams_explore.py [--depth N] [--scenario NAME]... [--limit-s N] [--processes N]. A deviation is a
process that ends after a change, an answer that is lost, a call that fails, an event of the world, or another process
that takes over (tests/rigs/stream_model). Prints one line for each scenario, with its count of states, and every
violation of an invariant with the deviations that lead to it; exits with 1 where there is one.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.rigs.stream_model.explorer import Exploration
from tests.rigs.stream_model.scenarios import SCENARIOS


def explored(name: str, depth: int, limit_s: float) -> tuple[str, list[str]]:
    """What came of one scenario: a line, and the violations."""
    began_s = time.process_time()
    deadline_s = time.monotonic() + limit_s if limit_s else None
    exploration = Exploration(scenario=SCENARIOS[name], depth=depth, deadline_s=deadline_s, most_failures=10)
    exploration.explore()
    return f"{exploration.words}, {time.process_time() - began_s:.1f} s of CPU", exploration.failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=2, help="deviations of one execution")
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), help="all of them if not given")
    parser.add_argument("--limit-s", type=float, default=0.0, help="end a scenario after so long; 0: never")
    parser.add_argument("--processes", type=int, default=2)
    words = parser.parse_args()
    failed = False
    with ProcessPoolExecutor(words.processes) as pool:
        names = words.scenario or list(SCENARIOS)
        for line, failures in pool.map(partial(explored, depth=words.depth, limit_s=words.limit_s), names):
            print(line, *(f"  {each}" for each in failures), sep="\n", flush=True)
            failed |= bool(failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
