"""kafka-kit's recorded answers to storage requests: ours may be no worse on any of them.

The records lie beside the project, not in it; without them the test skips. It prints the totals of both. Free bytes
of both sides are added up here in one way: what leaves a broker gives its size back, what arrives takes its size
times the factor, what stays changes nothing.
"""

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, Partition
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import OptimizeFor, PlaceBy
from kafkakit.topicmappr.decide.rebuild import Rebuild, decide_rebuild
from kafkakit.topicmappr.decide.rebuild_bytes import even_leaders
from kafkakit.topicmappr.decide.requests import RebuildRequest
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import breaks_rack_rule, verify_plan
from tests.invariants.storage_rebuild import verify_storage_rebuild
from tests.places import SHARED

RECORDS = SHARED / "peer-results" / "topicmappr-rebuild.jsonl.gz"
SCALE = 28
"""The records' sizes are sevenths, and the factors quarters: times 28 all are whole numbers."""
Lists = Sequence[Sequence[int]]


def storage_requests() -> list[dict[str, Any]]:
    with gzip.open(RECORDS, "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["request"]["placement"] == "storage"]


def snapshot_of(row: Mapping[str, Any]) -> ClusterSnapshot:
    lists: dict[str, list[Partition]] = {}
    for topic, partition, replicas in row["before"]:
        size = round(row["partition_size"][topic][str(partition)] * SCALE)
        lists.setdefault(topic, []).append(
            Partition(partition=partition, replicas=tuple(replicas), size_bytes=size),
        )
    return make_snapshot(
        (
            Broker(id=int(b), rack=r or None, storage_free_bytes=round(row["storage_free"][b] * SCALE))
            for b, r in sorted(row["racks"].items())
        ),
        dict(sorted(lists.items())),
    )


def request_of(row: Mapping[str, Any]) -> RebuildRequest:
    requested = row["request"]
    words = {
        "command": "topicmappr rebuild",
        "placement": "storage",
        "optimize": requested["optimize"],
        "partition-size-factor": str(requested["partition_size_factor"]),
        "min-rack-ids": str(requested["min_rack_ids"]),
    }
    words |= {"force-rebuild": "true"} if requested["force_rebuild"] else {}
    return RebuildRequest(
        brokers=BrokerList(ids=tuple(requested["brokers"])),
        topics=(".*",),
        force_rebuild=requested["force_rebuild"],
        min_rack_ids=requested["min_rack_ids"],
        placement=PlaceBy.STORAGE,
        optimize=OptimizeFor(requested["optimize"]),
        partition_size_factor=Fraction(str(requested["partition_size_factor"])),
        words=words,
    )


class Side:
    """One side's answer, measured; of `placed` are what it placed, of `after` what brokers hold then."""

    def __init__(self, row: Mapping[str, Any], decided: Rebuild, after: Lists, placed: Lists) -> None:
        racks = {int(b): r or None for b, r in row["racks"].items()}
        factor = Fraction(str(row["request"]["partition_size_factor"]))
        free = {b: Fraction(round(row["storage_free"][str(b)] * SCALE)) for b in row["request"]["brokers"]}
        self.violations = sum(breaks_rack_rule(new, racks, row["request"]["min_rack_ids"]) for new in placed)
        self.unplaced = self.replicas = self.bytes = 0
        self.empty = sum(not new for new in placed)
        for p, new, found in zip(decided.scope.partitions, after, placed, strict=True):
            size = p.size_bytes or 0
            arrived = set(new) - set(p.current)
            self.unplaced += p.wanted - len(found)
            self.replicas += len(arrived)
            self.bytes += len(arrived) * size
            for b in set(p.current) - set(new):
                free[b] = free.get(b, Fraction(0)) + size
            for b in arrived:
                free[b] -= size * factor
        listed = [free[b] for b in row["request"]["brokers"]]
        self.range = int(max(listed) - min(listed))
        self.overfull = min(listed) < 0
        self.standing = frozenset((i, b) for i, new in enumerate(after) for b in new)
        self.sizes = [len(new) for new in after]


def leader_spread(row: Mapping[str, Any], after: Lists) -> int:
    """The sum of squares of leaders by broker: the smaller, the more even."""
    leaders = Counter(new[0] for new in after if new)
    return sum(leaders[b] ** 2 for b in row["request"]["brokers"])


@pytest.mark.skipif(not RECORDS.exists(), reason="the peer's records are not beside this checkout")
def test_no_worse_than_kafka_kit_on_any_storage_request(capsys: pytest.CaptureFixture[str]) -> None:
    tally: Counter[str] = Counter()
    rows = storage_requests()
    assert len(rows) == 114
    for number, row in enumerate(rows):
        snapshot = snapshot_of(row)
        decided = decide_rebuild(snapshot, request_of(row))
        plan, seen = json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot))
        verify_plan(plan, seen, allow_unplaced=any(decided.unplaced))
        verify_storage_rebuild(plan, seen)
        theirs = {(t, p): tuple(replicas) for t, p, replicas in row["topicmappr"]["after"]}
        left = [theirs[p.key] for p in decided.scope.partitions]
        peer, ours = Side(row, decided, left, left), Side(row, decided, decided.after, placed_by(decided))
        _compare(number, peer, ours, tally)
        _compare_leaders(row, decided, peer, ours, tally)
    with capsys.disabled():
        print(f"\n{len(rows)} storage requests: kafka-kit -> kafkakit (worse on none)")
        for name in sorted(tally):
            print(f"  {name}: {tally[name]}")


