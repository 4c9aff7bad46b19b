"""What `ports.ClusterAdmin` promises, as tests that run against the fake and against real brokers.

A subclass gives the `rig` fixture. Reads after writes are polled, because Kafka may show them late.
"""

from datetime import UTC, datetime
from typing import Protocol

from kafkakit.core.cluster_facts import (
    CLUSTER_DEFAULT,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ConfigChange,
    ConfigLayer,
    ConfigOp,
    ItemError,
    LayeredValue,
    QuotaChanges,
    QuotaDefault,
    QuotaEntity,
    ResourceKind,
    TopicCount,
)
from kafkakit.core.model import BrokerState, TopicPartition, TopicPartitionReplica
from kafkakit.ports.admin import ClusterAdmin
from tests.rigs.waiting import eventually

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UNKNOWN_BROKER = 99_999
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
TP = TopicPartition
HELD = 20_000_000  # bytes: a minute, as real brokers let 1 MB through each 3 s, however low the rate is


class Rig(Protocol):
    """A cluster with three live brokers and what a test may do to it."""

    admin: ClusterAdmin
    brokers: tuple[int, int, int]
    kraft: bool

    def new_name(self) -> str:
        """A topic name that nobody else uses."""
        ...

    def fill(self, topic: str, partition: int, size: int) -> None:
        """Produce about that many bytes, acknowledged by all in-sync replicas."""
        ...

    def pass_time(self) -> None:
        """Let the cluster work for a moment."""
        ...

    def kill(self, broker: int) -> None:
        """End a broker without warning and wait until the cluster has noticed."""
        ...

    def revive(self, broker: int) -> None:
        """Start a killed broker again."""
        ...


def error_name(error: ItemError | None) -> str | None:
    return error.name if error else None


def topic_change(name: str, key: str, op: ConfigOp, value: str | None = None) -> ConfigChange:
    return ConfigChange(kind=ResourceKind.TOPIC, name=name, key=key, op=op, value=value)


def rate_change(broker: int, key: str, value: str | None) -> ConfigChange:
    op = ConfigOp.DELETE if value is None else ConfigOp.SET
    return ConfigChange(kind=ResourceKind.BROKER, name=str(broker), key=key, op=op, value=value)


def make_topic(rig: Rig, *lists: tuple[int, ...], size: int = 0, **configs: str) -> str:
    name = rig.new_name()
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    assert rig.admin.create_topic(name, dict(enumerate(lists)), settings) is None
    eventually(rig, lambda: len(rig.admin.partition_states([name])) == len(lists))
    for number in range(len(lists) if size else 0):
        rig.fill(name, number, size)
    return name


def replicas_of(rig: Rig, key: TopicPartition) -> tuple[int, ...]:
    return rig.admin.partition_states([key.topic])[key].replicas


def moving(rig: Rig, topic: str) -> bool:
    return any(move.topic == topic for move in rig.admin.reassignments())


def hold_moves(rig: Rig, key: TopicPartition, source: int, destination: int) -> None:
    """Throttle one move to nothing, by the exact replicas."""
    changes = [
        topic_change(key.topic, LEADERS, ConfigOp.APPEND, f"{key.partition}:{source}"),
        topic_change(key.topic, FOLLOWERS, ConfigOp.APPEND, f"{key.partition}:{destination}"),
        rate_change(source, LEADER_RATE, "0"),
        rate_change(destination, FOLLOWER_RATE, "0"),
    ]
    assert set(rig.admin.alter_configs(changes).values()) == {None}
    eventually(rig, lambda: LEADERS in rig.admin.dynamic_configs(ResourceKind.TOPIC, [key.topic])[key.topic])


def release_moves(rig: Rig, source: int, destination: int) -> None:
    changes = [rate_change(source, LEADER_RATE, None), rate_change(destination, FOLLOWER_RATE, None)]
    assert set(rig.admin.alter_configs(changes).values()) == {None}


def _is_whole(rig: Rig, topic: str) -> bool:
    """Each partition is led by the first of its replicas, and all are in sync; brokers hear of both later."""
    found = rig.admin.partition_health()
    return topic in found.of_topics and found.of_topics[topic][2:] == (0, 0, 0)


