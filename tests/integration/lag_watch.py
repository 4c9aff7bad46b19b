"""A running lag monitor on real brokers, for tests that look while things happen."""

import itertools
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
from kafkakit.streams.lag.decide.measure.ends import BROKER_KEYS, TopicLogSettings, facts_of
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import TimeLag
from tests.fakes.groups import FakeGroups
from tests.integration.conftest import SandboxCluster
from tests.rigs.waiting import until

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
        until(
            lambda: self.watcher.monitor is not None and self.watcher.monitor.is_live,
            "live",
            limit_s,
            seen=lambda: self.watcher.condition().notes,
        )

    def until(self, group: str, key: TopicPartition, is_so: Callable[[Row], bool], limit_s: float = 180.0) -> Row:
        """Look until the row is as it should be; fails with the last one."""
        row: Row | None = None

        def found() -> Row | None:
            nonlocal row
            row = self.rows(group).get(key)
            return row if row is not None and is_so(row) else None

        return until(found, f"{group} {key}", limit_s, lambda: (row, self.watcher.condition().notes, self.said))


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


def topic_facts(cluster: SandboxCluster, topics: object) -> Mapping[str, TopicLogSettings]:
    """The settings of topics, read as the program does."""
    assert isinstance(topics, tuple | list)
    with closing(cluster.open_admin()) as admin:
        told = admin.broker_settings(cluster.broker_ids[:1], BROKER_KEYS)
        return facts_of(admin.dynamic_configs(ResourceKind.TOPIC, topics), next(iter(told.values()), {}))
