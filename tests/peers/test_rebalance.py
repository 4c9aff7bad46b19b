"""kafka-kit's recorded answers to rebalance requests: at its balance or its bytes ours may be no worse on any.

The records lie beside the project, not in it; without them the tests skip. They print the totals of both.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, Partition
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.request_fields import LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import breaks_rack_rule, verify_plan
from tests.places import SHARED

RECORDS = SHARED / "peer-results" / "topicmappr-rebalance.jsonl.gz"
SLACK = 64  # kafka-kit counts in floating point
EVERY_DISK = Fraction(1)  # the records know free bytes only, and kafka-kit no head room


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A placement beside the one before: bytes and copies moved, range of free bytes, sets that break the rule."""

    moved_bytes: int
    moves: int
    free_range: int
    violations: int
    twice: int


def records() -> list[dict[str, Any]]:
    with gzip.open(RECORDS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def snapshot_of(row: Mapping[str, Any]) -> ClusterSnapshot:
    lists: dict[str, dict[int, list[int]]] = {}
    for topic, partition, replicas in row["before"]:
        lists.setdefault(topic, {})[partition] = replicas
    sizes = row["partition_size"]
    return make_snapshot(
        (
            Broker(id=int(b), rack=r or None, storage_free_bytes=int(row["storage_free"][b]))
            for b, r in sorted(row["racks"].items())
        ),
        {
            t: [
                Partition(partition=n, replicas=tuple(r), size_bytes=int(sizes[t][str(n)]))
                for n, r in sorted(rows.items())
            ]
            for t, rows in sorted(lists.items())
        },
    )


def measure(snapshot: ClusterSnapshot, after: Mapping[tuple[str, int], Sequence[int]]) -> Measured:
    """Add everything up from the lists alone."""
    racks = {b.id: b.rack for b in snapshot.brokers}
    free = {b.id: b.storage_free_bytes or 0 for b in snapshot.brokers}
    moved_bytes = moves = violations = twice = 0
    for topic, p in snapshot.partitions():
        old, new, size = p.replicas, after[topic, p.partition], p.size_bytes or 0
        for broker in old:
            free[broker] += size
        for broker in new:
            free[broker] -= size
        copies = len(set(new) - set(old))
        moves += copies
        moved_bytes += copies * size
        violations += breaks_rack_rule(list(new), racks, 0)
        twice += len(set(new)) != len(new)
    spread = max(free.values()) - min(free.values())
    return Measured(moved_bytes=moved_bytes, moves=moves, free_range=spread, violations=violations, twice=twice)


def ask(row: Mapping[str, Any], snapshot: ClusterSnapshot, goal: LoadGoal, most_broken: int | None) -> Measured:
    """Our plan for this goal, checked on its own and measured."""
    request = RebalanceRequest(
        brokers=BrokerList(ids=tuple(int(b) for b in row["racks"])),
        topics=(".*",),
        goal=goal,
        locality_scoped=row["request"]["locality_scoped"],
        max_rack_violations=most_broken,
        max_disk_use=EVERY_DISK,
        words={"command": "topicmappr rebalance"},
    )
    decided = decide_rebalance(snapshot, request)
    verify_plan(json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot)))
    return measure(snapshot, lists_of(decided))


def lists_of(decided: Rebalance) -> dict[tuple[str, int], Sequence[int]]:
    return {(p.key.topic, p.key.partition): row for p, row in zip(decided.scope.partitions, decided.after, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """kafka-kit's answer, and ours at its range and for its bytes."""

    before: Measured
    peer: Measured
    at_range: Measured
    for_bytes: Measured


def compared() -> Iterator[Compared]:
    for number, row in enumerate(records()):
        snapshot = snapshot_of(row)
        before = measure(snapshot, {(t, n): r for t, n, r in row["before"]})
        peer = measure(snapshot, {(t, n): r for t, n, r in row["topicmappr"]["after"]})
        assert before.twice == 0
        if peer.twice:  # such a plan loses replicas, so its balance is no bar
            peer_range, most = before.free_range, None
        else:
            # Where its plan repairs sets by chance, ours is asked to repair as many.
            peer_range, most = peer.free_range, peer.violations if peer.violations < before.violations else None
        at_range = ask(row, snapshot, LoadGoal(free_range_bytes=peer_range + SLACK), most)
        for_bytes = ask(row, snapshot, LoadGoal(max_moved_bytes=peer.moved_bytes + SLACK), most)
        for ours in (at_range, for_bytes):
            assert ours.twice == 0
            assert ours.violations <= before.violations, f"request {number}: {ours} newly breaks sets, before {before}"
        if not peer.twice:
            requested = f"request {number}: {row['request']}, kafka-kit {peer}"
            assert at_range.violations <= peer.violations, f"{requested}, ours {at_range}"
            assert for_bytes.violations <= peer.violations, f"{requested}, ours {for_bytes}"
            assert at_range.free_range <= peer.free_range + SLACK, f"{requested}, ours {at_range}"
            assert at_range.moved_bytes <= peer.moved_bytes + SLACK, f"{requested}, ours {at_range}"
            assert for_bytes.moved_bytes <= peer.moved_bytes + SLACK, f"{requested}, ours {for_bytes}"
            assert for_bytes.free_range <= peer.free_range + SLACK, f"{requested}, ours {for_bytes}"
        yield Compared(before=before, peer=peer, at_range=at_range, for_bytes=for_bytes)


@pytest.mark.skipif(not RECORDS.exists(), reason="the peer's records are not beside this checkout")
def test_no_worse_than_kafka_kit_on_any_rebalance_request(capsys: pytest.CaptureFixture[str]) -> None:
    every = list(compared())
    assert len(every) == 60
    sound = [c for c in every if not c.peer.twice]
    with capsys.disabled():
        print("\n".join(["", *report(every, sound)]))


def report(every: Sequence[Compared], sound: Sequence[Compared]) -> Iterator[str]:
    """Totals of both, and how often ours is better."""
    yield f"{len(every)} rebalance requests: kafka-kit -> kafkakit (better on n requests, worse on none)"
    broken = len(every) - len(sound)
    yield f"  {broken} of kafka-kit's plans name a broker twice ({_total(every, 'twice')} sets), ours none; the others:"
    yield "  at kafka-kit's range:"
    yield from _lines(sound, "at_range", ("moved_bytes", "moves", "violations"))
    yield "  for kafka-kit's bytes:"
    yield from _lines(sound, "for_bytes", ("free_range", "moves", "violations"))
    gain = sum(c.before.free_range - c.for_bytes.free_range for c in sound)
    peer_gain = sum(c.before.free_range - c.peer.free_range for c in sound)
    yield f"    range taken off for the same bytes: {_gib(peer_gain)} -> {_gib(gain)}"


def _lines(rows: Sequence[Compared], side: str, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        peer, ours = _total(rows, name), sum(getattr(getattr(c, side), name) for c in rows)
        slack = SLACK if name in ("moved_bytes", "free_range") else 0
        better = sum(getattr(getattr(c, side), name) < getattr(c.peer, name) - slack for c in rows)
        show = _gib if slack else str
        yield f"    {name.replace('_', ' ')}: {show(peer)} -> {show(ours)} ({better})"


def _total(rows: Sequence[Compared], name: str) -> int:
    return sum(getattr(c.peer, name) for c in rows)


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
