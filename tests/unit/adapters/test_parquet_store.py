"""A store of snapshots as Parquet files: what is written comes back, and what belongs to others stays."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest

from kafkakit.adapters.arrow import ParquetStore
from kafkakit.core.errors import StoreFailedError
from kafkakit.core.fleet_tables import Manifest, manifest_data, manifest_of, merged_manifest

DAY = "2026-11-20"
ODD_NAMES = ["c1", "a/b %c", "..", "é=ü", "a@b", "x y"]
ROWS: dict[str, list[Any]] = {"topic": ["orders", "pay"], "partition": [0, 1], "replicas": [[1, 2], None]}


def manifest(cluster: str, *, source: str = "", date: str = DAY, **rows: int) -> Manifest:
    return Manifest(
        cluster=cluster, snapshot_date=date, started_ms=1, ended_ms=2, rows=rows, source=source, positions={"log-0": 7}
    )


def held(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def read(folder: Path, kind: str) -> list[dict[str, Any]]:
    files = sorted(folder.glob(f"{kind}/*/*/part-*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


@pytest.mark.parametrize("cluster", ODD_NAMES)
def test_rows_come_back_with_their_version_and_null_where_absent(tmp_path: Path, cluster: str) -> None:
    store = ParquetStore(str(tmp_path))
    assert store.write("partitions", DAY, cluster, ROWS) == 2
    store.finish(manifest(cluster, partitions=2))
    first, second = read(tmp_path, "partitions")
    assert (first["topic"], first["replicas"], first["leader"], first["schema_version"]) == ("orders", [1, 2], None, 1)
    assert second["replicas"] is None
    assert store.manifest(DAY, cluster) == manifest(cluster, partitions=2)
    assert store.manifest(DAY, cluster, "broker-1") is None
    assert all(path.is_relative_to(tmp_path) for path in tmp_path.rglob("*"))


def test_a_new_beginning_takes_the_rows_of_its_cluster_date_and_source_alone(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path))
    for cluster, source, date in [("a", "", DAY), ("a", "broker-1", DAY), ("a", "broker-12", DAY), ("b", "", DAY),
                                  ("a", "", "2026-11-19")]:  # fmt: skip
        store.write("segments", date, cluster, {"topic": [source]}, source=source)
        store.finish(manifest(cluster, source=source, date=date, segments=1))
    before = held(tmp_path)
    store.begin(DAY, "a", "broker-1")
    gone = {f"segments/snapshot_date={DAY}/cluster=a/part-broker-1-00000.parquet",
            f"manifests/snapshot_date={DAY}/cluster=a@broker-1.json"}  # fmt: skip
    assert before - held(tmp_path) == gone
    before = held(tmp_path)
    store.begin(DAY, "a")
    gone = {
        f"segments/snapshot_date={DAY}/cluster=a/part-00000.parquet",
        f"manifests/snapshot_date={DAY}/cluster=a.json",
    }
    assert before - held(tmp_path) == gone
    assert store.dates() == ("2026-11-19", DAY)


def test_an_empty_table_writes_no_file_and_an_unknown_column_is_refused(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path))
    assert store.write("topics", DAY, "a", {"topic": []}) == 0
    assert held(tmp_path) == set()
    with pytest.raises(ValueError, match="topics has no columns colour"):
        store.write("topics", DAY, "a", {"colour": ["red"]})


def test_a_damaged_manifest_is_none(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path))
    store.finish(manifest("a"))
    path = tmp_path / "manifests" / f"snapshot_date={DAY}" / "cluster=a.json"
    path.write_text(path.read_text(encoding="utf-8")[:50], encoding="utf-8")
    assert store.manifest(DAY, "a") is None


def test_a_full_disk_is_told_and_leaves_no_row(tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path))
    with (
        mock.patch("pyarrow.parquet.write_table", side_effect=OSError(28, "No space left on device")),
        pytest.raises(StoreFailedError, match=r"topics cannot be written: .*No space left on device"),
    ):
        store.write("topics", DAY, "a", {"topic": ["x"]})
    assert read(tmp_path, "topics") == []


def test_sources_make_one_manifest_that_is_complete_where_each_is() -> None:
    whole = merged_manifest([manifest("a", topics=3), manifest("a", source="broker-1", segments=5)])
    assert (whole.rows, whole.is_complete) == ({"topics": 3, "segments": 5}, True)
    data = manifest_data(manifest("a", source="broker-2", segments=2)) | {"error": "timed out"}
    failed = manifest_of(json.loads(json.dumps(data)))
    both = merged_manifest([failed, manifest("a", source="broker-1", segments=5)])
    assert (both.rows, both.error) == ({"segments": 7}, "timed out")
