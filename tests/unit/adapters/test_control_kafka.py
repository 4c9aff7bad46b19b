"""The control store in a topic, over a log in memory: the contract, lost answers, and odd logs."""

import pytest

from kafkakit.adapters.control_kafka import TOPIC, KafkaControl, encode_change
from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.errors import ConflictError, InputError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from tests.contracts.control import ControlContract, increment
from tests.fakes.admin import FakeCluster
from tests.fakes.log import FakeLog

TP = TopicPartition(TOPIC, 0)


class LogRig:
    def __init__(self) -> None:
        self.log = FakeLog()
        self.cluster = FakeCluster({1: "a", 2: "a", 3: "b", 4: "c"})

    def open(self) -> KafkaControl:
        return KafkaControl(self.log, lambda: self.cluster)

    def write(self, key: bytes, value: bytes) -> None:
        self.log.append(Record(partition=TP, offset=-1, key=key, value=value))


@pytest.fixture
def rig() -> LogRig:
    return LogRig()


class TestKafkaControl(ControlContract):
    pass


def value_of(store: KafkaControl, path: str) -> bytes | None:
    found = store.get(path)
    return None if found is None else found.value


def test_who_only_looks_writes_nothing_and_sees_what_comes(rig: LogRig) -> None:
    writer, looker = rig.open(), KafkaControl(rig.log, lambda: rig.cluster, only_looks=True)
    assert looker.get("a") is None
    first = writer.cas("a", b"1", None)
    written = rig.log.next_offset
    assert (value_of(looker, "a"), looker.children(""), list(looker.values(""))) == (b"1", ("a",), ["a"])
    assert rig.log.next_offset == written
    writer.cas("a", b"2", first)
    assert value_of(looker, "a") == b"2"
    with pytest.raises(RefusedError):
        looker.cas("b", b"1", None)
    with pytest.raises(RefusedError):
        looker.delete("a", 1)


def test_the_topic_is_made_with_the_first_write_and_spread_over_racks(rig: LogRig) -> None:
    store = rig.open()
    assert store.get("a") is None
    assert store.children("") == ()
    assert rig.cluster.partition_states([TOPIC]) == {}
    store.cas("a", b"1", None)
    assert rig.cluster.partition_states([TOPIC])[TP].replicas == (1, 3, 4)
    configs = rig.cluster.dynamic_configs(ResourceKind.TOPIC, [TOPIC])[TOPIC]
    assert (configs["cleanup.policy"], configs["min.insync.replicas"]) == ("compact", "2")


def test_a_small_cluster_gets_fewer_copies() -> None:
    rig = LogRig()
    rig.cluster = FakeCluster({1: "a", 2: "a"})
    rig.open().cas("a", b"1", None)
    assert rig.cluster.partition_states([TOPIC])[TP].replicas == (1, 2)
    assert rig.cluster.dynamic_configs(ResourceKind.TOPIC, [TOPIC])[TOPIC]["min.insync.replicas"] == "1"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("cleanup.policy", "compact,delete", "cleanup.policy is compact,delete, not compact"),
        ("cleanup.policy", "delete", "cleanup.policy is delete"),
        ("min.compaction.lag.ms", "1000", "min.compaction.lag.ms is below"),
    ],
)
def test_a_topic_that_could_lose_documents_is_refused(rig: LogRig, key: str, value: str, problem: str) -> None:
    rig.open().cas("a", b"1", None)
    change = ConfigChange(kind=ResourceKind.TOPIC, name=TOPIC, key=key, op=ConfigOp.SET, value=value)
    assert rig.cluster.alter_configs([change]) == {change: None}
    for door in (rig.open(), rig.open()):
        with pytest.raises(UsageError) as caught:
            door.get("a")
        assert problem in caught.value.message
        with pytest.raises(UsageError):
            door.cas("b", b"1", None)


