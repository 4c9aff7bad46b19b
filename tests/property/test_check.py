"""`check` on generated clusters: the rules on arrays find what a plain reading partition by partition finds."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.findings import FailOn, fails, findings_data, findings_text
from kafkakit.core.model import ClusterSnapshot, Partition
from kafkakit.topicmappr.decide.check import check_cluster
from kafkakit.topicmappr.decide.check_rules import CheckRequest
from tests.clusters.strategies import snapshots

ROUNDS = settings(max_examples=80, deadline=None, derandomize=True)


def plainly(snapshot: ClusterSnapshot, minimum: int, replication: int) -> dict[str, set[str]]:
    racks = {b.id: b.rack for b in snapshot.brokers if b.rack}
    live = {b.id for b in snapshot.brokers if b.is_alive}
    found: dict[str, set[str]] = {
        rule: set() for rule in ("rack-rule", "low-replication", "no-live-copy", "under-replicated", "rack-spread")
    }
    for topic, p in snapshot.partitions():
        name = f"{topic}-{p.partition}"
        used = Counter(racks[b] for b in p.replicas if b in racks)
        broken = any(n > 1 for n in used.values()) and (minimum == 0 or len(used) < minimum)
        if broken:
            found["rack-rule"].add(name)
        elif crowds(used, snapshot):
            found["rack-spread"].add(name)
        if len(p.replicas) < replication:
            found["low-replication"].add(name)
        if not live & set(p.isr or ()):
            found["no-live-copy"].add(name)
        elif set(p.isr or ()) != set(p.replicas):
            found["under-replicated"].add(name)
    return found


def crowds(used: Counter[str], snapshot: ClusterSnapshot) -> bool:
    """True when moving one replica to another rack with a live broker to spare would make the spread more even."""
    sizes = Counter(b.rack for b in snapshot.brokers if b.is_alive and b.rack)
    names = {b.rack for b in snapshot.brokers if b.rack}
    return any(
        used[giver] - used[taker] > 1 and used[taker] < sizes[taker] for giver in used for taker in names if taker
    )


@ROUNDS
@given(snapshots(), st.integers(0, 3), st.integers(0, 4))
def test_rules_on_arrays_agree_with_a_plain_reading(snapshot: ClusterSnapshot, minimum: int, replication: int) -> None:
    report = check_cluster(snapshot, CheckRequest(min_rack_ids=minimum, replication=replication))
    expected = plainly(snapshot, minimum, replication)
    for rule, names in expected.items():
        assert {s for f in report.findings if f.rule == rule for s in f.subjects} == names, rule
    counts = [f.count for f in report.findings if f.subjects]
    assert counts == [len(f.subjects) for f in report.findings if f.subjects]


@ROUNDS
@given(snapshots())
def test_every_report_can_be_shown(snapshot: ClusterSnapshot) -> None:
    report = check_cluster(snapshot, CheckRequest())
    assert findings_text(report.findings).endswith("\n")
    data = findings_data(report.findings)
    assert fails(report.findings, FailOn.NOTE) is bool(data["findings"])
    assert not fails(report.findings, FailOn.NEVER)
    assert all("kafkakit" in f.hint for f in report.findings)


LISTS = st.lists(st.sampled_from([0, 1001, 1002, 1003, 7, 2**31 - 1]), max_size=5)
ODD = st.builds(
    lambda number, replicas, kept, known, moving: Partition(
        partition=number,
        replicas=tuple(replicas),
        isr=tuple(dict.fromkeys(replicas[:kept])) if known else None,
        leader=replicas[0] if replicas and known else None,
        replica_bytes=dict.fromkeys(replicas[:kept], 2**62),
        adding=tuple(dict.fromkeys(replicas[1:])) if moving else (),
        removing=tuple(dict.fromkeys(replicas[:1])) if moving else (),
    ),
    st.integers(0, 2**31 - 1),
    LISTS,
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)


@ROUNDS
@given(snapshots(), st.lists(ODD, max_size=6, unique_by=lambda p: p.partition), st.integers(0, 3))
def test_unsound_lists_never_raise(snapshot: ClusterSnapshot, rows: list[Partition], minimum: int) -> None:
    topic = replace(snapshot.topics[0], partitions=tuple(rows))
    report = check_cluster(replace(snapshot, topics=(topic,)), CheckRequest(min_rack_ids=minimum))
    known = {b.id for b in snapshot.brokers}
    unsound = {
        f"{topic.name}-{p.partition}"
        for p in rows
        for target in [[b for b in p.replicas if b not in p.removing]]
        if not target or len(set(target)) < len(target) or not known.issuperset(target)
    }
    assert {s for f in report.findings if f.rule == "replica-list" for s in f.subjects} == unsound


@ROUNDS
@given(snapshots(dead=False))
def test_removing_what_is_wrong_removes_the_finding(snapshot: ClusterSnapshot) -> None:
    """With one replica each, in sync, no rule on sets of replicas can be broken."""
    single = ClusterSnapshot(
        cluster_id="c",
        taken_at=snapshot.taken_at,
        source="test",
        brokers=snapshot.brokers,
        topics=tuple(
            type(t)(
                name=t.name,
                partitions=tuple(
                    Partition(partition=p.partition, replicas=p.replicas[:1], isr=p.replicas[:1], size_bytes=0)
                    for p in t.partitions
                ),
            )
            for t in snapshot.topics
        ),
        sizes_taken=True,
    )
    rules = {f.rule for f in check_cluster(single, CheckRequest()).findings}
    assert rules <= {"rackless-broker", "leader-share", "unknown-size"}
