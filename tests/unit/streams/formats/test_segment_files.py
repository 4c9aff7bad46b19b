"""Segments as brokers and independent writers leave them, and as broken disks and cut writes leave them."""

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.adapters.files import local_files
from kafkakit.streams.model.binary import crc32c, crc32c_by_table
from kafkakit.streams.model.log_dirs import (
    DirState,
    PartitionName,
    is_foreign,
    leader_epochs,
    offset_checkpoint,
    partition_name,
    partitions_below,
)
from kafkakit.streams.model.segment_batches import BatchChunk, WalkResult, walk_batches
from kafkakit.streams.model.segment_rows import Row, ScanOptions, SegmentRows, directory_row, read_partition
from tests.rigs.segment_writer import CODECS, CONTROL, TRANSACTIONAL, batch, legacy, txn_entry, write_segment

OPTIONS = ScanOptions(with_crc=True)


def read(root: Path, options: ScanOptions = OPTIONS) -> list[SegmentRows]:
    return [
        rows
        for found in partitions_below(str(root), local_files())
        for rows in read_partition(found, local_files(), options)
    ]


def only(root: Path) -> Row:
    (found,) = read(root)
    return found.segment


def walked(data: bytes) -> tuple[list[int], WalkResult]:
    *chunks, end = walk_batches(memoryview(data), len(data))
    assert isinstance(end, WalkResult)
    return [int(p) for c in chunks if isinstance(c, BatchChunk) for p in c.positions], end


def test_names_of_directories() -> None:
    assert partition_name("a-b.c-12") == PartitionName("a-b.c", 12)
    assert partition_name("orders-3.0123456789abcdef0123456789abcdef-delete") == PartitionName(
        "orders", 3, DirState.DELETE
    )
    assert partition_name("orders-3.ab-future") == PartitionName("orders", 3, DirState.FUTURE)
    assert partition_name("orders-3.ab-stray") == PartitionName("orders", 3, DirState.STRAY)
    assert [partition_name(n) for n in ("orders", "orders-", "orders-x", "or ders-1", "-1")] == [None] * 5


