"""Segment files: how fast batch headers become rows, through Spark's data source and in one process.

Run: python bench/segment_scan.py [--gigabytes 1] [--sparse-gigabytes 200]. Prints one JSON object. The tree is made in
a temporary folder and removed: segments of 64 MiB with batches of 6 KB, read once before anything is timed. `spark` is
a query over two tasks without the session's start, the best of three; `bare_loop` a position loop with struct over the
same bytes in this process, times two for two cores; `sparse` the same query over files of which most is holes.
"""

import argparse
import json
import mmap
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "spark")]

from machine import shape as machine_shape  # noqa: E402

from kafkakit.adapters.files import local_files  # noqa: E402
from kafkakit.streams.model.log_dirs import partitions_below  # noqa: E402
from kafkakit.streams.model.segment_rows import ScanOptions, read_partition  # noqa: E402

GOALS = {"batches_per_second": 800_000, "times_bare_loop": 1.5}
HEADER = struct.Struct(">qiibIhiqqqhii")
BATCH_BYTES, SEGMENT_BYTES = 6_000, 64 << 20
SPARSE_STEP = 1 << 20
PARTITIONS = 8


def header(offset: int, size: int) -> bytes:
    """The header of a batch of ten records; its checksum is not looked at."""
    return HEADER.pack(offset, size - 12, 0, 2, 0, 0, 9, 1_700_000_000_000, 1_700_000_000_009, -1, -1, -1, 10)


def make_tree(root: Path, gigabytes: float) -> None:
    """Segments over eight partitions, full of random bytes."""
    body = os.urandom(BATCH_BYTES - HEADER.size)
    for number in range(max(round(gigabytes * (1 << 30) / SEGMENT_BYTES), 1)):
        first = number // PARTITIONS * (SEGMENT_BYTES // BATCH_BYTES) * 10
        with segment(root, number % PARTITIONS, first).open("wb") as stream:
            for n in range(SEGMENT_BYTES // BATCH_BYTES):
                stream.write(header(first + 10 * n, BATCH_BYTES) + body)


def make_sparse_tree(root: Path, gigabytes: float) -> None:
    """Segments of 1 GiB whose batches have a megabyte each, of which the header alone is written."""
    steps = (1 << 30) // SPARSE_STEP
    for number in range(round(gigabytes)):
        first = number // PARTITIONS * steps * 10
        with segment(root, number % PARTITIONS, first).open("wb") as stream:
            for n in range(steps):
                stream.seek(n * SPARSE_STEP)
                stream.write(header(first + 10 * n, SPARSE_STEP))
            stream.truncate(1 << 30)


def segment(root: Path, partition: int, base: int) -> Path:
    """The path of a log, in a folder that exists."""
    folder = root / f"bench-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{base:020d}.log"


def bare_loop(root: Path) -> int:
    """Positions and all fields of each header, and nothing made of them."""
    count = 0
    unpack, size = HEADER.unpack_from, HEADER.size
    for path in sorted(root.glob("*/*.log")):
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at, end = 0, len(data)
            while at + size <= end:
                at += unpack(data, at)[1] + 12
                count += 1
    return count


def plain_reader(root: Path, *, crc: bool = False) -> int:
    """The rows of the reader that the command uses."""
    options = ScanOptions(with_crc=crc, with_batches=False)
    rows = (r for p in partitions_below(str(root), local_files()) for r in read_partition(p, local_files(), options))
    return sum(int(str(row.segment["batches"])) for row in rows)


def timed(work: Callable[[], int], times: int = 3) -> dict[str, float]:
    """Batches a second, the best of a few."""
    seconds, count = [], 0
    for _ in range(times):
        began = time.perf_counter()
        count = work()
        seconds.append(time.perf_counter() - began)
    best = min(seconds)
    return {"batches": count, "seconds": round(best, 3), "batches_per_second": round(count / best)}


def open_spark() -> Any:
    """A session with two workers that find the code."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "spark"), str(ROOT)])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from kafkakit_spark.jobs.segments import SegmentSource
    from kafkakit_spark.runner import open_session

    session = open_session("bench", master="local[2]")
    session.dataSource.register(SegmentSource)
    return session


def spark_query(session: Any, root: Path) -> int:
    """The sum of batches over the data source, with as many tasks as cores."""
    frame = session.read.format("kafka_segments").option("paths", json.dumps([str(root)]))
    total = sum(path.stat().st_size for path in root.glob("*/*.log"))
    rows = frame.option("task_bytes", str(-(-total // 2))).load().agg({"batches": "sum"}).collect()
    return int(rows[0][0])


def figures(folder: Path, gigabytes: float, sparse_gigabytes: float) -> Iterator[tuple[str, object]]:
    """The figures by name, each as it is measured."""
    full, sparse = folder / "full", folder / "sparse"
    make_tree(full, gigabytes)
    make_sparse_tree(sparse, sparse_gigabytes)
    bare_loop(full)
    bare = timed(lambda: bare_loop(full))
    yield "bare_loop", bare
    yield "plain_reader", timed(lambda: plain_reader(full))
    yield "plain_reader_with_crc", timed(lambda: plain_reader(full, crc=True), 1)
    session = open_spark()
    try:
        spark_query(session, full)
        found = timed(lambda: spark_query(session, full))
        yield "spark", found
        yield "times_bare_loop", round(2 * bare["batches_per_second"] / found["batches_per_second"], 2)
        if sparse_gigabytes:
            yield "sparse", timed(lambda: spark_query(session, sparse))
    finally:
        session.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How fast segment files are read.")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--sparse-gigabytes", type=float, default=200.0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="segment-scan-"))
    try:
        found = dict(figures(folder, given.gigabytes, given.sparse_gigabytes))
    finally:
        shutil.rmtree(folder)
    shape = {"gigabytes": given.gigabytes, "sparse_gigabytes": given.sparse_gigabytes}
    print(json.dumps({"machine": machine_shape(), **shape, "goals": GOALS, **found}, indent=1))


if __name__ == "__main__":
    main()
