"""`kafkakit reassign simulate` over a snapshot file: what it prints, and what it finds."""

from pathlib import Path

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from tests.clusters.plans import MADE_AT, make_plan
from tests.fakes.admin import FakeCluster
from tests.rigs.command_line import Home, Ran

MB = 1_000_000


class Desk:
    """A folder with `plan.json` and `cluster.json`: ten partitions of 9 MB each on brokers 1 and 2 change places."""

    def __init__(self, folder: Path, dir_bytes: int) -> None:
        self.home = Home(folder)
        self.home.work.mkdir(parents=True)
        cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, dir_bytes=dir_bytes)
        cluster.add_topic("left", dict.fromkeys(range(10), (1,)), size_bytes=9 * MB)
        cluster.add_topic("right", dict.fromkeys(range(10), (2,)), size_bytes=9 * MB)
        moves = {("left", n): (2,) for n in range(10)} | {("right", n): (1,) for n in range(10)}
        (self.home.work / "plan.json").write_bytes(encode_plan(make_plan(cluster, moves)))
        (self.home.work / "cluster.json").write_bytes(encode_snapshot(cluster.snapshot(now=MADE_AT)))

    def run(self, *words: str) -> Ran:
        return self.home.run("reassign", "simulate", "plan.json", "--snapshot", "cluster.json", *words)


@pytest.fixture
def roomy(tmp_path: Path) -> Desk:
    return Desk(tmp_path, 1000 * MB)


@pytest.fixture
def tight(tmp_path: Path) -> Desk:
    return Desk(tmp_path, 100 * MB)


def test_the_schedule_swaps_two_full_brokers_where_naive_orders_fill_their_disks(tight: Desk) -> None:
    orders = ("--order", "schedule", "--order", "plan", "--order", "all-at-once")
    ran = tight.run("--throttle", "5MB", *orders, "-o", "json")
    assert ran.code == 0, ran.stderr
    found = {c["order"]: c for c in ran.json["cases"]}
    filled = {
        order: [d["broker"] for d in case["log_dirs"] if d["filled_at_seconds"] is not None]
        for order, case in found.items()
    }
    assert filled == {"schedule": [], "plan": [1, 2], "all-at-once": [1, 2]}
    assert {order: case["done"] for order, case in found.items()} == {
        "schedule": True,
        "plan": False,
        "all-at-once": False,
    }
    assert max(d["peak_bytes"] for d in found["schedule"]["log_dirs"]) <= 95 * MB
    assert found["schedule"]["seconds"] >= found["schedule"]["bound_seconds"]
    assert found["plan"]["hanging"]
    assert found["plan"]["offline_partition_seconds"] > 0
    assert found["schedule"]["offline_partition_seconds"] == 0


def test_throttles_are_compared_in_a_table_and_drawn(roomy: Desk) -> None:
    ran = roomy.run("--throttle", "1MB", "--throttle", "4MB", "--throttle", "none")
    assert ran.code == 0, ran.stderr
    cluster, head, *rows = ran.stdout.split("\n\n")[0].splitlines()
    assert cluster == "cluster fake-cluster"
    assert head.split() == ["ORDER", "THROTTLE", "TAKES", "ETA", "BOUND", "COPIED", "FULLEST-DIR", "ENDS"]
    assert [row.split()[1] for row in rows] == ["1", "4", "none"]
    assert all(row.split()[-1] == "done" for row in rows)
    assert "schedule, throttle 4 MB/s; the most work:" in ran.stdout
    assert "│█" in ran.stdout
    data = roomy.run("--throttle", "1MB", "--throttle", "4MB", "--throttle", "none", "-o", "json").json
    seconds = [c["seconds"] for c in data["cases"]]
    assert seconds == sorted(seconds, reverse=True)
    assert len(set(seconds)) == 3
    assert all(c["copied_bytes"] == pytest.approx(180 * MB) for c in data["cases"])
    assert data["cases"][0]["seconds"] == pytest.approx(data["cases"][0]["eta_seconds"], rel=0.15)
    assert data["cases"][0]["samples"][0]["bytes_per_s"] > 0


def test_a_dead_broker_holds_a_run_up_and_its_return_lets_it_end(roomy: Desk) -> None:
    calm = roomy.run("--throttle", "1MB", "-o", "json").json["cases"][0]
    words = ("--throttle", "1MB", "--kill", "2@30s")
    hanging = roomy.run(*words, "-o", "json").json["cases"][0]
    assert not hanging["done"]
    assert hanging["hanging"]
    back = roomy.run(*words, "--revive", "2@10m", "-o", "json").json["cases"][0]
    assert back["done"]
    assert back["seconds"] > calm["seconds"] + 400
    text = roomy.run(*words).stdout
    assert "hangs" in text
    assert "not in place at the end" in text


