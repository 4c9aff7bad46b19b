"""`kafkakit topicmappr rebalance`, `scale` and `add-brokers` from a snapshot file: goldens, flags, files, faults."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import verify_plan
from tests.places import ROOT
from tests.rigs.command_line import Home, Ran

GIB = 1 << 30
RACKS: Mapping[int, str | None] = {1001: "a", 1002: "b", 1003: "c", 1004: "b", 1005: "a", 1006: "c"}
FREE = {1001: 100, 1002: 250, 1003: 300, 1004: 220, 1005: 400, 1006: 500}
LISTS = [[1001, 1002], [1001, 1003], [1001, 1004], [1002, 1003], [1003, 1004], [1004, 1001], [1001, 1002], [1001, 1004]]
SIZES = [10 + 3 * i for i in range(8)]


def cluster(
    lists: Sequence[Sequence[int]] = LISTS,
    sizes: Sequence[int | None] = SIZES,
    free: Mapping[int, int | None] = FREE,
    racks: Mapping[int, str | None] = RACKS,
    dead: Sequence[int] = (),
    topic: str = "a",
) -> ClusterSnapshot:
    """A cluster with one topic; sizes and free space in GiB."""
    return make_snapshot(
        (
            Broker(
                id=b,
                rack=rack,
                state=BrokerState.MISSING if b in dead else BrokerState.ALIVE,
                storage_free_bytes=None if (gib := free[b]) is None else gib * GIB,
            )
            for b, rack in racks.items()
        ),
        {
            topic: [
                Partition(partition=i, replicas=tuple(row), isr=tuple(row), size_bytes=None if s is None else s * GIB)
                for i, (row, s) in enumerate(zip(lists, sizes, strict=True))
            ]
        },
    )


@pytest.fixture
def home(home: Home) -> Home:
    put(home, cluster())
    return home


def put(home: Home, snapshot: ClusterSnapshot) -> None:
    (home.work / "s.json").write_bytes(encode_snapshot(snapshot))


def plan(home: Home, command: str, *flags: str, topics: str = "a") -> Ran:
    return home.run("topicmappr", command, "--topics", topics, "--snapshot", "s.json", *flags)


def checked(home: Home, name: str = "p.json") -> dict[str, Any]:
    """The plan file, after the independent checker has been over it."""
    made: dict[str, Any] = json.loads((home.work / name).read_bytes())
    verify_plan(made, json.loads((home.work / "s.json").read_bytes()))
    return made


def one_error(ran: Ran) -> str:
    assert "Traceback" not in ran.stdout + ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("error:")]
    return line


REBALANCED = """
Topics:
  a

Validating broker list:
  OK

Brokers targeted for partition offloading (>= 20.00% threshold below hmean):
  1001

Reassignment parameters:
  Ignoring partitions smaller than 512MB
  Free storage mean, harmonic mean: 217.50GB, 182.83GB
  Broker free storage limits (with a 6.00% tolerance from mean):
    Sources limited to <= 230.55GB
    Destinations limited to >= 204.45GB

Broker 1001 relocations planned:
  [31.00GB] a p7 -> 1003
  [28.00GB] a p6 -> 1003
  [25.00GB] a p5 -> 1003
  [13.00GB] a p1 -> 1002
  [10.00GB] a p0 -> 1003
  -
  Total relocation volume: 107.00GB

Partition map changes:
  a p0: [1001 1002] -> [1003 1002] replaced broker
  a p1: [1001 1003] -> [1002 1003] replaced broker
  a p2: [1001 1004] -> [1001 1004] no-op
  a p3: [1002 1003] -> [1002 1003] no-op
  a p4: [1003 1004] -> [1003 1004] no-op
  a p5: [1004 1001] -> [1004 1003] replaced broker
  a p6: [1001 1002] -> [1003 1002] replaced broker
  a p7: [1001 1004] -> [1004 1003] replaced broker

Broker distribution:
  degree [min/max/avg]: 2/3/2.50 -> 1/2/1.50
  -
  Broker 1001 - leader: 1, follower: 0, total: 1
  Broker 1002 - leader: 2, follower: 2, total: 4
  Broker 1003 - leader: 3, follower: 4, total: 7
  Broker 1004 - leader: 2, follower: 2, total: 4

Storage free change estimations:
  range: 200.00GB -> 31.00GB
  range spread: 200.00% -> 15.05%
  std. deviation: 73.61GB -> 12.54GB
  min-max: 100.00GB, 300.00GB -> 206.00GB, 237.00GB
  -
  Broker 1001: 100.00 -> 207.00 (+107.00GB, 107.00%)\x20
  Broker 1002: 250.00 -> 237.00 (-13.00GB, -5.20%)\x20
  Broker 1003: 300.00 -> 206.00 (-94.00GB, -31.33%)\x20
  Broker 1004: 220.00 -> 220.00 (+0.00GB, 0.00%)\x20

