"""Every command that the planner prints is carried out: what it is printed for is gone, and nothing else was touched.

First the findings of `check`, then refusals of planning commands, then findings of `audit`, then what follows a plan.
"""

import copy
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kafkakit import wiring
from kafkakit.adapters.host import SystemClock
from kafkakit.core.model import (
    Broker,
    BrokerState,
    ClusterSnapshot,
    LogDir,
    Partition,
    Reassignment,
    TagSet,
    Topic,
    TopicPartition,
)
from kafkakit.topicmappr.decide.audit_map import AUDIT_RULES, AuditHints, case_of, read_map
from kafkakit.topicmappr.decide.check_rules import RULES
from kafkakit.topicmappr.decide.requests import MapAuditRequest
from tests.clusters.shapes import make_snapshot
from tests.fakes.admin import FakeClock, FakeStorageMetrics
from tests.rigs.command_line import Home, Ran
from tests.rigs.printed_commands import functions_reached, makers
from tests.rigs.printed_repairs import (
    Facts,
    carry_out,
    command_in,
    commands_in,
    hint_of,
    holders,
    map_of,
    save,
    with_options,
)

SIZE = 100
DISK = 10_000
CHECK = ("topicmappr", "check", "--snapshot", "s.json", "--fail-on", "never", "-o", "json")


def part(number: int, *replicas: int, **more: Any) -> Partition:
    facts: dict[str, Any] = {
        "isr": replicas,
        "leader": replicas[0],
        "replica_bytes": dict.fromkeys(replicas, SIZE),
        "replica_dirs": dict.fromkeys(replicas, "/d1"),
    }
    return Partition(partition=number, replicas=replicas, **(facts | more))


def cluster(
    rows: dict[str, list[Partition]], racks: str, *, dirs: int = 1, disk: int = DISK, **more: Any
) -> ClusterSnapshot:
    """Brokers 1 to n, their racks a letter each ('-': none), each with log dirs /d1, /d2, ... of one size."""
    used = {
        (b, d): sum(p.replica_bytes.get(b, 0) for r in rows.values() for p in r if p.replica_dirs.get(b) == f"/d{d}")
        for b in range(1, len(racks) + 1)
        for d in range(1, dirs + 1)
    }
    brokers = tuple(
        Broker(
            id=b,
            rack=None if rack == "-" else rack,
            log_dirs=tuple(
                LogDir(path=f"/d{d}", total_bytes=disk, usable_bytes=disk - used[b, d]) for d in range(1, dirs + 1)
            ),
        )
        for b, rack in enumerate(racks, 1)
    )
    topics = tuple(Topic(name=name, partitions=tuple(r), topic_id=f"id-{name}") for name, r in sorted(rows.items()))
    return make_snapshot(brokers, topics, **more)


def ring(count: int = 6, brokers: int = 3, factor: int = 3) -> list[Partition]:
    """Partitions spread evenly, in replicas and leaders."""
    return [part(n, *((n + i) % brokers + 1 for i in range(factor))) for n in range(count)]


def with_broker(snapshot: ClusterSnapshot, broker: int, **changes: Any) -> ClusterSnapshot:
    return replace(snapshot, brokers=tuple(replace(b, **changes) if b.id == broker else b for b in snapshot.brokers))


def with_dir(snapshot: ClusterSnapshot, broker: int, path: str, **changes: Any) -> ClusterSnapshot:
    (b,) = (b for b in snapshot.brokers if b.id == broker)
    dirs = tuple(replace(d, **changes) if d.path == path else d for d in b.log_dirs)
    return with_broker(snapshot, broker, log_dirs=dirs)


def failed_dir(more: dict[str, list[Partition]]) -> ClusterSnapshot:
    """Three brokers; of topic t one partition was in a log dir of broker 1 that failed, one is in its other dir."""
    rows = {
        "t": [part(0, 1, 2, isr=(2,), leader=2), part(1, 1, 2, replica_dirs={1: "/d2", 2: "/d1"})],
        "good": [part(n, 2, 3) for n in range(2)],
    }
    whole = cluster(rows | more, "abc", dirs=2)
    return with_dir(whole, 1, "/d1", error="broken", total_bytes=None, usable_bytes=None)


def with_configs(snapshot: ClusterSnapshot, topic: str, **configs: str) -> ClusterSnapshot:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return replace(snapshot, topics=tuple(replace(t, configs=named) if t.name == topic else t for t in snapshot.topics))


ByHand = Callable[[Facts], None]


@dataclass(frozen=True)
class Case:
    """A cluster with a finding, the options of the check, and what the hint says to do before its command."""

    rule: str
    where: str
    cluster: ClusterSnapshot
    options: tuple[str, ...] = ()
    by_hand: ByHand | None = None


def _alive(facts: Facts) -> None:
    for broker in facts["brokers"]:
        broker["state"] = "alive"
    for p in _rows(facts):
        p["isr"], p["leader"] = p["replicas"], p["replicas"][0]


def _rows(facts: Facts) -> list[Facts]:
    return [p for t in facts["topics"] for p in t["partitions"]]


def _set_rack(broker: int, rack: str) -> ByHand:
    def act(facts: Facts) -> None:
        for b in facts["brokers"]:
            if b["id"] == broker:
                b["rack"] = rack

    return act


def _give(broker: int) -> ByHand:
    """Every second replica goes to the broker."""

    def act(facts: Facts) -> None:
        for p in _rows(facts)[::2]:
            p["replicas"] = p["isr"] = [p["replicas"][0], broker]
            p["replica_bytes"] = dict.fromkeys(map(str, p["replicas"]), SIZE)
            p["replica_dirs"] = dict.fromkeys(map(str, p["replicas"]), "/d1")

    return act


def _end_moves(facts: Facts) -> None:
    facts["reassignments"] = []
    for p in _rows(facts):
        p["replicas"] = [b for b in p["replicas"] if b not in p.get("removing", ())]
        p["isr"], p["adding"], p["removing"] = p["replicas"], [], []
        for known in ("replica_bytes", "replica_dirs"):
            p[known] = {b: value for b, value in p[known].items() if int(b) in p["replicas"]}