def test_foreign_files() -> None:
    known = [
        "00000000000000000007.log.deleted",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "leader-epoch-checkpoint.tmp",
    ]
    assert [n for n in [*known, "core", "7.log", "backup.tar"] if is_foreign(n)] == ["core", "7.log", "backup.tar"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_segment_of_each_codec(tmp_path: Path, codec: str) -> None:
    batches = [batch(n * 3, [b"x" * 50] * 3, ms=1_000 + n, codec=codec, epoch=4, producer=n % 2) for n in range(40)]
    write_segment(tmp_path / "orders-1", 0, batches)
    row = only(tmp_path)
    size = sum(map(len, batches))
    assert {key: value for key, value in row.items() if value not in (0, None, "")} == {
        "log_dir": str(tmp_path), "topic": "orders", "partition": 1, "role": "log", "is_active": True,
        "path": f"{tmp_path}/orders-1/{0:020d}.log", "mtime_ms": row["mtime_ms"], "size_bytes": size, "batches": 40,
        "records": 120, "valid_bytes": size, "last_offset": 119, "first_batch_max_ms": 1_002, "min_ms": 1_000,
        "max_ms": 1_041, f"{codec}_batches": 40, "first_epoch": 4, "last_epoch": 4, "index_entries": 39,
        "time_index_entries": 39, "producers": 2, "tiny_batches": 40,
        **({} if codec == "none" else {"smallest_ratio_bound": row["smallest_ratio_bound"]}),
    }  # fmt: skip
    assert row["crc_failures"] == 0
    assert row["index_faults"] == 0
    assert row["time_index_faults"] == 0


def test_counts_that_headers_tell(tmp_path: Path) -> None:
    batches = [
        batch(0, [b"a"] * 5, epoch=1), batch(4, epoch=1), batch(9, epoch=3, ms=-1), batch(10, [b"a"] * 2, epoch=2),
        batch(12, [b"a", b"b"], epoch=3, deltas=[0, 4]), batch(17, epoch=3, attributes=8, ms=9_000),
    ]  # fmt: skip
    write_segment(tmp_path / "t-0", 0, batches)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n3 9\n4 17\n")
    row = only(tmp_path)
    wanted = {
        "overlaps": 1, "offset_gaps": 1, "missing_records": 3, "epoch_regressions": 1, "epoch_faults": 2,
        "last_offset": 17,
        "missing_times": 1, "append_time_batches": 1, "single_record_batches": 3, "max_ms": 9_000, "min_ms": 1_000,
    }  # fmt: skip
    assert {key: row[key] for key in wanted} == wanted


def test_transactions_across_segments(tmp_path: Path) -> None:
    def txn(at: int, pid: int, *, marker: bool = False, ms: int = 1_000) -> bytes:
        return batch(at, [b"r"], producer=pid, ms=ms, attributes=TRANSACTIONAL | (CONTROL if marker else 0))

    folder = tmp_path / "t-0"
    write_segment(folder, 0, [txn(0, 7, ms=100), txn(1, 8, ms=200), txn(2, 7, marker=True), txn(3, 7, ms=300)])
    write_segment(folder, 4, [txn(4, 8), txn(5, 8, marker=True), txn(6, 9, ms=50), txn(7, 9, marker=True), batch(8)])
    (folder / f"{4:020d}.txnindex").write_bytes(txn_entry(8, 1, 5))
    first, second = (r.segment for r in read(tmp_path))
    assert (first["open_txn_since_ms"], second["open_txn_since_ms"]) == (200, 300)
    assert (first["aborted_records"], second["aborted_records"], second["txn_entries"]) == (1, 1, 1)
    assert (first["transactional_batches"], first["control_batches"], first["is_active"]) == (4, 1, False)


def test_each_broken_index_entry_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    written = write_segment(folder, 100, [batch(100 + n, ms=1_000 + n) for n in range(20)])
    name = folder / f"{100:020d}"
    entries = [(n, written.positions[n]) for n in range(1, 20)]
    entries[3] = (4, written.positions[4] + 1)  # between two batches
    entries[7] = (6, written.positions[8])  # before its batch, and not ascending
    entries.append((30, written.positions[19] + 500))  # behind the end
    Path(f"{name}.index").write_bytes(b"".join(struct.pack(">ii", *e) for e in entries) + b"\0\0\0")
    times = [(1_000 + n, n) for n in range(1, 20)]
    times[5] = (1_999, 6)  # above its batch, and all after it do not ascend
    Path(f"{name}.timeindex").write_bytes(b"".join(struct.pack(">qi", *e) for e in times))
    Path(f"{name}.txnindex").write_bytes(txn_entry(1, 5, 2) + b"\0")
    row = only(tmp_path)
    assert (row["index_entries"], row["index_faults"]) == (20, 3 + 1 + 2)
    assert (row["time_index_entries"], row["time_index_faults"]) == (19, 1 + 13)
    os.unlink(f"{name}.index")
    assert only(tmp_path)["index_entries"] is None


def test_indexes_of_an_active_segment_are_padded_to_their_greatest_size(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    write_segment(folder, 0, [batch(n, ms=1_000 + n) for n in range(20)])
    os.truncate(folder / f"{0:020d}.index", 10_485_760)
    os.truncate(folder / f"{0:020d}.timeindex", 10_485_756)
    row = only(tmp_path)
    names = ("index_entries", "time_index_entries", "index_faults", "time_index_faults")
    assert [row[name] for name in names] == [19, 19, 0, 0]


TAILS = [
    (b"", ""), (bytes(500), ""), (batch(9)[:60], ""), (batch(9)[:11], ""), (b"\x01" * 5, ""),
    (struct.pack(">qi", 9, -5) + bytes(60), "a batch length of -5 at position 207"),
    (struct.pack(">qi", 9, 60) + bytes(4) + b"\x07" + bytes(60), "no batch header at position 207"),
    (b"\xff" * 300, "a batch length of -1 at position 207"),
]  # fmt: skip


@pytest.mark.parametrize(("tail", "fault"), TAILS, ids=range(len(TAILS)))
def test_tails(tmp_path: Path, tail: bytes, fault: str) -> None:
    batches = [batch(n) for n in range(3)]
    write_segment(tmp_path / "t-0", 0, batches, tail=tail)
    row = only(tmp_path)
    assert sum(map(len, batches)) == 207
    assert (row["batches"], row["valid_bytes"], row["torn_bytes"]) == (3, 207, len(tail))
    assert (row["fault"] or "") == fault


def test_legacy_messages_are_counted_and_passed(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [legacy(0), legacy(1, b"long" * 30), batch(2), legacy(3), batch(4)])
    row = only(tmp_path)
    assert (row["batches"], row["legacy_batches"], row["torn_bytes"], row["fault"]) == (2, 3, 0, None)


def test_a_checksum_that_does_not_match(tmp_path: Path) -> None:
    batches = [batch(n, [bytes([n]) * (1 + 37 * n)]) for n in range(50)]
    batches[7] = batches[7][:-1] + b"?"
    write_segment(tmp_path / "t-0", 0, batches)
    assert only(tmp_path)["crc_failures"] == 1
    assert read(tmp_path, replace(OPTIONS, with_crc=False))[0].segment["crc_failures"] is None


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3_000), st.binary(max_size=30))
def test_checksums_are_those_of_kafka_python_with_and_without_the_library(data: bytes, more: bytes) -> None:
    from kafka.record.util import calc_crc32c

    for extended in (lambda checksum, part: crc32c(part, checksum), crc32c_by_table):
        assert extended(0, data) == calc_crc32c(data)
        assert extended(extended(0, data), more) == calc_crc32c(data + more)


