"""A session for the tests of a process, and stores to read.

What a job finds is tried in Sail, without a JVM. What is Spark's own has the mark `spark` (`OF_SPARK`): drivers and
backends, reading through Spark, and that both engines give the same results.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkakit.audit.decide.launch import SHORT_RUN_JAVA
from kafkakit.core.fleet_tables import TABLES, JobSpec, Manifest
from tests.places import ROOT
from tests.rigs.required import missing, need_sail
from tests.rigs.spark_jars import kafka_source_jars

TODAY = "2026-11-20"
NOW_MS = 1_795_219_200_000  # 2026-11-21T00:00:00Z

SPARK_CODE = ROOT / "spark"
sys.path.insert(0, str(SPARK_CODE))


OF_SPARK = frozenset({"test_collect.py", "test_engines.py", "test_lag_kafka.py", "test_submit.py"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = Path(item.fspath)
        if path.is_relative_to(Path(__file__).parent) and path.name in OF_SPARK:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(900))  # Spark on slow machines


@pytest.fixture(scope="session", autouse=True)
def _quick_drivers() -> Iterator[None]:
    """Drivers that tests start as processes of their own compile little, too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_SUBMIT_OPTS", SHORT_RUN_JAVA)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of Sail. A process that has one can have none of Spark's own."""
    need_sail()
    from main import sail_session

    with sail_session("tests") as session:
        yield session


@pytest.fixture(scope="session")
def jvm() -> Iterator[Any]:
    """A session of Spark in a JVM."""
    if importlib.util.find_spec("pyspark") is None:
        missing("spark", "no pyspark; try: pip install 'kafkakit[spark]'")
    from kafkakit_spark.runner import spark_session

    # Workers of Python import the code from here.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SPARK_CODE), str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Frames of tests are small: what costs is compiling, in the JVM and of each stage's code. Results are the same.
    options = f"{SHORT_RUN_JAVA} -XX:ReservedCodeCacheSize=256m"
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--driver-memory 2g --driver-java-options '{options}' pyspark-shell")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkakit" / "jars"
    jars = ",".join(kafka_source_jars(cache))
    settings = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}
    with spark_session("tests", master="local[2]", conf=settings) as session:
        session.sparkContext.setLogLevel("ERROR")
        yield session


class StoreBuilder:
    """A store of snapshots of a test: rows as mappings, manifests made at the end."""

    def __init__(self, folder: Path) -> None:
        from kafkakit.adapters.arrow import ParquetStore

        self.folder, self.store = folder, ParquetStore(str(folder))
        self._rows: dict[tuple[str, str], dict[str, int]] = {}

    def add(self, kind: str, rows: Sequence[Mapping[str, Any]], *, cluster: str = "c1", date: str = TODAY) -> None:
        """Rows of one kind; columns that a row lacks are null."""
        columns = {name: [row.get(name) for row in rows] for name in TABLES[kind].names}
        counts = self._rows.setdefault((date, cluster), {})
        written = self.store.write(kind, date, cluster, columns, part=counts.get(kind, 0))
        counts[kind] = counts.get(kind, 0) + written

    def finish(self, error: Mapping[str, str] | None = None) -> str:
        """Write the manifests and return the store's address; `error` by cluster."""
        for (date, cluster), rows in self._rows.items():
            self.store.finish(
                Manifest(
                    cluster=cluster, snapshot_date=date, started_ms=NOW_MS, ended_ms=NOW_MS, rows=rows,
                    error=(error or {}).get(cluster, ""),
                )
            )  # fmt: skip
        return str(self.folder)


@pytest.fixture
def store(tmp_path: Path) -> StoreBuilder:
    return StoreBuilder(tmp_path / "store")


def spec_for(address: str, job: str, dates: Sequence[str] = (TODAY,), **parameters: str | int | float) -> JobSpec:
    """A spec for one job over a store of a test; parameters without the job's name."""
    return JobSpec(
        jobs=(job,), input=address, output=f"{address}-results", snapshot_date=max(dates), dates=tuple(sorted(dates)),
        now_ms=NOW_MS, parameters={f"{job}.{name}": value for name, value in parameters.items()},
    )  # fmt: skip


_STORES: list[object] = []
"""Those that frames of tests still read; they are removed with the process."""


def run_job(spark: Any, spec: JobSpec) -> Any:
    """The output of a job's function, not yet evaluated."""
    from kafkakit_spark.job import JobInput, SnapshotStore
    from kafkakit_spark.runner import job_named

    (name,) = spec.jobs
    store = SnapshotStore(spark, spec.input, spec.dates)
    _STORES.append(store)
    folder = f"{spec.output}/{spec.run_id}/{name}"
    return job_named(name)(JobInput(spark=spark, store=store, spec=spec, job=name, folder=folder))
