"""Pathways: what a checkpoint costs an application, in us of CPU of one core, and how large header and sketch are.

Run: python bench/pathways.py [--number 50000]. Prints one JSON object. Each time is the best of five runs, that of a
service whose edges have been seen before: hashes of nodes are kept.
"""

import argparse
import json
import time
import timeit
from collections.abc import Callable

from machine import shape as machine_shape

from kafkakit.streams.model.pathways import (
    DDSketch,
    PathwayBuckets,
    PathwayNode,
    checkpoint_in,
    checkpoint_out,
    consume_tags,
    produce_tags,
)

NOW = 1_700_000_000_000
NODE = PathwayNode("billing", "prod")
ASKED = {"checkpoint_us": 5, "header_chars": 28}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=50_000)
    number = parser.parse_args().number
    out_tags, in_tags = produce_tags("orders"), consume_tags("orders", "billing")
    headers, _, point = checkpoint_out(NODE, None, out_tags, NOW)
    carried = (("trace", b"abc"), *headers)
    buckets, spread = PathwayBuckets(), DDSketch()
    for ms in range(1, 60_000):
        spread.add(ms / 1000)

    def us(step: Callable[[], object]) -> float:
        return round(min(timeit.repeat(step, number=number, repeat=5, timer=time.process_time)) / number * 1e6, 2)

    print(
        json.dumps(
            {
                "machine": machine_shape(),
                "asked": ASKED,
                "checkpoint_out_us": us(lambda: checkpoint_out(NODE, None, out_tags, NOW)),
                "checkpoint_in_us": us(lambda: checkpoint_in(NODE, carried, in_tags, NOW + 1234)),
                "point_into_bucket_us": us(lambda: buckets.add(point)),
                "header_chars": len(headers[0][1]),
                "sketch_1ms_to_60s_bytes": len(spread.encode()),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