WARN:
  [none]

New partition maps:
  a.json

Plan:
  5 partitions to change, 5 replicas to copy (107 GiB); lower bound 107 GiB, gap 0 (optimal)
"""


def test_the_report_of_a_rebalance_is_kafka_kits(home: Home) -> None:
    """The request of kafka-kit's own example, and its answer but for one list.

    Nothing cheaper or closer exists; where the leader of p7 leaves, kafka-kit makes 1003 lead 4 of 8 partitions.
    """
    ran = plan(home, "rebalance", "--brokers", "-1", "--plan", "p.json", "--out-path", ".")
    assert ran.code == 0
    assert ran.stdout.startswith(f"cluster c1\n{REBALANCED}")
    assert "note: without more bytes or copies, spread more evenly (leaders per broker 1 to 4 -> 1 to 3)" in ran.stdout
    assert ran.stdout.splitlines()[-2:] == ["  next:", "kafkakit reassign apply p.json"]
    assert ran.stderr.splitlines()[0] == "planning"
    assert all(line.startswith("planning: ") for line in ran.stderr.splitlines()[1:])
    assert (home.work / "a.json").read_bytes() == (
        b'{"version":1,"partitions":['
        b'{"topic":"a","partition":0,"replicas":[1003,1002]},{"topic":"a","partition":1,"replicas":[1002,1003]},'
        b'{"topic":"a","partition":5,"replicas":[1004,1003]},{"topic":"a","partition":6,"replicas":[1003,1002]},'
        b'{"topic":"a","partition":7,"replicas":[1004,1003]}]}\n'
    )
    made = checked(home)
    assert (made["request"]["command"], made["request"]["brokers"]) == ("topicmappr rebalance", "-1")
    assert made["rules"]["givers"] == [1001]


def test_a_fixed_tolerance_costs_less_and_levels_more_than_kafka_kit(home: Home) -> None:
    """kafka-kit spends 123 GB on a range of 47."""
    ran = plan(home, "rebalance", "--brokers", "-1", "--tolerance", "0.5")
    assert "limits (with a 50.00% tolerance from mean):\n    Sources limited to <= 326.25GB\n" in ran.stdout
    assert "Total relocation volume: 107.00GB" in ran.stdout
    assert "range: 200.00GB -> 31.00GB" in ran.stdout


def test_a_tight_tolerance_is_a_limit(home: Home) -> None:
    data = plan(home, "rebalance", "--brokers", "-1", "--tolerance", "0.01", "-o", "json").json
    free = {b["broker"]: b["free_bytes_after"] for b in data["storage_free"]["brokers"]}
    mean = 217.5 * GIB
    sources, destinations = ({r[side] for r in data["relocations"]} for side in ("source", "destination"))
    assert sources == {1001}
    assert free[1001] <= mean * 1.01
    assert all(free[b] >= mean * 0.99 for b in destinations)
    assert data["goal"]["tolerance"] == 0.01


def test_scale_beats_kafka_kit_and_lists_what_kafka_kit_hides(home: Home) -> None:
    """kafka-kit copies 287 GB for a range of 141."""
    ran = plan(home, "scale", "--brokers", "-1,1005,1006", "--plan", "p.json")
    assert ran.code == 0
    assert "Validating broker list:\n  New broker 1005\n  New broker 1006\n  -\n  2 additional brokers added\n  -\n  OK\n" in ran.stdout  # fmt: skip # noqa: E501
    assert "\nBrokers targeted for partition offloading :\n  1001\n  1004\n  1002\n  1003\n" in ran.stdout
    assert "Free storage mean, harmonic mean: 295.00GB, 227.46GB" in ran.stdout
    assert "\nWARN:\n  [none]\n" in ran.stdout
    data = plan(home, "scale", "--brokers", "-1,1005,1006", "-o", "json").json
    assert data["relocated_bytes"] <= 287 * GIB
    assert data["storage_free"]["range_bytes"]["after"] <= 141 * GIB
    assert {r["destination"] for r in data["relocations"]} <= {1005, 1006}
    checked(home)


def test_scale_without_new_brokers_is_refused(home: Home) -> None:
    ran = plan(home, "scale", "--brokers", "-1")
    assert (ran.code, ran.stdout) == (2, "")
    assert "reassignment requires additional brokers" in one_error(ran)


def test_brokers_may_be_added_but_not_left_out(home: Home) -> None:
    ran = plan(home, "rebalance", "--brokers", "1001,1002,1003")
    assert ran.code == 2
    assert "reassignment only allows broker additions; not so for broker(s) 1004" in one_error(ran)
    assert plan(home, "rebalance", "--brokers", "-1,9").code == 2
    put(home, cluster(dead=[1002]))
    ran = plan(home, "rebalance", "--brokers", "-1")
    assert ran.code == 2
    assert "1002" in one_error(ran)


def test_json_says_everything(home: Home) -> None:
    ran = plan(home, "rebalance", "--brokers", "-1", "-o", "json", "--out-file", "all", "--plan", "p.json")
    data = ran.json
    assert data["kafkakit"] == {"command": "topicmappr rebalance", "schema": 1}
    assert data["sources"]["brokers"] == [1001]
    assert data["sources"]["free_mean_bytes"] == int(217.5 * GIB)
    assert data["goal"] == {
        "kind": "tolerance", "asked": None, "reached": 31 * GIB, "max_moved_bytes": None, "max_moves": None,
        "minimize": "bytes", "tolerance": 0.06,
    }  # fmt: skip
    assert data["relocations"][0] == {
        "topic": "a", "partition": 7, "source": 1001, "destination": 1003, "bytes": 31 * GIB
    }  # fmt: skip
    assert data["relocated_bytes"] == 107 * GIB == sum(r["bytes"] for r in data["relocations"])
    assert [c["partition"] for c in data["changes"]] == [0, 1, 5, 6, 7]
    assert data["certificate"]["gap"] == 0
    assert data["map_files"] == ["all.json", "a.json"]
    assert (data["warnings"], data["stopped_early"]) == ([], False)
    assert [b["free_bytes"] for b in data["after"]["brokers"]] == [f * GIB for f in (207, 237, 206, 220)]


def test_tsv_is_one_relocation_a_line_and_yaml_is_the_json(home: Home) -> None:
    import yaml

    ran = plan(home, "rebalance", "--brokers", "-1", "-o", "tsv")
    assert ran.stdout.splitlines()[0] == f"a\t7\t1001\t1003\t{31 * GIB}"
    assert len(ran.stdout.splitlines()) == 5
    as_yaml = yaml.safe_load(plan(home, "rebalance", "--brokers", "-1", "-o", "yaml").stdout)
    assert as_yaml == plan(home, "rebalance", "--brokers", "-1", "-o", "json").json


def test_thresholds_choose_the_sources(home: Home) -> None:
    head = "Brokers targeted for partition offloading"
    ran = plan(home, "rebalance", "--brokers", "-1", "--storage-threshold-gb", "240", "--storage-threshold", "0.9")
    assert f"{head} (< 240.00GB storage free):\n  1001\n  1004\n" in ran.stdout
    ran = plan(home, "rebalance", "--brokers", "-1", "--storage-threshold", "0")
    assert f"{head} :\n  1001\n  1004\n  1002\n  1003\n" in ran.stdout


def test_without_sources_nothing_moves_and_no_map_is_written(home: Home) -> None:
    flags = ("--storage-threshold", "0.9", "--plan", "p.json", "--out-path", ".")
    ran = plan(home, "rebalance", "--brokers", "-1", *flags)
    assert ran.code == 0
    assert "partition offloading (>= 90.00% threshold below hmean):\n  [none]\n" in ran.stdout
    assert "No partition reassignments, skipping map generation" in ran.stdout
    assert "next:" not in ran.stdout
    assert {p.name for p in home.work.iterdir()} == {"s.json", "p.json"}
    assert checked(home)["moves"] == []


def test_small_partitions_stay(home: Home) -> None:
    data = plan(home, "rebalance", "--brokers", "-1", "--partition-size-threshold", str(20 * 1024), "-o", "json").json
    assert data["smallest_partition_bytes"] == 20 * GIB
    assert data["relocations"]
    assert min(r["bytes"] for r in data["relocations"]) >= 20 * GIB


def test_locality_keeps_copies_in_their_racks(home: Home) -> None:
    flags = ("--brokers", "-1,1005,1006", "--locality-scoped", "--ignore-warns", "--plan", "p.json", "-o", "json")
    data = plan(home, "rebalance", *flags).json
    assert data["relocations"]
    assert all(RACKS[r["source"]] == RACKS[r["destination"]] for r in data["relocations"])
    assert checked(home)["rules"]["locality_scoped"] is True


def test_pins_are_left_alone(home: Home) -> None:
    data = plan(home, "rebalance", "--brokers", "-1", "--pin", "a/7,a/6", "--pin", "a/0", "-o", "json").json
    assert data["relocations"]
    assert not {r["partition"] for r in data["relocations"]} & {0, 6, 7}
    data = plan(home, "rebalance", "--brokers", "-1", "--pin", "a.*", "-o", "json").json
    assert data["relocations"] == []
    ran = plan(home, "rebalance", "--brokers", "-1", "--pin", "a/99")
    assert ran.code == 2
    assert "there is no partition a/99" in one_error(ran)


def test_a_free_range_is_reached_with_the_fewest_bytes(home: Home) -> None:
    """kafka-kit's range, for its bytes or fewer."""
    ran = plan(home, "rebalance", "--brokers", "-1", "--free-range", "31GiB", "--plan", "p.json")
    assert ran.code == 0
    assert "\n  Goal: a range of free bytes of 31 GiB\n" in ran.stdout
    assert "(whatever the goal needs):\n  1001\n" in ran.stdout
    data = plan(home, "rebalance", "--brokers", "-1", "--free-range", "31GiB", "-o", "json").json
    assert data["goal"]["kind"] == "free-range"
    assert data["goal"]["reached"] <= data["goal"]["asked"] == 31 * GIB
    assert data["relocated_bytes"] <= 107 * GIB
    checked(home)


