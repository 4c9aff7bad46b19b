"""Answers of a cluster as columns: each row is what was answered, and nothing is left out."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import BrokerLogDirs, ConfigLayer, ItemError, LayeredValue, LiveReplica, LogSpan
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, TagSet, Topic, TopicPartition
from kafkakit.fleet.decide.columns import (
    Columns,
    broker_columns,
    broker_config_columns,
    disk_columns,
    partition_columns,
    replica_columns,
    storable,
    topic_columns,
    unknown_parts,
)
from kafkakit.fleet.decide.fleet_file import FleetCluster

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
    assert storable("delegation.token.expiry.time.ms", "5", is_known=True) == "5"
    assert storable("delegation.token.expiry.time.ms", "5", is_known=False) is None
    assert storable("listeners", "SASL://h:1", is_known=True) == "SASL://h:1"
    assert storable("url", "https://u:pw@h", is_known=True) is None


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
