"""Kafka's answers become the kit's values: gaps stay gaps, missing rights are never empty data."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.adapters.kafka.admin_read import assemble, configs_of, layers_of, log_dirs_of, operations_of, states_of
from kafkakit.adapters.kafka.admin_write import config_rounds, too_long
from kafkakit.adapters.kafka.session import error_of
from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    ClusterInfo,
    ConfigChange,
    ConfigLayer,
    ConfigOp,
    LayeredValue,
    LiveReplica,
    ResourceKind,
)
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import Broker, BrokerState, Reassignment, TopicPartition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = TopicPartition("t", 0)


def copy(size: int, *, future: bool = False, lag: int = 0) -> Any:
    return SimpleNamespace(partition_index=0, partition_size=size, offset_lag=lag, is_future_key=future)


def directory(path: str, *copies: Any, error: int = 0, total: int = 100) -> Any:
    topics = [SimpleNamespace(name="t", partitions=list(copies))] if copies else []
    return SimpleNamespace(error_code=error, log_dir=path, topics=topics, total_bytes=total, usable_bytes=total)


def answer(*results: Any, error: int = 0) -> Any:
    return SimpleNamespace(error_code=error, results=list(results))


def topic(*partitions: tuple[int, ...], error: int = 0) -> Any:
    rows = [
        SimpleNamespace(partition_index=n, replica_nodes=list(r), isr_nodes=list(r), leader_id=-1)
        for n, r in enumerate(partitions)
    ]
    return SimpleNamespace(error_code=error, name="t", topic_id=None, partitions=rows[::-1])


def test_an_offline_dir_has_an_error_and_no_sizes() -> None:
    told = log_dirs_of(1, answer(directory("/b", error=56, total=-1), directory("/a", copy(5))))
    assert [(d.path, d.total_bytes, d.error) for d in told.log_dirs] == [
        ("/a", 100, None),
        ("/b", None, "KafkaStorageError"),
    ]
    assert told.replicas[KEY].size_bytes == 5


@pytest.mark.parametrize("current_first", [True, False])
def test_of_a_copy_that_moves_between_dirs_the_current_one_counts(current_first: bool) -> None:
    dirs = [directory("/a", copy(5)), directory("/b", copy(2, future=True, lag=9))]
    told = log_dirs_of(1, answer(*(dirs if current_first else dirs[::-1])))
    assert told.replicas[KEY] == LiveReplica(size_bytes=5, log_dir="/a")
    assert told.futures[KEY] == LiveReplica(size_bytes=2, log_dir="/b", offset_lag=9, is_future=True)


@pytest.mark.parametrize("response", [answer(error=31), answer()])
def test_missing_rights_on_log_dirs_are_refused(response: Any) -> None:
    with pytest.raises(OperationFailedError, match="not permitted") as caught:
        log_dirs_of(1, response)
    assert caught.value.hint == "grant DESCRIBE on the cluster to this user"


def test_a_broker_that_failed_is_told_and_not_raised() -> None:
    assert log_dirs_of(1, ConnectionError("cut")) == BrokerLogDirs(broker=1, error="no answer (ConnectionError: cut)")
    assert log_dirs_of(1, answer(error=-1)).error == "UnknownError"


def test_states_are_sorted_and_a_hidden_topic_is_refused() -> None:
    states = states_of([topic((1, 2), (3,))])
    assert list(states) == [KEY, TopicPartition("t", 1)]
    assert states[KEY].leader is None
    assert states_of([topic(error=3)]) == {}
    with pytest.raises(OperationFailedError, match="describe topic t: not permitted"):
        states_of([topic(error=29)])


def test_only_values_of_the_resource_itself_are_read() -> None:
    values = [
        SimpleNamespace(name="own", value="1", config_source=1),
        SimpleNamespace(name="default", value="2", config_source=5),
        SimpleNamespace(name="hidden", value=None, config_source=1),
    ]
    result = SimpleNamespace(error_code=0, error_message=None, resource_name="t", configs=values)
    gone = SimpleNamespace(error_code=3, error_message=None, resource_name="gone", configs=[])
    denied = SimpleNamespace(error_code=29, error_message=None, resource_name="x", configs=[])
    assert configs_of(ResourceKind.TOPIC, [result, gone]) == {"t": {"own": "1"}}
    with pytest.raises(OperationFailedError, match="not permitted"):
        configs_of(ResourceKind.TOPIC, [result, denied])


def test_a_value_set_on_the_running_broker_is_not_read_only_whatever_kafka_3_says() -> None:
    def entry(name: str, source: int) -> Any:
        return SimpleNamespace(name=name, value="1", config_source=source, read_only=True, is_sensitive=False)

    result = SimpleNamespace(
        error_code=0, configs=[entry("leader.replication.throttled.rate", 2), entry("log.dirs", 4)]
    )
    assert layers_of([result]) == {
        "leader.replication.throttled.rate": LayeredValue("1", ConfigLayer.DYNAMIC_BROKER),
        "log.dirs": LayeredValue("1", ConfigLayer.STATIC, is_read_only=True),
    }


def test_rights_are_named_from_either_form() -> None:
    assert operations_of(1 << 7 | 1 << 8) == operations_of({7, 8}) == frozenset({"alter", "describe"})
    assert operations_of(-(2**31)) is None
    assert operations_of(0) == frozenset()


def test_errors_carry_name_text_and_whether_to_try_again() -> None:
    assert error_of(0) is None
    error = error_of(3, "no\nsuch  topic")
    assert error is not None
    assert (error.name, error.message, error.retriable) == ("UnknownTopicOrPartitionError", "no such topic", True)
    assert str(error_of(9_999)) == "Error9999"


def test_changes_of_one_key_go_into_separate_rounds() -> None:
    def change(key: str, op: ConfigOp, value: str) -> ConfigChange:
        return ConfigChange(kind=ResourceKind.TOPIC, name="t", key=key, op=op, value=value)

    first, second = change("k", ConfigOp.SET, "1"), change("k", ConfigOp.APPEND, "2")
    other = change("j", ConfigOp.SET, "1")
    assert config_rounds([first, second, other, first]) == [[first, other], [second]]
    assert too_long(change("k", ConfigOp.APPEND, "1:1"), "9" * 32_764) is not None
    assert too_long(change("k", ConfigOp.APPEND, "1:1"), "9" * 32_763) is None
    assert too_long(change("k", ConfigOp.APPEND, "1:1"), "9" * 32_763 + ",1:1") is None  # merged by the broker


def test_a_move_that_ended_meanwhile_is_left_out_and_unknown_brokers_are_missing() -> None:
    ended = Reassignment(topic="t", partition=1, replicas=(1, 3), adding=(1,))
    stuck = Reassignment(topic="t", partition=0, replicas=(1, 99), adding=(99,))
    snapshot = assemble(
        info=ClusterInfo(cluster_id="c", brokers=(Broker(id=1), Broker(id=4, state=BrokerState.FENCED))),
        now=NOW,
        source="s",
        topics=[topic((1, 99), (1,))],
        configs={},
        reassignments=(stuck, ended),
        answers={1: BrokerLogDirs(broker=1, replicas={KEY: LiveReplica(size_bytes=7, log_dir="/a")})},
    )
    first, second = snapshot.topics[0].partitions
    assert snapshot.reassignments == (stuck,)
    assert (first.adding, second.adding) == ((99,), ())
    assert dict(first.replica_bytes) == {1: 7}
    assert dict(second.replica_bytes) == {}
    assert snapshot.broker_by_id()[99].state is BrokerState.MISSING
    assert list(snapshot.unanswered_brokers) == [4, 99]