def test_a_budget_alone_buys_the_smallest_range(home: Home) -> None:
    data = plan(home, "rebalance", "--brokers", "-1", "--max-moved-bytes", "107GiB", "-o", "json").json
    assert data["relocated_bytes"] <= 107 * GIB
    assert data["storage_free"]["range_bytes"]["after"] <= 31 * GIB
    data = plan(home, "rebalance", "--brokers", "-1", "--max-moves", "2", "-o", "json").json
    assert 0 < len(data["relocations"]) <= 2
    data = plan(home, "rebalance", "--brokers", "-1", "--max-moves", "0", "-o", "json").json
    assert data["relocations"] == []


def test_a_goal_beyond_the_budget_is_met_as_far_as_it_goes(home: Home) -> None:
    ran = plan(home, "rebalance", "--brokers", "-1", "--free-range", "31GiB", "--max-moved-bytes", "60GiB")
    assert ran.code == 0
    assert "a range of free bytes of 31 GiB (at most 60 GiB)" in ran.stdout
    assert "costs more than the budget allows; reached: --free-range" in ran.stdout


def test_fewest_moves_instead_of_bytes(home: Home) -> None:
    moves = plan(home, "rebalance", "--brokers", "-1", "--free-range", "60GiB", "--minimize", "moves", "-o", "json")
    by_bytes = plan(home, "rebalance", "--brokers", "-1", "--free-range", "60GiB", "-o", "json")
    assert moves.json["certificate"]["unit"] == "replicas"
    assert len(moves.json["relocations"]) <= len(by_bytes.json["relocations"])
    assert moves.json["relocated_bytes"] >= by_bytes.json["relocated_bytes"]


