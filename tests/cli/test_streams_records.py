"""`streams records show` as an operator runs it, over fakes."""

from pathlib import Path

import pytest

from kafkakit.core.model import TopicPartition
from tests.clusters.streams_batches import Rec, batch
from tests.fakes.log import FakeLog
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.command_line import Desk

KEY = TopicPartition("pay's", 0)


class RecordsDesk(Desk):
    command = ("streams", "records", "show")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = FakeLogReader("C1")
        self.log.add_topic(KEY.topic)
        self.log.append(KEY, batch(0, [Rec(b"k", b"secret-1"), Rec(b"k", b"\xff\x00", headers=((b"h", b"x"),))]))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordsDesk:
    desk = RecordsDesk(tmp_path)
    return desk.sit(monkeypatch, open_log=desk.log, open_data=FakeLog())


def test_a_record_is_shown_and_written_nowhere_else(desk: RecordsDesk) -> None:
    ran = desk.run("pay's/0@0")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == (
        "pay's/0@0 on cluster C1 (profile p): the log holds 0 to 1\n"
        "\n"
        "offset 0\n"
        "  time         2025-09-20T02:27:40.726Z (CreateTime)\n"
        "  key          k (1 byte)\n"
        "  value        secret-1 (8 bytes)\n"
    )
    files = [path for path in desk.home.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"secret-1" in path.read_bytes()]


def test_json_has_text_or_base64_and_the_full_size(desk: RecordsDesk) -> None:
    ran = desk.run("pay's/0@0", "--count", "5", "--max-bytes", "6", "-o", "json")
    assert ran.code == 0
    first, second = ran.json["records"]
    assert first["value"] == {"text": "secret", "bytes": 8, "truncated": True}
    assert second["value"] == {"base64": "/wA=", "bytes": 2, "truncated": False}
    assert second["headers"] == [{"name": "h", "value": {"text": "x", "bytes": 1, "truncated": False}}]
    assert (ran.json["offset"], ran.json["log_end"], ran.json["problem"]) == (0, 2, None)
    assert desk.run("pay's/0@1", "-o", "tsv").stdout.split("\t")[5] == "hex ff00 (2 bytes)"


def test_an_offset_without_a_record_exits_1_with_the_reason(desk: RecordsDesk) -> None:
    ran = desk.run("pay's/0@2")
    assert ran.code == 1
    assert "beyond the end: the next record gets offset 2" in ran.stderr
    ran = desk.run("pay's/0@2", "-o", "json")
    assert (ran.code, ran.json["records"]) == (1, [])


def test_what_cannot_be_meant_is_a_usage_error(desk: RecordsDesk) -> None:
    for words in (("pay's/0",), ("none/0@1",), ("pay's/9@1",), ("pay's/0@1", "--count", "0"), ("pay's/0@1", "--count",
                  "1001"), ("pay's/0@1", "--max-bytes", "-1")):  # fmt: skip
        ran = desk.run(*words)
        assert (ran.code, ran.stdout) == (2, ""), words
        assert "Traceback" not in ran.stderr
    assert "TOPIC/PARTITION@OFFSET" in desk.run("pay's/0").stderr
