"""Queries and constraints by tags in planning commands, from a snapshot file that carries tags."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, TagSet
from kafkakit.kubernetes.objects import read_objects
from kafkakit.registry.decide.desired_tags import LabelImport, import_labels
from kafkakit.registry.decide.tags import ObjectKind
from tests.clusters.shapes import make_snapshot
from tests.invariants.constraints import broken
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home, Ran
from tests.rigs.kubernetes import cluster, printed

GIB = 1 << 30
HOT = "topics where tier = hot: brokers where disk = nvme"
HOT_TEXT = 'affinity \'topics where tier = "hot": brokers where disk = "nvme"\''
BROKERS = tuple(
    Broker(
        id=b,
        rack="abc"[(b - 1) % 3],
        log_dirs=(LogDir(path="/d", total_bytes=100 * GIB, usable_bytes=60 * GIB),),
    )
    for b in range(1, 10)
)
TAGS = TagSet(
    brokers={b: {"feed": "xy"[(b - 1) // 3 % 2], "disk": "nvme" if b > 3 else "hdd"} for b in range(1, 10)},
    topics={"orders": {"tier": "hot"}},
)


def partitions(count: int) -> list[Partition]:
    rows = [tuple((p + k) % 6 + 1 for k in range(3)) for p in range(count)]
    return [
        Partition(partition=n, replicas=row, isr=row, leader=row[0], replica_bytes=dict.fromkeys(row, GIB))
        for n, row in enumerate(rows)
    ]


CLUSTER = make_snapshot(BROKERS, {"clicks": partitions(6), "orders": partitions(6)}, tags=TAGS)


@pytest.fixture
def home(home: Home) -> Home:
    put(home, CLUSTER)
    return home


def put(home: Home, snapshot: ClusterSnapshot) -> None:
    (home.work / "s.json").write_bytes(encode_snapshot(snapshot))


def run(home: Home, *arguments: str) -> Ran:
    return home.run("topicmappr", *arguments, "--snapshot", "s.json")


def checked(home: Home) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((home.work / "p.json").read_bytes())
    verify_plan(plan, json.loads((home.work / "s.json").read_bytes()))
    return plan


RULES = ("--spread-by", "feed", "--affinity", HOT)
COMMANDS: list[tuple[str, ...]] = [
    ("drain", "--brokers", "2"),
    ("drain", "--brokers", "where id = 2", "--placement", "storage"),
    ("rebuild", "--brokers", "-2", "--topics", "where tier = hot"),
    ("rebuild", "--brokers", "where id > 1", "--topics", ".*", "--placement", "storage", "--ignore-warns"),
    ("rebuild", "--brokers", "-2", "--topics", "where tier = hot", "--force-rebuild"),
    ("rebalance", "--brokers", "-2", "--topics", ".*", "--band", "20%"),
    ("scale", "--brokers", "-1,7,8,9", "--topics", "where partitions = 6", "--band", "20%"),
    ("add-brokers", "--brokers", "where id in (7, 8, 9)", "--band", "20%"),
    ("set-replication", "2", "--topics", "where name ~ o*"),
    ("fix-racks",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:3]))
def test_every_planning_command_keeps_the_constraints(home: Home, words: tuple[str, ...]) -> None:
    ran = run(home, *words, *RULES, "--plan", "p.json")
    assert ran.code == 0, ran.stderr + ran.stdout
    plan = checked(home)
    assert plan["moves"]
    assert [c["text"] for c in plan["constraints"]] == ["spread-by feed", HOT_TEXT]
    assert plan["constraints"][1]["only"] == [4, 5, 6, 7, 8, 9]
    assert (plan["request"]["spread-by"], plan["request"]["affinity"]) == ("feed", HOT)


def test_a_forced_rebuild_leaves_no_copy_that_a_constraint_forbids(home: Home) -> None:
    for words in (RULES[:2], RULES[2:], RULES):
        ran = run(home, "rebuild", "--brokers", "-2", "--topics", ".*", "--force-rebuild", *words, "--plan", "p.json")
        assert ran.code == 0, ran.stderr
        plan = checked(home)
        after = {(e["topic"], e["partition"]): e["replicas"] for e in plan["scope"]}
        after |= {(m["topic"], m["partition"]): m["after"] for m in plan["moves"]}
        for c in plan["constraints"]:
            assert not [key for key, row in after.items() if broken(c, key[0], (), row)]
        ran = run(home, "replan", "p.json", "--plan", "again.json")
        assert ran.code == 0, ran.stderr
        again = json.loads((home.work / "again.json").read_bytes())
        assert again["constraints"] == plan["constraints"]
        assert not [m for m in again["moves"] for c in plan["constraints"] if broken(c, m["topic"], (), m["after"])]


def test_fix_racks_repairs_what_constraints_forbid(home: Home) -> None:
    ran = run(home, "fix-racks", "--topics", "orders", "--affinity", HOT, "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    plan = checked(home)
    after = {(e["topic"], e["partition"]): e["replicas"] for e in plan["scope"]}
    after |= {(m["topic"], m["partition"]): m["after"] for m in plan["moves"]}
    assert not [key for key, row in after.items() if broken(plan["constraints"][0], key[0], (), row)]
    assert "9 replicas more in their racks or on brokers that constraints forbid than the rule allows" in ran.stdout
    assert plan["certificate"]["lower_bound"] == plan["certificate"]["objective"] == 9


def test_a_plan_names_the_constraints_that_bound_it(home: Home) -> None:
    ran = run(home, "drain", "--brokers", "4", "--topics", "orders", "--anti-affinity", HOT.replace("nvme", "hdd"))
    assert ran.code == 0, ran.stderr
    text = 'anti-affinity \'topics where tier = "hot": brokers where disk = "hdd"\''
    assert f"  note: {text}: kept 3 new copies off brokers 1, 2, 3\n" in ran.stdout


def test_without_constraints_nothing_is_recorded(home: Home) -> None:
    ran = run(home, "drain", "--brokers", "4", "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    plan = checked(home)
    assert "constraints" not in plan
    assert not plan["notes"]
    put(home, replace(CLUSTER, tags=None))
    assert "tags" not in json.loads((home.work / "s.json").read_bytes())
    again = run(home, "drain", "--brokers", "4", "--plan", "p2.json")
    assert again.stdout.replace("p2.json", "p.json") == ran.stdout
    assert (home.work / "p2.json").read_bytes() == (home.work / "p.json").read_bytes()


def test_recorded_brokers_are_ids_beside_the_query(home: Home) -> None:
    assert run(home, "drain", "--brokers", "where feed = y and rack = b", "--plan", "p.json").code == 0
    request = checked(home)["request"]
    assert (request["brokers"], request["brokers-query"]) == ("5", "where feed = y and rack = b")


IMPOSSIBLE = [
    (
        ("rebuild", "--brokers", "-2", "--topics", "orders", "--affinity", HOT.replace("disk = nvme", "id < 3")),
        "error: no plan fits: topic orders wants 3 replicas, and constraints leave too few of the 9 brokers: affinity "
        "'topics where " 'tier = "hot": brokers where id < 3\' leaves 2 of 9\n',
    ),
    (
        ("rebuild", "--brokers", "1,2,3,7", "--topics", "orders", "--spread-by", "feed"),
        "error: no plan fits: topic orders wants 3 replicas, and constraints leave too few of the 4 brokers: "
        "spread-by feed allows 2 of 3 replicas a value, and has brokers: 4 with x\n",
    ),
    (
        ("place", "orders-new", "--partitions", "1", "--replication", "3", "--affinity",
         "topics where name ~ orders*: brokers where id in (1, 4)"),
        "error: no plan fits: topic orders-new wants 3 replicas, and constraints leave too few of the 9 brokers: "
        "affinity 'topics where name like \"orders*\": brokers where id in (1, 4)' leaves 2 of 9\n",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "error"), IMPOSSIBLE)
def test_impossible_constraints_say_so_with_the_numbers(home: Home, words: tuple[str, ...], error: str) -> None:
    ran = run(home, *words)
    assert ran.code == 4
    assert error in ran.stderr


REFUSED = [
    (("drain", "--brokers", "where id == 2"),
     "    id == 2\n        ^\nerror: query, column 5: found '=', expected a value after a single '='\n"),
    (("drain", "--brokers", "where id = 99"), "error: no broker matches 'where id = 99'\n"),
    (("drain", "--brokers", "where rak != a"), "error: nothing here has rak\nhint: did you mean rack?\n"),
    (("drain", "--brokers", "1", "--topics", "where name = x"), "error: no topic matches 'where name = x'\n"),
    (("drain", "--brokers", "1", "--affinity", "topics where name = x"),
     "error: query, column 22: found the end, expected and, or, or ': brokers where ...'\n"),
    (("drain", "--brokers", "1", "--affinity", "topics where name = x: brokers where id = 99"),
     "error: --affinity 'topics where name = \"x\": brokers where id = 99': no broker matches\n"),
    (("drain", "--brokers", "1", "--spread-by", "room"),
     "error: --spread-by room: none of the 9 live brokers has it\n"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "error"), REFUSED)
def test_what_cannot_be_read_or_meant_is_refused(home: Home, words: tuple[str, ...], error: str) -> None:
    ran = run(home, *words)
    assert ran.code == 2
    assert error in ran.stderr


@pytest.mark.parametrize(
    ("words", "keys"),
    [(("--spread-by", "feed"), "feed"), (("--affinity", HOT), "disk, tier"), (("--to", "where disk = nvme"), "disk")],
)
def test_without_tags_on_record_attributes_work_and_tags_are_refused(
    home: Home, words: tuple[str, ...], keys: str
) -> None:
    put(home, replace(CLUSTER, tags=None))
    assert run(home, "drain", "--brokers", "where rack = a and id < 4", "--topics", "where partitions > 1").code == 0
    ran = run(home, "drain", "--brokers", "1", *words)
    assert ran.code == 2
    assert f"error: {keys} can only be tags, and no tags are known here\n" in ran.stderr


def test_explain_names_the_constraint(home: Home) -> None:
    assert run(home, "rebuild", "--brokers", "-2", "--topics", "orders", *RULES, "--plan", "p.json").code == 0
    ran = home.run("topicmappr", "explain", "p.json", "orders/0", "-o", "json")
    assert ran.code == 0, ran.stderr
    said = json.loads(ran.stdout)
    kinds = {row["broker"]: row["kind"] for row in [*said["leaving"], *said["others"]]}
    assert kinds[1] == kinds[2] == kinds[3] == "constraint"
    assert f"closed to the topic by {HOT_TEXT}" in ran.stdout.replace('\\"', '"')


def test_replan_keeps_the_constraints_of_the_plan(home: Home) -> None:
    assert (
        run(home, "rebuild", "--brokers", "-2", "--topics", "orders", "--affinity", HOT, "--plan", "old.json").code == 0
    )
    gone = tuple(replace(b, state="fenced") if b.id == 7 else b for b in BROKERS)  # type: ignore[arg-type]
    put(home, replace(CLUSTER, brokers=gone, tags=None))
    ran = run(home, "replan", "old.json", "--plan", "p.json")
    assert ran.code == 0, ran.stderr
    plan = json.loads((home.work / "p.json").read_bytes())
    before = json.loads((home.work / "old.json").read_bytes())
    assert plan["constraints"] == before["constraints"]
    for move in plan["moves"]:
        for constraint in plan["constraints"]:
            assert not broken(constraint, move["topic"], move["before"], move["after"])


def test_an_audit_finds_copies_that_constraints_forbid(home: Home) -> None:
    entries = [{"topic": "orders", "partition": 3, "replicas": [4, 5, 3]}]
    (home.work / "map.json").write_text(json.dumps({"version": 1, "partitions": entries}))
    assert run(home, "audit", "map.json").code == 0
    ran = run(home, "audit", "map.json", *RULES)
    assert ran.code == 1
    assert f"1 partition gets a copy that a constraint by tags forbids: orders-3 ({HOT_TEXT})" in ran.stdout


def test_where_nothing_matches_the_first_objects_say_why(home: Home) -> None:
    ran = run(home, "drain", "--brokers", "where disk = nvme and (rack = d or id > 20)")
    assert ran.stderr.splitlines() == [
        '  1: disk = "nvme": disk is hdd; rack = "d": rack is a; id > 20: id is 1',
        '  2: disk = "nvme": disk is hdd; rack = "d": rack is b; id > 20: id is 2',
        '  3: disk = "nvme": disk is hdd; rack = "d": rack is c; id > 20: id is 3',
        '  4: rack = "d": rack is a; id > 20: id is 4',
        '  5: rack = "d": rack is b; id > 20: id is 5',
        "  ...",
        "error: no broker matches 'where disk = nvme and (rack = d or id > 20)'",
    ]


def test_several_rules_are_recorded_so_that_they_can_be_given_again(home: Home) -> None:
    first, second = HOT, "topics where name = clicks: brokers where id > 3"
    words = ("drain", "--brokers", "5", "--spread-by", "feed", "--spread-by", "rack")
    assert run(home, *words, "--affinity", first, "--affinity", second, "--plan", "p.json").code == 0
    request = checked(home)["request"]
    assert (request["spread-by"], request["affinity"]) == ("feed,rack", f"{first}; {second}")
    again = (*words[:3], "--spread-by", request["spread-by"], "--affinity", request["affinity"], "--plan", "p2.json")
    assert run(home, *again).code == 0
    assert (home.work / "p2.json").read_bytes() == (home.work / "p.json").read_bytes()


def test_a_balance_that_fails_names_the_constraints(home: Home) -> None:
    rule = "topics where partitions > 0: brokers where id < 7"
    ran = run(home, "rebalance", "--topics", ".*", "--brokers", "-2", "--count-band", "5%", "--affinity", rule)
    assert ran.code == 4
    assert "  constraint kept: affinity 'topics where partitions > 0: brokers where id < 7'\n" in ran.stderr


def test_zones_of_nodes_stand_in_for_racks_that_brokers_lack(home: Home) -> None:
    labels = read_objects(printed(cluster("aabbcc", first=1)), "f")
    desired = import_labels(labels, LabelImport(tag_of={"topology.kubernetes.io/zone": "zone"}))
    zones = {int(b): dict(rule.tags) for rule in desired.rules[ObjectKind.BROKER] for b in rule.names}
    bare = tuple(replace(broker, rack=None) for broker in BROKERS[:6])
    tags = TagSet(brokers={b: {k: str(v) for k, v in own.items()} for b, own in zones.items()}, topics={})
    put(home, make_snapshot(bare, {"orders": partitions(6)}, tags=tags))
    ran = run(home, "fix-racks", "--spread-by", "zone", "--plan", "p.json")
    assert ran.code == 0, ran
    for row in checked(home)["reassignment"]["partitions"]:
        assert len({zones[b]["zone"] for b in row["replicas"]}) == 3, row


def test_check_finds_what_fix_racks_repairs(home: Home) -> None:
    assert "break spread-by" not in run(home, "check").stdout
    ran = run(home, "check", *RULES, "-o", "json")
    assert ran.code == 1
    found = {f["message"].split(": ")[0]: f for f in json.loads(ran.stdout)["findings"] if f["rule"] == "constraint"}
    (broken_spread, broken_affinity) = found.values()
    assert broken_affinity["message"].startswith(f"5 of 6 partitions break {HOT_TEXT}: orders-0 [1 2 3]")
    assert broken_spread["message"].startswith("2 of 6 partitions break spread-by feed")
    hint = broken_affinity["hint"]
    assert "topicmappr fix-racks" in hint
    assert f"--spread-by feed --affinity '{HOT}'" in hint
