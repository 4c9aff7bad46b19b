"""How test files fare beside other work: each is run several times in a row while busy loops take the cores.

Run: python bench/race.py [--runs 10] [--loops 6] [-o table|json] [--log FILE] TEST...
A TEST is what pytest takes: a file, a folder or a test's id. Prints a line for each: how often it ran and failed, and
the slowest run's seconds; -o json prints one JSON object with every run's seconds and exit code. What failed runs
printed goes to the log file. Exits 1 where any run failed. A run that needs more than an hour counts as failed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from machine import shape

LIMIT_S = 3600.0
LOOP = "while True: pass"
ROOT = Path(__file__).parents[1]


class Run(NamedTuple):
    """One run of one test file."""

    seconds: float
    code: int


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that compute without an end."""
    running = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def raced(test: str, log: TextIO) -> Run:
    """Run it once; what it printed is kept where it failed."""
    words = [sys.executable, "-m", "pytest", "-n0", "--durations=0", "-p", "no:cacheprovider", test]
    began = time.monotonic()
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            said, _ = process.communicate()
    run = Run(round(time.monotonic() - began, 1), process.returncode)
    if run.code:
        log.write(f"==== {test}: exit {run.code} after {run.seconds} s\n{said}\n")
        log.flush()
    return run


def lines(runs_of: dict[str, list[Run]]) -> Iterator[str]:
    wide = max(len("test"), *map(len, runs_of))
    yield f"{'test':{wide}}  runs  failures  slowest"
    for test, runs in runs_of.items():
        failed = sum(run.code != 0 for run in runs)
        yield f"{test:{wide}}  {len(runs):4}  {failed:8}  {max(run.seconds for run in runs):5.1f} s"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tests", nargs="*", metavar="TEST")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--loops", type=int, default=6)
    parser.add_argument("--log", default="race.log")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args(words)
    if not given.tests:
        print("no test is given; nothing to race")
        return 0
    runs_of: dict[str, list[Run]] = {}
    with busy(given.loops), open(given.log, "a", encoding="utf-8") as log:
        for test in given.tests:
            runs_of[test] = []
            for number in range(1, given.runs + 1):
                runs_of[test].append(run := raced(test, log))
                sys.stderr.write(f"{test}: run {number} of {given.runs}: exit {run.code}, {run.seconds} s\n")
    if given.output == "json":
        tests = [
            {
                "test": test, "runs": len(runs), "failures": sum(run.code != 0 for run in runs),
                "slowest_s": max(run.seconds for run in runs), "seconds": [run.seconds for run in runs],
                "codes": [run.code for run in runs],
            }
            for test, runs in runs_of.items()
        ]  # fmt: skip
        print(json.dumps({"bench": "race", "machine": shape(), "loops": given.loops, "tests": tests}))
    else:
        print("\n".join(lines(runs_of)))
    return int(any(run.code for runs in runs_of.values() for run in runs))


if __name__ == "__main__":
    sys.exit(main())
