"""An operator's host with two clusters in memory behind profiles, and their groups and logs."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.read_only import ReadOnlyAdmin, ReadOnlyGroups
from kafkakit.core.cluster_facts import ItemError, LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.model.route import Route
from kafkakit.streams.routes.api_act import RouteStore
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.command_line import Home, Ran


class ClusterLog(FakeLogReader):
    """The logs of a cluster's topics: those that the cluster has, and no others."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster.cluster_id)
        self._cluster = cluster
        self._seen: dict[str, str] = {}

    def spans(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSpan | ItemError]:
        self.follow()
        return super().spans(partitions)

    def follow(self) -> None:
        for name, topic in self._cluster.topics.items():
            if self._seen.get(name) != topic.topic_id:
                self._seen[name] = topic.topic_id
                self.add_topic(name, len(topic.partitions))


class StreamDesk:
    """Profiles `p` (three brokers in three racks) and `q` (one broker); the control store is one for both."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = Home(folder)
        self.store = FakeControlStore()
        self.clock = FakeClock()
        self.clusters = {
            "fake:1": FakeCluster({1: "a", 2: "b", 3: "c"}, cluster_id="p-id"),
            "fake:2": FakeCluster({1: None}, cluster_id="q-id"),
        }
        self.logs = {address: ClusterLog(cluster) for address, cluster in self.clusters.items()}
        self.groups = {address: FakeGroups() for address in self.clusters}
        for name, address in (("p", "fake:1"), ("q", "fake:2")):
            self.home.write_config(
                f"bootstrap_server: {address}\ncontrol_store: zookeeper\n", f"profiles.d/{name}.yaml"
            )
        monkeypatch.setattr(wiring, "open_admin", self.open_admin)
        monkeypatch.setattr(wiring, "open_log", self.open_log)
        monkeypatch.setattr(wiring, "open_groups", self.open_groups)
        monkeypatch.setattr(wiring, "open_control", self.open_control)
        monkeypatch.setattr(wiring, "system_clock", lambda: self.clock)

    @property
    def now_ms(self) -> int:
        return epoch_ms(self.clock.now())

    @property
    def cluster(self) -> FakeCluster:
        return self.clusters["fake:1"]

    @property
    def other(self) -> FakeCluster:
        return self.clusters["fake:2"]

    def open_admin(self, settings: Any, *, read_only: bool = False, check_pin: bool = True) -> ClusterAdmin:
        cluster = self.clusters[settings.bootstrap_servers]
        return ReadOnlyAdmin(cluster) if read_only else cluster

    def open_log(self, settings: Any) -> LogReader:
        return self.logs[settings.bootstrap_servers]

    def open_groups(self, settings: Any, *, read_only: bool = False) -> GroupAdmin:
        groups = self.groups[settings.bootstrap_servers]
        return ReadOnlyGroups(groups) if read_only else groups

    def open_control(self, settings: Any, kind: str = "") -> ControlStore:
        return self.store

    def run(self, *words: str, profile: str = "p") -> Ran:
        return self.home.run("--profile", profile, "streams", *words)

    def done(self, *words: str) -> Ran:
        """A command that must succeed."""
        ran = self.run(*words)
        assert ran.code == 0, ran.stderr + ran.stdout
        return ran

    def route(self, stream: str = "orders") -> Route:
        return RouteStore(self.store).existing(stream).route

    def write(self, topic: str, partition: int, count: int, address: str = "fake:1") -> None:
        """Put records into a log."""
        self.logs[address].follow()
        self.logs[address].log(TopicPartition(topic, partition)).end += count

    def commit(self, group: str, topic: str, partition: int, offset: int, address: str = "fake:1") -> None:
        self.groups[address].seed(group, TopicPartition(topic, partition), offset)
