"""`streams bombs scan|watch|quarantine` as an operator runs them, over fakes."""

import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkakit.cli.context import CliContext
from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import TerminationRequested
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.guarded_reads import batch_verdict
from kafkakit.streams.model.log_batches import Codec
from tests.cli.test_streams_commits import MINUTE, NOW_MS, ORDERS, ReadingDesk, pill
from tests.clusters.streams_batches import Rec, batch
from tests.rigs.bombs import batch_of, only_batch, zstd_zeros

GIB = 1 << 30
BOMB = batch_of(zstd_zeros(GIB), Codec.ZSTD, count=100)
P0 = ("--partition", "0")


class BombDesk(ReadingDesk):
    """The desk, with a bomb at 200 to 299 of orders-0 and ten records after it."""

    command = ("streams", "bombs")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.groups.add_topic("orders", 2)
        self.log.append(ORDERS, BOMB, self.ordinary(10, NOW_MS - 9 * MINUTE))

    def ordinary(self, count: int, ms: int = NOW_MS) -> bytes:
        return batch(0, [Rec(None, b"v")] * count, base_ms=ms, codec="zstd")

    def files(self) -> dict[str, bytes]:
        folder = self.home.state / "quarantine"
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*"))}

    def commit(self, group: str = "pay") -> CommittedOffset:
        held = self.groups.committed(group)[ORDERS]
        assert isinstance(held, CommittedOffset)
        return held


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BombDesk:
    return BombDesk(tmp_path).sit(monkeypatch)


def test_a_scan_names_the_batch_its_size_its_producer_and_what_to_do(desk: BombDesk) -> None:
    ran = desk.run("scan", "orders")
    assert (ran.code, ran.stderr) == (1, "reading batch headers\n")
    assert ran.stdout.startswith("cluster fake-cluster (profile p): 2 partitions, 3 batches (")
    assert (
        "error     decompression-bomb  orders/0@200      1  zstd batch of 32.1 KiB can hold 1 GiB, 32,7" in ran.stdout
    )
    assert "offsets 200 to 299, 100 records, producer 4711 epoch 3, times 2025-09-20T02:27:40.726Z to " in ran.stdout
    command = "kafkakit --profile p streams bombs quarantine orders --partition 0 --offsets 200 --limit 100000000"
    assert command in ran.stdout


def test_a_scan_for_programs(desk: BombDesk) -> None:
    found = desk.run("scan", "orders", "-o", "json").json
    assert (found["found"], found["partitions"], found["unread"]) == (1, 2, [])
    (listed,) = found["listed"]
    assert (listed["topic"], listed["partition"], listed["verdict"]) == ("orders", 0, "bomb")
    assert (listed["offset"], listed["last_offset"], listed["at_most_bytes"]) == (200, 299, GIB)
    assert found["findings"][0]["where"] == "orders/0@200"
    assert desk.run("scan", "orders", "-o", "tsv").stdout.startswith("orders\t0\t200\t299\tbomb\tzstd\t")


