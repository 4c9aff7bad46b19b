"""A running lag monitor on real brokers, for tests that look while things happen."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lag.act.monitor import (
    ClusterMonitor,
    ClusterWatcher,
    MonitorContext,
    MonitoredCluster,
    MonitorPace,
)
from kafkakit.streams.lag.decide.measure.ends import BROKER_KEYS, TopicFacts, facts_of
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import TimeLag
from tests.fakes.groups import FakeGroups
from tests.integration.conftest import SandboxCluster

PACE = MonitorPace(ends_s=0.3, records_s=0.1)
_names = itertools.count()


@dataclass(frozen=True)
class Row:
    """One group-partition of a table."""

    committed: int
    end: int
    lag: int
    pending: int
    status: LagStatus
    backlog: TimeLag
    live: TimeLag


class Watch:
    """A watcher of one cluster in its thread."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self.said: list[str] = []
        source = MonitoredCluster(
            name=cluster.name,
            open_reader=lambda: KafkaLog(cluster.bootstrap_servers, cluster.security, request_timeout_s=5),
            facts_of=partial(topic_facts, cluster),
            open_groups=FakeGroups,
        )
        self.watcher = ClusterWatcher(source, MonitorContext(clock=SystemClock(), warn=self.said.append, pace=PACE))

    @property
    def monitor(self) -> ClusterMonitor:
        found = self.watcher.monitor
        assert found is not None
        return found

    def rows(self, group: str) -> Mapping[TopicPartition, Row]:
        """What the table holds of a group now."""
        monitor = self.watcher.monitor
        if monitor is None:
            return {}
        table = monitor.table()
        return {
            TopicPartition(table.topics[table.topic[i]], int(table.partition[i])): Row(
                int(table.committed[i]), int(table.end[i]), int(table.lag[i]), int(table.pending[i]),
                LagStatus(int(table.status[i])), table.backlog.at(i), table.live.at(i),
            )
            for i in range(len(table))
            if table.groups[table.group[i]] == group
        }  # fmt: skip

    def until_live(self, limit_s: float = 180.0) -> None:
        """Look until all commits are known."""
        deadline = time.monotonic() + limit_s
        while self.watcher.monitor is None or not self.watcher.monitor.is_live:
            assert time.monotonic() < deadline, self.watcher.condition().notes
            time.sleep(0.05)

    def until(self, group: str, key: TopicPartition, is_so: Callable[[Row], bool], limit_s: float = 180.0) -> Row:
        """Look until the row is as it should be; fails with the last one."""
        deadline = time.monotonic() + limit_s
        row: Row | None = None
        while time.monotonic() < deadline:
            row = self.rows(group).get(key)
            if row is not None and is_so(row):
                return row
            time.sleep(0.05)
        raise AssertionError(f"{group} {key}: {row}, {self.watcher.condition().notes}, {self.said}")


@contextmanager
def watching(cluster: SandboxCluster) -> Iterator[Watch]:
    """Watch a cluster for the time of a test."""
    watch = Watch(cluster)
    watch.watcher.carry.set()
    watch.watcher.start()
    try:
        yield watch
    finally:
        watch.watcher.stop()
        assert watch.watcher.join(180), "the watcher did not end"


def new_topic(cluster: SandboxCluster, configs: Mapping[str, str] | None = None) -> TopicPartition:
    """A topic with a name of its own; its first partition."""
    name = f"lag-{next(_names)}"
    make_topic(cluster, name, 1, configs or {})
    return TopicPartition(name, 0)


def make_topic(cluster: SandboxCluster, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    brokers = cluster.broker_ids
    lists = {p: (brokers[p % len(brokers)],) for p in range(partitions)}
    with closing(cluster.open_admin()) as admin:
        assert admin.create_topic(name, lists, configs) is None


def topic_facts(cluster: SandboxCluster, topics: object) -> Mapping[str, TopicFacts]:
    """The settings of topics, read as the program does."""
    assert isinstance(topics, tuple | list)
    with closing(cluster.open_admin()) as admin:
        told = admin.broker_settings(cluster.broker_ids[:1], BROKER_KEYS)
        return facts_of(admin.dynamic_configs(ResourceKind.TOPIC, topics), next(iter(told.values()), {}))
