"""Made fleets: the same seed makes the same bytes, tables fit together, defects have places of their own."""

import json
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkakit.core.fleet_tables import TABLES
from tests.made_fleet.__main__ import main
from tests.made_fleet.cluster import LOG_DIRS, SIZES, FleetSize, Tier, cluster_shapes
from tests.made_fleet.defects import DEFECTS
from tests.made_fleet.fleet import (
    FleetRequest,
    Scope,
    model_of,
    more_segments,
    one_of_each,
    placed,
    tables_of,
)
from tests.made_fleet.write import write_fleet

DAY = date(2026, 11, 20)
SMALL = replace(SIZES[Tier.XS], partitions=180, topics=36, segment_rows=3_000, hours=2)


def request_of(size: FleetSize = SMALL, **more: Any) -> FleetRequest:
    return FleetRequest(**{"size": size, "seed": 5, "last_day": DAY, **more})


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def written(folder: Path, request: FleetRequest) -> dict[str, bytes]:
    write_fleet(folder, request)
    return files_of(folder)


def test_the_same_seed_makes_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    request = request_of(size=SIZES[Tier.XS])
    request = replace(request, defects=one_of_each(DEFECTS, request))
    first = written(tmp_path / "a", request)
    assert first == written(tmp_path / "b", request)
    assert first != written(tmp_path / "c", replace(request, seed=6))


def test_the_command_writes_one_of_each_defect_and_names_them(tmp_path: Path) -> None:
    main([str(tmp_path), "--seed", "5", "--date", str(DAY)])
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert truth["kafkakit"] == {"kind": "fleet-truth", "schema": 1}
    assert len(truth["dates"]) == 10
    assert truth["dates"][-1] == str(DAY)
    assert {d["defect"] for d in truth["defects"]} == set(one_of_each(DEFECTS, request_of(size=SIZES[Tier.XS])))
    assert len(list(tmp_path.glob(f"manifests/snapshot_date={DAY}/*.json"))) == 3


def test_every_kind_is_written_with_known_columns_of_one_length() -> None:
    request = request_of()
    kinds = set()
    for shape in request.shapes():
        model = model_of(request, shape)
        for kind, columns in tables_of(request, model, 0).items():
            kinds.add(kind)
            assert set(columns) <= set(TABLES[kind].names), kind
            assert len({len(column) for column in columns.values()}) == 1, kind
    assert kinds == set(TABLES)


def test_the_tables_of_a_cluster_fit_together() -> None:
    request = request_of()
    model = model_of(request, request.shapes()[0])
    tables = tables_of(request, model, 0)
    partitions, replicas, dirs = tables["partitions"], tables["replicas"], tables["log_dirs"]
    assert int(tables["topics"]["partitions"].sum()) == len(partitions["partition"])
    racks = {int(b): r for b, r in zip(tables["brokers"]["broker"], tables["brokers"]["rack"], strict=True)}
    for leader, copies in zip(partitions["leader"], partitions["replicas"], strict=True):
        assert leader == copies[0]
        assert len({racks[b] for b in copies}) == 3
    used: Counter[tuple[int, str]] = Counter()
    for broker, path, size in zip(replicas["broker"], replicas["log_dir"], replicas["size_bytes"], strict=True):
        used[int(broker), path] += int(size)
    total = dirs["total_bytes"] - dirs["usable_bytes"]
    assert used == dict(zip(zip(dirs["broker"].tolist(), dirs["path"], strict=True), total.tolist(), strict=True))
    assert set(dirs["path"]) == set(LOG_DIRS)


def test_segments_of_a_replica_follow_each_other_and_add_up_to_its_size() -> None:
    request = request_of()
    model = model_of(request, request.shapes()[0])
    rows = tables_of(request, model, 0)["segments"]
    is_first = (rows["broker"] == model.replicas[0, 0]) & (np.array(rows["topic"]) == model.names[0])
    is_first &= rows["partition"] == 0
    assert int(rows["size_bytes"][is_first].sum()) == int(model.size[0])
    base, last = rows["base_offset"][is_first], rows["last_offset"][is_first]
    assert (base[1:] == last[:-1] + 1).all()
    assert last[-1] + 1 == model.end[0]
    assert (rows["min_ms"][is_first][1:] >= rows["max_ms"][is_first][:-1]).all()


def test_a_large_fleet_writes_its_segments_in_parts() -> None:
    request = request_of(replace(SMALL, partitions=90_000, segment_rows=90_000 * 24, clusters=1, hours=1))
    model = model_of(request, request.shapes()[0])
    first = len(tables_of(request, model, 0)["segments"]["broker"])
    assert first + sum(len(part["broker"]) for part in more_segments(request, model)) == 90_000 * 24


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("skew", [False, True])
def test_the_tiers_have_their_totals(tier: Tier, skew: bool) -> None:
    size, shapes = SIZES[tier], cluster_shapes(SIZES[tier], 1, skew=skew)
    assert len(shapes) == size.clusters
    for total, wanted in (
        (sum(s.brokers for s in shapes), size.brokers),
        (sum(s.topics for s in shapes), size.topics),
        (sum(s.partitions for s in shapes), size.partitions),
    ):
        assert 0.9 * wanted <= total <= 1.1 * wanted
    largest = max(s.partitions for s in shapes) / size.partitions
    assert (largest >= 0.45) == skew
    assert all(s.brokers % 3 == 0 and s.partitions >= s.topics for s in shapes)


def test_too_many_defects_are_refused() -> None:
    shapes = cluster_shapes(SIZES[Tier.XS], 1)
    name = next(iter(DEFECTS))
    with pytest.raises(ValueError, match="has no place"):
        placed(DEFECTS, {name: 1_000}, shapes)


def test_every_defect_has_a_subject_of_its_own() -> None:
    shapes = cluster_shapes(SIZES[Tier.S], 1)
    found = placed(DEFECTS, dict.fromkeys(DEFECTS, 2), shapes)
    assert Counter(one.defect.name for one in found) == dict.fromkeys(DEFECTS, 2)
    topics = [(one.cluster, one.subject) for one in found if one.defect.scope not in (Scope.CLUSTER, Scope.BROKER)]
    brokers = [(one.cluster, one.subject) for one in found if one.defect.scope is Scope.BROKER]
    clusters = [(one.cluster, one.defect.name) for one in found if one.defect.scope is Scope.CLUSTER]
    for subjects in (topics, brokers, clusters):
        assert len(set(subjects)) == len(subjects)
