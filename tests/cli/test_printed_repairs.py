"""Every command that a finding of `check` prints is carried out: the finding is gone, and nothing else was touched."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, LogDir, Partition, Reassignment, TagSet, Topic
from kafkakit.topicmappr.decide.check_rules import RULES
from tests.clusters.strategies import TAKEN_AT
from tests.rigs.command_line import Home
from tests.rigs.printed_repairs import Facts, carry_out, command_in, holders, save

SIZE = 100
DISK = 10_000
CHECK = ("topicmappr", "check", "--snapshot", "s.json", "--fail-on", "never", "-o", "json")
LOOKS = (["snapshot"], ["reassign", "status"], ["topicmappr", "check"])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


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
    return ClusterSnapshot(
        cluster_id="c1",
        taken_at=TAKEN_AT,
        source="test",
        brokers=brokers,
        topics=topics,
        **({"sizes_taken": True} | more),
    )


def ring(count: int = 6, brokers: int = 3, factor: int = 3) -> list[Partition]:
    """Partitions spread evenly, in replicas and leaders."""
    return [part(n, *((n + i) % brokers + 1 for i in range(factor))) for n in range(count)]


def with_broker(snapshot: ClusterSnapshot, broker: int, **changes: Any) -> ClusterSnapshot:
    return replace(snapshot, brokers=tuple(replace(b, **changes) if b.id == broker else b for b in snapshot.brokers))


def with_dir(snapshot: ClusterSnapshot, broker: int, path: str, **changes: Any) -> ClusterSnapshot:
    (b,) = (b for b in snapshot.brokers if b.id == broker)
    dirs = tuple(replace(d, **changes) if d.path == path else d for d in b.log_dirs)
    return with_broker(snapshot, broker, log_dirs=dirs)


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
        with_dir(
            cluster(
                {
                    "t": [part(0, 1, 2, isr=(2,), leader=2), part(1, 1, 2, replica_dirs={1: "/d2", 2: "/d1"})],
                    "good": [part(n, 2, 3) for n in range(2)],
                },
                "abc",
                dirs=2,
            ),
            1,
            "/d1",
            error="broken",
            total_bytes=None,
            usable_bytes=None,
        ),
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
