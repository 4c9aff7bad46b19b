"""What an operation does to a route, what it may not do, and what other changes may not do meanwhile."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafkakit.core.errors import RefusedError
from kafkakit.streams.model.route import PartitionSeal, Route, RouteOperation, SegmentState, problem_of
from kafkakit.streams.model.route_edits import (
    at_step,
    begin_operation,
    drop_opened,
    end_operation,
    open_segments,
    pause_lane,
    retire_segments,
    route_lanes,
    seal_segments,
    strand_segments,
    unseal_segments,
    with_lane,
    with_quotas,
    with_topic,
    without_lane,
)
from kafkakit.streams.routes.act.store import RouteStore
from tests.fakes.control import FakeControlStore
from tests.rigs.routes import route, segment

OPERATION = RouteOperation(id="f-1", kind="failover", step="planned")
BEGUN = begin_operation(with_lane(route("orders", "live"), "bulk", segment(0, topic="b")), OPERATION)
TARGETS = {"live": segment(0, topic="live.2", cluster="c2"), "bulk": segment(0, topic="bulk.2", cluster="c2")}
OPENED = open_segments(BEGUN, TARGETS)
ROUTED = route_lanes(OPENED, ("live", "bulk"))
SEAL = (PartitionSeal(0, 12, 12, 10), PartitionSeal(1, 0, 0, 0))
SEALED = seal_segments(ROUTED, {1: SEAL, 2: SEAL}, at_ms=5)


def states(found: Route) -> dict[int, str]:
    return {each.id: each.state.value for _, each in found.segments()}


def test_a_stream_moves_from_one_segment_to_the_next() -> None:
    assert states(OPENED) == {1: "active", 3: "opened", 2: "active", 4: "opened"}
    assert states(ROUTED) == {1: "draining", 3: "active", 2: "draining", 4: "active"}
    assert [each.seal for _, each in SEALED.segments()] == [SEAL, (), SEAL, ()]
    done = end_operation(retire_segments(SEALED, (1, 2)), "f-1")
    assert states(done) == {3: "active", 4: "active"}
    assert (done.operation, done.next_segment, done.lanes[0].segments[0].cluster_id) == (None, 5, "c2-id")
    for each in (BEGUN, OPENED, ROUTED, SEALED, done):
        assert problem_of(each) is None


def test_a_step_that_is_taken_again_changes_nothing() -> None:
    assert begin_operation(BEGUN, replace(OPERATION, step="routed")) == BEGUN
    assert open_segments(OPENED, TARGETS) == OPENED
    assert seal_segments(SEALED, {1: SEAL}, at_ms=9) == SEALED
    gone = retire_segments(SEALED, (1, 2))
    assert retire_segments(gone, (1, 2)) == gone
    assert end_operation(end_operation(gone, "f-1"), "f-1") == end_operation(gone, "f-1")
    assert drop_opened(drop_opened(OPENED, TARGETS), TARGETS) == drop_opened(OPENED, TARGETS)


def test_a_target_is_taken_back_and_what_was_linked_before_stays() -> None:
    linked = begin_operation(with_topic("orders", route(), "live", segment(0, topic="other")), OPERATION)
    one = {"live": TARGETS["live"]}
    back = drop_opened(open_segments(linked, one), one)
    assert back == replace(linked, next_segment=4)
    assert (
        drop_opened(route_lanes(open_segments(linked, one), one), one).lanes[0].segments[-1].state
        is SegmentState.ACTIVE
    )


def test_a_paused_lane_without_an_active_segment_is_moved_too() -> None:
    idle = replace(route(), lanes=(replace(route().lanes[0], segments=(), is_paused=True),))
    found = route_lanes(open_segments(begin_operation(idle, OPERATION), {"live": TARGETS["live"]}), ("live",))
    assert (states(found), found.lanes[0].is_paused) == ({2: "active"}, True)


def test_a_segment_out_of_reach_is_sealed_when_it_is_back_or_while_it_is_away() -> None:
    away = strand_segments(ROUTED, (1,))
    assert states(away)[1] == "stranded"
    assert strand_segments(away, (1,), is_stranded=False) == ROUTED
    assert problem_of(seal_segments(away, {1: SEAL}, at_ms=5)) is None


def test_a_seal_is_taken_back_where_a_segment_grew() -> None:
    assert unseal_segments(SEALED, (1, 2)) == ROUTED


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda: route_lanes(BEGUN, ("live",)), "lane live of stream orders has no opened segment"),
        (lambda: route_lanes(ROUTED, ("live",)), "lane live of stream orders has no opened segment"),
        (lambda: seal_segments(OPENED, {1: SEAL}, at_ms=1), "segment 1 is active, and not draining"),
        (lambda: seal_segments(ROUTED, {9: SEAL}, at_ms=1), "segment 9 is not there, and not draining"),
        (lambda: seal_segments(SEALED, {1: SEAL[::-1]}, at_ms=1), "segment 1 is sealed already, with other ends"),
        (lambda: strand_segments(OPENED, (3,)), "segment 3 is opened, and not draining"),
        (lambda: unseal_segments(ROUTED, (3,)), "segment 3 is active, and not draining"),
        (lambda: retire_segments(ROUTED, (1,)), "segment 1 is not sealed"),
        (lambda: retire_segments(ROUTED, (3,)), "segment 3 is active, and not draining"),
        (lambda: begin_operation(BEGUN, replace(OPERATION, id="f-2")), "failover f-1 is open"),
        (lambda: at_step(BEGUN, "f-2", "routed"), "operation f-2 is not open, f-1 is"),
        (lambda: at_step(route(), "f-2", "routed"), "operation f-2 is not open, none is"),
        (lambda: end_operation(BEGUN, "f-2"), "operation f-2 is not open, f-1 is"),
    ],
)
def test_what_an_operation_may_not_do(edit: Callable[[], Route], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        edit()


@pytest.mark.parametrize(
    "edit",
    [
        lambda found: with_lane(found, "more", segment(0, topic="m")),
        lambda found: with_topic("orders", found, "live", segment(0, topic="m")),
        lambda found: without_lane(found, "bulk"),
        lambda found: pause_lane(found, "live", is_paused=True),
        lambda found: pause_lane(found, "live", is_paused=False),
        lambda found: with_quotas(found, {"live": 1}),
    ],
)
def test_nothing_else_changes_a_stream_while_an_operation_is_open(edit: Callable[[Route], Route]) -> None:
    with pytest.raises(RefusedError, match=r"failover f-1 is open \(step planned\)") as refused:
        edit(BEGUN)
    assert refused.value.hint == "resume or abort it; it is shown by: kafkakit streams failover status orders"
    edit(end_operation(BEGUN, "f-1"))


def test_a_stream_is_not_deleted_while_an_operation_is_open() -> None:
    routes = RouteStore(FakeControlStore())
    found = routes.create(BEGUN, by="me", what="x", at_ms=1)
    with pytest.raises(RefusedError, match="failover f-1 is open"):
        routes.delete("orders", found, by="me", what="x", at_ms=2)
    assert routes.existing("orders").route == found


def test_more_partitions_than_a_document_can_seal_are_refused_before_anything_is_moved() -> None:
    wide = replace(route().lanes[0].segments[0], partitions=1_200)
    found = begin_operation(replace(route(), lanes=(replace(route().lanes[0], segments=(wide,)),)), OPERATION)
    with pytest.raises(RefusedError, match="the ends of 1,200 partitions do not fit"):
        open_segments(found, {"live": TARGETS["live"]})
    fits = replace(found, lanes=(replace(found.lanes[0], segments=(replace(wide, partitions=1_000),)),))
    end = 10**15 - 1
    seal = tuple(PartitionSeal(number, end, end, end) for number in range(1_000))
    whole = seal_segments(
        route_lanes(open_segments(fits, {"live": TARGETS["live"]}), ("live",)), {1: seal}, at_ms=10**12
    )
    store = RouteStore(FakeControlStore())
    store.create(fits, by="me" * 100, what="x" * 500, at_ms=1)
    assert store.change("orders", lambda _: whole, by="me" * 100, what="x" * 500, at_ms=1).lanes == whole.lanes


@pytest.mark.parametrize(
    "wrong",
    [
        {"seal": SEAL[:1]},
        {"seal": SEAL[::-1]},
        {"seal": (PartitionSeal(0, 1, 2, 0), SEAL[1])},
        {"seal": (PartitionSeal(0, 2, 1, 2), SEAL[1])},
        {"seal": (PartitionSeal(0, 1, 1, -1), SEAL[1])},
        {"sealed_at_ms": 0},
        {"seal": ()},
        {"state": SegmentState.OPENED},
    ],
)
def test_a_seal_that_is_none_is_not_valid(wrong: dict[str, object]) -> None:
    lane = SEALED.lanes[0]
    changed = replace(lane.segments[0], **wrong)  # type: ignore[arg-type]
    problem = problem_of(replace(SEALED, lanes=(replace(lane, segments=(changed, lane.segments[1])), SEALED.lanes[1])))
    assert problem is not None
    assert "the seal of segment 1" in problem


@pytest.mark.parametrize("wrong", [{"id": ""}, {"id": "a/b"}, {"kind": "x" * 65}, {"step": "a b"}])
def test_an_operation_has_words_that_paths_take(wrong: dict[str, str]) -> None:
    assert problem_of(replace(BEGUN, operation=replace(OPERATION, **wrong))) is not None
