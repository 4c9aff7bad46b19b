"""What a store of snapshots gives to jobs, and what it leaves out."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkakit.core.findings import Rule, Severity, audit_finding
from tests.spark.conftest import TODAY, StoreBuilder, spec_for

ROWS = [{"topic": "orders", "partition": 0, "leader": 1, "replicas": [1, 2], "isr": [1], "size_bytes": 7}]


def opened(spark: Any, address: str, *dates: str) -> Any:
    from kafkakit_spark.job import SnapshotStore

    return SnapshotStore(spark, address, dates or (TODAY,))


def test_rows_of_complete_clusters_are_read_with_date_and_cluster(spark: Any, store: StoreBuilder) -> None:
    store.add("partitions", ROWS, cluster="007")
    store.add("partitions", ROWS, cluster="a/b %c")
    store.add("partitions", ROWS, cluster="broken")
    found = opened(spark, store.finish({"broken": "timed out"}))
    rows = found.read("partitions", (TODAY,)).collect()
    assert sorted((r["snapshot_date"], r["cluster"], r["replicas"]) for r in rows) == [
        (TODAY, "007", [1, 2]), (TODAY, "a/b %c", [1, 2])
    ]  # fmt: skip
    assert found.left_out == [f"cluster broken on {TODAY}: not collected: timed out"]
    assert found.clusters(TODAY) == ("007", "a/b %c")


def test_a_kind_without_files_is_empty(spark: Any, store: StoreBuilder) -> None:
    store.add("partitions", ROWS)
    found = opened(spark, store.finish())
    assert found.read("topics", (TODAY,)).count() == 0
    assert opened(spark, str(store.folder / "none")).read("partitions", (TODAY,)).count() == 0


def test_a_damaged_file_leaves_out_its_cluster_and_no_other(spark: Any, store: StoreBuilder) -> None:
    store.add("partitions", ROWS, cluster="a")
    store.add("partitions", ROWS, cluster="b")
    address = store.finish()
    (file,) = Path(address).glob("partitions/*/cluster=a/*.parquet")
    file.write_bytes(b"PAR1" + bytes(100))
    Path(address, "manifests", f"snapshot_date={TODAY}", "cluster=z.json").write_text("{", encoding="utf-8")
    found = opened(spark, address)
    assert [r["cluster"] for r in found.read("partitions", (TODAY,)).collect()] == ["b"]
    assert found.left_out[0].startswith("cluster=z.json: damaged manifest")
    assert found.left_out[1] == f"partitions of a on {TODAY}: 0 of 1 rows can be read; left out"


def test_what_was_looked_at_names_only_whole_tables_that_were_read(spark: Any, store: StoreBuilder) -> None:
    for cluster in ("a", "b", "c"):
        store.add("partitions", ROWS, cluster=cluster)
        store.add("topics", [{"topic": "orders"}], cluster=cluster)
    store.add("groups", [{"group": "g"}], cluster="b")
    address = store.finish({"c": "timed out"})
    (file,) = Path(address).glob("topics/*/cluster=a/*.parquet")
    file.unlink()
    found = opened(spark, address)
    assert found.looked_at(TODAY) == {"a": (), "b": ()}
    found.read("partitions", (TODAY,))
    found.read("topics", (TODAY,))
    assert found.looked_at(TODAY) == {"a": ("partitions",), "b": ("partitions", "topics")}


def test_every_result_of_a_run_names_the_clusters_left_out(
    spark: Any, store: StoreBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkakit_spark import runner
    from kafkakit_spark.job import JobInput, JobOutput, findings_frame

    def job(given: JobInput) -> JobOutput:
        given.today("partitions")
        return JobOutput(findings=findings_frame(spark, ()))

    store.add("partitions", ROWS, cluster="a")
    store.add("partitions", ROWS, cluster="broken")
    spec = replace(spec_for(store.finish({"broken": "timed out"}), "one"), jobs=("one", "two"))
    monkeypatch.setattr(runner, "job_named", lambda name: job)
    results = runner.run_spec(spark, spec, lambda fields: None, is_here=True)
    assert [r.error for r in results] == ["", ""]
    assert [r.left_out for r in results] == [(f"cluster broken on {TODAY}: not collected: timed out",)] * 2
    assert [r.clusters for r in results] == [{"a": ("partitions",)}] * 2


@pytest.mark.parametrize("damage", ["footer", "name", "page", "column", "end"])
def test_damaged_files_are_named_and_the_others_read(spark: Any, store: StoreBuilder, damage: str) -> None:
    rows = [{"topic": f"t{n}", "topic_id": "x" * 50, "partitions": n, "owner": f"o{n}"} for n in range(500)]
    for name in ("a", "b"):
        store.add("topics", rows, cluster=name)
    address = store.finish()
    (file,) = Path(address).glob("topics/*/cluster=a/*.parquet")
    data = bytearray(file.read_bytes())
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    if damage == "footer":
        data[-12:-8] = b"\xff\xff\xff\xff"
    elif damage == "name":
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        data[data.index(b"is_internal", footer)] ^= 1
    elif damage == "end":
        del data[len(data) // 2 :]
    else:
        # A bit that decompression may not notice, and a whole column.
        owner = columns["owner"]
        begin = owner.dictionary_page_offset or owner.data_page_offset
        at = begin + owner.total_compressed_size // 2
        for n in range(at, at + 1) if damage == "page" else range(begin, begin + owner.total_compressed_size):
            data[n] ^= 0x55
    file.write_bytes(bytes(data))
    found = opened(spark, address)
    read = found.read("topics", (TODAY,))
    assert {row["cluster"] for row in read.collect()} == {"b"}
    (sentence,) = found.left_out
    assert sentence == f"topics of a on {TODAY}: 0 of 500 rows can be read; left out"
    assert found.looked_at(TODAY) == {"a": (), "b": ("topics",)}


def test_a_job_that_fails_leaves_nothing_of_its_results(
    spark: Any, store: StoreBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkakit_spark import runner
    from kafkakit_spark.job import JobInput, JobOutput, findings_frame
    from pyspark.sql import functions

    def job(given: JobInput) -> JobOutput:
        whole = given.today("partitions").select("topic")
        # Written after the other table, it fails when it is evaluated.
        broken = whole.select(functions.raise_error(functions.col("topic")).alias("x"))
        return JobOutput(findings=findings_frame(spark, ()), tables={"first": whole, "second": broken})

    store.add("partitions", ROWS, cluster="a")
    spec = spec_for(store.finish(), "one")
    monkeypatch.setattr(runner, "job_named", lambda name: job)
    (result,) = runner.run_spec(spark, spec, lambda fields: None, is_here=True)
    assert "orders" in result.error
    assert sorted(path.name for path in Path(spec.output, spec.run_id).iterdir()) == ["summary.json"]


def test_one_cluster_under_two_names_is_told(spark: Any, store: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkakit_spark import runner
    from kafkakit_spark.job import JobInput, JobOutput, findings_frame

    def job(given: JobInput) -> JobOutput:
        return JobOutput(findings=findings_frame(spark, ()))

    for name in ("a", "b", "c", "d", "old", "older"):
        store.add("partitions", ROWS, cluster=name)
    address = store.finish()
    ids = {"a": "x", "b": "x", "c": "y", "d": "x"}
    for name, cluster_id in ids.items():
        file = Path(address) / "manifests" / f"snapshot_date={TODAY}" / f"cluster={name}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "cluster_id": cluster_id}))
    monkeypatch.setattr(runner, "job_named", lambda name: job)
    (result,) = runner.run_spec(spark, spec_for(address, "one"), lambda fields: None, is_here=True)
    assert result.skipped == (
        "a, b and d as one cluster, which they are: all have the id x, and sums count it more than once",
    )


def test_a_run_keeps_to_its_scope(spark: Any, store: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkakit_spark import runner
    from kafkakit_spark.job import JobInput, JobOutput, findings_frame

    rule = Rule("r", Severity.WARNING, "")
    places = [
        "topic orders of a", "topic pay of a", "partition orders-3 of a", "partition pay-3 of a", "topic orders of b",
        "broker 1 of a", "broker 2 of a", "log dir 2:/d of a", "controller 1 of a", "group pay of a", "cluster a",
    ]  # fmt: skip

    def job(given: JobInput) -> JobOutput:
        given.today("partitions")
        found = [audit_finding("one", where[-1], rule.finding(where, "m")) for where in places]
        return JobOutput(findings=findings_frame(spark, found))

    store.add("partitions", ROWS, cluster="a")
    store.add("partitions", ROWS, cluster="b")
    address = store.finish()
    monkeypatch.setattr(runner, "job_named", lambda name: job)
    spec = replace(
        spec_for(address, "one"),
        clusters=("a",),
        topics={"a": ("orders",)},
        brokers={"a": ("2",)},
        scope={"topics": "x"},
    )
    (result,) = runner.run_spec(spark, spec, lambda fields: None, is_here=True)
    assert result.error == ""
    assert result.clusters == {"a": ("partitions",)}
    rows = spark.read.parquet(f"{spec.output}/{spec.run_id}/one/findings.parquet").collect()
    assert sorted(row["where"] for row in rows) == [
        "broker 2 of a", "cluster a", "group pay of a", "log dir 2:/d of a", "partition orders-3 of a",
        "topic orders of a",
    ]  # fmt: skip
    nothing = replace(spec, brokers={}, topics={})
    (result,) = runner.run_spec(spark, nothing, lambda fields: None, is_here=True)
    assert result.findings == {"warning": 2}, "what is about neither topics nor brokers stays"


def test_files_that_change_while_they_are_read_are_named(spark: Any, store: StoreBuilder) -> None:
    for cluster in ("same", "gone", "anew"):
        store.add("partitions", ROWS, cluster=cluster)
    address = store.finish()
    found = opened(spark, address)
    assert found.read("partitions", (TODAY,)).count() == 3 * len(ROWS)
    found.note_changed()
    assert found.left_out == []
    for path in Path(address).glob("partitions/*/cluster=gone/*.parquet"):
        path.unlink()
    for path in Path(address).glob("partitions/*/cluster=anew/*.parquet"):
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    found.note_changed()
    found.note_changed()
    assert found.left_out == [
        f"partitions of {name} on {TODAY}: its files changed while they were read; run it again"
        for name in ("anew", "gone")
    ]
    assert found.looked_at(TODAY) == {"anew": (), "gone": (), "same": ("partitions",)}


def into_an_odd_folder(engine: Any, store: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose store and results lie in folders with signs that mean something in a URI."""
    from kafkakit_spark import runner
    from kafkakit_spark.job import JobInput, JobOutput, findings_frame

    def job(inputs: JobInput) -> JobOutput:
        kept = inputs.table("kept", inputs.step("read", inputs.today("partitions")))
        return JobOutput(findings=findings_frame(engine, []), tables={"kept": kept})

    store.add("partitions", ROWS)
    store.finish()
    monkeypatch.setattr(runner, "job_named", lambda name: job)
    folder = store.folder.rename(store.folder.parent / "50%20off?[{* #1")
    spec = replace(spec_for(str(folder), "one"), output=str(folder.parent / "a%20b?[{* #2"))
    (result,) = runner.run_spec(engine, spec, lambda fields: None, is_here=True)
    assert (result.error, result.tables) == ("", {"kept": 1})
    place = Path(spec.output, spec.run_id)
    assert {path.name for path in place.iterdir()} == {"one", "summary.json"}
    assert {path.name for path in (place / "one").iterdir()} == {"findings.parquet", "kept.parquet"}


def test_a_store_and_results_may_have_any_name(
    spark: Any, store: StoreBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    into_an_odd_folder(spark, store, monkeypatch)


def test_only_uris_of_places_on_this_host_are_decoded() -> None:
    from kafkakit_spark.job import local_path

    assert local_path("/a%20b?c#d") == Path("/a%20b?c#d")
    assert local_path("file:///a%20b?c#d") == local_path("file:/a%20b?c#d") == Path("/a b?c#d")
    assert local_path("here") == Path("here").absolute()
    assert local_path("s3a://bucket/a") is None
