"""Plans, snapshots and maps of the version before mean what they meant."""

import json
from pathlib import Path

import pytest

from kafkakit.core.documents import decode_partition_map, decode_plan, decode_snapshot
from kafkakit.core.model import BrokerState, TopicPartition
from kafkakit.core.plan import Plan, fingerprint_of, identity_of
from kafkakit.core.plan_rules import check_partition_map, check_plan, check_snapshot
from tests.compat.recorded import FOLDER, name_of, recorded
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home

# name: moves between brokers, moves between log dirs, the command, the goal's unit
PLANS = {
    "add-brokers": (5, 0, "topicmappr add-brokers", "bytes"),
    "drain": (7, 0, "topicmappr drain", "replicas"),
    "drain-storage": (4, 0, "topicmappr drain", "replicas"),
    "fix-racks": (4, 0, "topicmappr fix-racks", "replicas"),
    "leaders": (3, 0, "topicmappr leaders", "leaders"),
    "rebalance": (5, 0, "topicmappr rebalance", "bytes"),
    "rebalance-balance-dirs": (5, 4, "topicmappr rebalance", "bytes"),
    "rebalance-dirs": (0, 6, "topicmappr rebalance-dirs", "bytes"),
    "rebuild": (7, 0, "topicmappr rebuild", "replicas"),
    "rebuild-force": (6, 0, "topicmappr rebuild", "replicas"),
    "rebuild-storage": (7, 0, "topicmappr rebuild", "bytes"),
    "replan": (5, 0, "topicmappr rebalance", "bytes"),
    "scale": (4, 0, "topicmappr scale", "bytes"),
    "set-replication": (6, 0, "topicmappr set-replication", "replicas"),
}
SNAPSHOT_OF = {"fix-racks": "shared-racks", "replan": "grown-sizes"}


def plan_of(path: Path) -> Plan:
    return decode_plan(path.read_bytes(), path.name)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_holds_what_it_held(name: str) -> None:
    plan = plan_of(FOLDER / "plan" / f"{name}.json")
    check_plan(plan, name)
    found = (len(plan.moves), len(plan.dir_moves), plan.request["command"], plan.certificate.unit)
    assert found == PLANS[name]
    assert plan.fingerprint == fingerprint_of(plan.cluster_id, plan.brokers, plan.scope)
    snapshot = FOLDER / "cluster-snapshot" / f"{SNAPSHOT_OF.get(name, 'six-brokers')}.json"
    if name != "replan":  # its invariants need the plan before, too: below
        verify_plan(json.loads((FOLDER / "plan" / f"{name}.json").read_bytes()), json.loads(snapshot.read_bytes()))


def test_every_plan_is_expected() -> None:
    assert {path.stem for path in recorded("plan/*.json")} == set(PLANS)


def test_the_plans_of_an_operation_have_the_identity_that_its_record_names() -> None:
    for path in recorded("broker-operation/*/*[0-9].json"):
        for leg in json.loads(path.read_bytes())["legs"]:
            assert identity_of(plan_of(path.parent / leg["plan"])) == leg["identity"]


def test_a_log_dir_of_a_new_copy_and_a_move_inside_a_broker_are_kept() -> None:
    plan = plan_of(FOLDER / "plan" / "rebalance-balance-dirs.json")
    dirs = {(move.topic, move.partition): dict(move.dirs) for move in plan.moves if move.dirs}
    assert dirs
    assert all(path.startswith(f"/data/{broker}/") for chosen in dirs.values() for broker, path in chosen.items())
    assert {(m.source_dir.rsplit("/", 1)[0], m.target_dir.rsplit("/", 1)[0]) for m in plan.dir_moves} == {
        (f"/data/{m.broker}", f"/data/{m.broker}") for m in plan.dir_moves
    }


def test_snapshots_are_sound_and_whole() -> None:
    for path in recorded("cluster-snapshot/*.json"):
        snapshot = decode_snapshot(path.read_bytes(), path.name)
        check_snapshot(snapshot, path.name)
        assert [broker.id for broker in snapshot.brokers] == [1, 2, 3, 4, 5, 6]
        assert snapshot.sizes_taken
    moving = decode_snapshot((FOLDER / "cluster-snapshot" / "moving-with-a-dead-broker.json").read_bytes(), "s")
    assert [broker.id for broker in moving.brokers if broker.state is not BrokerState.ALIVE] == [6]
    (move,) = moving.reassignments
    assert (move.topic, move.partition, move.adding) == ("odd", 0, (3,))


def test_maps_are_sound() -> None:
    sizes = {}
    for path in recorded("partition-map/*.json"):
        found = decode_partition_map(path.read_bytes(), path.name)
        check_partition_map(found, path.name)
        sizes[path.stem] = {TopicPartition(entry.topic, entry.partition) for entry in found.partitions}
    assert sizes["rebuild-all"] == sizes["rebuild-orders"] | sizes["rebuild-pay.ments_v-2"]
    assert len(sizes["place-new-topic"]) == 4


@pytest.mark.parametrize("path", recorded("plan/*.json"), ids=name_of)
def test_a_plan_is_simulated_and_replanned(path: Path, tmp_path: Path) -> None:
    home, snapshot = Home(tmp_path), FOLDER / "cluster-snapshot" / f"{SNAPSHOT_OF.get(path.stem, 'six-brokers')}.json"
    ran = home.run("reassign", "simulate", str(path), "--snapshot", str(snapshot), "--throttle", "10MB", "-o", "json")
    assert ran.code == 0, ran.stderr
    ran = home.run("topicmappr", "replan", str(path), "--snapshot", str(snapshot), "-o", "json", "--ignore-warns")
    assert ran.code == (2 if path.stem in ("leaders", "rebalance-dirs") else 0), ran.stderr
    assert ran.code == 0 or "is not replanned: making it again costs as little" in ran.stderr