def placed_by(decided: Rebuild) -> Lists:
    """The lists of what is placed; a partition that finds no place keeps its list, where kafka-kit empties it."""
    rows = zip(decided.after, decided.scope.partitions, decided.unplaced, strict=True)
    return [row if short < p.wanted else () for row, p, short in rows]


def _compare(number: int, peer: Side, ours: Side, tally: Counter[str]) -> None:
    assert ours.violations <= peer.violations, f"request {number}: rack violations"
    assert not ours.overfull, f"request {number}: a broker has less than nothing free"
    tally["1 unplaced replicas, kafka-kit"] += peer.unplaced
    tally["1 unplaced replicas, kafkakit"] += ours.unplaced
    tally["2 brokers driven below nothing free, kafka-kit"] += peer.overfull
    if peer.overfull:
        # Its plan cannot be carried out, so it sets no bar for anything.
        tally["2 more placed by filling beyond the disk, kafka-kit"] += ours.unplaced > peer.unplaced
        return
    assert ours.unplaced <= peer.unplaced, f"request {number}: {ours.unplaced} unplaced, kafka-kit {peer.unplaced}"
    if ours.unplaced < peer.unplaced:
        tally["3 more replicas placed, requests"] += 1
        return
    assert ours.empty <= peer.empty, f"request {number}: more partitions without any replica"
    if ours.empty < peer.empty:
        tally["3 fewer partitions without any replica, requests"] += 1
        return
    if peer.empty:
        # Its plan deletes the last replica of a partition, which takes bytes off a broker that no sound plan does.
        tally["3 as many placed, and no last replica deleted, requests"] += 1
        return
    tally["4 as many placed, requests"] += 1
    assert ours.range <= peer.range, f"request {number}: range {ours.range}, kafka-kit {peer.range}"
    tally["5 range of free bytes, sum, kafka-kit"] += peer.range
    tally["5 range of free bytes, sum, kafkakit"] += ours.range
    tally["5 smaller range, requests"] += ours.range < peer.range
    if ours.sizes == peer.sizes or ours.range == peer.range:
        assert ours.bytes <= peer.bytes, f"request {number}: {ours.bytes} bytes moved, kafka-kit {peer.bytes}"
        assert ours.replicas <= peer.replicas, f"request {number}: {ours.replicas} moved, kafka-kit {peer.replicas}"
    tally["6 replicas moved, kafka-kit"] += peer.replicas
    tally["6 replicas moved, kafkakit"] += ours.replicas
    tally["7 bytes moved, kafka-kit"] += peer.bytes
    tally["7 bytes moved, kafkakit"] += ours.bytes


def _compare_leaders(row: Mapping[str, Any], decided: Rebuild, peer: Side, ours: Side, tally: Counter[str]) -> None:
    """After --optimize-leadership; compared where both place the same replicas of as many partitions."""
    # What --optimize-leadership does to the lists; deciding again would search every placement again.
    after = even_leaders(decided.scope.partitions, decided.after, row["request"]["brokers"], {})
    theirs = {(t, p): tuple(replicas) for t, p, replicas in row["topicmappr"]["after_optimize_leadership"]}
    peer_lists = [theirs[p.key] for p in decided.scope.partitions]
    mine, other = leader_spread(row, after), leader_spread(row, peer_lists)
    if ours.standing == peer.standing:
        assert mine <= other, f"leaders {mine}, kafka-kit {other}"
        tally["8 same replicas: squares of leaders, kafka-kit"] += other
        tally["8 same replicas: squares of leaders, kafkakit"] += mine
        tally["8 same replicas, requests"] += 1
    elif not peer.overfull and ours.sizes == peer.sizes:
        tally["9 same counts: squares of leaders, kafka-kit"] += other
        tally["9 same counts: squares of leaders, kafkakit"] += mine
        tally["9 same counts: worse leaders, requests"] += mine > other
