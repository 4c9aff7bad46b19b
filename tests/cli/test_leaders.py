"""`kafkakit topicmappr leaders` from a snapshot file: what it prints, writes and refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.documents import encode_snapshot
from tests.cli.test_rebuild import snapshot_of
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home

WORLD: dict[str, Any] = {
    "brokers": [{"id": 1, "rack": "a"}, {"id": 2, "rack": "b"}, {"id": 3, "rack": "c"}],
    "topics": {"t": [[1, 2], [1, 2, 3], [1, 3], [1, 2]], "u": [[2, 3]]},
}
LEADERS = ["topicmappr", "leaders", "--snapshot", "snapshot.json"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.work.mkdir(parents=True)
    write_world(made, WORLD)
    return made


def write_world(home: Home, world: dict[str, Any]) -> None:
    (home.work / "snapshot.json").write_bytes(encode_snapshot(snapshot_of(world)))


def read_plan(home: Home) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((home.work / "p.json").read_bytes())
    verify_plan(plan, json.loads((home.work / "snapshot.json").read_bytes()))
    return plan


def test_leaders_come_out_even_with_the_fewest_changes(home: Home) -> None:
    ran = home.run(*LEADERS, "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    plan = read_plan(home)
    counts = [(b["broker"], b["leaders"]) for b in plan["after"]["brokers"]]
    assert sorted(n for _, n in counts) == [1, 2, 2]
    assert plan["certificate"]["unit"] == "leaders"
    assert (plan["certificate"]["objective"], plan["certificate"]["lower_bound"]) == (2, 2)
    assert plan["certificate"]["proof"]["kind"] == "prices"
    assert "Spread preferred leaders over 3 brokers" in ran.stdout
    assert "2 partitions to change, 0 replicas to copy; lower bound 2 leader changes, gap 0 (optimal)" in ran.stdout
    assert "broker 1 leads 2 more than its even share; any plan has to change 2 leaders" in ran.stdout
    assert "kafkakit reassign apply p.json" in ran.stdout.splitlines()


def test_an_even_cluster_is_left_alone(home: Home) -> None:
    write_world(home, {**WORLD, "topics": {"t": [[1, 2], [2, 3], [3, 1]]}})
    ran = home.run(*LEADERS, "--plan", "p.json", "--exit-code")
    assert ran.code == 0
    assert read_plan(home)["moves"] == []
    assert "leaders are as even as they can be: nothing has to change" in ran.stdout


def test_evacuated_brokers_lead_nothing(home: Home) -> None:
    ran = home.run(*LEADERS, "--plan", "p.json", "--leader-evac-brokers", "1", "--exit-code")
    assert ran.code == 3, ran.stderr
    counts = {b["broker"]: b["leaders"] for b in read_plan(home)["after"]["brokers"]}
    assert counts == {1: 0, 2: 3, 3: 2}
    assert "4 leaderships are on brokers that may not lead" in ran.stdout


def test_partitions_that_nobody_may_lead_are_refused_or_left_out(home: Home) -> None:
    ran = home.run(*LEADERS, "--plan", "p.json", "--brokers", "3", "-o", "json")
    assert ran.code == 4
    assert ran.json["error"]["exit_code"] == 4
    assert "t-0, t-3: none of the brokers that may lead holds a replica (t p0 is on 1, 2; 3 may lead)" in ran.stderr
    assert not (home.work / "p.json").exists()
    assert home.run(*LEADERS, "--plan", "p.json", "--brokers", "3", "--ignore-warns").code == 0
    assert [(m["topic"], m["partition"]) for m in read_plan(home)["moves"]] == [("t", 1), ("t", 2), ("u", 0)]


def test_a_dead_broker_does_not_lead_and_a_stranded_partition_stays(home: Home) -> None:
    dead = {"id": 1, "rack": "a", "state": "fenced"}
    topics = {"t": [[1, 2], [1, 3]], "u": [[1]]}
    write_world(home, {**WORLD, "brokers": [dead, *WORLD["brokers"][1:]], "topics": topics})
    ran = home.run(*LEADERS, "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    plan = read_plan(home)
    assert [m["after"] for m in plan["moves"]] == [[2, 1], [3, 1]]
    assert "note: u-0: no live copy in sync, left as it is" in ran.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--brokers", "x"], "'x' is not a broker id"),
        (["--brokers", "9"], "broker 9 is not in this cluster"),
        (["--leader-evac-brokers", "9"], "broker 9 is not in this cluster"),
        (["--leader-evac-brokers", "-1"], "name the brokers"),
        (["--leader-evac-brokers", "1,2,3"], "no live broker is left that may lead"),
        (["--brokers", "1", "--leader-evac-brokers", "1"], "named by both"),
        (["--topics", "nope"], "no topic matches"),
        (["--topics", "("], "invalid regex pattern"),
        (["--plan", f"{__file__}/p.json"], "is not a folder"),
    ],
)
def test_bad_requests_are_one_line_and_exit_2(home: Home, flags: list[str], words: str) -> None:
    ran = home.run(*LEADERS, *flags)
    assert ran.code == 2, ran.stderr
    assert ran.stdout == ""
    assert words in ran.stderr
    assert len([line for line in ran.stderr.splitlines() if line.startswith("error:")]) == 1


def test_same_input_same_bytes_across_hash_seeds(home: Home) -> None:
    seen = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-m", "kafkakit", *LEADERS, "--plan", "p.json"]
        subprocess.run(command, capture_output=True, check=True, env=environment, cwd=home.work)
        seen.add((home.work / "p.json").read_bytes())
    assert len(seen) == 1