def test_a_band_counts_shares_of_used_space_by_capacity(home: Home) -> None:
    lists = [[1 + i % 2] for i in range(60)]
    disks = {1: 100, 2: 100, 3: 200}
    snapshot = cluster(lists, [1] * 60, {1: 70, 2: 70, 3: 200}, {1: "a", 2: "b", 3: "c"})
    put(home, snapshot)
    ran = plan(home, "rebalance", "--brokers", "-2", "--band", "5%", "--plan", "p.json", "-o", "json")
    used = {b["broker"]: b["used_bytes"] for b in ran.json["after"]["brokers"]}
    for broker, disk in disks.items():
        assert abs(used[broker] - 60 * GIB * disk / 400) <= 0.05 * 60 * GIB * disk / 400
    assert ran.json["goal"]["kind"] == "band"
    assert ran.json["goal"]["reached"] <= 0.05
    checked(home)


def test_a_growing_range_of_free_space_is_a_note_where_the_goal_wants_it(home: Home) -> None:
    put(home, cluster([[1]] * 10, [1] * 10, {1: 100, 2: 100}, {1: "a", 2: "b"}))
    ran = plan(home, "rebalance", "--brokers", "-2", "--band", "10%")
    assert ran.code == 0
    assert "note: broker free storage range increased" in ran.stdout