GOOD = {"good": ring()}
MOVING = replace(
    cluster({"t": [part(0, 1, 2, 3, 4, isr=(1, 2, 3), adding=(4,), removing=(3,))], **GOOD}, "abcd"),
    reassignments=(Reassignment(topic="t", partition=0, replicas=(1, 2, 3, 4), adding=(4,), removing=(3,)),),
)
TWO_IN_A = {"t": [part(0, 1, 2, 3), part(1, 1, 3, 4)], "good": [part(n, 1, 3, 4) for n in range(3)]}
CASES = [
    Case("replica-list", "topic t", cluster({"t": [part(0, 1, 1, 2, isr=(1, 2)), part(1, 2, 3, 1)], **GOOD}, "abc")),
    Case(
        "replica-list",
        "topic t",
        replace(cluster({"t": [part(0, 1, 2, 9), part(1, 2, 3, 1)], **GOOD}, "abcd")),
    ),
    Case(
        "dead-broker",
        "broker 4",
        with_broker(cluster({"t": [part(0, 1, 2, 4, isr=(1, 2))], **GOOD}, "abcc"), 4, state=BrokerState.MISSING),
    ),
    Case(
        "dead-broker",
        "broker 3",
        with_broker(cluster({"t": [part(0, 3, 1, isr=(1,), leader=1)], **GOOD}, "abcc"), 3, state=BrokerState.FENCED),
    ),
    Case("dead-broker", "broker 9", cluster({"t": [part(0, 1, 2, 9), part(1, 2, 3, 1)], **GOOD}, "abc")),
    Case("dead-broker", "broker 9", cluster(GOOD, "abc"), ("--brokers", "1,2,3,9")),
    Case(
        "no-live-copy",
        "topic t",
        with_broker(cluster({"t": [part(0, 4, isr=(), leader=None)], **GOOD}, "abcd"), 4, state=BrokerState.MISSING),
        by_hand=_alive,
    ),
    Case(
        "below-min-isr",
        "topic t",
        with_configs(cluster({"t": [part(0, 1, 2, 3, isr=(1,))], **GOOD}, "abc"), "t", min_insync_replicas="2"),
        by_hand=_alive,
    ),
    Case(
        "below-min-isr",
        "topic t",
        replace(
            with_configs(cluster({"t": [part(0, 1, 2), part(1, 2, 3)], **GOOD}, "abc"), "t", min_insync_replicas="3"),
            kafka_version="3.6.2",
        ),
    ),
    Case("under-replicated", "topic t", cluster({"t": [part(0, 1, 2, 3, isr=(1, 2))], **GOOD}, "abc"), by_hand=_alive),
    Case(
        "low-replication",
        "topic t",
        cluster({"t": [part(0, 1, 2), part(1, 2, 3, 1)], **GOOD}, "abc"),
        ("--replication", "3"),
    ),
    Case(
        "low-replication",
        "topic t",
        cluster({"t": [part(0, 1), part(1, 2)], **GOOD}, "aabb"),
        ("--replication", "3", "--min-rack-ids", "2"),
    ),
    Case(
        "high-replication",
        "topic t",
        cluster({"t": [part(0, 1, 2, 3), part(1, 2, 3, 1)], "good": ring(factor=2)}, "abc"),
        ("--replication", "2"),
    ),
    Case(
        "uneven-replication",
        "topic t",
        cluster({"t": [part(0, 1, 2), part(1, 2, 3, 1), part(2, 3, 1, 2)], **GOOD}, "abc"),
    ),
    Case(
        "uneven-replication", "topic t", cluster({"t": [part(0, 1, 2, 3), part(1, 2, 3), part(2, 3, 1)], **GOOD}, "abc")
    ),
    Case(
        "uneven-replication",
        "topic t.x",
        cluster(
            {"t.x": [part(0, 1, 2, 3), part(1, 2, 3), part(2, 3, 1)], "t-x": [part(0, 1)], "t": [part(0, 1, 2)]}, "abc"
        ),
    ),
    Case("rack-rule", "topic t", cluster(TWO_IN_A, "aabc")),
    Case(
        "rack-rule",
        "topic t",
        cluster({"t": [part(0, 1, 2)], "good": [part(0, 1, 3)]}, "aabb"),
        ("--min-rack-ids", "2"),
    ),
    Case("rack-rule", "topic t", cluster({"t": [part(0, 1, 2, 3)]}, "aab"), by_hand=_set_rack(2, "c")),
    Case(
        "rack-spread",
        "topic t",
        cluster({"t": [part(0, 1, 2, 3, 4)], "good": [part(0, 1, 4, 5, 2)]}, "aaabc"),
        ("--min-rack-ids", "2"),
    ),
    Case(
        "rack-spread",
        "topic t",
        cluster({"t": [part(0, 1, 2, 3, 4)], "good": [part(0, 1, 4, 2, 5)]}, "aaabbc"),
        ("--min-rack-ids", "1"),
    ),
    Case(
        "rackless-broker",
        "broker 3",
        cluster({"t": [part(0, 1, 2, 3), part(1, 2, 3, 4)]}, "ab-c"),
        by_hand=_set_rack(3, "a"),
    ),
    Case(
        "broker-set",
        "topic t",
        cluster({"t": [part(0, 1, 2, 4), part(1, 1, 2, 3)], **GOOD}, "abcd"),
        ("--brokers", "1,2,3"),
    ),
    Case(
        "broker-set",
        "topic t",
        cluster({"t": [part(0, 1, 2, 4), part(1, 1, 2, 3)], **GOOD}, "abcd"),
        ("--brokers", "1,2,3,9"),
    ),
    Case(
        "constraint",
        "topic t",
        cluster(
            {"t": [part(0, 1, 2), part(1, 1, 3)], "good": [part(0, 2, 3)]},
            "abc",
            tags=TagSet(brokers={1: {"pool": "x"}, 2: {"pool": "y"}, 3: {"pool": "y"}}),
        ),
        ("--affinity", "topics where name = t: brokers where pool = y"),
    ),
    Case(
        "disk-use",
        "broker 1 /d1",
        cluster(
            {"t": [part(n, 1) for n in range(9)], "good": [part(n, n % 2 + 2) for n in range(6)]}, "abc", disk=1_000
        ),
    ),
    Case(
        "disk-use",
        "broker 1 /d1",
        cluster(
            {"t": [part(n, 1) for n in range(9)], "good": [part(n, n % 2 + 2) for n in range(6)]},
            "abc",
            disk=1_000,
            dirs=2,
        ),
        ("--band", "100%"),
    ),
    Case(
        "failed-dir",
        "broker 1 /d1",
        failed_dir({}),
    ),
    Case(
        "cordoned-dir",
        "broker 1 /d1",
        with_dir(cluster({"t": [part(0, 1, 2), part(1, 1, 2)], **GOOD}, "abc", dirs=2), 1, "/d1", cordoned=True),
    ),
    Case(
        "cordoned-dir",
        "broker 1 /d1",
        with_dir(
            cluster({"t": [part(0, 1, 2), part(1, 1, 2)], "good": [part(0, 2, 3)]}, "abc"), 1, "/d1", cordoned=True
        ),
    ),
    Case(
        "broker-share",
        "broker 1",
        cluster({"t": [part(n, 1) for n in range(9)], "good": [part(n, n % 2 + 2) for n in range(9)]}, "abc"),
    ),
    Case(
        "broker-share",
        "broker 1",
        with_broker(
            cluster(
                {
                    "t": [part(n, 1) for n in range(9)],
                    "dead": [part(0, 4, 1)],
                    "good": [part(n, n % 2 + 2) for n in range(9)],
                },
                "abcd",
            ),
            4,
            state=BrokerState.MISSING,
        ),
        by_hand=_alive,
    ),
    Case("broker-share", "broker 3", cluster({"t": [part(n, n % 2 + 1) for n in range(9)]}, "aab"), ("--topics", "t")),
    Case(
        "broker-share",
        "broker 1",
        cluster(
            {
                "t": [part(n, 1) for n in range(2)],
                "u": [part(n, 1) for n in range(9)],
                "good": [part(n, n % 2 + 2) for n in range(9)],
            },
            "abc",
        ),
        ("--topics", "t,good"),
    ),
    Case(
        "cordoned-dir",
        "broker 1 /d1",
        with_dir(cluster({"t": [part(0, 1, 2)], "u": [part(0, 1, 2)], **GOOD}, "abc", dirs=2), 1, "/d1", cordoned=True),
        ("--topics", "t"),
    ),
    Case(
        "leader-share",
        "broker 4",
        cluster({"t": [part(n, n % 3 + 1, (n + 1) % 3 + 1) for n in range(24)]}, "abcd"),
        by_hand=_give(4),
    ),
    Case(
        "dir-share",
        "broker 1 /d1",
        cluster(
            {
                "t": [part(n, 1) for n in range(6)],
                "good": [part(n, 2, replica_dirs={2: f"/d{n % 2 + 1}"}) for n in range(4)],
            },
            "ab",
            dirs=2,
        ),
    ),
    Case("leader-share", "broker 1", cluster({"t": [part(n, 1, 2, 3) for n in range(6)]}, "abc")),
    Case("preferred-leader", "topic t", cluster({"t": [part(0, 1, 2, 3, leader=2)], **GOOD}, "abc")),
    Case("unknown-size", "snapshot", cluster({"t": [part(0, 1, 2, 3, replica_bytes={})]}, "abc", sizes_taken=False)),
    Case("moving", "topic t", MOVING, by_hand=_end_moves),
]


