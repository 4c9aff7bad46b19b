"""Real clients that commit: members of groups of both protocols, loners, transactions; and a poison pill."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafkakit.config.security import to_confluent, to_kafka_python
from kafkakit.core.cluster_facts import GroupState
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import GroupAdmin
from kafkakit.streams.model.commit import CommitIdentity, CommitState, Mark, MarkState, OffsetRanges, Watermark
from kafkakit.streams.model.kkm1.encode import encode_commit
from tests.integration.conftest import SandboxCluster
from tests.rigs.waiting import until

JOIN_LIMIT_S = 180.0
CALL_S = 90.0
Commits = Mapping[TopicPartition, tuple[int, str]]


class Member:
    """A live member of a group, made by confluent-kafka; its client adds a NUL to metadata that it commits."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The partitions that it holds, sorted."""
        return tuple(sorted(TopicPartition(place.topic, place.partition) for place in self._client.assignment()))

    def commit(self, commits: Commits) -> None:
        """Commit as the member, once the coordinator is ready, wherever it moves; raises the client's error."""
        from confluent_kafka import KafkaError, KafkaException

        passing = {
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
            KafkaError.REQUEST_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TRANSPORT,
        }  # fmt: skip
        deadline = time.monotonic() + JOIN_LIMIT_S
        while True:
            try:
                self._client.commit(offsets=_places(commits), asynchronous=False)
                return
            except KafkaException as error:
                if error.args[0].code() not in passing or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def group_metadata(self) -> Any:
        """What a transaction needs to commit offsets for the group."""
        return self._client.consumer_group_metadata()

    def poll(self) -> None:
        """Let the client work for a moment."""
        self._client.poll(0.1)


@contextmanager
def member(
    cluster: SandboxCluster, group: str, topics: Iterable[str], *, protocol: str = "classic"
) -> Iterator[Member]:
    """Join a group and wait until partitions are assigned; `protocol` is `classic` or `consumer` (KIP-848)."""
    client = _consumer(cluster, group, {"group.protocol": protocol, "auto.offset.reset": "earliest"})
    try:
        client.subscribe(sorted(topics))
        deadline = time.monotonic() + JOIN_LIMIT_S
        while not client.assignment():
            assert time.monotonic() < deadline, f"no partition was assigned in group {group}"
            client.poll(0.05)
        yield Member(client)
    finally:
        client.close()


def until_left(groups: GroupAdmin, group: str) -> None:
    """Wait until a group is without members: clients wait 5 s at most for the answer to their leave."""
    until(lambda: getattr(groups.describe([group])[group], "state", None) is GroupState.EMPTY, f"{group} is empty")


@contextmanager
def share_member(cluster: SandboxCluster, group: str, topics: Iterable[str]) -> Iterator[None]:
    """Take part in a share group and accept what comes; whether it is stable already shows in its description."""
    from confluent_kafka import ShareConsumer

    client = ShareConsumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, **to_confluent(cluster.security)}
    )
    try:
        client.subscribe(sorted(topics))
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                client.poll(0.1)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
    finally:
        client.close()


@contextmanager
def loner(cluster: SandboxCluster, group: str) -> Iterator[Member]:
    """A confluent-kafka client that commits for a group without joining it."""
    client = _consumer(cluster, group, {})
    try:
        yield Member(client)
    finally:
        client.close()


def commit_with_kafka_python(cluster: SandboxCluster, group: str, commits: Commits) -> None:
    """Commit for a group without joining it, through kafka-python, which stores metadata as it is given."""
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Place
    from kafka.structs import OffsetAndMetadata

    client = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        group_id=group,
        enable_auto_commit=False,
        **to_kafka_python(cluster.security),
    )
    try:
        client.assign([Place(*key) for key in sorted(commits)])
        client.commit({Place(*key): OffsetAndMetadata(offset, text, -1) for key, (offset, text) in commits.items()})
    finally:
        client.close()


class OffsetsTransaction:
    """A transaction that commits offsets of a group; it stays open until `commit`, `abort` or `end`."""

    def __init__(self, cluster: SandboxCluster, name: str, *, timeout_ms: int = 600_000) -> None:
        from confluent_kafka import Producer

        self._client = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "transactional.id": name,
                "transaction.timeout.ms": timeout_ms,
                **to_confluent(cluster.security),
            }
        )
        self._client.init_transactions(CALL_S)
        self._is_open = False

    def __enter__(self) -> "OffsetsTransaction":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Start a transaction."""
        self._client.begin_transaction()
        self._is_open = True

    def send(self, owner: Member, commits: Commits) -> None:
        """Commit offsets inside the transaction, for the group of `owner`."""
        self._client.send_offsets_to_transaction(_places(commits), owner.group_metadata(), CALL_S)

    def produce(self, partition: TopicPartition, *values: bytes) -> None:
        """Write records inside the transaction, acknowledged when this returns."""
        for value in values:
            self._client.produce(partition.topic, value=value, partition=partition.partition)
        assert self._client.flush(CALL_S) == 0

    def commit(self) -> None:
        """End the transaction; what it holds counts."""
        self._client.commit_transaction(CALL_S)
        self._is_open = False

    def abort(self) -> None:
        """End the transaction; what it holds never was."""
        self._client.abort_transaction(CALL_S)
        self._is_open = False

    def end(self) -> None:
        """Abort what a test that failed left open: it would hold up the readers of a shared cluster."""
        if self._is_open:
            self.abort()


def produce(
    cluster: SandboxCluster,
    partition: TopicPartition,
    values: Iterable[bytes | None],
    *,
    key: bytes | None = None,
    timestamp_ms: int = 0,
    step_ms: int = 0,
    settings: Mapping[str, object] | None = None,
) -> None:
    """Write records, acknowledged by all in-sync replicas; times count up by `step_ms` where one is given."""
    from confluent_kafka import Producer

    failures: list[str] = []
    client = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            **to_confluent(cluster.security),
            **(settings or {}),
        }
    )
    for number, value in enumerate(values):
        stamp = timestamp_ms + number * step_ms if timestamp_ms else 0
        while True:
            try:
                client.produce(
                    partition.topic,
                    value=value,
                    key=key,
                    partition=partition.partition,
                    timestamp=stamp,
                    on_delivery=lambda error, _: failures.append(str(error)) if error else None,
                )
                break
            except BufferError:
                client.poll(0.1)
    assert client.flush(CALL_S) == 0
    assert not failures, failures[0]


def poison_pill(identity: CommitIdentity, *, stuck: int, done_to: int, oldest_ms: int, newest_ms: int) -> str:
    """The metadata of a group that did everything up to `done_to` (exclusive) but for the record at `stuck`.

    That record is retried for the third time; commit it at the offset `stuck`.
    """
    state = CommitState(
        base=stuck,
        done=OffsetRanges.of([(stuck + 1, done_to)]),
        watermark=Watermark(oldest_ms=oldest_ms, newest_done_ms=newest_ms),
        marks=(Mark(start=stuck, end=stuck + 1, state=MarkState.RETRYING, count=3),),
    )
    return encode_commit(state, identity, limit_chars=4095).text


def _consumer(cluster: SandboxCluster, group: str, settings: Mapping[str, object]) -> Any:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            **to_confluent(cluster.security),
            **settings,
        }
    )


def _places(commits: Commits) -> list[Any]:
    from confluent_kafka import TopicPartition as Place

    return [Place(key.topic, key.partition, offset, text) for key, (offset, text) in sorted(commits.items())]
