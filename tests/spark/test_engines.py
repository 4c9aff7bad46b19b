"""Sail and Spark give the same results; Spark alone reads stores and results that lie elsewhere."""

from pathlib import Path
from typing import Any

import pytest

from tests.rigs.audit_engines import ENGINES, differences, make_store, run_engine
from tests.spark import test_store
from tests.spark.conftest import TODAY, StoreBuilder

STORES = (3, 5)
LIMIT_S = 800.0


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A store for each seed with the results of both engines."""
    found = [tmp_path_factory.mktemp("engines") for _ in STORES]
    for folder, seed in zip(found, STORES, strict=True):
        make_store(folder, seed)
    for engine in ENGINES:
        run_engine(engine, found, LIMIT_S)
    return found


def test_all_audits_give_the_same_in_both_engines(folders: list[Path]) -> None:
    found = {str(seed): list(differences(folder)) for seed, folder in zip(STORES, folders, strict=True)}
    assert found == {str(seed): [] for seed in STORES}


def test_spark_reads_and_writes_folders_of_any_name(
    jvm: Any, store: StoreBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_store.into_an_odd_folder(jvm, store, monkeypatch)


def test_a_store_elsewhere_is_read_through_spark(jvm: Any, store: StoreBuilder) -> None:
    from kafkakit_spark.job import SnapshotStore

    store.add("partitions", test_store.ROWS, cluster="007")
    store.add("partitions", test_store.ROWS, cluster="a/b %c")
    store.add("partitions", test_store.ROWS, cluster="bad")
    address = store.finish()
    (file,) = Path(address).glob("partitions/*/cluster=bad/*.parquet")
    file.write_bytes(b"PAR1" + bytes(100))
    found = SnapshotStore(jvm, address, (TODAY,), is_here=False)
    rows = found.read("partitions", (TODAY,)).collect()
    assert sorted((r["cluster"], r["replicas"]) for r in rows) == [("007", [1, 2]), ("a/b %c", [1, 2])]
    assert found.left_out == [f"partitions of bad on {TODAY}: 0 of 1 rows can be read; left out"]
    assert found.read("topics", (TODAY,)).count() == 0
