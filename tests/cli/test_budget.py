"""Pins and budgets of the plain requests at the command line: texts, JSON, exit codes, bad values."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kafkakit.core.documents import encode_snapshot
from tests.cli import test_verbs
from tests.cli.test_rebuild import snapshot_of
from tests.cli.test_verbs import WORLD, one_error, plan_of
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home, Ran

SIZED: dict[str, Any] = {**WORLD, "sizes": {"orders": [3_000, 2_000, 1_000], "pay.ments": [10, 20]}}
CROWDED = {**SIZED, "topics": {"orders": [[1, 2], [1, 2], [3, 1]], "pay.ments": [[1, 3], [4, 2]]}}


def run(home: Home, world: dict[str, Any], *arguments: str) -> Ran:
    """Run with a snapshot whose partitions have the sizes of the world, where it has any."""
    if "sizes" not in world:
        return test_verbs.run(home, world, *arguments)
    drawn = snapshot_of(world)
    topics = tuple(
        replace(t, partitions=tuple(replace(p, size_bytes=world["sizes"][t.name][p.partition]) for p in t.partitions))
        for t in drawn.topics
    )
    (home.work / "snapshot.json").write_bytes(encode_snapshot(replace(drawn, topics=topics, sizes_taken=True)))
    return home.run("topicmappr", *arguments, "--snapshot", "snapshot.json")


def test_a_drain_stops_at_its_budget_and_says_how_to_go_on(home: Home) -> None:
    ran = run(home, SIZED, "drain", "--brokers", "1", "--max-moved-bytes", "1010B", "--plan", "p.json")
    assert (ran.code, ran.stderr) == (0, "planning\n")
    assert "2 replicas to copy (1010 B); lower bound 2 replicas, gap 0 (optimal)" in ran.stdout
    assert (
        "note: --max-moved-bytes 1010 B leaves 1 partition for later, 1 replica to copy (2.93 KiB); "
        "carry this plan out and give the same command again to continue"
    ) in ran.stdout
    plan = plan_of(home)
    assert plan["request"]["max-moved-bytes"] == "1010B"
    assert plan["rules"]["later"] == [["orders", 0]]
    ran = home.run("topicmappr", "explain", "p.json", "orders/0")
    assert "the budget of this plan did not cover it" in ran.stdout


def test_json_tells_what_is_left(home: Home) -> None:
    ran = run(home, SIZED, "drain", "--brokers", "1", "--max-moves", "1", "-o", "json")
    assert ran.code == 0
    assert ran.json["left_for_later"] == {"partitions": 2, "replicas": 2, "bytes": 4_000, "too_large": 0}
    assert ran.json["left_alone"] == 0
    ran = run(home, SIZED, "drain", "--brokers", "1", "-o", "json")
    assert ran.json["left_for_later"] == {"partitions": 0, "replicas": 0, "bytes": 0, "too_large": 0}
    ran = run(home, WORLD, "drain", "--brokers", "1", "--max-moves", "1", "-o", "json")
    assert ran.json["left_for_later"]["bytes"] is None


def test_a_budget_of_nothing_is_an_empty_plan_that_says_so(home: Home) -> None:
    ran = run(home, SIZED, "drain", "--brokers", "1", "--max-moves", "0", "--plan", "p.json", "--exit-code")
    assert ran.code == 0
    assert "3 of them cost more than the whole budget," in ran.stdout
    assert plan_of(home)["moves"] == []
    assert "reassign apply" not in ran.stdout


def test_a_pinned_partition_stays_and_is_told(home: Home) -> None:
    ran = run(home, SIZED, "drain", "--brokers", "1", "--pin", "pay.ments", "--pin", "orders/0", "--plan", "p.json")
    assert ran.code == 0
    assert "note: 2 pinned partitions stay on 1, which will not be empty: orders-0, pay.ments-0" in ran.stdout
    plan = plan_of(home)
    assert plan["request"]["pin"] == "pay.ments,orders/0"
    assert [(m["topic"], m["partition"]) for m in plan["moves"]] == [("orders", 2)]
    ran = run(home, SIZED, "explain", "p.json", "orders/0")
    assert "the partition is pinned" in ran.stdout


def test_fix_racks_set_replication_and_leaders_keep_to_theirs(home: Home) -> None:
    ran = run(home, CROWDED, "fix-racks", "--max-moves", "1", "--plan", "p.json")
    assert ran.code == 0
    assert [m["partition"] for m in plan_of(home)["moves"]] == [1]
    ran = run(home, CROWDED, "fix-racks", "--pin", "orders", "--plan", "p.json")
    assert ran.code == 0
    assert "2 pinned partitions break the rule and stay as they are: orders-0, orders-1" in ran.stdout
    arguments = ["set-replication", "3", "--topics", ".*", "--min-rack-ids", "2", "--max-moved-bytes", "40B"]
    ran = run(home, SIZED, *arguments, "--plan", "p.json")
    assert ran.code == 0
    assert [m["topic"] for m in plan_of(home)["moves"]] == ["pay.ments", "pay.ments"]
    uneven = {**WORLD, "topics": {"orders": [[1, 3], [1, 4], [1, 2], [1, 2]]}}
    ran = run(home, uneven, "leaders", "--max-moves", "1", "--pin", "orders/3", "--plan", "p.json")
    assert ran.code == 0
    assert "--max-moves 1 leaves 2 partitions for later; carry this plan out" in ran.stdout
    assert len(plan_of(home)["moves"]) == 1


def test_a_replan_of_a_part_stays_a_part(home: Home) -> None:
    assert run(home, SIZED, "drain", "--brokers", "1", "--max-moves", "1", "--plan", "p.json").code == 0
    assert [m["after"] for m in plan_of(home)["moves"]] == [[2, 4]]
    drifted: dict[str, Any] = {
        "brokers": [{**b, "state": "missing"} if b["id"] == 4 else b for b in SIZED["brokers"]],
        "topics": {**SIZED["topics"], "pay.ments": [[1, 2], [4, 3], [1, 3]]},
        "sizes": {**SIZED["sizes"], "pay.ments": [10, 20, 30]},
        "isr": {"pay.ments": [[1, 2], [3], [1, 3]]},
    }
    ran = run(home, drifted, "replan", "p.json", "--plan", "again.json")
    assert ran.code == 0
    assert "note: 3 partition(s) are left for another run of the plan's own command" in ran.stdout
    again = json.loads((home.work / "again.json").read_bytes())
    verify_plan(again, json.loads((home.work / "snapshot.json").read_bytes()))
    assert [m["after"] for m in again["moves"]] == [[2, 3]]
    assert again["rules"]["later"] == [["orders", 0], ["orders", 2], ["pay.ments", 2]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drain", "--brokers", "1", "--max-moves", "-1"], "invalid value for '--max-moves'"),
        (["drain", "--brokers", "1", "--max-moves", "x"], "invalid value for '--max-moves'"),
        (["drain", "--brokers", "1", "--max-moved-bytes", "lots"], "--max-moved-bytes: 'lots' is not a size"),
        (["drain", "--brokers", "1", "--max-moved-bytes", "1GiB"], "without sizes"),
        (["fix-racks", "--max-moved-bytes", "-1"], "--max-moved-bytes: '-1' is not a size"),
        (["fix-racks", "--max-moved-bytes", "1GiB"], "--max-moved-bytes: the snapshot was taken without sizes"),
        (["set-replication", "3", "--topics", "orders", "--min-rack-ids", "1", "--max-moved-bytes", "1GiB"],
         "--max-moved-bytes: the snapshot was taken without sizes"),
        (["drain", "--brokers", "1", "--pin", "nope"], "--pin: no topic matches"),
        (["fix-racks", "--pin", "orders/77"], "--pin: there is no partition orders/77"),
        (["set-replication", "2", "--topics", "orders", "--pin", "pay.ments"], "--pin: no topic matches"),
        (["leaders", "--pin", "("], "--pin"),
        (["leaders", "--max-moved-bytes", "1GiB"], "no such option"),
    ],
)  # fmt: skip
def test_bad_values_are_one_line_and_exit_2(home: Home, arguments: list[str], words: str) -> None:
    unsized = {**WORLD, "topics": {"orders": [[1, 2], [3, 2], [1, 4]], "pay.ments": [[1, 2], [4, 3]]}}
    ran = run(home, unsized, *arguments)
    assert ran.code == 2, ran.stderr
    assert ran.stdout == ""
    assert words in one_error(ran)
