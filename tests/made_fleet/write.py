"""Writes a made fleet into a store of snapshots."""

import json
from collections import Counter, defaultdict
from pathlib import Path

from kafkakit.adapters.arrow import ParquetStore
from kafkakit.core.fleet_tables import Manifest
from tests.made_fleet.cluster import DAY_MS, ClusterModel
from tests.made_fleet.defects import DEFECTS
from tests.made_fleet.fleet import (
    FleetRequest,
    PlacedDefect,
    TableEdit,
    Truth,
    cluster_truth,
    model_of,
    more_segments,
    placed,
    tables_of,
)

TRUTH_KIND = {"kind": "fleet-truth", "schema": 1}


def write_fleet(folder: Path, request: FleetRequest) -> Truth:
    """Write every cluster on every date, and what audits are expected to find, which is returned, to `truth.json`.

    Memory: the tables of the largest cluster, of segments 480,000 rows.
    """
    store = ParquetStore(str(folder))
    shapes, dates = request.shapes(), request.dates()
    found = placed(DEFECTS, request.defects, shapes, request.segment_share)
    of_cluster: dict[int, list[PlacedDefect]] = defaultdict(list)
    for one in found:
        of_cluster[one.cluster].append(one)
    truth: Truth = []
    for shape in shapes:
        model = model_of(request, shape)
        truth += cluster_truth(model, of_cluster[shape.index])
        for days_ago, day in zip(range(len(dates) - 1, -1, -1), dates, strict=True):
            _write_cluster(store, request, model, day, days_ago, of_cluster[shape.index])
    document = {"kafkakit": TRUTH_KIND, "seed": request.seed, "dates": list(dates), "defects": truth}
    (folder / "truth.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return truth


def _write_cluster(
    store: ParquetStore,
    request: FleetRequest,
    model: ClusterModel,
    day: str,
    days_ago: int,
    defects: list[PlacedDefect],
) -> None:
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
