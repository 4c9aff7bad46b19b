"""Routes in a control store: whatever is cut, lost and interleaved, epochs grow and the history tells what came."""

from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import ConflictError, InputError, RefusedError, TryLaterError, UsageError
from kafkakit.streams.model.route import (
    LIVE,
    PartitionSeal,
    Route,
    RouteOperation,
    SegmentState,
    decode_route,
    encode_route,
    problem_of,
)
from kafkakit.streams.model.route_edits import (
    begun,
    ended,
    new_route,
    opened,
    paused,
    retired,
    routed,
    sealed,
    stranded,
    unopened,
    unsealed,
    with_topic,
    without_lane,
)
from kafkakit.streams.routes.api_act import RouteStore
from tests.rigs.routes import CutStore, Killed, route, segment

WRITERS = ("a", "b", "c")
FAULTS = ("none", "lost", "refused", "killed before", "killed after")


def pushed(found: Route) -> Route:
    """The route with one more segment id used: each change can be counted."""
    return replace(found, next_segment=found.next_segment + 1)


class Interleaved(CutStore):
    """Before a write, another writer may make a whole change."""

    def __init__(self, others: list[tuple[int, str]]) -> None:
        super().__init__()
        self.others = others
        self.inside = False
        self.done: list[str] = []

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        due = [other for other in self.others if other[0] == self.count]
        if due and not self.inside:
            self.others.remove(due[0])
            self.inside = True
            try:
                act(self, due[0][1], "change")
            finally:
                self.inside = False
        return super()._replace(path, value, expected)


def act(store: Interleaved, name: str, verb: str) -> None:
    routes = RouteStore(store)
    try:
        if verb == "create":
            routes.create(route(), by=name, what=verb, at_ms=1)
        elif verb == "delete":
            routes.delete("orders", routes.existing("orders").route, by=name, what=verb, at_ms=1)
        else:
            routes.change("orders", pushed, by=name, what=verb, at_ms=1)
    except (UsageError, ConflictError, TryLaterError):
        return
    except Killed:
        store.cut = None
        return
    store.done.append(verb)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(WRITERS), st.sampled_from(("create", "change", "change", "delete")),
                  st.sampled_from(FAULTS), st.integers(0, 3)),
        max_size=12,
    ),
    others=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(WRITERS)), max_size=6),
)  # fmt: skip
def test_epochs_grow_and_every_change_that_was_reported_is_in_the_history(
    steps: list[tuple[str, str, str, int]], others: list[tuple[int, str]]
) -> None:
    store = Interleaved(list(others))
    epochs: list[int] = []
    for name, verb, fault, ahead in steps:
        at = store.count + ahead
        if fault == "lost":
            store.lost.add(at)
        elif fault == "refused":
            store.refused.add(at)
        elif fault != "none":
            store.cut, store.after = at, fault == "killed after"
        act(store, name, verb)
        store.cut = None
        found = RouteStore(store).read("orders")
        if found is not None:
            epochs.append(found.route.epoch)
    assert epochs == sorted(epochs)
    store.lost, store.refused = set(), set()
    kept = RouteStore(store).history("orders")
    came = [each.change for each in kept if each.in_effect]
    found = RouteStore(store).read("orders")
    if found is not None:
        assert came[-1].route == found.route
        created = max(n for n, change in enumerate(came) if change.what == "create")
        assert found.route.next_segment == route().next_segment + len(came) - 1 - created
    for verb in ("create", "change", "delete"):
        assert [change.what for change in came].count(verb) >= store.done.count(verb)


EDITS = st.tuples(st.sampled_from(("add", "add", "pause", "resume", "remove")), st.sampled_from((LIVE, "a", "b", "c")))


@given(st.lists(EDITS, max_size=30))
def test_every_edit_leaves_a_valid_route_that_keeps_what_it_does_not_name(edits: list[tuple[str, str]]) -> None:
    found = new_route("orders", [(LIVE, segment(0, topic="t0"))])
    used = {1}
    for number, (verb, lane) in enumerate(edits, 1):
        before = found
        try:
            if verb == "add":
                found = with_topic("orders", found, lane, segment(0, topic=f"t{number}"))
            elif verb == "remove":
                found = without_lane(found, lane)
            else:
                found = paused(found, lane, is_paused=verb == "pause")
        except UsageError:
            assert before.lane(lane) is None or (verb, lane) == ("remove", LIVE)
            continue
        assert problem_of(found) is None
        assert decode_route(encode_route(found), "r") == found
        fresh = {s.id for _, s in found.segments()} - {s.id for _, s in before.segments()}
        assert len(fresh) == (verb == "add")
        assert fresh.isdisjoint(used)
        used |= fresh
        assert [each for each in found.lanes if each.name != lane] == [e for e in before.lanes if e.name != lane]


MOVES = st.tuples(
    st.sampled_from(("open", "open", "route", "route", "back", "strand", "seal", "unseal", "retire", "end")),
    st.sampled_from(("live", "bulk")),
)


@given(st.lists(MOVES, max_size=40))
def test_whatever_operations_do_each_lane_has_one_active_segment_and_nothing_unsealed_leaves(
    moves: list[tuple[str, str]],
) -> None:
    found = route("orders", "live", "bulk")
    for number, (verb, name) in enumerate(moves):
        before, target = found, {name: segment(0, topic=f"t-{number}", cluster="c2")}
        lane = found.lane(name)
        assert lane is not None
        try:
            found = begun(found, RouteOperation(id=f"f-{number}", kind="move", step="planned"))
        except RefusedError:
            assert before.operation is not None
        left = [each for each in lane.segments if each.state not in (SegmentState.OPENED, SegmentState.ACTIVE)]
        ids = [each.id for each in left]
        try:
            match verb:
                case "open":
                    found = opened(found, target)
                case "route":
                    found = routed(found, (name,))
                case "back":
                    found = unopened(found, {name: lane.segments[-1]})
                case "strand":
                    found = stranded(found, ids)
                case "seal":
                    seals = {each.id: (PartitionSeal(0, number, 0, 0), PartitionSeal(1, 9, 9, 9)) for each in left}
                    found = sealed(found, seals, at_ms=1 + number)
                case "unseal":
                    found = unsealed(found, ids)
                case "retire":
                    found = retired(found, ids)
                case _:
                    found = ended(found, found.operation.id if found.operation else "none")
        except RefusedError:
            assert verb not in ("open", "end")
        assert problem_of(found) is None
        assert decode_route(encode_route(found), "r") == found
        for old, new in zip(before.lanes, found.lanes, strict=True):
            assert new.active is not None
            gone = {each.id: each for each in old.segments if each.id not in {s.id for s in new.segments}}
            assert all(each.seal or (verb == "back" and each.state is SegmentState.OPENED) for each in gone.values())
            assert new == old or new.name == name


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: encode_route(route()) + text.encode()))
def test_any_bytes_are_a_route_or_an_input_error(data: bytes) -> None:
    store = CutStore()
    store.cas("streams/orders/route", data or b" ", None)
    found = None
    with suppress(InputError):
        found = RouteStore(store).existing("orders").route
    assert found in (None, route())
