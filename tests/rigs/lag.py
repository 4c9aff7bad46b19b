"""A cluster in memory with its commit log, and a monitor of it, for the tests of the lag monitor's shells."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from kafkakit.core.model import OFFSETS_TOPIC, TopicPartition
from kafkakit.streams.lag.act.monitor import ClusterMonitor, MonitorPace
from kafkakit.streams.lag.decide.measure.ends import TopicLogSettings
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import TimeLag
from kafkakit.streams.lag.decide.saved_state import decode_state, encode_state
from tests.clusters.streams_batches import Rec, batch, commit, tombstone
from tests.fakes.admin import FakeClock
from tests.fakes.log_reader import FakeLogReader

PARTITIONS = 3


class SteppingClock(FakeClock):
    """A clock whose wall time can be set back or forth apart from the monotonic one."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = timedelta()

    def now(self) -> Any:
        return super().now() + self.shift


class Row:
    """One group-partition of a table."""

    def __init__(self, committed: int, end: int, lag: int, status: LagStatus, backlog: TimeLag, live: TimeLag) -> None:
        self.committed, self.end, self.lag, self.status = committed, end, lag, status
        self.backlog, self.live = backlog, live


class Rig:
    """One topic `orders` (2 partitions) and a commit log of three partitions; group names choose the partition."""

    def __init__(self, facts: Mapping[str, TopicLogSettings] | None = None) -> None:
        self.clock = SteppingClock()
        self.reader = FakeLogReader("c1")
        self.reader.add_topic(OFFSETS_TOPIC, PARTITIONS)
        self.reader.add_topic("orders", 2)
        self.facts = facts or {}
        self.monitor = self.new_monitor()

    def new_monitor(self) -> ClusterMonitor:
        return ClusterMonitor(
            self.reader, self.clock, "prod", "c1", facts_of=self.facts_of, pace=MonitorPace(ends_s=1.0, records_s=0.5)
        )

    def facts_of(self, topics: Sequence[str]) -> Mapping[str, TopicLogSettings]:
        return {name: self.facts[name] for name in topics if name in self.facts}

    @property
    def now_ms(self) -> int:
        return int(self.clock.now().timestamp() * 1000)

    def place(self, group: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, sum(group.encode()) % PARTITIONS)

    def write(self, group: str, *records: Rec, **options: Any) -> None:
        """Append one batch of records to the partition of the commit log that a group belongs to."""
        self.reader.append(self.place(group), batch(0, records, base_ms=self.now_ms, **options))

    def commit(self, group: str, offset: int, partition: int = 0, topic: str = "orders", **fields: Any) -> None:
        fields = {"committed_ms": self.now_ms, **fields}
        self.write(group, commit(group, topic, partition, offset, **fields))

    def delete(self, group: str, partition: int = 0, topic: str = "orders") -> None:
        self.write(group, tombstone(group, topic, partition))

    def produce(self, count: int, partition: int = 0, topic: str = "orders", **options: Any) -> None:
        records = [Rec(b"k", b"v") for _ in range(count)]
        options = {"base_ms": self.now_ms, **options}
        self.reader.append(TopicPartition(topic, partition), batch(0, records, **options))

    def run(self, seconds: float, monitor: ClusterMonitor | None = None) -> None:
        """Tick ten times a second."""
        for _ in range(round(seconds * 10)):
            (monitor or self.monitor).tick()
            self.clock.advance(0.1)

    def rows(self, monitor: ClusterMonitor | None = None) -> dict[tuple[str, str, int], Row]:
        table = (monitor or self.monitor).table()
        return {
            (table.groups[table.group[i]], table.topics[table.topic[i]], int(table.partition[i])): Row(
                int(table.committed[i]), int(table.end[i]), int(table.lag[i]), LagStatus(int(table.status[i])),
                table.backlog.at(i), table.live.at(i),
            )
            for i in range(len(table))
        }  # fmt: skip

    def next_run(self, before: ClusterMonitor | None, seconds: float = 3) -> ClusterMonitor:
        """A command that begins with what the run before it saved (None: with nothing), and looks for so long."""
        found = self.new_monitor()
        saved = None if before is None else before.state()
        if saved is not None:
            found.adopt(decode_state(encode_state(saved), "s"))
        self.run(seconds, found)
        return found

    def row(self, group: str, partition: int = 0, monitor: ClusterMonitor | None = None) -> Row:
        return self.rows(monitor)[group, "orders", partition]
