"""Every interval of every sample holds the truth, over all kinds of topics, groups and clocks."""

import struct
from collections import Counter

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.streams.identity import NO_TOPIC_ID
from kafkakit.streams.lag.book import LagBook
from kafkakit.streams.lag.ends import EndSamples
from kafkakit.streams.lag.figures import TimeLag
from kafkakit.streams.lag.records import ReadRecord
from kafkakit.streams.lag.table import LagTable, MeasureRules, measure, positions
from kafkakit.streams.lag.topics import TopicFacts
from kafkakit.streams.offsets_log.facts import CommitColumns, CommitRow
from kafkakit.streams.offsets_log.key_table import KeyTable
from tests.lag_truth import CLUSTER, GROUP, PARTITION, TOPIC, Setup, World

RUNS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DAY_MS = 86_400_000


def key_bytes(group: str, topic: str, partition: int) -> bytes:
    words = b"".join(struct.pack(">h", len(w.encode())) + w.encode() for w in (group, topic))
    return b"\0\1" + words + struct.pack(">i", partition)


class Monitor:
    """Sees the world as a real one would: through commits that arrive late, samples that take time, and raw reads."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ends = EndSamples()
        self.keys = KeyTable()
        self.book = LagBook(self.keys, self.ends, CLUSTER, window_step_ms=1)
        number = self.keys.intern(key_bytes(GROUP, TOPIC, PARTITION))
        assert isinstance(number, int)
        self.key = number
        setup = world.setup
        self.ends.topics.set_facts(
            TOPIC,
            TopicFacts(is_log_append=setup.is_log_append, is_compacted=setup.is_compacted, is_dense=setup.is_dense),
        )
        self.applied = 0
        self.as_of = -1
        self.life = world.life
        self.slot = self.ends.slot(TOPIC, PARTITION)

    def poll(self) -> None:
        self.world.tick()
        new, setup = self.world.commits[self.applied :], self.world.setup
        self.applied = len(self.world.commits)
        for commit in new[-1:]:
            row = CommitRow(
                self.key, commit.offset, commit.made + setup.coordinator_ms, -1, self.applied,
                commit.life.topic_id if setup.tells_ids else NO_TOPIC_ID, commit.metadata.encode(),
            )  # fmt: skip
            self.book.apply(CommitColumns.of([row]), self.world.monitor_ms())
        self.as_of = self.world.monitor_ms()

    def sample(self, meanwhile: int = 0) -> None:
        world = self.world
        self.life = world.life
        self.ends.see_topic(TOPIC, world.life.topic_id, world.monitor_ms())
        before = world.monitor_ms()
        world.produce(meanwhile % 3, 0)
        world.tick()
        now = world.now
        span = (world.life.end(now), world.life.stable(now), world.life.start(now))
        world.produce(meanwhile // 3, 0)
        world.tick()
        one = [np.array([v], dtype=np.int64) for v in (self.slot, before, world.monitor_ms(), *span)]
        self.ends.record(one[0], before_ms=one[1], after_ms=one[2], end=one[3], stable=one[4], start=one[5])

    def read_record(self, width: int) -> None:
        rows = self.book.rows()
        if not len(rows) or self.life is not self.world.life or int(self.ends.end[self.slot]) < 0:
            return
        self.book.read(rows)
        at, now, sent = int(positions(self.book, rows)[0]), self.world.now, self.world.monitor_ms()
        for entry in self.world.life.entries[at:]:
            if entry.is_there(now) and not entry.is_marker:
                low, high = entry.time_ms - width, entry.time_ms + 2 * width
                sure = entry.transaction is None
                record = ReadRecord(
                    position=at, offset=entry.offset, time_ms=(low + high) // 2, low_ms=low if width < 40 else -1,
                    high_ms=high, is_data=sure, read_ms=sent,
                )  # fmt: skip
                self.book.records.note(self.key, self.slot, record)
                break
        self.world.tick()

    def read_end(self) -> None:
        """Look from the end backwards, as one who does not know which transactions were aborted."""
        end, now = int(self.ends.end[self.slot]), self.world.now
        if end < 0 or self.life is not self.world.life:
            return
        there = [e for e in self.world.life.entries[:end] if e.is_there(now) and not e.is_marker]
        last = there[-1] if there else None
        is_data = last is not None and last.transaction is None
        found = last.offset + 1 if last else self.world.life.start(now)
        self.ends.note_effective_end(self.slot, min(found, end), end, is_data=is_data)

    def measure(self) -> LagTable:
        world = self.world
        book, setup = self.book, world.setup
        sampled = int(self.ends.before_ms[self.slot]) - setup.monitor_ms
        since = sampled
        if len(book):
            since = (
                min(int(book.seen_ms[self.key]), int(book.committed_ms[self.key]) + setup.skew_ms) - setup.monitor_ms
            )
        if self.life is not world.life or world.life.start(sampled) != world.life.start(max(since, sampled)):
            # A log that was cut or made anew after the sample, and a commit after that: seen by the next sample.
            self.sample()
            self.poll()
        rules = MeasureRules(skew_ms=self.world.setup.skew_ms, record_ttl_ms=DAY_MS, stale_after_ms=DAY_MS)
        now = self.world.monitor_ms()
        return measure(self.book, cluster=CLUSTER, now_ms=now, commits_as_of_ms=self.as_of, rules=rules)


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    skew = draw(st.sampled_from([0, 0, 50, 3_000]))
    clock = st.integers(0, skew)
    return Setup(
        is_log_append=draw(st.booleans()),
        is_compacted=draw(st.booleans()),
        is_transactional=draw(st.booleans()),
        tells_ids=draw(st.booleans()),
        style=draw(st.sampled_from(["plain", "message", "streams", "kkm1", "kkm1"])),
        skew_ms=skew,
        monitor_ms=draw(clock),
        broker_ms=draw(clock),
        coordinator_ms=draw(clock),
        producer_ms=draw(clock),
    )


STEPS = [
    "produce", "burst", "replay", "transact", "end", "compact", "expire", "recreate", "fetch", "finish", "commit",
    "restart", "rewind", "poll", "sample", "read", "read_end", "wait", "round",
]  # fmt: skip
USUAL = ["produce", "fetch", "finish", "commit", "round", "sample", "poll", "read"]
scripts = st.lists(st.tuples(st.sampled_from(STEPS + 3 * USUAL), st.integers(0, 63)), min_size=4, max_size=45)


def play(world: World, monitor: Monitor, step: str, n: int) -> None:  # noqa: C901
    match step:
        case "produce":
            world.produce(n % 3 + 1, n % 7)
        case "burst":
            world.produce(20 + n, 0)
        case "replay":
            world.produce(n % 4 + 1, DAY_MS * (n + 1))
        case "transact":
            world.produce(n % 3 + 1, n % 5, in_transaction=True)
        case "end":
            world.end_transaction(n % 2 == 0)
        case "compact":
            world.compact(n)
        case "expire":
            world.expire(n % 9)
        case "recreate" if n % 4 == 0:
            world.recreate()
        case "fetch":
            world.group.fetch(n % 12 + 1)
        case "finish":
            world.group.finish(n)
        case "commit":
            world.group.commit()
        case "restart":
            world.group.restart()
        case "rewind":
            world.group.rewind(n)
        case "poll":
            monitor.poll()
        case "sample":
            monitor.sample(n % 7)
        case "read":
            monitor.read_record(n if n > 32 else 0)
        case "read_end":
            monitor.read_end()
        case "wait":
            world.tick(n * n * 500)
        case "round":
            world.tick(n)
            monitor.sample(n % 5)
            monitor.poll()
        case _:
            world.tick()


def faults(world: World, monitor: Monitor) -> list[str]:
    table = monitor.measure()
    found = []
    for row in range(len(table)):
        for is_live, lag in ((False, table.backlog.at(row)), (True, table.live.at(row))):
            assert lag.high_ms is None or lag.low_ms <= lag.high_ms
            assert lag.estimate_ms is None or lag.low_ms <= lag.estimate_ms <= (lag.high_ms or 1 << 62)
            assert lag.as_of_ms <= world.monitor_ms()
            for truth in sorted(world.truths(lag.as_of_ms, is_live=is_live)):
                SEEN[lag.source.word, is_live, kind_of(lag)] += 1
                if not lag.low_ms <= truth <= (1 << 62 if lag.high_ms is None else lag.high_ms):
                    found.append(f"{'live' if is_live else 'backlog'} lag is {truth}, not in {lag}")
    return found


SEEN: Counter[tuple[str, bool, str]] = Counter()


def kind_of(lag: TimeLag) -> str:
    return "exact" if lag.is_exact else "open" if lag.high_ms is None else "bounded"


@RUNS
@given(setups(), scripts)
def test_every_interval_holds_the_truth(setup: Setup, script: list[tuple[str, int]]) -> None:
    world = World(setup)
    monitor = Monitor(world)
    for step, n in script:
        play(world, monitor, step, n)
        assert faults(world, monitor) == []
