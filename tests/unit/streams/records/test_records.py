"""Records at an offset, from raw batches: what is shown, and why an offset has no record."""

from typing import Any

import pytest

from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.streams.model.log_batches import Batch, LogRecord, RecordFault, batches_of, headers_of, records_of
from kafkakit.streams.records.act import RecordReader
from kafkakit.streams.records.decide import ReadResult, TransactionOutcome, parse_place, records_report
from tests.clusters.streams_batches import Rec, batch, marker
from tests.fakes.admin import FakeClock
from tests.fakes.log import FakeLog
from tests.fakes.log_reader import FakeLogReader

KEY = TopicPartition("payments", 0)
MS = 1_758_335_260_726
PRODUCER = (7, 2)


class Harness:
    """A partition, and what read_committed consumers get of it."""

    def __init__(self) -> None:
        self.log, self.data, self.clock = FakeLogReader(), FakeLog(), FakeClock()
        self.log.add_topic(KEY.topic)

    def commit(self, *offsets: int, value: bytes = b"v", **more: Any) -> None:
        self.data.records += [Record(partition=KEY, offset=offset, value=value, **more) for offset in offsets]
        self.data.next_offset = self.log.log(KEY).end

    def read(self, offset: int, count: int = 1) -> ReadResult:
        return RecordReader(self.log, self.data, self.clock, wait_s=5).read(KEY, offset, count)

    def shown(self, offset: int, count: int = 1, most: int = 100) -> str:
        return records_report(self.read(offset, count), "C", most).text.rstrip("\n")


@pytest.fixture
def scene() -> Harness:
    return Harness()


@pytest.mark.parametrize(
    "text", ["payments/3@102", "pay ment's/0@3", "a/b/0@7", "we\x1bird/2147483647@4611686018427387903"]
)
def test_a_place_is_a_topic_a_partition_and_an_offset(text: str) -> None:
    key, offset = parse_place(text)
    assert f"{key.topic}/{key.partition}@{offset}" == text


