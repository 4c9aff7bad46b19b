"""Mutation run: change one place of one module at a time, run the unit tests that match it, and list what survives.

Run: python bench/mutation [--sample 200] [--seed 1] [--modules kafkakit/placement ...] [--tests tests/unit ...].
Prints one JSON object: how many mutants were tried, killed (by a failed test or by the time limit) and survived, each
survivor with its place. `--again FILE` tries the survivors of an earlier run, `--list` only counts the mutants.
First the test files that reach the modules run once, traced: a mutant's tests are those that run its line, at most
`--most`, those of the files nearest by imports first. A mutant in a line that no test runs counts as survived.
A mutant runs in a forked process that imports the changed source in place of the file, so nothing is written.
"""

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

import hypothesis  # noqa: F401  (these five are inherited by every child)
import numpy  # noqa: F401
import ortools.sat.python.cp_model  # noqa: F401
import pytest
import typer  # noqa: F401
from changes import mutants_of, mutated
from traced_tests import ROOT, Coverage, Recorder, Traced, reached

MODULES = ("kafkakit/placement", "kafkakit/execution", "kafkakit/streams/model")
MEMORY_BYTES = 6 << 30
FACTOR, GRACE_S = 4.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change: the `number`-th place of a module that an operator applies to; `before` and `after` in source."""

    path: str
    number: int
    line: int
    last_line: int
    is_import: bool
    operator: str
    before: str
    after: str
    tests: tuple[str, ...] = ()


class ChangedModule(MetaPathFinder, SourceLoader):
    """Gives one module another source than its file's."""

    def __init__(self, path: str, source: str) -> None:
        self._path, self._source = ROOT / path, source
        self._name = path.removesuffix(".py").replace("/", ".")

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self, origin=str(self._path)) if fullname == self._name else None

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str) -> bytes:
        return self._source.encode()

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError  # no cached bytecode


Job = tuple[Sequence[str], "ChangedModule | Recorder", float]


def start(tests: Sequence[str], plugin: "ChangedModule | Recorder", answer: Path) -> int:
    """Run tests in a child of its own process group; returns its id. What a recorder saw goes to the file `answer`."""
    pid = os.fork()
    if pid:
        with suppress(OSError):  # the child does so, too: the first of both counts
            os.setpgid(pid, pid)
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        if isinstance(plugin, ChangedModule):
            sys.meta_path.insert(0, plugin)
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder}/t"]
            code = int(pytest.main([*options, *tests], plugins=[plugin] if isinstance(plugin, Recorder) else []))
        if isinstance(plugin, Recorder):
            answer.write_text(json.dumps(plugin.tests))
    finally:
        os._exit(code)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: pytest's exit code (negative: a signal), None past its time; and the seconds it took."""

    code: int | None
    seconds: float


