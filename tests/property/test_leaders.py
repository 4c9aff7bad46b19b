"""Plans of preferred leaders: invariants hold, and on small clusters levels and changes equal enumeration."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import product

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import SolverStatus
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.leaders import LeadersRequest, decide_leaders
from tests.clusters.strategies import snapshots
from tests.invariants.plan import verify_plan

RUNS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plan_leaders(data: st.DataObject, snapshot: ClusterSnapshot) -> PlannedChange | None:
    ids = [b.id for b in snapshot.brokers]
    some = st.lists(st.sampled_from(ids), min_size=1, unique=True)
    listed = data.draw(st.none() | some)
    away = data.draw(st.none() | some)
    if listed and away:
        away = [b for b in away if b not in listed] or None
    words = {"command": "topicmappr leaders"}
    words |= {"leader-evac-brokers": ",".join(map(str, away))} if away else {}
    try:
        return decide_leaders(
            snapshot,
            LeadersRequest(
                topics=(".*",),
                brokers=BrokerList(ids=tuple(listed)) if listed else None,
                evacuated=BrokerList(ids=tuple(away)) if away else None,
                words=words,
            ),
        )
    except UsageError:  # nobody is left to lead
        return None


@RUNS
@given(st.data())
def test_levels_and_changes_equal_enumeration(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots(max_brokers=6, max_partitions=8))
    change = plan_leaders(data, snapshot)
    if change is None:
        return
    plan = change.plan
    written = json.loads(encode_plan(plan))
    verify_plan(written, json.loads(encode_snapshot(snapshot)))
    assert plan.certificate.status is SolverStatus.OPTIMAL
    assert bool(change.reasons) == bool(change.left_alone)

    may = plan.rules.receivers if plan.rules else ()
    pinned = set(plan.rules.pinned) if plan.rules else set()
    rows = [e.replicas for e in plan.scope if (e.topic, e.partition) not in pinned]
    moved = {(m.topic, m.partition): m.after for m in plan.moves}
    ours = [
        moved.get((e.topic, e.partition), e.replicas)[0] for e in plan.scope if (e.topic, e.partition) not in pinned
    ]
    assert (measure(ours, may), plan.certificate.objective) == best(rows, may)


def best(rows: Sequence[Sequence[int]], may: Sequence[int]) -> tuple[list[int], int]:
    """The most even leader counts, and the fewest changes that reach them, over all choices."""
    return min(
        (measure(leaders, may), sum(leader != row[0] for leader, row in zip(leaders, rows, strict=True)))
        for leaders in product(*([b for b in row if b in may] for row in rows))
    )


def measure(leaders: Sequence[int], may: Sequence[int]) -> list[int]:
    """Counts from the highest down: the smaller such a list, the more even."""
    counts = Counter(leaders)
    return sorted((counts[b] for b in may), reverse=True)