def findings(home: Home, facts: ClusterSnapshot | Facts, *options: str) -> list[Facts]:
    save(home, facts)
    ran = home.run(*CHECK, *options)
    assert ran.code == 0, ran.stderr
    return list(ran.json["findings"])


def named_by(finding: Facts, before: Facts) -> set[str]:
    """The partitions that a finding is about: those that it names, or those on its broker or in its log dir.

    Dirs are levelled with the other dirs of their broker.
    """
    if finding["subjects"]:
        return set(finding["subjects"])
    place = re.fullmatch(r"broker (\d+)(?: (.*))?", finding["where"])
    assert place, finding
    return holders(before, int(place[1]), None if finding["rule"] in ("dir-share", "disk-use") else place[2])


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == {rule.name for rule in RULES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{CASES.index(case)}")
def test_the_printed_command_repairs_what_it_is_printed_for(home: Home, case: Case) -> None:
    before = save(home, case.cluster)
    (finding,) = (
        f for f in findings(home, before, *case.options) if (f["rule"], f["where"]) == (case.rule, case.where)
    )
    words = command_in(finding["hint"])
    if case.by_hand is not None:
        case.by_hand(before)
        save(home, before)
    options, after = case.options, before
    if words[:2] == ["topicmappr", "check"]:
        assert home.run(*words, "--fail-on", "never").code == 0
        options = tuple(words[2:])
    elif words[:1] == ["snapshot"] or words[:2] == ["reassign", "status"]:
        assert case.by_hand or case.rule in ("replica-list", "dead-broker", "unknown-size")
        return
    elif words[:2] == ["broker", "rejoin"]:
        _elect(after, {int(b) for b in words[2].split(",")})
    else:
        after = planned(home, case, finding, before)
    left = {(f["rule"], f["where"]) for f in findings(home, after, *options)}
    if case.rule == "failed-dir":  # the disk is still to be repaired
        assert not holders(after, 1, "/d1")
    else:
        assert (case.rule, case.where) not in left


def planned(home: Home, case: Case, finding: Facts, before: Facts) -> Facts:
    """The cluster after the planning commands of a finding, which change only what it names."""
    named = named_by(finding, before)
    words = command_in(finding["hint"])
    done = carry_out(home, words, before)
    assert done.ran.code == 0, done.ran.stderr
    assert done.plan is not None, done.ran.stdout
    if words[1] == "leaders":
        assert not done.copied
    elif words[1] != "rebalance":  # which may take from any broker, and give to any
        assert done.changed <= named
    return done.after


def _elect(facts: Facts, brokers: set[int]) -> None:
    for p in _rows(facts):
        if p["replicas"][0] in brokers:
            p["leader"] = p["replicas"][0]


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSnapshot:
    """Up to five brokers on racks or none, dead ones, failed and cordoned dirs, unlike factors, leaders and sizes."""
    count = draw(st.integers(3, 5))
    racks = "".join(
        draw(
            st.lists(st.sampled_from(draw(st.sampled_from(["abc", "ab", "ab-", "-"]))), min_size=count, max_size=count)
        )
    )
    dirs = draw(st.integers(1, 2))
    ids = range(1, count + 1)
    rows = {}
    for name in ("orders", "pay.ments")[: draw(st.integers(1, 2))]:
        lists = draw(
            st.lists(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True), min_size=1, max_size=6)
        )
        rows[name] = [
            part(
                n,
                *row,
                leader=draw(st.sampled_from(row)),
                replica_bytes=dict.fromkeys(row, draw(st.integers(1, 4)) * SIZE),
                replica_dirs={b: f"/d{draw(st.integers(1, dirs))}" for b in row},
            )
            for n, row in enumerate(lists)
        ]
    made = cluster(rows, racks, dirs=dirs, disk=draw(st.sampled_from([3_000, 6_000])))
    trouble = draw(st.sampled_from(["none", "dead", "cordoned", "failed"]))
    broker = draw(st.sampled_from(ids))
    if trouble == "dead":
        made = _dead(made, broker)
    elif trouble == "cordoned":
        made = with_dir(made, broker, "/d1", cordoned=True)
    elif trouble == "failed":
        made = _offline(with_dir(made, broker, "/d1", error="broken", total_bytes=None, usable_bytes=None), broker)
    return made