def test_a_write_without_an_answer_happened_once_or_not_at_all(rig: LogRig) -> None:
    store = rig.open()
    version = store.cas("a", b"one", None)
    rig.log.fate = ["unsaid"]
    with pytest.raises(TryLaterError, match="took no record within 10 s"):
        store.cas("a", b"two", version)
    with pytest.raises(ConflictError):
        store.cas("a", b"two", version)
    assert value_of(store, "a") == b"two"
    found = store.get("a")
    assert found is not None
    rig.log.fate = ["lost"]
    with pytest.raises(TryLaterError, match="no broker"):
        store.cas("a", b"three", found.version)
    assert value_of(store, "a") == b"two"
    assert store.cas("a", b"three", found.version) > found.version


def test_confirmations_and_tombstones_that_get_lost_do_no_harm(rig: LogRig) -> None:
    store = rig.open()
    store.cas("a", b"0", None)
    for number in range(20):
        # A mark to read, the change itself, then its confirmation and what it ends.
        rig.log.fate = ["", "", *(["", "lost", "lost"] if number % 2 else ["lost", "", "lost"])]
        assert increment(store, "a")
        rig.log.fate = []
    rig.log.clean()
    assert value_of(rig.open(), "a") == value_of(store, "a") == b"20"


def test_the_topic_stays_small(rig: LogRig) -> None:
    store, other = rig.open(), rig.open()
    for number in range(100):
        assert increment((store, other)[number % 2], "a")
        with pytest.raises(ConflictError):
            store.cas("a", b"lost", None)
        if number % 7 == 0:
            rig.log.clean()
    rig.log.clean()
    assert len(rig.log.records) <= 5
    assert value_of(rig.open(), "a") == b"100"


def test_a_store_that_is_away_is_reached_again(rig: LogRig) -> None:
    store = rig.open()
    version = store.cas("a", b"one", None)
    rig.log.away = True
    for _ in range(2):
        with pytest.raises(TryLaterError):
            store.get("a")
        with pytest.raises(TryLaterError):
            store.cas("a", b"two", version)
    rig.log.away = False
    assert value_of(store, "a") == b"one"
    assert store.cas("a", b"two", version) > version


def test_a_topic_that_was_made_anew_is_read_anew(rig: LogRig) -> None:
    store = rig.open()
    store.cas("a", b"one", None)
    rig.log.remake()
    assert store.get("a") is None
    assert store.children("") == ()
    assert store.cas("a", b"new", None) > 0
    assert value_of(store, "a") == b"new"


def test_records_of_others_are_passed_over_and_newer_ones_refused(rig: LogRig) -> None:
    store = rig.open()
    store.cas("a", b"one", None)
    rig.write(b"", b"noise")
    rig.write(b"somebody", b"\xff\x00")
    assert value_of(store, "a") == b"one"
    rig.write(b"change/x/1", encode_change("a", 1, b"two").replace(b'"schema":1', b'"schema":9'))
    with pytest.raises(InputError, match=rf"topic {TOPIC}, offset \d+: has schema 9"):
        store.get("a")
    with pytest.raises(InputError, match="use a newer kafkakit"):
        rig.open().get("a")


def test_a_guess_of_a_version_to_come_never_wins(rig: LogRig) -> None:
    store = rig.open()
    version = store.cas("a", b"one", None)
    for guess in range(version + 20, version + 140):
        with pytest.raises(ConflictError):
            store.cas("a", b"guessed", guess)
    for _ in range(40):
        found = store.get("a")
        assert found is not None
        assert found.value == b"one"
        version = store.cas("a", b"one", found.version)
    assert value_of(rig.open(), "a") == b"one"
    assert version > 140


def test_what_was_given_up_is_not_written_later(rig: LogRig) -> None:
    store = rig.open()
    version = store.cas("a", b"one", None)
    rig.log.fate = ["late"]
    with pytest.raises(TryLaterError):
        store.cas("a", b"two", version)
    for _ in range(3):
        assert value_of(store, "a") == b"one"


def test_made_and_removed_in_between_is_still_nothing(rig: LogRig, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = rig.open(), rig.open()
    store.delete("a", store.cas("a", b"one", None))
    append, times = store._append, [1]

    def interrupted(key: bytes, value: bytes) -> int:
        if key.startswith(b"change/") and times:
            times.pop()
            other.delete("a", other.cas("a", b"between", None))
        return append(key, value)

    monkeypatch.setattr(store, "_append", interrupted)
    store.cas("a", b"two", None)
    assert times == []
    assert value_of(other, "a") == b"two"
