"""`streams pathway` as an operator runs it, over fakes."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.streams.model.pathways import HEADER, PathwayContext, encode_header
from kafkakit.streams.routes import pathways as decide
from kafkakit.streams.routes.act import clusters as act
from tests.clusters.streams_batches import Rec, batch, marker
from tests.fakes.admin import FakeClock
from tests.fakes.log import FakeLog
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.command_line import Desk

MS = 1_758_335_260_726
KEY, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
PRODUCER = (7, 2)
QUANTILES = {"records": 2, "negative": 0}


def rec(pathway_ms: int, edge_ms: int = 0, *, hash_: int = 11, value: bytes | None = None) -> Rec:
    """A record of the time MS whose pathway had taken `pathway_ms` at its last checkpoint, `edge_ms` before MS."""
    context = PathwayContext(hash_, MS - edge_ms - pathway_ms, MS - edge_ms)
    return Rec(b"k", b"v", headers=((b"a", None), (HEADER.encode(), value or encode_header(context))))


class PathwayDesk(Desk):
    command = ("streams", "pathway")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FakeClock(datetime.fromtimestamp(MS / 1000 + 60, UTC)))
        self.log, self.data = FakeLogReader("C1"), FakeLog()
        self.log.add_topic("orders", 2)

    def put(self, records: Iterable[Rec], key: TopicPartition = KEY, base_ms: int = MS) -> None:
        self.log.append(key, batch(0, list(records), base_ms=base_ms))

    def topic(self, *words: str) -> dict[str, object]:
        (found,) = self.run("orders", *words, "-o", "json").json["topics"]
        return dict(found)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PathwayDesk:
    desk = PathwayDesk(tmp_path)
    return desk.sit(monkeypatch, open_log=desk.log, open_data=desk.data)


def test_latencies_are_shown_by_topic_and_pathway(desk: PathwayDesk) -> None:
    desk.put(rec(ms, 2) for ms in range(100, 200))
    desk.put([rec(5000, 40, hash_=2**64 - 1), Rec(b"k", b"v")], OTHER)
    ran = desk.run("orders")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == (
        "101 of 102 records on cluster C1 (profile p) have a pathway\n"
        "\n"
        "TOPIC                PATHWAY  LATENCY  RECORDS  P50      P95      P99      MAX\n"
        "orders                    11  pathway      100  0.15 s   0.195 s  0.198 s  0.199 s\n"
        "orders                    11  edge         100  0.002 s  0.002 s  0.002 s  0.002 s\n"
        "orders  18446744073709551615  pathway        1  5 s      5 s      5 s      5 s\n"
        "orders  18446744073709551615  edge           1  0.04 s   0.04 s   0.04 s   0.04 s\n"
    )


def test_rows_and_json_have_the_same_in_ms(desk: PathwayDesk) -> None:
    desk.put([rec(100, 7), rec(300, 9)])
    lines = desk.run("orders", "-o", "tsv").stdout.splitlines()
    assert lines[-1].split("\t") == ["orders", "11", "edge", "2", "7", "7", "7", "9", "0"]
    assert desk.topic() == {
        "topic": "orders", "records": 2, "with_pathway": 2, "faulty_headers": 0, "unread": 0, "folded": 0,
        "pathways": [
            {
                "pathway": "11",
                "oldest_start_ms": MS - 309,
                "pathway_latency": QUANTILES | {"p50_ms": 100, "p95_ms": 100, "p99_ms": 100, "max_ms": 300},
                "edge_latency": QUANTILES | {"p50_ms": 7, "p95_ms": 7, "p99_ms": 7, "max_ms": 9},
            }
        ],
    }  # fmt: skip


def test_the_newest_records_are_read_and_of_these_those_since(desk: PathwayDesk) -> None:
    desk.put((rec(5) for _ in range(30)), base_ms=MS - 3_600_000)
    desk.put(rec(5) for _ in range(10))
    desk.put((rec(5) for _ in range(2)), OTHER, base_ms=MS - 3_600_000)
    assert desk.topic()["records"] == 42
    assert desk.topic("--records", "20")["records"] == 12  # 10 of each partition
    assert desk.topic("--since", "5m")["records"] == 10
    assert desk.topic("--since", "5m", "--records", "6")["records"] == 3
    assert desk.topic("--since", "1s")["records"] == 0


def test_more_than_one_slice_is_read_to_the_end(desk: PathwayDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "SLICE", 7)
    for _ in range(5):
        desk.put(rec(ms) for ms in range(10))
    assert desk.topic()["with_pathway"] == 50
    assert desk.topic("--records", "30")["with_pathway"] == 15


def test_records_without_a_time_have_no_edge(desk: PathwayDesk) -> None:
    desk.put([rec(8000, 40_000)], base_ms=-1)
    assert "orders       11  edge           0  -    -    -    -\n" in desk.run("orders").stdout
    desk.put([rec(8000, 40_000)], OTHER)
    assert desk.run("orders", "-o", "tsv").stdout.splitlines()[-1].split("\t")[3:] == ["1", *["40000"] * 4, "0"]
    assert desk.run("orders", "--max-latency", "8s").code == 0  # the limit itself is within it


def test_a_limit_of_p99_fails_above_it(desk: PathwayDesk) -> None:
    desk.put([*(rec(100) for _ in range(9)), *(rec(9000, hash_=22) for _ in range(3))])
    assert desk.run("orders", "--max-latency", "10s").code == 0
    ran = desk.run("orders", "--max-latency", "5s", "-o", "json")
    assert (ran.code, ran.json["slow"], ran.json["max_latency_ms"]) == (1, 1, 5000)
    assert "1 pathway has a p99 above 5 s: orders 22 (8.99 s)" in ran.stderr


def test_headers_without_a_context_are_counted(desk: PathwayDesk) -> None:
    desk.put([rec(5, value=b"!!"), rec(5, value=b"A" * 4000), rec(5, hash_=0), rec(-10), rec(5, edge_ms=-10)])
    ran = desk.run("orders")
    assert ran.code == 0
    assert "2 of 5 records on cluster C1" in ran.stdout
    assert "orders: 3 headers without a usable context\n" in ran.stdout
    assert "2 latencies of orders are below 0 and count as 0: clocks of hosts differ" in ran.stderr
    assert desk.topic()["faulty_headers"] == 3


def test_records_of_aborted_transactions_and_markers_do_not_count(desk: PathwayDesk) -> None:
    for commits in (False, True):
        desk.log.append(KEY, batch(0, [rec(5)], transactional=True, producer=PRODUCER))
        desk.log.append(KEY, marker(0, PRODUCER, commits=commits))
    desk.put([rec(5)])
    desk.data.records = [Record(partition=KEY, offset=offset, value=b"v") for offset in (2, 4)]
    desk.data.next_offset = 5
    assert (desk.topic()["records"], desk.topic()["unread"]) == (2, 0)


def test_what_cannot_be_inflated_is_counted_as_not_read(desk: PathwayDesk) -> None:
    whole = batch(0, [rec(5)] * 3, codec="zstd")
    desk.log.append(KEY, whole[:61] + bytes(len(whole) - 61))
    desk.put([rec(5)])
    ran = desk.run("orders")
    assert "orders: 1 record that cannot be read" in ran.stdout
    assert ran.code == 0


def test_pathways_beyond_the_limit_are_summed_up(desk: PathwayDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "MOST_PATHWAYS", 3)
    desk.put(rec(5, hash_=hash_) for hash_ in (1, 2, 3, 4, 5, 5, 1))
    found = desk.topic()
    assert (found["with_pathway"], found["folded"]) == (7, 3)
    assert [one["pathway"] for one in found["pathways"]] == ["others", "1", "2", "3"]  # type: ignore[attr-defined]


def test_a_partition_that_cannot_be_read_fails_and_the_others_are_shown(desk: PathwayDesk) -> None:
    desk.put([rec(5)], OTHER)
    old = bytearray(batch(0, [rec(5)]))
    old[16] = 1
    desk.log.append(KEY, bytes(old))
    ran = desk.run("orders", "-o", "json")
    assert (ran.code, ran.json["topics"][0]["records"]) == (1, 1)
    assert ran.json["problems"] == ["orders-0@0 cannot be read: message format 1"]
    assert "orders-0@0 cannot be read" in ran.stderr


def test_each_partition_that_cannot_be_read_is_named_once(desk: PathwayDesk) -> None:
    leaderless(desk)
    told = desk.run("orders").stderr
    assert [told.count(f"the ends of orders-{partition} cannot be read") for partition in (0, 1)] == [1, 1]


def leaderless(desk: PathwayDesk) -> None:
    for partition in range(2):
        desk.log.log(TopicPartition("orders", partition)).leader = None


@pytest.mark.parametrize(
    ("change", "words", "code", "told"),
    [
        (None, ("none",), 2, "topic none does not exist"),
        (None, ("orders", "--since", "later"), 2, "--since 'later' is not a duration"),
        (None, ("orders", "--max-latency", "0s"), 2, "--max-latency '0s' must be more than 0"),
        (None, ("orders", "--records", "0"), 2, "--records"),
        (None, (), 2, "TOPIC"),
        (None, ("orders",), 1, "no record of orders that was read has a pathway"),
        (leaderless, ("orders",), 75, "the ends of orders-0 cannot be read"),
    ],
)
def test_what_cannot_be_shown_has_its_exit_code(
    desk: PathwayDesk, change: Callable[[Desk], None] | None, words: tuple[str, ...], code: int, told: str
) -> None:
    if change is not None:
        change(desk)
    ran = desk.run(*words)
    assert (ran.code, told in ran.stderr, "Traceback" in ran.stderr) == (code, True, False), ran.stderr
