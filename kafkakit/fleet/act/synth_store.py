"""Writes the tables of a made fleet, cluster by cluster."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from kafkakit.core.fleet_tables import Manifest
from kafkakit.fleet.decide.synth_cluster import DAY_MS, ClusterModel
from kafkakit.fleet.decide.synth_defect import PlacedDefect, cluster_truth, placed, truth_document
from kafkakit.fleet.decide.synth_defects import DEFECTS
from kafkakit.fleet.decide.synth_edit import TableEdit
from kafkakit.fleet.decide.synth_fleet import SynthRequest, model_of, more_segments, tables_of
from kafkakit.ports.table_store import TableStore


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
    edit = TableEdit(model=model, tables=tables, days_ago=days_ago)
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
