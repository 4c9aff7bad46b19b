"""`topicmappr frontier`, `audit` and `replan` from files: stdout, stderr and exit codes apart, every format."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, Topic
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import verify_plan
from tests.invariants.replan import verify_replan
from tests.rigs.command_line import Home

NOW = datetime(2026, 11, 21, tzinfo=UTC)
GIB = 1 << 30


@pytest.fixture
def home(home: Home) -> Home:
    save(home, cluster())
    return home


def cluster(**changes: Any) -> ClusterSnapshot:
    """Broker 4 is empty, 1 to 3 hold eight partitions of 10 GiB each; all on racks of their own."""
    rows = [(1, 2), (2, 3), (3, 1), (1, 2), (2, 3), (3, 1), (1, 2), (2, 3)]
    partitions = tuple(
        Partition(partition=n, replicas=row, isr=row, leader=row[0], size_bytes=10 * GIB) for n, row in enumerate(rows)
    )
    held = {b: sum(10 for row in rows if b in row) * GIB for b in range(1, 5)}
    brokers = (Broker(id=b, rack=f"r{b}", storage_free_bytes=200 * GIB - held[b]) for b in range(1, 5))
    topics = (Topic(name="t", partitions=partitions, topic_id="id-t"),)
    return replace(make_snapshot(brokers, topics, taken_at=NOW), **changes)


def save(home: Home, snapshot: ClusterSnapshot, name: str = "s.json") -> None:
    (home.work / name).write_bytes(encode_snapshot(snapshot))


def write_map(home: Home, *rows: tuple[str, int, list[Any]]) -> None:
    entries = [{"topic": t, "partition": p, "replicas": r} for t, p, r in rows]
    (home.work / "m.json").write_text(json.dumps({"version": 1, "partitions": entries}))


FRONTIER = ("topicmappr", "frontier", "--snapshot", "s.json", "--brokers", "-2")
AUDIT = ("topicmappr", "audit", "m.json", "--snapshot", "s.json")
REPLAN = ("topicmappr", "replan", "p.json", "--snapshot", "s.json")


def test_a_frontier_marks_what_is_impossible_and_names_the_next_command(home: Home) -> None:
    ran = home.run(*FRONTIER, "--bands", "60%,10%,0%", "--report", "f.html")
    assert (ran.code, ran.stderr) == (0, "computing a plan for each goal\n") or ran.code == 0
    assert "BAND" in ran.stdout
    assert "impossible" not in ran.stdout.split("tightest")[0] or "impossible:" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("kafkakit topicmappr rebalance --snapshot s.json --brokers -2")
    page = (home.work / "f.html").read_text()
    assert "<svg" in page
    assert "<script" not in page


def test_every_command_writes_its_result_as_a_page_and_refuses_a_place_for_it_first(home: Home) -> None:
    write_map(home, ("t", 0, [4, 1]))
    for words in (AUDIT, (*AUDIT, "-o", "json"), ("topicmappr", "check", "--snapshot", "s.json")):
        plain, ran = home.run(*words), home.run(*words, "--html", "pages/a.html")
        assert (ran.code, ran.stdout, "page: pages/a.html" in ran.stderr) == (plain.code, plain.stdout, True)
        page = (home.work / "pages" / "a.html").read_text()
        assert f"<code>kafkakit {' '.join(words[:2])}</code>" in page
        assert "<script" not in page
    for place, refused in (
        ("s.json/a.html", "s.json is not a folder"),
        ("pages", "pages is a folder"),
        ("/", "/ is a folder"),
        ("-", "needs a file"),
    ):
        ran = home.run(*AUDIT, "--html", place)
        assert (ran.code, ran.stdout, refused in ran.stderr) == (2, "", True)


@pytest.mark.parametrize(
    "limits",
    [
        (),
        ("--exclude-receivers", "4"),
        ("--exclude-givers", "1,2"),
        ("--max-replicas", "5"),
        ("--max-leaders", "3"),
        ("--max-topic-leaders", "2"),
        ("--exclude-receivers", "3", "--max-replicas", "6", "--broker-set", "t: 1,2,4"),
    ],
)
def test_a_point_of_a_frontier_costs_what_the_rebalance_under_the_same_limits_does(
    home: Home, limits: tuple[str, ...]
) -> None:
    point = home.run(*FRONTIER, "--bands", "60%", *limits, "-o", "json").json["points"][0]
    ran = home.run("topicmappr", "rebalance", "--topics", ".*", *FRONTIER[2:], "--band", "60%", *limits, "--plan", "p")
    assert (ran.code == 0) == (point["plan_bytes"] is not None), ran.stderr
    if ran.code == 0:
        plan = json.loads((home.work / "p").read_bytes())
        verify_plan(plan, json.loads((home.work / "s.json").read_bytes()))
        assert plan["certificate"]["objective"] == point["plan_bytes"]
    following = home.run(*FRONTIER, "--bands", "60%", *limits).stdout.partition("next, for example:\n")[2]
    assert all(word in following for word in limits if following and word.startswith("--"))
    assert following or not point["plan_bytes"]


def test_ceilings_that_no_point_of_a_frontier_keeps_are_refused(home: Home) -> None:
    ran = home.run(*FRONTIER, "--bands", "60%", "--max-replicas", "3")
    assert ran.code == 4
    assert "--max-replicas 3 cannot be kept" in ran.stderr


def test_the_formats_of_a_frontier_agree(home: Home) -> None:
    data = home.run(*FRONTIER, "--bands", "60%,10%", "-o", "json").json
    rows = home.run(*FRONTIER, "--bands", "60%,10%", "-o", "tsv").stdout.splitlines()
    assert [p["goal"] for p in data["points"]] == ["60%", "10%"]
    assert [row.split("\t")[1] for row in rows] == [str(p["plan_bytes"] or "-") for p in data["points"]]
    assert data["points"][0]["plan_bytes"] <= data["points"][1]["plan_bytes"]
    assert home.run(*FRONTIER, "-o", "yaml").code == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--bands", "5%", "--free-ranges", "1GiB"), "contradict"),
        (("--bands", "5"), "--bands"),
        (("--bands", "5%", "--metric", "free-range"), "--metric"),
        (("--topics", "nope"), "no topic matches"),
        (("--brokers", "77"), "unlike broker"),
    ],
)
def test_a_frontier_refuses_requests_that_cannot_work(home: Home, flags: tuple[str, ...], words: str) -> None:
    ran = home.run(*FRONTIER, *flags)
    assert (ran.code, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert ran.stderr.count("error:") == 1


def test_a_good_map_exits_0_and_is_held_against_the_bound(home: Home) -> None:
    write_map(home, ("t", 0, [4, 2]), ("t", 3, [4, 2]), ("t", 2, [3, 4]))
    ran = home.run(*AUDIT, "-o", "json")
    assert ran.code == 0
    report = ran.json
    assert report["bytes"]["spent"] == 30 * GIB
    assert report["bytes"]["lower_bound"] <= report["bytes"]["best_plan"] <= 30 * GIB
    assert report["totals"]["error"] == 0
    text = home.run(*AUDIT).stdout
    assert "3 copies to make, 30 GiB" in text
    assert "if it is applied:" in text


@pytest.mark.parametrize(
    ("replicas", "rule"),
    [
        ([], "empty-list"),
        ([1, 1], "repeated-broker"),
        ([1, 99], "unknown-broker"),
        (["x"], "unreadable"),
        ([1, 5], "dead-broker"),
    ],
)
def test_a_bad_list_is_a_finding_and_exits_1(home: Home, replicas: list[Any], rule: str) -> None:
    dead = Broker(id=5, rack="r5", state=BrokerState.FENCED)
    save(home, cluster(brokers=(*cluster().brokers, dead)))
    write_map(home, ("t", 0, replicas))
    ran = home.run(*AUDIT, "-o", "json")
    assert ran.code == 1
    assert rule in [f["rule"] for f in ran.json["findings"]]
    assert home.run(*AUDIT, "--fail-on", "never").code == 0


def test_other_faults_of_a_map_are_told(home: Home) -> None:
    save(home, cluster(brokers=tuple(replace(b, rack="r2" if b.id == 4 else b.rack) for b in cluster().brokers)))
    write_map(home, ("t", 0, [4, 2]), ("t", 0, [1, 2]), ("t", 77, [1]), ("nope", 0, [1]), ("t", 1, [2]))
    told = home.run(*AUDIT, "-o", "json").json
    assert all(rule["repair"] == rule["mend"] for rule in told["rules"]), "the old key stays beside the new one"
    found = {f["rule"]: f for f in told["findings"]}
    assert {"rack-rule-broken", "listed-twice", "unknown-partition", "fewer-replicas"} <= set(found)


def test_a_disk_that_would_run_full_is_an_error(home: Home) -> None:
    brokers = tuple(replace(b, storage_free_bytes=15 * GIB if b.id == 4 else b.storage_free_bytes)
                    for b in cluster().brokers)  # fmt: skip
    save(home, cluster(brokers=brokers))
    write_map(home, ("t", 0, [4, 2]), ("t", 3, [4, 2]))
    assert "disk-full" in [f["rule"] for f in home.run(*AUDIT, "-o", "json").json["findings"]]


def test_without_sizes_counts_alone_are_judged(home: Home) -> None:
    bare = cluster()
    topics = tuple(replace(t, partitions=tuple(replace(p, size_bytes=None) for p in t.partitions)) for t in bare.topics)
    save(home, cluster(topics=topics, sizes_taken=False))
    write_map(home, ("t", 0, [4, 2]))
    ran = home.run(*AUDIT)
    assert ran.code == 0
    assert "judged only by counts" in ran.stdout
    assert "of unknown size" in ran.stdout


@pytest.mark.parametrize("text", ["", "[]", "{", '{"partitions": 3}', "\x00"])
def test_what_is_no_map_exits_2(home: Home, text: str) -> None:
    (home.work / "m.json").write_text(text)
    ran = home.run(*AUDIT)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.count("error:") == 1


def make_plan(home: Home, *goal: str) -> dict[str, Any]:
    ran = home.run("topicmappr", "rebalance", "--snapshot", "s.json", "--brokers", "-2", "--topics", "t",
                   *(goal or ("--band", "40%")), "--plan", "p.json")  # fmt: skip
    assert ran.code == 0, ran.stderr
    loaded: dict[str, Any] = json.loads((home.work / "p.json").read_text())
    assert loaded["moves"]
    return loaded


def test_a_plan_that_nothing_touched_still_holds(home: Home) -> None:
    make_plan(home)
    ran = home.run(*REPLAN, "--exit-code")
    assert ran.code == 0
    assert "Nothing to change: the plan still holds" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "kafkakit reassign apply p.json"


def test_a_dead_target_changes_the_plan_and_says_so(home: Home) -> None:
    plan = make_plan(home)
    target = next(b for m in plan["moves"] for b in m["after"] if b not in m["before"])
    brokers = tuple(replace(b, state=BrokerState.FENCED) if b.id == target else b for b in cluster().brokers)
    save(home, cluster(brokers=brokers))
    ran = home.run(*REPLAN, "--plan", "p2.json", "--exit-code", "--slack", "100%")
    assert ran.code == 3, ran.stdout + ran.stderr
    assert f"of the plan's brokers {target} are not alive" in ran.stdout
    verify_replan(json.loads((home.work / "p2.json").read_text()), json.loads((home.work / "s.json").read_text()))


def test_a_goal_out_of_reach_exits_4_with_a_reason(home: Home) -> None:
    make_plan(home, "--free-range", "20GiB")
    topic = cluster().topics[0]
    grown = replace(topic.partitions[0], size_bytes=110 * GIB)  # two brokers hold it whole, whatever else they give
    free = {1: 40, 2: 40}
    brokers = tuple(replace(b, storage_free_bytes=free[b.id] * GIB) if b.id in free else b for b in cluster().brokers)
    save(home, cluster(topics=(replace(topic, partitions=(grown, *topic.partitions[1:])),), brokers=brokers))
    ran = home.run(*REPLAN)
    assert (ran.code, ran.stdout) == (4, "")
    assert "a range of free bytes of 20 GiB" in ran.stderr
    assert "hint:" in ran.stderr


def test_another_cluster_and_an_old_snapshot_are_refused(home: Home) -> None:
    make_plan(home)
    save(home, cluster(cluster_id="c2"))
    other = home.run(*REPLAN)
    assert other.code != 0
    assert "this is c2" in other.stderr
    save(home, cluster(taken_at=datetime(2026, 1, 1, tzinfo=UTC)))
    assert home.run(*REPLAN).code == 75


def test_the_formats_of_a_replan_agree(home: Home) -> None:
    plan = make_plan(home)
    data = home.run(*REPLAN, "-o", "json").json
    rows = home.run(*REPLAN, "-o", "tsv").stdout.splitlines()
    assert len(data["changes"]) == len(rows) == len(plan["moves"])
    assert data["holds"]
    assert home.run(*REPLAN, "-o", "yaml").code == 0
