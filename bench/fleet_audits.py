"""All audits over made fleets: seconds, memory, and cost per row from tier to tier, beside one roll-up on one node.

    bench/fleet_audits.py [--tiers S,M] [--jobs drift,retention] [--memory 3g] [--standalone 1|2] [--keep DIR]

Asked, on 2 cores: tier M all jobs in 5 min and 6 GiB; tier L drift and roll-ups in 2 min each; cost per row flat from S
to L. With --standalone a master and as many workers of one core each run on loopback, so that one and two executors can
be compared; memory is then that of driver, master, workers and executors together. The reference is the bytes of each
log dir summed up from its replicas: by pyarrow in this process, and by Spark in the session that runs the jobs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

from machine import shape

ROOT = Path(__file__).resolve().parent.parent
CODE = os.pathsep.join([str(ROOT), str(ROOT / "spark")])
DAY = date(2026, 11, 20)
PORT = 17077


def make_store(tier: str, folder: Path, seed: int) -> dict[str, float]:
    """Write the fleet with one of each defect, if it is not there; seconds and bytes."""
    from kafkakit.adapters.arrow import ParquetStore
    from kafkakit.fleet.act.synth import write_fleet
    from kafkakit.fleet.decide.synth_cluster import SIZES, Tier
    from kafkakit.fleet.decide.synth_defects import DEFECTS
    from kafkakit.fleet.decide.synth_fleet import SynthRequest, one_of_each

    began = time.monotonic()
    if not (folder / "truth.json").exists():
        size = SIZES[Tier(tier)]
        healthy = SynthRequest(size=size, seed=seed, last_day=DAY, days=2)
        defects = one_of_each(DEFECTS, healthy.shapes(), healthy.segment_share)
        request = SynthRequest(size=size, seed=seed, last_day=DAY, days=2, defects=defects)
        _, truth = write_fleet(ParquetStore(str(folder)), request, lambda line: None)
        (folder / "truth.json").write_text(json.dumps(truth))
    files = [f.stat().st_size for f in folder.rglob("*.parquet")]
    return {"made_s": round(time.monotonic() - began, 1), "mb": round(sum(files) / 1e6), "files": len(files)}


def rows_of(folder: Path) -> dict[str, int]:
    """The rows of each kind that manifests name, of all dates."""
    found: dict[str, int] = {}
    for file in (folder / "manifests").rglob("*.json"):
        for kind, count in json.loads(file.read_text())["rows"].items():
            found[kind] = found.get(kind, 0) + count
    return found


def reference(folder: Path) -> dict[str, float]:
    """The bytes of each log dir, by pyarrow on one node: rows and seconds."""
    import pyarrow.dataset as ds

    began = time.monotonic()
    names = ["broker", "log_dir", "size_bytes", "cluster"]
    table = ds.dataset(str(folder / "replicas"), partitioning="hive").to_table(columns=names)
    dirs = table.group_by(["cluster", "broker", "log_dir"]).aggregate([("size_bytes", "sum")])
    return {"rows": table.num_rows, "log_dirs": dirs.num_rows, "pyarrow_s": round(time.monotonic() - began, 2)}


def run_child(store: str, jobs: list[str], master: str) -> None:
    """In a process of its own: the session, the roll-up, then all jobs; prints one line of JSON."""
    from kafkakit_spark.job import SnapshotStore
    from kafkakit_spark.runner import open_session, run_spec
    from pyspark.sql.functions import sum as summed

    from kafkakit.core.fleet_tables import JobSpec

    began = time.monotonic()
    spark = open_session("bench", master=master, settings={"spark.executorEnv.PYTHONPATH": CODE})
    spark.range(10).count()
    started = time.monotonic()
    dates = tuple(sorted(p.name.partition("=")[2] for p in Path(store, "manifests").iterdir()))
    replicas = SnapshotStore(spark, store, dates).read("replicas", dates[-1:])
    roll_up = replicas.groupBy("cluster", "broker", "log_dir").agg(summed("size_bytes"))
    roll_up.write.format("noop").mode("overwrite").save()
    rolled = time.monotonic()
    now_ms = int(datetime(DAY.year, DAY.month, DAY.day + 1, tzinfo=UTC).timestamp() * 1000)
    with tempfile.TemporaryDirectory() as output:
        spec = JobSpec(
            jobs=tuple(jobs), input=store, output=output, snapshot_date=dates[-1], dates=dates, now_ms=now_ms
        )  # fmt: skip
        results = run_spec(spark, spec, lambda fields: None)
    found = {
        "session_s": round(started - began, 1),
        "roll_up_s": round(rolled - started, 2),
        "jobs": {
            r.job: {"s": r.seconds, "findings": sum(r.findings.values()), "error": r.error[:200]} for r in results
        },
    }
    spark.stop()
    print("RESULT " + json.dumps(found))


def tree_rss_mb(root: int) -> float:
    """Resident memory of a process and all below it; pages that several share count for each."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)], sizes[int(entry.name)] = int(fields[1]), int(fields[21])
            except OSError:
                continue
    below, total = {root}, 0
    for pid in sorted(sizes):  # a child is usually younger; two rounds catch the others
        below |= {pid} if parents[pid] in below else set()
    below |= {pid for pid in sizes if parents[pid] in below}
    total = sum(sizes.get(pid, 0) for pid in below)
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """The greatest memory of this process and all below it, twice a second, as the one item."""
    peak, done = [0.0], threading.Event()

    def sample() -> None:
        while not done.wait(0.5):
            peak[0] = max(peak[0], tree_rss_mb(os.getpid()))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


