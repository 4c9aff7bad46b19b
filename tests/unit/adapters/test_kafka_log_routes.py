"""Leaders are remembered, forgotten when they moved, and a topic created again is told to each of its readers once."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.adapters.kafka.log import HIDDEN, LEADERLESS, UNKNOWN, Routes
from kafkakit.core.cluster_facts import TopicPlaces
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import NO_TOPIC_ID

TP = TopicPartition


class Cluster:
    """A session that answers MetadataRequest from a table, and counts."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[int, list[int]]] = {}
        self.denied: set[str] = set()
        self.requested: list[list[str] | None] = []

    def request(self, what: str, request: Any) -> Any:
        del what
        names = None if request.topics is None else [topic.name for topic in request.topics]
        self.requested.append(names)
        return SimpleNamespace(topics=[self._topic(name) for name in (self.topics if names is None else names)])

    def _topic(self, name: str) -> Any:
        if name in self.denied:
            return SimpleNamespace(name=name, error_code=29)
        if name not in self.topics:
            return SimpleNamespace(name=name, error_code=3)
        number, leaders = self.topics[name]
        places = [SimpleNamespace(partition_index=p, leader_id=leader) for p, leader in enumerate(leaders)]
        return SimpleNamespace(name=name, error_code=0, topic_id=uuid.UUID(int=number), partitions=places)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def routes(cluster: Cluster) -> Routes:
    session: Any = cluster
    return Routes(session)


def test_a_leader_is_asked_for_once_and_again_when_it_moved(cluster: Cluster, routes: Routes) -> None:
    cluster.topics["t"] = (1, [1, 2])
    assert routes.leaders([TP("t", 1), TP("t", 0)]) == {TP("t", 0): 1, TP("t", 1): 2}
    cluster.topics["t"] = (1, [3, 2])
    assert routes.leaders([TP("t", 0)]) == {TP("t", 0): 1}
    assert cluster.requested == [["t"]]
    routes.forget(["t"])
    assert routes.leaders([TP("t", 0)]) == {TP("t", 0): 3}


def test_what_has_no_leader_is_asked_for_every_time(cluster: Cluster, routes: Routes) -> None:
    cluster.topics["t"] = (1, [-1, 2])
    assert routes.leaders([TP("t", 0), TP("t", 1), TP("t", 5), TP("n", 0)]) == {
        TP("n", 0): UNKNOWN,
        TP("t", 0): LEADERLESS,
        TP("t", 1): 2,
        TP("t", 5): UNKNOWN,
    }
    cluster.topics |= {"t": (1, [4]), "n": (2, [5])}
    assert routes.leaders([TP("t", 0), TP("n", 0)]) == {TP("n", 0): 5, TP("t", 0): 4}


def test_a_topic_created_again_is_told_to_each_reader_until_it_accepts(cluster: Cluster, routes: Routes) -> None:
    cluster.topics["t"] = (1, [1, 1])
    routes.leaders([TP("t", 0)])
    assert not routes.recreated(TP("t", 0))
    cluster.topics["t"] = (2, [1, 1])
    routes.look_up(None)
    assert routes.ids(["t"])["t"] == uuid.UUID(int=2).bytes
    assert routes.recreated(TP("t", 0))
    assert routes.recreated(TP("t", 0))
    routes.accept(TP("t", 0))
    assert not routes.recreated(TP("t", 0))
    # Nobody read the other partition of the old topic.
    assert not routes.recreated(TP("t", 1))


def test_a_topic_gone_for_a_while_is_told_too(cluster: Cluster, routes: Routes) -> None:
    cluster.topics["t"] = (1, [1])
    routes.leaders([TP("t", 0)])
    assert not routes.recreated(TP("t", 0))
    del cluster.topics["t"]
    assert routes.look_up(["t"]) == {}
    assert routes.leaders([TP("t", 0)]) == {TP("t", 0): UNKNOWN}
    cluster.topics["t"] = (2, [1])
    assert routes.leaders([TP("t", 0)]) == {TP("t", 0): 1}
    assert routes.recreated(TP("t", 0))


def test_names_go_in_several_requests_and_no_right_is_no_empty_answer(cluster: Cluster, routes: Routes) -> None:
    names = [f"t{number:04}" for number in range(1100)]
    cluster.topics |= dict.fromkeys(names, (0, [1]))
    found = routes.look_up(names)
    assert list(found) == names
    assert found[names[0]] == TopicPlaces(topic_id=NO_TOPIC_ID, leaders={0: 1})
    assert [len(requested or ()) for requested in cluster.requested] == [500, 500, 100]
    cluster.denied.add("secret")
    assert list(routes.look_up(["secret", "t0000"])) == ["t0000"]
    with pytest.raises(OperationFailedError, match="secret"):
        routes.look_up(["secret"])
    assert routes.leaders([TP("secret", 0), TP("t0000", 0)]) == {TP("secret", 0): HIDDEN, TP("t0000", 0): 1}