def test_maps_are_written_beside_a_plan_only_when_asked_for(home: Home) -> None:
    put(home, cluster([[1]] * 60, [1] * 60, {1: 100, 2: 100}, {1: "a", 2: "b"}))
    words = ("rebalance", "--brokers", "-2", "--band", "10%")

    def written(*more: str) -> set[str]:
        before = {p.name for p in home.work.rglob("*.json")}
        ran = plan(home, *words, *more)
        assert ran.code == 0
        assert ("New partition maps:" in ran.stdout) is ("a.json" in " ".join(map(str, home.work.rglob("*.json"))))
        return {str(p.relative_to(home.work)) for p in home.work.rglob("*.json")} - before

    assert written("--plan", "plans/of/today/p.json") == {"plans/of/today/p.json"}
    assert written("--plan", "plans/of/today/p.json", "--out-path", "maps") == {"maps/a.json", "plans/of/today/p.json"}


def test_partitions_that_stay_become_one_line_where_there_are_many(home: Home) -> None:
    put(home, cluster([[1]] * 100, [1] * 100, {1: 100, 2: 100}, {1: "a", 2: "b"}))
    shown = plan(home, "rebalance", "--brokers", "-2", "--band", "10%").stdout
    assert "no-op" not in shown
    moved = shown.count(" replaced broker")
    assert 0 < moved < 60
    assert f"  {100 - moved} partitions unchanged\n" in shown


WIDER = ([[1001], [1002]], [60, 60], {1001: 100, 1002: 101, 1003: 300}, {1001: "a", 1002: "b", 1003: "c"})


@pytest.mark.parametrize("command", ["rebalance", "scale"])
def test_a_growing_range_stops_maps_until_told_otherwise(home: Home, command: str) -> None:
    """kafka-kit forgets this warning in scale; its left side counts brokers in use, its right side all."""
    put(home, cluster(*WIDER))
    flags = ("--brokers", "-2", "--storage-threshold", "0") if command == "rebalance" else ("--brokers", "-2")
    ran = plan(home, command, *flags, "--plan", "p.json", "--html", "r.html")
    assert ran.code == 1
    assert "\nWARN:\n  broker free storage range increased\n" in ran.stdout
    assert "\n  Warnings encountered, partition map not created. Override with --ignore-warns.\n" in ran.stdout
    assert "broker free storage range increased" in one_error(ran)
    assert {p.name for p in home.work.iterdir()} == {"s.json"}
    assert plan(home, command, *flags, "-o", "json").json["error"]["exit_code"] == 1
    ran = plan(home, command, *flags, "--plan", "p.json", "--html", "r.html", "--ignore-warns")
    assert ran.code == 0
    assert {p.name for p in home.work.iterdir()} == {"s.json", "p.json", "r.html"}
    checked(home)


def test_the_environment_ignores_warnings_as_kafka_kits_does(home: Home) -> None:
    put(home, cluster(*WIDER))
    words = ("topicmappr", "scale", "--topics", "a", "--snapshot", "s.json", "--brokers", "-2")
    assert home.run(*words, env={"TOPICMAPPR_IGNORE_WARNS": "true"}).code == 0


def test_full_disks_take_nothing_and_head_room_stays(home: Home) -> None:
    """Broker 2 could take 30 GiB, but may only be filled to a part of its disk."""
    world = ([[1]] * 30, [2] * 30, {1: 40, 2: 100}, {1: "a", 2: "b"})
    put(home, cluster(*world))
    goal = ("--brokers", "-2", "--max-moved-bytes", "1TiB", "-o", "json")
    assert plan(home, "rebalance", *goal).json["relocated_bytes"] == 30 * GIB
    assert plan(home, "rebalance", *goal, "--max-disk-use", "20%").json["relocated_bytes"] == 20 * GIB
    assert plan(home, "rebalance", *goal, "--head-room", "80GiB").json["relocated_bytes"] == 10 * GIB
    ran = plan(home, "rebalance", "--brokers", "-2", "--free-range", "1GiB", "--head-room", "80GiB", "--plan", "p.json")
    assert ran.code == 4
    assert "cannot be reached" in one_error(ran)
    assert "hint: the nearest that may be: --free-range" in ran.stderr
    assert not (home.work / "p.json").exists()


def test_broken_sets_are_mended_on_request(home: Home) -> None:
    lists = [[1001, 1005], [1001, 1005], [1002, 1003], [1003, 1004]]
    put(home, cluster(lists, [5] * 4))
    words = ("--brokers", "-2", "--max-moved-bytes", "100GiB", "--plan", "p.json")
    assert plan(home, "rebalance", *words, "--max-rack-violations", "0").code == 0
    after = {(m["topic"], m["partition"]): m["after"] for m in checked(home)["moves"]}
    for i in (0, 1):
        assert len({RACKS[b] for b in after["a", i]}) == 2