def _dead(made: ClusterSnapshot, broker: int) -> ClusterSnapshot:
    return _offline(with_broker(made, broker, state=BrokerState.MISSING), broker, "")


def _offline(made: ClusterSnapshot, broker: int, path: str = "/d1") -> ClusterSnapshot:
    """Its copies there are not in sync, and others lead."""

    def left(p: Partition) -> Partition:
        if path and p.replica_dirs.get(broker) != path:
            return p
        isr = tuple(b for b in p.isr or () if b != broker)
        leader = p.leader if p.leader in isr else next(iter(isr), None)
        return replace(p, isr=isr, leader=leader)

    return replace(made, topics=tuple(replace(t, partitions=tuple(map(left, t.partitions))) for t in made.topics))


@settings(
    max_examples=15,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(made=clusters(), racks=st.sampled_from([0, 0, 1, 2]), replication=st.sampled_from([0, 0, 2, 3]))
def test_random_clusters_are_repaired_finding_by_finding(
    home: Home, made: ClusterSnapshot, racks: int, replication: int
) -> None:
    options = (
        *(("--min-rack-ids", str(racks)) if racks else ()),
        *(("--replication", str(replication)) if replication else ()),
    )
    before = save(home, made)
    for finding in findings(home, before, *options):
        save(home, before)
        words = command_in(finding["hint"])
        at_once = finding["hint"].startswith("kafkakit ") or finding["rule"] in ("dead-broker", "failed-dir")
        if not at_once or words[0] != "topicmappr" or words[1] == "check":
            continue
        done = carry_out(home, words, before)
        shown = f"{finding['rule']} {finding['where']}: {' '.join(words)}\n{done.ran.stdout}{done.ran.stderr}"
        if done.ran.code != 0:
            assert done.ran.code in (1, 4), shown
            continue
        assert done.plan is not None, shown
        assert words[1] in ("rebalance", "leaders") or done.changed <= named_by(finding, before), shown
        left = {(f["rule"], f["where"]) for f in findings(home, done.after, *options)}
        if words[1] == "leaders":  # as even as the places of the replicas let it be
            assert not done.copied, shown
        elif finding["rule"] != "failed-dir":
            assert (finding["rule"], finding["where"]) not in left, shown


@dataclass(frozen=True)
class Refusal:
    """A planning command that is refused: what its hint says, and which partitions that may touch.

    `maker` is the function that makes the command of the hint; without one the hint names options of the same command,
    which `options` finds in the error. `by_hand` is what the command does where it needs a live cluster, `then` are
    options that the hint tells to change beside.
    """

    name: str
    line: str
    cluster: ClusterSnapshot
    maker: str = ""
    options: str = ""
    touches: frozenset[str] = frozenset()
    by_hand: ByHand | None = None
    file: str = "s.json"
    then: tuple[str, ...] = ()


def dead(made: ClusterSnapshot, broker: int) -> ClusterSnapshot:
    return _dead(made, broker)


def _sized(facts: Facts) -> None:
    facts["sizes_taken"] = True
    for p in _rows(facts):
        p["replica_bytes"] = {str(b): SIZE for b in p["replicas"]}


def _abort(facts: Facts) -> None:
    """Kafka's answer to a cancelled move: the copies that were to come are gone."""
    facts["reassignments"] = []
    for p in _rows(facts):
        p["replicas"] = [b for b in p["replicas"] if b not in p.get("adding", ())]
        p["isr"], p["adding"], p["removing"] = p["replicas"], [], []
        for known in ("replica_bytes", "replica_dirs"):
            p[known] = {b: value for b, value in p[known].items() if int(b) in p["replicas"]}


ON_DEAD = dead(
    cluster({"t": [part(0, 1, 4, isr=(1,)), part(1, 1, 2)], "u": [part(0, 4, 2)], "good": ring(factor=2)}, "abcd"),
    4,
)
HANGING = dead(
    replace(
        cluster({"t": [part(0, 1, 2, 3, 4, isr=(1, 2, 3), adding=(4,), removing=(3,))], **GOOD}, "abcd"),
        reassignments=(Reassignment(topic="t", partition=0, replicas=(1, 2, 3, 4), adding=(4,), removing=(3,)),),
    ),
    4,
)
FAILED_DIR = failed_dir({"u": [part(0, 1, 2, isr=(2,), leader=2)]})
PAIRS = {"t": [part(0, 1, 2), part(1, 2, 3)], "good": ring(factor=2)}
HEAVY = cluster({"t": [part(n, 1) for n in range(4)], "good": [part(0, 2)]}, "abc")
UNSIZED = cluster({"t": [part(0, 1, 2, replica_bytes={}), part(1, 2, 3, replica_bytes={})]}, "abc", sizes_taken=False)
REQUESTS, DECIDE = "topicmappr/decide/requests.py:command", "topicmappr/decide/"
REFUSALS = [
    Refusal("frontier over a dead broker", "frontier --topics t", ON_DEAD, REQUESTS, touches=frozenset({"t-0"})),
    Refusal(
        "frontier over a dead broker that is left out",
        "frontier --topics t,good --brokers 1,2,3",
        ON_DEAD,
        REQUESTS,
        touches=frozenset({"t-0"}),
    ),
    Refusal("frontier without a broker that holds replicas", "frontier --brokers 1,2", cluster(PAIRS, "abc"),
            options=r"--brokers \S+"),
    Refusal("frontier over a broker that is not there", "frontier --brokers -1,9", cluster(PAIRS, "abc"),
            options=r"--brokers \S+"),
    *(
        Refusal(f"{verb} over a dead broker", f"{verb} --topics t,good {listed}", ON_DEAD, REQUESTS,
                touches=frozenset({"t-0"}), then=("--brokers", "1,2,3") if "4" in listed else ())
        for verb, listed in (
            ("rebalance", "--brokers -1"),
            ("rebalance", "--brokers 1,2,3,4"),
            ("rebalance", "--brokers 1,2,3"),
            ("rebalance", "--brokers -1 --band 50% --min-rack-ids 1"),
            ("rebalance", "--brokers -1 --band 50% --spread"),
            ("add-brokers", "--brokers 3 --band 100%"),
        )
    ),
    Refusal("scale over a dead broker", "scale --topics t --brokers -1,3",
            dead(cluster({"t": [part(0, 1, 4, isr=(1,)), part(1, 1, 2)], "u": [part(n, 3) for n in range(9)]}, "abcd"),
                 4), REQUESTS, touches=frozenset({"t-0"})),
    Refusal("rebalance without a broker that holds replicas", "rebalance --topics t,good --brokers 1,2",
            cluster({"t": [part(0, 1)], "u": [part(0, 3)], "good": [part(0, 3), part(1, 2)]}, "abc"), REQUESTS,
            touches=frozenset({"good-0"})),
    Refusal("rebalance with a broker that holds replicas listed", "rebalance --topics t,good --brokers 1,2",
            cluster(PAIRS, "abc"), options=r"--brokers [\d,]+"),
    Refusal("rebalance over a broker that is not there", "rebalance --topics t --brokers 1,2,3,9",
            cluster(PAIRS, "abc"), options=r"--brokers \S+"),
    Refusal("place with another factor", "place t --partitions 4 --replication 3", cluster(PAIRS, "abc"),
            f"{DECIDE}plain_requests.py:set_replication", touches=frozenset({"t-0", "t-1"})),
    Refusal("planning while a move cannot end", "leaders --topics t", HANGING, "core/text.py:abort_command",
            by_hand=_abort),
    Refusal("a balance without sizes", "rebalance --topics t --brokers -1", UNSIZED,
            f"{DECIDE}storage.py:_refuse_unknown_sizes", by_hand=_sized, file="snapshot.json"),
    Refusal("a balance without disks", "rebalance --topics t --brokers -1",
            replace(cluster(PAIRS, "abc"), sizes_taken=False, brokers=tuple(
                replace(b, log_dirs=()) for b in cluster(PAIRS, "abc").brokers)),
            f"{DECIDE}storage.py:_refuse_unknown_disks", by_hand=lambda facts: facts.update(
                sizes_taken=True, brokers=[
                    {**b, "log_dirs": [{"path": "/d1", "total_bytes": DISK, "usable_bytes": DISK - 600}]}
                    for b in facts["brokers"]
                ]), file="snapshot.json"),
    Refusal("a snapshot that is older than allowed", "rebalance --topics t --brokers -1 --metrics-age 5",
            cluster(PAIRS, "abc"), f"{DECIDE}storage.py:refuse_old",
            by_hand=lambda facts: facts.update(taken_at="2999-01-01T00:00:00Z"), file="snapshot.json"),
    Refusal("a band that cannot be reached", "rebalance --topics t,good --brokers -2 --band 1%", HEAVY,
            options=r"--band [\d.]+%"),
    Refusal("a range that cannot be reached", "rebalance --topics t,good --brokers -2 --free-range 1B", HEAVY,
            options=r"--free-range \d+B"),
    Refusal("more replicas than racks", "rebuild --topics t --brokers 1,2,3 --replication 3",
            cluster({"t": [part(0, 1, 3)]}, "aab"),
            options=r"--min-rack-ids \d+"),
    Refusal("a drain that leaves too few racks", "drain --brokers 3", cluster({"t": [part(0, 1, 3)]}, "aab"),
            options=r"--min-rack-ids \d+"),
    Refusal("a drain of a log dir that leaves too few racks", "drain --brokers 1 --log-dir /d1",
            cluster({"t": [part(0, 1, 2)]}, "abbb"), options=r"--min-rack-ids \d+"),
    Refusal("a ceiling that cannot be kept", "rebalance --topics t,good --brokers -2 --max-replicas 1", HEAVY,
            options=r"(?<=be: )--max-replicas \d+"),
]  # fmt: skip


def refused(home: Home, line: str) -> Ran:
    """The command on the snapshot, in text: it does not go through."""
    verb, *rest = shlex.split(line)
    ran = home.run("topicmappr", verb, *rest, "--snapshot", "s.json")
    assert ran.code not in (0, 3), f"{line}: {ran.stdout}"
    return ran


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.name.replace(" ", "-"))
def test_what_a_refusal_prints_makes_the_command_go_through(home: Home, case: Refusal) -> None:
    before = save(home, case.cluster)
    verb, *rest = shlex.split(case.line)
    with functions_reached() as reached:
        ran = refused(home, case.line)
    hint = hint_of(ran)
    again = with_options(["topicmappr", verb, *rest, "--snapshot", case.file], case.then)
    after = before
    if case.options:
        found = re.search(case.options, ran.stderr)
        assert found, ran.stderr
        again = with_options(again, found[0].split(" "))
    else:
        assert case.maker in reached
        words = command_in(hint)
        if case.by_hand is None:
            done = carry_out(home, words, before)
            assert done.ran.code == 0, f"{hint}: {done.ran.stderr}"
            assert done.changed == case.touches
            after = done.after
        else:
            assert words[:2] in (["reassign", "abort"], ["snapshot", "--output-file"]), words
            after = copy.deepcopy(before)
            case.by_hand(after)
    (home.work / case.file).write_text(json.dumps(after))
    ran = home.run(*again)
    assert ran.code == 0, f"{hint}\n{ran.stderr}"


