"""Every interval of every sample holds the truth, over all kinds of topics, groups and clocks."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.streams.lag.decide.measure import table as table_module
from kafkakit.streams.lag.decide.measure.book import LagBook, MeasuredRecord
from kafkakit.streams.lag.decide.measure.ends import EndSamples, TopicLogSettings
from kafkakit.streams.lag.decide.measure.table import LagTable, MeasureRules, keep_bounded, measure, positions
from kafkakit.streams.lag.decide.measure.time_lag import LagEvidence, TimeLag
from kafkakit.streams.model.commit import NO_TOPIC_ID
from kafkakit.streams.model.offsets_log.commits import CommitColumns, CommitRow, KeyTable
from kafkakit.streams.model.offsets_log.feed import OffsetsFeed
from tests.clusters import streams_batches
from tests.clusters.streams_batches import batch, marker, tombstone
from tests.invariants.lag_truth import CLUSTER, GROUP, PARTITION, TOPIC, Setup, World

RUNS = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
            TopicLogSettings(
                is_log_append=setup.is_log_append, is_compacted=setup.is_compacted, is_dense=setup.is_dense
            ),
        )
        self.applied = 0
        self.as_of = -1
        self.life = world.life
        self.slot = self.ends.slot(TOPIC, PARTITION)
        # A topic that was recreated before its first id was ever seen cannot be told from one that was not.
        self.ends.see_topic(TOPIC, world.life.topic_id, world.monitor_ms())

    def poll(self, meanwhile: int = 0) -> None:
        """An answer tells all until the moment of its request, and some of what came before it was read."""
        self.world.tick()
        requested = self.world.monitor_ms()
        if meanwhile % 4 == 1:
            self.world.produce(1, 0)
            self.world.tick(meanwhile)
            self.world.group.fetch(meanwhile)
            self.world.group.finish(meanwhile)
            self.world.group.commit()
            self.world.tick(meanwhile)
        new, setup = self.world.commits[self.applied :], self.world.setup
        self.applied = len(self.world.commits)
        for commit in new[-1:]:
            row = CommitRow(
                key=self.key,
                at=self.applied,
                offset=commit.offset,
                committed_ms=commit.made + setup.coordinator_ms,
                topic_id=commit.life.topic_id if setup.tells_ids else NO_TOPIC_ID,
                metadata=commit.metadata.encode(),
            )
            self.book.apply(CommitColumns.of([row]), self.world.monitor_ms())
        self.as_of = requested

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
                record = MeasuredRecord(
                    position=at, offset=entry.offset, time_ms=(low + high) // 2, low_ms=low if width < 40 else -1,
                    high_ms=high, is_data=sure, read_ms=sent,
                )  # fmt: skip
                self.book.records.note(self.key, self.slot, record)
                break
        self.world.tick()
        keep_bounded(
            self.book,
            self.book.rows(),
            now_ms=self.world.monitor_ms(),
            commits_as_of_ms=np.full(self.key + 1, self.as_of, dtype=np.int64),
            rules=self.rules,
        )

    @property
    def rules(self) -> MeasureRules:
        return MeasureRules(skew_ms=self.world.setup.skew_ms, record_ttl_ms=DAY_MS, stale_after_ms=DAY_MS)

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
            since = int(book.seen_ms[self.key]) - setup.monitor_ms
        if self.life is not world.life or world.life.start(sampled) != world.life.start(max(since, sampled)):
            # A log that was cut or recreated after the sample, and a commit seen after that: told by the next sample.
            self.sample()
            self.poll()
        now, rules = self.world.monitor_ms(), self.rules
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
            monitor.poll(n)
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
            monitor.poll(n)
        case _:
            world.tick()


def faults(world: World, monitor: Monitor) -> list[str]:
    table = monitor.measure()
    found = []
    for row in range(len(table)):
        truths: dict[str, tuple[TimeLag, Callable[[int], set[int]]]] = {
            "backlog": (table.backlog.at(row), partial(world.truths, is_live=False)),
            "arrival": (table.arrival.at(row), world.arrivals),
            "live": (table.live.at(row), partial(world.truths, is_live=True)),
        }
        for kind, (lag, true) in truths.items():
            assert lag.high_ms is None or lag.low_ms <= lag.high_ms
            assert lag.estimate_ms is None or lag.low_ms <= lag.estimate_ms <= (lag.high_ms or 1 << 62)
            assert lag.as_of_ms <= world.monitor_ms()
            # A commit that was seen after the as-of came with an answer on its way then: either moment may be meant.
            later = true(max(lag.as_of_ms, int(monitor.book.seen_ms[monitor.key])))
            if all(lag.low_ms <= truth <= (lag.high_ms or lag.low_ms) for truth in later) and later:
                continue
            for truth in sorted(true(lag.as_of_ms)):
                if truth < lag.low_ms or (lag.high_ms is not None and truth > lag.high_ms):
                    found += [f"{kind} lag is {truth}, not in {lag}"]
    return found


@RUNS
@given(setups(), scripts)
def test_every_interval_holds_the_truth(setup: Setup, script: list[tuple[str, int]]) -> None:
    world = World(setup)
    monitor = Monitor(world)
    for step, n in script:
        play(world, monitor, step, n)
        assert faults(world, monitor) == []


def any_setup(chance: Random) -> Setup:
    skew = chance.choice([0, 50, 3_000])
    return Setup(
        is_log_append=chance.random() < 0.5,
        is_compacted=chance.random() < 0.3,
        is_transactional=chance.random() < 0.3,
        tells_ids=chance.random() < 0.5,
        style=chance.choice(["plain", "message", "streams", "kkm1"]),
        skew_ms=skew,
        monitor_ms=chance.randint(0, skew),
        broker_ms=chance.randint(0, skew),
        coordinator_ms=chance.randint(0, skew),
        producer_ms=chance.randint(0, skew),
    )


def first_fault(setup: Setup, chance: Random, steps: int, often: list[str] | None = None) -> str:
    world = World(setup)
    monitor = Monitor(world)
    for _ in range(steps):
        play(world, monitor, chance.choice(STEPS + 3 * USUAL + (often or [])), chance.randint(0, 63))
        found = faults(world, monitor)
        if found:
            return found[0]
    return ""


@pytest.mark.parametrize("seed", range(25))
def test_long_lives_hold_the_truth_too(seed: int) -> None:
    chance = Random(seed)
    assert first_fault(any_setup(chance), chance, 60) == ""


@dataclass(frozen=True)
class TooSure:
    """A source that claims more than it can, and the worlds and steps where that shows soonest."""

    change: Callable[[LagEvidence], LagEvidence]
    where: dict[str, Any] = field(default_factory=dict)
    often: str = ""


TOO_SURE = {
    "a watermark of a writer that holds nothing": TooSure(
        lambda e: replace(e, newest_done_ms=e.newest_done_ms - 1), {"style": "kkm1"}
    ),
    "every topic has a record at every offset": TooSure(
        lambda e: replace(e, is_dense=e.is_dense | True),
        {"is_transactional": True, "style": "message", "skew_ms": 0},
        "transact end end fetch finish commit",
    ),
    "times always rise": TooSure(
        lambda e: replace(e, is_log_append=e.is_log_append | True), {"is_log_append": False}, "replay"
    ),
    "every record read is data": TooSure(
        lambda e: replace(e, record_is_data=e.record_is_data | True), {"is_transactional": True}, "transact end read"
    ),
    "what was read of a compacted topic stays": TooSure(
        lambda e: replace(e, is_compacted=e.is_compacted & False), {"is_compacted": True}, "compact read"
    ),
    "commits were there before the ends were asked": TooSure(lambda e: replace(e, seen_ms=e.seen_ms * 0)),
    "data stands below the effective end": TooSure(
        lambda e: replace(e, effective_end_is_data=e.effective_end >= 0),
        {"is_transactional": True, "skew_ms": 0, "style": "streams"},
        "transact end end sample read_end read_end fetch finish commit",
    ),
    "commits of an earlier topic are of this one": TooSure(
        lambda e: replace(e, is_other_topic=e.is_other_topic & False), {}, "recreate recreate recreate recreate round"
    ),
    "the log starts where the group stands": TooSure(lambda e: replace(e, position=e.committed), {}, "expire"),
    "a commit's time is old": TooSure(lambda e: replace(e, committed_ms=e.committed_ms - 60_000)),
}


@pytest.mark.parametrize("name", TOO_SURE)
def test_a_source_made_too_sure_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, case = table_module.gather, TOO_SURE[name]
    monkeypatch.setattr(table_module, "gather", lambda *given: case.change(honest(*given)))
    for seed in range(200):
        chance = Random(seed)
        if first_fault(replace(any_setup(chance), **case.where), chance, 40, 4 * case.often.split()):
            return
    raise AssertionError("nobody noticed")


def test_clocks_that_differ_by_more_than_allowed_are_caught() -> None:
    setup = Setup(is_log_append=True, style="plain", broker_ms=3_000)
    assert any(first_fault(setup, Random(seed), 40) for seed in range(100))


STEP_MS = 10_000
Written = tuple[int, int | None, int, bool]
"""Which of three keys, its offset (None: a tombstone), how long after the one before, and whether in a transaction."""
written = st.tuples(
    st.integers(0, 2),
    st.one_of(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.none()),
    st.one_of(st.integers(0, 3_000), st.integers(-5_000, 40_000)),
    st.booleans(),
)


def defined_window(history: list[tuple[int | None, int]]) -> list[tuple[int, int]]:
    """Time and offset of the samples of all commits of a key, one after the other: the definition."""
    samples: list[tuple[int, int]] = []
    for offset, at_ms in history:
        if offset is None:
            samples = []
        elif samples and at_ms // STEP_MS <= samples[-1][0] // STEP_MS:
            samples[-1] = (samples[-1][0], offset)
        else:
            samples.append((at_ms, offset))
    return samples[-10:]


@RUNS
@given(
    history=st.lists(written, min_size=1, max_size=120),
    cuts=st.sets(st.integers(1, 119)),
    restarts=st.sets(st.integers(1, 119)),
)
def test_a_window_is_that_of_all_commits_however_they_were_read(
    history: list[Written], cuts: set[int], restarts: set[int]
) -> None:
    at_ms, log, expected = 1_758_335_260_726, b"", {n: list[tuple[int | None, int]]() for n in range(3)}
    chunks: list[bytes] = []
    next_offset = 0
    for number, (key, offset, later_ms, is_transactional) in enumerate(history):
        at_ms += later_ms
        expected[key].append((offset, at_ms))
        made = (
            tombstone("g", "t", key)
            if offset is None
            else streams_batches.commit("g", "t", key, offset, committed_ms=at_ms)
        )
        if is_transactional and offset is not None:
            producer = (number + 1, 0)
            log += batch(next_offset, [made], base_ms=at_ms, transactional=True, producer=producer)
            log += marker(next_offset + 1, producer, commits=True, base_ms=at_ms)
            next_offset += 2
        else:
            log += batch(next_offset, [made], base_ms=at_ms)
            next_offset += 1
        if number + 1 in cuts:
            chunks.append(log)
            log = b""
    book, keys = LagBook(KeyTable(), EndSamples(), CLUSTER), KeyTable()
    book.keys = keys
    feed = OffsetsFeed(0, keys, sample_ms=STEP_MS)
    for number, chunk in enumerate([*chunks, log]):
        if number in restarts:
            feed = OffsetsFeed(0, keys, sample_ms=STEP_MS, next_offset=feed.next_offset, known_to=feed.next_offset)
        columns, _ = feed.feed(chunk)
        keys.release(book.apply(columns, at_ms))
    found = {}
    for row in book.rows().tolist():
        offsets, times, _, count = book.window.ordered(np.array([row]))
        have = slice(10 - int(count[0]), 10)
        found[keys.key_of(row).partition] = list(zip(times[0, have].tolist(), offsets[0, have].tolist(), strict=True))
    assert found == {key: window for key, of in expected.items() if (window := defined_window(of))}