def run_all(jobs: Sequence[Job], workers: int, folder: Path) -> Iterator[tuple[int, Ended]]:
    """Run jobs (tests, plugin, time limit in seconds), `workers` at once; yields each job's number when it ended."""
    waiting = list(enumerate(jobs))[::-1]
    running: dict[int, tuple[int, float, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                number, (tests, plugin, limit_s) = waiting.pop()
                now = time.monotonic()
                running[start(tests, plugin, folder / str(number))] = (number, now, now + limit_s)
            time.sleep(0.05)
            for pid, (number, began, end) in list(running.items()):
                done, status = os.waitpid(pid, os.WNOHANG)
                late = not done and time.monotonic() > end
                if late:
                    _end(pid)
                if done or late:
                    del running[pid]
                    yield number, Ended(None if late else os.waitstatus_to_exitcode(status), time.monotonic() - began)
    finally:
        for pid in running:
            _end(pid)


def _end(pid: int) -> None:
    """Kill a child with everything that it started."""
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def enumerate_mutants(folders: Iterable[str]) -> list[Mutant]:
    """Every mutant of the modules below the folders."""
    found = []
    for folder in folders:
        files = [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py"))
        for file in files:
            path = str(file.relative_to(ROOT))
            found += [
                Mutant(path=path, number=number, **asdict(change))
                for number, change in enumerate(mutants_of(file.read_text(encoding="utf-8")))
            ]
    return found


def trace(
    modules: Sequence[str], folders: Iterable[str], workers: int, folder: Path
) -> tuple[dict[str, Traced], list[str]]:
    """Run the test files that reach the modules, each in a process: (what the tests ran, files that fail unchanged)."""
    files = [
        str(file.relative_to(ROOT))
        for name in folders
        for file in ([ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("test_*.py")))
    ]
    files = [file for file in files if not reached(file).keys().isdisjoint(modules)]
    tests, broken = {}, []
    for number, ended in run_all([((file,), Recorder(modules), 1800.0) for file in files], workers, folder):
        if ended.code == 0:
            told = json.loads((folder / str(number)).read_text())
            tests |= {test: Traced(*traced) for test, traced in told.items()}
        else:
            broken.append(files[number])
        note(f"traced {files[number]} in {ended.seconds:.0f} s: {ended.code}")
    return tests, broken


def found_again(earlier: Sequence[dict[str, object]], mutants: Iterable[Mutant]) -> list[Mutant]:
    """The mutants of an earlier run in the present source, wherever their lines are by now."""
    requested = {(e["path"], e["operator"], e["before"], e["after"]) for e in earlier}
    return [m for m in mutants if (m.path, m.operator, m.before, m.after) in requested]


def note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", nargs="+", default=list(MODULES))
    parser.add_argument("--tests", nargs="+", default=["tests/unit"])
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    os.nice(19)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "bench")]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    mutants = enumerate_mutants(given.modules)
    if given.list:
        print(json.dumps({"mutants": len(mutants), "modules": len({m.path for m in mutants})}))
        return
    if given.again is not None:
        chosen = found_again(json.loads(given.again.read_text())["survivors"], mutants)
    else:
        chosen = random.Random(given.seed).sample(mutants, min(given.sample, len(mutants)))
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        print(json.dumps(carry_out(mutants, chosen, given, Path(folder)), indent=1))


def carry_out(mutants: Sequence[Mutant], chosen: Sequence[Mutant], given: argparse.Namespace, folder: Path) -> object:
    """Trace the tests, try the chosen mutants, and return the figures."""
    from machine import shape as machine_shape

    modules = sorted({mutant.path for mutant in chosen})
    traced, broken = trace(modules, given.tests, given.workers, folder)
    coverage = Coverage(traced, given.most)
    chosen = [
        replace(m, tests=coverage.tests_of(m.path, range(m.line, m.last_line + 1), is_import=m.is_import))
        for m in chosen
    ]
    untested = [m for m in chosen if not m.tests]
    chosen = [m for m in chosen if m.tests]
    note(f"{len(mutants)} mutants, {len(chosen)} to try, {len(untested)} in lines that no test runs")
    jobs: list[Job] = [
        (m.tests, ChangedModule(m.path, mutated((ROOT / m.path).read_text(encoding="utf-8"), m.number)),
         GRACE_S + FACTOR * coverage.seconds(m.tests))
        for m in chosen
    ]  # fmt: skip
    survivors, late = [], 0
    for count, (n, ended) in enumerate(run_all(jobs, given.workers, folder), 1):
        late += ended.code is None
        if ended.code == 0:
            survivors.append(chosen[n])
            note(f"{count}/{len(jobs)} survived: {chosen[n].path}:{chosen[n].line} {chosen[n].operator}: "
                 f"{chosen[n].before} -> {chosen[n].after}")  # fmt: skip
    return {
        "machine": machine_shape(),
        "seed": given.seed,
        "mutants": len(mutants),
        "tried": len(chosen) + len(untested),
        "killed": len(chosen) - len(survivors),
        "of_these_by_time": late,
        "survived": len(survivors) + len(untested),
        "in_lines_that_no_test_runs": len(untested),
        "tests_that_fail_unchanged": broken,
        "survivors": [
            asdict(replace(m, tests=m.tests[:2]))
            for m in sorted([*survivors, *untested], key=lambda m: (m.path, m.line, m.number))
        ],
    }


if __name__ == "__main__":
    main()
