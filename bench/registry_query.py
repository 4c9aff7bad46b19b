"""Print how long filters over many topics take, as JSON: `python bench/registry_query.py [TOPICS]`.

`first_ms` makes the columns too, `again_ms` is the middle of nine further runs on them.
"""

import json
import statistics
import sys
import time
from datetime import UTC, datetime

from machine import shape

from kafkakit.core.model import ClusterSnapshot, Partition, TagSet, Topic
from kafkakit.core.query import match_objects, topic_table
from kafkakit.core.query_text import parse_query

QUERIES = (
    "partitions > 100",
    'tier in ("hot", "warm") and not exists(draining) and partitions > 10',
    'name ~ "orders-*"',
    'name ~ "*or?ers*7"',
    "config.retention.ms < 604800000 or bytes >= 10GiB",
    "name > orders-5 and name <= orders-6",
)


def cluster(topics: int) -> ClusterSnapshot:
    kinds = ("orders", "clicks", "payments", "audit")
    names = [f"{kinds[i % 4]}-{i * 7919 % topics}" for i in range(topics)]
    return ClusterSnapshot(
        cluster_id="bench",
        taken_at=datetime(2026, 11, 1, tzinfo=UTC),
        source="bench",
        brokers=(),
        topics=tuple(
            Topic(
                name=name,
                partitions=tuple(
                    Partition(partition=p, replicas=(1, 2, 3), replica_bytes={1: i << 12}) for p in range(1 + i % 4)
                ),
                configs={"retention.ms": str(i * 1000)} if i % 3 else {},
            )
            for i, name in enumerate(names)
        ),
        tags=TagSet(topics={name: {"tier": ("hot", "warm", "cold")[i % 3]} for i, name in enumerate(names) if i % 2}),
    )


def timed_ms(text: str, table: object) -> float:
    started = time.perf_counter()
    match_objects(parse_query(text), table)  # type: ignore[arg-type]
    return (time.perf_counter() - started) * 1000


def main() -> None:
    topics = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    snapshot = cluster(topics)
    rows = []
    for text in QUERIES:
        table = topic_table(snapshot)
        first = timed_ms(text, table)
        again = statistics.median(timed_ms(text, table) for _ in range(9))
        rows.append({"query": text, "first_ms": round(first, 1), "again_ms": round(again, 2)})
    print(json.dumps({"machine": shape(), "topics": topics, "queries": rows}, indent=2))


if __name__ == "__main__":
    main()