@pytest.mark.parametrize(
    "words",
    [("--limit", "2GiB"), ("--from", "300"), ("--partition", "1"), ("--since", "-1m")],
    ids=lambda words: words[0],
)
def test_a_scan_without_findings_exits_0(desk: BombDesk, words: tuple[str, str]) -> None:
    ran = desk.run("scan", "orders", *words)
    assert (ran.code, ran.stderr) == (0, "reading batch headers\n")
    assert "no findings" in ran.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nosuch",), "topic nosuch does not exist"),
        (("or\x1b[2Jders",), "topic or\\x1b[2Jders does not exist"),
        (("orders", "--partition", "7"), "topic orders has no partition 7"),
        (("orders", "--partition", "x"), "--partition: 'x' is not a number or range"),
        (("orders", "--limit", "10b"), "--limit: '10b' is not a size"),
        (("orders", "--limit", "10"), "--limit: 10 is below 1000 bytes"),
        (("orders", "--from", "3", "--since", "-1h"), "name one start"),
        (("orders", "--since", "soon"), "--since: 'soon' is not a time"),
    ],
)
def test_what_cannot_be_scanned_is_a_usage_error(desk: BombDesk, words: tuple[str, ...], says: str) -> None:
    ran = desk.run("scan", *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert says in ran.stderr


@pytest.mark.parametrize("when", ["before", "in the middle"])
def test_a_leader_that_is_gone_is_named_and_the_rest_is_scanned(
    desk: BombDesk, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    desk.log.log(TopicPartition("orders", 1)).leader = 2
    desk.log.append(TopicPartition("orders", 1), desk.ordinary(1))
    fetch = desk.log.fetch

    def dying(*args: Any, **options: Any) -> Any:
        desk.log.down.add(2)
        return fetch(*args, **options)

    if when == "before":
        desk.log.down.add(2)
    monkeypatch.setattr(desk.log, "fetch", dying)
    ran = desk.run("scan", "orders")
    assert ran.code == 1
    assert "partition-unread" in ran.stdout
    assert "orders/0@200" in ran.stdout
    desk.log.down.clear()
    quiet = desk.run("scan", "orders", "--limit", "2GiB")
    assert quiet.code == 75
    assert "1 of 2 partitions not read to the end: orders-1: KafkaTimeoutError" in quiet.stderr


def test_quarantine_keeps_the_batch_as_it_was_fetched_and_says_where_it_is_from(desk: BombDesk) -> None:
    ran = desk.run("quarantine", "orders", "-o", "json")
    assert ran.code == 0
    files = desk.files()
    name = "fake-cluster/orders-0/00000000000000000200"
    assert list(files) == [f"{name}.json", f"{name}.log"]
    raw = files[f"{name}.log"]
    assert raw[8:] == BOMB[8:]
    assert batch_verdict(raw, only_batch(raw), 10**8).at_most_bytes == GIB
    record = json.loads(files[f"{name}.json"])
    schema = resources.files("kafkakit").joinpath("core", "schemas", "quarantined-batch.schema.json").read_text()
    Draft202012Validator.check_schema(json.loads(schema))
    Draft202012Validator(json.loads(schema)).validate(record)
    assert record["sha256"] == hashlib.sha256(raw).hexdigest()
    assert (record["cluster_id"], record["topic"], record["partition"]) == ("fake-cluster", "orders", 0)
    assert record["topic_id"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (record["first_offset"], record["last_offset"], record["records"]) == (200, 299, 100)
    assert (record["producer_id"], record["crc"], record["bytes"]) == (4711, 0, len(BOMB))
    folder = desk.home.state / "quarantine" / "fake-cluster" / "orders-0"
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert ran.json["batches"][0]["path"] == str(folder / "00000000000000000200.log")
    assert desk.run("quarantine", "orders").code == 0
    assert desk.files() == files


def test_quarantine_refuses_to_replace_another_batch(desk: BombDesk) -> None:
    assert desk.run("quarantine", "orders").code == 0
    before = desk.files()
    desk.log.add_topic("orders", 2)
    desk.log.append(ORDERS, batch(0, [Rec(None, b"v")] * 200), batch_of(zstd_zeros(2 * GIB), Codec.ZSTD, count=3))
    ran = desk.run("quarantine", "orders")
    assert ran.code == 2
    assert "holds another batch" in ran.stderr
    assert desk.files() == before
    assert desk.run("quarantine", "orders", "--out-path", "kept").code == 0
    assert (desk.home.work / "kept/fake-cluster/orders-0/00000000000000000200.log").exists()


def test_only_what_is_over_the_limit_goes_to_quarantine(desk: BombDesk) -> None:
    ran = desk.run("quarantine", "orders", *P0, "--offsets", "5,305")
    assert (ran.code, ran.stdout) == (2, "")
    assert "no batch of orders with offsets 5,305 is over the limit" in ran.stderr
    assert desk.run("quarantine", "orders", "--limit", "2GiB").stdout.endswith("nothing was written\n")
    assert desk.files() == {}
    assert desk.run("quarantine", "orders", *P0, "--offsets", "5,250").code == 0
    assert len(desk.files()) == 2


def test_a_dry_run_writes_neither_files_nor_commits(desk: BombDesk) -> None:
    desk.groups.seed("pay", ORDERS, 200)
    ran = desk.run("quarantine", "orders", *P0, "--group", "pay", "--dry-run")
    assert ran.code == 0, ran.stderr
    assert "would be written below" in ran.stdout
    assert "not delivered any more: 200-299 (100 offsets)" in ran.stdout
    assert desk.files() == {}
    assert desk.groups.commits == []


def test_a_plain_group_passes_the_batch(desk: BombDesk) -> None:
    desk.groups.seed("pay", ORDERS, 200)
    ran = desk.run("quarantine", "orders", *P0, "--offsets", "200", "--group", "pay", "--yes")
    assert ran.code == 0, ran.stderr
    assert (desk.commit().offset, desk.commit().metadata) == (300, "")
    assert "streams commits undo last --group pay\n" in ran.stdout
    assert len(desk.files()) == 2
    undone = desk.home.run("--profile", "p", "streams", "commits", "undo", "last", "--group", "pay", "--apply", "--yes")
    assert undone.code == 0, undone.stderr
    assert desk.commit().offset == 200


def test_offsets_that_the_log_has_deleted_are_not_marked(desk: BombDesk) -> None:
    desk.log.trim(ORDERS, 250)
    desk.groups.seed("pay", ORDERS, 250)
    ran = desk.run("quarantine", "orders", *P0, "--group", "pay", "--yes", "-o", "json")
    assert ran.code == 0, ran.stderr
    assert ran.json["edit"]["passed"] == 50
    assert desk.commit().offset == 300


def test_metadata_of_many_offsets_keeps_what_is_before_the_batch(desk: BombDesk) -> None:
    desk.seed(pill())
    for words, base in (((), 60), (("--reject",), 60)):
        ran = desk.run("quarantine", "orders", *P0, "--group", "pay", "--yes", *words)
        assert ran.code == 0, ran.stderr
        state = read_metadata(desk.commit().metadata, desk.commit().offset).state
        assert state.base == base
        assert (200, 300) in list(state.done)


def test_a_question_is_asked_and_no_means_no_commit(desk: BombDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliContext, "input_allowed", True)
    desk.groups.seed("pay", ORDERS, 200)
    ran = desk.run("quarantine", "orders", *P0, "--group", "pay", stdin="no\n")
    assert ran.code == 1
    assert "not delivered any more: 200-299" in ran.stderr
    assert "not confirmed, nothing was changed" in ran.stderr
    assert desk.groups.commits == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--group", "pay", "--yes"), "--group is about one partition"),
        ((*P0, "--group", "pay"), "pass --yes"),
        (("--reject",), "--reject does nothing without --group"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    desk: BombDesk, words: tuple[str, ...], says: str
) -> None:
    desk.groups.seed("pay", ORDERS, 200)
    ran = desk.run("quarantine", "orders", *words)
    assert ran.code == 2
    assert says in ran.stderr
    assert desk.files() == {}


def test_a_live_group_is_refused_with_what_to_do_and_the_files_are_kept(desk: BombDesk) -> None:
    desk.groups.seed("pay", ORDERS, 200)
    desk.groups.join("pay", ORDERS)
    ran = desk.run("quarantine", "orders", *P0, "--group", "pay", "--yes")
    assert ran.code == 2
    assert "group pay is live" in ran.stderr
    assert "stop its members first" in ran.stderr
    assert len(desk.files()) == 2
    assert desk.groups.commits == []


def test_watch_reports_what_comes_and_ends_with_a_signal(desk: BombDesk) -> None:
    late = TopicPartition("orders", 2)

    def on_sleep(seconds: float) -> None:
        assert seconds == 5
        if desk.clock.elapsed == 5:
            desk.log.append(ORDERS, desk.ordinary(1), BOMB)
        elif desk.clock.elapsed == 10:
            desk.log.unreachable = True
        elif desk.clock.elapsed == 15:
            desk.log.unreachable = False
            desk.log.add_partition(late)
            desk.log.append(late, BOMB)
        elif desk.clock.elapsed == 25:
            raise TerminationRequested

    desk.clock.on_sleep.append(on_sleep)
    ran = desk.run("watch", "orders")
    assert (ran.code, ran.stdout) == (143, "")
    lines = ran.stderr.splitlines()
    assert len(lines) == 5, lines
    assert lines[0].startswith("orders/0@311: zstd batch of 32.1 KiB can hold 1 GiB")
    assert "trying again" in lines[1]
    assert lines[2].startswith("orders/2@0: zstd batch")
    assert "all partitions are read again" in lines[3]
    assert "terminated; 2 batches found, nothing was changed" in lines[4]


def test_watch_once_looks_at_the_last_interval(desk: BombDesk) -> None:
    assert desk.run("watch", "orders", "--once", "--interval", "5m").code == 0
    fresh = bytearray(BOMB)
    fresh[27:35] = fresh[35:43] = (NOW_MS - 60_000).to_bytes(8, "big")
    desk.log.append(ORDERS, bytes(fresh))
    assert desk.run("watch", "orders", "--once", "--interval", "30s").code == 0
    ran = desk.run("watch", "orders", "--once", "--interval", "5m")
    assert ran.code == 1
    assert "orders/0@310" in ran.stdout
