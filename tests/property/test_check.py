"""`check` on generated clusters: the rules on arrays find what a plain reading partition by partition finds."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.findings import FailOn, fails, findings_data, findings_text
from kafkakit.model import ClusterSnapshot, Partition
from kafkakit.topicmappr.check.decide import check_cluster
from kafkakit.topicmappr.check.request import CheckRequest
from tests.strategies import snapshots

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