def test_racks_may_repeat_beyond_a_minimum(home: Home) -> None:
    put(home, cluster([[1001, 1002]] * 10, [5] * 10))
    flags = ("--brokers", "-2", "--max-moved-bytes", "1TiB", "--plan", "p.json", "-o", "json")
    apart = plan(home, "rebalance", *flags).json["storage_free"]["range_bytes"]["after"]
    repeated = plan(home, "rebalance", *flags, "--min-rack-ids", "1").json["storage_free"]["range_bytes"]["after"]
    assert repeated <= apart
    assert checked(home)["rules"]["min_rack_ids"] == 1


def test_leaders_are_evened_out_on_request(home: Home) -> None:
    data = plan(home, "rebalance", "--brokers", "-1", "--optimize-leadership", "--plan", "p.json", "-o", "json").json
    leaders = [b["leaders"] for b in data["after"]["brokers"]]
    assert leaders == [1, 3, 2, 2]  # broker 1001 keeps a single replica; without the flag 1003 leads 4
    assert data["relocated_bytes"] == 107 * GIB
    checked(home)


def test_verbose_shows_ten_tries_at_most(home: Home) -> None:
    rng = random.Random(5)
    lists = [rng.sample(range(1, 9), 2) for _ in range(300)]
    sizes = [rng.randint(1, 30) for _ in lists]
    racks = {b: "abcd"[b % 4] for b in range(1, 9)}
    put(home, cluster(lists, sizes, {b: 500 + 180 * b for b in racks}, racks))
    ran = plan(home, "rebalance", "--brokers", "-1", "--verbose", "--max-moved-bytes", "400GiB")
    lines = ran.stdout.splitlines()
    start = lines.index("Top 10 reassignment map results")
    assert lines[start - 1] == "  -"
    shown = lines[start + 1 : lines.index("", start)]
    assert 1 <= len(shown) <= 10
    assert all(line.startswith("  goal: ") and " -> range: " in line for line in shown)
    assert "Top 10" not in plan(home, "rebalance", "--brokers", "-1", "--max-moved-bytes", "400GiB").stdout


def test_exit_code_3_only_on_request_and_only_with_changes(home: Home) -> None:
    assert plan(home, "rebalance", "--brokers", "-1", "--exit-code").code == 3
    assert plan(home, "rebalance", "--brokers", "-1").code == 0
    assert plan(home, "rebalance", "--brokers", "-1", "--exit-code", "--pin", "a").code == 0


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--band", "5%", "--free-range", "1GiB"], "--band and --free-range contradict each other"),
        (["--band", "5%", "--tolerance", "0.2"], "--tolerance has no effect with an explicit goal"),
        (["--band", "five"], "--band: 'five' is not a percentage"),
        (["--band", "100001%"], "--band: 100001% is more than 100000%"),
        (["--free-range", "much"], "--free-range: 'much' is not a size"),
        (["--max-moved-bytes", "-1"], "--max-moved-bytes: '-1' is not a size"),
        (["--max-moves", "-1"], "--max-moves"),
        (["--head-room", "x"], "--head-room: 'x' is not a size"),
        (["--max-disk-use", "0.9"], "--max-disk-use"),
        (["--tolerance", "1"], "--tolerance: 1.0 is not between 0 and 1"),
        (["--tolerance", "nan"], "--tolerance: nan is not between 0 and 1"),
        (["--storage-threshold", "-0.1"], "--storage-threshold: -0.1 is not a number of at least 0"),
        (["--storage-threshold-gb", "nan"], "--storage-threshold-gb: nan is not a number of at least 0"),
        (["--partition-limit", "0"], "--partition-limit"),
        (["--partition-size-threshold", "-1"], "--partition-size-threshold"),
        (["--min-rack-ids", "-1"], "--min-rack-ids"),
        (["--max-rack-violations", "-1"], "--max-rack-violations"),
        (["--minimize", "time"], "--minimize"),
        (["--out-path", f"{__file__}/x"], "--out-path: "),
        (["--out-path", f"{__file__}/x"], "is not a folder"),
        (["--plan", f"{__file__}/p.json"], "--plan: "),
        (["--pin", "nothing"], "--pin: no topic matches 'nothing' among those selected"),
    ],
)
def test_requests_that_cannot_work_are_refused(home: Home, flags: list[str], reason: str) -> None:
    ran = plan(home, "rebalance", "--brokers", "-1", *flags)
    assert (ran.code, ran.stdout) == (2, "")
    assert reason in one_error(ran)
    assert {p.name for p in home.work.iterdir()} == {"s.json"}


@pytest.mark.parametrize("flag", ["--storage-threshold", "--storage-threshold-gb"])
def test_scale_has_no_thresholds(home: Home, flag: str) -> None:
    assert plan(home, "scale", "--brokers", "-2", flag, "0.5").code == 2


