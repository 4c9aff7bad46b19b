"""Each job over a made fleet: exactly the findings of its defects, also of skewed and partly damaged fleets."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkakit.core.fleet_tables import VERSION_COLUMN, JobSpec
from tests.made_fleet.cluster import FleetSize
from tests.made_fleet.defects import DEFECTS
from tests.made_fleet.fleet import FleetRequest, one_of_each
from tests.made_fleet.log_dir import CLUSTER, FILE_DEFECTS, file_truth, write_log_dir
from tests.made_fleet.write import write_fleet
from tests.spark.conftest import NOW_MS, TODAY, StoreBuilder, run_job

JOBS = sorted({expected.job for defect in DEFECTS.values() for expected in defect.expected})
SIZE = FleetSize(clusters=5, brokers=60, topics=250, partitions=1_600, segment_rows=38_400, hours=24)
# Clusters beside the fleet, without defects of their own.
DAMAGED, NEWER, ABSENT = "damaged", "newer", "absent"


def write_healthy(folder: Path, name: str, request: FleetRequest) -> None:
    """A healthy cluster under another name: a fleet of one, in directories of that name."""
    one = replace(request, seed=9, defects={}, size=replace(SIZE, clusters=1, brokers=3, topics=12, partitions=24))
    write_fleet(folder / name, one)
    for path in sorted((folder / name).glob("*/*/cluster=*")):
        goal = folder / "fleet" / path.parent.relative_to(folder / name) / path.name.replace("kafka-0000", name)
        goal.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json":
            path.write_text(path.read_text().replace("kafka-0000", name))
        path.rename(goal)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[JobSpec, list[dict[str, str]]]:
    """The store of a skewed fleet with two of each defect, and what is expected of it."""
    folder = tmp_path_factory.mktemp("recall")
    request = FleetRequest(size=SIZE, seed=4, last_day=date.fromisoformat(TODAY), days=10, is_skewed=True)
    fitting = one_of_each(DEFECTS, request)
    assert fitting == dict.fromkeys(DEFECTS, 1)
    defects = {name: 1 + (number % 4 == 0) for number, name in enumerate(sorted(DEFECTS))}
    request = replace(request, defects=defects)
    truth = write_fleet(folder / "fleet", request)
    for name in (DAMAGED, NEWER, ABSENT):
        write_healthy(folder, name, request)
    store, today = folder / "fleet", f"snapshot_date={TODAY}"
    (store / "partitions" / today / f"cluster={DAMAGED}" / "part-00000.parquet").write_bytes(b"PAR1" + bytes(99))
    file = store / "batches" / today / f"cluster={NEWER}" / "part-00000.parquet"
    rows = pq.read_table(file)
    column = rows.schema.get_field_index(VERSION_COLUMN)
    pq.write_table(rows.set_column(column, VERSION_COLUMN, pa.array([99] * rows.num_rows, pa.int32())), file)
    (store / "manifests" / today / f"cluster={ABSENT}.json").unlink()
    spec = JobSpec(
        jobs=(), input=str(store), output=str(folder / "results"), snapshot_date=TODAY, dates=request.dates(),
        now_ms=NOW_MS,
    )  # fmt: skip
    return spec, truth


def found_by(spark: Any, spec: JobSpec, job: str) -> Iterator[tuple[str, str, str]]:
    for row in run_job(spark, replace(spec, jobs=(job,))).findings.collect():
        assert row["message"]
        assert row["where"].endswith(f"{row['cluster']}")
        yield row["rule"], row["where"], row["fingerprint"]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_finds_each_defect_and_nothing_else(spark: Any, fleet: Any, job: str) -> None:
    spec, truth = fleet
    expected = {(row["rule"], row["where"]) for row in truth if row["job"] == job}
    found = list(found_by(spark, spec, job))
    assert {(rule, where) for rule, where, _ in found} == expected
    prints = Counter(fingerprint for _, _, fingerprint in found)
    assert prints.most_common(1)[0][1] == 1


def test_the_truth_names_every_defect_as_often_as_it_was_asked_for(fleet: Any) -> None:
    _, truth = fleet
    found = Counter(row["defect"] for row in truth)
    wanted = {n: (1 + (i % 4 == 0)) * len(DEFECTS[n].expected) for i, n in enumerate(sorted(DEFECTS))}
    assert found == wanted


def test_what_could_not_be_read_is_named(spark: Any, fleet: Any) -> None:
    from kafkakit_spark.job import SnapshotStore

    spec, _ = fleet
    store = SnapshotStore(spark, spec.input, spec.dates)
    assert ABSENT not in store.clusters(TODAY)
    for kind in ("partitions", "batches"):
        store.read(kind, (TODAY,)).count()
    assert any(f"partitions of {DAMAGED} on {TODAY}" in line for line in store.left_out)
    assert any(f"batches of {NEWER} on {TODAY}" in line and "newer kafkakit" in line for line in store.left_out)


@pytest.mark.parametrize("job", ["segments", "bombs"])
def test_a_job_finds_the_defects_of_real_files(spark: Any, store: StoreBuilder, tmp_path: Path, job: str) -> None:
    defects = dict.fromkeys(FILE_DEFECTS, 1)
    logs = tmp_path / "logs"
    write_log_dir(logs, defects, 1, NOW_MS)
    topics = [path.name.rpartition("-")[0] for path in logs.iterdir() if path.is_dir()]
    store.add("clusters", [{"cluster_id": CLUSTER, "kafka_version": "4.3.0"}], cluster=CLUSTER)
    store.add("topics", [{"topic": topic, "partitions": 1} for topic in topics], cluster=CLUSTER)
    spec = JobSpec(
        jobs=(job,), input=store.finish(), output=str(tmp_path / "results"), snapshot_date=TODAY, dates=(TODAY,),
        now_ms=NOW_MS, segments=(str(logs),), parameters={"segments.crc": 1},
    )  # fmt: skip
    expected = {(row["rule"], row["where"]) for row in file_truth(defects, str(logs)) if row["job"] == job}
    assert {(rule, where) for rule, where, _ in found_by(spark, spec, job)} == expected
