"""Reading logs up to their ends: gaps, retention, new topics, headers that cannot be read, and many partitions."""

from collections.abc import Callable
from typing import Any

import pytest

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.log_batches import Codec
from kafkakit.streams.records import act as walking
from kafkakit.streams.records.act import BombScanner, LogWalk
from kafkakit.streams.records.decide import BombScan, FoundBatch, ScanStart, continue_offsets
from tests.clusters.streams_batches import Rec, batch
from tests.fakes.admin import FakeClock
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.bombs import MIB, batch_of, zstd_zeros
from tests.rigs.editing import Progress
from tests.rigs.segment_writer import legacy

TOPIC = "t"
KEY = TopicPartition(TOPIC, 0)
BOMB = batch_of(zstd_zeros(4 * MIB), Codec.ZSTD, count=5)


def ordinary(count: int = 3) -> bytes:
    return batch(0, [Rec(None, b"v")] * count)


class Harness:
    def __init__(self, partitions: int = 1) -> None:
        self.log, self.clock = FakeLogReader(), FakeClock()
        self.log.add_topic(TOPIC, partitions)

    def scan(self, **start: Any) -> BombScan:
        scanner = BombScanner(self.log, self.clock, limit_bytes=MIB, wait_s=5)
        return scanner.scan(list(scanner.partitions([TOPIC])), ScanStart(**start), Progress())

    def before_fetch(self, number: int, act: Callable[[], object]) -> None:
        """Let something happen before the fetch of this number, counted from 0."""
        fetch = self.log.fetch
        count = 0

        def counted(*args: Any, **options: Any) -> Any:
            nonlocal count
            if count == number:
                act()
            count += 1
            return fetch(*args, **options)

        self.log.fetch = counted  # type: ignore[method-assign]


@pytest.fixture
def scene() -> Harness:
    return Harness()


def places(scan: BombScan) -> list[tuple[int, int]]:
    return [(one.key.partition, one.verdict.start) for one in scan.found]


def test_all_that_is_over_the_limit_is_found_and_nothing_else(scene: Harness) -> None:
    scene.log.append(KEY, ordinary(), BOMB, ordinary(), BOMB)
    found = scene.scan()
    assert places(found) == [(0, 3), (0, 11)]
    assert (found.batches, found.unread, found.more) == (4, {}, 0)
    assert places(scene.scan(offset=8)) == [(0, 11)]
    assert places(scene.scan(offset=7)) == [(0, 3), (0, 11)]
    assert places(scene.scan(offset=99)) == []


def test_gaps_of_compaction_in_front_between_and_at_the_end(scene: Harness) -> None:
    scene.log.place(KEY, batch(4, [Rec(None, b"v")]), BOMB[:0] + (50).to_bytes(8, "big") + BOMB[8:])
    scene.log.log(KEY).end = 90
    found = scene.scan()
    assert (places(found), found.unread) == ([(0, 50)], {})
    assert scene.clock.elapsed < 5


def test_retention_that_is_faster_than_the_scan(scene: Harness) -> None:
    scene.log.append(KEY, *[ordinary()] * 4, BOMB)
    scene.before_fetch(0, lambda: scene.log.trim(KEY, 9))
    found = scene.scan()
    assert (places(found), found.batches, found.unread) == ([(0, 12)], 2, {})


def test_a_topic_that_is_created_again_meanwhile_is_said_to_be_unread(
    scene: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "WALK_FETCH_BYTES", 1)
    monkeypatch.setattr(walking, "PARTITION_BYTES", 1)
    scene.log.append(KEY, BOMB, *[ordinary()] * 4)
    scene.before_fetch(2, lambda: scene.log.add_topic(TOPIC))
    found = scene.scan()
    assert places(found) == [(0, 0)]
    assert list(found.unread) == [KEY]
    assert "created again" in found.unread[KEY]


def test_batches_larger_than_an_answer_come_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Harness(3)
    monkeypatch.setattr(walking, "WALK_FETCH_BYTES", 200)
    monkeypatch.setattr(walking, "PARTITION_BYTES", 100)
    for number in range(3):
        scene.log.append(TopicPartition(TOPIC, number), ordinary(), BOMB)
    assert places(scene.scan()) == [(0, 3), (1, 3), (2, 3)]


