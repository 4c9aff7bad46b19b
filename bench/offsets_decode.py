"""Decoding `__consumer_offsets` from raw bytes: records a second in one process, nothing but memory involved.

Run: python bench/offsets_decode.py [--records N] [--shapes plain/1 ...]. Each shape runs in a process of its own. A
shape is a kind and its records to a batch: `plain` is what 4.1 brokers write (v4, no topic id), `rich` carries a topic
id and 60 characters of metadata, `v3` is what 3.9 writes, `txn` are transactions of one batch each with their markers,
and `zstd` is compressed. 100,000 keys commit in turns; buffers are of about 1 MiB as a fetch brings them. Decoding,
key lookup and the choice of each key's newest commit are counted; writing the batches is not. Prints one JSON object.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from machine import shape as machine_shape

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.streams.model.offsets_log.commits import KeyTable
from kafkakit.streams.model.offsets_log.feed import OffsetsFeed
from tests.clusters.streams_batches import Rec, batch, marker, offset_key, offset_value

SHAPES = ("plain/1", "plain/10", "plain/2000", "rich/10", "v3/10", "txn/10", "zstd/2000")
ASKED = {"records_per_s": 1_000_000}
KEYS = 100_000
BUFFER_BYTES = 1 << 20


def keys_of(count: int) -> list[bytes]:
    """Keys of 200 groups that read topics of 50 partitions."""
    return [offset_key(f"payments-service-{i % 200:03}", f"orders.v{i // 10_000}", i // 200) for i in range(count)]


def value_of(kind: str, offset: int) -> bytes:
    if kind == "v3":
        return offset_value(offset, version=3, leader_epoch=7)
    if kind == "rich":
        return offset_value(offset, version=4, metadata="~b" + "A" * 58, topic_id=bytes(range(16)))
    return offset_value(offset, version=4)


def buffers_of(shape: str, records: int) -> list[bytes]:
    """Raw buffers of about a mebibyte that hold so many records."""
    kind, _, size = shape.partition("/")
    in_batch = int(size)
    keys = keys_of(KEYS)
    buffers: list[bytes] = []
    parts: list[bytes] = []
    length = offset = made = 0
    while made < records:
        many = [Rec(keys[(made + i) % KEYS], value_of(kind, made), delta_ms=i % 100) for i in range(in_batch)]
        made += in_batch
        if kind == "txn":
            producer = (made % 1000, 0)
            part = batch(offset, many, transactional=True, producer=producer)
            part += marker(offset + in_batch, producer, commits=True)
            offset += 1
        else:
            part = batch(offset, many, codec="zstd" if kind == "zstd" else "none")
        offset += in_batch
        parts.append(part)
        length += len(part)
        if length >= BUFFER_BYTES:
            buffers.append(b"".join(parts))
            parts, length = [], 0
    return [*buffers, b"".join(parts)]


def one(shape: str, records: int) -> dict[str, object]:
    """Decode one shape in this process, twice: the second pass finds all keys known, as a running monitor does."""
    buffers = buffers_of(shape, records)
    table = KeyTable()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, cpu = [], []
    rows = 0
    for _ in range(2):
        feed = OffsetsFeed(0, table)
        began, began_cpu = time.perf_counter(), time.process_time()
        rows = 0
        for buffer in buffers:
            columns, facts = feed.feed(buffer)
            rows += len(columns)
            assert not facts.counts.undecodable + facts.counts.unreadable_batches, facts.counts.first_reason
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    assert len(table) == min(KEYS, records)
    return {
        "records": records,
        "mebibytes": round(sum(map(len, buffers)) / (1 << 20), 1),
        "rows_given": rows,
        "records_per_s_new_keys": round(records / seconds[0]),
        "records_per_s": round(records / seconds[1]),
        "records_per_cpu_s": round(records / cpu[1]),
        "records_per_cpu_s_new_keys": round(records / cpu[0]),
        "grown_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
        "asked": ASKED,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), help="kind/records in a batch")
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.records)))
        return
    results = {}
    for shape in options.shapes:
        command = [sys.executable, __file__, "--one", shape, "--records", str(options.records)]
        results[shape] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(json.dumps({"bench": "offsets_decode", "results": results, "machine": machine_shape()}, indent=2))


if __name__ == "__main__":
    main()
