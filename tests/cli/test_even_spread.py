"""`--spread` of the planning commands from a snapshot file: plans, texts, exit codes, contradictions."""

import json
from typing import Any

import pytest

from tests.cli.test_rebalance import cluster, put
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home, Ran

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: None}
FREE = {1: 100, 2: 500, 3: 300, 4: 200, 5: 300}
FEW = {b: r for b, r in RACKS.items() if b != 5}
LISTS = [[1, 3, 4], [3, 1, 2], [4, 1, 3]]
SIZES = [20, 30, 10]


@pytest.fixture
def home(home: Home) -> Home:
    put(home, cluster(LISTS, SIZES, {b: FREE[b] for b in FEW}, FEW))
    return home


def run(home: Home, *arguments: str) -> Ran:
    return home.run("topicmappr", *arguments, "--snapshot", "s.json")


def checked(home: Home) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((home.work / "p.json").read_bytes())
    verify_plan(plan, json.loads((home.work / "s.json").read_bytes()))
    return plan


def counts(row: list[int]) -> list[int]:
    return sorted(sum(RACKS[b] == rack for b in row) for rack in "ab")


@pytest.mark.parametrize(
    "words",
    [
        ("rebalance", "--topics", ".*", "--brokers", "-1", "--free-range", "320GiB"),
        ("add-brokers", "--brokers", "1,2,3,4", "--band", "60%"),
        ("rebalance", "--topics", ".*", "--brokers", "-1", "--max-moved-bytes", "1TiB", "--max-rack-violations", "0"),
    ],
)
def test_three_copies_on_two_racks_stay_two_and_one(home: Home, words: tuple[str, ...]) -> None:
    ran = run(home, *words, "--spread", "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    plan = checked(home)
    assert plan["rules"]["spread_over"] == ["a", "b"]
    assert plan["request"]["spread"] == "true"
    assert plan["moves"]
    assert all(counts(m["after"]) == [1, 2] for m in plan["moves"])


def test_a_new_broker_takes_copies_under_the_spread(home: Home) -> None:
    put(home, cluster([[1, 3], [1, 3]], [30, 30], {**FREE, 5: 900}, {1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}))
    ran = run(home, "scale", "--topics", ".*", "--brokers", "-1,5", "--spread", "--max-moves", "1", "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    assert [m["after"] for m in checked(home)["moves"]] == [[1, 5]]


@pytest.mark.parametrize("placement", ["count", "storage"])
def test_a_drain_fills_the_emptier_rack(home: Home, placement: str) -> None:
    put(home, cluster([[1, 3], [2, 3], [1, 2]], SIZES, {b: FREE[b] for b in FEW}, FEW))
    ran = run(home, "drain", "--brokers", "3", "--placement", placement, "--spread", "--plan", "p.json", "--exit-code")
    assert ran.code == 3, ran.stderr
    assert {m["partition"]: m["after"] for m in checked(home)["moves"]} == {0: [1, 4], 1: [2, 4]}


def test_a_drain_that_would_leave_a_set_uneven_is_refused(home: Home) -> None:
    put(home, cluster([[1, 3]], [20], {1: 100, 2: 500, 3: 300, 5: 300}, {1: "a", 2: "a", 3: "b", 5: "c"}))
    ran = run(home, "drain", "--brokers", "3", "--to", "2", "--spread", "--plan", "p.json")
    assert ran.code == 4
    assert "a-0: 1 replica(s) must leave" in ran.stderr
    assert "in the racks that hold the fewest, or do without --spread" in ran.stderr
    assert not (home.work / "p.json").exists()
    assert run(home, "drain", "--brokers", "3", "--spread", "--plan", "p.json").code == 0
    assert [m["after"] for m in checked(home)["moves"]] == [[1, 5]]


def test_brokers_without_a_rack_are_not_counted(home: Home) -> None:
    put(home, cluster([[1, 3, 5]], [20], FREE, RACKS))
    assert run(home, "drain", "--brokers", "5", "--spread", "--plan", "p.json").code == 0
    assert [counts(m["after"]) for m in checked(home)["moves"]] == [[1, 2]]


def test_explain_and_replan_know_the_spread(home: Home) -> None:
    put(home, cluster([[1, 2], [1, 3]], [20, 20], {b: FREE[b] for b in FEW}, FEW))
    assert run(home, "fix-racks", "--spread", "--plan", "p.json").code == 0
    assert checked(home)["rules"]["spread_over"] == ["a", "b"]
    assert "also held" in home.run("topicmappr", "explain", "p.json", "a/0").stdout
    stays = home.run("topicmappr", "explain", "p.json", "a/1").stdout
    assert "every copy is on a target broker, the rack rule is kept" in stays
    put(home, cluster([[1, 3], [1, 3]], [20, 20], {b: FREE[b] for b in FEW}, FEW))
    assert run(home, "drain", "--brokers", "3", "--spread", "--plan", "p.json").code == 0
    words = "a copy in rack a would leave the replicas unevenly spread over racks"
    assert words in home.run("topicmappr", "explain", "p.json", "a/0").stdout
    ran = run(home, "replan", "p.json", "--plan", "again.json")
    assert ran.code == 0, ran.stderr
    assert json.loads((home.work / "again.json").read_bytes())["rules"]["spread_over"] == ["a", "b"]


def test_audit_tells_sets_that_become_uneven(home: Home) -> None:
    entry = {"topic": "a", "partition": 0, "replicas": [1, 2]}
    (home.work / "m.json").write_text(json.dumps({"version": 1, "partitions": [entry]}))
    put(home, cluster([[1, 3]], [20], {b: FREE[b] for b in FEW}, FEW))
    ran = run(home, "audit", "m.json", "--brokers", "-2", "--spread", "-o", "json")
    assert ran.code == 1
    assert "rack-rule-broken" in {f["rule"] for f in ran.json["findings"]}
    repeated = run(home, "audit", "m.json", "--brokers", "-2", "--min-rack-ids", "1", "-o", "json")
    assert "rack-rule-broken" not in {f["rule"] for f in repeated.json["findings"]}


@pytest.mark.parametrize(
    "words",
    [
        ("rebalance", "--topics", ".*", "--brokers", "-1"),
        ("scale", "--topics", ".*", "--brokers", "-1"),
        ("add-brokers", "--brokers", "4"),
        ("drain", "--brokers", "3"),
        ("fix-racks",),
        ("frontier",),
        ("audit", "m.json"),
    ],
)
def test_two_rack_rules_contradict_each_other(home: Home, words: tuple[str, ...]) -> None:
    (home.work / "m.json").write_text('{"version": 1, "partitions": []}')
    ran = run(home, *words, "--spread", "--min-rack-ids", "2")
    assert (ran.code, ran.stdout) == (2, "")
    assert "error: --spread and --min-rack-ids are two different rules, give one of them" in ran.stderr


@pytest.mark.parametrize("words", [("rebalance", "--topics", ".*", "--brokers", "-1"), ("drain", "--brokers", "3")])
def test_without_racks_there_is_nothing_to_spread_over(home: Home, words: tuple[str, ...]) -> None:
    put(home, cluster(LISTS, SIZES, {b: FREE[b] for b in FEW}, dict.fromkeys(FEW)))
    ran = run(home, *words, "--spread", "--plan", "p.json")
    assert (ran.code, ran.stdout) == (2, "")
    assert "--spread: no broker that could take replicas has a rack" in ran.stderr
    assert "hint: set broker.rack" in ran.stderr