class AdminContract:
    """Promises that hold on a healthy cluster."""

    def test_cluster_lists_the_brokers_with_their_racks(self, rig: Rig) -> None:
        eventually(rig, lambda: all(b.state is BrokerState.ALIVE for b in rig.admin.cluster().brokers))
        info = rig.admin.cluster()
        assert info.cluster_id
        assert [b.id for b in info.brokers] == sorted(rig.brokers)
        assert {b.state for b in info.brokers} == {BrokerState.ALIVE}
        assert len({b.rack for b in info.brokers}) == 3

    def test_a_new_topic_shows_its_lists_in_preference_order(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        name = make_topic(rig, (c, a), (b, c))
        states = rig.admin.partition_states([name, "no-such-topic"])
        assert list(states) == [TP(name, 0), TP(name, 1)]
        assert [s.replicas for s in states.values()] == [(c, a), (b, c)]
        assert [s.leader for s in states.values()] == [c, b]
        assert all(s.topic_id for s in states.values())

    def test_a_new_topic_is_among_the_names(self, rig: Rig) -> None:
        name = make_topic(rig, rig.brokers[:2])
        eventually(rig, lambda: name in rig.admin.topic_names())
        assert rig.admin.topic_names() <= rig.admin.topic_operations().keys()

    def test_creating_answers_with_the_reason_of_a_refusal(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        name = make_topic(rig, (a, b))
        assert error_name(rig.admin.create_topic(name, {0: (a,)}, {})) == "TopicAlreadyExistsError"
        wrong: list[dict[int, tuple[int, ...]]] = [
            {0: (a, a)},
            {0: (a,), 2: (b,)},
            {0: (a, b), 1: (a,)},
        ]
        if rig.kraft:  # with ZooKeeper such a topic is made, and never has a leader
            wrong.append({0: (UNKNOWN_BROKER,)})
        answers = [error_name(rig.admin.create_topic(rig.new_name(), lists, {})) for lists in wrong]
        assert answers == ["InvalidReplicationAssignmentError"] * len(wrong)

    def test_snapshot_holds_every_copy_with_size_and_dir(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        name = make_topic(rig, (a, b), (c, a), size=5_000, retention_ms="7200000")
        snapshot = rig.admin.snapshot(now=NOW)
        topic = next(t for t in snapshot.topics if t.name == name)
        first, second = topic.partitions
        assert snapshot.taken_at == NOW
        assert snapshot.sizes_taken
        assert snapshot.unanswered_brokers == {}
        assert dict(topic.configs) == {"retention.ms": "7200000"}
        assert (first.replicas, second.replicas) == ((a, b), (c, a))
        assert set(first.replica_bytes) == set(first.replica_dirs) == {a, b}
        assert min(first.replica_bytes.values()) >= 5_000
        dirs = {broker.id: {d.path for d in broker.log_dirs} for broker in snapshot.brokers}
        assert all(path in dirs[broker] for broker, path in first.replica_dirs.items())
        assert [t.name for t in snapshot.topics] == sorted(t.name for t in snapshot.topics)

    def test_snapshot_without_sizes_or_of_some_topics(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        one, two = make_topic(rig, (a, b)), make_topic(rig, (b, a))
        snapshot = rig.admin.snapshot(now=NOW, topics=[one, "no-such-topic"], sizes=False)
        assert [t.name for t in snapshot.topics] == [one]
        assert not snapshot.sizes_taken
        assert dict(snapshot.topics[0].partitions[0].replica_bytes) == {}
        assert [t.name for t in rig.admin.snapshot(now=NOW, topics=[two, one]).topics] == sorted([one, two])

    def test_one_bad_target_does_not_hurt_the_others(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        name = make_topic(rig, (a, b), (a, b), (a, b), (a, b), (a, b))
        answers = rig.admin.reassign(
            {
                TP(name, 0): (a, UNKNOWN_BROKER),
                TP(name, 1): (c, c),
                TP(name, 2): (-1, a),
                TP(name, 3): (),
                TP(name, 4): (c, b),
                TP(name, 77): (a,),
                TP("no-such-topic", 0): (a,),
            }
        )
        refused = "InvalidReplicationAssignmentError"
        unknown = "UnknownTopicOrPartitionError"
        assert [error_name(e) for e in answers.values()] == [refused] * 4 + [None, unknown, unknown]
        eventually(rig, lambda: not moving(rig, name))
        final = [(a, b)] * 4 + [(c, b)]
        eventually(rig, lambda: [s.replicas for s in rig.admin.partition_states([name]).values()] == final)

    def test_a_move_ends_with_the_target_order_and_no_old_copy(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        key = TP(make_topic(rig, (a, b), size=20_000), 0)
        assert rig.admin.reassign({key: (c, a)}) == {key: None}
        eventually(rig, lambda: not moving(rig, key.topic))
        eventually(rig, lambda: replicas_of(rig, key) == (c, a))
        eventually(rig, lambda: set(rig.admin.partition_states([key.topic])[key].isr) == {a, c})
        eventually(rig, lambda: key not in rig.admin.log_dirs([b])[b].replicas)
        assert rig.admin.log_dirs([c])[c].replicas[key].size_bytes >= 20_000

    def test_a_new_order_alone_is_done_at_once_and_election_follows_it(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        key = TP(make_topic(rig, (a, b, c)), 0)
        assert rig.admin.elect_preferred_leaders([key]) == {key: None}
        assert rig.admin.reassign({key: (b, c, a)}) == {key: None}
        eventually(rig, lambda: replicas_of(rig, key) == (b, c, a))
        assert not moving(rig, key.topic)
        answers = rig.admin.elect_preferred_leaders([key, TP(key.topic, 9)])
        assert [error_name(e) for e in answers.values()] == [None, "UnknownTopicOrPartitionError"]
        eventually(rig, lambda: rig.admin.partition_states([key.topic])[key].leader == b)

    def test_replicas_can_become_more_and_fewer(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        key = TP(make_topic(rig, (a,)), 0)
        for target in ((a, b, c), (c, b)):
            assert rig.admin.reassign({key: target}) == {key: None}
            eventually(rig, lambda: not moving(rig, key.topic))
            eventually(rig, lambda want=target: replicas_of(rig, key) == want)  # type: ignore[misc]

    def test_a_running_move_shows_the_union_and_cancel_restores_the_set_alone(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        key = TP(make_topic(rig, (a, b), size=HELD), 0)
        try:
            hold_moves(rig, key, a, c)
            assert rig.admin.reassign({key: (c, b)}) == {key: None}
            rig.pass_time()
            move = next(m for m in rig.admin.reassignments() if m.topic == key.topic)
            assert (move.replicas, move.adding, move.removing, move.target) == ((c, b, a), (c,), (a,), (c, b))
            eventually(rig, lambda: replicas_of(rig, key) == (c, b, a))
            seen = rig.admin.snapshot(now=NOW, topics=[key.topic], sizes=False).topics[0].partitions[0]
            assert (seen.replicas, seen.adding, seen.removing) == ((c, b, a), (c,), (a,))
            assert rig.admin.cancel([key]) == {key: None}
            eventually(rig, lambda: replicas_of(rig, key) == (b, a))
            eventually(rig, lambda: not moving(rig, key.topic))
            assert rig.admin.cancel([key]) == {key: None}
        finally:
            release_moves(rig, a, c)

    def test_a_throttled_move_goes_on_when_the_rate_is_removed(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        key = TP(make_topic(rig, (a, b), size=HELD), 0)
        try:
            hold_moves(rig, key, a, c)
            assert rig.admin.reassign({key: (c, b)}) == {key: None}
            rig.pass_time()
            assert moving(rig, key.topic)
        finally:
            release_moves(rig, a, c)
        eventually(rig, lambda: not moving(rig, key.topic))
        eventually(rig, lambda: replicas_of(rig, key) == (c, b))

    def test_cancelling_what_does_not_exist_is_an_error(self, rig: Rig) -> None:
        (error,) = rig.admin.cancel([TP("no-such-topic", 0)]).values()
        # With ZooKeeper the broker says that no such move is running, which counts as done.
        assert error_name(error) == ("UnknownTopicOrPartitionError" if rig.kraft else None)

    def test_list_values_grow_shrink_and_stay_empty(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        name = make_topic(rig, (a, b))

        def alter(op: ConfigOp, value: str | None = None) -> str | None:
            change = topic_change(name, LEADERS, op, value)
            return error_name(rig.admin.alter_configs([change])[change])

        def reads(value: str | None) -> bool:
            return rig.admin.dynamic_configs(ResourceKind.TOPIC, [name])[name].get(LEADERS) == value

        assert alter(ConfigOp.DELETE) is None
        assert alter(ConfigOp.APPEND, "0:1") is None
        assert alter(ConfigOp.APPEND, "0:1,1:2") is None
        eventually(rig, lambda: reads("0:1,1:2"))
        assert alter(ConfigOp.SUBTRACT, "0:1,7:7") is None
        eventually(rig, lambda: reads("1:2"))
        assert alter(ConfigOp.SUBTRACT, "1:2") is None
        eventually(rig, lambda: reads(""))
        assert alter(ConfigOp.DELETE) is None
        eventually(rig, lambda: reads(None))

    def test_changes_of_one_key_apply_in_their_order(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        name = make_topic(rig, (a, b))
        changes = [
            topic_change(name, LEADERS, ConfigOp.SET, "0:1,0:2"),
            topic_change(name, LEADERS, ConfigOp.APPEND, "0:3"),
            topic_change(name, LEADERS, ConfigOp.SUBTRACT, "0:1"),
        ]
        assert rig.admin.alter_configs(changes) == dict.fromkeys(changes)
        eventually(rig, lambda: rig.admin.dynamic_configs(ResourceKind.TOPIC, [name])[name].get(LEADERS) == "0:2,0:3")

    def test_a_refused_value_is_an_answer_and_changes_nothing(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        name = make_topic(rig, (a, b))
        long_list = ",".join(f"{n}:1" for n in range(7_000))
        changes = [
            topic_change(name, LEADERS, ConfigOp.SET, "abc"),
            topic_change("no-such-topic", LEADERS, ConfigOp.SET, "0:1"),
            rate_change(a, LEADER_RATE, "abc"),
            rate_change(UNKNOWN_BROKER, LEADER_RATE, "1000"),
        ]
        answers = rig.admin.alter_configs(changes)
        assert list(answers) == changes
        assert None not in answers.values()
        assert error_name(answers[changes[0]]) == "InvalidConfigurationError"
        too_long = topic_change(name, LEADERS, ConfigOp.SET, long_list)
        assert error_name(rig.admin.alter_configs([too_long])[too_long]) == "InvalidConfigurationError"
        assert rig.admin.dynamic_configs(ResourceKind.TOPIC, [name, "no-such-topic"]) == {name: {}}

    def test_a_question_about_values_is_answered_and_changes_nothing(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        name = make_topic(rig, (a, b))
        default = ConfigChange(
            kind=ResourceKind.BROKER, name=CLUSTER_DEFAULT, key="log.cleaner.backoff.ms", op=ConfigOp.SET, value="14000"
        )
        good = [topic_change(name, LEADERS, ConfigOp.SET, "0:1"), rate_change(a, LEADER_RATE, "1000"), default]
        assert rig.admin.check_configs(good) == dict.fromkeys(good)
        bad = [
            topic_change(name, LEADERS, ConfigOp.SET, "abc"),
            topic_change("no-such-topic", LEADERS, ConfigOp.SET, "0:1"),
            rate_change(a, LEADER_RATE, "abc"),
            rate_change(UNKNOWN_BROKER, LEADER_RATE, "1000"),
        ]
        answers = rig.admin.check_configs(bad)
        assert list(answers) == bad
        assert None not in answers.values()
        assert error_name(answers[bad[0]]) == "InvalidConfigurationError"
        assert rig.admin.dynamic_configs(ResourceKind.TOPIC, [name]) == {name: {}}
        found = rig.admin.dynamic_configs(ResourceKind.BROKER, [str(a), CLUSTER_DEFAULT])
        assert LEADER_RATE not in found[str(a)]
        assert "log.cleaner.backoff.ms" not in found[CLUSTER_DEFAULT]

    def test_a_value_at_the_limit_is_accepted_and_growing_it_is_refused(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        name = make_topic(rig, (a, b))
        value = ",".join(f"{n:05d}:1" for n in range(4_095))
        assert 32_700 < len(value) <= 32_767
        change = topic_change(name, LEADERS, ConfigOp.SET, value)
        assert rig.admin.alter_configs([change]) == {change: None}
        more = topic_change(name, LEADERS, ConfigOp.APPEND, "70000:1,70001:1")
        assert error_name(rig.admin.alter_configs([more])[more]) == "InvalidConfigurationError"
        eventually(rig, lambda: rig.admin.dynamic_configs(ResourceKind.TOPIC, [name])[name].get(LEADERS) == value)

    def test_the_default_of_the_cluster_is_set_read_and_removed(self, rig: Rig) -> None:
        def read() -> str | None:
            found = rig.admin.dynamic_configs(ResourceKind.BROKER, [CLUSTER_DEFAULT])
            assert set(found) == {CLUSTER_DEFAULT}
            return found[CLUSTER_DEFAULT].get("log.cleaner.backoff.ms")

        def layers() -> set[LayeredValue | None]:
            return {v.get("log.cleaner.backoff.ms") for v in rig.admin.broker_configs(rig.brokers).values()}

        for op, value in ((ConfigOp.SET, "14000"), (ConfigOp.DELETE, None)):
            change = ConfigChange(
                kind=ResourceKind.BROKER, name=CLUSTER_DEFAULT, key="log.cleaner.backoff.ms", op=op, value=value
            )
            assert rig.admin.alter_configs([change]) == {change: None}
            eventually(rig, lambda value=value: read() == value)  # type: ignore[misc]
            shown = None if value is None else LayeredValue(value, ConfigLayer.DYNAMIC_DEFAULT)
            eventually(rig, lambda shown=shown: layers() == {shown})  # type: ignore[misc]

    def test_broker_rates_are_set_read_and_removed(self, rig: Rig) -> None:
        a, b, _ = rig.brokers

        def read() -> dict[str, str | None]:
            values = rig.admin.dynamic_configs(ResourceKind.BROKER, [str(a), str(b), str(UNKNOWN_BROKER)])
            assert set(values) == {str(a), str(b)}
            return {name: settings.get(LEADER_RATE) for name, settings in values.items()}

        changes = [rate_change(a, LEADER_RATE, "123456"), rate_change(b, LEADER_RATE, "654321")]
        assert rig.admin.alter_configs(changes) == dict.fromkeys(changes)
        eventually(rig, lambda: read() == {str(a): "123456", str(b): "654321"})
        undo = [rate_change(a, LEADER_RATE, None), rate_change(b, LEADER_RATE, None)]
        assert rig.admin.alter_configs(undo) == dict.fromkeys(undo)
        eventually(rig, lambda: read() == {str(a): None, str(b): None})

    def test_broker_settings_in_force_are_told_wherever_they_were_set(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        keys = ["replica.fetch.backoff.ms", "min.insync.replicas", "no.such.key"]
        found = rig.admin.broker_settings([a, b, UNKNOWN_BROKER], keys)
        assert set(found) == {a, b}
        assert all(set(values) == {"replica.fetch.backoff.ms", "min.insync.replicas"} for values in found.values())
        assert all(value.isdigit() for values in found.values() for value in values.values())

    def test_configs_of_a_broker_come_with_their_layer_and_without_defaults(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        change = rate_change(a, LEADER_RATE, "654321")
        assert rig.admin.alter_configs([change]) == {change: None}

        def layers() -> list[LayeredValue | None]:
            found = rig.admin.broker_configs([a, b, UNKNOWN_BROKER])
            assert set(found) == {a, b}
            return [found[broker].get(LEADER_RATE) for broker in (a, b)]

        try:
            eventually(rig, lambda: layers() == [LayeredValue("654321", ConfigLayer.DYNAMIC_BROKER), None])
        finally:
            undo = rate_change(a, LEADER_RATE, None)
            assert rig.admin.alter_configs([undo]) == {undo: None}
        eventually(rig, lambda: layers() == [None, None])

    def test_log_dirs_of_an_unknown_broker_do_not_spoil_the_rest(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        key = TP(make_topic(rig, (a, b), (a, b)), 1)
        eventually(rig, lambda: key in rig.admin.log_dirs([a], [key])[a].replicas)
        answers = rig.admin.log_dirs([a, b, UNKNOWN_BROKER], [key])
        assert [answers[broker].error is None for broker in (a, b, UNKNOWN_BROKER)] == [True, True, False]
        assert set(answers[a].replicas) == {key}
        empty = rig.admin.log_dirs([a], [])[a]
        assert dict(empty.replicas) == {}
        assert len(empty.log_dirs) == 2
        assert all((d.total_bytes or 0) >= (d.usable_bytes or 0) > 0 for d in empty.log_dirs)

    def test_copies_move_between_dirs_and_wishes_are_kept(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        key = TP(make_topic(rig, (a, b)), 0)
        eventually(rig, lambda: key in rig.admin.log_dirs([a], [key])[a].replicas)
        here = rig.admin.log_dirs([a], [key])[a]
        other = next(d.path for d in here.log_dirs if d.path != here.replicas[key].log_dir)
        wanted = max(d.path for d in rig.admin.log_dirs([c], [])[c].log_dirs)
        answers = rig.admin.move_log_dirs(
            {
                TopicPartitionReplica(key.topic, 0, a): other,
                TopicPartitionReplica(key.topic, 0, b): "/no/such/dir",
                TopicPartitionReplica(key.topic, 0, c): wanted,
                TopicPartitionReplica(key.topic, 0, UNKNOWN_BROKER): other,
            }
        )
        assert [error_name(e) for e in answers.values()][:3] == [None, "LogDirNotFoundError", None]
        assert answers[TopicPartitionReplica(key.topic, 0, UNKNOWN_BROKER)] is not None
        eventually(rig, lambda: rig.admin.log_dirs([a], [key])[a].replicas[key].log_dir == other)
        eventually(rig, lambda: not rig.admin.log_dirs([a], [key])[a].futures)
        assert rig.admin.reassign({key: (a, c)}) == {key: None}
        eventually(rig, lambda: not moving(rig, key.topic))
        eventually(rig, lambda: key in rig.admin.log_dirs([c], [key])[c].replicas)
        assert rig.admin.log_dirs([c], [key])[c].replicas[key].log_dir == wanted

    def test_deleting_a_topic_ends_its_move(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        key = TP(make_topic(rig, (a, b), size=HELD), 0)
        try:
            hold_moves(rig, key, a, c)
            assert rig.admin.reassign({key: (c, b)}) == {key: None}
            assert rig.admin.delete_topic(key.topic) is None
            eventually(rig, lambda: rig.admin.partition_states([key.topic]) == {})
            eventually(rig, lambda: not moving(rig, key.topic))
            assert error_name(rig.admin.delete_topic(key.topic)) == "UnknownTopicOrPartitionError"
        finally:
            release_moves(rig, a, c)

    def test_records_are_deleted_up_to_an_offset(self, rig: Rig) -> None:
        key = TP(make_topic(rig, rig.brokers[:1]), 0)
        gone = TP(rig.new_name(), 0)
        eventually(rig, lambda: rig.admin.delete_records({key: 0})[key] is None)  # its leader may not know it yet
        answers = rig.admin.delete_records({key: 0, gone: 0})
        assert (answers[key], error_name(answers[gone])) == (None, "UnknownTopicOrPartitionError")
        end = 1_000_000_000
        assert error_name(rig.admin.delete_records({key: end})[key]) == "OffsetOutOfRangeError"

    def test_client_quotas_are_read_as_they_were_set_and_removed_one_by_one(self, rig: Rig) -> None:
        name, every = rig.new_name(), QuotaDefault.DEFAULT
        entities = [
            QuotaEntity(client_id=f"{name}.live"),
            QuotaEntity(user=f"{name} ü/=,*"),
            QuotaEntity(user=name, client_id=f"{name}.live"),
            QuotaEntity(user=name, client_id=every),
            QuotaEntity(user=every, client_id=every),
            QuotaEntity(client_id=every),
            QuotaEntity(user=every),
        ]
        sizes = range(50_000_000, 50_000_000 + len(entities))
        rates: QuotaChanges = {e: {PRODUCER_BYTE_RATE: float(n)} for e, n in zip(entities, sizes, strict=True)}
        before = rig.admin.describe_client_quotas()
        assert not set(entities) & set(before)
        try:
            assert rig.admin.alter_client_quotas(rates) == dict.fromkeys(entities)
            eventually(rig, lambda: rig.admin.describe_client_quotas() == {**before, **rates})
            more: QuotaChanges = {
                entities[0]: {CONSUMER_BYTE_RATE: 7_000_000.0, REQUEST_PERCENTAGE: 12.5},
                entities[1]: {PRODUCER_BYTE_RATE: 1.0, CONSUMER_BYTE_RATE: None},
            }
            assert rig.admin.alter_client_quotas(more) == dict.fromkeys(entities[:2])
            three = {**rates[entities[0]], **more[entities[0]]}
            eventually(rig, lambda: rig.admin.describe_client_quotas().get(entities[0]) == three)
            eventually(rig, lambda: rig.admin.describe_client_quotas()[entities[1]] == {PRODUCER_BYTE_RATE: 1.0})
        finally:
            keys = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
            gone: QuotaChanges = {entity: dict.fromkeys(keys) for entity in entities}
            assert rig.admin.alter_client_quotas(gone) == dict.fromkeys(entities)
        eventually(rig, lambda: rig.admin.describe_client_quotas() == before)

    def test_a_refused_client_quota_changes_nothing_of_its_entity(self, rig: Rig) -> None:
        bad, half, good = (QuotaEntity(client_id=rig.new_name()) for _ in range(3))
        answers = rig.admin.alter_client_quotas(
            {
                bad: {PRODUCER_BYTE_RATE: 1_000_000.0, "no_such_key": 1.0},
                half: {REQUEST_PERCENTAGE: 10.0, CONSUMER_BYTE_RATE: 0.5},
                good: {CONSUMER_BYTE_RATE: 1_000_000.0},
            }
        )
        assert [error_name(answers[e]) for e in (bad, half, good)] == ["InvalidRequestError"] * 2 + [None]
        eventually(rig, lambda: rig.admin.describe_client_quotas().get(good) == {CONSUMER_BYTE_RATE: 1_000_000.0})
        assert not {bad, half} & set(rig.admin.describe_client_quotas())
        assert rig.admin.alter_client_quotas({good: {CONSUMER_BYTE_RATE: None}}) == {good: None}

    def test_controllers_with_a_vote_are_told_where_there_is_a_quorum(self, rig: Rig) -> None:
        if not rig.kraft:
            assert rig.admin.quorum() is None
            return
        eventually(rig, lambda: (found := rig.admin.quorum()) is not None and found.leader in found.ids)
        found = rig.admin.quorum()
        assert found is not None
        assert [voter.id for voter in found.voters] == sorted(found.ids)
        assert all(voter.behind_ms is None or voter.behind_ms >= 0 for voter in found.voters)
        assert all(voter.behind_records is None or voter.behind_records >= 0 for voter in found.voters)

    def test_each_broker_tells_the_level_of_metadata_where_there_is_a_quorum(self, rig: Rig) -> None:
        found = rig.admin.metadata_versions([*rig.brokers, UNKNOWN_BROKER])
        assert set(found) == (set(rig.brokers) if rig.kraft else set())
        assert all(7 <= version.in_force <= version.newest for version in found.values())

    def test_all_partitions_are_counted_by_broker_and_topic(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        before = rig.admin.partition_health()
        name = make_topic(rig, (a, b), (b, c), (c, a))
        eventually(rig, lambda: _is_whole(rig, name))
        found = rig.admin.partition_health()
        assert found.of_topics[name] == TopicCount(3, 2, 0, 0, 0)
        assert (found.topics, found.partitions) == (before.topics + 1, before.partitions + 3)
        more = {broker: found.replicas[broker] - before.replicas.get(broker, 0) for broker in rig.brokers}
        assert more == dict.fromkeys(rig.brokers, 2)
        assert sum(found.leaders.values()) == sum(before.leaders.values()) + 3
        assert not any(key.topic == name for key in found.unwell)
        assert rig.admin.reassign({TP(name, 0): (b, a)}) == {TP(name, 0): None}  # which leaves the leader as it is
        eventually(rig, lambda: rig.admin.partition_health().of_topics[name].not_preferred == 1)
        assert rig.admin.partition_health().not_preferred > 0
        assert rig.admin.elect_preferred_leaders([TP(name, 0)]) == {TP(name, 0): None}

    def test_settings_in_force_of_topics_are_told_wherever_they_were_set(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        own, plain = make_topic(rig, (a, b), min_insync_replicas="2"), make_topic(rig, (a, b))
        keys = ["min.insync.replicas", "retention.ms", "no.such.key"]
        found = rig.admin.topic_settings([own, plain, "no-such-topic"], keys)
        assert sorted(found) == sorted((own, plain))
        assert [set(values) for values in found.values()] == [set(keys[:2])] * 2
        assert [found[topic]["min.insync.replicas"] for topic in (own, plain)] == ["2", "1"]
        assert found[plain]["retention.ms"] == found[own]["retention.ms"]
        assert rig.admin.topic_settings([], keys) == {}

    def test_partitions_are_added_after_those_there_are(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        name = make_topic(rig, (a, b))
        wrong: list[tuple[str, dict[int, tuple[int, ...]], str]] = [
            (name, {1: (a, a)}, "InvalidReplicationAssignmentError"),
            (name, {1: (a, UNKNOWN_BROKER)}, "InvalidReplicationAssignmentError"),
            (rig.new_name(), {1: (a, b)}, "UnknownTopicOrPartitionError"),
        ]
        answers = [error_name(rig.admin.create_partitions(topic, lists)) for topic, lists, _ in wrong]
        assert answers == [refused for _, _, refused in wrong]
        assert rig.admin.create_partitions(name, {1: (c, a), 2: (b, c)}) is None
        wanted = [(a, b), (c, a), (b, c)]
        eventually(rig, lambda: [s.replicas for s in rig.admin.partition_states([name]).values()] == wanted)
        assert error_name(rig.admin.create_partitions(name, {1: (c, a)})) is not None

    def test_empty_requests_ask_nothing(self, rig: Rig) -> None:
        assert rig.admin.alter_client_quotas({}) == {}
        assert rig.admin.delete_records({}) == {}
        assert rig.admin.reassign({}) == {}
        assert rig.admin.cancel([]) == {}
        assert rig.admin.alter_configs([]) == {}
        assert rig.admin.elect_preferred_leaders([]) == {}
        assert rig.admin.move_log_dirs({}) == {}
        assert rig.admin.log_dirs([]) == {}
        assert rig.admin.partition_states([]) == {}
        assert rig.admin.dynamic_configs(ResourceKind.TOPIC, []) == {}


class DeadBrokerContract:
    """Promises that hold while a broker is dead but registered (KRaft)."""

    def test_a_dead_broker_is_named_and_its_sizes_are_absent(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        key = TP(make_topic(rig, (a, b, c), size=5_000), 0)
        try:
            rig.kill(b)
            eventually(rig, lambda: b not in (rig.admin.partition_states([key.topic])[key].isr or ()))
            snapshot = rig.admin.snapshot(now=NOW)
            partition = next(t for t in snapshot.topics if t.name == key.topic).partitions[0]
            assert list(snapshot.unanswered_brokers) == [b]
            eventually(rig, lambda: key in (found := rig.admin.partition_health()).unwell and b not in found.leaders)
            state = rig.admin.partition_health().unwell[key]
            assert (state.replicas, set(state.isr), state.leader) == ((a, b, c), {a, c}, a)
            assert snapshot.broker_by_id()[b].state is BrokerState.FENCED
            assert set(partition.replica_bytes) == {a, c}
            assert set(partition.isr or ()) == {a, c}
            assert rig.admin.log_dirs([a, b])[b].error is not None
            assert set(rig.admin.dynamic_configs(ResourceKind.BROKER, [str(a), str(b)])) == {str(a)}
            answers = rig.admin.alter_configs([rate_change(b, LEADER_RATE, "1"), rate_change(a, LEADER_RATE, None)])
            assert [error is None for error in answers.values()] == [False, True]
        finally:
            rig.revive(b)
        eventually(rig, lambda: set(rig.admin.partition_states([key.topic])[key].isr) == {a, b, c})

    def test_a_move_to_a_dead_broker_waits_and_can_be_cancelled(self, rig: Rig) -> None:
        a, b, c = rig.brokers
        stuck, waits = TP(make_topic(rig, (a, b)), 0), TP(make_topic(rig, (b, a)), 0)
        try:
            rig.kill(c)
            assert rig.admin.reassign({stuck: (a, c), waits: (b, c)}) == {stuck: None, waits: None}
            rig.pass_time()
            assert {m.topic for m in rig.admin.reassignments()} >= {stuck.topic, waits.topic}
            assert rig.admin.cancel([stuck]) == {stuck: None}
            eventually(rig, lambda: set(replicas_of(rig, stuck)) == {a, b})
        finally:
            rig.revive(c)
        eventually(rig, lambda: not moving(rig, waits.topic))
        eventually(rig, lambda: replicas_of(rig, waits) == (b, c))

    def test_a_dead_preferred_leader_is_not_elected(self, rig: Rig) -> None:
        a, b, _ = rig.brokers
        key = TP(make_topic(rig, (b, a)), 0)
        try:
            rig.kill(b)
            eventually(rig, lambda: rig.admin.partition_states([key.topic])[key].leader == a)
            answers = rig.admin.elect_preferred_leaders([key])
            assert [error_name(e) for e in answers.values()] == ["PreferredLeaderNotAvailableError"]
        finally:
            rig.revive(b)
        eventually(rig, lambda: rig.admin.elect_preferred_leaders([key]) == {key: None})
        eventually(rig, lambda: rig.admin.partition_states([key.topic])[key].leader == b)
