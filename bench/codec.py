"""Commit metadata: sizes and times of KKM1 for known patterns, and how fast a `DoneSet` takes marks.

Run: python bench/codec.py [--patterns 3 ...]. Prints one JSON object. The patterns are random sets drawn with a fixed
seed, so their sizes differ a little from other draws of the same shape. `table` are the figures that were estimated
when the format was designed, and those of parallel-consumer for such patterns (chars of base64, `dropped` above 4096).
The estimates leave out tag, length and span of the RANGES section (`framing_bytes`) and count the rest. Lossless is
what fits 4095 characters; `forgotten` is the part of acknowledgements that coarsening drops where nothing else fits.
"""

import argparse
import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from machine import shape as machine_shape

from kafkakit.streams.model.binary import uvarint_size
from kafkakit.streams.model.commit import CommitIdentity, CommitState, OffsetRanges, RouteMark, Watermark
from kafkakit.streams.model.done_set import DoneSet
from kafkakit.streams.model.kkm1.decode import read_kkm1
from kafkakit.streams.model.kkm1.encode import encode_commit

BASE = 1_000_000_000
LIMIT = 4095
MARKS = 1_000_000
ASKED = {"marks_per_second": 1_000_000}
IDENTITY = CommitIdentity(cluster_id="prod-a-0001", topic_id=bytes(range(16)), partition=3, group="orders")
WATERMARK = Watermark(oldest_ms=1758335260726, newest_done_ms=1758335261226)


@dataclass(frozen=True)
class Table:
    """The designers' estimate, and parallel-consumer's length."""

    raw_bytes: int
    b_chars: int
    w_chars: int
    peer_chars: int


def holes(count: int, span: int) -> OffsetRanges:
    """So many single pending offsets, the first at base, among `span`."""
    drawn = random.Random(7).sample(range(1, span - 1), count - 1)
    return OffsetRanges(((BASE, BASE + span),)).minus(OffsetRanges.of((BASE + n, BASE + n + 1) for n in [0, *drawn]))


def windows(count: int, length: int, span: int) -> OffsetRanges:
    """So many pending windows, the first at base, that do not touch."""
    places = sorted(random.Random(7).sample(range(1, span - count * length), count - 1))
    starts = [0, *(place + length * (n + 1) for n, place in enumerate(places))]
    return OffsetRanges(((BASE, BASE + span),)).minus(OffsetRanges.of((BASE + n, BASE + n + length) for n in starts))


PATTERNS: dict[str, tuple[Callable[[], OffsetRanges], Table]] = {
    "nothing above base": (OffsetRanges, Table(19, 28, 0, 0)),
    "1 poison, 49,994 done": (lambda: holes(1, 49_995), Table(29, 41, 18, 12)),
    "600k untouched, 300k live": (lambda: windows(1, 600_000, 900_000), Table(31, 44, 19, 12)),
    "100 in flight over 1,000": (lambda: holes(100, 1_000), Table(95, 129, 53, 172)),
    "20 outages x 5,000 over 2 M": (lambda: windows(20, 5_000, 2_000_000), Table(108, 146, 60, 216)),
    "1,000 in flight over 10,000": (lambda: holes(1_000, 10_000), Table(683, 913, 367, 960)),
    "1 % failed over 100,000": (lambda: holes(1_000, 100_000), Table(1_151, 1_537, 616, 1_952)),
    "0.2 % failed over 1,000,000": (lambda: holes(2_000, 1_000_000), Table(2_898, 3_866, 1_548, 5_248)),
    "1 of 8 random over 40,000": (lambda: holes(5_000, 40_000), Table(2_891, 3_857, 1_544, 3_944)),
    "50 % random over 24,000": (lambda: holes(12_000, 24_000), Table(3_025, 4_036, 1_616, 4_008)),
    "50 % random over 60,000": (lambda: holes(30_000, 60_000), Table(7_525, 10_036, 4_016, 10_008)),
    "0.2 % failed over 2,500,000": (lambda: holes(5_000, 2_500_000), Table(7_201, 9_604, 3_843, 12_832)),
    "1 % failed over 400,000": (lambda: holes(4_000, 400_000), Table(0, 0, 0, 0)),
}


