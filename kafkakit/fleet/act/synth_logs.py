"""Writes made log dirs: small ones with defects, and large ones of one batch repeated."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from kafkakit.fleet.decide.log_writer import Batch, repeated
from kafkakit.fleet.decide.synth_logs import log_dir

SEGMENT_BYTES = 1 << 30
SPARSE_BATCH_BYTES = 1 << 20
_VALUES = 10
_VALUE_BYTES = 590
MIB = 1 << 20


def write_log_dir(
    folder: Path, defects: Mapping[str, int], seed: int, end_ms: int, write_file: Callable[[Path, bytes], None]
) -> int:
    """Write the files with the times that a broker's would have; returns how many."""
    files = log_dir(defects, seed, end_ms)
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, file.data)
        os.utime(path, ns=(file.mtime_ms * 1_000_000, file.mtime_ms * 1_000_000))
    return len(files)


def write_large(folder: Path, mib: int, end_ms: int, *, is_sparse: bool) -> int:
    """Write partitions of one segment of up to 1 GiB each, `mib` in all; returns how many batches.

    Batches have 6 kB, or 1 MiB of which all but the header is a hole.
    """
    batches = 0
    for number, begin in enumerate(range(0, mib * MIB, SEGMENT_BYTES)):
        path = folder / f"large-{number}" / f"{0:020d}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        batch = Batch(base_offset=0, first_ms=end_ms - 60_000, values=[bytes(_VALUE_BYTES)] * _VALUES)
        length = SPARSE_BATCH_BYTES if is_sparse else len(next(repeated(batch, 1))[1])
        count = min(SEGMENT_BYTES, mib * MIB - begin) // length
        with path.open("wb") as stream:
            for at, block in repeated(batch, count, SPARSE_BATCH_BYTES if is_sparse else 0):
                stream.seek(at)
                stream.write(block)
            stream.truncate(count * length)
        batches += count
    return batches
