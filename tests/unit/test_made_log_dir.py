"""Made log dirs: what kafka-python and our own reader see in them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.record.memory_records import MemoryRecords

from kafkakit.streams.model.log_dirs import FileReader, SeenFile, partitions_below
from kafkakit.streams.model.segment_rows import ScanOptions, read_partition
from tests.made_fleet.log_dir import FILE_DEFECTS, Batch, MadeFile, batch_bytes, log_dir

END_MS = 1_795_219_200_000
DAY_MS = 86_400_000
# Of each defect the column that shows it, in sum over the partition's segments.
SHOWN = {
    "offset-gap": {"offset_gaps": 1},
    "offset-overlap": {"overlaps": 1},
    "epoch-regression": {"epoch_regressions": 1, "epoch_faults": 1},
    "bad-crc": {"crc_failures": 1},
    "bad-index": {"index_faults": 1},
}
FAULTS = (
    "torn_bytes", "offset_gaps", "missing_records", "overlaps", "epoch_regressions", "epoch_faults", "crc_failures",
    "index_faults", "time_index_faults", "dead_bytes", "legacy_batches", "missing_times",
)  # fmt: skip
Row = dict[str, object]


def reader_of(files: tuple[MadeFile, ...]) -> FileReader:
    data = {f"/logs/{f.path}": f for f in files}

    def listing(folder: str) -> list[SeenFile]:
        found = {}
        for path, file in data.items():
            if path.startswith(f"{folder}/"):
                name, _, below = path[len(folder) + 1 :].partition("/")
                found[name] = SeenFile(name, len(file.data), file.mtime_ms, is_dir=bool(below))
        return list(found.values())

    @contextmanager
    def mapped(path: str, size: int, may_shrink: bool) -> Iterator[memoryview]:
        del may_shrink
        yield memoryview(data[path].data)[:size]

    def content(path: str) -> bytes:
        if path not in data:
            raise FileNotFoundError(path)
        return data[path].data

    return FileReader(listing, mapped, content)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    """The rows of each partition by topic, with checksums looked at."""
    reader = reader_of(log_dir(dict.fromkeys(FILE_DEFECTS, 1), 1, END_MS))
    found: dict[str, list[Row]] = {}
    for partition in partitions_below("/logs", reader):
        read = list(read_partition(partition, reader, ScanOptions(with_crc=True, seen_at_ms=END_MS)))
        assert partition.cluster == "kafka-logs"
        assert partition.broker == 1
        assert partition.name is not None
        found[partition.name.topic] = [
            {**one.segment, "largest": max((int(str(b["decompressed_bytes"])) for b in one.batches), default=0)}
            for one in read
        ]
    return found


def total(rows: list[Row], column: str) -> int:
    return sum(int(str(row.get(column) or 0)) for row in rows)


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_healthy_partitions_have_no_fault(rows: dict[str, list[Row]], codec: str) -> None:
    mine = rows[f"healthy-{codec}"]
    assert {column: total(mine, column) for column in FAULTS} == dict.fromkeys(FAULTS, 0)
    assert [row["role"] for row in mine] == ["log"] * 3
    assert total(mine, f"{codec}_batches") == total(mine, "batches") == 72
    assert total(mine, "records") == 720
    assert total(mine, "index_entries") > 0 or codec != "none"
    assert all(row["open_txn_since_ms"] is None and row["fault"] is None for row in mine)
    assert mine[-1]["max_ms"] <= END_MS  # type: ignore[operator]


@pytest.mark.parametrize("name", SHOWN)
def test_each_defect_shows_in_its_column_alone(rows: dict[str, list[Row]], name: str) -> None:
    mine = rows[f"{name}.0"]
    found = {column: total(mine, column) for column in FAULTS if total(mine, column)}
    assert found == SHOWN[name]


def test_the_other_defects_show(rows: dict[str, list[Row]]) -> None:
    assert total(rows["torn-tail.0"], "torn_bytes") > 0
    assert not next(row for row in rows["torn-tail.0"] if row["torn_bytes"])["is_active"]
    assert [row["role"] for row in rows["foreign-file.0"]] == ["log", "log", "log", "foreign"]
    assert [row["role"] for row in rows["stale-deleted.0"]] == ["log", "log", "log", "deleted"]
    assert {row["role"] for row in rows["stray-dir.0"]} == {"stray"}
    assert total(rows["stray-dir.0"], "dead_bytes") > 0
    assert rows["hanging-transaction.0"][1]["open_txn_since_ms"] is not None
    assert max(int(str(row["max_ms"])) for row in rows["future-timestamps.0"]) > END_MS + 20 * DAY_MS
    assert max(int(str(row["largest"])) for row in rows["zstd-bomb.0"]) >= 64 << 20
    assert max(int(str(row["largest"])) for row in rows["healthy-zstd"]) < 1 << 20


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_kafka_python_reads_what_is_written(codec: str) -> None:
    batch = Batch(base_offset=7, first_ms=END_MS, values=[b"one", b"", b"three" * 50], codec=codec, epoch=2, producer=5)
    found = MemoryRecords(batch_bytes(batch))
    records = found.next_batch()
    assert records.validate_crc()
    assert [(r.offset, r.timestamp, bytes(r.value)) for r in records] == [
        (7 + i, END_MS + 1_000 * i, value) for i, value in enumerate(batch.values)
    ]
    assert not found.has_next()


def test_the_same_seed_writes_the_same_files() -> None:
    assert log_dir({}, 3, END_MS) == log_dir({}, 3, END_MS)
    assert log_dir({}, 3, END_MS) != log_dir({}, 4, END_MS)
