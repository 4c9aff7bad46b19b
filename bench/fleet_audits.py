"""All audits over made fleets: seconds, memory, and cost per row from tier to tier, beside one roll-up on one node.

    bench/fleet_audits.py [--tiers S,M] [--jobs drift,retention] [--engine sail] [--memory 3g] [--standalone 1|2]
                          [--keep DIR] [--events]

Asked, on 2 cores: one tiny cluster 10 s and 500 MB; S 20 s and 1 GB; M 100 s without a JVM and 240 s with Spark, both
5 GB; drift of L 120 s. Seconds and memory are those of whole processes. With --events the log of Spark's events is read
for what each job cost: executions, jobs, stages, tasks, bytes shuffled, longest planning and plan. With --standalone
a master and as many workers of one core each run on loopback, so that one and two executors can be compared; memory is
then that of driver, master, workers and executors together. The reference is the bytes of each log dir summed up from
its replicas: by pyarrow in this process, and with --roll-up in the session that runs the jobs.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from machine import shape

ROOT = Path(__file__).resolve().parent.parent
CODE = os.pathsep.join([str(ROOT), str(ROOT / "spark")])
DAY = date(2026, 11, 20)
PORT = 17077


def make_store(tier: str, folder: Path, seed: int) -> dict[str, float]:
    """Write the fleet with one of each defect, if it is not there; seconds and bytes."""
    from tests.made_fleet.cluster import SIZES, Tier
    from tests.made_fleet.defects import DEFECTS
    from tests.made_fleet.fleet import FleetRequest, one_of_each
    from tests.made_fleet.write import write_fleet

    began = time.monotonic()
    if not (folder / "truth.json").exists():
        healthy = FleetRequest(size=SIZES[Tier(tier)], seed=seed, last_day=DAY, days=2)
        write_fleet(folder, replace(healthy, defects=one_of_each(DEFECTS, healthy)))
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


def run_child(given: argparse.Namespace) -> None:
    """In a process of its own: the session, with --roll-up the roll-up, then all jobs; prints one line of JSON."""
    from kafkakit_spark.job import SnapshotStore
    from kafkakit_spark.runner import run_spec, spark_session
    from main import sail_session
    from pyspark.sql.functions import sum as summed

    from kafkakit.core.fleet_tables import JobSpec

    began = time.monotonic()
    conf = given.conf | {"spark.executorEnv.PYTHONPATH": CODE}
    opened = sail_session("bench") if given.engine == "sail" else spark_session("bench", master=given.master, conf=conf)
    with opened as spark, tempfile.TemporaryDirectory() as output:
        started = time.monotonic()
        dates = tuple(sorted(p.name.partition("=")[2] for p in Path(given.child, "manifests").iterdir()))
        if given.roll_up:
            replicas = SnapshotStore(spark, given.child, dates).read("replicas", dates[-1:])
            summed_up = replicas.groupBy("cluster", "broker", "log_dir").agg(summed("size_bytes"))
            summed_up.write.format("noop").mode("overwrite").save()
        rolled = time.monotonic()
        now_ms = int(datetime(DAY.year, DAY.month, DAY.day + 1, tzinfo=UTC).timestamp() * 1000)
        begins: list[tuple[float, str]] = []
        spec = JobSpec(
            jobs=tuple(given.jobs.split(",")), input=given.child, output=output, snapshot_date=dates[-1], dates=dates,
            now_ms=now_ms,
        )  # fmt: skip
        is_here = given.engine == "sail" or given.master.startswith("local")
        results = run_spec(
            spark, spec, lambda fields: begins.append((1000 * time.time(), str(fields["job"]))), is_here=is_here
        )
    found = {
        "session_s": round(started - began, 1),
        **({"roll_up_s": round(rolled - started, 2)} if given.roll_up else {}),
        "jobs": {
            r.job: {"s": r.seconds, "findings": sum(r.findings.values()), "error": r.error[:200]} for r in results
        },
        "begins": begins,
    }
    print("RESULT " + json.dumps(found))


def event_figures(folder: Path, begins: Sequence[tuple[float, str]]) -> dict[str, dict[str, float]]:
    """What each job cost, by the events of Spark's log; an event is of the job that began last before it."""
    found: dict[str, Counter[str]] = {job: Counter() for _, job in begins}
    started: dict[int, tuple[int, str]] = {}
    lines = [
        line
        for file in sorted(folder.rglob("*"))
        if file.name.startswith(("events_", "local-", "app-"))
        for line in file.open(encoding="utf-8")
    ]
    for event in map(json.loads, lines):
        kind = event["Event"].rpartition(".")[2]
        at = event.get("time") or event.get("Submission Time") or event.get("Task Info", {}).get("Finish Time")
        at = at or event.get("Stage Info", {}).get("Completion Time")
        job = next((name for ms, name in reversed(begins) if at and ms <= at), None)
        if job is None:
            continue
        own = found[job]
        if kind == "SparkListenerSQLExecutionStart":
            own["executions"] += 1
            own["plan_characters"] = max(own["plan_characters"], len(event["physicalPlanDescription"]))
            started[event["executionId"]] = (event["time"], job)
        elif kind == "SparkListenerJobStart":
            own["jobs"] += 1
            execution = event.get("Properties", {}).get("spark.sql.execution.id")
            begun = started.pop(int(execution), None) if execution else None
            if begun:
                own["planning_ms"] = max(own["planning_ms"], at - begun[0])
        elif kind == "SparkListenerStageCompleted":
            own["stages"] += 1
        elif kind == "SparkListenerTaskEnd":
            own["tasks"] += 1
            written = (event.get("Task Metrics") or {}).get("Shuffle Write Metrics", {})
            own["shuffled_bytes"] += written.get("Shuffle Bytes Written", 0)
    return {job: dict(own) for job, own in found.items()}


