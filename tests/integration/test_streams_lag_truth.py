"""The interval of every time lag holds the truth, over idle, bursty, replayed, transactional and compacted topics.

Records carry their creation time, and the test knows which record and which commit was there from when to when; at
edges either side may be true.
"""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lag.decide.measure.time_lag import EstimateSource
from tests.contracts.data import read_all
from tests.integration.conftest import SandboxCluster
from tests.integration.lag_watch import Row, new_topic, watching
from tests.integration.stream_clients import Member, loner, produce

pytestmark = [pytest.mark.kafka, pytest.mark.timed]

RUN_S = 12.0
SLACK_MS = 5
"""Times are whole milliseconds, and a broker may show a record a moment before its producer hears of it."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Diary:
    """What happened in one partition: records as (time, appended from, to), commits as (offset, from, to)."""

    key: TopicPartition
    group: str
    records: list[tuple[int, int, int]] = field(default_factory=list)
    commits: list[tuple[int, int, int]] = field(default_factory=list)

    def truths(self, at_ms: int, *, compacted: bool) -> set[int]:
        """All lags that may have been the true one at a moment."""
        low, high = at_ms - SLACK_MS, at_ms + SLACK_MS
        sure_end = sum(to <= low for _, _, to in self.records)
        may_end = sum(since <= high for _, since, _ in self.records)
        commits = [c for c, since, _ in self.commits if since <= high]
        settled = bisect_right([to for _, _, to in self.commits], low)
        positions = set(commits[max(0, settled - 1) :])
        found: set[int] = set()
        for position in positions:
            if sure_end <= position:
                found.add(0)
            # Compaction may have taken any record but the last one of its key.
            last = may_end if compacted else min(may_end, position + 1)
            found.update(max(0, at_ms - stamp) for stamp, _, _ in self.records[position:last])
        return found


@dataclass
class Actor:
    """Writes and commits in one partition by a plan: each step is (records, their age in ms, commit up to)."""

    cluster: SandboxCluster
    diary: Diary
    plan: list[tuple[int, int, int]]
    pause_s: float
    key_of: bytes | None = None

    def run(self) -> None:
        with loner(self.cluster, self.diary.group) as owner:
            for count, age_ms, commit_to in self.plan:
                for _ in range(count):
                    self.write(now_ms() - age_ms)
                if commit_to >= 0:
                    self.commit(owner, commit_to)
                time.sleep(self.pause_s)

    def write(self, stamp: int) -> None:
        since = now_ms()
        settings = {"linger.ms": 0}
        produce(self.cluster, self.diary.key, [b"x" * 50], key=self.key_of, timestamp_ms=stamp, settings=settings)
        self.diary.records.append((stamp, since, now_ms()))

    def commit(self, owner: Member, offset: int) -> None:
        since = now_ms()
        self.diary.commits.append((offset, since, since + 60_000))
        owner.commit({self.diary.key: (offset, "")})
        self.diary.commits[-1] = (offset, since, now_ms())

    def note_stamps(self) -> None:
        """Take the times of the records from the log: with LogAppendTime the broker gave them."""
        found = read_all(KafkaData(self.cluster.bootstrap_servers, self.cluster.security), self.diary.key)
        stamps = [record.at_ms or 0 for record in found]
        assert len(stamps) == len(self.diary.records)
        self.diary.records = [(at, *kept[1:]) for at, kept in zip(stamps, self.diary.records, strict=True)]


def plans() -> dict[str, list[tuple[int, int, int]]]:
    """Idle: nothing after the beginning. Bursty: lumps, then silence, the group a little behind, one record at the end.
    Replayed: times of hours ago, out of order. Steady: the group right behind its producer."""
    bursts: list[tuple[int, int, int]] = []
    written = done = 0
    for step in range(24):
        count = 5 if step % 6 == 0 else 0
        written += count
        done = min(written, done + 1, 19)
        bursts.append((count, 0, done))
    return {
        "idle": [(10, 0, 0), (0, 0, 4), *[(0, 0, -1)] * 15, (0, 0, 10)],
        "bursty": bursts,
        "replayed": [(1, 3_600_000 * (1 + step % 5), step) for step in range(20)],
        "steady": [(1, 0, step + 1) for step in range(24)],
        "compacted": [(2, 0, step) for step in range(20)],
    }


@pytest.fixture
def actors(cluster: SandboxCluster) -> dict[str, Actor]:
    made = {}
    for name, plan in plans().items():
        configs: dict[str, str] = {}
        if name == "compacted":
            configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
        elif name == "steady":
            configs = {"message.timestamp.type": "LogAppendTime"}
        key = new_topic(cluster, configs)
        actor = Actor(cluster, Diary(key, f"truth-{name}-{key.topic}"), plan, RUN_S / len(plan) / 2)
        actor.key_of = b"one" if name == "compacted" else None
        made[name] = actor
    return made


def test_every_interval_holds_the_truth(cluster: SandboxCluster, actors: dict[str, Actor]) -> None:
    with watching(cluster) as watch:
        threads = [threading.Thread(target=actor.run) for actor in actors.values()]
        for thread in threads:
            thread.start()
        seen: dict[str, list[Row]] = {name: [] for name in actors}
        # What the actors leave behind is seen in the end, however few looks were possible meanwhile.
        left = set(SEEN_AT_LAST)
        deadline = time.monotonic() + 300
        while any(thread.is_alive() for thread in threads) or left or min(map(len, seen.values())) <= 20:
            assert time.monotonic() < deadline, left
            for name, actor in actors.items():
                row = watch.rows(actor.diary.group).get(actor.diary.key)
                if row is not None:
                    seen[name].append(row)
                    left -= {name} if name in left and SEEN_AT_LAST[name](row) else set()
            time.sleep(0.05)
    actors["steady"].note_stamps()
    for name, actor in actors.items():
        for row in seen[name]:
            check(name, actor.diary, row)


SEEN_AT_LAST: dict[str, Callable[[Row], bool]] = {
    "bursty": lambda row: row.backlog.is_exact and row.backlog.low_ms > 0,
    "replayed": lambda row: row.backlog.is_exact and row.backlog.low_ms > 3_600_000,
    "steady": lambda row: row.backlog.source is EstimateSource.CAUGHT_UP,
}


def check(name: str, diary: Diary, row: Row) -> None:
    lag = row.backlog
    truths = diary.truths(lag.as_of_ms, compacted=name == "compacted")
    holds = [t for t in truths if lag.low_ms - SLACK_MS <= t and (lag.high_ms is None or t <= lag.high_ms + SLACK_MS)]
    assert holds, f"{name}: {lag}, truths {sorted(truths)[:5]}, committed {row.committed}, end {row.end}"
