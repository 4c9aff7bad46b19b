"""Limits of a balance on the command line: brokers left out, ceilings, and broker sets."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import ClusterSnapshot, TagSet
from tests.cli.test_rebalance import cluster
from tests.invariants.plan import verify_plan
from tests.rigs.command_line import Home, Ran

RACKS: Mapping[int, str | None] = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
LISTS = [[1, 2], [1, 3], [1, 2], [1, 3], [1, 2], [1, 3], [4, 5], [2, 3]]
FREE = dict.fromkeys(RACKS, 500)
BAND = ("--band", "60%")
LOOSE = ("--free-range", "10TiB")


@pytest.fixture
def home(home: Home) -> Home:
    put(home, cluster(LISTS, [20] * len(LISTS), FREE, RACKS))
    return home


def put(home: Home, snapshot: ClusterSnapshot) -> None:
    (home.work / "s.json").write_bytes(encode_snapshot(snapshot))


def run(home: Home, *flags: str, command: str = "rebalance", brokers: str = "-2") -> Ran:
    words = ("--topics", ".*", "--brokers", brokers, "--snapshot", "s.json", "--plan", "p.json")
    return home.run("topicmappr", command, *words, *flags)


def after(home: Home) -> list[Sequence[int]]:
    """The lists that the plan leads to, after the independent checker has been over it."""
    plan: dict[str, Any] = json.loads((home.work / "p.json").read_bytes())
    verify_plan(plan, json.loads((home.work / "s.json").read_bytes()))
    moved = {m["partition"]: m["after"] for m in plan["moves"]}
    return [moved.get(e["partition"], e["replicas"]) for e in plan["scope"]]


@pytest.mark.parametrize(("command", "brokers"), [("rebalance", "-2"), ("scale", "-2"), ("add-brokers", "6")])
def test_excluded_brokers_take_and_give_nothing(home: Home, command: str, brokers: str) -> None:
    flags = ("--exclude-receivers", "4,5", "--exclude-givers", "2")
    ran = run(home, *BAND, *flags, command=command, brokers=brokers)
    assert ran.code == 0, ran.stderr
    lists = after(home)
    assert lists != LISTS
    for old, new in zip(LISTS, lists, strict=True):
        assert not {4, 5}.intersection(new) - set(old)
        assert 2 not in old or 2 in new
    rules = json.loads((home.work / "p.json").read_bytes())["rules"]
    assert not {4, 5}.intersection(rules["receivers"])
    assert 2 not in rules["givers"]
    assert "left out of the goal, since they cannot come nearer to it: brokers 2, 4, 5" in ran.stdout


def test_brokers_are_excluded_by_a_query_and_unknown_ones_are_refused(home: Home) -> None:
    assert run(home, *BAND, "--exclude-receivers", "where rack = a").code == 0
    request = json.loads((home.work / "p.json").read_bytes())["request"]
    assert (request["exclude-receivers"], request["exclude-receivers-query"]) == ("1,4", "where rack = a")
    ran = run(home, *BAND, "--exclude-givers", "77")
    assert ran.code == 2
    assert "error: --exclude-givers: 77 not in this cluster\n" in ran.stderr
    ran = run(home, *BAND, "--exclude-givers", "-2", "--exclude-receivers", "-2")
    assert ran.code == 2
    assert "error: no broker is left to balance with --exclude-receivers 1,2,3,4,5,6" in ran.stderr


def test_no_broker_ends_above_the_ceilings(home: Home) -> None:
    ran = run(home, *LOOSE, "--max-replicas", "3", "--max-leaders", "2", "--max-topic-leaders", "2")
    assert ran.code == 0, ran.stderr
    lists = after(home)
    assert max(Counter(b for row in lists for b in row).values()) <= 3
    assert max(Counter(row[0] for row in lists).values()) <= 2


def test_leaders_alone_change_where_that_is_enough(home: Home) -> None:
    ran = run(home, *LOOSE, "--max-leaders", "3")
    assert ran.code == 0, ran.stderr
    assert [sorted(row) for row in after(home)] == LISTS
    assert Counter(row[0] for row in after(home))[1] == 3, "no leader changes without need"


@pytest.mark.parametrize(
    ("flags", "error", "hint"),
    [
        (("--max-replicas", "2"), "--max-replicas 2 cannot be kept: the 6 brokers of racks a, b, c may hold 12 "
         "replicas together, and 16 replicas cannot be put elsewhere", "the least that may be: --max-replicas 3"),
        (("--max-leaders", "1"), "--max-leaders 1 cannot be kept: 8 partitions need a leader, and 6 brokers may lead 6",
         "no less than --max-leaders 2 may be"),
        (("--max-topic-leaders", "1"), "--max-topic-leaders 1 cannot be kept: topic a has 8 partitions, and 6 brokers "
         "may lead 6", "the least that may be: --max-topic-leaders 2"),
        (("--max-leaders", "2", "--pin", "a"), "--max-leaders 2 cannot be kept: no leader for 1 "
         "immovable partition", "allow more, or let more partitions move"),
    ],
)  # fmt: skip
def test_ceilings_that_cannot_be_kept_are_refused_in_one_line(
    home: Home, flags: tuple[str, ...], error: str, hint: str
) -> None:
    ran = run(home, *LOOSE, *flags)
    assert ran.code == 4
    assert f"error: {error}\n" in ran.stderr
    assert f"hint: {hint}" in ran.stderr


def test_ceilings_count_topics_that_are_left_out(home: Home) -> None:
    one, other = cluster(LISTS, [20] * len(LISTS), FREE, RACKS), cluster([[1, 2]] * 3, [1] * 3, FREE, RACKS, topic="b")
    put(home, replace(one, topics=(*one.topics, *other.topics)))
    ran = run(home, *LOOSE, "--topics-exclude", "b", "--max-replicas", "4", "--max-leaders", "4")
    assert ran.code == 0, ran.stderr
    held = Counter(b for row in after(home) for b in row)
    assert held[1] <= 1
    assert held[2] <= 1
    ran = run(home, *LOOSE, "--topics-exclude", "b", "--max-leaders", "2")
    assert ran.code == 4
    assert "error: --max-leaders 2 cannot be kept: brokers 1 lead more partitions that keep their leader" in ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("drain", "--brokers", "1"),
        ("drain", "--brokers", "1", "--placement", "storage"),
        ("set-replication", "3", "--topics", ".*"),
        ("fix-racks", "--topics", ".*"),
    ],
)
def test_a_sick_broker_gets_no_copies_from_other_verbs(home: Home, words: tuple[str, ...]) -> None:
    put(home, cluster([*LISTS, [1, 4], [2, 5]], [20] * 10, FREE, RACKS))
    plan = ("--snapshot", "s.json", "--plan", "p.json", "--ignore-warns")
    taking = []
    for excluded in ((), ("--exclude-receivers", "6")):
        ran = home.run("topicmappr", *words, *plan, *excluded)
        assert ran.code == 0, ran.stderr
        taking.append(6 in {b for row in after(home) for b in row})
    assert taking == [True, False]
    ran = home.run("topicmappr", *words, *plan, "--exclude-receivers", "9")
    assert (ran.code, "error: --exclude-receivers: 9 not in this cluster" in ran.stderr) == (2, True)


def test_a_new_topic_does_not_go_to_a_sick_broker(home: Home) -> None:
    words = ("topicmappr", "place", "new", "--partitions", "6", "--replication", "2", "--snapshot", "s.json")
    for flags in ((), ("--brokers", "1,2,3,6")):
        assert home.run(*words, *flags, "--exclude-receivers", "6").code == 0
        rows = json.loads((home.work / "new.json").read_bytes())["partitions"]
        assert 6 not in {b for row in rows for b in row["replicas"]}


def test_a_broker_is_not_both_named_and_excluded(home: Home) -> None:
    words = ("--snapshot", "s.json", "--brokers", "1", "--to", "4,6", "--exclude-receivers", "6")
    ran = home.run("topicmappr", "drain", *words)
    assert (ran.code, "broker 6 is named by both --to and --exclude-receivers" in ran.stderr) == (2, True)


SETS = ("--broker-set", "a: 1,2,3")


def test_broker_sets_are_kept_by_every_planning_command(home: Home) -> None:
    one, other = cluster(LISTS, [20] * len(LISTS), FREE, RACKS), cluster([[4, 5]] * 3, [1] * 3, FREE, RACKS, topic="b")
    put(home, replace(one, topics=(*one.topics, *other.topics)))
    assert run(home, *SETS, "--force-rebuild", command="rebuild").code == 0
    plan = json.loads((home.work / "p.json").read_bytes())
    moved = {(m["topic"], m["partition"]): m["after"] for m in plan["moves"]}
    lists = [(e["topic"], moved.get((e["topic"], e["partition"]), e["replicas"])) for e in plan["scope"]]
    assert all(set(row) <= ({1, 2, 3} if topic == "a" else {4, 5, 6}) for topic, row in lists)
    ran = home.run(
        "topicmappr", "place", "new", "--partitions", "6", "--replication", "3", "--snapshot", "s.json", *SETS
    )
    assert ran.code == 0, ran.stderr
    rows = json.loads((home.work / "new.json").read_bytes())["partitions"]
    assert {b for row in rows for b in row["replicas"]} == {4, 5, 6}


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--broker-set", "a 1,2"), "--broker-set: 'a 1,2' is not TOPICS: BROKERS"),
        (("--broker-set", "a: 1,99"), "--broker-set 'a: 1,99': 99 not in this cluster"),
        ((*SETS, "--broker-set", "b: 3,4"), "broker 3 is in two sets: broker-set 'a: 1,2,3' and broker-set 'b: 3,4'"),
        ((*SETS, "--broker-set", "a: 4,5"), "topic a is in two sets: broker-set 'a: 1,2,3' and broker-set 'a: 4,5'"),
        (("--broker-sets-by", "set"), "set can only be tags, and no tags are known here"),
    ],
)
def test_broker_sets_that_mean_nothing_are_refused(home: Home, flags: tuple[str, ...], error: str) -> None:
    ran = run(home, *BAND, *flags)
    assert ran.code == 2
    assert f"error: {error}\n" in ran.stderr


def test_broker_sets_by_a_tag_need_brokers_for_each_topic(home: Home) -> None:
    snapshot = cluster(LISTS, [20] * len(LISTS), FREE, RACKS)
    brokers = {b: {"set": "x" if b < 4 else "y"} for b in RACKS}
    put(home, replace(snapshot, tags=TagSet(brokers=brokers, topics={"a": {"set": "x"}})))
    ran = run(home, "--broker-sets-by", "set", command="rebuild")
    assert ran.code == 0, ran.stderr
    assert all(set(row) <= {1, 2, 3} for row in after(home))
    put(home, replace(snapshot, tags=TagSet(brokers=brokers, topics={"a": {"set": "z"}})))
    ran = run(home, "--broker-sets-by", "set", command="rebuild")
    assert ran.code == 2
    assert "error: --broker-sets-by set: no broker has set = z, and topic a does\n" in ran.stderr


@pytest.mark.parametrize(
    ("limit", "place"), [(("--max-replicas", "3"), None), (("--max-leaders", "2"), 0), (("--count-band", "20%"), None)]
)
def test_a_replan_keeps_the_limits_of_its_plan(home: Home, limit: tuple[str, str], place: int | None) -> None:
    """A partition of another topic, or a new one, has come to a broker that the plan fills as far as it may."""
    replan = ("topicmappr", "replan", "p.json", "--snapshot", "s.json", "--plan", "new.json")
    assert run(home, *LOOSE, *limit).code == 0
    ran = home.run(*replan)
    assert (ran.code, "does not look" in ran.stdout) == (0, False), ran.stderr
    plan, one = json.loads((home.work / "p.json").read_bytes()), cluster(LISTS, [20] * len(LISTS), FREE, RACKS)
    held = Counter(b for row in after(home) for b in (row if place is None else row[:1]))
    full, least = max(held, key=lambda b: (held[b], b)), held[min(held, key=lambda b: held[b])]
    more = [[full]] * (1 if limit[0] != "--count-band" else 1 + least)
    if limit[0] == "--count-band":  # counts are of the topics of the plan
        grown = cluster([*LISTS, *more], [20] * (len(LISTS) + len(more)), FREE, RACKS)
    else:
        other = cluster(more, [20], FREE, RACKS, topic="b")
        grown = replace(one, topics=(*one.topics, *other.topics))
    put(home, grown)
    ran = home.run(*replan)
    assert ran.code == 0, ran.stderr
    new = json.loads((home.work / "new.json").read_bytes())
    assert new["moves"] != plan["moves"]
    verify_plan(new, json.loads((home.work / "s.json").read_bytes()))


def test_a_replan_that_finds_no_way_to_keep_a_limit_ends_with_4(home: Home) -> None:
    assert run(home, *LOOSE, "--max-replicas", "3").code == 0
    one, other = cluster(LISTS, [20] * len(LISTS), FREE, RACKS), cluster([[1, 2]] * 3, [20] * 3, FREE, RACKS, topic="b")
    put(home, replace(one, topics=(*one.topics, *other.topics)))
    ran = home.run("topicmappr", "replan", "p.json", "--snapshot", "s.json", "--plan", "new.json")
    assert ran.code == 4
    assert "that keeps --max-replicas 3" in ran.stderr
    assert not (home.work / "new.json").exists()


PLAIN: Mapping[str, tuple[str, ...]] = {
    "rebuild": ("--brokers", "-2"),
    "drain": ("--brokers", "6"),
    "fix-racks": (),
    "set-replication": ("2",),
    "repair": (),
}


def plain(home: Home, command: str, *flags: str) -> Ran:
    return home.run(
        "topicmappr", command, *PLAIN[command], "--topics", ".*", "--snapshot", "s.json", "--plan", "p.json", *flags
    )


@pytest.mark.parametrize("command", PLAIN)
def test_ceilings_on_leaders_hold_in_plain_requests_too(home: Home, command: str) -> None:
    for flag in ("--max-leaders", "--max-topic-leaders"):
        assert plain(home, command, flag, "3").code == 0
        lists = after(home)
        assert [set(row) for row in lists] == [set(row) for row in LISTS], "only leaders change"
        assert max(Counter(row[0] for row in lists).values()) == 3
        assert sum(new[0] != old[0] for old, new in zip(LISTS, lists, strict=True)) == 3, "no leader without need"
    assert plain(home, command, "--max-leaders", "6").code == 0
    assert after(home) == LISTS
    ran = plain(home, command, "--max-leaders", "1")
    brokers = 5 if command == "drain" else 6
    assert ran.code == 4
    assert f"8 partitions need a leader, and {brokers} brokers may lead {brokers}" in ran.stderr
    assert "hint: no less than --max-leaders 2 may be" in ran.stderr


def test_a_ceiling_on_replicas_counts_all_topics_and_what_stays(home: Home) -> None:
    ran = plain(home, "rebuild", "--max-replicas", "5")
    assert (ran.code, "the least that may be: --max-replicas 6" in ran.stderr) == (4, True)
    drain = ("drain", "--brokers", "1", "--topics", ".*", "--snapshot", "s.json", "--plan", "p.json")
    ran = home.run("topicmappr", *drain, "--max-replicas", "3")
    assert (ran.code, "the least that may be: --max-replicas 4" in ran.stderr) == (4, True)
    ran = home.run("topicmappr", *drain, "--max-replicas", "4")
    assert ran.code == 0, ran.stderr
    assert max(Counter(b for row in after(home) for b in row).values()) == 4


def test_a_rebuild_gives_excluded_brokers_nothing_in_every_mode(home: Home) -> None:
    for mode in ((), ("--force-rebuild",), ("--placement", "storage"), ("--placement", "storage", "--force-rebuild")):
        assert (
            plain(
                home, "rebuild", "--replication", "3", "--exclude-receivers", "where id = 4", "--ignore-warns", *mode
            ).code
            == 0
        )
        lists = after(home)
        assert [4 in row for row in lists] == [False] * 6 + [4 in lists[6]] + [False]
        request = json.loads((home.work / "p.json").read_bytes())["request"]
        assert request["exclude-receivers"] == "4"
