"""Plan random small clusters and solve each a second time by an integer program of its own.

Run: python bench/planner_campaign.py [--clusters N] [--seed N] [--processes N]. A request that the program can meet and
the planner refuses, a plan that breaks a limit, a bound above the optimum and a plan that costs more than the optimum
are counted; the first two and a false bound end with exit code 1. Prints JSON with the machine's shape.

With --commands N it runs N random `topicmappr` commands instead, each a process of its own on a cluster of 3 to 12
brokers and up to 500 partitions, and prints the processor time of each kind. `--only SEED` prints one command and keeps
its snapshot.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from machine import shape
from ortools.sat.python import cp_model

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.core.errors import InfeasibleError
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, Topic
from kafkakit.core.selection import parse_broker_list
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.request_fields import LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest

GIB = 1 << 30
DISK = 1 << 50  # never full
SECONDS = 20.0  # the second program gives up here, and its cluster is left out


class Case:
    """A cluster and a request: brokers with racks, lists, sizes, a band, a budget of copies and what is minimized."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        racks = draw.choice([1, 2, 3, 3, 4])
        self.brokers = {
            b: None if draw.random() < 0.05 else "abcd"[draw.randrange(racks)] for b in range(1, draw.randint(3, 9))
        }
        self.copies = draw.randint(1, min(3, len(self.brokers)))
        used = draw.sample(sorted(self.brokers), max(self.copies, len(self.brokers) - draw.randint(0, 2)))
        self.lists = [draw.sample(used, self.copies) for _ in range(draw.randint(4, 40))]
        shape = draw.choice(["equal", "uniform", "heavy"])
        self.sizes = [
            GIB
            * (8 if shape == "equal" else draw.randint(1, 20) if shape == "uniform" else int(draw.paretovariate(1.1)))
            for _ in self.lists
        ]
        self.band = Fraction(draw.choice([3, 10, 20, 40, 80]), 100)
        self.most_moves = draw.choice([None, None, None, draw.randint(1, 12)])
        self.minimize = draw.choice([Minimize.BYTES, Minimize.MOVES])

    def snapshot(self) -> ClusterSnapshot:
        """The cluster; every disk holds what its lists put there."""
        held: collections.Counter[int] = collections.Counter()
        for row, size in zip(self.lists, self.sizes, strict=True):
            held.update(dict.fromkeys(row, size))
        return ClusterSnapshot(
            cluster_id="campaign",
            taken_at=datetime(2026, 1, 1, tzinfo=UTC),
            source="bench",
            sizes_taken=True,
            brokers=tuple(
                Broker(id=b, rack=rack, log_dirs=(LogDir(path="/d", total_bytes=DISK, usable_bytes=DISK - held[b]),))
                for b, rack in self.brokers.items()
            ),
            topics=(
                Topic(
                    name="t",
                    partitions=tuple(
                        Partition(partition=p, replicas=tuple(row), isr=tuple(row), leader=row[0], size_bytes=size)
                        for p, (row, size) in enumerate(zip(self.lists, self.sizes, strict=True))
                    ),
                ),
            ),
        )

    def planned(self) -> Rebalance | None:
        """The plan; None where it was refused."""
        request = RebalanceRequest(
            brokers=parse_broker_list("-2"),
            topics=("t",),
            goal=LoadGoal(band=self.band, max_moves=self.most_moves),
            minimize=self.minimize,
            words={},
        )
        try:
            return decide_rebalance(self.snapshot(), request)
        except InfeasibleError:
            return None

    def limits(self) -> list[tuple[int, int]]:
        """Floor and ceiling of each broker: equal shares of all bytes, whole ones, the rest to the first brokers."""
        total, count = sum(s * self.copies for s in self.sizes), len(self.brokers)
        shares = [total // count + (i < total % count) for i in range(count)]
        low = [-(-(s * (1 - self.band)).numerator // (s * (1 - self.band)).denominator) for s in shares]
        high = [s + int(s * self.band) for s in shares]
        return list(zip(low, high, strict=True))

    def optimum(self) -> tuple[bool, int | None]:
        """Whether it is known, and the least cost; None where no placement keeps the limits."""
        model = cp_model.CpModel()
        ids = sorted(self.brokers)
        put = {(p, b): model.new_bool_var("") for p in range(len(self.lists)) for b in ids}
        moves: Any = 0
        cost: Any = 0
        for p, (row, size) in enumerate(zip(self.lists, self.sizes, strict=True)):
            model.add_exactly_one(put[p, b] for b in ids) if self.copies == 1 else model.add(
                sum(put[p, b] for b in ids) == self.copies
            )
            now = collections.Counter(self.brokers[b] for b in row if self.brokers[b])
            for rack in {r for r in self.brokers.values() if r}:
                inside = sum(put[p, b] for b in ids if self.brokers[b] == rack)
                model.add(inside <= max(1, now[rack]))
            new = sum(put[p, b] for b in ids if b not in row)
            moves, cost = moves + new, cost + size // GIB * new
        for b, (low, high) in zip(ids, self.limits(), strict=True):
            load = sum(size // GIB * put[p, b] for p, size in enumerate(self.sizes))
            model.add(load >= -(-low // GIB))
            model.add(load <= high // GIB)
        if self.most_moves is not None:
            model.add(moves <= self.most_moves)
        model.minimize(cost if self.minimize is Minimize.BYTES else moves)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = SECONDS
        status = solver.solve(model)
        if status == cp_model.INFEASIBLE:
            return True, None
        unit = GIB if self.minimize is Minimize.BYTES else 1
        return status == cp_model.OPTIMAL, round(solver.objective_value) * unit


def tried(seed: int) -> tuple[int, str, float, float]:
    """One cluster: its seed, what came of it, how far the plan is above the optimum, and seconds of CPU to plan it."""
    case = Case(seed)
    began_s = time.process_time()
    plan = case.planned()
    cpu_s = time.process_time() - began_s
    known, least = case.optimum()
    if not known:
        return seed, "not known", 0.0, cpu_s
    missed = plan is not None and plan.max_deviation > case.band * 1_000_000
    if plan is None or missed:
        return seed, "refused rightly" if least is None else "refused", 0.0, cpu_s
    if least is None:
        return seed, "false plan", 0.0, cpu_s
    certificate = plan.plan.certificate
    if certificate.lower_bound > least:
        return seed, "false bound", 0.0, cpu_s
    return seed, "planned", certificate.objective / least - 1 if least else float(certificate.objective > 0), cpu_s


class CommandCase:
    """A small cluster as a snapshot document, and a `topicmappr` command line for it."""

    def __init__(self, seed: int) -> None:
        draw = self._draw = random.Random(f"commands/{seed}")
        count, racks = draw.randint(3, 12), draw.choice([1, 2, 3, 3, 4, 5])
        self.brokers = list(range(1, count + 1))
        self._racks = {b: f"r{draw.randrange(racks)}" for b in self.brokers}
        self._copies = draw.choice([n for n in (1, 2, 2, 3, 3, 3) if n <= count])
        self._holding = draw.sample(self.brokers, max(self._copies, count - draw.choice([0, 0, 1, 2])))
        self._dirs = draw.choice([1, 1, 1, 2, 4])
        self.argv = self._command()

    def _sizes(self, number: int) -> list[int]:
        draw = self._draw
        kind, base = draw.choice(["equal", "uniform", "power", "power"]), draw.randint(1, 30)
        return [
            base * GIB
            if kind == "equal"
            else draw.randint(1, 40 * GIB)
            if kind == "uniform"
            else int(min(3000.0, draw.paretovariate(0.9)) * GIB / 8)
            for _ in range(number)
        ]

    def document(self) -> dict[str, Any]:
        """The cluster."""
        draw, held = self._draw, collections.Counter[int]()
        topics: list[dict[str, Any]] = []
        left = draw.choice([draw.randint(5, 60), draw.randint(60, 200), draw.randint(200, 500)])
        weight = [draw.uniform(0.3, 1.7) for _ in self._holding]
        while left > 0:
            number = min(left, draw.choice([1, 3, 6, 12, 24, 60]))
            rows = []
            for p, size in enumerate(self._sizes(number)):
                replicas: list[int] = []
                while len(replicas) < self._copies:
                    b = draw.choices(self._holding, weight)[0]
                    replicas += [] if b in replicas else [b]
                held.update(dict.fromkeys(replicas, size))
                row = {"partition": p, "replicas": replicas, "isr": replicas, "leader": replicas[0]}
                rows.append({**row, "size_bytes": size})
            topics.append({"name": f"t-{len(topics)}", "configs": {}, "partitions": rows})
            left -= number
        largest = max(row["size_bytes"] for topic in topics for row in topic["partitions"])
        disk = max(int(max(held.values()) * draw.choice([1.5, 2, 4])), 2 * self._dirs * largest)
        nodes = [
            {
                "id": b,
                "rack": self._racks[b],
                "host": f"b{b}",
                "port": 9092,
                "state": "alive",
                "storage_free_bytes": disk - held[b],
                "log_dirs": [
                    {
                        "path": f"/d{k}",
                        "total_bytes": disk // self._dirs,
                        "usable_bytes": (disk - held[b]) // self._dirs,
                        "cordoned": False,
                    }
                    for k in range(self._dirs)
                ],
            }
            for b in self.brokers
        ]
        return {
            "kafkakit": {"kind": "cluster-snapshot", "schema": 1},
            "cluster_id": "campaign",
            "sizes_taken": True,
            "taken_at": "2026-11-01T00:00:00Z",
            "source": "file",
            "brokers": nodes,
            "topics": topics,
            "reassignments": [],
        }

    def _command(self) -> list[str]:
        draw, every = self._draw, ["--topics", ".*"]
        over = [*every, "--brokers", "-2"]
        some = str(draw.choice(self.brokers))
        kind = draw.choice(
            ["rebalance"] * 10 + ["scale", "add-brokers", "frontier", "rebuild", "rebuild", "drain", "rest"]
        )
        absent = [str(b) for b in self.brokers if b not in self._holding] or [some]
        if kind == "rebalance":
            return [kind, *over, *self._goal(), *self._limits(), "--plan", "p.json", "--out-path", "maps"]
        if kind == "scale":
            return [kind, *every, "--brokers", ",".join(["-1", *absent]), *self._goal(), "--plan", "p.json"]
        if kind == "add-brokers":
            return [kind, "--brokers", ",".join(absent), "--plan", "p.json"]
        if kind == "frontier":
            return [kind, *over, *draw.choice([[], ["--metric", "free-range"], ["--bands", "20%,10%,5%,1%"]])]
        if kind == "rebuild":
            how = draw.choice([[], ["--force-rebuild"], ["--placement", "storage"]])
            more = draw.choice([[], ["--placement", "storage", "--force-rebuild"], ["--replication", "2"]])
            return [kind, *over, *how, *more, "--plan", "p.json", "--out-path", "maps", "--ignore-warns"]
        if kind == "drain":
            return [kind, "--brokers", some, *draw.choice([[], ["--placement", "storage"]]), "--plan", "p.json"]
        return draw.choice(
            [
                ["set-replication", str(draw.randint(1, 4)), *every, "--plan", "p.json"],
                ["fix-racks", *every, "--plan", "p.json"],
                ["leaders", *every, "--plan", "p.json"],
                ["rebalance-dirs", *over, "--band", "10%", "--plan", "p.json"],
                ["check"],
            ]
        )

    def _goal(self) -> list[str]:
        draw = self._draw
        band = draw.choice(["1%", "2%", "5%", "10%", "20%", "50%"])
        return draw.choice(
            [
                ["--band", band],
                ["--band", band, "--minimize", "moves"],
                ["--band", band, "--max-moves", str(draw.randint(1, 40))],
                ["--band", band, "--max-moved-bytes", f"{draw.randint(1, 400)}GiB"],
                ["--band", band, "--best-effort"],
                ["--band", band, "--balance-within", "racks"],
                ["--band", band, "--count-band", draw.choice(["5%", "10%", "30%"])],
                ["--free-range", f"{draw.randint(1, 100)}GiB"],
                ["--max-moved-bytes", f"{draw.randint(1, 400)}GiB"],
                ["--max-moves", str(draw.randint(1, 30)), "--minimize", draw.choice(["moves", "bytes"])],
                ["--tolerance", draw.choice(["0.01", "0.1"])],
                [],
            ]
        )

    def _limits(self) -> list[str]:
        draw = self._draw
        return draw.choice(
            [
                *[[]] * 5,
                ["--exclude-receivers", str(draw.choice(self.brokers))],
                ["--max-rack-violations", "0"],
                ["--balance-dirs", "10%"],
                ["--report", "r.html"],
                ["--locality-scoped"],
            ]
        )


def timed_command(seed: int, package: Path, only: bool = False) -> tuple[int, str, float, float, int]:
    """Run one command: its seed, words, processor seconds, largest MiB and exit code."""
    case = CommandCase(seed)
    with tempfile.TemporaryDirectory() as folder:
        where = Path("/tmp/one-command" if only else folder)
        where.mkdir(exist_ok=True)
        (where / "s.json").write_text(json.dumps(case.document()))
        argv = ["topicmappr", *case.argv, "--snapshot", "s.json"]
        env = {**os.environ, "PYTHONPATH": str(package)}
        out = None if only else subprocess.DEVNULL
        begun = subprocess.Popen([sys.executable, "-m", "kafkakit", *argv], cwd=where, env=env, stdout=out, stderr=out)
        _, status, used = os.wait4(begun.pid, 0)
        begun.returncode = os.waitstatus_to_exitcode(status)
        cpu_s = used.ru_utime + used.ru_stime
        return seed, " ".join(argv), round(cpu_s, 2), used.ru_maxrss / 1024, begun.returncode


def run_commands(words: argparse.Namespace) -> int:
    """Print the processor time of random commands, by kind and in all."""
    if words.only is not None:
        print(json.dumps(timed_command(words.only, words.package, True)))
        return 0
    rows = [timed_command(seed, words.package) for seed in range(words.seed, words.seed + words.commands)]
    times: dict[str, list[float]] = {}
    for _, argv, cpu_s, _, _ in rows:
        for kind in ("all", argv.split()[1]):
            times.setdefault(kind, []).append(cpu_s)
    print(
        json.dumps(
            {
                "machine": shape(),
                "cpu_s": {
                    kind: {
                        "commands": len(found),
                        "median": sorted(found)[len(found) // 2],
                        "p90": sorted(found)[len(found) * 9 // 10],
                        "most": max(found),
                    }
                    for kind, found in sorted(times.items())
                },
                "most_mib": round(max(mib for *_, mib, _ in rows)),
                "exit_codes": dict(sorted(collections.Counter(code for *_, code in rows).items())),
                "slowest": sorted(rows, key=lambda row: -row[2])[:10],
                "odd": [row for row in rows if row[-1] not in (0, 4)][:10],
            },
            indent=2,
        )
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--commands", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--package", type=Path, default=Path(__file__).parent.parent)
    words = parser.parse_args()
    if words.commands or words.only is not None:
        return run_commands(words)
    with ProcessPoolExecutor(words.processes) as pool:
        rows = list(pool.map(tried, range(words.seed, words.seed + words.clusters), chunksize=8))
    ends = collections.Counter(end for _, end, _, _ in rows)
    above = sorted(away for _, end, away, _ in rows if end == "planned")
    wrong = {seed: end for seed, end, _, _ in rows if end in ("refused", "false plan", "false bound")}
    print(
        json.dumps(
            {
                "machine": shape(),
                "clusters": len(rows),
                "ends": dict(sorted(ends.items())),
                "optimal": sum(away <= 0 for away in above),
                "above_optimum_p99": above[len(above) * 99 // 100] if above else 0.0,
                "above_optimum_most": above[-1] if above else 0.0,
                "cpu_s_most": round(max(cpu_s for *_, cpu_s in rows), 2),
                "wrong_seeds": wrong,
                "dearest_seeds": [s for s, e, away, _ in sorted(rows, key=lambda row: -row[2])[:5] if away > 0],
            },
            indent=2,
        )
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