def test_a_hint_to_abort_names_the_moves_that_cannot_end(home: Home) -> None:
    save(home, HANGING)
    words = command_in(hint_of(refused(home, "rebalance --topics t,good --brokers -2 --band 50%")))
    assert words == ["reassign", "abort", "--partition", "t-0"]


def test_what_was_in_a_failed_dir_is_replaced_of_the_named_topics_only(home: Home) -> None:
    before = save(home, FAILED_DIR)
    with functions_reached() as reached:
        hint = hint_of(refused(home, "drain --brokers 1 --log-dir /d1 --topics t --min-rack-ids 2"))
    assert f"{DECIDE}plain_requests.py:repair" in reached
    done = carry_out(home, command_in(hint), before)
    assert (done.ran.code, done.changed) == (0, {"t-0"})
    assert holders(done.after, 1, "/d1") == {"u-0"}


def test_the_partitions_that_break_the_rack_rule_for_good_are_shown(home: Home) -> None:
    save(home, cluster({"t": [part(0, 1, 2, 3)], "u": [part(0, 1, 2, 3)]}, "aab"))
    with functions_reached() as reached:
        hint = hint_of(refused(home, "rebalance --topics t --brokers -1 --band 100% --max-rack-violations 0"))
    assert REQUESTS in reached
    ran = home.run(*command_in(hint))
    assert (ran.code, "t-0" in ran.stderr, "u-0" in ran.stderr) == (4, True, False)


