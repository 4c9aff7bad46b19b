"""`topicmappr rebalance-dirs` and `rebalance --balance-dirs` from snapshot files: output, exit codes, plan files."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkakit.core.documents import decode_plan, encode_snapshot
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan_rules import check_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home, Ran

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MB = 1_000_000


def crowded(size: int = MB, count: int = 9) -> FakeCluster:
    """Broker 1 with all copies in its first dir of three; broker 2 with one copy."""
    cluster = FakeCluster({1: "a", 2: "b"}, dirs_per_broker=3, dir_bytes=100 * MB)
    cluster.add_topic("t", {n: (1,) for n in range(count)}, size_bytes=size)  # noqa: C420
    cluster.add_topic("u", {0: (2,)}, size_bytes=size)
    for p in cluster.topics["t"].partitions.values():
        p.dirs[1] = "/data/1/0"
    return cluster


def save(home: Home, cluster: FakeCluster, **changes: Any) -> ClusterSnapshot:
    snapshot = replace(cluster.snapshot(now=NOW), **changes)
    (home.work / "snapshot.json").write_bytes(encode_snapshot(snapshot))
    return snapshot


def run(home: Home, *words: str) -> Ran:
    ran = home.run("topicmappr", "rebalance-dirs", "--snapshot", "snapshot.json", "--topics", "t", *words)
    assert "Traceback" not in ran.stderr
    return ran


def plan_of(home: Home) -> dict[str, Any]:
    data = (home.work / "p.json").read_bytes()
    check_plan(decode_plan(data, "p.json"), "p.json")
    plan: dict[str, Any] = json.loads(data)
    verify_plan(plan, json.loads((home.work / "snapshot.json").read_bytes()))
    return plan


def test_the_report_shows_moves_dirs_proof_and_the_next_command(home: Home) -> None:
    save(home, crowded())
    ran = run(home, "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    assert "Level the log dirs of 1 broker to within 10% of each dir's share" in ran.stdout
    assert "on 1: /data/1/0 -> /data/1/1 (977 KiB)" in ran.stdout
    assert "/data/1/0: 8.58 MiB (9%) -> 2.86 MiB (3%), 6 to other dirs" in ran.stdout
    assert "6 copies to move inside brokers (5.72 MiB); lower bound" in ran.stdout
    assert ran.stdout.endswith("next:\nkafkakit reassign apply p.json\n")
    plan = plan_of(home)
    assert (plan["moves"], len(plan["dir_moves"])) == ([], 6)


def test_json_tsv_and_exit_codes(home: Home) -> None:
    save(home, crowded())
    data = run(home, "-o", "json").json
    assert {d["target_dir"] for d in data["dir_moves"]} == {"/data/1/1", "/data/1/2"}
    assert len(data["log_dirs"]) == 3
    assert data["certificate"]["status"] in ("optimal", "feasible")
    rows = [line.split("\t") for line in run(home, "-o", "tsv").stdout.splitlines()]
    assert len(rows) == 6
    assert {row[3] for row in rows} == {"/data/1/0"}
    assert run(home, "--exit-code").code == 3
    assert run(home, "--exit-code", "--pin", "t").code == 1  # a band that cannot be had


def test_a_band_that_cannot_be_had_stops_the_plan_until_told_otherwise(home: Home) -> None:
    save(home, crowded(count=2))
    ran = run(home, "--plan", "p.json")
    assert ran.code == 1
    assert "its log dirs cannot be brought within 10% of their shares" in ran.stderr
    assert not (home.work / "p.json").exists()
    assert run(home, "--plan", "p.json", "--ignore-warns").code == 0
    assert len(plan_of(home)["dir_moves"]) == 1


def test_level_dirs_need_nothing(home: Home) -> None:
    save(home, crowded(size=0))
    ran = run(home, "--plan", "p.json")
    assert ran.code == 0
    assert "no copy has to change its log dir" in ran.stdout
    assert "next:" not in ran.stdout


def test_brokers_with_one_dir_have_nothing_to_level(home: Home) -> None:
    cluster = FakeCluster({1: None})
    cluster.add_topic("t", {0: (1,)}, size_bytes=MB)
    save(home, cluster)
    assert "none of these brokers has two log dirs" in run(home).stdout


def test_a_cordoned_dir_takes_nothing_and_an_offline_one_is_told_of(home: Home) -> None:
    cluster = crowded()
    cluster.cordon_dir(1, "/data/1/1")
    save(home, cluster)
    ran = run(home, "--plan", "p.json", "--ignore-warns")
    assert ran.code == 0
    assert {m["target_dir"] for m in plan_of(home)["dir_moves"]} == {"/data/1/2"}
    cluster.fail_dir(1, "/data/1/2")
    save(home, cluster)
    ran = run(home)
    assert ran.code == 1
    assert "log dir /data/1/2 is offline, nothing can be moved out of it" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--band", "10"], "--band"),
        (["--band", "-5%"], "--band"),
        (["--brokers", "7"], "broker 7 is not a live broker"),
        (["--brokers", ""], "--brokers"),
        (["--max-disk-use", "120%"], "--max-disk-use"),
        (["--head-room", "lots"], "--head-room"),
        (["--pin", "nothing"], "--pin"),
        (["--plan", f"{__file__}/p.json"], "is not a folder"),
    ],
)
def test_bad_requests_are_one_line_and_exit_2(home: Home, words: list[str], said: str) -> None:
    save(home, crowded())
    ran = run(home, *words)
    assert ran.code == 2
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("error:")]
    assert said in line


def test_a_snapshot_without_sizes_or_answers_is_refused(home: Home) -> None:
    bare = crowded().snapshot(now=NOW, sizes=False)
    (home.work / "snapshot.json").write_bytes(encode_snapshot(bare))
    assert run(home).code == 2
    cluster = crowded()
    cluster.hang(1)
    save(home, cluster)
    assert run(home).code == 75


def test_rebalance_names_dirs_and_levels_them_on_request(home: Home) -> None:
    save(home, crowded())
    words = ["topicmappr", "rebalance", "--snapshot", "snapshot.json", "--topics", "t,u", "--brokers", "-1"]
    ran = home.run(*words, "--band", "20%", "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    plan = plan_of(home)
    assert plan["dir_moves"] == []
    assert sorted(path for m in plan["moves"] for path in m["dirs"].values())
    ran = home.run(*words, "--band", "20%", "--balance-dirs", "50%", "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    assert "Log dirs:" in ran.stdout
    assert "inside brokers:" in ran.stdout
    assert plan_of(home)["dir_moves"]
    assert json.loads((home.work / "p.json").read_bytes())["request"]["balance-dirs"] == "50%"
