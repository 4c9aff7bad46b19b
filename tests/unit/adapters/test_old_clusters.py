"""Kafka before 2.4 and 2.8, which lacks requests: moves come from their znode, the members from the metadata."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.adapters.kafka.session import KafkaSession
from kafkakit.config.security import Security
from kafkakit.core.errors import InputError, TooOldError
from kafkakit.core.model import Broker, Reassignment

ZNODE = b"""{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[3,2]},
{"topic":"x","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[4,1]}]}"""


def partition(number: int, replicas: list[int], isr: list[int]) -> Any:
    return SimpleNamespace(partition_index=number, replica_nodes=replicas, isr_nodes=isr, leader_id=isr[0])


def old_request(self: Any, what: str, request: Any, **_: Any) -> Any:
    """Metadata is answered; no other request is known."""
    del self
    if what != "describe topics":
        raise TooOldError(f"{what}: this Kafka is too old")
    rows = [partition(0, [4, 1, 2], [2, 1]), partition(1, [1, 2], [1, 2])]
    brokers = [SimpleNamespace(node_id=n, host=f"h{n}", port=9092, rack=None) for n in (2, 1)]
    topics = [SimpleNamespace(error_code=0, name="t", topic_id=None, partitions=rows)] if request.topics else []
    return SimpleNamespace(topics=topics, brokers=brokers, cluster_id="old", controller_id=2)


def admin(monkeypatch: pytest.MonkeyPatch, data: bytes | None) -> KafkaAdmin:
    monkeypatch.setattr(KafkaSession, "request", old_request)
    monkeypatch.setattr(KafkaAdmin, "_version", lambda _: "2.3")
    return KafkaAdmin("old:9092", Security(), old_moves=None if data is None else lambda: data)


def test_moves_are_those_of_the_znode_and_adding_is_what_is_not_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    assert admin(monkeypatch, ZNODE).reassignments() == (
        # The controller has put 4 into the live list already, and not yet 3 into the other one.
        Reassignment(topic="t", partition=0, replicas=(4, 1, 2), adding=(4,), removing=(2,)),
        Reassignment(topic="t", partition=1, replicas=(3, 2, 1), adding=(3,), removing=(1,)),
    )


def test_no_znode_is_no_moves_and_no_zookeeper_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert admin(monkeypatch, b"").reassignments() == ()
    with pytest.raises(TooOldError):
        admin(monkeypatch, None).reassignments()


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"partitions":[{"topic":"t"}]}', b"\xff"])
def test_a_znode_that_holds_no_moves_is_told_and_throttles_stay(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="znode admin/reassign_partitions"):
        admin(monkeypatch, data).reassignments()


def test_members_come_from_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    info = admin(monkeypatch, b"").cluster()
    assert (info.cluster_id, info.controller_id, info.operations, info.kafka_version) == ("old", 2, None, "2.3")
    assert info.brokers == (Broker(id=1, host="h1", port=9092), Broker(id=2, host="h2", port=9092))