def test_checksums_are_computed_by_the_library() -> None:
    import google_crc32c

    assert google_crc32c.implementation == "c"
    assert crc32c(b"123456789") == crc32c_by_table(0, b"123456789") == 0xE3069283


def test_executors_without_the_library_compute_checksums_too() -> None:
    code = "import sys; sys.modules['google_crc32c'] = None; from kafkakit.streams.model.binary import crc32c; "
    run([sys.executable, "-c", code + "assert crc32c(b'123456789') == 0xE3069283"], check=True)


def test_dead_weight(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 50, [batch(50)])
    for name, size in (
        (f"{0:020d}.log.deleted", 900), (f"{0:020d}.index.deleted", 8), (f"{60:020d}.index", 16), ("core", 40),
        (f"{40:020d}.snapshot", 10), (f"{50:020d}.snapshot", 10), (f"{50:020d}.log.cleaned", 70),
    ):  # fmt: skip
        (tmp_path / "t-0" / name).write_bytes(bytes(size))
    write_segment(tmp_path / "gone-0.abc-delete", 0, [batch(0)])
    write_segment(tmp_path / "lost-0.abc-stray", 0, [batch(0)])
    write_segment(tmp_path / "new-0.abc-future", 0, [batch(0)])
    rows = [r.segment for r in read(tmp_path)]
    assert sorted((str(r["topic"]), str(r["role"]), r["dead_bytes"]) for r in rows) == [
        ("gone", "delete", 69 + 80 + 120), ("lost", "stray", 69 + 80 + 120), ("new", "future", 0), ("t", "cleaned", 70),
        ("t", "deleted", 8), ("t", "deleted", 900), ("t", "foreign", 40), ("t", "log", 0),
        ("t", "orphan", 10), ("t", "orphan", 16),
    ]  # fmt: skip