def test_a_long_reading_goes_on_as_long_as_it_comes_further(scene: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "WALK_FETCH_BYTES", 1)
    scene.log.append(KEY, *[ordinary()] * 10, BOMB)
    scene.log.slow.add(1)  # the leader answers every other fetch
    fetch = scene.log.fetch

    def slow(*args: Any, **options: Any) -> Any:
        scene.clock.advance(3)
        return fetch(*args, **options)

    scene.log.fetch = slow  # type: ignore[method-assign]
    found = scene.scan()
    assert (places(found), found.unread) == ([(0, 30)], {})
    assert scene.clock.elapsed > 33


def test_reading_ends_where_it_is_told_to(scene: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "WALK_FETCH_BYTES", 1)
    scene.log.append(KEY, ordinary(), BOMB, BOMB, BOMB)
    assert places(scene.scan(offset=3, end=9)) == [(0, 3), (0, 8)]
    assert places(scene.scan(offset=3, end=99)) == [(0, 3), (0, 8), (0, 13)]


def test_more_partitions_than_are_read_at_once() -> None:
    scene = Harness(walking.AT_ONCE * 2 + 3)
    for number in range(walking.AT_ONCE * 2 + 3):
        scene.log.append(TopicPartition(TOPIC, number), ordinary(), *([BOMB] if number % 10 == 0 else []))
    found = scene.scan()
    assert places(found) == [(number, 3) for number in range(0, walking.AT_ONCE * 2 + 3, 10)]
    assert max(len(fetch) for fetch in scene.log.fetches) == walking.AT_ONCE


def test_a_header_that_cannot_be_read_ends_the_reading_of_its_partition_alone() -> None:
    scene = Harness(2)
    fetch = scene.log.fetch
    old = legacy(3) + legacy(4)

    def altered(*args: Any, **options: Any) -> Any:
        answers = dict(fetch(*args, **options))
        if KEY in answers and answers[KEY].records:
            answers[KEY] = type(answers[KEY])(records=old, span=answers[KEY].span)
        return answers

    scene.log.append(KEY, ordinary(5))
    scene.log.append(TopicPartition(TOPIC, 1), BOMB)
    scene.log.fetch = altered  # type: ignore[method-assign]
    found = scene.scan()
    assert places(found) == [(1, 0)]
    assert "message format 1" in found.unread[KEY]


def test_a_cluster_that_goes_away_leaves_what_was_found(scene: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "WALK_FETCH_BYTES", 1)
    monkeypatch.setattr(walking, "PARTITION_BYTES", 1)
    scene.log.append(KEY, BOMB, ordinary(), ordinary())
    fetch = scene.log.fetch

    def gone(*args: Any, **options: Any) -> Any:
        if scene.log.fetches:
            raise TryLaterError("no broker answers")
        return fetch(*args, **options)

    scene.log.fetch = gone  # type: ignore[method-assign]
    found = scene.scan()
    assert places(found) == [(0, 0)]
    assert found.unread == {KEY: "no broker answers"}


def test_found_batches_come_with_the_bytes_that_were_fetched(scene: Harness) -> None:
    scene.log.append(KEY, ordinary(), BOMB, ordinary())
    got: list[tuple[FoundBatch, bytes]] = []
    walk = LogWalk(scene.log, scene.clock, limit_bytes=MIB, wait_s=5, on_found=lambda one, raw: got.append((one, raw)))
    walked = walk.run({KEY: 0}, {KEY: 11}, None)
    ((found, raw),) = got
    assert raw == (3).to_bytes(8, "big") + BOMB[8:]
    assert found.place == "t/0@3"
    assert walked.offsets == {KEY: 11}


def test_a_watch_continues_at_its_cursor_or_where_the_log_begins() -> None:
    keys = [TopicPartition(TOPIC, number) for number in range(4)]
    spans = {key: LogSpan(start=10, stable=20, end=20) for key in keys}
    cursors = {keys[0]: 15, keys[1]: 5, keys[2]: 25}
    assert list(continue_offsets(spans, cursors).values()) == [15, 10, 10, 10]
