"""Series of moves on clusters in memory: the pace, what is left, other targets, and processes that end anywhere."""

from dataclasses import replace

import pytest

from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.streams.failover.api import (
    DeadLetterChoice,
    EndKind,
    FailoverRequest,
    FenceChoice,
    OperationKind,
    ReadOrder,
)
from kafkakit.streams.failover.api_act import StreamOperation
from kafkakit.streams.model.route import RouteOperation
from kafkakit.streams.moves.decide import (
    HOUR_MS,
    NOT_PLANNED,
    MovePace,
    Series,
    SeriesKind,
    left_over,
    most_in_an_hour,
)
from tests.rigs.moves import MovesScene
from tests.rigs.routes import Killed


@pytest.fixture(autouse=True)
def _clients_of_the_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkakit.streams.client import api_act

    monkeypatch.setattr(api_act, "read_clients", lambda store, stream: store.registrations())


@pytest.fixture
def scene() -> MovesScene:
    return made(4)


def made(streams: int) -> MovesScene:
    scene = MovesScene(streams)
    scene.store.registrations = lambda: [each.registration() for each in scene.clients]  # type: ignore[attr-defined]
    return scene


def test_every_stream_leaves_and_no_more_at_once_than_allowed(scene: MovesScene) -> None:
    end = scene.evacuate(pace=MovePace(at_once=3))
    assert (end.kind, end.left) == (EndKind.DONE, ())
    assert set(scene.where().values()) == {"q"}
    assert end.record.most_open == 3
    assert len(end.record.begins_ms) == 4


def test_begins_keep_to_the_hour(scene: MovesScene) -> None:
    began_s = scene.clock.elapsed
    end = scene.evacuate(pace=MovePace(at_once=4, per_hour=1))
    assert end.kind is EndKind.DONE
    assert most_in_an_hour(end.record.begins_ms) == 1
    assert scene.clock.elapsed - began_s >= 3 * HOUR_MS / 1000
    assert sum("pace allows" in line for line in scene.reporter.lines) >= 1


def test_the_hour_counts_begins_of_the_process_before_and_of_the_plan_before(scene: MovesScene) -> None:
    scene.readers.clear()
    scene.write("orders.live.1")
    scene.evacuate(pace=MovePace(at_once=1))
    first = scene.record().begins_ms
    assert len(first) == 4
    scene.readers.append("billing")
    scene.add_stream("late")
    end = scene.evacuate(pace=MovePace(at_once=1, per_hour=4), replan=True)
    assert end.record.series.earlier_ms == first
    assert end.kind is EndKind.DONE
    assert most_in_an_hour((*first, *end.record.begins_ms)) == 4


def test_a_stream_that_waits_is_left_open_and_taken_up_again(scene: MovesScene) -> None:
    scene.readers.clear()
    scene.write("s1.live.1", 7)
    end = scene.evacuate()
    assert end.kind is EndKind.WAITING
    assert [(each.stream, each.why.partition(";")[0]) for each in end.left] == [("s1", "backlog")]
    scene.readers.append("billing")
    scene.tick()
    again = scene.evacuate()
    assert (again.kind, again.left) == (EndKind.DONE, ())
    # What was open only took its place again.
    assert len(again.record.begins_ms) == 4


def test_a_refused_stream_keeps_no_other(scene: MovesScene) -> None:
    scene.p.admin.topics["s0.live.1"].configs["cleanup.policy"] = "compact"
    end = scene.evacuate()
    assert end.kind is EndKind.REFUSED
    assert [each.stream for each in end.left] == ["s0"]
    assert "compacted" in end.left[0].why
    assert [name for name, where in scene.where().items() if where == "p"] == ["s0"]
    end = scene.evacuate(allow_compacted=True)
    assert end.kind is EndKind.DONE


def test_a_late_writer_shows_in_the_end(scene: MovesScene) -> None:
    scene.readers.clear()
    scene.write("s1.live.1", 7)
    scene.evacuate()
    scene.write("s1.live.1")
    end = scene.evacuate()
    assert (end.kind, [each.stream for each in end.left]) == (EndKind.LATE, ["s1"])


def test_a_stream_that_came_later_is_listed_and_planned_next(scene: MovesScene) -> None:
    planner = scene.planner()
    series = planner.evacuation("p", ["q"])
    scene.add_stream("late")
    end = scene.carry_out(series, None, MovePace(at_once=2))
    assert [(each.stream, each.why) for each in end.left] == [("late", NOT_PLANNED)]
    assert end.kind is EndKind.WAITING
    assert scene.evacuate().kind is EndKind.DONE


def test_a_stream_that_was_deleted_meanwhile_is_done(scene: MovesScene) -> None:
    series = scene.planner().evacuation("p", ["q"])
    scene.routes.delete("s2", scene.routes.existing("s2").route, by="me", what="x", at_ms=2)
    scene.names.remove("s2")
    end = scene.carry_out(series, None, MovePace(at_once=2))
    assert (end.kind, end.record.ends["s2"].reason) == (EndKind.DONE, "deleted")
    assert len(end.record.begins_ms) == 3


