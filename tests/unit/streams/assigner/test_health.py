"""Health with hysteresis, and the policy of automatic failovers.

Automatic failovers are noted before they begin, a few at once, and never in a dry run.
"""

import threading
from dataclasses import replace

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import ConflictError, LeaseLostError, RefusedError, UsageError
from kafkakit.streams.assigner.act.watching import MOST_AT_ONCE, AutomaticFailovers
from kafkakit.streams.assigner.health import (
    HISTORY_DOCUMENT,
    AssignerOptions,
    AutomaticHistory,
    AutomaticMode,
    AutomaticPolicy,
    AutomaticStart,
    ClusterHealth,
    HealthReason,
    HealthRules,
    PolicyVerdict,
    Probe,
    judge_health,
    verdicts,
)
from kafkakit.streams.model.route import Lane, Route, RouteOperation
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.rigs.assigner import route, worker
from tests.rigs.assigner_loop import Papers, assigner
from tests.rigs.waiting import until

RULES = HealthRules()


def after(*looks: tuple[float, Probe | None], rules: HealthRules = RULES) -> ClusterHealth:
    """The health after looks, each with its time and the newest probe then."""
    found: ClusterHealth | None = None
    for now_s, probe in looks:
        found = judge_health(found, probe, 0.0, now_s, rules)
    assert found is not None
    return found


def answered(sent_s: float, **facts: object) -> Probe:
    return Probe(sent_s=sent_s, latency_s=0.01, **facts)  # type: ignore[arg-type]


def test_a_cluster_that_answers_is_healthy() -> None:
    assert after((0.1, answered(0.1)), (9.0, answered(8.9))).reasons == ()


def test_it_is_unreachable_at_once_when_the_newest_answer_is_too_old() -> None:
    probe = answered(5.0)
    assert after((5.1, probe), (6.4, probe)).is_reachable
    assert not after((5.1, probe), (6.5, probe)).is_reachable


def test_one_that_never_answered_is_unreachable_after_the_same_time() -> None:
    assert after((1.4, None)).is_reachable
    assert after((1.4, None), (1.5, None)).reasons == (HealthReason.UNREACHABLE,)


def test_one_that_comes_and_goes_is_unreachable_all_the_time() -> None:
    looks: list[tuple[float, Probe | None]] = []
    for turn in range(5):
        start_s = 20.0 * turn
        looks += [(start_s + 10, answered(start_s + 10)), (start_s + 15, answered(start_s + 10))]
    assert not after(*looks, (100.0, answered(100.0))).is_reachable
    assert not after(*looks, (100.0, answered(100.0)), (129.0, answered(129.0))).is_reachable
    assert after(*looks, (100.0, answered(100.0)), (130.0, answered(130.0))).is_reachable


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"has_controller": False}, HealthReason.NO_CONTROLLER),
        ({"offline": 1}, HealthReason.OFFLINE),
        ({"under_min_isr": 2}, HealthReason.UNDER_MIN_ISR),
        ({"disk_used": 0.95}, HealthReason.DISK_FULL),
    ],
)
def test_other_reasons_must_hold_for_a_while(facts: dict[str, object], reason: HealthReason) -> None:
    assert after((1.0, answered(1.0, **facts)), (5.9, answered(5.9, **facts))).reasons == ()
    held = [(1.0, answered(1.0, **facts)), (6.0, answered(6.0, **facts))]
    assert after(*held).reasons == (reason,)
    assert after(*held, (7.0, answered(7.0)), (36.0, answered(36.0))).reasons == (reason,)
    assert after(*held, (7.0, answered(7.0)), (37.0, answered(37.0))).reasons == ()


def test_slow_answers_are_a_reason() -> None:
    slow = [(t, Probe(sent_s=t, latency_s=1.2)) for t in (1.0, 6.0)]
    assert after(*slow).reasons == (HealthReason.SLOW,)


POLICY = AutomaticPolicy(mode=AutomaticMode.ON, targets={"a": "b"})
DOWN = after((1.0, None), (2.0, None))
HEALTH = {"a-id": DOWN}
ROUTE = route(4)


def judge(
    policy: AutomaticPolicy = POLICY,
    routes: tuple[Route, ...] = (ROUTE,),
    health: dict[str, ClusterHealth] | None = None,
    seen: tuple[int, int] = (0, 3),
    history: AutomaticHistory | None = None,
    now_s: float = 12.0,
    now_ms: int = 1_000_000_000,
) -> tuple[PolicyVerdict, ...]:
    return verdicts(
        policy,
        routes,
        HEALTH if health is None else health,
        {"a-id": seen},
        history or AutomaticHistory(),
        now_s=now_s,
        now_ms=now_ms,
    )


