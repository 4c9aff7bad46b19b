"""Watches of a cluster: what a probe and a look find, and that one that hangs does not hold up the judgement."""

from collections.abc import Mapping
from typing import Any

import pytest

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.assigner.act.watching import ClusterWatch, WatchedCluster
from kafkakit.streams.assigner.decide.placing import PartitionFacts, rounded
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.groups import FakeGroups
from tests.rigs.assigner_loop import FakeClients


class Log:
    """Ends that a test sets."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] = {}

    def spans(self, partitions: Any) -> Mapping[TopicPartition, LogSpan]:
        return {key: LogSpan(start=0, stable=self.ends[key], end=self.ends[key]) for key in partitions}


class Stage:
    def __init__(self) -> None:
        self.cluster, self.log, self.groups = FakeCluster({1: "r1", 2: "r2"}, cluster_id="a-id"), Log(), FakeGroups()
        self.clock = FakeClock()
        self.clients = FakeClients(admin=self.cluster, groups=self.groups, log=self.log)
        self.watch = ClusterWatch("a-id", lambda: self.clients, self.clock)
        self.cluster.create_topic("t", {0: (1, 2), 1: (2, 1)}, {"min.insync.replicas": "2"})
        self.log.ends = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 100}
        self.watch.wanted = WatchedCluster(partitions={"t": 2}, groups={"t": ("g",)})

    def look(self) -> None:
        self.watch.look_once(self.clients)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_probe_is_of_the_cluster_that_is_meant(stage: Stage) -> None:
    stage.watch.probe_once(stage.clients)
    assert stage.watch.probe is not None
    assert stage.watch.probe.has_controller
    other = ClusterWatch("b-id", lambda: stage.clients, stage.clock)
    other.probe_once(stage.clients)
    assert other.probe is None
    assert other.problem == "its address answers as cluster a-id"


def test_a_look_finds_rates_racks_and_lag(stage: Stage) -> None:
    stage.groups.seed("g", TopicPartition("t", 0), 90)
    stage.look()
    stage.clock.advance(10)
    stage.log.ends[TopicPartition("t", 1)] = 1_100
    stage.look()
    found = stage.watch.look
    assert found.number == 2
    assert found.facts["t"] == (PartitionFacts(0, "r1"), PartitionFacts(128, "r2"))
    assert found.lags == {"g": 10}
    assert (found.offline, found.under_min_isr) == (0, 0)


def test_a_look_counts_what_is_under_its_minimum(stage: Stage) -> None:
    stage.cluster.kill(2)
    stage.look()
    assert stage.watch.look.under_min_isr == 2


@pytest.mark.parametrize(("rate", "power"), [(0, 0), (1, 1), (2, 2), (3, 4), (1000, 1024), (1024, 1024)])
def test_rates_are_rounded_to_powers_of_two(rate: int, power: int) -> None:
    assert rounded(rate) == power
