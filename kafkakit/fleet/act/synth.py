"""Writes a made fleet into a store of snapshots, and made log dirs into a folder."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kafkakit.core.errors import UsageError
from kafkakit.core.fleet_tables import Manifest
from kafkakit.core.text import text_table
from kafkakit.fleet.decide.synth_cluster import DAY_MS, ClusterModel
from kafkakit.fleet.decide.synth_defects import DEFECTS
from kafkakit.fleet.decide.synth_fleet import (
    PlacedDefect,
    SynthRequest,
    TableEdit,
    cluster_truth,
    model_of,
    more_segments,
    placed,
    tables_of,
    truth_document,
)
from kafkakit.fleet.decide.synth_logs import FILE_DEFECTS, Batch, file_truth, log_dir, repeated
from kafkakit.ports.stores import TableStore
from kafkakit.report import Report


def write_fleet(
    store: TableStore, request: SynthRequest, say: Callable[[str], None]
) -> tuple[Mapping[str, int], dict[str, object]]:
    """Write every cluster on every date; returns the rows of each kind, and the document of what is wrong where.

    Memory: the tables of the largest cluster, of segments 480,000 rows.
    """
    shapes, dates = request.shapes(), request.dates()
    found = placed(DEFECTS, request.defects, shapes, request.segment_share)
    of_cluster: dict[int, list[PlacedDefect]] = defaultdict(list)
    for one in found:
        of_cluster[one.cluster].append(one)
    rows: Counter[str] = Counter()
    truth: list[dict[str, object]] = []
    for shape in shapes:
        model = model_of(request, shape)
        truth += cluster_truth(model, of_cluster[shape.index])
        for days_ago, day in zip(range(len(dates) - 1, -1, -1), dates, strict=True):
            rows.update(_write_cluster(store, request, model, day, days_ago, of_cluster[shape.index]))
        say(f"{shape.name}: {shape.brokers} brokers, {shape.partitions} partitions")
    return rows, truth_document(truth, dates, request.seed)


def _write_cluster(
    store: TableStore, request: SynthRequest, model: ClusterModel, day: str, days_ago: int, defects: list[PlacedDefect]
) -> Mapping[str, int]:
    name = model.shape.name
    store.begin(day, name)
    tables = tables_of(request, model, days_ago)
    edit = TableEdit(model=model, tables=tables)
    for one in defects:
        if days_ago and not one.defect.is_lasting:
            continue
        one.defect.edit(edit, one.subject)
    counts: Counter[str] = Counter()
    for kind, columns in tables.items():
        counts[kind] += store.write(kind, day, name, columns)
    if not days_ago:
        for part, columns in enumerate(more_segments(request, model), 1):
            counts["segments"] += store.write("segments", day, name, columns, part=part)
    at = request.end_ms - days_ago * DAY_MS
    store.finish(Manifest(cluster=name, snapshot_date=day, started_ms=at - 60_000, ended_ms=at, rows=dict(counts)))
    return counts


SEGMENT_BYTES = 1 << 30
SPARSE_BATCH_BYTES = 1 << 20
_VALUES = 10
_VALUE_BYTES = 590
MIB = 1 << 20


def write_log_dir(
    folder: Path, defects: Mapping[str, int], seed: int, end_ms: int, write_file: Callable[[Path, bytes], None]
) -> int:
    """Write the files with the times that a broker's would have; returns how many."""
    files = log_dir(defects, seed, end_ms)
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, file.data)
        os.utime(path, ns=(file.mtime_ms * 1_000_000, file.mtime_ms * 1_000_000))
    return len(files)


def write_large(folder: Path, mib: int, end_ms: int, *, is_sparse: bool) -> int:
    """Write partitions of one segment of up to 1 GiB each, `mib` in all; returns how many batches.

    Batches have 6 kB, or 1 MiB of which all but the header is a hole.
    """
    batches = 0
    for number, begin in enumerate(range(0, mib * MIB, SEGMENT_BYTES)):
        path = folder / f"large-{number}" / f"{0:020d}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        batch = Batch(base_offset=0, first_ms=end_ms - 60_000, values=[bytes(_VALUE_BYTES)] * _VALUES)
        length = SPARSE_BATCH_BYTES if is_sparse else len(next(repeated(batch, 1))[1])
        count = min(SEGMENT_BYTES, mib * MIB - begin) // length
        with path.open("wb") as stream:
            for at, block in repeated(batch, count, SPARSE_BATCH_BYTES if is_sparse else 0):
                stream.seek(at)
                stream.write(block)
            stream.truncate(count * length)
        batches += count
    return batches


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthOutput:
    """What making a fleet needs of the outside."""

    open_store: Callable[[str], TableStore]
    write_file: Callable[[Path, bytes], None]
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthPlaces:
    """Where a fleet is written to: snapshots, log segments. `large_mib` of further segments are written, with holes or
    without."""

    to: Path | None = None
    segments: Path | None = None
    large_mib: int = 0
    is_sparse: bool = False


def make_fleet(request: SynthRequest, output: SynthOutput, places: SynthPlaces) -> Report:
    """Write what is asked for, and what is wrong where to `truth.json` in each folder."""
    if places.to is None and places.segments is None:
        raise UsageError("no destination is given", hint="give --to DIR, --segments DIR, or both")
    found: dict[str, int] = {}
    if places.to is not None:
        of_tables = {n: c for n, c in request.defects.items() if n not in FILE_DEFECTS}
        rows, truth = write_fleet(output.open_store(str(places.to)), replace(request, defects=of_tables), output.say)
        _write_truth(output, places.to, truth)
        found.update(rows)
    if places.segments is not None:
        of_files = {n: c for n, c in request.defects.items() if n in FILE_DEFECTS}
        found["files"] = write_log_dir(places.segments, of_files, request.seed, request.end_ms, output.write_file)
        if places.large_mib:
            found["large batches"] = write_large(
                places.segments, places.large_mib, request.end_ms, is_sparse=places.is_sparse
            )
        _write_truth(
            output,
            places.segments,
            truth_document(file_truth(of_files, str(places.segments.absolute())), request.dates(), request.seed),
        )
    columns, table = ("written", "number"), tuple(sorted(found.items()))
    return Report(
        command="fleet synth",
        data={"written": dict(table), "defects": dict(request.defects)},
        text=text_table(columns, table),
        columns=columns,
        rows=table,
    )


def _write_truth(output: SynthOutput, folder: Path, truth: dict[str, object]) -> None:
    output.write_file(folder / "truth.json", json.dumps(truth, indent=1).encode() + b"\n")