def test_an_operation_of_another_operator_is_left_alone(scene: MovesScene) -> None:
    route = scene.routes.existing("s0").route
    other = RouteOperation(id="000002-failover-x", kind="failover", step="opened")
    scene.routes.change("s0", lambda _: replace(route, operation=other), by="eve", what="x", at_ms=2)
    end = scene.evacuate()
    assert (end.kind, [each.stream for each in end.left]) == (EndKind.REFUSED, ["s0"])


def test_lanes_on_other_clusters_stay(scene: MovesScene) -> None:
    scene.add_stream("two", lanes=("live", "slow"))
    scene.add_stream("other", cluster="r")
    scene.tick()
    scene.evacuate("q", pace=MovePace(at_once=9))
    request = scene.request(stream="two", to="p", lanes=("slow",))
    operation = StreamOperation(scene.ports(), request)
    operation.advance(wait_s=60)
    operation.close()
    assert (scene.active("two").cluster, scene.active("two", "slow").cluster) == ("q", "p")
    end = scene.evacuate("r")
    assert [(move.stream, move.lanes) for move in end.record.series.moves] == [("two", ("slow",))]
    assert (scene.active("two").cluster, scene.active("two", "slow").cluster) == ("q", "r")
    assert end.left == ()


def test_other_targets_are_another_plan(scene: MovesScene) -> None:
    scene.readers.clear()
    scene.write("orders.live.1")
    scene.evacuate("q")
    with pytest.raises(RefusedError, match="planned for q"):
        scene.evacuate("r")
    with pytest.raises(UsageError, match="other clusters"):
        scene.evacuate("p", replan=True)


def test_streams_are_spread_over_several_targets_by_what_is_written() -> None:
    scene = made(5)
    for name, rate in zip(scene.names, (60, 30, 20, 10, 0), strict=True):
        scene.rate(name, rate)
    series = scene.planner().evacuation("p", ["q", "r"])
    loads: dict[str, int] = {}
    for move in series.moves:
        loads[move.to] = loads.get(move.to, 0) + move.load
    assert all(load in (60, 61) for load in loads.values())  # rates are rounded up
    assert series.figures is not None
    assert series.figures.is_proven
    assert series.sha256 == scene.planner().evacuation("p", ["q", "r"]).sha256


def test_an_emergency_moves_producers_off_a_cluster_that_is_away(scene: MovesScene) -> None:
    scene.readers.clear()
    scene.consumer("billing")
    for name in scene.names:
        scene.write(f"{name}.live.1", 3)
    scene.p.is_away = True
    end = scene.evacuate("q", "r", is_emergency=True)
    assert end.kind is EndKind.WAITING
    assert {each.why.partition(";")[0] for each in end.left} == {"stranded"}
    assert sorted(scene.where().values()) == ["q", "q", "r", "r"]
    scene.p.is_away = False
    scene.readers.append("billing")
    with pytest.raises(RefusedError, match="--emergency"):
        scene.evacuate("q", "r")
    assert scene.evacuate("q", "r", is_emergency=True).kind is EndKind.DONE


def writes_of_an_evacuation() -> int:
    scene = made(2)
    before = scene.store.count
    scene.evacuate()
    return scene.store.count - before


@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_ends_at_any_write_is_continued_within_the_pace(*, after: bool) -> None:
    total = writes_of_an_evacuation()
    assert total > 20
    for number in range(total):
        scene = made(2)
        scene.store.cut, scene.store.after = scene.store.count + number, after
        try:
            scene.evacuate(pace=MovePace(at_once=1, per_hour=2))
        except Killed:
            scene.store.cut = None
        end = scene.evacuate(pace=MovePace(at_once=1, per_hour=2))
        assert (end.kind, end.left) == (EndKind.DONE, ()), number
        assert set(scene.where().values()) == {"q"}
        assert end.record.most_open <= 1
        assert most_in_an_hour(end.record.counted_ms) <= 2


def test_nothing_is_left_of_a_series_that_was_not_begun(scene: MovesScene) -> None:
    scene.evacuate()
    record = scene.record()
    assert list(left_over(record, [scene.routes.existing(name).route for name in scene.names])) == []


def test_a_series_has_the_hash_that_it_had_when_options_were_copied() -> None:
    template = FailoverRequest(
        stream="",
        to="",
        fence=FenceChoice.QUOTA,
        groups=("a", "b"),
        ignored=("c",),
        quiet_s=180.0,
        max_duplicates=7,
        is_open_by_default=True,
        kind=OperationKind.MOVE,
        order=ReadOrder.STRICT,
        dead_letters=DeadLetterChoice.COPY,
    )
    series = Series(
        kind=SeriesKind.EVACUATE,
        subject="west",
        cluster_id="c",
        targets=("east",),
        moves=(),
        template=template,
        operator="me",
        started_ms=5,
    )
    assert series.sha256 == "4dd18e6ecab68fae65f8334722b5d67a9de9f8c25ac5cae137418f5379c1d73d"
