"""kafka-kit's recorded answers to count requests: ours may be no worse on any of them.

The records lie beside the project, not in it; without them the test skips. It prints the totals of both.
"""

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, Partition
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.requests import RebuildRequest
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import breaks_rack_rule, verify_plan
from tests.places import SHARED

RECORDS = SHARED / "peer-results" / "topicmappr-rebuild.jsonl.gz"
MEASURES = ("rack violations", "duplicates", "unplaced replicas", "moved replicas", "range of counts", "sum of squares")


def _count_requests() -> list[dict[str, Any]]:
    with gzip.open(RECORDS, "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["request"]["placement"] == "count"]


def _snapshot(row: Mapping[str, Any]) -> ClusterSnapshot:
    lists: dict[str, dict[int, list[int]]] = {}
    for topic, partition, replicas in row["before"]:
        lists.setdefault(topic, {})[partition] = replicas
    return make_snapshot(
        (Broker(id=int(b), rack=r or None) for b, r in sorted(row["racks"].items())),
        {
            t: [Partition(partition=n, replicas=tuple(r)) for n, r in sorted(rows.items())]
            for t, rows in sorted(lists.items())
        },
        sizes_taken=False,
    )


def _measure(row: Mapping[str, Any], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> dict[str, int]:
    racks = {int(b): r or None for b, r in row["racks"].items()}
    minimum = row["request"]["min_rack_ids"]
    loads = Counter(b for replicas in after for b in replicas)
    counts = [loads[b] for b in row["request"]["brokers"]]
    values = (
        sum(breaks_rack_rule(replicas, racks, minimum) for replicas in after),
        sum(len(set(replicas)) != len(replicas) for replicas in after),
        sum(len(old) - len(new) for old, new in zip(before, after, strict=True)),
        sum(len(set(new) - set(old)) for old, new in zip(before, after, strict=True)),
        max(counts) - min(counts),
        sum(n * n for n in counts),
    )
    return dict(zip(MEASURES, values, strict=True))


@pytest.mark.skipif(not RECORDS.exists(), reason="the peer's records are not beside this checkout")
def test_no_worse_than_kafka_kit_on_any_count_request(capsys: pytest.CaptureFixture[str]) -> None:
    totals = {"kafka-kit": Counter[str](), "kafkakit": Counter[str]()}
    better: Counter[str] = Counter()
    rows = _count_requests()
    assert len(rows) == 86
    for number, row in enumerate(rows):
        requested = row["request"]
        snapshot = _snapshot(row)
        words = {"min-rack-ids": str(requested["min_rack_ids"])}
        words |= {"force-rebuild": "true"} if requested["force_rebuild"] else {}
        request = RebuildRequest(
            brokers=BrokerList(ids=tuple(requested["brokers"])),
            topics=(".*",),
            force_rebuild=requested["force_rebuild"],
            min_rack_ids=requested["min_rack_ids"],
            words=words,
        )
        decided = decide_rebuild(snapshot, request)
        verify_plan(
            json.loads(encode_plan(decided.plan)),
            json.loads(encode_snapshot(snapshot)),
            allow_unplaced=any(decided.unplaced),
        )
        theirs = {(t, p): replicas for t, p, replicas in row["topicmappr"]["after"]}
        peer = _measure(row, decided.before, [theirs[p.key] for p in decided.scope.partitions])
        ours = _measure(row, decided.before, decided.after)
        for name in MEASURES:
            assert ours[name] <= peer[name], (
                f"request {number}: {name} {ours[name]}, kafka-kit {peer[name]}: {requested}"
            )
            better[name] += ours[name] < peer[name]
        totals["kafka-kit"].update(peer)
        totals["kafkakit"].update(ours)
    with capsys.disabled():
        print(f"\n{len(rows)} count requests: kafka-kit -> kafkakit (better on n requests, worse on none)")
        for name in MEASURES:
            print(f"  {name}: {totals['kafka-kit'][name]} -> {totals['kafkakit'][name]} ({better[name]})")
