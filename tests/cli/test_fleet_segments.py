"""`kafkakit fleet segments` on trees of log dirs: rows of each broker, faults, and what stays of other brokers."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.command_line import Home, Ran
from tests.rigs.fleet import rows_of
from tests.rigs.segment_writer import batch, write_segment

DAY = "2026-11-20"


def scan(home: Home, *words: str) -> Ran:
    return home.run("fleet", "segments", "--cluster", "c1", "--to", "store", "--date", DAY, *words)


def log_dir(folder: Path, broker: int | None, topic: str = "orders", partitions: int = 1) -> Path:
    folder.mkdir(parents=True)
    if broker is not None:
        text = f"version=1\nnode.id={broker}\ncluster.id=abc\ndirectory.id=d\n"
        (folder / "meta.properties").write_text(text, encoding="utf-8")
    for partition in range(partitions):
        write_segment(folder / f"{topic}-{partition}", 0, [batch(0, [b"x"] * 3), batch(3)])
        write_segment(folder / f"{topic}-{partition}", 4, [batch(4)])
    return folder


def manifest(home: Home, broker: int) -> Any:
    name = f"cluster=c1@broker-{broker}.json"
    return json.loads((home.work / "store" / "manifests" / f"snapshot_date={DAY}" / name).read_text(encoding="utf-8"))


def test_brokers_write_one_after_another_and_keep_each_others_rows(home: Home) -> None:
    store = home.work / "store"
    first = log_dir(home.work / "b1", 1, partitions=2)
    assert scan(home, str(first), "-o", "json").json["brokers"][0]["rows"] == {
        "segments": 4,
        "batches": 2,
        "directories": 2,
    }
    log_dir(home.work / "b2", None, topic="pay")
    assert scan(home, "b2", "--broker", "2").code == 0
    rows = rows_of(store, "segments", "c1")
    names = ("broker", "topic", "partition", "base_offset", "records", "is_active")
    assert [tuple(r[name] for name in names) for r in rows] == [
        (1, "orders", 0, 0, 4, False), (1, "orders", 0, 4, 1, True), (1, "orders", 1, 0, 4, False),
        (1, "orders", 1, 4, 1, True), (2, "pay", 0, 0, 4, False), (2, "pay", 0, 4, 1, True),
    ]  # fmt: skip
    write_segment(first / "orders-0", 5, [batch(5)])
    assert scan(home, str(first)).code == 0
    assert [r["broker"] for r in rows_of(store, "segments", "c1")] == [1] * 5 + [2] * 2
    assert [manifest(home, b)["rows"]["segments"] for b in (1, 2)] == [5, 2]
    assert manifest(home, 1)["rows"]["batches"] == 2


def test_damage_is_a_row_with_a_fault_and_stops_nothing(home: Home) -> None:
    folder = log_dir(home.work / "b1", 1)
    write_segment(folder / "torn-0", 0, [batch(0), batch(1)], tail=batch(2)[:40])
    (folder / "bad-0").mkdir()
    (folder / "bad-0" / f"{0:020d}.log").write_bytes(b"\xff" * 300)
    (folder / "bad-0" / "notes.txt").write_text("mine", encoding="utf-8")
    broken = write_segment(folder / "crc-0", 0, [batch(0)]).path
    data = bytearray(broken.read_bytes())
    data[-1] ^= 1
    broken.write_bytes(data)
    ran = scan(home, "b1", "--crc")
    assert ran.code == 0, ran.stderr
    rows = {(r["topic"], r["role"], r["base_offset"]): r for r in rows_of(home.work / "store", "segments", "c1")}
    assert rows["torn", "log", 0]["torn_bytes"] == 40
    assert rows["bad", "log", 0]["fault"]
    assert f"warning: {folder}/bad-0/{0:020d}.log: " in ran.stderr
    assert rows["bad", "foreign", None]["size_bytes"] == 4
    assert [rows[t, "log", 0]["crc_failures"] for t in ("crc", "orders")] == [1, 0]


def test_several_processes_read_the_same(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.fleet.decide.TASK_FILES", 4)
    log_dir(home.work / "b1", 1, partitions=6)
    assert scan(home, "b1").code == 0
    alone = [r | {"seen_at_ms": 0} for r in rows_of(home.work / "store", "segments", "c1")]
    assert scan(home, "b1", "--jobs", "2").code == 0
    assert [r | {"seen_at_ms": 0} for r in rows_of(home.work / "store", "segments", "c1")] == alone
    assert len(alone) == 12


def test_wrong_folders_are_refused(home: Home) -> None:
    log_dir(home.work / "b1", 1)
    log_dir(home.work / "b2", None)
    (home.work / "empty").mkdir()
    for words, problem in [
        (["none"], "cannot be listed"),
        (["empty"], "no partition was found"),
        (["b1", "--broker", "7"], "is a log dir of broker 1, not of broker 7"),
        (["b2"], "no meta.properties that names its broker"),
    ]:
        ran = scan(home, *words)
        assert (ran.code, problem in ran.stderr) == (2, True), ran.stderr
    assert not (home.work / "store").exists()