def test_brokers_and_topics_are_demanded(home: Home) -> None:
    ran = home.run("topicmappr", "rebalance", "--topics", "a", "--snapshot", "s.json")
    assert ran.code == 2
    assert "--brokers" in one_error(ran)
    ran = home.run("topicmappr", "rebalance", "--brokers", "-1", "--snapshot", "s.json")
    assert ran.code == 2
    assert "--topics" in one_error(ran)


def test_unknown_sizes_stop_the_plan(home: Home) -> None:
    put(home, cluster(sizes=[None, *SIZES[1:]]))
    ran = plan(home, "rebalance", "--brokers", "-1")
    assert ran.code == 75
    assert "no size is known for a-0" in one_error(ran)
    put(home, cluster(free={**FREE, 1003: None}))
    ran = plan(home, "rebalance", "--brokers", "-1")
    assert ran.code == 75
    assert "1003" in one_error(ran)


def test_old_sizes_stop_the_plan_only_with_a_limit(home: Home) -> None:
    ran = plan(home, "rebalance", "--brokers", "-1", "--metrics-age", "5")
    taken = datetime(2026, 11, 21, tzinfo=UTC)
    if datetime.now(tz=UTC) > taken:
        assert ran.code == 75
        assert "Metrics metadata is older than allowed" in one_error(ran)


def test_duplicates_are_told_of(home: Home) -> None:
    ran = plan(home, "rebalance", "--brokers", "1001,1002,1003,1004,1001")
    assert ran.code == 0
    assert "ID 1001 supplied as duplicate, excluding" in ran.stderr


def test_gos_spelling_of_switches(home: Home) -> None:
    assert plan(home, "rebalance", "--brokers", "-1", "--locality-scoped=false", "--verbose=true").code == 0


def test_no_copies_are_lost_where_kafka_kit_loses_them(home: Home) -> None:
    """Its locality-scoped moves go to brokers that hold the partition already."""
    racks = {1: "a", 2: "a", 3: "b"}
    put(home, cluster([[1, 2]] * 8, [10] * 8, {1: 20, 2: 300, 3: 300}, racks))
    data = plan(home, "rebalance", "--brokers", "-1,3", "--locality-scoped", "-o", "json").json
    assert data["relocations"] == []


def test_new_brokers_take_their_share(home: Home) -> None:
    racks: dict[int, str | None] = {b: "abc"[b % 3] for b in range(1, 7)}
    lists = [[1 + i % 3, 1 + (i + 1) % 3] for i in range(120)]
    put(home, cluster(lists, [3] * 120, dict.fromkeys(range(1, 4), 200) | dict.fromkeys(range(4, 7), 440), racks))
    words = ("topicmappr", "add-brokers", "--brokers", "4,5,6", "--snapshot", "s.json", "--plan", "p.json")
    ran = home.run(*words)
    assert ran.code == 0
    assert "Goal: the band of 10%" in ran.stdout
    assert "partition maps" not in ran.stdout
    assert {p.name for p in home.work.iterdir()} == {"s.json", "p.json"}
    data = home.run(*words, "-o", "json").json
    assert data["kafkakit"]["command"] == "topicmappr add-brokers"
    assert all(0.9 * 120 <= b["used_bytes"] / GIB <= 1.1 * 120 for b in data["after"]["brokers"])
    assert checked(home)["request"]["brokers"] == "4,5,6"


def test_added_brokers_may_hold_replicas_already_but_must_live(home: Home) -> None:
    words = ("topicmappr", "add-brokers", "--snapshot", "s.json", "--band", "100%")
    assert home.run(*words, "--brokers", "1004,1005").code == 0
    ran = home.run(*words, "--brokers", "1005,77")
    assert ran.code == 2
    assert "broker(s) 77 are not live" in one_error(ran)
    ran = home.run(*words, "--brokers", "-2")
    assert ran.code == 2
    assert "name the brokers to add" in one_error(ran)


def test_same_input_same_bytes_across_processes_and_hash_seeds(home: Home) -> None:
    for command, flags in (("rebalance", ["--brokers", "-1"]), ("rebalance", ["--brokers", "-2", "--band", "60%"]),
                           ("scale", ["--brokers", "-2"])):  # fmt: skip
        seen = set()
        for seed in ("0", "1", "77"):
            words = [sys.executable, "-m", "kafkakit", "topicmappr", command, "--topics", "a", "--snapshot", "s.json"]
            ran = subprocess.run(
                [*words, *flags, "--plan", "p.json", "--out-path", ".", "--verbose"],
                capture_output=True,
                check=True,
                cwd=home.work,
                env={**home.environment(), "PYTHONHASHSEED": seed},
            )
            seen.add((ran.stdout, (home.work / "p.json").read_bytes(), (home.work / "a.json").read_bytes()))
        assert len(seen) == 1


