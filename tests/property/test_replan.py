"""Replanning under random drift: a plan that nothing touched stays, and whatever is written passes the checker."""

import json
from dataclasses import replace
from fractions import Fraction

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import Plan
from kafkakit.core.plan_rules import check_plan
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.drain import decide_drain
from kafkakit.topicmappr.decide.plain_requests import DrainRequest
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.replan import MoveChange, Replan, decide_replan
from kafkakit.topicmappr.decide.request_fields import Ceilings, LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest, RebuildRequest
from tests.clusters.drift import UNIT, drifted, half_done, sized
from tests.invariants.replan import verify_replan

RUNS = settings(
    database=None,
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
KINDS = ("rebuild", "forced", "drain", "band", "range", "tightest")
CEILINGS = ("max-replicas", "max-leaders", "max-topic-leaders")


@st.composite
def plans(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, *, limited: bool = False) -> tuple[ClusterSnapshot, Plan]:
    """A cluster and a plan for it that moves something, of any of these kinds; balances may be `limited`."""
    snapshot, kind = draw(sized()), draw(st.sampled_from(kinds))
    most = {name: draw(st.sampled_from([None, None, 3, 5, 8, 12])) if limited else None for name in CEILINGS}
    counts = draw(st.sampled_from([None, 20, 60])) if limited else None
    ids = [b.id for b in snapshot.brokers]
    words = {"command": f"topicmappr {'rebalance' if kind in ('band', 'range', 'tightest') else 'rebuild'}"}
    everyone = BrokerList(ids=tuple(ids))
    try:
        if kind == "drain":
            leaving = BrokerList(ids=(draw(st.sampled_from(ids)),))
            request = DrainRequest(leaving=leaving, topics=(".*",),
                                   words={"command": "topicmappr drain", "brokers": str(leaving.ids[0])})  # fmt: skip
            plan = decide_drain(snapshot, request).plan
        elif kind in ("rebuild", "forced"):
            kept = BrokerList(ids=tuple(ids[1:]) if draw(st.booleans()) else tuple(ids))
            words |= {"force-rebuild": "true"} if kind == "forced" else {}
            plan = decide_rebuild(
                snapshot, RebuildRequest(brokers=kept, topics=(".*",), force_rebuild=kind == "forced", words=words)
            ).plan
        else:
            goals = {
                "band": LoadGoal(band=Fraction(draw(st.sampled_from([5, 30, 80])), 100)),
                "range": LoadGoal(free_range_bytes=draw(st.integers(0, 40)) * UNIT),
                "tightest": LoadGoal(max_moved_bytes=draw(st.integers(0, 60)) * UNIT),
            }
            goal = replace(goals[kind], count_band=None if counts is None else Fraction(counts, 100))
            words |= {name: str(n) for name, n in most.items() if n is not None}
            words |= {"count-band": f"{counts}%"} if counts else {}
            words |= {"band": f"{float(goal.band) * 100:g}%"} if goal.band is not None else {}
            words |= {"free-range": str(goal.free_range_bytes)} if goal.free_range_bytes is not None else {}
            balance = RebalanceRequest(
                brokers=everyone,
                topics=(".*",),
                goal=goal,
                ceilings=Ceilings(**{name.replace("-", "_"): n for name, n in most.items()}),
                words=words,
            )
            plan = decide_rebalance(snapshot, balance).plan
    except KafkakitError:
        assume(False)
        raise
    assume(plan.moves and not plan.warnings)
    return snapshot, plan


def verified(found: Replan, now: ClusterSnapshot) -> Replan:
    written = json.loads(encode_plan(found.plan))
    check_plan(found.plan, "new")
    if not found.left_alone:  # else the plan is refused unless told, and says which partitions it does not serve
        verify_replan(written, json.loads(encode_snapshot(now)))
    assert bool(found.left_alone) == bool(found.reasons)
    return found


@RUNS
@given(st.data())
def test_a_plan_that_nothing_touched_stays_as_it_is(data: st.DataObject) -> None:
    snapshot, plan = data.draw(plans())
    now = data.draw(half_done(snapshot, plan))
    found = verified(decide_replan(plan, now), now)
    assert not found.differs, found.changes
    assert found.intact
    assert found.drift == ()
    left = {m.key: m.after for m in found.plan.moves}
    done = {c.key for c in found.having(MoveChange.DONE)}
    assert left == {m.key: m.after for m in plan.moves if m.key not in done}


@RUNS
@given(st.data())
def test_whatever_drifts_the_new_plan_is_sound_and_keeps_what_runs(data: st.DataObject) -> None:
    snapshot, plan = data.draw(plans())
    now = data.draw(drifted(snapshot, plan))
    try:
        found = decide_replan(plan, now)
    except (InfeasibleError, TryLaterError, UsageError):
        return
    verified(found, now)
    alive = {b.id for b in now.brokers if b.is_alive}
    planned = {m.key: m.after for m in plan.moves}
    after = {m.key: m.after for m in found.plan.moves}
    for move in now.reassignments:
        ours = planned.get((move.topic, move.partition)) == move.target  # type: ignore[call-overload]
        if ours and alive.issuperset(move.adding):
            assert after[move.topic, move.partition] == move.target, "a running move keeps its target"  # type: ignore[index]
    if found.holds:
        kept = {key: new for key, new in after.items() if key in planned}
        assert all(set(planned[key]) == set(new) for key, new in kept.items()), "it holds, and moves change"


@RUNS
@given(st.data())
def test_replanning_again_changes_nothing(data: st.DataObject) -> None:
    snapshot, plan = data.draw(plans())
    now = data.draw(drifted(snapshot, plan))
    try:
        first = decide_replan(plan, now)
    except (InfeasibleError, TryLaterError, UsageError):
        return
    assume(first.plan.moves and not first.plan.warnings)
    assume(not any("cannot end" in note for note in first.plan.notes))  # these are to be cancelled first
    again = verified(decide_replan(first.plan, now), now)
    assert not again.having(MoveChange.CHANGED, MoveChange.DROPPED), again.changes


@RUNS
@given(st.data())
def test_a_balance_keeps_its_limits_when_it_is_replanned(data: st.DataObject) -> None:
    """The checker of all plans counts what brokers hold and lead; without drift the plan stays as it is."""
    snapshot, plan = data.draw(plans(("band", "range", "tightest"), limited=True))
    now = data.draw(half_done(snapshot, plan))
    found = verified(decide_replan(plan, now), now)
    assert not found.differs, found.changes
    now = data.draw(drifted(snapshot, plan))
    try:
        found = decide_replan(plan, now)
    except (InfeasibleError, TryLaterError, UsageError) as error:
        event(f"{type(error).__name__}, {'limits' if '--' in error.message else 'other'}")
        return
    event("changed" if found.differs else "as it was")
    verified(found, now)