def test_a_new_plan_names_the_moves_to_cancel_first(home: Home) -> None:
    start = cluster({"t": [part(0, 1, 2), part(1, 1, 2)], "good": ring(factor=2)}, "abcd")
    save(home, start)
    assert home.run("topicmappr", "drain", "--topics", "t", "--brokers", "2", "--to", "3,4", "--snapshot", "s.json",
                    "--plan", "old.json").code == 0  # fmt: skip
    plan = json.loads((home.work / "old.json").read_bytes())
    first = plan["moves"][0]
    (new,) = set(first["after"]) - set(first["before"])
    facts = json.loads((home.work / "s.json").read_bytes())
    row = next(p for t in facts["topics"] if t["name"] == "t" for p in t["partitions"]
               if p["partition"] == first["partition"])  # fmt: skip
    row |= {"replicas": [*first["after"], 2], "adding": [new], "removing": [2], "isr": [1, 2]}
    facts["reassignments"] = [{"topic": "t", "partition": first["partition"], "replicas": row["replicas"],
                               "adding": [new], "removing": [2]}]  # fmt: skip
    facts["taken_at"] = "2999-01-01T00:00:00Z"
    for broker in facts["brokers"]:
        broker["state"] = "missing" if broker["id"] == new else "alive"
    save(home, facts)
    with functions_reached() as reached:
        ran = home.run("topicmappr", "replan", "old.json", "--snapshot", "s.json", "-o", "json")
    assert "core/text.py:abort_command" in reached, ran.stderr
    (note,) = (n for n in ran.json["notes"] if "cancel the moves" in n)
    assert command_in(note) == ["reassign", "abort", "--partition", f"t-{first['partition']}"]
    _abort(facts)
    save(home, facts)
    ran = home.run("topicmappr", "replan", "old.json", "--snapshot", "s.json", "-o", "json")
    assert [n for n in ran.json["notes"] if "cancel the moves" in n] == []


@dataclass(frozen=True)
class Judged:
    """A map with a finding: its lists by partition, the options of the audit, and what makes the finding go.

    The command plans what the map was to reach (`plan`: its map is judged), changes the cluster (`cluster`: the map is
    judged again), or is for the live cluster (`by_hand`).
    """

    rule: str
    where: str
    lists: dict[str, list[int]]
    cluster: ClusterSnapshot
    maker: str
    options: tuple[str, ...] = ()
    judged: str = "plan"
    by_hand: ByHand | None = None


