"""A store of snapshots of the version without tags, and a spec of one without scopes."""

import json
from pathlib import Path

import pytest

from kafkakit.adapters.arrow import ParquetStore, RunFolder
from kafkakit.audit.act import read_scope
from kafkakit.audit.decide.request import ScopeRequest
from kafkakit.core.errors import UsageError
from kafkakit.core.fleet_tables import spec_of
from tests.compat.recorded import FOLDER, name_of, recorded

DAY = "2026-11-20"


def test_a_store_without_tags_is_read_by_names_and_attributes() -> None:
    store = RunFolder(str(FOLDER / "fleet-store"))
    assert ParquetStore(str(FOLDER / "fleet-store")).dates() == (DAY,)
    wanted = ScopeRequest(
        clusters="where cluster_id = id-a",
        topics="where bytes = 4000 and config.retention.ms = 1000 and name != t0",
        brokers="where rack in (a, b) and leaders = 2",
    )
    scope = read_scope(wanted, store, DAY, ("a",))
    assert (scope.clusters, scope.topics, scope.brokers) == (("a",), {"a": ("t1",)}, {"a": ("1", "2")})


def test_tags_are_not_known_there() -> None:
    store = RunFolder(str(FOLDER / "fleet-store"))
    for wanted in (ScopeRequest(topics="where tier = hot"), ScopeRequest(brokers="where not exists(power)")):
        with pytest.raises(UsageError, match="the snapshots of a have none on record"):
            read_scope(wanted, store, DAY, ("a",))


@pytest.mark.parametrize("path", recorded("job-spec/*.json"), ids=name_of)
def test_a_run_keeps_its_name(path: Path) -> None:
    assert spec_of(json.loads(path.read_bytes())).run_id == path.stem
