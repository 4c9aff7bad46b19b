"""`topicmappr repair` replaces offline replicas only; `topicmappr drain --log-dir` empties one log dir."""

import json
from typing import Any

import pytest

from tests.invariants.log_dirs import verify_space
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home, Ran

GB = 10**9
OFFLINE = {"total_bytes": None, "usable_bytes": None, "error": "KafkaStorageError"}


def log_dir(path: str, **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "total_bytes": 1000 * GB,
        "usable_bytes": 500 * GB,
        "error": None,
        "cordoned": False,
        **more,
    }


def broker(number: int, rack: str | None, *dirs: dict[str, Any], state: str = "alive") -> dict[str, Any]:
    return {
        "id": number,
        "rack": rack,
        "host": f"h{number}",
        "port": 9092,
        "state": state,
        "log_dirs": list(dirs),
        "log_dirs_error": None,
        "storage_free_bytes": None,
    }


def partition(
    number: int, replicas: list[int], where: dict[int, str], size: int = GB, isr: list[int] | None = None
) -> dict[str, Any]:
    """A partition with copies in these dirs; in sync are those that have one unless others are named."""
    synced = sorted(where) if isr is None else isr
    return {
        "partition": number,
        "replicas": replicas,
        "isr": synced,
        "leader": synced[0] if synced else None,
        "size_bytes": None,
        "replica_bytes": {str(b): size for b in where},
        "replica_dirs": {str(b): path for b, path in where.items()},
        "adding": [],
        "removing": [],
    }


def world(brokers: list[dict[str, Any]], *partitions: dict[str, Any]) -> dict[str, Any]:
    return {
        "kafkakit": {"kind": "cluster-snapshot", "schema": 1},
        "cluster_id": "c1",
        "taken_at": "2026-11-28T04:00:00Z",
        "source": "test",
        "brokers": brokers,
        "topics": [{"name": "t", "partitions": list(partitions), "topic_id": None, "configs": {}}],
        "kafka_version": "3.9",
        "reassignments": [],
        "sizes_taken": True,
        "unanswered_brokers": {},
    }


def run(home: Home, state: dict[str, Any], *words: str) -> Ran:
    (home.work / "s.json").write_text(json.dumps(state))
    return home.run("topicmappr", *words, "--snapshot", "s.json")