@pytest.mark.parametrize(
    "text",
    ["", "payments", "payments/3", "payments@3", "payments/3@", "payments/-1@3", "/0@1", "t/0@-1", "t/2147483648@0",
     "t/0@4611686018427387904", "t/0@1 ", "t/0@\u0663"],
)  # fmt: skip
def test_another_form_is_a_usage_error_that_names_the_form(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_place(text)
    assert "is not TOPIC/PARTITION@OFFSET" in caught.value.message


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_a_record_with_everything_it_has(scene: Harness, codec: str) -> None:
    headers = ((b"trace", b"abc"), (b"none", None), (b"\xff", b"\xfe"))
    records = [Rec(b"k0", b"v0"), Rec(b"\x00\xff", "gr\u00fcn\x1b[2J".encode(), 5, headers=headers), Rec(b"k2", None)]
    scene.log.append(KEY, batch(0, records, base_ms=MS, codec=codec))
    assert scene.shown(1) == (
        "payments/0@1 on cluster C: the log holds 0 to 2\n"
        "\n"
        "offset 1\n"
        "  time         2025-09-20T02:27:40.731Z (CreateTime)\n"
        "  key          hex 00ff (2 bytes)\n"
        "  value        gr\u00fcn\\x1b[2J (9 bytes)\n"
        "  header       trace = abc (3 bytes)\n"
        "  header       none = null\n"
        "  header       \\xff = hex fe (1 byte)"
    )
    assert "  value        null" in scene.shown(2)


def test_the_brokers_time_is_told_from_the_producers(scene: Harness) -> None:
    scene.log.append(KEY, batch(0, [Rec(None, b"")], base_ms=MS, max_ms=MS + 9, log_append_time=True))
    assert "  time         2025-09-20T02:27:40.735Z (LogAppendTime)\n  key          null\n  value        empty" in (
        scene.shown(0)
    )


def test_long_values_are_cut_between_characters_and_their_size_is_told(scene: Harness) -> None:
    scene.log.append(KEY, batch(0, [Rec(None, "\u00fc".encode() * 50), Rec(None, b"\xff" * 50)]))
    assert f"value        {chr(0xFC) * 3} (100 bytes, the first 7 shown)" in scene.shown(0, most=7)
    assert "value        hex ffffffffffffff (50 bytes, the first 7 shown)" in scene.shown(1, most=7)
    data = records_report(scene.read(0, 2), "C", 7).data["records"]
    assert [one["value"] for one in data] == [  # type: ignore[attr-defined]
        {"text": "\u00fc" * 3, "bytes": 100, "truncated": True},
        {"base64": "/////////w==", "bytes": 50, "truncated": True},
    ]


def test_an_offset_without_a_record_has_a_reason(scene: Harness) -> None:
    scene.log.append(KEY, batch(0, [Rec(None, b"v")] * 10))
    scene.log.place(KEY, batch(20, [Rec(None, b"w"), Rec(None, b"x", offset_delta=4)], last_offset_delta=6))
    assert scene.read(27).problem == "beyond the end: the next record gets offset 27"
    assert scene.read(22).problem == "compacted away: the next record is at 24"
    assert scene.read(15).entries[0].offset == 20
    assert scene.read(25).problem == "compacted away, and no record follows it up to the end of the log at 27"
    scene.log.trim(KEY, 5)
    found = scene.read(4)
    assert (found.problem, found.entries) == ("deleted: the log starts at 5", ())
    report = records_report(found, "C", 10)
    assert isinstance(report.failure, OperationFailedError)
    assert report.failure.message == "payments/0@4: deleted: the log starts at 5"
    scene.log.trim(KEY, 27)
    assert "the log is empty, the next offset is 27" in scene.shown(27)


def test_batches_that_compaction_emptied_are_passed_over(scene: Harness) -> None:
    for first in (0, 10, 20):
        scene.log.place(KEY, batch(first, [], last_offset_delta=9))
    scene.log.place(KEY, batch(30, [Rec(None, b"x")]))
    assert scene.read(3).problem == "compacted away: the next record is at 30"


def test_transactions_are_told_by_their_end(scene: Harness) -> None:
    one = [Rec(None, b"v")]
    scene.log.append(KEY, batch(0, one, transactional=True, producer=PRODUCER), marker(0, PRODUCER, commits=True))
    scene.log.append(KEY, batch(0, one, transactional=True, producer=PRODUCER), marker(0, PRODUCER, commits=False))
    scene.log.append(KEY, batch(0, one), batch(0, one, transactional=True, producer=PRODUCER), batch(0, one))
    scene.commit(0, 4, 6)
    found = scene.read(0, 99)
    assert [(entry.offset, entry.fate, entry.instead) for entry in found.entries] == [
        (0, TransactionOutcome.COMMITTED, ""),
        (1, None, "commit marker"),
        (2, TransactionOutcome.ABORTED, ""),
        (3, None, "abort marker"),
        (4, None, ""),
        (5, TransactionOutcome.OPEN, ""),
        (6, None, ""),
    ]
    assert "  abort marker of producer 7, epoch 2\n" in scene.shown(3)
    assert "aborted: read_committed consumers pass over it (producer 7, epoch 2)" in scene.shown(2)


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_what_is_not_inflated_here_comes_from_a_consumer(scene: Harness, codec: str) -> None:
    kept = [Rec(None, b"v", offset_delta=1), Rec(None, None, offset_delta=3)]
    scene.log.append(KEY, batch(0, kept, codec=codec), batch(0, [Rec(None, b"w")]))
    scene.commit(1, value=b"plain", at_ms=MS, headers=(("h", None),))
    scene.commit(3, value=b"", is_null=True)
    found = scene.read(1, 3)
    assert [(one.offset, one.value, one.at_ms) for one in found.entries] == [
        (1, b"plain", MS),
        (3, None, -1),
        (4, b"w", MS),
    ]
    assert found.entries[0].headers == (("h", None),)
    assert [one.offset for one in scene.read(2, 1).entries] == [3]
    assert [one.offset for one in scene.read(2, 2).entries] == [3, 4]


def test_what_only_a_consumer_could_inflate_and_does_not_get_is_named(scene: Harness) -> None:
    one = [Rec(None, b"v")]
    scene.log.append(KEY, batch(0, one * 2, codec="lz4", transactional=True, producer=PRODUCER))
    scene.log.append(KEY, marker(0, PRODUCER, commits=False), batch(0, one, transactional=True, producer=PRODUCER))
    scene.log.append(KEY, batch(0, one, codec="lz4"))
    scene.data.next_offset = 0  # it gives nothing up to the end
    aborted = scene.read(0)
    assert (aborted.entries[0].fate, aborted.problem) == (TransactionOutcome.ABORTED, "")
    assert "offsets 0 to 1\n  batch compressed with lz4: shown only once read_committed" in scene.shown(0)
    behind = scene.read(4)
    assert (behind.problem, behind.entries[0].instead[:25]) == ("", "batch compressed with lz4")


def test_a_consumer_that_gives_nothing_leaves_the_end_unknown(scene: Harness) -> None:
    scene.log.append(KEY, batch(0, [Rec(None, b"v")], transactional=True, producer=PRODUCER))
    scene.log.append(KEY, marker(0, PRODUCER, commits=True))
    scene.data.next_offset = 99

    class Impatient(FakeClock):
        def monotonic(self) -> float:
            self.advance(1)
            return super().monotonic()

    scene.clock = Impatient()
    assert scene.read(0).entries[0].fate is TransactionOutcome.UNKNOWN
    scene.log.slow = {1}
    scene.log.log(KEY).moved = True
    with pytest.raises(TryLaterError, match=r"payments-0"):
        scene.read(0)


def test_damage_is_one_failure(scene: Harness) -> None:
    whole = batch(0, [Rec(None, b"v")] * 2, codec="zstd")
    scene.log.append(KEY, whole[:61] + bytes(len(whole) - 61))
    assert scene.read(0).entries[0].instead == "unreadable: broken zstd data"
    old = bytearray(batch(0, [Rec(None, b"v")]))
    old[16] = 1
    scene.log.append(KEY, bytes(old))
    with pytest.raises(OperationFailedError, match=r"payments-0@2 cannot be read: message format 1"):
        scene.read(2)


def test_a_partition_that_does_not_exist_is_a_usage_error(scene: Harness) -> None:
    reader = RecordReader(scene.log, scene.data, scene.clock, wait_s=5)
    for key in (TopicPartition("it's\x1b", 0), TopicPartition(KEY.topic, 7)):
        with pytest.raises(UsageError) as caught:
            reader.read(key, 0, 1)
        assert caught.value.message.isprintable()


def test_headers_that_run_over_their_end_are_a_fault() -> None:
    data = batch(0, [Rec(None, b"v", headers=((b"a", b"b"),))])
    (one,) = (found for found in batches_of(data) if isinstance(found, Batch))
    (record,) = records_of(data, one)
    assert isinstance(record, LogRecord)
    assert headers_of(record) == ((b"a", b"b"),)
    for size in range(1, len(record.header_bytes)):
        cut = LogRecord(0, 0, None, None, record.header_bytes[:size])
        assert isinstance(headers_of(cut), RecordFault)
