"""Answers of a cluster as columns; the history of commits and of what was produced, from logs in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.adapters.arrow import ParquetStore
from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    CommittedOffset,
    ConfigLayer,
    ItemError,
    LayeredValue,
    LiveReplica,
    LogSpan,
)
from kafkakit.core.errors import TryLaterError
from kafkakit.core.fleet_tables import Manifest, manifest_data, manifest_of
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, TagSet, Topic, TopicPartition
from kafkakit.fleet.act import SnapshotWriter, write_groups
from kafkakit.fleet.decide import (
    MOMENTS,
    Columns,
    FleetCluster,
    broker_columns,
    broker_config_columns,
    disk_columns,
    moments,
    partition_columns,
    positions_of,
    produced_columns,
    replica_columns,
    resume_points,
    storable_value,
    topic_columns,
    unknown_parts,
)
from kafkakit.fleet.report import ClusterOutcome, OutcomeStatus, collect_report
from kafkakit.streams.lag.api import ResumePoint
from tests.fakes.admin import FakeClock
from tests.fakes.groups import FakeGroups

BROKERS = (1, 2, 3)
partitions = st.builds(
    Partition,
    partition=st.just(0),
    replicas=st.lists(st.sampled_from(BROKERS), min_size=1, unique=True).map(tuple),
    isr=st.one_of(st.none(), st.lists(st.sampled_from(BROKERS), unique=True).map(tuple)),
    leader=st.one_of(st.none(), st.sampled_from(BROKERS)),
)
BOOLEANS = st.booleans()
known_spans = st.builds(LogSpan, start=st.integers(0, 9), stable=st.just(9), end=st.just(9))
spans = st.one_of(st.just(ItemError(name="LeaderNotAvailableError")), known_spans)


@st.composite
def clusters(
    draw: st.DrawFn,
) -> tuple[ClusterSnapshot, dict[int, BrokerLogDirs], dict[TopicPartition, LogSpan | ItemError]]:
    """A snapshot, what some of its brokers hold, and the ends of some logs."""
    topics = tuple(Topic(name=name, partitions=(draw(partitions),)) for name in draw(st.sets(st.sampled_from("abcd"))))
    snapshot = ClusterSnapshot(
        cluster_id="x",
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        source="",
        brokers=tuple(Broker(id=b) for b in BROKERS),
        topics=tuple(sorted(topics, key=lambda t: t.name)),
    )
    answers = {}
    for broker in draw(st.sets(st.sampled_from(BROKERS))):
        held = {TopicPartition(t.name, 0) for t in topics if broker in t.partitions[0].replicas}
        copies = {key: LiveReplica(size_bytes=draw(st.integers(0, 99)), log_dir="/d") for key in sorted(held)}
        moving = draw(st.sets(st.sampled_from(sorted(held)))) if held else set()
        futures = {key: LiveReplica(size_bytes=1, log_dir="/e", is_future=True) for key in moving}
        is_alone: bool = draw(BOOLEANS)
        if copies and is_alone:
            # Only the incoming copy is known: brokers' answers then show it in place of the current one.
            key = min(copies)
            copies[key] = futures[key] = LiveReplica(size_bytes=1, log_dir="/e", is_future=True)
        total = draw(st.one_of(st.none(), st.just(1000)))
        dirs = (LogDir(path="/d", total_bytes=total, usable_bytes=400), LogDir(path="/e", error="offline"))
        answers[broker] = BrokerLogDirs(broker=broker, log_dirs=dirs, replicas=copies, futures=futures)
    return snapshot, answers, {TopicPartition(t.name, 0): draw(spans) for t in topics}


def rows(columns: Columns, *names: str) -> list[tuple[object, ...]]:
    return list(zip(*(columns[name] for name in names), strict=True))


@settings(max_examples=60)
@given(seen=clusters())
def test_rows_are_what_was_answered(
    seen: tuple[ClusterSnapshot, dict[int, BrokerLogDirs], dict[TopicPartition, LogSpan | ItemError]],
) -> None:
    snapshot, answers, ends = seen
    for row, (topic, p) in zip(
        rows(
            partition_columns(snapshot, answers, ends),
            "topic",
            "replicas",
            "leader",
            "isr",
            "size_bytes",
            "start_offset",
        ),
        snapshot.partitions(),
        strict=True,
    ):
        key = TopicPartition(topic, 0)
        sizes = [a.replicas[key].size_bytes for a in answers.values() if key in a.replicas]
        span = ends[key]
        start = span.start if isinstance(span, LogSpan) else None
        assert row == (topic, p.replicas, p.leader, p.isr, max(sizes, default=None), start)
    found = set(rows(replica_columns(answers), "topic", "broker", "log_dir", "size_bytes", "is_future"))
    copies = {(b, k, c) for b, a in answers.items() for m in (a.replicas, a.futures) for k, c in m.items()}
    assert len(replica_columns(answers)["topic"]) == len(copies)
    assert found == {(k.topic, b, c.log_dir, c.size_bytes, c.is_future) for b, k, c in copies}
    for broker, path, used, total in rows(disk_columns(answers, "d"), "broker", "path", "used_bytes", "total_bytes"):
        held = sum(c.size_bytes for b, _, c in copies if b == broker and c.log_dir == "/d")
        assert (path, used) == ("/d", held if total is None else 600)
    assert topic_columns(snapshot, {})["topic"] == [t.name for t in snapshot.topics]
    silent = [str(b) for b in BROKERS if b not in answers]
    assert [n.startswith(f"brokers {', '.join(silent)} gave") for n in unknown_parts(snapshot, answers, {})] == [
        True
    ] * bool(silent)


def test_a_value_is_left_out_where_it_is_secret_or_looks_so() -> None:
    columns = broker_config_columns(
        {
            1: {
                "a": LayeredValue("x", ConfigLayer.STATIC, is_read_only=True),
                "b": LayeredValue("hidden by the broker", ConfigLayer.DYNAMIC_BROKER, is_sensitive=True),
                "log.retention.ms": LayeredValue(None, ConfigLayer.DEFAULT),
                "ssl.key.password": LayeredValue("x", ConfigLayer.DYNAMIC_DEFAULT),
            }
        }
    )
    assert rows(columns, "key", "value", "source", "is_read_only", "is_sensitive") == [
        ("a", "x", "static", True, False),
        ("b", None, "dynamic-broker", False, True),
        ("log.retention.ms", None, "default", False, False),
        ("ssl.key.password", None, "dynamic-default", False, True),
    ]


def test_settings_whose_names_only_sound_secret_are_kept_where_the_broker_knows_them() -> None:
    assert storable_value("delegation.token.expiry.time.ms", "5", is_known=True) == "5"
    assert storable_value("delegation.token.expiry.time.ms", "5", is_known=False) is None
    assert storable_value("listeners", "SASL://h:1", is_known=True) == "SASL://h:1"
    assert storable_value("url", "https://u:pw@h", is_known=True) is None


def test_tags_are_null_where_they_were_not_read_and_empty_where_there_are_none() -> None:
    snapshot = ClusterSnapshot(
        cluster_id="c",
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        source="live",
        brokers=(Broker(id=1), Broker(id=2)),
        topics=(Topic(name="t", partitions=()), Topic(name="u", partitions=())),
    )
    entry = FleetCluster(name="c")
    unknown = [*rows(broker_columns(snapshot, entry), "tag_keys"), *rows(topic_columns(snapshot, {}), "tag_values")]
    assert unknown == [(None,)] * 4
    tags = TagSet(brokers={2: {"power": "B", "disk": "ssd"}, 9: {"gone": "x"}}, topics={"t": {"tier": ""}})
    tagged = replace(snapshot, tags=tags)
    names = ("tag_keys", "tag_values")
    assert rows(broker_columns(tagged, entry), *names) == [([], []), (["disk", "power"], ["ssd", "B"])]
    assert rows(topic_columns(tagged, {}), *names) == [(["tier"], [""]), ([], [])]


A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_repeated_ends_are_left_out_but_for_the_first_and_last() -> None:
    looked_up: Sequence[Mapping[TopicPartition, int | None]] = [
        {A: 0, B: 5},
        {A: 0, B: 5},
        {A: 0, B: 5},
        {A: 7, B: 5},
        {A: None, B: None},
    ]
    columns = produced_columns([A, B], (10, 20, 30, 40, 50), looked_up, {A: 9, B: 5})
    rows = list(zip(columns["partition"], columns["at_ms"], columns["offset"], strict=True))
    assert rows == [(0, 10, 0), (0, 30, 0), (0, 40, 7), (0, 50, 9), (1, 10, 5), (1, 50, 5)]


def test_an_unknown_end_gives_no_row() -> None:
    assert list(produced_columns([A], (10,), [{}], {})["offset"]) == []


@settings(max_examples=30)
@given(begin=st.integers(0, 10**12), length=st.integers(0, 10**10))
def test_moments_are_few_and_within_the_time(begin: int, length: int) -> None:
    times = moments(begin, begin + length)
    assert len(times) <= MOMENTS
    assert bool(times) == (length > 0)
    assert all(begin <= at < begin + length for at in times)
    assert all(b - a >= 60_000 for a, b in pairwise(times))


def test_positions_are_what_reading_continues_from() -> None:
    points = {3: ResumePoint(10, 12, -1), 0: ResumePoint(0, 0, -1)}
    places = [TopicPartition("log", number) for number in range(5)]
    assert resume_points(positions_of(points, "log"), places) == points


def test_what_a_broker_that_died_coordinates_is_absent_and_told(tmp_path: Path) -> None:
    groups = FakeGroups()
    place = TopicPartition("t", 0)
    for name in ("one", "two", "lost"):
        groups.add_topic("t", 1)
        groups.add_group(name)
        groups.commit(name, {place: CommittedOffset(offset=7)})
    groups.lost.add("lost")
    writer = SnapshotWriter(ParquetStore(str(tmp_path)), FakeClock(), cluster="a", snapshot_date="2026-11-20")
    notes = write_groups(groups, {}, writer)
    assert notes == ("brokers 1 gave no groups: those that they coordinate are absent",)
    assert writer.rows == {"groups": 2, "group_offsets": 2}


def test_commits_of_a_coordinator_that_dies_meanwhile_cost_one_wait(tmp_path: Path) -> None:
    asked = []

    class Dying(FakeGroups):
        def committed(self, group: str, *args: Any, **more: Any) -> Any:
            asked.append(group)
            raise TryLaterError("the coordinator does not answer")

    groups = Dying()
    for name in ("one", "two", "three"):
        groups.add_group(name)
    writer = SnapshotWriter(ParquetStore(str(tmp_path)), FakeClock(), cluster="a", snapshot_date="2026-11-20")
    assert write_groups(groups, {}, writer) == ("commits of 3 groups could not be read: one, three, two",)
    assert asked == ["one"]
    assert writer.rows == {"groups": 3, "group_offsets": 0}


def test_one_cluster_under_two_names_is_told() -> None:
    read = OutcomeStatus.COLLECTED
    outcomes = [
        ClusterOutcome(cluster=name, status=status, cluster_id=cluster_id)
        for name, status, cluster_id in (
            ("a", read, "x"), ("b", OutcomeStatus.KEPT, "x"), ("c", read, "y"),
            ("d", OutcomeStatus.FAILED, ""), ("e", OutcomeStatus.FAILED, ""),
        )
    ]  # fmt: skip
    report = collect_report(outcomes, "st", "2026-11-20")
    assert report.warnings == (
        "the store has a and b as one cluster, which they are: all have the id x, and sums count it more than once",
    )
    manifest = Manifest(cluster="a", snapshot_date="2026-11-20", started_ms=1, ended_ms=2, rows={}, cluster_id="x")
    assert manifest_of(manifest_data(manifest)) == manifest
    assert "cluster_id" not in manifest_data(replace(manifest, cluster_id=""))
