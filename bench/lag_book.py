"""What a lag book costs: key updates a second, memory and time of a measurement for many group-partitions.

Run: python bench/lag_book.py [--rows 100000] [--rounds 20]
Fills a key table, a book and end samples in this process, with KKM1 metadata on every commit, and applies the same
number of updates again in each round. Rates are by CPU time of this process. Prints one JSON object; `memory_mb` is
the growth of this process with all rings filled.
"""

import argparse
import json
import struct
import sys
import time
from pathlib import Path

import numpy as np
from machine import shape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafkakit.streams.lag.decide.measure.book import LagBook
from kafkakit.streams.lag.decide.measure.ends import EndSamples
from kafkakit.streams.lag.decide.measure.table import measure
from kafkakit.streams.lag.decide.views import ViewLevel, view
from kafkakit.streams.lag.service_report import exposition, families
from kafkakit.streams.model.commit import NO_TOPIC_ID, CommitIdentity, CommitState, Watermark
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.offsets_log.commits import CommitColumns, KeyTable

NOW_MS = 1_758_335_260_726
CLUSTER = "bench-cluster-0001"


def rss_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def key_of(row: int) -> tuple[str, str, int]:
    return f"orders-service-{row // 500:05d}", f"payments.live.{row // 50 % 2000:05d}", row % 50


def key_bytes(group: str, topic: str, partition: int) -> bytes:
    words = b"".join(struct.pack(">h", len(w)) + w.encode() for w in (group, topic))
    return b"\0\1" + words + struct.pack(">i", partition)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    rows = given.rows
    state = CommitState(base=1_000_000, watermark=Watermark(oldest_ms=NOW_MS - 5_000, newest_done_ms=NOW_MS - 500))
    identity = CommitIdentity(cluster_id=CLUSTER, topic_id=NO_TOPIC_ID, partition=0, group="g")
    text = encode_commit(state, identity, limit_chars=4095).text.encode()
    before_mb = rss_mb()
    keys, ends = KeyTable(), EndSamples()
    book = LagBook(keys, ends, CLUSTER)
    number = np.array([keys.intern(key_bytes(*key_of(row))) for row in range(rows)], dtype=np.int64)

    def columns(turn: int) -> CommitColumns:
        return CommitColumns(
            key=number,
            offset=np.full(rows, 1_000_000 + turn, dtype=np.int64),
            committed_ms=np.full(rows, NOW_MS + turn * 10_000, dtype=np.int64),
            leader_epoch=np.full(rows, -1, dtype=np.int32),
            at=np.arange(rows, dtype=np.int64),
            topic_id=np.zeros((rows, 16), dtype=np.uint8),
            metadata=[bytes(bytearray(text)) for _ in range(rows)],
        )

    book.apply(columns(0), NOW_MS)
    slots = np.unique(book.slot[book.rows()])
    took, sampling, now = 0.0, 0.0, NOW_MS
    for turn in range(1, given.rounds + 1):
        chunk, now = columns(turn), NOW_MS + turn * 10_000
        start = time.process_time()
        book.apply(chunk, now)
        took += time.process_time() - start
        del chunk
        one = np.full(len(slots), now, dtype=np.int64)
        end = np.full(len(slots), 1_000_000 + 2 * turn, dtype=np.int64)
        start = time.process_time()
        ends.record(slots, before_ms=one, after_ms=one + 5, end=end, stable=end, start=0 * end)
        sampling += time.process_time() - start
    held_mb = rss_mb() - before_mb
    start = time.process_time()
    book.read(book.rows())
    reading = time.process_time() - start
    start = time.process_time()
    table = measure(book, cluster="bench", now_ms=now + 100, commits_as_of_ms=now + 100)
    measuring = time.process_time() - start
    start = time.process_time()
    lines = len(view([table], ViewLevel.GROUP, top=50).lines)
    viewing = time.process_time() - start
    start = time.process_time()
    chars = len(exposition(families([table])))
    exposing = time.process_time() - start
    print(
        json.dumps(
            {
                "rows": rows,
                "topic_partitions": len(slots),
                "updates_per_s": round(rows * given.rounds / took),
                "memory_mb": round(held_mb, 1),
                "memory_with_a_measurement_mb": round(rss_mb() - before_mb, 1),
                "end_samples_per_s": round(len(slots) * given.rounds / sampling),
                "metadata_read_per_s": round(rows / reading),
                "measure_s": round(measuring, 3),
                "view_s": round(viewing, 3),
                "exposition_s": round(exposing, 3),
                "exposition_chars": chars,
                "view_lines": lines,
                "machine": shape(),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
