"""Record times of many partitions, from a log that gives later partitions of an answer whole batches or nothing."""

from collections.abc import Mapping

from kafkakit.core.cluster_facts import FetchedBatches, ItemError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.act.reading import MOST, GroupObserver, RecordTimes
from tests.clusters.streams_batches import Rec, batch
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader

T0 = 1_758_335_260_726


class Stingy(FakeLogReader):
    """Gives nothing where the first batch of a partition is larger than its room, as brokers do past the first."""

    def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> Mapping[TopicPartition, FetchedBatches]:
        found = dict(super().fetch(offsets, max_bytes=max_bytes, wait_ms=wait_ms, partition_bytes=partition_bytes))
        room = partition_bytes or max_bytes
        for key in sorted(offsets)[1:]:
            batches = [b for b in self.log(key).batches if b.last >= offsets[key]]
            if batches and len(batches[0].data) > room:
                found[key] = FetchedBatches(records=b"", span=found[key].span)
        return found


def log_of(sizes: list[int]) -> tuple[Stingy, list[TopicPartition]]:
    log = Stingy()
    log.add_topic("t", len(sizes))
    keys = [TopicPartition("t", number) for number in range(len(sizes))]
    for key, size in zip(keys, sizes, strict=True):
        log.append(key, batch(0, [Rec(None, b"x" * size), Rec(None, b"y", delta_ms=5)], base_ms=T0 + key.partition))
    return log, keys


def test_small_batches_are_dated_many_at_once() -> None:
    log, keys = log_of([10] * 450)
    times = RecordTimes(log).at([(key, 1) for key in keys])
    assert {place: span.low_ms for place, span in times.items()} == {(k, 1): T0 + k.partition + 5 for k in keys}
    assert len(log.fetches) == 3


def test_large_batches_are_asked_for_again_with_more_room() -> None:
    log, keys = log_of([10, 100_000, 10, 2_000_000, 3_000_000])
    times = RecordTimes(log).at([(key, 0) for key in keys])
    assert {place: span.low_ms for place, span in times.items()} == {(k, 0): T0 + k.partition for k in keys}


def test_groups_may_wait_at_different_offsets_of_one_partition() -> None:
    log, (key,) = log_of([10])
    times = RecordTimes(log).at([(key, 0), (key, 1), (key, 0)])
    assert {offset: span.low_ms - T0 for (_, offset), span in times.items()} == {0: 0, 1: 5}


def test_what_cannot_be_read_is_absent_and_asked_for_once() -> None:
    log, keys = log_of([10, 10])
    gone = TopicPartition("gone", 0)
    times = RecordTimes(log).at([(keys[0], 0), (gone, 0), (keys[1], 2)])
    assert list(times) == [(keys[0], 0)]
    assert sum(gone in fetch for fetch in log.fetches) == 1


class Late(FakeLogReader):
    """Answers for one partition from the sixth fetch on."""

    def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> Mapping[TopicPartition, FetchedBatches]:
        self.slow = {2} if len(self.fetches) < 5 else set()
        self._keep_waiting = set()
        return super().fetch(offsets, max_bytes=max_bytes, wait_ms=wait_ms, partition_bytes=partition_bytes)


def test_a_leader_that_answers_late_is_waited_for() -> None:
    log, soon, late = Late(), TopicPartition("t", 0), TopicPartition("t", 1)
    log.add_topic("t", 2)
    for key in (soon, late):
        log.append(key, batch(0, [Rec(None, b"x")], base_ms=T0 + key.partition))
    log.log(late).leader = 2
    assert RecordTimes(log).at([(soon, 0), (late, 0)])[late, 0].low_ms == T0 + 1
    assert log.fetches == [{soon: 0, late: 0}, *[{late: 0}] * 5]
    again = GroupObserver(FakeGroups(), log, cluster_id="c", limit_chars=4096)
    log.fetches.clear()
    assert again.record_times({soon: [0], late: [0]}) == {soon: {0: T0}, late: {0: T0 + 1}}


def test_one_call_has_its_limit() -> None:
    log, keys = log_of([1] * (MOST + 1))
    assert len(RecordTimes(log).at([(key, 0) for key in keys])) == MOST


def test_an_error_is_a_value() -> None:
    log, (key,) = log_of([10])
    log.log(key).leader = None
    assert RecordTimes(log).at([(key, 0)]) == {}
    assert isinstance(log.spans([key])[key], ItemError)
