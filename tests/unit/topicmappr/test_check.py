"""`topicmappr check`, one broken rule at a time: what is found, where, and which command repairs it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Finding, Severity
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, LogDir, Partition, Reassignment, Topic
from kafkakit.core.selection import parse_broker_list
from kafkakit.topicmappr.decide.check import check_cluster, share_limits
from kafkakit.topicmappr.decide.check_rules import RULES, CheckRequest
from tests.clusters.shapes import make_snapshot
from tests.fakes.admin import FakeCluster

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TB = 10**12
MIN_ISR = "min.insync.replicas"


def part(number: int, *replicas: int, **more: Any) -> Partition:
    facts: dict[str, Any] = {
        "isr": replicas,
        "leader": replicas[0] if replicas else None,
        "replica_bytes": dict.fromkeys(replicas, 100),
        "replica_dirs": dict.fromkeys(replicas, "/d"),
    }
    return Partition(partition=number, replicas=replicas, **(facts | more))


def even(racks: Mapping[int, str | None] | None = None) -> ClusterSnapshot:
    """Three brokers on three racks, six partitions of three replicas, led evenly: nothing to find."""
    racks = racks or {1: "a", 2: "b", 3: "c"}
    ids = sorted(racks)
    rows = [part(n, *(ids[(n + i) % len(ids)] for i in range(3))) for n in range(2 * len(ids))]
    disk = LogDir(path="/d", total_bytes=TB, usable_bytes=TB // 2)
    return cluster(rows, {b: Broker(id=b, rack=racks[b], log_dirs=(disk,)) for b in ids})


def cluster(rows: Sequence[Partition], brokers: Mapping[int, Broker], **more: Any) -> ClusterSnapshot:
    return make_snapshot((brokers[b] for b in sorted(brokers)), {"t": rows}, **{"taken_at": NOW, **more})


def with_row(snapshot: ClusterSnapshot, row: Partition) -> ClusterSnapshot:
    (topic,) = snapshot.topics
    rows = tuple(row if p.partition == row.partition else p for p in topic.partitions)
    return replace(snapshot, topics=(replace(topic, partitions=rows),))


def with_broker(snapshot: ClusterSnapshot, broker: int, **changes: Any) -> ClusterSnapshot:
    return replace(snapshot, brokers=tuple(replace(b, **changes) if b.id == broker else b for b in snapshot.brokers))


def found(snapshot: ClusterSnapshot, **requested: Any) -> dict[tuple[str, str], Finding]:
    report = check_cluster(snapshot, CheckRequest(**requested))
    keys = [(f.rule, f.where) for f in report.findings]
    assert len(set(keys)) == len(keys), "one finding a rule and place"
    assert all(f.hint.count("kafkakit") >= 1 for f in report.findings), "every hint names a command"
    assert len({f.fingerprint for f in report.findings}) == len(keys)
    return dict(zip(keys, report.findings, strict=True))


def test_an_even_cluster_has_no_findings() -> None:
    report = check_cluster(even(), CheckRequest(replication=3, brokers=parse_broker_list("-2")))
    assert report.findings == ()
    assert (report.partitions, report.replicas, report.brokers) == (6, 18, (1, 2, 3))
    assert report.unchecked == ("dir-share",)


def test_the_rack_rule_and_its_minimum() -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "c"}
    seen = with_row(even(racks), part(0, 1, 3, 2))
    shown = found(seen)["rack-rule", "topic t"]
    assert shown.severity is Severity.ERROR
    assert "t-0 (racks a, a, b)" in shown.message
    assert shown.hint.endswith("topicmappr fix-racks --topics t")
    assert ("rack-rule", "topic t") not in found(seen, min_rack_ids=2)
    three = found(seen, min_rack_ids=3)["rack-rule", "topic t"]
    assert "span fewer than 3 racks" in three.message
    assert "--min-rack-ids 3" in three.hint


def test_rackless_replicas_break_no_rack_rule_but_are_told() -> None:
    seen = found(even({1: "a", 2: None, 3: "c"}))
    assert set(seen) == {("rackless-broker", "broker 2")}
    assert "set broker.rack on broker 2" in seen["rackless-broker", "broker 2"].hint
    assert found(even({1: None, 2: None, 3: None})) == {}


@pytest.mark.parametrize(
    ("row", "crowded"),
    [((1, 2, 3), True), ((1, 2, 5), True), ((1, 3, 5), False), ((1, 2, 3, 5), False), ((1, 2, 3, 4), True)],
)
def test_even_spread_over_racks(row: tuple[int, ...], crowded: bool) -> None:
    """Racks a (1, 2), b (3, 4), c (5): c cannot take two."""
    brokers = {b: Broker(id=b, rack=r) for b, r in {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}.items()}
    lists = found(cluster([part(0, *row)], brokers, sizes_taken=False), min_rack_ids=1)
    assert (("rack-spread", "topic t") in lists) is crowded


def test_spread_hint_asks_for_the_spread() -> None:
    brokers = {b: Broker(id=b, rack=r) for b, r in {1: "a", 2: "a", 3: "b", 4: "c"}.items()}
    shown = found(cluster([part(0, 1, 2, 3)], brokers), min_rack_ids=2)["rack-spread", "topic t"]
    assert "fix-racks --topics t --spread" in shown.hint


def test_low_replication_names_the_verb() -> None:
    shown = found(with_row(even(), part(4, 2, 3)), replication=3)["low-replication", "topic t"]
    assert (shown.count, shown.subjects) == (1, ("t-4",))
    assert "set-replication 3 --topics t" in shown.hint
    assert "t-4 [2 3]" in shown.message


def test_unsound_lists() -> None:
    seen = with_row(with_row(even(), part(0, 1, 1, 2)), part(1))
    seen = with_row(seen, part(2, 1, 2, 9))
    lists = found(seen)
    assert lists["replica-list", "topic t"].subjects == ("t-0", "t-1", "t-2")
    assert lists["dead-broker", "broker 9"].message == "is not among the brokers and holds 1 replica"


@pytest.mark.parametrize(("version", "subjects"), [("3.6.2", ("t-0", "t-1")), ("3.7", ()), ("4.1", ()), (None, ())])
def test_fewer_replicas_than_the_minimum_stop_writes_before_3_7(version: str | None, subjects: tuple[str, ...]) -> None:
    short = with_row(with_row(even(), part(0, 1, 2)), part(1, 2, 3))
    seen = replace(short, kafka_version=version, topics=(replace(short.topics[0], configs={MIN_ISR: "3"}),))
    lists = found(seen)
    assert [f.subjects for (rule, _), f in lists.items() if rule == "below-min-isr"] == ([subjects] if subjects else [])
    if subjects:
        hint = lists["below-min-isr", "topic t"].hint
        assert hint.startswith("lower min.insync.replicas")
        assert "set-replication 3 --topics t" in hint
        seen = replace(seen, topics=(replace(seen.topics[0], configs={MIN_ISR: "9"}),))
        assert "set-replication" not in found(seen)["below-min-isr", "topic t"].hint


def test_topics_without_a_minimum_have_the_largest_that_a_broker_uses() -> None:
    seen = with_row(even(), part(1, 2, 3, 1, isr=(2,)))
    assert ("below-min-isr", "topic t") not in found(seen)
    seen = replace(seen, min_isr={1: 1, 2: 2, 3: 2})
    assert found(seen)["below-min-isr", "topic t"].subjects == ("t-1",)
    assert any("1 on 1, 2 on 2, 3" in note for note in check_cluster(seen, CheckRequest()).notes)
    own = replace(seen, topics=(replace(seen.topics[0], configs={MIN_ISR: "1"}),))
    assert ("below-min-isr", "topic t") not in found(own)


def test_copies_in_sync() -> None:
    seen = with_broker(even(), 3, state=BrokerState.FENCED)
    seen = with_row(seen, part(0, 1, 2, 3, isr=(3,), leader=None))
    seen = with_row(seen, part(1, 2, 3, 1, isr=(2,)))
    seen = replace(seen, topics=(replace(seen.topics[0], configs={MIN_ISR: "2"}),))
    seen = with_row(seen, part(2, 3, 1, 2, isr=(1, 2), leader=1))
    lists = found(seen)
    assert lists["no-live-copy", "topic t"].subjects == ("t-0",)
    assert lists["below-min-isr", "topic t"].subjects == ("t-1",)
    assert lists["under-replicated", "topic t"].subjects == ("t-2",)
    assert lists["dead-broker", "broker 3"].hint.endswith("drain --topics '.*' --brokers 3")
    # Broker 3 cannot lead, so it is no news that it does not.
    assert ("preferred-leader", "topic t") not in lists


def test_without_isr_the_live_replicas_count() -> None:
    seen = with_broker(with_broker(even(), 1, state=BrokerState.MISSING), 2, state=BrokerState.MISSING)
    seen = with_row(seen, part(0, 1, 2, isr=None, leader=None))
    seen = with_row(seen, part(1, 1, 3, isr=None, leader=None))
    assert found(seen)["no-live-copy", "topic t"].subjects == ("t-0",)


def test_moves_are_judged_by_where_they_go() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "c"}
    moving = part(0, 1, 2, 3, 4, isr=(1, 2, 3), adding=(4,), removing=(3,))
    seen = replace(
        with_row(even(racks), moving),
        reassignments=(Reassignment(topic="t", partition=0, replicas=(1, 2, 3, 4), adding=(4,), removing=(3,)),),
    )
    lists = found(seen)
    assert lists["moving", "topic t"].severity is Severity.NOTE
    assert "reassign status --watch" in lists["moving", "topic t"].hint
    assert ("under-replicated", "topic t") not in lists
    assert "t-0" not in lists["rack-rule", "topic t"].subjects  # others are on brokers 3 and 4, both in rack c


def test_preferred_leaders_are_a_note() -> None:
    shown = found(with_row(even(), part(0, 1, 2, 3, leader=2)))
    assert set(shown) == {("preferred-leader", "topic t")}
    assert shown["preferred-leader", "topic t"].severity is Severity.NOTE


def test_leader_shares_allow_whole_numbers() -> None:
    rows = [part(n, 1, 2, 3) for n in range(2)] + [part(2, 2, 3, 1), part(3, 3, 1, 2)]
    brokers = {b: Broker(id=b, rack=str(b)) for b in (1, 2, 3)}
    assert found(cluster(rows, brokers, sizes_taken=False)).keys() == {
        ("unknown-size", f"broker {b}") for b in (1, 2, 3)
    }
    rows[2] = part(2, 1, 2, 3)
    seen = found(cluster(rows, brokers))
    assert "preferred leader of 3 partitions; an even share is 1 or 2" in seen["leader-share", "broker 1"].message
    assert ("leader-share", "broker 2") in seen
    assert ("leader-share", "broker 3") not in seen


def test_shares_of_space_are_by_capacity() -> None:
    brokers = {
        b: Broker(id=b, rack=str(b), log_dirs=(LogDir(path="/d", total_bytes=n, usable_bytes=n // 2),))
        for b, n in {1: 1_000, 2: 1_000, 3: 2_000}.items()
    }
    rows = [part(0, 1, replica_bytes={1: 100}), part(1, 2, replica_bytes={2: 100}), part(2, 3, replica_bytes={3: 200})]
    assert found(cluster(rows, brokers)) == {}
    rows[2] = part(2, 3, replica_bytes={3: 150})
    seen = found(cluster(rows, brokers))
    assert [(rule, where) for rule, where in seen] == [("broker-share", f"broker {b}") for b in (3, 1, 2)], (
        "worst first"
    )
    assert seen["broker-share", "broker 3"].message == "150 B used of 1.95 KiB: 8 B under the -10% limit"
    assert "rebalance --topics '.*' --brokers -2 --band 10%" in seen["broker-share", "broker 3"].hint
    assert found(cluster(rows, brokers), band=Fraction(15, 100)) == {}


def test_log_dirs_fullness_shares_and_states() -> None:
    fake = FakeCluster({1: "a"}, dirs_per_broker=5, dir_bytes=1_000)
    fake.add_topic("t", dict.fromkeys(range(8), (1,)), size_bytes=100)
    for n, p in fake.topics["t"].partitions.items():
        p.dirs[1] = f"/data/1/{1 if n == 0 else 0}"
    fake.cordon_dir(1, "/data/1/1")
    fake.cordon_dir(1, "/data/1/4")  # empty: nothing to say
    fake.fail_dir(1, "/data/1/2")
    snapshot = replace(fake.snapshot(now=NOW), kafka_version=None)
    seen = found(snapshot, max_disk_use=Fraction(1, 2))
    assert seen["disk-use", "broker 1 /data/1/0"].message == "70% of 1000 B in use, more than 50%"
    assert seen["failed-dir", "broker 1 /data/1/2"].severity is Severity.ERROR
    assert seen["cordoned-dir", "broker 1 /data/1/1"].message == "is cordoned and holds 1 replica (100 B)"
    assert ("cordoned-dir", "broker 1 /data/1/4") not in seen
    assert {w for r, w in seen if r == "dir-share"} == {"broker 1 /data/1/0", "broker 1 /data/1/3"}
    assert "rebalance-dirs --topics '.*' --brokers 1 --band 10%" in seen["dir-share", "broker 1 /data/1/0"].hint
    assert ("disk-use", "broker 1 /data/1/0") not in found(snapshot, max_disk_use=Fraction(7, 10))


def test_unknown_sizes_are_findings() -> None:
    seen = with_row(even(), part(0, 1, 2, 3, replica_bytes={}))
    seen = replace(with_broker(seen, 2, log_dirs=()), unanswered_brokers={2: "timed out"})
    lists = found(seen)
    assert lists["unknown-size", "broker 2"].message == "gave no sizes: timed out"
    assert lists["unknown-size", "topic t"].subjects == ("t-0",)
    bare = with_row(even(), part(0))
    bare = replace(bare, sizes_taken=False, topics=(replace(bare.topics[0], partitions=()),))
    assert found(bare)["unknown-size", "snapshot"].message == "was taken without sizes"


def test_replicas_outside_of_the_named_brokers() -> None:
    seen = found(even({1: "a", 2: "b", 3: "c", 4: "d"}), brokers=parse_broker_list("1,2,3,7"))
    assert seen["broker-set", "topic t"].count == 6
    assert "rebuild --topics t --brokers 1,2,3" in seen["broker-set", "topic t"].hint
    assert seen["dead-broker", "broker 7"].message == "is not among the brokers and holds 0 replicas"
    assert not [where for _, where in seen if where == "broker 4"]
    with pytest.raises(UsageError, match="broker 7, 8 is not in this cluster"):
        found(even({1: "a", 2: "b"}), brokers=parse_broker_list("7,8"))


def test_topics_are_selected() -> None:
    bad = Topic(name="other", partitions=(part(0, 1, 1, replica_bytes={1: 0}),))
    seen = even()
    seen = replace(seen, topics=(bad, *seen.topics))
    assert ("replica-list", "topic other") in found(seen)
    assert found(seen, topics_exclude=("other",)) == {}
    assert found(seen, topics=("t",)) == {}
    with pytest.raises(UsageError, match="no topic matches"):
        check_cluster(seen, CheckRequest(topics=("nothing",)))


def test_findings_of_many_partitions_are_one_a_topic_with_a_limit_on_names() -> None:
    brokers = {b: Broker(id=b, rack="a") for b in (1, 2)}
    topics = tuple(Topic(name=f"t{t}", partitions=tuple(part(n, 1, 2) for n in range(6_000))) for t in range(2))
    seen = replace(cluster([], brokers), topics=topics)
    lists = found(seen)
    first, second = lists["rack-rule", "topic t0"], lists["rack-rule", "topic t1"]
    assert (first.count, len(first.subjects), second.count, len(second.subjects)) == (6_000, 6_000, 6_000, 4_000)
    assert first.message.startswith("6000 of 6000 partitions put replicas on the same rack: t0-0 (racks a, a), ")
    assert first.message.endswith(" and 5997 more")


def test_an_empty_cluster_is_fine() -> None:
    empty = cluster([], {})
    assert found(replace(empty, topics=())) == {}
    assert found(empty) == {}


def test_share_limits_are_whole_and_fair() -> None:
    assert share_limits(100, {1: 1, 2: 3}, Fraction(0)) == {1: (25, 25), 2: (75, 75)}
    assert share_limits(10, {1: 1, 2: 1, 3: 1}, Fraction(0)) == {1: (3, 4), 2: (3, 4), 3: (3, 4)}
    assert share_limits(1_000, {1: 1, 2: 0}, Fraction(1, 20)) == {1: (950, 1_050), 2: (0, 0)}
    assert share_limits(0, {1: 5}, Fraction(1)) == {1: (0, 0)}
    assert share_limits(5, {1: 0}, Fraction(1)) == {1: (0, 0)}


def test_rules_have_names_of_their_own() -> None:
    assert len({r.name for r in RULES}) == len(RULES)
