"""What is read of a run's folder, and what is refused."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkakit.adapters.arrow import RunFolder
from kafkakit.audit.act import finished_run, read_findings, read_run, read_table
from kafkakit.core.errors import InputError, OperationFailedError
from kafkakit.core.findings import AuditFinding, finding_row
from kafkakit.core.fleet_tables import JobResult, JobSpec, spec_data, summary_data

SPEC = JobSpec(
    jobs=("drift", "lag"), input="/in", output="/out", snapshot_date="2026-11-20", dates=("2026-11-20",), now_ms=1
)
FINDING = AuditFinding(
    job="drift", cluster="c1", rule="KKX001", severity="error", where="topic a of c1", message="m", fingerprint="f",
    score=9.0,
)  # fmt: skip


def folder_of(folder: Path, *, done: bool = True) -> RunFolder:
    store = RunFolder(str(folder / "run"))
    store.write("spec.json", json.dumps(spec_data(SPEC)).encode())
    if done:
        results = (JobResult(job="drift", findings={"error": 2}), JobResult(job="lag", error="no memory"))
        store.write("summary.json", json.dumps(summary_data(SPEC, results)).encode())
    for number, job in enumerate(("drift", "drift", "lag")):
        part = folder / "run" / job / "findings.parquet" / f"part-{number}.snappy.parquet"
        part.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([finding_row(FINDING)]), part)
    return store


def test_a_run_with_its_findings_is_read(tmp_path: Path) -> None:
    store = folder_of(tmp_path)
    run = finished_run(store)
    assert run.spec == SPEC
    assert run.results is not None
    assert [(r.job, r.error) for r in run.results] == [("drift", ""), ("lag", "no memory")]
    assert read_findings(store, run) == (FINDING, FINDING)  # what a failed job left is not read
    assert read_findings(store, run, limit=1) == (FINDING,)
    assert read_table(store, "drift", "none") == {}


def test_a_run_without_a_summary_is_not_whole(tmp_path: Path) -> None:
    store = folder_of(tmp_path, done=False)
    assert read_run(store).results is None
    assert read_findings(store, read_run(store)) == ()
    with pytest.raises(InputError, match="has no result yet"):
        finished_run(store)


def test_a_summary_that_spark_wrote_as_a_folder_is_read(tmp_path: Path) -> None:
    store = folder_of(tmp_path, done=False)
    store.write("summary.json/part-00000", json.dumps(summary_data(SPEC, ())).encode())
    store.write("summary.json/_SUCCESS", b"")
    assert finished_run(store).results == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kafkakit": {"kind": "job-spec", "schema": 2}}'])
def test_a_damaged_spec_is_named(tmp_path: Path, text: str) -> None:
    store = RunFolder(str(tmp_path))
    store.write("spec.json", text.encode())
    with pytest.raises(InputError, match=r"spec\.json: "):
        read_run(store)
    with pytest.raises(InputError, match="is not an audit run"):
        read_run(RunFolder(str(tmp_path / "none")))


def test_a_folder_is_listed_copied_and_emptied(tmp_path: Path) -> None:
    store = folder_of(tmp_path)
    store.write("drift/.hidden", b"")
    assert store.names() == ("drift", "lag", "spec.json", "summary.json")
    assert store.names("nothing") == ()
    copied = RunFolder(f"file://{tmp_path}/run").copy_to(str(tmp_path / "copy"))
    assert copied[-2:] == ("spec.json", "summary.json")
    assert ".hidden" not in str(copied)
    assert (tmp_path / "copy" / "summary.json").read_bytes() == store.read("summary.json")
    store.delete("drift")
    store.delete("spec.json")
    store.delete("nothing")
    assert store.names() == ("lag", "summary.json")
    (tmp_path / "run" / "lag" / "findings.parquet" / "part-2.snappy.parquet").write_bytes(b"PAR1")
    with pytest.raises(OperationFailedError, match=r"lag/findings\.parquet: "):
        store.columns("lag/findings.parquet")