def test_holes_of_indexes_take_no_room(tmp_path: Path) -> None:
    """A broker makes the indexes of an open segment 10 MiB long before it fills them."""
    for folder in ("t-0", "t-1.8a1b2c3d4e5f60718293a4b5c6d7e8f9-delete"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{0:020d}.log").write_bytes(bytes(100))
        for kind in ("index", "timeindex"):
            with (tmp_path / folder / f"{0:020d}.{kind}").open("wb") as stream:
                stream.truncate(10 << 20)
    found = partitions_below(str(tmp_path), local_files())
    assert [one.log_bytes for one in found] == [100, 100]
    assert sorted(str(r.segment["dead_bytes"]) for r in read(tmp_path)) == ["0", "100"]


def test_a_deleted_file_of_a_broker_is_as_old_as_its_renaming(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 50, [batch(50)])
    deleted = tmp_path / "t-0" / f"{0:020d}.log.deleted"
    deleted.write_bytes(b"x")
    os.utime(deleted, (1_000, 1_000))
    assert [r.segment["mtime_ms"] for r in read(tmp_path)][1:] == [1_000_000]
    (tmp_path / ".lock").touch()
    assert [r.segment["mtime_ms"] for r in read(tmp_path)][1:] == [deleted.stat().st_ctime_ns // 1_000_000]


def test_empty_and_huge_segments(tmp_path: Path) -> None:
    write_segment(tmp_path / "empty-0", 0, [])
    row = only(tmp_path)
    assert (row["size_bytes"], row["batches"], row["first_offset"], row["fault"]) == (0, 0, None, None)
    huge = write_segment(tmp_path / "huge-0", 0, [batch(0)]).path
    os.truncate(huge, 5 << 30)
    row = read(tmp_path)[1].segment
    assert (row["batches"], row["torn_bytes"], row["fault"]) == (1, (5 << 30) - 69, None)


def test_a_log_that_a_broker_cuts_while_it_is_read(tmp_path: Path) -> None:
    """A mapped page behind the end of its file ends the process: the rig fails as a whole then."""
    write_segment(tmp_path / "a-0", 0, [batch(0), batch(1)])

    @contextmanager
    def cut(path: str, size: int, may_shrink: bool) -> Iterator[memoryview]:
        with local_files().mapped(path, size, may_shrink) as buffer:
            os.truncate(path, 0)
            yield buffer

    (found,) = partitions_below(str(tmp_path), local_files())
    (row,) = read_partition(replace(found, is_in_use=True), replace(local_files(), mapped=cut), OPTIONS)
    assert (row.segment["batches"], row.segment["fault"]) == (2, None)


def test_files_that_vanish_or_cannot_be_read(tmp_path: Path) -> None:
    write_segment(tmp_path / "a-0", 0, [batch(0)])
    write_segment(tmp_path / "a-0", 5, [batch(5)])
    write_segment(tmp_path / "b-0", 0, [batch(0)])
    seen = list(partitions_below(str(tmp_path), local_files()))
    (tmp_path / "a-0" / f"{0:020d}.log").unlink()
    (tmp_path / "a-0" / f"{5:020d}.index").unlink()
    (tmp_path / "b-0" / f"{0:020d}.log").unlink()
    (tmp_path / "b-0" / f"{0:020d}.log").mkdir()
    rows = [r.segment for found in seen for r in read_partition(found, local_files(), OPTIONS)]
    assert [(r["fault"], r["batches"]) for r in rows] == [
        (f"{0:020d}.log vanished while it was read", 0),
        (f"{5:020d}.index vanished while it was read", 1),
        (f"{0:020d}.log cannot be read: Is a directory", 0),
    ]
    gone = replace(seen[0], path=str(tmp_path / "none-0")).listed(local_files())
    (row,) = (r.segment for r in read_partition(gone, local_files(), OPTIONS))
    assert (row["role"], row["fault"]) == ("unreadable", "cannot be listed: No such file or directory")


def test_a_log_dir_says_whose_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "host" / "disk 1"
    write_segment(folder / "a-b-0", 3, [batch(3)])
    (folder / "meta.properties").write_text("#made\nversion=1\nnode.id=12\ncluster.id=abc=\n")
    (folder / "log-start-offset-checkpoint").write_text("0\n1\na-b 0 3\n")
    (folder / "recovery-point-offset-checkpoint").write_text("0\n2\na-b 0 9\nx\n")
    row = only(tmp_path)
    assert [row[n] for n in ("broker", "cluster", "log_dir", "log_start", "recovery_point")] == [
        12,
        "abc=",
        str(folder),
        3,
        9,
    ]
    assert only(folder / "a-b-0") == row


def test_damaged_checkpoints_are_empty() -> None:
    assert offset_checkpoint(b"1\n1\na 0 3\n") == {} == offset_checkpoint(b"\xff\xfe")
    assert leader_epochs(b"0\n2\n5 0\n3 10\n") == () == leader_epochs(b"")
    assert leader_epochs(b"0\n2\n3 0\n5 10\n") == ((3, 0), (5, 10))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_batches_that_become_large_are_found_and_measured(tmp_path: Path, codec: str) -> None:
    large = 3_000_000
    write_segment(
        tmp_path / "t-0", 1, [batch(1, codec=codec), batch(2, [bytes(large)], codec=codec, producer=5), batch(3)]
    )
    (found,) = read(tmp_path, replace(OPTIONS, suspicious_bytes=1 << 20))
    (row,) = found.batches
    assert (row["base_offset"], row["codec"], row["producer_id"], row["records"]) == (2, codec, 5, 1)
    declares = codec in ("gzip", "snappy", "zstd")
    assert row["is_bound"] is not declares
    size: Any = row["decompressed_bytes"]
    assert large <= size <= (large + 20 if declares else large * 1.1)
    assert (row["content_size"] is not None) is (codec == "zstd")


def test_zstd_without_a_content_size_is_bounded_by_its_blocks(tmp_path: Path) -> None:
    import zstandard

    true_sizes = (100, 400_000, 3_000_000, 60_000_000)
    for n, size in enumerate(true_sizes):
        made = bytearray(batch(n, codec="zstd"))
        packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
        made[61:] = packer.compress(bytes(size)) + packer.flush()
        struct.pack_into(">i", made, 8, len(made) - 12)
        write_segment(tmp_path / "t-0", n, [bytes(made)])
    found = [r.batches for r in read(tmp_path, replace(OPTIONS, suspicious_bytes=1))]
    sizes: Sequence[Any] = [rows[0]["decompressed_bytes"] for rows in found]
    assert [
        0 <= bound - size <= 1 << 17 for bound, size in zip(sizes, (100, 400_000, 3_000_000, 60_000_000), strict=True)
    ] == [True] * 4
    assert all(rows[0]["is_bound"] and rows[0]["content_size"] is None for rows in found)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damage_raises_and_no_batch_is_counted_twice(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    codecs = data.draw(st.lists(st.sampled_from(CODECS), min_size=1, max_size=8))
    whole = [batch(n * 2, [b"abc"] * 2, codec=codec, producer=n) for n, codec in enumerate(codecs)]
    log = bytearray(b"".join(whole))
    for at in data.draw(st.lists(st.integers(0, len(log) - 1), max_size=4)):
        log[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(log)))
    positions, end = walked(bytes(log[:cut]))
    assert positions == sorted(set(positions))
    assert all(p < end.valid_bytes for p in positions)
    assert 0 <= end.valid_bytes <= cut
    assert len(positions) + end.legacy_batches <= cut // 26
    folder = tmp_path_factory.mktemp("t") / "t-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(log[:cut])
    for kind in ("index", "timeindex", "txnindex"):
        (folder / f"{0:020d}.{kind}").write_bytes(data.draw(st.binary(max_size=80)))
    (folder / "leader-epoch-checkpoint").write_bytes(data.draw(st.binary(max_size=30)))
    (found,) = read(folder, replace(OPTIONS, suspicious_bytes=1))
    assert found.segment["batches"] == len(positions)


def test_a_walk_over_more_than_a_chunk() -> None:
    one = batch(0)
    count = (1 << 16) + 10
    positions, end = walked(one * count + one[:50])
    assert positions == list(range(0, count * len(one), len(one)))
    assert end == WalkResult(count * len(one))


def test_directories_in_log_dirs_that_are_no_partitions(tmp_path: Path) -> None:
    disk = tmp_path / "broker-1" / "data-0"
    write_segment(disk / "t-0", 0, [batch(0)])
    (disk / "meta.properties").write_text("node.id=1\n")
    (tmp_path / "broker-1" / "data-1").mkdir()
    (tmp_path / "broker-1" / "data-1" / "meta.properties").write_text("node.id=1\n")
    (disk / "lost+found").mkdir()
    (disk / "remote-log-index-cache").mkdir()
    (disk / "backup" / "old").mkdir(parents=True)
    (disk / "backup" / "old" / "dump").write_bytes(b"x" * 5_000)
    write_segment(disk / "backup" / "u-0", 0, [batch(0)])
    os.mkdir(os.fsencode(disk) + b"/\xff\xfe-0")
    Path(os.fsdecode(os.fsencode(disk) + b"/\xff\xfe-0/x")).write_bytes(b"y")
    # Folders of log dirs have names like partitions, and are none; a copied folder beside partitions is not foreign.
    write_segment(tmp_path / "u-3", 0, [batch(0)])
    found, backup = list(partitions_below(str(tmp_path), local_files())), (disk / "backup").rglob("*")
    rows = [directory_row(one, local_files(), OPTIONS) for one in found]
    assert [(str(row["path"]).removeprefix(f"{tmp_path}/"), row["role"], row["broker"]) for row in rows] == [
        ("broker-1/data-0/backup", "foreign", 1),
        ("broker-1/data-0/lost+found", "foreign", 1),
        ("broker-1/data-0/t-0", "live", 1),
        ("broker-1/data-0/\\xff\\xfe-0", "foreign", 1),
        ("u-3", "live", None),
    ]
    assert [row["held_bytes"] for row in (rows[0], rows[3])] == [
        sum(f.stat().st_size for f in backup if f.is_file()),
        1,
    ]
    assert all(not list(read_partition(one, local_files(), OPTIONS)) for one in found if one.is_foreign)


def test_names_that_are_not_utf_8_can_be_read_and_stored(tmp_path: Path) -> None:
    from kafkakit.adapters.arrow import ParquetStore
    from kafkakit.fleet.decide import table_columns

    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xffdisk"))
    write_segment(folder / "t-0", 0, [batch(0), batch(1)])
    Path(os.fsdecode(os.fsencode(folder) + b"/t-0/\xfe.txt")).write_bytes(b"?")
    log, other = (each.segment for each in read(folder))
    assert (log["records"], log["fault"], log["log_dir"]) == (2, None, f"{tmp_path}/\\xffdisk")
    assert (other["role"], other["path"]) == ("foreign", f"{tmp_path}/\\xffdisk/t-0/\\xfe.txt")
    ParquetStore(str(tmp_path / "store")).write("segments", "2026-11-20", "a", table_columns("segments", [log, other]))


def test_how_far_the_cleaner_came_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    for name in ("a/t-0", "a/u-0", "b/t-0", "c/t-0"):
        write_segment(tmp_path / name, 0, [batch(0)])
    (tmp_path / "a" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 17\n")
    (tmp_path / "c" / "meta.properties").write_text("node.id=1\n")
    rows = [directory_row(one, local_files(), OPTIONS) for one in partitions_below(str(tmp_path), local_files())]
    assert [row["cleaned_to"] for row in rows] == [17, 0, None, 0]


def test_directories_say_of_which_topic_they_are_and_since_when(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0)])
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    with (tmp_path / "t-0" / f"{1:020d}.index").open("wb") as stream:
        stream.truncate(10 << 20)
    os.utime(tmp_path / "t-0" / "partition.metadata", (1_000, 1_000))
    (tmp_path / "u-0").mkdir()
    os.utime(tmp_path / "u-0", (2_000, 2_000))
    (tmp_path / "u-1").mkdir()
    (tmp_path / "u-1" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n")
    rows = [directory_row(one, local_files(), OPTIONS) for one in partitions_below(str(tmp_path), local_files())]
    ids = [row["topic_id"] for row in rows]
    assert ids == ["00000000-0000-0000-0000-000000000001", None, None]
    assert [row["oldest_ms"] for row in rows[:2]] == [1_000_000, 2_000_000]
    assert (rows[1]["held_bytes"], rows[1]["role"]) == (0, "live")
    assert 0 < int(str(rows[0]["held_bytes"])) < 1 << 20