AUDIT = f"{DECIDE}audit_map.py"
FULL = cluster({"t": [part(n, 1) for n in range(6)], "good": [part(0, 2), part(1, 3)]}, "abc", disk=1_000)
UNSIZED_DISK = with_dir(  # of broker 4 no dir works, so the use of its disk is not known
    cluster({"t": [part(0, 1, 3), part(1, 3, 2)], "u": [part(0, 4, 2, isr=(2,), leader=2)]}, "aabc"),
    4, "/d1", error="broken", total_bytes=None, usable_bytes=None,
)  # fmt: skip
JUDGED = [
    Judged("rack-rule-broken", "topic t", {"t-0": [1, 2]},
           cluster({"t": [part(0, 1, 3)], "u": [part(0, 2, 3)]}, "aab"), f"{AUDIT}:_planning", ("--brokers", "1,2,3")),
    Judged("rack-rule-broken", "topic t", {"t-0": [2, 4]},
           cluster({"t": [part(0, 1, 3)], "u": [part(0, 2, 3)]}, "aaba"), f"{AUDIT}:_plan"),
    Judged("rack-rule-broken", "topic t", {"t-0": [1, 2, 3]}, cluster({"t": [part(0, 1, 4, 5)]}, "aabbc"),
           f"{AUDIT}:_planning", ("--min-rack-ids", "3", "--brokers", "1,2,3,4,5")),
    *(Judged("rack-rule-broken", "topic t", {"t-0": [1, 2], "t-1": [1, 3]}, UNSIZED_DISK, f"{AUDIT}:_plan",
             ("--brokers", "1,2,3,4", *goal)) for goal in ((), ("--band", "30%"), ("--free-range", "1kB"))),
    Judged("constraint-broken", "topic t", {"t-0": [2, 3]},
           replace(UNSIZED_DISK, tags=TagSet(brokers={n: {"pool": "xyxx"[n - 1]} for n in (1, 2, 3, 4)})),
           f"{AUDIT}:_plan",
           ("--brokers", "1,2,3,4", "--affinity", "topics where name = t: brokers where pool = x")),
    Judged("constraint-broken", "topic t", {"t-0": [2, 3]},
           cluster({"t": [part(0, 1, 2)], "u": [part(0, 1, 2)]}, "abc",
                   tags=TagSet(brokers={1: {"pool": "x"}, 2: {"pool": "x"}, 3: {"pool": "y"}})), f"{AUDIT}:_planning",
           ("--brokers", "1,2,3", "--affinity", "topics where name = t: brokers where pool = x")),
    Judged("disk-full", "broker 2", {f"t-{n}": [2] for n in range(6)},
           replace(FULL, brokers=tuple(replace(b, log_dirs=(LogDir(path="/d1", total_bytes=500, usable_bytes=400),))
                                       if b.id == 2 else b for b in FULL.brokers)),
           f"{AUDIT}:_planning", ("--brokers", "1,2,3")),
    Judged("disk-over-limit", "broker 2", {f"t-{n}": [2] for n in range(6)}, FULL, f"{AUDIT}:_planning",
           ("--brokers", "1,2,3", "--max-disk-use", "62.5%")),
    Judged("goal-missed", "map", {"t-0": [2]}, FULL, f"{AUDIT}:_planning", ("--brokers", "1,2,3", "--band", "25.5%")),
    Judged("goal-missed", "map", {"t-0": [2]}, FULL, f"{AUDIT}:_planning",
           ("--brokers", "1,2,3", "--free-range", "100B")),
    Judged("goal-missed", "map", {f"t-{n}": [2] for n in range(6)}, FULL, f"{AUDIT}:_plan",
           ("--brokers", "2,3", "--free-range", "100B")),
    Judged("rack-rule-stays", "topic t", {"t-0": [2, 1]},
           cluster({"t": [part(0, 1, 2), part(1, 1, 3)], "u": [part(0, 1, 2)]}, "aab"), f"{AUDIT}:_planning"),
    Judged("dead-broker-stays", "topic t", {"t-0": [2, 4]},
           dead(cluster({"t": [part(0, 1, 4), part(1, 1, 2)], "u": [part(0, 4, 1)]}, "abcd"), 4), f"{AUDIT}:_planning"),
    Judged("fewer-replicas", "topic t", {"t-0": [1, 2], "t-1": [2, 3]},
           cluster({"t": [part(0, 1, 2, 3), part(1, 2, 3, 1)], **GOOD}, "abc"), f"{AUDIT}:_command", judged="cluster"),
    Judged("being-moved", "topic t", {"t-0": [1, 2, 3]}, MOVING, f"{AUDIT}:_command", judged="cluster",
           by_hand=_end_moves),
    Judged("disk-peak", "broker 2", {"t-0": [2, 1], "t-1": [3, 1]},
           cluster({"t": [part(0, 3, 1, replica_bytes={3: 4000, 1: 4000}),
                          part(1, 2, 3, replica_bytes={2: 4000, 3: 4000})]}, "abc"), f"{AUDIT}:_command",
           ("--max-disk-use", "70%"), judged="",
           by_hand=lambda facts: None),
]  # fmt: skip


def judge(home: Home, lists: dict[str, list[int]] | Facts, *options: str) -> list[Facts]:
    """The findings of the audit of a map."""
    rows = [{"topic": k.rpartition("-")[0], "partition": int(k.rpartition("-")[2]), "replicas": v}
            for k, v in lists.items()] if "partitions" not in lists else lists["partitions"]  # fmt: skip
    (home.work / "m.json").write_text(json.dumps({"version": 1, "partitions": rows}))
    ran = home.run(
        "topicmappr", "audit", "m.json", "--snapshot", "s.json", "--fail-on", "never", "-o", "json", *options
    )
    assert ran.code == 0, ran.stderr
    return list(ran.json["findings"])


@pytest.mark.parametrize("case", JUDGED, ids=lambda case: f"{case.rule}-{JUDGED.index(case)}")
def test_the_command_of_a_maps_finding_makes_it_go(home: Home, case: Judged) -> None:
    before = save(home, case.cluster)
    with functions_reached() as reached:
        found = judge(home, case.lists, *case.options)
    (finding,) = (f for f in found if (f["rule"], f["where"]) == (case.rule, case.where))
    assert case.maker in reached
    if case.rule == "rack-rule-stays":
        assert finding["message"].startswith("1 partition breaks the rack rule, as before: t-0 ")
    words = command_in(finding["hint"])
    if case.by_hand is not None:
        assert words in (["reassign", "status", "--watch"], ["reassign", "apply", "m.json"])
        case.by_hand(before)
        after, plan = before, None
    else:
        done = carry_out(home, words, before)
        assert done.ran.code == 0, f"{finding['hint']}: {done.ran.stderr}"
        assert {name.rpartition("-")[0] for name in done.changed} <= {"t"}
        after, plan = done.after, done.plan
    if case.judged == "plan":
        assert plan is not None
        assert (case.rule, case.where) not in {
            (f["rule"], f["where"]) for f in judge(home, map_of(plan), *case.options)
        }
    elif case.judged == "cluster":
        save(home, after)
        assert case.rule not in {f["rule"] for f in judge(home, case.lists, *case.options)}


def test_every_command_of_a_maps_finding_has_a_case() -> None:
    reading = read_map(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}).encode(), "m")
    request = MapAuditRequest(map_file="m.json")
    hints = AuditHints(request, case_of(cluster({"t": [part(0, 1, 2)]}, "ab"), reading, request))
    assert {rule for rule in AUDIT_RULES if commands_in(hints.of(rule, "topic t"))} == {case.rule for case in JUDGED}


# A rule of check that reaches each place where that makes commands.
CHECK_MAKERS = {
    "elect": "preferred-leader",
    "snapshot": "unknown-size",
    "watch": "moving",
    "_planning": "rack-rule",
}


def test_every_place_of_the_planner_is_reached_by_a_case() -> None:
    reached = {case.maker for case in REFUSALS} | {case.maker for case in JUDGED}
    reached |= {f"{DECIDE}plain_requests.py:repair"}
    reached |= {f"{DECIDE}check_rules.py:{name}" for name in CHECK_MAKERS}
    reached |= {f"{DECIDE}audit.py:_correct"}  # tests/cli/test_reassign_map.py
    reached |= {f"{DECIDE}assembly.py:apply_command", "topicmappr/report/judgement.py:rebalance_command"}
    assert {m.function for m in makers() if m.function.startswith("topicmappr/")} <= reached