def reason(**given: object) -> str:
    (found,) = judge(**given)  # type: ignore[arg-type]
    return found.why_not


def test_a_stream_is_moved_by_the_word_of_probes_and_workers() -> None:
    assert judge() == (PolicyVerdict(stream="orders", source="a", target="b"),)


def test_it_is_off_by_default() -> None:
    assert judge(AutomaticPolicy(targets={"a": "b"})) == ()


def test_nothing_is_judged_of_a_cluster_that_is_reached() -> None:
    assert judge(health={"a-id": after((1.0, answered(1.0)))}) == ()


def test_a_stream_that_only_drains_there_stays() -> None:
    lane = Lane(name="live", segments=ROUTE.lanes[0].segments[:0], is_paused=True)
    assert judge(routes=(replace(ROUTE, lanes=(lane,)),)) == ()


@pytest.mark.parametrize("seen", [(0, 0), (0, 1), (2, 2), (3, 4)])
def test_too_few_witnesses_keep_it(seen: tuple[int, int]) -> None:
    assert "workers got no answer" in reason(seen=seen)
    assert reason(seen=(2, 3)) == ""


def test_it_must_be_confirmed_for_a_while() -> None:
    assert "unreachable for 9.9 s of 10 s" in reason(now_s=11.9)


def test_without_a_target_or_with_a_sick_one_it_stays() -> None:
    assert reason(policy=replace(POLICY, targets={"c": "b"})) == "no target for its cluster"
    other = route(1, stream="zz", cluster="b")
    found = judge(routes=(ROUTE, other), health={"a-id": DOWN, "b-id": DOWN})
    assert "the target is not healthy: unreachable" in found[0].why_not


def test_an_open_operation_is_left_alone_unless_it_is_our_own() -> None:
    operation = RouteOperation(id="7", kind="failover", step="planned")
    found = replace(ROUTE, operation=operation)
    assert reason(routes=(found,)) == "operation 7 is open"
    ours = AutomaticHistory(starts=(AutomaticStart(stream="orders", source="a", target="b", at_ms=999_999_000),))
    (verdict,) = judge(routes=(found,), history=ours)
    assert verdict.continues
    assert not verdict.why_not


def test_a_stream_cools_down_and_the_budget_is_of_a_day() -> None:
    def started(stream: str, ago_ms: int) -> AutomaticHistory:
        start = AutomaticStart(stream=stream, source="a", target="b", at_ms=1_000_000_000 - ago_ms)
        return AutomaticHistory(starts=(start,))

    assert "the next time after 3600 s" in reason(history=started("orders", 3_599_000))
    assert reason(history=started("orders", 3_601_000)) == ""
    one = replace(POLICY, per_day=1)
    assert reason(policy=one, history=started("other", 3_601_000)) == "the budget of 1 a day is used"
    assert reason(policy=one, history=started("other", 86_400_001)) == ""


def test_the_budget_holds_within_one_look() -> None:
    routes = tuple(route(1, stream=name) for name in ("s1", "s2", "s3"))
    found = judge(replace(POLICY, per_day=2), routes)
    assert [each.why_not == "" for each in found] == [True, True, False]


def test_a_history_is_read_as_it_was_written_and_forgets_what_is_old() -> None:
    old = AutomaticStart(stream="s", source="a", target="b", at_ms=1)
    new = AutomaticStart(stream="t", source="a", target="b", at_ms=86_400_002)
    history = AutomaticHistory(starts=(old,)).with_start(new)
    assert history.starts == (new,)
    assert HISTORY_DOCUMENT.decode(HISTORY_DOCUMENT.encode(history), "x") == history


@pytest.mark.parametrize(
    "given",
    [
        {"mode": AutomaticMode.ON, "targets": {}},
        {"targets": {"a": "a"}},
        {"targets": {}, "quorum": 0.5},
        {"targets": {}, "witnesses": 0},
        {"targets": {}, "per_day": 0},
    ],
)
def test_a_policy_without_sense_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        AutomaticPolicy(**given)  # type: ignore[arg-type]


