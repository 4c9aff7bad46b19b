"""Made stores that every audit runs over in both engines, and what differs between their results.

`python -m tests.rigs.audit_engines ENGINE FOLDER...` runs all audits over the store `FOLDER/store` of each folder in
one process of one engine, `sail` or `spark`, with results in `FOLDER/ENGINE`.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkakit.audit.decide.launch import SHORT_RUN_JAVA
from tests.places import ROOT

ENGINES = ("sail", "spark")
LAST_DAY = date(2026, 11, 20)


def make_store(folder: Path, seed: int) -> None:
    """A small fleet of this seed: sizes, days, skew and defects are drawn.

    Half of the stores lack kinds, as those of plain clusters do; one file in some stores is damaged.
    """
    from tests.made_fleet.cluster import FleetSize
    from tests.made_fleet.defects import DEFECTS
    from tests.made_fleet.fleet import FleetRequest, one_of_each
    from tests.made_fleet.write import write_fleet

    draw = random.Random(seed)
    clusters = draw.randint(1, 4)
    brokers, topics = 3 * clusters * draw.randint(1, 3), clusters * draw.randint(3, 20)
    size = FleetSize(
        clusters=clusters, brokers=brokers, topics=topics, partitions=topics * draw.randint(1, 6),
        segment_rows=topics * draw.randint(6, 60), hours=draw.randint(1, 30),
    )  # fmt: skip
    request = FleetRequest(
        size=size, seed=seed, last_day=LAST_DAY, days=draw.randint(1, 9), is_skewed=draw.random() < 0.3
    )
    fitting = one_of_each(DEFECTS, request)
    defects = {name: 1 for name in sorted(fitting) if draw.random() < 0.6}
    write_fleet(folder / "store", replace(request, defects=defects))
    if draw.random() < 0.5:
        _leave_out(folder / "store", [kind for kind in OPTIONAL if draw.random() < 0.4])
    files = sorted((folder / "store").glob("[a-l]*/*/*/*.parquet"))
    if draw.random() < 0.3:
        draw.choice(files).write_bytes(b"PAR1" + bytes(99))
    if seed % 4 == 1:
        _as_collected(folder / "store")


def _as_collected(store: Path) -> None:
    """Take what `fleet collect` does not know: rates of partitions, hours of traffic. Cleaners came to offset 1,000."""
    changes: dict[str, dict[str, int | None]] = {
        "partitions": {"bytes_in_s": None, "messages_in_s": None},
        "directories": {"cleaned_to": 1_000},
    }
    for kind, values in changes.items():
        for path in store.glob(f"{kind}/*/*/*.parquet"):
            try:
                table = pq.ParquetFile(path).read()
            except pa.ArrowInvalid:
                continue
            for name, value in values.items():
                at = table.schema.get_field_index(name)
                column = pa.array([value] * table.num_rows, table.schema.field(at).type)
                table = table.set_column(at, name, column)
            pq.write_table(table, path)
    for path in store.glob("manifests/*/*.json"):
        manifest = json.loads(path.read_text())
        manifest["rows"].pop("traffic_hourly", None)
        path.write_text(json.dumps(manifest))


OPTIONAL = (
    "batches", "broker_configs", "commits", "declared", "disk_daily", "group_offsets", "groups", "log_dirs",
    "partitions", "produced", "records", "replicas", "segments", "topic_configs", "traffic_hourly",
)  # fmt: skip


def _leave_out(store: Path, kinds: Sequence[str]) -> None:
    """Remove these kinds from a store, as if nothing of them had been collected."""
    for kind in kinds:
        shutil.rmtree(store / kind, ignore_errors=True)
    for manifest in sorted((store / "manifests").rglob("*.json")):
        data = json.loads(manifest.read_text())
        data["rows"] = {kind: count for kind, count in data["rows"].items() if kind not in kinds}
        manifest.write_text(json.dumps(data))


def run_engine(engine: str, folders: Sequence[Path], timeout_s: float) -> None:
    """Run all audits over the stores of these folders in a process of its own; raises where it fails."""
    words = [sys.executable, "-m", "tests.rigs.audit_engines", engine, *map(str, folders)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "spark"), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "RUST_LOG": "error"}
    env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = sys.executable
    env["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory 3g --driver-java-options '{SHORT_RUN_JAVA}' pyspark-shell"
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def differences(folder: Path) -> Iterator[str]:
    """Where the results of the two engines differ, a line each: rows as sorted JSON, and the numbers of summaries."""
    one, other = (next((folder / engine).iterdir()) for engine in ENGINES)
    names = {str(path.relative_to(base)) for base in (one, other) for path in base.glob("*/*.parquet")}
    for name in sorted(names):
        ours, theirs = rows_of(one / name), rows_of(other / name)
        if ours != theirs:
            lost, more = sorted(set(theirs) - set(ours)), sorted(set(ours) - set(theirs))
            yield f"{name}: {len(ours)} and {len(theirs)} rows; {lost[:1]} became {more[:1]}"
    summaries = [json.loads((base / "summary.json").read_text())["jobs"] for base in (one, other)]
    for ours, theirs in zip(*summaries, strict=True):
        differ = {key for key in {*ours, *theirs} - {"seconds"} if ours.get(key) != theirs.get(key)}
        if differ:
            yield f"{ours['job']}: " + "; ".join(f"{k} {theirs.get(k)} became {ours.get(k)}" for k in sorted(differ))


def rows_of(folder: Path) -> list[str]:
    """The rows of a written frame, sorted; none where it is not there."""
    files = [path for path in folder.glob("*.parquet") if not path.name.startswith(("_", "."))]
    rows = (row for path in files for row in pq.ParquetFile(path).read().to_pylist())
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


def _session(engine: str) -> AbstractContextManager[Any]:
    from kafkakit_spark.runner import spark_session
    from main import sail_session

    if engine == "sail":
        return sail_session("engines")
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false", "spark.log.level": "ERROR"}
    return spark_session("engines", master="local[2]", conf=conf)


def main(engine: str, folders: Sequence[Path]) -> None:
    """Run the audits of every folder."""
    from kafkakit_spark.runner import NAMES, run_spec

    from kafkakit.core.fleet_tables import JobSpec

    with _session(engine) as session:
        for folder in folders:
            days = sorted(path.name.partition("=")[2] for path in (folder / "store" / "manifests").iterdir())
            spec = JobSpec(
                jobs=NAMES, input=str(folder / "store"), output=str(folder / engine), snapshot_date=days[-1],
                dates=tuple(days), now_ms=1_795_219_200_000,
            )  # fmt: skip
            results = run_spec(session, spec, lambda fields: None, is_here=True)
            errors = [f"{folder}: {result.job}: {result.error}" for result in results if result.error]
            assert not errors, errors


if __name__ == "__main__":
    main(sys.argv[1], [Path(name) for name in sys.argv[2:]])