def measured(pattern: str) -> dict[str, object]:
    """Sizes and times of one pattern in both alphabets."""
    make, table = PATTERNS[pattern]
    done = make()
    state = CommitState(base=BASE, done=done, watermark=WATERMARK, route=RouteMark(epoch=7, segment=2))
    wide = encode_commit(state, IDENTITY, limit_chars=100_000)
    framing = 1 + uvarint_size(wide.raw_bytes - 19) + uvarint_size(state.end - BASE) if done else 0
    facts: dict[str, object] = {
        "islands": len(done.ranges),
        "encoding": wide.encoding + (" in zstd" if wide.is_compressed else ""),
        "raw_bytes": wide.raw_bytes,
        "framing_bytes": framing,
        "estimated_raw_bytes": table.raw_bytes or None,
        "more_than_estimated": wide.raw_bytes - framing - table.raw_bytes if table.raw_bytes else None,
        "parallel_consumer_chars": table.peer_chars or None,
        "parallel_consumer_drops": table.peer_chars > 4096,
    }
    for alphabet, estimated in (("b", table.b_chars), ("w", table.w_chars)):
        encoded = encode_commit(state, IDENTITY, limit_chars=LIMIT, alphabets=(alphabet,))
        assert read_kkm1(encoded.text, BASE, IDENTITY).state == encoded.written
        facts[alphabet] = {
            "chars": encoded.chars,
            "estimated_chars": estimated or None,
            "lossless": not encoded.is_lossy,
            "forgotten": round(encoded.forgotten / max(done.count, 1), 3),
            "encode_cpu_ms": timed(partial(encode_commit, state, IDENTITY, limit_chars=LIMIT, alphabets=(alphabet,))),
            "decode_cpu_ms": timed(partial(read_kkm1, encoded.text, BASE, IDENTITY)),
        }
    return facts


def timed(call: Callable[[], object]) -> float:
    """The median of a few calls in milliseconds of CPU (a busy machine changes them least), the first left out."""
    call()
    seconds: list[float] = []
    while len(seconds) < 5 or (sum(seconds) < 0.05 and len(seconds) < 200):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return round(statistics.median(seconds) * 1000, 3)


def orders() -> dict[str, Sequence[int]]:
    """A million offsets each: in order, shuffled within windows of ten thousand, and from the highest down."""
    shuffled: list[int] = []
    for start in range(0, MARKS, 10_000):
        window = list(range(start, start + 10_000))
        random.Random(start).shuffle(window)
        shuffled += window
    return {"in order": range(MARKS), "random in a window": shuffled, "reverse": range(MARKS - 1, -1, -1)}


def marks() -> dict[str, object]:
    """Single marks a second, the best of three, and the memory of a set with every other offset done."""
    speeds: dict[str, object] = {}
    for name, offsets in orders().items():
        best = 0.0
        for _ in range(3):
            done = DoneSet(0)
            mark = done.mark
            began = time.perf_counter()
            for offset in offsets:
                mark(offset)
            best = max(best, MARKS / (time.perf_counter() - began))
            assert done.base == MARKS
        speeds[name] = round(best)
    tracemalloc.start()
    done = DoneSet(0)
    for offset in range(1, 2 * MARKS, 2):
        done.mark(offset)
    assert done.count == MARKS
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    began = time.perf_counter()
    done.ranges()
    seconds = time.perf_counter() - began
    scattered = {"marks": MARKS, "memory_mib": round(size / 2**20, 2), "ranges_seconds": round(seconds, 2)}
    return {"marks_per_second": speeds, "every_other_offset": scattered, "asked": ASKED}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patterns", nargs="*", type=int, default=range(len(PATTERNS)), help="numbers from 0")
    options = parser.parse_args()
    names = [list(PATTERNS)[number] for number in options.patterns]
    results = {"patterns": {name: measured(name) for name in names}, "done_set": marks()}
    print(json.dumps({"bench": "codec", "results": results, "machine": machine_shape()}, indent=2))


if __name__ == "__main__":
    main()
