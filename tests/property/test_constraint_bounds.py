"""Bounds of plans under constraints by tags against a search of all placements on small clusters."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import UsageError
from kafkakit.topicmappr.decide.constraints import TagConstraints
from kafkakit.topicmappr.decide.rebuild.decision import decide_rebuild
from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest
from tests.clusters.strategies import snapshots
from tests.invariants.constraints import broken
from tests.property.test_constraints import RUNS, constraints, read, tagged
from tests.rigs.certificate_checks import breaks_rack_rule

Row = tuple[int, ...]


def legal_sets(
    topic: str, wanted: int, brokers: Sequence[int], racks: Mapping[int, str | None], listed: Sequence[Any]
) -> Iterator[Row]:
    """The sets that keep all racks apart and every constraint in each copy."""
    for row in combinations(brokers, wanted):
        if not breaks_rack_rule(row, racks, 0) and not any(broken(c, topic, (), row, wanted) for c in listed):
            yield row


@RUNS
@given(st.data())
def test_a_forced_rebuild_is_most_even_then_cheapest_and_its_bound_is_true(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=5, max_partitions=4, dead=False).flatmap(tagged))
    asked: TagConstraints = data.draw(constraints())
    without_spread: bool = data.draw(st.booleans())
    if asked.rules and without_spread:
        asked = replace(asked, spread_by=())
    request = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=(".*",),
        force_rebuild=True,
        constraints=asked,
        words={"command": "topicmappr rebuild", "force-rebuild": "true"},
    )
    try:
        decided = decide_rebuild(snapshot, request)
    except UsageError:
        return
    if any(decided.unplaced):
        event("unplaced")
        return
    read(decided.plan, snapshot)
    listed = json.loads(encode_plan(decided.plan))["constraints"]
    racks = {b.id: b.rack for b in snapshot.brokers}
    choices = [list(legal_sets(p.key.topic, p.wanted, sorted(racks), racks, listed)) for p in decided.scope.partitions]
    every = []
    for rows in product(*choices):
        held = Counter(b for row in rows for b in row)
        copies = sum(len(set(row) - set(p.current)) for row, p in zip(rows, decided.scope.partitions, strict=True))
        every.append((sorted((held[b] for b in racks), reverse=True), copies))
    loads = Counter(b for row in decided.after for b in row)
    counts = sorted((loads[b] for b in racks), reverse=True)
    certificate = decided.plan.certificate
    event(f"spread {bool(asked.spread_by)}, gap {certificate.gap:.0%}")
    if asked.spread_by:
        assert certificate.lower_bound <= min(copies for _, copies in every)
    else:
        assert (counts, certificate.objective) == min(every)
        assert certificate.lower_bound <= certificate.objective
