"""Daemons of Spark on loopback: a master with one worker, or any other class."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafkakit.adapters.host import process_stat
from kafkakit.adapters.processes import LocalProcesses
from kafkakit.audit.decide.launch import SHORT_RUN_JAVA

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """A standalone cluster: the master's address, and the port that its worker's executors name."""

    master: str
    worker_port: int


@contextmanager
def daemon(log: Path, environment: Mapping[str, str], class_name: str, *arguments: str) -> Iterator[None]:
    """A daemon of Spark, in a group of its own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), class_name, *arguments], stdout=stream, stderr=subprocess.STDOUT,
            start_new_session=True, cwd=log.parent, env={**os.environ, "SPARK_HOME": str(home), **environment},
        )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def standalone(folder: Path, *, memory: str) -> Iterator[Standalone]:
    """A master and a worker with two cores and so much memory for executors; both log into the folder."""
    port, ui, worker, worker_ui = map(str, LocalProcesses(process_stat).free_ports(4))
    deploy = "org.apache.spark.deploy"
    java = {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_JAVA_OPTS": SHORT_RUN_JAVA}  # fmt: skip
    addresses = ("--host", LOOPBACK, "--port")
    master = f"spark://{LOOPBACK}:{port}"
    with (
        daemon(folder / "m.log", java, f"{deploy}.master.Master", *addresses, port, "--webui-port", ui),
        daemon(
            folder / "w.log", java, f"{deploy}.worker.Worker", *addresses, worker, "--webui-port", worker_ui,
            "-c", "2", "-m", memory, master,
        ),
    ):  # fmt: skip
        yield Standalone(master=master, worker_port=int(worker))
