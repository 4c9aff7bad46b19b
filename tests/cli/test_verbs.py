"""The plain requests from a snapshot file: stdout, stderr and exit codes, plan files, reports, bad input."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.test_rebuild import write_snapshot
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home, Ran

WORLD: dict[str, Any] = {
    "brokers": [
        {"id": 1, "rack": "a"},
        {"id": 2, "rack": "a"},
        {"id": 3, "rack": "b"},
        {"id": 4, "rack": "b"},
        {"id": 5, "rack": "c", "state": "missing"},
    ],
    "topics": {"orders": [[1, 3], [3, 2], [1, 4]], "pay.ments": [[1, 2], [4, 3]]},
}
DEAD = {**WORLD, "topics": {"orders": [[1, 3], [5], [5, 4]]}, "isr": {"orders": [[1, 3], [5], [4]]}}


def run(home: Home, world: dict[str, Any], *arguments: str) -> Ran:
    write_snapshot(world, str(home.work / "snapshot.json"))
    return home.run("topicmappr", *arguments, "--snapshot", "snapshot.json")


def plan_of(home: Home) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((home.work / "p.json").read_bytes())
    verify_plan(plan, json.loads((home.work / "snapshot.json").read_bytes()))
    return plan


def one_error(ran: Ran) -> str:
    assert "Traceback" not in ran.stdout + ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("error:")]
    return line


def test_drain_plans_reports_and_names_the_next_command(home: Home) -> None:
    ran = run(home, WORLD, "drain", "--brokers", "1", "--plan", "my plan.json", "--report", "r.html")
    assert ran.code == 0
    assert ran.stderr == "planning\n"
    assert ran.stdout.startswith("cluster c1\nDrain brokers 1\n  topics: orders, pay.ments\n")
    assert "orders p0: [1 3] -> [3 2] replaced broker" in ran.stdout
    assert "3 replicas to copy; lower bound 3 replicas, gap 0 (optimal)" in ran.stdout
    assert "kafkakit reassign apply 'my plan.json'" in ran.stdout.splitlines()
    assert "kafkakit reassign rollback" in (home.work / "r.html").read_text()


def test_a_drain_of_a_dead_broker_is_an_ordinary_drain(home: Home) -> None:
    world = {**WORLD, "topics": {"orders": [[5, 1], [3, 5]]}, "isr": {"orders": [[1], [3]]}}
    ran = run(home, world, "drain", "--brokers", "5", "--plan", "p.json", "-o", "json")
    assert ran.code == 0
    assert [c["after"] for c in ran.json["changes"]] == [[1, 4], [3, 2]]
    assert all(5 not in m["after"] for m in plan_of(home)["moves"])


def test_a_partition_without_a_live_copy_stops_the_drain_until_told_otherwise(home: Home) -> None:
    ran = run(home, DEAD, "drain", "--brokers", "5", "--plan", "p.json")
    assert ran.code == 1
    assert "orders p1: no live copy in sync" in one_error(ran)
    assert "No plan written" in ran.stdout
    assert not (home.work / "p.json").exists()
    ran = run(home, DEAD, "drain", "--brokers", "5", "--plan", "p.json", "--ignore-warns")
    assert ran.code == 0
    assert [m["partition"] for m in plan_of(home)["moves"]] == [2]


def test_a_drain_without_room_is_infeasible_and_names_the_partitions(home: Home) -> None:
    ran = run(home, WORLD, "drain", "--brokers", "1", "--to", "3,4", "--plan", "p.json", "--report", "r.html")
    assert ran.code == 4
    assert "orders-0, orders-2" in one_error(ran)
    assert "hint: --ignore-warns plans the rest and leaves 2 partition(s) as they are" in ran.stderr
    assert not list(home.work.glob("*.html")) + list(home.work.glob("p.json"))
    ran = run(home, WORLD, "drain", "--brokers", "1", "--to", "3,4", "--plan", "p.json", "--ignore-warns")
    assert ran.code == 0
    assert [(m["topic"], m["partition"]) for m in plan_of(home)["moves"]] == [("pay.ments", 0)]


def test_json_of_an_infeasible_drain_is_one_error_object(home: Home) -> None:
    ran = run(home, WORLD, "drain", "--brokers", "1", "--to", "3", "-o", "json")
    assert (ran.code, ran.json["error"]["exit_code"]) == (4, 4)


def test_fix_racks_mends_and_tells_what_it_cannot(home: Home) -> None:
    world = {**WORLD, "topics": {"orders": [[1, 2], [1, 2, 3], [3, 1]]}}
    ran = run(home, world, "fix-racks", "--plan", "p.json")
    assert ran.code == 4
    assert "orders-1: 3 replicas in 2 rack(s) need 1 more, and the live brokers have 0 unused" in one_error(ran)
    ran = run(home, world, "fix-racks", "--plan", "p.json", "--ignore-warns", "-o", "tsv")
    assert ran.code == 0
    (line,) = ran.stdout.splitlines()
    assert line.split("\t")[:3] == ["orders", "0", "1,2"]
    assert plan_of(home)["certificate"]["lower_bound"] == 1
    assert run(home, world, "fix-racks", "--min-rack-ids", "2").code == 0
    assert run(home, world, "fix-racks", "--min-rack-ids", "2", "--exit-code").code == 3
    assert run(home, world, "fix-racks", "--spread", "--plan", "p.json").code == 0
    assert len(plan_of(home)["moves"]) == 1


def test_set_replication_up_and_down(home: Home) -> None:
    assert run(home, WORLD, "set-replication", "1", "--topics", "orders", "--plan", "p.json").code == 0
    assert [m["after"] for m in plan_of(home)["moves"]] == [[1], [3], [1]]
    ran = run(home, WORLD, "set-replication", "3", "--topics", "orders", "--plan", "p.json", "--min-rack-ids", "2")
    assert ran.code == 0
    assert ran.stdout.startswith("cluster c1\nSet the replication factor to 3\n")
    assert [len(m["after"]) for m in plan_of(home)["moves"]] == [3, 3, 3]
    ran = run(home, WORLD, "set-replication", "3", "--topics", "orders")
    assert ran.code == 4
    assert "needs 3 racks" in one_error(ran)


def test_place_writes_the_map_and_the_command(home: Home) -> None:
    ran = run(home, WORLD, "place", "new", "--partitions", "2", "--replication", "2")
    assert ran.code == 0
    entries = json.loads((home.work / "new.json").read_bytes())["partitions"]
    assert [e["partition"] for e in entries] == [0, 1]
    argument = ",".join(":".join(map(str, e["replicas"])) for e in entries)
    command = ran.stdout.splitlines()[-1]
    assert command == (
        f"kafka-topics.sh --bootstrap-server HOST:PORT --create --topic new --replica-assignment {argument}"
    )
    ran = run(home, WORLD, "place", "new", "--topics-like", "orders", "-o", "json")
    assert ran.json["replica_assignment"].count(",") == 2


def test_place_names_the_command_that_adds_partitions_to_a_topic(home: Home) -> None:
    ran = run(home, WORLD, "place", "orders", "--partitions", "6", "--replication", "2")
    assert ran.code == 0
    entries = json.loads((home.work / "orders.json").read_bytes())["partitions"]
    assert [e["partition"] for e in entries] == [3, 4, 5]
    argument = ",".join(["1:3,3:2,1:4", *(":".join(map(str, e["replicas"])) for e in entries)])
    assert ran.stdout.splitlines()[-1] == (
        "kafka-topics.sh --bootstrap-server HOST:PORT --alter --topic orders --partitions 6 "
        f"--replica-assignment {argument}"
    )


UNEVEN = {
    "brokers": [{"id": n, "rack": "abcd"[n % 4]} for n in range(1, 9)],
    "topics": {"t": [[1, 2, 3, 4], [2, 3, 4, 1, 5, 6], [3, 4, 5, 6, 7, 8, 1], [4, 5, 6, 7]], "u": [[1, 2, 3, 4]]},
}


@pytest.mark.parametrize(
    ("options", "rule", "factor"),
    [(("--replication", "4"), "high-replication", "4"), ((), "uneven-replication", "4"),
     (("--replication", "5"), "high-replication", "5"), (("--replication", "6"), "high-replication", "6")],
)  # fmt: skip
def test_check_finds_partitions_with_more_replicas_than_asked_for(
    home: Home, options: tuple[str, ...], rule: str, factor: str
) -> None:
    ran = run(home, UNEVEN, "check", "--min-rack-ids", "4", *options, "-o", "json", "--fail-on", "warning")
    assert ran.code == 1
    (found,) = (f for f in ran.json["findings"] if f["rule"] == rule)
    over = {"t-1": 6, "t-2": 7}
    assert found["subjects"] == [name for name, count in over.items() if count > int(factor)]
    words = found["hint"].split()
    assert (words[:3], words[words.index("--topics") - 1]) == (["kafkakit", "topicmappr", "set-replication"], factor)
    assert home.run(*words[1:], "--plan", "p.json").code == 0
    moved = {f"{m['topic']}-{m['partition']}": len(m["after"]) for m in plan_of(home)["moves"]}
    assert {name: moved[name] for name in found["subjects"]} == dict.fromkeys(found["subjects"], int(factor))


HELD = {"brokers": [{"id": n, "rack": "abca"[n - 1]} for n in (1, 2, 3, 4)], "topics": {"t": [[1, 2, 4]]}}


@pytest.mark.parametrize(
    ("options", "receivers", "more"),
    [
        (("--exclude-receivers", "3", "--min-rack-ids", "2"), 2, "another broker"),
        (("--exclude-receivers", "3"), 2, "another broker"),
        (("--to", "1,2", "--spread"), 2, "another broker"),
        (("--to", "2", "--min-rack-ids", "1"), 1, "another broker"),
        (("--to", "1"), 1, "another broker"),
    ],
)
def test_a_drain_that_lacks_brokers_asks_for_brokers_and_for_nothing_else(
    home: Home, options: tuple[str, ...], receivers: int, more: str
) -> None:
    ran = run(home, HELD, "drain", "--brokers", "4", *options)
    told = f"all {receivers} receiving brokers hold a replica already; let {more} receive"
    told += "; no copies may go to broker 3 (excluded)" if "3" in options else ""
    assert (ran.code, one_error(ran)) == (4, f"error: no plan fits: t-0: 1 replica(s) must leave, and {told}")
    assert "min-rack-ids" not in ran.stdout + ran.stderr
    assert run(home, HELD, "drain", "--brokers", "4", "--to", "3", "--plan", "p.json").code == 0
    assert [m["after"] for m in plan_of(home)["moves"]] == [[1, 2, 3]]


TYPED = {"brokers": WORLD["brokers"][:4], "topics": {name: [[1, 3]] for name in ("orders", "payments", "__offsets")}}


@pytest.mark.parametrize(
    "verb",
    [("drain", "--brokers", "1"), ("rebuild", "--brokers", "-1"), ("rebalance", "--brokers", "-1"), ("leaders",),
     ("set-replication", "1"), ("fix-racks",), ("repair",), ("frontier",), ("check",)],
    ids=lambda verb: verb[0],
)  # fmt: skip
@pytest.mark.parametrize(
    ("topics", "error", "hint"),
    [
        ("paymnts,orders", "topic paymnts does not exist", "is it payments?"),
        ("orders,ordrs,paymnts", "topics ordrs, paymnts do not exist", "is it orders?"),
        ("(?!__).*", "invalid regex pattern: (?!__).* (invalid perl operator: (?!)", "patterns are RE2"),
        ("orders,(?<=a)b", "invalid regex pattern: (?<=a)b (invalid perl operator: (?<=)", "patterns are RE2"),
    ],
)
def test_topics_that_are_not_there_or_cannot_be_left_out_so_are_refused(
    home: Home, verb: tuple[str, ...], topics: str, error: str, hint: str
) -> None:
    ran = run(home, TYPED, *verb, "--topics", topics)
    assert (ran.code, one_error(ran)) == (2, f"error: {error}")
    assert f"hint: {hint}" in ran.stderr


@pytest.mark.parametrize(
    "options",
    [(), ("--brokers", "1,2,3"), ("--brokers", "-1"), ("--min-rack-ids", "2")],
    ids=lambda options: " ".join(options) or "none",
)
def test_more_partitions_go_beside_those_that_are_there(home: Home, options: tuple[str, ...]) -> None:
    world: dict[str, Any] = {
        "brokers": [{"id": n, "rack": "abc"[n % 3]} for n in range(1, 7)],
        "topics": {"t": [[1, 2], [2, 3], [3, 4]]},
    }
    ran = run(home, world, "place", "t", "--partitions", "12", "--replication", "2", *options, "-o", "json")
    assert ran.code == 0, ran.stderr
    lists = [[int(b) for b in part.split(":")] for part in ran.json["replica_assignment"].split(",")]
    assert lists[:3] == world["topics"]["t"]
    new = lists[3:]
    assert len(new) == 9
    assert all(len({"abc"[b % 3] for b in row}) == 2 for row in new), "two racks"
    brokers = {"1,2,3": range(1, 4), "-1": range(1, 5)}.get(options[-1] if options else "", range(1, 7))
    assert {b for row in new for b in row} <= {*brokers}
    held = [sum(row.count(b) for row in new) for b in brokers]
    led = [sum(row[0] == b for row in lists) for b in brokers]
    # The sets come first; on four brokers that are two pairs, leaders are as even as those allow.
    assert max(led) - min(led) <= (2 if "-1" in options else 1)
    assert max(held) - min(held) <= 2


def test_a_long_assignment_is_not_offered_as_an_argument(home: Home) -> None:
    ran = run(home, WORLD, "place", "new", "--partitions", "33000", "--replication", "2")
    assert ran.code == 0
    assert "too long for one argument" in ran.stdout
    assert "--replica-assignment" not in ran.stdout


def test_explain_says_why_here_and_why_not_there(home: Home) -> None:
    assert run(home, WORLD, "drain", "--brokers", "1", "--plan", "p.json").code == 0
    ran = home.run("topicmappr", "explain", "p.json", "orders/0")
    assert ran.code == 0
    assert ran.stdout.splitlines()[0] == "orders p0: [1 3] -> [3 2] moved"
    assert "  1: the request empties this broker" in ran.stdout.splitlines()
    assert "the preferred leadership passes from 1, whose copy leaves, to 3" in ran.stdout
    assert "  4: same rack (b) as 3" in ran.stdout.splitlines()
    ran = home.run("topicmappr", "explain", "p.json", "orders-1", "-o", "json")
    assert ran.json["outcome"] == "unchanged"
    assert {o["kind"] for o in ran.json["others"]} == {"no-place-open"}
    moved = {**WORLD, "topics": {"orders": [[4, 3], [3, 2], [1, 4]], "pay.ments": [[1, 2], [4, 3]]}}
    ran = run(home, moved, "explain", "p.json", "orders/0")
    assert "the cluster shows another list now: [4 3]" in ran.stdout
    ran = home.run("topicmappr", "explain", "p.json", "order/0")
    assert (ran.code, ran.stdout) == (2, "")
    assert "did you mean orders?" in ran.stderr
    ran = home.run("topicmappr", "explain", "snapshot.json", "orders/0")
    assert ran.code == 2
    assert "is a 'cluster-snapshot' file, expected 'plan'" in one_error(ran)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drain"], "missing option '--brokers'"),
        (["drain", "--brokers", "-2"], "name the brokers"),
        (["drain", "--brokers", "77"], "77 not in this cluster"),
        (["drain", "--brokers", "1", "--to", "1,2"], "broker 1 cannot be drained and receive (--to) at once"),
        (["drain", "--brokers", "1", "--to", "5"], "broker 5 is not alive"),
        (["drain", "--brokers", "1,2,3,4"], "no live broker"),
        (["drain", "--brokers", "1", "--topics", "nope"], "no topic matches"),
        (["drain", "--brokers", "1", "--topics-exclude", ".*"], "no partitions left to place"),
        (["drain", "--brokers", "1", "--plan", f"{__file__}/p.json"], "--plan: "),
        (["drain", "--brokers", "1", "--html", f"{__file__}/r.html"], "--html: "),
        (["drain", "--brokers", "1", "--min-rack-ids", "-1"], "--min-rack-ids"),
        (["fix-racks", "--spread", "--min-rack-ids", "2"], "two different rules"),
        (["fix-racks", "--minimize", "bytes"], "--minimize bytes needs every size"),
        (["set-replication", "0", "--topics", "orders"], "is not between 1 and"),
        (["set-replication", "2"], "missing option '--topics'"),
        (["set-replication", "x", "--topics", "orders"], "invalid value for 'N'"),
        (["place", "orders", "--partitions", "1", "--replication", "1"], "exists already"),
        (["place", "new", "--replication", "1"], "--partitions is missing"),
        (["place", "../x", "--partitions", "1", "--replication", "1"], "not a Kafka topic name"),
        (["place", "n", "--partitions", "1", "--replication", "1", "--partition-bytes", "5x"], "is not a size"),
        (["place", "n", "--partitions", "1", "--replication", "1", "--brokers", "5"], "5 not alive"),
    ],
)
def test_bad_requests_are_one_line_and_exit_2(home: Home, arguments: list[str], words: str) -> None:
    ran = run(home, WORLD, *arguments)
    assert ran.code == 2, ran.stderr
    assert ran.stdout == ""
    assert words in one_error(ran)
    assert {p.name for p in home.work.iterdir()} == {"snapshot.json"}


def test_the_same_bytes_whatever_the_hash_seed(home: Home) -> None:
    write_snapshot(WORLD, str(home.work / "snapshot.json"))
    seen = set()
    for seed in ("0", "1", "77"):
        for words in (["drain", "--brokers", "1"], ["fix-racks"]):
            command = [sys.executable, "-m", "kafkakit", "topicmappr", *words, "--snapshot", "snapshot.json"]
            command += ["--plan", "p.json", "--report", "r.html"]
            environment = {**os.environ, **home.environment(), "PYTHONHASHSEED": seed}
            subprocess.run(command, cwd=home.work, env=environment, capture_output=True, check=True)
            seen.add((words[0], (home.work / "p.json").read_bytes(), (home.work / "r.html").read_bytes()))
    assert len(seen) == 2