@contextmanager
def standalone(executors: int, memory: str) -> Iterator[str]:
    """A master and workers on loopback; gives the master's address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    run = [str(home / "bin" / "spark-class")]
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    url = f"spark://127.0.0.1:{PORT}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(PORT), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", memory, "--webui-port", "0", url]
    with tempfile.TemporaryDirectory() as logs, ExitStack() as stack:
        for number, words in enumerate([master, *[[*worker, "-d", f"{logs}/w{n}"] for n in range(executors)]]):
            log = stack.enter_context(Path(logs, f"{number}.log").open("w"))
            process = subprocess.Popen([*run, *words], stdout=log, stderr=log, env=environment)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            time.sleep(5 if number == 0 else 1)
        yield url


def measure(tier: str, folder: Path, given: argparse.Namespace) -> dict[str, object]:
    """Make a tier and run the jobs over it."""
    made = make_store(tier, folder, given.seed)
    found: dict[str, object] = {"tier": tier, "store": made, "rows": rows_of(folder), "reference": reference(folder)}
    environment = {
        **os.environ, "PYTHONPATH": CODE, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--driver-memory {given.memory} --executor-memory {given.memory} pyspark-shell",
    }  # fmt: skip
    with ExitStack() as stack:
        master = "local[2]"
        if given.standalone:
            master = stack.enter_context(standalone(given.standalone, given.memory))
        peak = stack.enter_context(peak_memory())
        child = [sys.executable, __file__, "--child", str(folder), "--jobs", given.jobs, "--master", master]
        done = subprocess.run(child, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        line = next(x for x in done.stdout.splitlines() if x.startswith("RESULT "))
    found |= {"master": master, "peak_mb": round(peak[0]), **json.loads(line.removeprefix("RESULT "))}
    return found


def curve(tiers: list[dict[str, object]]) -> dict[str, dict[str, float]]:
    """Microseconds of each job for each row of the store, by tier: flat where cost grows with the rows alone."""
    found: dict[str, dict[str, float]] = {}
    for tier in tiers:
        total = sum(tier["rows"].values())  # type: ignore[attr-defined]
        for job, result in tier["jobs"].items():  # type: ignore[attr-defined]
            found.setdefault(job, {})[str(tier["tier"])] = round(1e6 * result["s"] / total, 2)
    return found


def main() -> None:
    """Measure each tier and print one JSON object."""
    from kafkakit_spark.runner import NAMES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiers", default="XS,S")
    parser.add_argument("--jobs", default=",".join(NAMES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="3g", help="Heap of the driver, and of each executor.")
    parser.add_argument("--standalone", type=int, choices=(1, 2), help="Executors of a standalone cluster.")
    parser.add_argument("--keep", type=Path, help="Make the fleets here, and use those that are here.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--master", default="local[2]", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_child(given.child, given.jobs.split(","), given.master)
        return
    with tempfile.TemporaryDirectory() as temporary:
        base = given.keep or Path(temporary)
        tiers = [measure(tier, base / tier, given) for tier in given.tiers.split(",")]
    print(
        json.dumps({"bench": "fleet_audits", "machine": shape(), "us_per_row": curve(tiers), "tiers": tiers}, indent=2)
    )


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "spark")]
    main()
