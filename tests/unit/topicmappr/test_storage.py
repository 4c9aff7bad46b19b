"""Where sizes come from; the block on free storage, against kafka-kit's own output for one request."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.cluster_facts import FreeStorage, PartitionSizes, StorageReading
from kafkakit.core.errors import InputError, TryLaterError, UsageError
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, LogDir, Partition, TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.placement.broker_disks import broker_disks, dir_table
from kafkakit.topicmappr.act.places import ClusterSource
from kafkakit.topicmappr.act.planning import observe, observe_storage
from kafkakit.topicmappr.decide.storage import (
    GIB,
    FreeChange,
    free_change_data,
    free_change_lines,
    refuse_old,
    storage_facts,
    storage_of,
    summary_of,
    with_metrics,
)
from tests.clusters.shapes import make_snapshot
from tests.fakes.admin import FakeClock, FakeCluster, FakeStorageMetrics
from tests.fakes.planning_session import FakePlanningSession

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def disk(path: str, total: int | None, usable: int | None, **more: Any) -> LogDir:
    return LogDir(path=path, total_bytes=total, usable_bytes=usable, **more)


def cluster(*partitions: Partition, brokers: tuple[Broker, ...] | None = None, **more: Any) -> ClusterSnapshot:
    return make_snapshot(
        brokers
        or (
            Broker(id=1, log_dirs=(disk("/a", 1_000, 600), disk("/b", 500, 100))),
            Broker(id=2, log_dirs=(disk("/a", 2_000, 1_500),)),
        ),
        {"t": partitions},
        **{"taken_at": NOW, **more},
    )


P0 = Partition(partition=0, replicas=(1, 2), replica_bytes={1: 300, 2: 290}, replica_dirs={1: "/a", 2: "/a"})
P1 = Partition(partition=1, replicas=(2, 1), replica_bytes={1: 50, 2: 50}, replica_dirs={1: "/b", 2: "/a"})
GOOD = cluster(P0, P1)


def reading(sizes: dict[TopicPartition, int], free: dict[int, int], age_minutes: int = 5) -> StorageReading:
    then = NOW - timedelta(minutes=age_minutes)
    return StorageReading(
        source="znodes",
        sizes=PartitionSizes(bytes_of=sizes, taken_at=then),
        free=FreeStorage(bytes_of=free, taken_at=then + timedelta(minutes=1)),
    )


def test_brokers_own_sizes() -> None:
    sizes = storage_of(GOOD)
    assert sizes.partition_bytes == {T0: 300, T1: 50}
    assert sizes.brokers == {
        1: BrokerStorage(used_bytes=350, free_bytes=700, capacity_bytes=1_500),
        2: BrokerStorage(used_bytes=340, free_bytes=1_500, capacity_bytes=2_000),
    }
    assert [(d.path, d.replica_bytes, d.replicas) for d in sizes.log_dirs[1]] == [("/a", 300, 1), ("/b", 50, 1)]
    assert (sizes.facts.source, sizes.facts.taken_at, sizes.facts.age_s) == ("brokers", NOW, 0)
    assert (sizes.notes, sizes.warnings) == ((), ())


def test_sizes_and_free_bytes_of_a_file_without_log_dirs() -> None:
    brokers = (Broker(id=1, storage_free_bytes=10), Broker(id=2, storage_free_bytes=0))
    sizes = storage_of(cluster(Partition(partition=0, replicas=(1, 2), size_bytes=30), brokers=brokers))
    assert sizes.brokers == {
        1: BrokerStorage(used_bytes=30, free_bytes=10, capacity_bytes=40),
        2: BrokerStorage(used_bytes=30, free_bytes=0, capacity_bytes=30),
    }
    assert sizes.facts.source == "snapshot file"


def test_collected_sizes_take_the_place_of_the_brokers_own() -> None:
    collected = reading({T0: 900, T1: 0}, {1: 100, 2: 200})
    facts = storage_facts(GOOD, collected)
    assert (facts.source, facts.age_s) == ("znodes", 300)
    sizes = storage_of(with_metrics(GOOD, collected), facts)
    assert sizes.partition_bytes == {T0: 900, T1: 0}
    assert sizes.brokers[1] == BrokerStorage(used_bytes=900, free_bytes=100, capacity_bytes=1_000)
    assert [d.path for d in sizes.log_dirs[1]] == ["/a", "/b"]


def test_collected_sizes_do_for_a_broker_that_gave_no_answer() -> None:
    silent = replace(GOOD, unanswered_brokers={2: "timed out"})
    merged = with_metrics(silent, reading({T0: 900, T1: 0}, {1: 100, 2: 200}))
    assert storage_of(merged).brokers[2].used_bytes == 900


def test_sizes_by_slot_are_each_replicas_own_where_one_is_known() -> None:
    rows = (
        Partition(partition=0, replicas=(1, 2), size_bytes=9, replica_bytes={2: 7}),
        Partition(partition=1, replicas=(1,), size_bytes=9),
        Partition(partition=2, replicas=(1,)),
    )
    table = dir_table(cluster(*rows), [TopicPartition("t", n) for n in (1, 0, 2)], {})
    assert table.slot_bytes.tolist() == [9, -1, 7, -1]
    assert table.slot_dir.tolist() == [-1, -1, -1, -1]


def test_metrics_newer_than_the_snapshot_have_no_age() -> None:
    assert storage_facts(GOOD, reading({}, {}, age_minutes=-30)).age_s == 0


def test_what_the_collector_does_not_know_is_unknown_though_the_broker_told() -> None:
    merged = with_metrics(GOOD, reading({T0: 900}, {1: 100}))
    assert broker_disks(merged).brokers[2].free_bytes is None
    with pytest.raises(TryLaterError, match="no size is known for t-1"):
        storage_of(merged, brokers=[1])
    with pytest.raises(TryLaterError, match="Metrics not found for broker 2"):
        storage_of(merged, brokers=[1, 2], partitions=[T0])
    sizes = storage_of(merged, brokers=[1], partitions=[T0])
    assert sizes.brokers[1].used_bytes == 900
    assert sizes.warnings == ("broker 1: 1 copy of unknown size not counted in its used bytes",)


def test_only_what_the_request_touches_must_be_known() -> None:
    silent = cluster(P0, Partition(partition=1, replicas=(3,)), unanswered_brokers={3: "timed out"})
    silent = replace(silent, brokers=(*silent.brokers, Broker(id=3, log_dirs_error="timed out")))
    assert storage_of(silent, brokers=[1, 2], partitions=[T0]).brokers[3] == BrokerStorage()
    with pytest.raises(TryLaterError, match=r"no size is known for t-1; broker 3 gave no answer \(timed out\)"):
        storage_of(silent, brokers=[1, 2])
    with pytest.raises(TryLaterError, match=r"not known of every broker: broker 3 gave no answer \(timed out\)"):
        storage_of(silent, partitions=[T0])


def test_a_dead_broker_is_not_asked_for() -> None:
    dead = Broker(id=3, state=BrokerState.MISSING, log_dirs_error="not registered")
    seen = replace(GOOD, brokers=(*GOOD.brokers, dead), unanswered_brokers={3: "not registered"})
    assert storage_of(seen).brokers[3].used_bytes is None


def test_a_snapshot_without_sizes_names_the_command() -> None:
    bare = cluster(Partition(partition=0, replicas=(1, 2)), brokers=(Broker(id=1), Broker(id=2)), sizes_taken=False)
    with pytest.raises(UsageError, match="taken without sizes") as caught:
        storage_of(bare)
    assert "kafkakit snapshot" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="disks of broker 1, 2"):
        storage_of(bare, partitions=[])


def test_a_copy_that_is_not_there_yet_counts_nothing() -> None:
    fresh = cluster(P0, Partition(partition=1, replicas=(1, 2)))
    sizes = storage_of(fresh, partitions=[T0])
    assert (sizes.brokers[1].used_bytes, sizes.warnings) == (300, ())


@pytest.mark.parametrize(
    ("size", "problem"),
    [(3_000, "t-1 has 2.93 KiB, more than the largest disk of the cluster"), (-1, "t-1 has -1 bytes")],
)
def test_impossible_sizes_are_refused(size: int, problem: str) -> None:
    odd = cluster(P0, Partition(partition=1, replicas=(1, 2), replica_bytes={1: size, 2: size}))
    with pytest.raises(InputError, match=problem):
        storage_of(odd)


def test_more_bytes_than_can_be_summed_are_refused() -> None:
    brokers = (Broker(id=1, storage_free_bytes=1 << 58), Broker(id=2, storage_free_bytes=0))
    parts = [Partition(partition=i, replicas=(1, 2), size_bytes=1 << 55) for i in range(6)]
    assert storage_of(cluster(*parts[:2], brokers=brokers)).partition_bytes[T1] == 1 << 55
    with pytest.raises(InputError, match="no more than 512 PiB can be handled"):
        storage_of(cluster(*parts, brokers=brokers))


def test_zero_is_a_size() -> None:
    empty = cluster(Partition(partition=0, replicas=(1, 2), replica_bytes={1: 0, 2: 0}))
    assert storage_of(empty).partition_bytes == {T0: 0}


def test_log_dirs_that_are_closed_are_told_of() -> None:
    dirs = (disk("/a", 100, 50), disk("/b", None, None, error="KafkaStorageError"), disk("/c", 10, 5, cordoned=True))
    sizes = storage_of(cluster(brokers=(Broker(id=1, log_dirs=dirs),)))
    assert sizes.brokers[1] == BrokerStorage(used_bytes=0, free_bytes=55, capacity_bytes=110)
    assert [d.is_open for d in sizes.log_dirs[1]] == [True, False, False]
    assert sizes.warnings == (
        "broker 1: log dir /b is offline (KafkaStorageError), its copies and its disk are not counted",
        "broker 1: log dir /c is cordoned, its free bytes take no new copy",
    )


def test_dirs_that_may_share_a_disk_are_counted_and_told_of() -> None:
    dirs = (disk("/a", 100, 50), disk("/b", 100, 50), disk("/c", 100, 51))
    sizes = storage_of(cluster(brokers=(Broker(id=1, log_dirs=dirs),)))
    assert sizes.brokers[1].capacity_bytes == 300
    assert len(sizes.notes) == 1
    assert "log dirs /a, /b report the same" in sizes.notes[0]
    fleet = storage_of(cluster(brokers=tuple(Broker(id=b, log_dirs=dirs) for b in range(9))))
    (note,) = fleet.notes
    assert note.startswith("log dirs of brokers 0, 1, 2 and 6 more report the same total and free bytes; ")


@pytest.mark.parametrize(
    ("age", "limit", "words"),
    [(3_601, 60, "1h0m1s"), (121, 2, "2m1s"), (5, 0, "5s")],
)
def test_old_sizes_are_refused_in_kafka_kits_words(age: int, limit: int, words: str) -> None:
    with pytest.raises(TryLaterError, match=f"^Metrics metadata is older than allowed: {words}"):
        refuse_old(NOW - timedelta(seconds=age), now=NOW, max_age_minutes=limit)


def test_sizes_as_old_as_allowed_pass_and_so_do_future_ones() -> None:
    refuse_old(NOW - timedelta(minutes=60), now=NOW, max_age_minutes=60)
    refuse_old(NOW + timedelta(days=1), now=NOW, max_age_minutes=0)


def test_the_age_of_a_file_counts_only_when_a_limit_is_given() -> None:
    session = FakePlanningSession(FakeClock(NOW + timedelta(days=400)), snapshot=GOOD)
    seen = observe_storage(session, ClusterSource(snapshot=Path("s.json")))
    assert seen.facts.age_s == 0
    with pytest.raises(TryLaterError, match="9600h0m0s"):
        observe_storage(session, ClusterSource(snapshot=Path("s.json"), metrics_age=60))
    observe_storage(session, ClusterSource(metrics_age=0, sizes_from="brokers"))
    assert ClusterSource(metrics_age=0).sizes_source == "zookeeper", "kafka-kit's option on a live cluster"


def test_collected_sizes_are_judged_by_the_clock() -> None:
    clock = FakeClock(NOW)
    metrics = FakeStorageMetrics(clock)
    metrics.put_sizes({T0: 5, T1: 6})
    clock.advance(1_800)
    metrics.put_free({1: 1, 2: 2})
    clock.advance(1_800)
    session = FakePlanningSession(clock, snapshot=GOOD, metrics=metrics)
    collected = ClusterSource(sizes_from="zookeeper")
    seen = observe_storage(session, collected)
    clock.advance(1)
    with pytest.raises(TryLaterError, match="1h0m1s"):
        observe_storage(session, collected)
    observe_storage(session, replace(collected, metrics_age=61))
    assert storage_of(seen.snapshot, seen.facts).partition_bytes == {T0: 5, T1: 6}


def test_a_live_cluster_gives_dirs_of_replicas_and_what_is_closed() -> None:
    fake = FakeCluster({1: "a", 2: "b"}, dirs_per_broker=2)
    fake.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=100)
    fake.cordon_dir(1, "/data/1/0")
    fake.fail_dir(2, "/data/2/0")
    snapshot = fake.snapshot(now=NOW)
    sizes = storage_of(snapshot)
    assert [(d.path, d.is_open) for d in sizes.log_dirs[1]] == [("/data/1/0", False), ("/data/1/1", True)]
    assert [(d.path, d.is_open) for d in sizes.log_dirs[2]] == [("/data/2/0", False), ("/data/2/1", True)]
    table = dir_table(snapshot, [T0, T1], sizes.log_dirs)
    assert table.broker.tolist() == [1, 1, 2, 2]
    assert (table.of_broker(2), table.of_broker(3)) == (range(2, 4), range(4, 4))
    assert table.open.tolist() == [False, True, False, True]
    assert table.total.tolist() == [10**12, 10**12, -1, 10**12]
    held = [p for _, p in snapshot.partitions()]
    for slot, (p, b) in enumerate([(0, 1), (0, 2), (1, 2), (1, 1)]):
        path = held[p].replica_dirs.get(b)
        at = table.slot_dir[slot]
        assert (table.path[at] if at >= 0 else None) == path
        assert table.slot_bytes[slot] == held[p].replica_bytes.get(b, -1)
    assert sum(table.held.tolist()) == sum(n for p in held for n in p.replica_bytes.values())
    session = FakePlanningSession(FakeClock(NOW), admin=fake)
    assert observe(session, None, sizes=False).sizes_taken is False


BEFORE = {1001: 50, 1002: 100, 1003: 150, 1004: 200, 1005: 250}
AFTER = {1001: 65.0, 1002: 130.0, 1003: 160.0, 1004: 162.5, 1005: 197.5}


def _change(**words: object) -> FreeChange:
    facts = {
        "before": {b: f * GIB for b, f in BEFORE.items()},
        "after": {b: int(f * GIB) for b, f in AFTER.items()},
        "holding": {1001, 1002, 1003},
    }
    return FreeChange(**{**facts, **words})  # type: ignore[arg-type]


def test_the_lines_are_those_of_kafka_kit() -> None:
    lines = free_change_lines(_change(factor=1.5))
    assert lines == [
        "Storage free change estimations:",
        "  Partition size factor of 1.50 applied",
        "  range: 100.00GB -> 132.50GB",
        "  range spread: 200.00% -> 203.85%",
        "  std. deviation: 40.82GB -> 44.48GB",
        "  min-max: 50.00GB, 150.00GB -> 65.00GB, 197.50GB",
        "  -",
        "  Broker 1001: 50.00 -> 65.00 (+15.00GB, 30.00%) ",
        "  Broker 1002: 100.00 -> 130.00 (+30.00GB, 30.00%) ",
        "  Broker 1003: 150.00 -> 160.00 (+10.00GB, 6.67%) ",
        "  Broker 1004: 200.00 -> 162.50 (-37.50GB, -18.75%) ",
        "  Broker 1005: 250.00 -> 197.50 (-52.50GB, -21.00%) ",
    ]
    assert _change().range_increased


def test_replaced_brokers_are_marked_and_left_out_on_the_right() -> None:
    change = _change(replaced={1005, 1001})
    lines = free_change_lines(change)
    assert lines[1] == "  range: 100.00GB -> 32.50GB"
    assert lines[-1].endswith("%) *marked for replacement")
    assert not change.range_increased


def test_brokers_of_one_side_only_have_no_line() -> None:
    change = FreeChange(before={1: GIB, 2: GIB}, after={1: GIB, 3: GIB}, holding={1, 2})
    assert [line for line in free_change_lines(change) if "Broker" in line] == [
        "  Broker 1: 1.00 -> 1.00 (+0.00GB, 0.00%) "
    ]
    assert [row["broker"] for row in free_change_data(change)["brokers"]] == [1]  # type: ignore[attr-defined]


def test_no_free_bytes_print_as_go_prints_them() -> None:
    change = FreeChange(before={1: 0, 2: GIB}, after={1: 0, 2: 0}, holding={1, 2})
    lines = free_change_lines(change)
    assert "  range spread: +Inf% -> NaN%" in lines
    assert lines[-2:] == ["  Broker 1: 0.00 -> 0.00 (+0.00GB, NaN%) ", "  Broker 2: 1.00 -> 0.00 (-1.00GB, -100.00%) "]
    assert free_change_lines(FreeChange(before={1: 0}, after={1: GIB}, holding=()))[-1].endswith("(+1.00GB, +Inf%) ")


def test_the_summary_of_nothing_is_zero_and_of_negatives_is_right() -> None:
    assert summary_of([]).range == 0
    below = summary_of([-3, -1])
    assert (below.low, below.high, below.range, below.deviation) == (-3, -1, 2, 1.0)