SLOW = """
import signal, sys, time
from kafkakit.cli import root as cli
from kafkakit.placement.by_size import tightening as search

def waiting(function):
    found = []
    def held(*args, **words):
        if len(found) == FOUND:
            found.append(None)
            sys.stderr.write("held\\n"); sys.stderr.flush()
            watcher = signal.getsignal(signal.SIGINT).__self__
            while not watcher.stopped() or FOREVER:
                time.sleep(0.01)
        answer = function(*args, **words)
        bought = getattr(answer, "moves", 0) and answer.succeeded and answer.cost <= 900 << 30
        found.extend([answer] if bought else [])
        return answer
    return held

search.FUNCTION = waiting(search.FUNCTION)
sys.exit(cli.run(sys.argv[1:]))
"""


def crowded(home: Home) -> None:
    """A snapshot of 160 partitions on 8 brokers: too many for a search to the end."""
    rng = random.Random(7)
    lists = [rng.sample(range(1, 9), 2) for _ in range(160)]
    racks = {b: "abcd"[b % 4] for b in range(1, 9)}
    put(home, cluster(lists, [rng.randint(1, 300) for _ in lists], {b: 500 + 180 * b for b in racks}, racks))


def interrupted(home: Home, function: str, *, found: int, presses: int) -> Ran:
    """Run a real process that waits for Ctrl-C in a function of the search, once it has found so many plans."""
    crowded(home)
    script = SLOW.replace("FOUND", str(found)).replace("FOREVER", str(presses > 1)).replace("FUNCTION", function)
    process = subprocess.Popen(
        [sys.executable, "-c", script, "topicmappr", "rebalance", "--topics", "a", "--brokers", "-1",
         "--max-moved-bytes", "900GiB", "--snapshot", "s.json", "--plan", "p.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home.work,
        env={**home.environment(), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stderr is not None
    told = []
    try:
        for awaited in ("held", "stopping")[:presses]:
            for line in process.stderr:
                told.append(line)
                if line.startswith(awaited):
                    break
            os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=280)
    finally:
        process.kill()
    return Ran(process.returncode, out, "".join(told) + err)


def test_ctrl_c_takes_the_best_plan_so_far(home: Home) -> None:
    ran = interrupted(home, "any_plan", found=1, presses=1)
    assert ran.code == 0, ran.stderr
    assert "stopping: the best plan found so far will be used; press Ctrl-C again to end at once" in ran.stderr
    assert "note: the search was stopped early; this is the best plan found until then" in ran.stdout
    assert checked(home)["moves"]


def test_ctrl_c_before_any_plan_writes_nothing(home: Home) -> None:
    ran = interrupted(home, "tightest_relaxed", found=0, presses=1)
    assert (ran.code, ran.stdout) == (130, "")
    assert "interrupted before a plan was found" in one_error(ran)
    assert {p.name for p in home.work.iterdir()} == {"s.json"}


def test_a_second_ctrl_c_ends_at_once(home: Home) -> None:
    ran = interrupted(home, "any_plan", found=1, presses=2)
    assert (ran.code, ran.stdout) == (130, "")
    assert one_error(ran) == "error: interrupted; nothing was written"
    assert {p.name for p in home.work.iterdir()} == {"s.json"}


@pytest.mark.parametrize("moves", [1, 3, 8])
def test_a_budget_of_few_moves_buys_something(home: Home, moves: int) -> None:
    crowded(home)
    ran = home.run("topicmappr", "rebalance", "--topics", "a", "--brokers", "-1", "--snapshot", "s.json",
                   "--max-moves", str(moves), "-o", "json")  # fmt: skip
    data = json.loads(ran.stdout)
    assert 0 < len(data["relocations"]) <= moves
    before, after = ([row["free_bytes"] for row in data[when]["brokers"]] for when in ("before", "after"))
    assert max(after) - min(after) < max(before) - min(before)


def test_the_goal_that_a_refusal_names_can_be_had(home: Home) -> None:
    crowded(home)
    requested = ["topicmappr", "rebalance", "--topics", "a", "--brokers", "-1", "--snapshot", "s.json"]
    refused = home.run(*requested, "--band", "0%")
    assert refused.code == 4
    named = re.search(r"a plan was found for --band (\S+)", refused.stderr)
    assert named is not None
    assert home.run(*requested, "--band", named[1]).code == 0
