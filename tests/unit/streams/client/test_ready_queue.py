"""What a worker gets of one partition, and what it costs; the order itself is in tests/property/test_stream_work.py."""

from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.decide.failures import Ending, Failure, Mode
from kafkakit.streams.client.decide.reading import Chunk, ReadyQueue
from kafkakit.streams.client.workers import RecordOrigin, StreamRecords
from tests.fakes.group_consumer import FakeRecord

FAILURE = Failure(ending=Ending.RETRY)


class Keys:
    """Records are numbers, their key is the last digit; counts how many keys were read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, record: int) -> bytes:
        self.read += 1
        return b"%d" % (record % 10)


def queue(mode: Mode, keys: Keys, records: int) -> ReadyQueue[int]:
    made: ReadyQueue[int] = ReadyQueue(mode, keys, lambda record: 2)
    for start in range(0, records, 20):
        numbers = list(range(start, start + 20))
        made.add(numbers, numbers, 2 * len(numbers))
    return made


def handled(made: ReadyQueue[int], chunk: Chunk[int], count: int | None = None) -> None:
    chunk.handled = len(chunk.records) if count is None else count
    made.give_back(chunk, [])


def test_one_worker_alone_costs_no_key() -> None:
    for mode in Mode:
        keys = Keys()
        made, seen = queue(mode, keys, 60), list[int]()
        while (chunk := made.take(15)) is not None:
            seen += chunk.records
            assert chunk.size == 2 * len(chunk.records)
            handled(made, chunk)
        assert (seen, keys.read, made.has_work) == (list(range(60)), 0, False)


def test_a_second_worker_gets_no_key_of_the_first() -> None:
    keys = Keys()
    made = queue(Mode.KEY, keys, 20)
    first = made.take(5)
    assert first is not None
    second = made.take(20)
    assert second is not None
    assert [record % 10 for record in second.records] == [5, 6, 7, 8, 9, 5, 6, 7, 8, 9]
    assert made.take(20) is None
    handled(made, first, 2)  # 0 and 1 are done, 2 to 4 wait again before 12 to 14
    waiting = []
    while (chunk := made.take(20)) is not None:
        waiting.append(chunk.records)
    assert sorted(waiting) == [[2, 12], [3, 13], [4, 14], [10], [11]]


def test_a_partition_in_order_is_at_one_worker() -> None:
    made = queue(Mode.PARTITION, Keys(), 40)
    chunk = made.take(10)
    assert chunk is not None
    assert (made.take(10), made.has_work) == (None, False)
    chunk.failed(4, FAILURE)
    assert chunk.skipped == {5, 6, 7, 8, 9}
    chunk.handled = 10
    made.give_back(chunk, [4])  # 4 is to be tried again
    assert (made.take(10), made.has_work) == (None, False)
    made.release(4)
    following = made.take(10)
    assert following is not None
    assert following.records == [5, 6, 7, 8, 9]


def test_records_of_a_batch_are_a_sequence() -> None:
    reads = [FakeRecord(at=offset) for offset in range(5)]
    origin = RecordOrigin(stream="s", source=None, partition=TopicPartition("t", 0))  # type: ignore[arg-type]
    records = StreamRecords(reads, origin, 2)
    assert [record.offset for record in records] == [record.offset for record in reversed(records)][::-1]
    assert (len(records), records[-1].offset, records[1].tries) == (5, 4, 2)
    assert [record.offset for record in records[1:3]] == [1, 2]
    records = StreamRecords(reads, origin, [0, 1, 0, 3, 0])
    assert [record.tries for record in records] == [0, 1, 0, 3, 0]
    assert (records[1].tries, records[2:][1].tries) == (1, 3)