def test_ingest_makes_a_run_longer(roomy: Desk) -> None:
    calm = roomy.run("--throttle", "1MB", "-o", "json").json["cases"][0]
    busy = roomy.run("--throttle", "1MB", "--ingest", "500kB", "-o", "json").json["cases"][0]
    assert busy["seconds"] > calm["seconds"]
    assert busy["copied_bytes"] > calm["copied_bytes"]


def test_the_limits_are_those_that_apply_takes(tight: Desk) -> None:
    usual = tight.run("--throttle", "5MB", "-o", "json")
    fuller = tight.run("--throttle", "5MB", "--max-disk-use", "99.5%", "--disk-headroom", "0", "-o", "json")
    peaks = [max(d["peak_bytes"] for d in ran.json["cases"][0]["log_dirs"]) for ran in (usual, fuller)]
    assert peaks[0] <= 95 * MB < peaks[1] <= 99.5 * MB
    singly = tight.run("--throttle", "5MB", "--max-moves-in-flight", "1", "-o", "json")
    assert singly.json["cases"][0]["seconds"] > usual.json["cases"][0]["seconds"]
    refused = tight.run("--max-disk-use", "95")
    assert (refused.code, refused.stdout) == (2, "")
    assert "write it like 5% or 2.5%" in refused.stderr


def test_tsv_has_a_line_a_case(roomy: Desk) -> None:
    ran = roomy.run("--order", "plan", "--order", "schedule", "-o", "tsv")
    assert [line.split("\t")[:3] for line in ran.stdout.splitlines()] == [
        ["plan", "none", "yes"],
        ["schedule", "none", "yes"],
    ]


def test_the_same_input_gives_the_same_bytes(roomy: Desk) -> None:
    words = ("--throttle", "3MB", "--kill", "2@20s", "--revive", "2@60s", "-o", "json")
    assert roomy.run(*words).stdout == roomy.run(*words).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--throttle", "fast"), "is not a rate"),
        (("--order", "best"), "--order: 'best' is none of schedule, plan, all-at-once"),
        (("--kill", "2"), "is not a broker and a time"),
        (("--kill", "99@1m"), "broker 99 is not in the cluster"),
        (("--revive", "2@soon"), "is not a duration"),
        (("--efficiency", "0%"), "nothing would ever move"),
        (tuple(w for n in range(1, 26) for w in ("--throttle", f"{n}MB")), "25 cases are more than 24"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(roomy: Desk, words: tuple[str, ...], message: str) -> None:
    ran = roomy.run(*words)
    assert ran.code == 2
    assert ran.stdout == ""
    assert message in ran.stderr


def test_a_snapshot_of_another_cluster_is_refused(roomy: Desk) -> None:
    other = FakeCluster({1: "a"}, cluster_id="other")
    (roomy.home.work / "cluster.json").write_bytes(encode_snapshot(other.snapshot(now=MADE_AT)))
    ran = roomy.run()
    assert ran.code == 2
    assert "the plan is for cluster fake-cluster, the snapshot is of other" in ran.stderr


def test_a_plan_that_is_done_takes_no_time(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 1000 * MB)
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("left", dict.fromkeys(range(10), (2,)), size_bytes=9 * MB)
    cluster.add_topic("right", dict.fromkeys(range(10), (1,)), size_bytes=9 * MB)
    (desk.home.work / "cluster.json").write_bytes(encode_snapshot(cluster.snapshot(now=MADE_AT)))
    ran = desk.run()
    assert ran.code == 0, ran.stderr
    assert "note: 20 moves of the plan done already" in ran.stdout


def test_moves_between_dirs_of_a_broker_are_played_too(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.work.mkdir(parents=True)
    cluster = FakeCluster({1: "a", 2: "b"}, dirs_per_broker=3, dir_bytes=1000 * MB)
    cluster.add_topic("t", dict.fromkeys(range(9), (1,)), size_bytes=30 * MB)
    for partition in cluster.topics["t"].partitions.values():
        partition.dirs[1] = "/data/1/0"
    (home.work / "cluster.json").write_bytes(encode_snapshot(cluster.snapshot(now=MADE_AT)))
    planned = home.run("topicmappr", "rebalance-dirs", "--snapshot", "cluster.json", "--plan", "plan.json")
    assert planned.code == 0, planned.stderr
    words = ("reassign", "simulate", "plan.json", "--snapshot", "cluster.json", "--throttle", "5MB", "-o", "json")
    ran = home.run(*words, "--order", "schedule", "--order", "all-at-once")
    assert ran.code == 0, ran.stderr
    for case in ran.json["cases"]:
        assert case["done"]
        assert case["seconds"] == pytest.approx(6 * 30 / 4, abs=3)
        assert case["log_dirs"][1]["peak_bytes"] == pytest.approx(90 * MB, rel=0.01)
    killed = home.run(*words, "--kill", "1@10s").json["cases"][0]
    assert not killed["done"]
    assert killed["hanging"]