def tree_rss_mb(root: int) -> float:
    """Resident memory of all processes below one; pages that several share count for each."""
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
    total = sum(sizes.get(pid, 0) for pid in below - {root})
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """The greatest memory of all processes below this one, twice a second, as the one item."""
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
    from kafkakit.audit.decide.launch import JAVA_OPTIONS, local_conf

    made = make_store(tier, folder, given.seed)
    found: dict[str, object] = {"tier": tier, "store": made, "rows": rows_of(folder), "reference": reference(folder)}
    own = local_conf(sum(rows_of(folder).values()))
    java = own.pop(JAVA_OPTIONS, "") if given.java is None else given.java
    conf = own | {"spark.driver.memory": given.memory} | dict(item.split("=", 1) for item in given.conf_text)
    environment = {
        **os.environ, "PYTHONPATH": CODE, "RUST_LOG": "error",
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--driver-memory {given.memory} --executor-memory {given.memory} "
        f"--driver-java-options '{java}' pyspark-shell",
    }  # fmt: skip
    with ExitStack() as stack:
        master = "local[2]"
        if given.standalone:
            master = stack.enter_context(standalone(given.standalone, given.memory))
        peak = stack.enter_context(peak_memory())
        events = stack.enter_context(tempfile.TemporaryDirectory())
        if given.events:
            conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.dir": events}
        child = [
            sys.executable, __file__, "--child", str(folder), "--jobs", given.jobs, "--master", master,
            "--engine", given.engine, *(["--roll-up"] if given.roll_up else []),
            *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
        ]  # fmt: skip
        began = time.monotonic()
        done = subprocess.run(child, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        wall_s = round(time.monotonic() - began, 1)
        line = next(x for x in done.stdout.splitlines() if x.startswith("RESULT "))
        result = json.loads(line.removeprefix("RESULT "))
        begins = result.pop("begins")
        if given.events:
            result["events"] = event_figures(Path(events), begins)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found |= {"engine": given.engine, "wall_s": wall_s, "cpu_s": round(used.ru_utime + used.ru_stime, 1)}
    found |= {"master": master if given.engine == "spark" else "", "peak_mb": round(peak[0]), **result}
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
    parser.add_argument("--engine", choices=("sail", "spark"), default="sail")
    parser.add_argument("--events", action="store_true", help="Read the log of Spark's events, too.")
    parser.add_argument("--roll-up", action="store_true", help="Measure the roll-up of log dirs, too.")
    parser.add_argument("--java", help="Options of the driver's JVM; those of kafkakit when not given.")
    parser.add_argument("--conf", action="append", default=[], dest="conf_text", help="A setting of Spark.")
    parser.add_argument("--memory", default="3g", help="Heap of the driver, and of each executor.")
    parser.add_argument("--standalone", type=int, choices=(1, 2), help="Executors of a standalone cluster.")
    parser.add_argument("--keep", type=Path, help="Make the fleets here, and use those that are here.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--master", default="local[2]", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        given.conf = dict(item.split("=", 1) for item in given.conf_text)
        run_child(given)
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
