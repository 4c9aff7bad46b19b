"""A plan's certificate counts what the plan makes, and keeps no bound that is above that."""

from dataclasses import replace

import pytest

from kafkakit.core.model import Broker, Partition
from kafkakit.core.plan import Proof, ProofKind, SolverStatus, certificate
from kafkakit.topicmappr.decide.assembly import PlanDecision, assemble
from kafkakit.topicmappr.decide.scope import TopicScope, scope_of
from tests.clusters.shapes import make_snapshot

SNAPSHOT = make_snapshot(
    (Broker(id=b) for b in (1, 2, 3)),
    {"t": [Partition(partition=0, replicas=(1, 2), size_bytes=5)]},
    sizes_taken=False,
)


@pytest.mark.parametrize(
    ("unit", "objective", "bound", "made", "kept"),
    [
        ("replicas", 1, 1, 1, 1),
        ("replicas", 3, 1, 1, 1),
        ("replicas", 3, 2, 1, 0),
        ("replicas", 1, 2, 1, 0),
        ("bytes", 9, 4, 5, 4),
        ("bytes", 9, 6, 5, 0),
        ("leaders", 2, 2, 1, 0),
    ],
)
def test_a_bound_above_the_plan_is_left_out(unit: str, objective: int, bound: int, made: int, kept: int) -> None:
    scope = scope_of(SNAPSHOT, TopicScope(topics=("t",), sized=True))
    found = certificate(unit, objective, bound, "so it is", Proof(kind=ProofKind.COUNTING))
    decision = PlanDecision(replicas=[(3, 2)], certificate=found, targets=(1, 2, 3))
    proven = assemble(SNAPSHOT, {}, scope, decision).certificate
    assert (proven.objective, proven.lower_bound) == (made, kept)
    assert proven.status is (SolverStatus.OPTIMAL if made == kept else SolverStatus.FEASIBLE)
    assert proven.argument.startswith("so it is" if kept else "nothing is proven")
    assert proven.proof is not None
    assert (proven.proof.kind is ProofKind.NONE) == (not kept)
    still = assemble(SNAPSHOT, {}, scope, replace(decision, replicas=[(1, 2)])).certificate
    assert still == found