def planned(home: Home, state: dict[str, Any], *words: str) -> dict[str, Any]:
    ran = run(home, state, *words, "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    plan: dict[str, Any] = json.loads((home.work / "p.json").read_bytes())
    verify_plan(plan, state)
    verify_space(plan, state)
    return plan


def lists(plan: dict[str, Any]) -> dict[int, list[int]]:
    return {m["partition"]: m["after"] for m in plan["moves"]}


FOUR = [
    broker(1, "a", log_dir("/d0"), log_dir("/d1")),
    broker(2, "b", log_dir("/d0"), log_dir("/d1")),
    broker(3, "c", log_dir("/d0"), log_dir("/d1", **OFFLINE)),
    broker(4, "c", log_dir("/d0"), log_dir("/d1")),
]
# Two of three replicas of broker 3 were on its failed dir.
HALF_LOST = world(
    FOUR,
    partition(0, [1, 2, 3], {1: "/d0", 2: "/d0"}),
    partition(1, [3, 1, 2], {1: "/d0", 2: "/d0"}),
    partition(2, [1, 2, 3], {1: "/d0", 2: "/d0", 3: "/d0"}),
)


@pytest.mark.parametrize("words", [(), ("--brokers", "3"), ("--placement", "storage")])
def test_only_replicas_of_the_failed_dir_are_replaced(home: Home, words: tuple[str, ...]) -> None:
    plan = planned(home, HALF_LOST, "repair", *words)
    assert {n: sorted(row) for n, row in lists(plan).items()} == {0: [1, 2, 4], 1: [1, 2, 4]}
    assert plan["certificate"]["objective"] == plan["certificate"]["lower_bound"] == 2
    assert plan["moves"][1]["after"][0] in (1, 2)  # who led from the failed dir hands over to a replica in sync


def test_check_names_the_command_that_repairs_a_failed_dir(home: Home) -> None:
    shown = run(home, HALF_LOST, "check").stdout
    assert "topicmappr repair --topics '.*' --brokers 3" in shown
    assert "topicmappr drain" not in shown


def test_a_failed_dir_without_another_broker_in_its_rack_is_told(home: Home) -> None:
    ran = run(home, {**HALF_LOST, "brokers": FOUR[:3]}, "repair")
    assert ran.code == 4
    assert "2 replica(s) must leave" not in ran.stdout
    assert "t-0, t-1" in ran.stderr + ran.stdout


def test_replicas_of_dead_brokers_are_replaced_with_them(home: Home) -> None:
    state = world(
        [*FOUR, broker(5, "b", log_dir("/d0"), state="missing")],
        partition(0, [1, 5, 3], {1: "/d0"}),
        partition(1, [5, 1], {1: "/d0"}),
        partition(2, [1, 4], {1: "/d0", 4: "/d0"}),
    )
    found = lists(planned(home, state, "repair"))
    assert (set(found), sorted(found[0]), found[1][0]) == ({0, 1}, [1, 2, 4], 1)
    only = lists(planned(home, state, "repair", "--brokers", "5"))
    assert (set(only), sorted(only[0])) == ({0, 1}, [1, 2, 3])


def test_what_is_only_in_the_failed_dir_is_left_with_a_warning(home: Home) -> None:
    lost = {**partition(0, [3, 1], {1: "/d0"}, isr=[3]), "leader": None}
    state = world(FOUR, lost, partition(1, [3], {3: "/d0"}))
    ran = run(home, state, "repair", "--plan", "p.json", "--ignore-warns")
    assert json.loads((home.work / "p.json").read_bytes())["moves"] == []
    assert "t p0: no live copy in sync" in ran.stdout


def test_nothing_offline_is_nothing_to_do(home: Home) -> None:
    plan = planned(home, world(FOUR, partition(0, [1, 3], {1: "/d0", 3: "/d0"})), "repair")
    assert (plan["moves"], plan["certificate"]["objective"]) == ([], 0)


def test_a_budget_takes_the_partition_with_the_fewest_copies_first(home: Home) -> None:
    state = world(
        FOUR,
        partition(0, [1, 2, 3], {1: "/d0", 2: "/d0"}),
        partition(1, [1, 3], {1: "/d0"}),
    )
    assert list(lists(planned(home, state, "repair", "--max-moves", "1"))) == [1]


CORDONED = log_dir("/d1", cordoned=True)
# Two replicas are in the cordoned dir of the one broker.
ONE = world(
    [broker(1, "a", log_dir("/d0"), CORDONED)],
    partition(0, [1], {1: "/d1"}),
    partition(1, [1], {1: "/d1"}),
    partition(2, [1], {1: "/d0"}),
)


def inside(plan: dict[str, Any]) -> list[tuple[int, int, str, str]]:
    return [(m["partition"], m["broker"], m["source_dir"], m["target_dir"]) for m in plan["dir_moves"]]


def test_everything_leaves_a_log_dir_for_others_of_its_broker(home: Home) -> None:
    plan = planned(home, ONE, "drain", "--brokers", "1", "--log-dir", "/d1")
    assert inside(plan) == [(0, 1, "/d1", "/d0"), (1, 1, "/d1", "/d0")]
    assert plan["moves"] == []
    used = {d["path"]: d["used_after_bytes"] for d in plan["dirs"]}
    assert used == {"/d0": 3 * GB, "/d1": 0}


def test_the_command_that_check_prints_for_a_cordoned_dir_empties_it(home: Home) -> None:
    shown = run(home, ONE, "check").stdout
    (line,) = [found for found in shown.splitlines() if found.startswith("  cordoned-dir: ")]
    words = line.split("topicmappr ")[1].replace("'.*'", ".*").split()
    ran = home.run("topicmappr", *words, "--plan", "p.json")
    assert ran.code == 0
    plan = json.loads((home.work / "p.json").read_bytes())
    after = json.loads(json.dumps(ONE))
    for number, _, _, target in inside(plan):
        after["topics"][0]["partitions"][number]["replica_dirs"]["1"] = target
    assert "cordoned-dir" not in run(home, after, "check").stdout


def test_what_fits_in_no_other_dir_goes_to_another_broker(home: Home) -> None:
    brokers = [
        broker(1, "a", log_dir("/d0", usable_bytes=70 * GB), CORDONED),
        broker(2, "a", log_dir("/d0")),
        broker(3, "b", log_dir("/d0")),
    ]
    state = world(
        brokers,
        partition(0, [1, 3], {1: "/d1", 3: "/d0"}, 15 * GB),
        partition(1, [1, 3], {1: "/d1", 3: "/d0"}, 30 * GB),
        partition(2, [1, 3], {1: "/d0", 3: "/d0"}, GB),
    )
    plan = planned(home, state, "drain", "--brokers", "1", "--log-dir", "/d1")
    assert inside(plan) == [(0, 1, "/d1", "/d0")]  # 20 GB are left of what apply fills
    assert {n: sorted(row) for n, row in lists(plan).items()} == {1: [2, 3]}
    assert plan["certificate"]["objective"] == plan["certificate"]["lower_bound"] == 1
    alone = run(home, {**state, "brokers": [brokers[0], brokers[2]]}, "drain", "--brokers", "1", "--log-dir", "/d1")
    assert alone.code == 4
    assert "t-1" in alone.stderr + alone.stdout


def test_pinned_partitions_stay_in_the_dir_and_are_named(home: Home) -> None:
    plan = planned(home, ONE, "drain", "--brokers", "1", "--log-dir", "/d1", "--pin", "t/1")
    assert inside(plan) == [(0, 1, "/d1", "/d0")]
    assert any("t-1" in note for note in plan["notes"])


def test_an_open_dir_is_emptied_and_the_plan_says_that_it_may_fill_again(home: Home) -> None:
    state = json.loads(json.dumps(ONE))
    state["brokers"][0]["log_dirs"][1]["cordoned"] = False
    plan = planned(home, state, "drain", "--brokers", "1", "--log-dir", "/d1")
    assert len(inside(plan)) == 2
    assert any("1:/d1 is not cordoned" in note for note in plan["notes"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--brokers", "1", "--log-dir", "/d9"), "broker 1 has no log dir /d9"),
        (("--brokers", "3", "--log-dir", "/d1"), "log dir /d1 of broker 3 is offline, nothing can be moved out of it"),
        (("--brokers", "7", "--log-dir", "/d1"), "broker 7 is not in this cluster"),
    ],
)
def test_a_dir_that_cannot_be_emptied_is_refused(home: Home, words: tuple[str, ...], says: str) -> None:
    ran = run(home, HALF_LOST, "drain", *words)
    assert ran.code == 2
    assert says in ran.stderr