@pytest.mark.parametrize("name", CHECK_MAKERS)
def test_a_rule_of_check_reaches_the_place_that_makes_its_command(home: Home, name: str) -> None:
    case = next(c for c in CASES if c.rule == CHECK_MAKERS[name])
    before = save(home, case.cluster)
    with functions_reached() as reached:
        findings(home, before, *case.options)
    assert f"{DECIDE}check_rules.py:{name}" in reached


@pytest.mark.parametrize(
    "line",
    [
        "drain --brokers 1",
        "repair",
        "fix-racks",
        "set-replication 1 --topics t",
        "leaders",
        "rebuild --topics t --brokers 2,3",
        "rebalance --topics t --brokers -2 --band 50%",
        "scale --topics t --brokers -2 --band 50%",
        "add-brokers --topics t --brokers 3",
        "rebalance-dirs --band 10%",
    ],
)
@pytest.mark.parametrize("file", ["p.json", "my plan.json"])
def test_the_next_command_names_the_plan_that_was_written(home: Home, line: str, file: str) -> None:
    pairs = [part(n, 1, 4, isr=(1,), replica_dirs={1: "/d1", 4: "/d1"}) for n in range(6)]
    save(home, dead(cluster({"t": pairs}, "aabb", dirs=2), 4) if line == "repair" else UNEVEN)
    verb, *rest = shlex.split(line)
    with functions_reached() as reached:
        ran = home.run("topicmappr", verb, *rest, "--snapshot", "s.json", "--plan", file)
    assert ran.code == 0, ran.stderr
    assert f"{DECIDE}assembly.py:apply_command" in reached
    assert commands_in(ran.stdout) == [["reassign", "apply", file]], ran.stdout
    assert json.loads((home.work / file).read_bytes())["kafkakit"]["kind"] == "plan"


UNEVEN = cluster({"t": [part(n, 1, 2) for n in range(6)]}, "aab", dirs=2)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--topics", "t", "--min-rack-ids", "1", "--max-disk-use", "80%"),
        ("--free-ranges", "200B"),
        ("--pin", "u", "--pin", "t/0", "--head-room", "1kB", "--exclude-givers", "3"),
        ("--broker-set", "u: 2", "--broker-set", "t: 1,3", "--locality-scoped"),
        ("--affinity", "topics where name = u: brokers where pool = x", "--anti-affinity",
         "topics where name = u: brokers where pool = z"),
        ("--topics-exclude", "u", "--max-replicas", "9"),
    ],
)  # fmt: skip
def test_the_rebalance_that_a_frontier_names_costs_what_it_says(home: Home, options: tuple[str, ...]) -> None:
    rows = {"t": [part(n, n % 2 + 1) for n in range(8)], "u": [part(0, 2)]}
    tags = TagSet(brokers={1: {"pool": "x"}, 2: {"pool": "x"}, 3: {"pool": "z"}})
    before = save(home, cluster(rows, "aaa", tags=tags))
    with functions_reached() as reached:
        ran = home.run("topicmappr", "frontier", "--brokers", "-2", *options, "--snapshot", "s.json", "-o", "json")
    assert ran.code == 0, ran.stderr
    assert "topicmappr/report/judgement.py:rebalance_command" in reached, ran.stdout
    words = command_in(ran.json["next"])
    assert words[-2:] == ["--plan", "plan.json"]
    done = carry_out(home, words[:-2], before)
    assert done.plan is not None, done.ran.stderr
    points = [p["plan_bytes"] for p in ran.json["points"] if p["plan_bytes"]]
    assert done.plan["certificate"]["objective"] == points[-1]


def test_the_rebalance_that_a_frontier_names_is_written_once_its_warnings_are_repaired(home: Home) -> None:
    rows = {"t": [part(n, 1) for n in range(8)], "u": [part(0, 2)]}
    made = with_dir(cluster(rows, "aaa", dirs=2), 2, "/d2", cordoned=True)
    line = ("topicmappr", "frontier", "--brokers", "-2", "--snapshot", "s.json")
    before = save(home, made)
    page = ("--report", "f.html")
    ran = home.run(*line, "-o", "json", *page)
    assert ran.json["warnings"] == ["broker 2: log dir /d2 is cordoned, its free bytes take no new copy"]
    text = " ".join(home.run(*line).stdout.split())
    words = "(once what the warnings say is repaired, or with --ignore-warns): kafkakit topicmappr rebalance"
    assert words in text
    assert words.partition(":")[0] in (home.work / "f.html").read_text("utf-8")
    next_words = command_in(ran.json["next"])[:-2]
    assert carry_out(home, next_words, before).ran.code == 1
    done = carry_out(home, [*next_words, "--ignore-warns"], before)
    points = [p["plan_bytes"] for p in ran.json["points"] if p["plan_bytes"]]
    assert done.plan is not None
    assert done.plan["certificate"]["objective"] == points[-1]
    for broker in before["brokers"]:
        for log_dir in broker["log_dirs"]:
            log_dir["cordoned"] = False
    save(home, before)
    assert carry_out(home, next_words, before).ran.code == 0
    assert "--ignore-warns" not in home.run(*line).stdout


def test_commands_read_the_sizes_that_the_command_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = {"t": [part(n, 1, replica_bytes={}) for n in range(4)], "good": [part(0, 2, replica_bytes={})]}
    snapshot = cluster(heavy, "abc")
    save(home, snapshot)
    metrics = FakeStorageMetrics(FakeClock(SystemClock().now()))
    metrics.put_sizes({TopicPartition(t.name, p.partition): SIZE for t in snapshot.topics for p in t.partitions})
    metrics.put_free({1: 600, 2: 900, 3: 1_000})
    monkeypatch.setattr(wiring, "open_storage_metrics", lambda *given: metrics)
    given = ["--snapshot", "s.json", "--sizes-from", "zookeeper", "--zk-metrics-prefix", "/kafkakit sizes"]
    ran = home.run("topicmappr", "check", *given, "--band", "10.125%", "-o", "json", "--fail-on", "never")
    hints = {f["rule"]: f["hint"] for f in ran.json["findings"]}
    words = command_in(hints["broker-share"])
    assert [w for w in given if w not in words] == []
    assert words[words.index("--band") + 1] == "10.125%"