class Failover:
    """Notes what is asked for; `gate` holds it up."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def emergency(self, stream: str, target: str) -> str:
        self.asked.append((stream, target))
        assert self.gate.wait(180)
        if self.error is not None:
            raise self.error
        return "done"


class Harness:
    def __init__(self, mode: AutomaticMode = AutomaticMode.ON) -> None:
        self.store, self.failover = FakeControlStore(), Failover()
        self.said: list[str] = []
        self.held: list[Exception] = []
        self.automatic = AutomaticFailovers(
            self.store, SystemClock(), mode, self.failover, self.require_held, self.said.append
        )

    def require_held(self) -> None:
        if self.held:
            raise self.held[0]


def verdict(stream: str = "orders", why_not: str = "", *, continues: bool = False) -> PolicyVerdict:
    return PolicyVerdict(stream=stream, source="a", target="b", why_not=why_not, continues=continues)


def test_a_move_is_noted_and_made_once() -> None:
    stage = Harness()
    stage.failover.gate.clear()
    for _ in range(3):
        assert stage.automatic.carry_out([verdict()]) == ("moved: stream orders from a to b",)
    assert [each.stream for each in stage.automatic.history().starts] == ["orders"]
    stage.failover.gate.set()
    until(lambda: "stream orders to b: done" in stage.said)
    assert stage.failover.asked == [("orders", "b")]


def test_a_dry_run_only_says_so() -> None:
    stage = Harness(AutomaticMode.DRY_RUN)
    assert stage.automatic.carry_out([verdict()]) == ("would be moved (dry run): stream orders from a to b",)
    assert not stage.failover.asked
    assert stage.store.writes == 0


def test_a_refusal_moves_nothing_and_is_said_once() -> None:
    stage = Harness()
    for _ in range(3):
        stage.automatic.carry_out([verdict(why_not="no target for its cluster")])
    assert not stage.failover.asked
    assert stage.said == ["not moved: stream orders from a to b: no target for its cluster"]


def test_without_the_lease_nothing_is_noted_or_begun() -> None:
    stage = Harness()
    stage.held.append(LeaseLostError("lost"))
    with pytest.raises(LeaseLostError):
        stage.automatic.carry_out([verdict()])
    assert not stage.failover.asked
    assert stage.store.writes == 0


def test_what_another_process_noted_meanwhile_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Harness()
    monkeypatch.setattr(stage.store, "cas", lambda *_: (_ for _ in ()).throw(ConflictError("changed")))
    with pytest.raises(ConflictError):
        stage.automatic.carry_out([verdict()])
    assert not stage.failover.asked


def test_a_few_run_at_once_and_errors_are_said() -> None:
    stage = Harness()
    stage.failover.gate.clear()
    stage.failover.error = RefusedError("the target has no space")
    stage.automatic.carry_out([verdict(f"s{n}") for n in range(MOST_AT_ONCE + 2)])
    until(lambda: len(stage.failover.asked) == MOST_AT_ONCE)
    stage.failover.gate.set()
    until(lambda: sum("the target has no space" in line for line in stage.said) == MOST_AT_ONCE)
    assert len(stage.automatic.history().starts) == MOST_AT_ONCE


def test_one_that_is_continued_is_not_counted_again() -> None:
    stage = Harness()
    stage.automatic.carry_out([verdict(continues=True)])
    until(lambda: stage.failover.asked)
    assert stage.automatic.history().starts == ()


def test_the_loop_moves_a_stream_from_a_cluster_that_probes_and_workers_do_not_reach() -> None:
    store, clock, failover = FakeControlStore(), FakeClock(), Failover()
    papers = Papers(store)
    papers.put_route(route(4))
    policy = AutomaticPolicy(mode=AutomaticMode.ON, targets={"a": "b"})
    loop = assigner(store, clock, options=AssignerOptions(), policy=policy, failover=failover)
    workers = {slot: worker(slot) for slot in "xyz"}

    def ticks(count: int) -> None:
        for _ in range(count):
            clock.advance(0.2)
            workers.update({slot: papers.beat(slot, document) for slot, document in workers.items()})
            loop.tick()

    try:
        ticks(100)
        assert not failover.asked  # no worker says so
        workers.update({slot: replace(workers[slot], silent=("a-id",)) for slot in "xy"})
        ticks(2)
        until(lambda: failover.asked == [("orders", "b")])
        ticks(20)
        assert failover.asked == [("orders", "b")]
    finally:
        loop.close()
