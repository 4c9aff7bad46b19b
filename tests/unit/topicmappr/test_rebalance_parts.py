"""Parts of rebalance; drains placed by free bytes; what refusals say."""

import json
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import pytest

from kafkakit.cli.context import CliContext
from kafkakit.cli.search_watch import watch_search
from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, InterruptedRunError, TerminationRequested, TryLaterError, UsageError
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition
from kafkakit.core.plan_rules import check_plan
from kafkakit.core.selection import BrokerList, parse_broker_list
from kafkakit.placement import network
from kafkakit.placement.network import solving_apart
from kafkakit.placement.problem import Minimize, PlaceBy
from kafkakit.placement.watch import SilentWatch
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.budget import LeftForLater
from kafkakit.topicmappr.decide.drain import decide_drain
from kafkakit.topicmappr.decide.plain_requests import DrainRequest
from kafkakit.topicmappr.decide.rebalance import decide_rebalance, pairs, smallest_tolerance
from kafkakit.topicmappr.decide.rebalance_goal import choose_sources
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.request_fields import LoadGoal, PlanBudget
from kafkakit.topicmappr.decide.requests import GIB, RebalanceRequest, RebuildRequest
from tests.cli.test_rebalance import cluster
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import verify_plan
from tests.rigs.waiting import until

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: None}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((1, 3), (2, 3), [(1, 2)]),
        ((1, 3), (2, 4), [(1, 2), (3, 4)]),
        ((1, 3), (4, 2), [(1, 4), (3, 2)]),  # each in the other's place of the list
        ((1, 3, 5), (5, 2, 4), [(1, 2), (3, 4)]),  # reordered: then by rack
        ((1, 5), (5, 4), [(1, 4)]),
        ((1, 3), (3, 1), []),
    ],
)
def test_who_takes_over_from_whom(
    before: tuple[int, ...], after: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    assert sorted(pairs(before, after, RACKS)) == sorted(expected)


def test_the_tolerance_is_the_least_whole_percent_that_fits_both_sides() -> None:
    mean = 200.0
    assert smallest_tolerance(mean, {1: 207, 2: 190}, [1], [2]) == 0.05
    assert smallest_tolerance(mean, {1: 211, 2: 190}, [1], [2]) == 0.06
    assert smallest_tolerance(mean, {1: 150, 2: 300}, [1], [2]) == 0.01  # the right way: no limit
    assert smallest_tolerance(mean, {1: 214}, [1], []) == 0.07
    assert smallest_tolerance(mean, {}, [], []) == 0.01
    assert smallest_tolerance(0.0, {1: 5}, [1], []) == 0.01


def request(**given: float) -> RebalanceRequest:
    return RebalanceRequest(brokers=BrokerList(ids=(1,)), topics=("t",), words={}, **given)  # type: ignore[arg-type]


def test_sources_by_each_threshold() -> None:
    free = {1: 100 * GIB, 2: 250 * GIB, 3: 300 * GIB, 4: 220 * GIB, 5: 90 * GIB}
    assert choose_sources(free, {5}, request(storage_threshold_gb=230)).brokers == (1, 4)
    assert choose_sources(free, {5}, request(storage_threshold=0)).brokers == (1, 4, 2, 3)
    assert choose_sources(free, {5}, request(storage_threshold=0.2)).brokers == (5, 1)  # new ones too, as in kafka-kit
    assert choose_sources(free, (), request(storage_threshold=0.9)).brokers == ()


def test_means_are_over_brokers_with_space_left() -> None:
    found = choose_sources({1: 0, 2: 2 * GIB, 3: 6 * GIB}, (), request())
    assert (found.mean, found.harmonic_mean) == (4 * GIB, 3 * GIB)
    assert choose_sources({1: 0}, (), request()).mean == 0.0


def test_numbers_that_are_none_are_refused() -> None:
    for words in ({"storage_threshold": float("nan")}, {"storage_threshold_gb": float("inf")}, {"tolerance": -0.1}):
        with pytest.raises(UsageError):
            request(**words)


@pytest.mark.parametrize(
    ("first", "second"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TerminationRequested)]
)
def test_the_handlers_of_signals_are_put_back(
    first: signal.Signals, second: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with watch_search(CliContext()) as watch:
        watch.phase("plan 1")
        assert not watch.stopped()
        signal.raise_signal(first)
        assert watch.stopped()
        with pytest.raises(second):
            signal.raise_signal(first)
    assert {number: signal.getsignal(number) for number in earlier} == earlier
    assert capsys.readouterr().err.splitlines() == [
        "planning",
        "planning: plan 1",
        "stopping: the best plan found so far will be used; press Ctrl-C again to end at once",
    ]


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with watch_search(CliContext()) as watch:
            signal.raise_signal(signal.SIGINT)
            assert not watch.stopped()
    finally:
        signal.signal(signal.SIGINT, earlier)


def test_a_search_ends_while_there_is_time_for_its_report() -> None:
    cli = CliContext()
    cli.take("timeout", "1h", "option")
    with watch_search(cli) as watch:
        assert not watch.stopped()
    cli = CliContext()
    cli.take("timeout", "0.001s", "option")
    with watch_search(cli) as watch:
        until(watch.stopped, "the search goes on")


class StoppingWatch(SilentWatch):
    """Stops the search at one of its looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def stopped(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def no_flow(work: Callable[[], bytes]) -> bytes:
    raise InterruptedRunError("interrupted before a plan was found; nothing was written")


@pytest.mark.parametrize("flows", [True, False])
@pytest.mark.parametrize("looks", [0, 3])
def test_every_search_that_is_stopped_has_a_sound_plan_or_none(
    looks: int, flows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "APART_ARCS", 0)
    rng = random.Random(7)
    lists = [tuple(rng.sample(range(1, 9), 2)) for _ in range(800)]  # too many to be searched to the end
    sizes = [rng.randint(1, 300) for _ in lists]
    racks = {b: "abcd"[b % 4] for b in range(1, 9)}
    snapshot = cluster(lists, sizes, {b: 5000 + 900 * b for b in racks}, racks)
    everywhere = BrokerList(ids=(), everything=True)
    words = {"brokers": "-2", "topics": "a"}
    found = 0
    for goal in (
        LoadGoal(band=Fraction(1, 5)),
        LoadGoal(band=Fraction(1, 1000), best_effort=True),
        LoadGoal(max_moves=20),
    ):
        for minimize in Minimize:
            request = RebalanceRequest(
                brokers=everywhere, topics=("a",), goal=goal, minimize=minimize, words={**words, "command": "x"}
            )
            with suppress(InterruptedRunError), solving_apart((lambda work: work()) if flows else no_flow):
                plan = decide_rebalance(snapshot, request, None, StoppingWatch(looks)).plan
                check_plan(plan, "the plan")
                found += 1
    request_by_bytes = RebuildRequest(
        brokers=everywhere, topics=("a",), force_rebuild=True, placement=PlaceBy.STORAGE, words=words
    )
    with suppress(InterruptedRunError), solving_apart((lambda work: work()) if flows else no_flow):
        check_plan(decide_rebuild(snapshot, request_by_bytes, None, StoppingWatch(looks)).plan, "the plan")
        found += 1
    assert found or not flows, "without a stop in a flow there are plans"


ROWS = [((1, 2), 40), ((1, 3), 30), ((1, 4), 20), ((2, 3), 90)]


def cluster_drain_by_bytes(free: dict[int, int], racks: str = "aabb") -> ClusterSnapshot:
    return make_snapshot(
        (Broker(id=b, rack=racks[b - 1 : b] or None, storage_free_bytes=f) for b, f in free.items()),
        {"a": [Partition(partition=n, replicas=r, size_bytes=s) for n, (r, s) in enumerate(ROWS)]},
    )


def drain(
    snapshot: ClusterSnapshot, brokers: str = "1", limits: dict[str, str] | None = None, **more: object
) -> PlannedChange:
    words = {"command": "topicmappr drain", "brokers": brokers, "placement": "storage", **(limits or {})}
    request = DrainRequest(
        leaving=parse_broker_list(brokers),
        topics=("a",),
        placement=PlaceBy.STORAGE,
        words=words,
        **more,  # type: ignore[arg-type]
    )
    change = decide_drain(snapshot, request)
    verify_plan(json.loads(encode_plan(change.plan)), json.loads(encode_snapshot(snapshot)))
    return change


def targets(change: PlannedChange) -> dict[int, tuple[int, ...]]:
    return {m.partition: m.adding for m in change.plan.moves}


def test_copies_go_where_free_bytes_end_closest() -> None:
    # Rackless, so any broker may take any copy: 100 - 40, 90 - 30 and 80 - 20 are all 60.
    change = drain(cluster_drain_by_bytes({1: 500, 2: 80, 3: 100, 4: 90}, racks=""))
    assert targets(change) == {0: (3,), 1: (4,), 2: (2,)}
    after = {b.broker: b.free_bytes for b in change.plan.after.brokers if b.broker != 1}
    assert after == {2: 60, 3: 60, 4: 60}
    assert change.plan.certificate.objective == change.plan.certificate.lower_bound == 3


def test_a_budget_and_pins_hold_by_bytes_too() -> None:
    snapshot = cluster_drain_by_bytes({1: 500, 2: 80, 3: 100, 4: 90}, racks="")
    change = drain(snapshot, limits={"max-moved-bytes": "50B"}, budget=PlanBudget(max_moved_bytes=50))
    assert sorted(targets(change)) == [1, 2]
    assert change.later == LeftForLater(partitions=1, copies=1, bytes=40)
    change = drain(snapshot, limits={"pin": "a/0"}, pinned=("a/0",))
    assert sorted(targets(change)) == [1, 2]
    assert not change.later.partitions


def test_what_has_no_room_stays_and_is_named() -> None:
    change = drain(cluster_drain_by_bytes({1: 500, 2: 10, 3: 35, 4: 31}, racks=""))
    assert 0 not in targets(change)
    assert change.left_alone == 1
    assert any("a p0" in reason and "short" in reason for reason in change.reasons)


def test_other_brokers_may_be_dead_or_of_unknown_disks() -> None:
    snapshot = cluster_drain_by_bytes({1: 500, 2: 80, 3: 100, 4: 90})
    brokers = tuple(
        replace(b, state=BrokerState.MISSING, storage_free_bytes=None) if b.id == 4 else b for b in snapshot.brokers
    )
    change = drain(replace(snapshot, brokers=brokers), min_rack_ids=1)
    assert all(new and set(new) <= {2, 3} for new in targets(change).values())
    unknown = tuple(replace(b, storage_free_bytes=None) if b.id == 4 else b for b in snapshot.brokers)
    with pytest.raises(TryLaterError, match="Metrics not found for broker 4"):
        drain(replace(snapshot, brokers=unknown))
    narrowed = drain(replace(snapshot, brokers=unknown), receiving=parse_broker_list("2,3"), min_rack_ids=1)
    assert all(set(new) <= {2, 3} for new in targets(narrowed).values())


@pytest.mark.parametrize(("partitions", "words"), [(4, "exhaustive search"), (4000, "it is not proven impossible")])
def test_sets_that_cannot_be_mended(partitions: int, words: str) -> None:
    free = {1: 9000, 2: 9000}
    snapshot = cluster([[1, 2]] * partitions, [1] * partitions, free, dict.fromkeys(free, "a"))
    request = RebalanceRequest(
        brokers=parse_broker_list("-1"),
        topics=(".*",),
        goal=LoadGoal(band=Fraction(1, 2)),
        max_rack_violations=0,
        words={},
    )
    with pytest.raises(InfeasibleError, match=words):
        decide_rebalance(snapshot, request)


def test_topics_without_a_partition_have_no_brokers_in_use() -> None:
    request = RebalanceRequest(brokers=parse_broker_list("-1"), topics=(".*",), words={})
    with pytest.raises(UsageError, match="no broker holds these topics"):
        decide_rebalance(cluster([], [], {1: 5}, {1: "a"}), request)
