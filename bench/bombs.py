"""Bombs: how long a verdict takes, what it needs of memory, and how fast ordinary batches pass.

Run: python bench/bombs.py [--megabytes 256]. Prints one JSON object. `verdict_ms` is the median and the worst of 200
verdicts on a batch that holds 1 GiB of zeros, as libzstd's stream writes it; `peak_bytes` what Python allocated
meanwhile; `blocks_ms` the same for the most blocks that are walked, empty ones that bound nothing. `walk` is the rate
of reading batches of several sizes with a verdict on each, in MB of log a second, beside the rate of the walk alone.
"""

import argparse
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from machine import shape as machine_shape  # noqa: E402

from kafkakit.streams.model.binary import HEADER, HEADER_BYTES  # noqa: E402
from kafkakit.streams.model.guarded_reads import MOST_BLOCKS, batch_verdict, verdicts_of  # noqa: E402
from kafkakit.streams.model.log_batches import Batch, Codec, batches_of  # noqa: E402

GOALS = {"verdict_ms": 10, "peak_bytes": 1 << 20}
LIMIT = 100_000_000
TIMES = 200
READ = 1 << 20


def batch(body: bytes, codec: Codec, base: int = 0) -> bytes:
    """A batch of ten records with these bytes as they are."""
    return HEADER.pack(base, HEADER_BYTES - 12 + len(body), 0, 2, 0, codec, 9, 0, 0, -1, -1, -1, 10) + body


def bomb() -> bytes:
    """A streaming frame of 1 GiB of zeros."""
    writer = zstandard.ZstdCompressor(level=3).compressobj()
    piece = bytes(1 << 20)
    return batch(b"".join(writer.compress(piece) for _ in range(1024)) + writer.flush(), Codec.ZSTD)


def verdict_figures(data: bytes) -> dict[str, object]:
    """Times and memory of verdicts on one batch."""
    (item,) = batches_of(data)
    assert isinstance(item, Batch)
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        found = batch_verdict(data, item, LIMIT)
        took.append(1000 * (time.perf_counter() - began))
    tracemalloc.start()
    batch_verdict(data, item, LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "batch_bytes": len(data),
        "at_most_bytes": found.at_most_bytes,
        "verdict": found.kind.value,
        "verdict_ms": {"median": round(statistics.median(took), 2), "worst": round(max(took), 2)},
        "peak_bytes": peak,
    }


def rate(buffer: bytes, walk: Callable[[bytes], Any]) -> float:
    """MB of log a second, the best of three."""
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        for at in range(0, len(buffer), READ):
            for _item in walk(buffer[at : at + READ]):
                pass
        best = max(best, len(buffer) / 1e6 / (time.perf_counter() - began))
    return round(best, 1)


def log_of(size: int, codec: Codec, megabytes: int) -> bytes:
    """Whole batches of about this size, as many as one read holds, again and again."""
    text = b"".join(b'{"order": %d, "paid": true}\n' % n for n in range(size * 8 // 27 + 1))
    body = text[:size] if codec is Codec.NONE else zstandard.ZstdCompressor(write_content_size=False).compress(text)
    one = batch(body, codec)
    whole = READ // len(one)
    made = bytearray()
    for n in range(whole):
        made += batch(body, codec, 10 * n)
    return bytes(made.ljust(READ, b"\0")) * megabytes


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How fast batches are judged.")
    parser.add_argument("--megabytes", type=int, default=256)
    given = parser.parse_args()
    empty = b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3) * MOST_BLOCKS
    walk = {}
    for size in (150, 1_000, 16_000, 100_000):
        for codec in (Codec.NONE, Codec.ZSTD):
            buffer = log_of(size, codec, given.megabytes if size > 1_000 else max(1, given.megabytes // 8))
            walk[f"{codec.name.lower()}-{size}"] = {
                "batches_in_a_read": sum(isinstance(item, Batch) for item in batches_of(buffer[:READ])),
                "with_verdicts_mb_s": rate(buffer, lambda read: verdicts_of(read, 0, LIMIT)),
                "headers_mb_s": rate(buffer, batches_of),
            }
    figures = {"bomb": verdict_figures(bomb()), "blocks": verdict_figures(batch(empty, Codec.ZSTD)), "walk": walk}
    print(json.dumps({"machine": machine_shape(), "goals": GOALS, **figures}, indent=1))


if __name__ == "__main__":
    main()
